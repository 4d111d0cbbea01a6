//! Limits, priorities, shares, protection, delay and loss of ports and flows.
//!
//! A rate is kept by taking from a sender's ring only the frames that may go, so that the ring fills
//! and the sender slows down, and nothing is queued or dropped inside. The price: a sender's frames
//! for other ports wait behind its frames for a port without tokens.
//!
//! Some senders cannot be held back. A host interface carries the frames of many senders, and a
//! full ring slows none of them down. Its frames for a port over its rate wait in the port's
//! backlog, a bounded [`delay_line`], and are dropped beyond that. The same holds for copies of
//! floods, and for frames that came through a patch or were spread over lanes. A flow over its rate
//! has a backlog too, since its sender has other flows. A sender's own rate holds a host interface
//! back as a whole: the kernel's queue fills.
//!
//! A frame counts with its bytes from the Ethernet header on, once, even if it stands for several
//! segments.

pub mod classifier;
pub mod deficit;
pub mod delay_line;
pub mod flow;
pub mod headers;
pub mod policy;
pub mod spoof_guard;
pub mod threshold;
pub mod timers;
pub mod token_bucket;
pub mod waiters;
pub mod wire;
