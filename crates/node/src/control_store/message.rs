//! What the node tells the store's process: JSON, a message in a packet of a socket. There are no answers.

use serde::{Deserialize, Serialize};

/// The version of these messages. A process that has another one is replaced.
pub const VERSION: u32 = 1;
/// Most changes in a message, so that it is shorter than [`BYTES_MAX`].
pub const CHANGES_MAX: usize = 16;
/// Most bytes of a message.
pub const BYTES_MAX: usize = 64 << 10;

/// A guest that runs, as a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The domain's number.
    pub domain: u16,
    /// The guest's process: in another one, it begins with entries of its own.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What identifies it among the guests of all hosts.
    pub uuid: String,
    /// Its private memory in KiB.
    pub memory: u64,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A guest runs. Nothing happens if that is known.
    Introduce(Introduction),
    /// A domain has another name.
    Rename {
        /// The domain.
        domain: u16,
        /// Its name from now on.
        name: String,
    },
    /// A guest has ended.
    Release {
        /// Its domain.
        domain: u16,
    },
    /// All guests that run were introduced since the node connected: any other domain is released.
    Complete,
    /// The store is to end.
    End,
}
