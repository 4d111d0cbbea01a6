//! What an element that reads packets from a file tells of where they were in it.

use crate::prelude::*;

/// An element whose handler `packet_filepos` says where in its file the last packet was.
pub trait Positioned {
    /// Sends one packet at a time from now on, so that the handler is right for each.
    fn send_singly(&mut self);
}

impl Interface for dyn Positioned {
    const NAME: &'static str = "Positioned";
}
