//! CoreEngine: switches queue elements between tenants and network stack modules.
//!
//! One thread. Each round takes from every queue set in turn, at most its tenant's weight times a
//! batch, and finds the other side of each element in the connection table: \<tenant, socket\> ↔ \<worker
//! of an NSM, socket\>. When a round finds nothing CoreEngine sleeps; a producer that sees that wakes it.

mod engine;
mod limiter;
mod measuring;
mod nsm;
mod peer;
mod restoring;
mod switching;
mod tenant;
mod trace;
mod worker;

pub use engine::{CoreEngine, CoreError};
