//! `weir run`, and its clients `weir read`, `write` and `top`.

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
