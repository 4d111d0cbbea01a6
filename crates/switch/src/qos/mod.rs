//! What ports and flows may do: limits, priorities and shares, protection, delay and loss.
//!
//! A limit is kept by taking from a sender's ring only what is allowed, so that the ring fills and
//! the sender slows down, and nothing is queued or dropped inside. Where the ring is not the
//! sender's, as with frames out of a host interface that many use, what is too much waits in a
//! bounded [`line`] of the port or flow and is dropped beyond that.

pub mod bucket;
pub mod classifier;
pub mod crowd;
pub mod headers;
pub mod line;
pub mod protect;
pub mod schedule;
pub mod shape;
pub mod timer;
