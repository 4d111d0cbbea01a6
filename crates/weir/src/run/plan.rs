//! A guest to be run, and why it could not be.

use std::time::Duration;

use abi::region::GeometryError;
use switch::client::ClientError;
use switch::links::LinkError;
use switch::memory::MemoryError;
use switch::process::SpawnError;
use switch::properties::Settle;
use switch::settled::SettleError;
use vmm::Isolation;

use super::links::Link;

/// How long a guest may take to start: it does in milliseconds, but the machine may be busy.
pub(super) const START: Duration = Duration::from_secs(10);

/// A guest to be run.
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Its configuration, checked already.
    pub config: Vec<u8>,
    /// Its interfaces.
    pub links: Vec<Link>,
    /// The NSM of a node that serves its sockets.
    pub nsm: Option<String>,
    /// Which wall it gets.
    pub isolation: Isolation,
    /// Bytes of private memory.
    pub memory: u64,
    /// Slots of each of its rings.
    pub ring_slots: u32,
    /// How many CPUs it has.
    pub cpus: usize,
    /// CPUs of this machine that they are tied to, one each in turn; none: any.
    pub pins: Vec<usize>,
    /// How many lanes the switch has.
    pub lanes: usize,
    /// Whether it may settle flows, which the kernel then passes on.
    pub settle: Settle,
}

/// Why a guest could not be run, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another program has an interface, or the node refused the guest's sockets.
    #[error("{0}")]
    Claimed(#[from] node::error::Error),
    /// The wall.
    #[error(transparent)]
    Wall(#[from] vmm::Error),
    /// Ring slots or interfaces.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// CoreEngine.
    #[error("CoreEngine does not take the guest: {0}")]
    Sockets(std::io::Error),
    /// Shared memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The switch's process.
    #[error(transparent)]
    Switch(#[from] SpawnError),
    /// The switch said no.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A host link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The kernel passes no settled flows on.
    #[error("{0}; leave --settle out")]
    Settle(#[from] SettleError),
    /// An interface was not found.
    #[error("cannot look at ‘{0}’: {1}")]
    Interface(String, std::io::Error),
    /// Two links of one name.
    #[error("two links are named ‘{0}’: give each interface one --link")]
    TwoLinks(String),
    /// A system call.
    #[error("cannot {0}: {1}")]
    System(&'static str, rustix::io::Errno),
    /// The guest ended before it ran.
    #[error("{how}{console}")]
    Ended {
        /// How: a sentence.
        how: String,
        /// Its output so far, on lines of its own.
        console: String,
    },
    /// The guest neither ran nor ended.
    #[error("the guest did not start within {} s", START.as_secs())]
    Silent,
    /// The guest refused a request.
    #[error("{0}")]
    Refused(String),
}
