//! How a frame of the batch is named.

use crate::ids::{DomainIndex, PortIndex};

/// A frame of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRef {
    /// Its index in the batch.
    pub i: u16,
    /// The port that it came from.
    pub from: PortIndex,
    /// The domain in which it is.
    pub domain: DomainIndex,
}
