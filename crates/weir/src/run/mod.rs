//! `weir run`, and `weir read`, `write` and `top`, which ask what it runs.

pub mod client;
pub mod cpus;
pub mod foreground;
pub mod instance;
pub mod links;
pub mod name;
pub mod plan;
mod serve;

pub use client::{ReadArgs, TopArgs, WriteArgs};
pub use foreground::RunArgs;
