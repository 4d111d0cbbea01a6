//! What most of the engine's modules use.

pub use alloc::boxed::Box;
pub use alloc::string::{String, ToString};
pub use alloc::sync::Arc;
pub use alloc::vec::Vec;

pub use packet::{Batch, Packet};

pub use crate::topology::ElementId;
