//! Changes of TCP sequence numbers.

use super::flow::Direction;

/// The changes of all flows.
#[derive(Default)]
pub struct Sequences {}

impl Sequences {
    /// Forgets the changes of a flow that ended.
    pub fn end(&mut self, _extra: u32) {}

    /// Changes a segment.
    pub fn apply(&mut self, _extra: u32, _direction: Direction, _transport: &mut [u8]) {}
}
