//! How elements filter: compiling their rules, and dispatching a batch to outputs.

pub mod compile;
pub mod dispatch;
