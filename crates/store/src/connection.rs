//! The numbers of connections.

/// A client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// The connection of this number. No two connections of a store have the same.
    pub(crate) fn new(number: u64) -> ConnectionId {
        ConnectionId(number)
    }

    /// Its number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}
