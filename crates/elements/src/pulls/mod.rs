//! Pulling: in several parts, and by a task.

pub mod gathered;
#[cfg(feature = "host")]
pub mod puller;
