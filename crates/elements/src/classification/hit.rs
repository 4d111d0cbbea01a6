//! What a match of a term says of a packet.

/// The outcome of a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// The output, [`DROP`] to drop.
    pub(super) output: u32,
    /// The rule to check the packet with first; [`EXACT`] if the term decides
    /// alone.
    pub(super) verify: u32,
}

pub(super) const DROP: u32 = NO_OUTPUT;
/// The output of dropped packets in [`Program::classify_batch`](super::Program::classify_batch).
pub const NO_OUTPUT: u32 = u32::MAX;
pub(super) const EXACT: u32 = u32::MAX;
