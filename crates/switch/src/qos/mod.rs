//! Limits, priorities and shares, protection, delay and loss: what ports and flows may do.
//!
//! A rate is kept by taking from a sender's ring only the frames that may go, so that the ring fills
//! and the sender slows down, and nothing is queued or dropped inside. Where the ring is not the
//! sender's, as with frames out of a host interface that many use, the frames over the rate wait in a
//! bounded [`delay_line`] of the port or flow and are dropped beyond that.

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
