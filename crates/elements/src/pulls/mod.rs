//! Pulling: in several parts, and by a task.

pub mod gathered;
pub mod puller;
