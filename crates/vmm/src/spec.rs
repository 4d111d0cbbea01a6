//! The specification of a guest.

use std::os::fd::BorrowedFd;

use crate::{Control, Snapshot};

/// Default memory of a guest, in bytes. Untouched memory is not used.
pub const DEFAULT_MEMORY: u64 = 4 << 20;

/// The requested wall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A virtual machine.
    Vm,
    /// A process under a system call filter.
    Process,
    /// A virtual machine where KVM is available, else a process.
    #[default]
    Auto,
}

/// A guest's wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// A virtual machine.
    Vm,
    /// A process under a system call filter.
    Process,
}

impl std::fmt::Display for Wall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Vm => "vm",
            Self::Process => "process",
        })
    }
}

/// The data region: a memory file that guest and switch share.
#[derive(Clone, Copy, Debug)]
pub struct DataFile<'a> {
    /// The file; formatted already.
    pub file: BorrowedFd<'a>,
    /// Its length in bytes, whole pages.
    pub length: usize,
    /// Offset of the words by which the switch wakes the guest's CPUs.
    pub wake_offset: usize,
}

/// The guest's sockets, which a network stack serves: what CoreEngine gave the host for it.
#[derive(Clone, Copy, Debug)]
pub struct SocketFiles<'a> {
    /// The queue file of its tenant.
    pub queues: BorrowedFd<'a>,
    /// The payload file.
    pub payload: BorrowedFd<'a>,
    /// Eventfd that it rings for CoreEngine.
    pub doorbell: BorrowedFd<'a>,
    /// The connection whose end tells CoreEngine that the guest has ended. The guest's process keeps it.
    pub connection: BorrowedFd<'a>,
}

/// The properties of a guest that a pre-forked process depends on.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    /// Its wall.
    pub isolation: Isolation,
    /// Number of its CPUs, from 1 to [`abi::CPUS_MAX`].
    pub cpus: usize,
    /// Bytes of private memory.
    pub memory: u64,
    /// Bytes of its data region; 0 for none.
    pub data: usize,
    /// Whether it has sockets.
    pub sockets: bool,
    /// Eventfd that it rings for the switch.
    pub switch_doorbell: Option<BorrowedFd<'a>>,
    /// Eventfd that it rings for the control plane.
    pub control_doorbell: Option<BorrowedFd<'a>>,
}

/// A guest to be started.
#[derive(Clone, Copy)]
pub struct GuestSpec<'a> {
    /// Its name, also that of its process.
    pub name: &'a str,
    /// Its owner, which the command line of its process tells beside the name; empty if there is none to tell.
    pub owner: &'a str,
    /// Its number on this host.
    pub id: u64,
    /// Its wall.
    pub isolation: Isolation,
    /// Number of its CPUs, from 1 to [`abi::CPUS_MAX`].
    pub cpus: usize,
    /// Bytes of private memory: image, configuration, stacks and heap. Rings and packet buffers come on top.
    pub memory: u64,
    /// Its configuration text.
    pub config: &'a [u8],
    /// Its packet rings and buffers.
    pub data: Option<DataFile<'a>>,
    /// Its sockets, if a network stack serves some.
    pub sockets: Option<SocketFiles<'a>>,
    /// Its control region, not used before.
    pub control: &'a Control,
    /// Eventfd that it rings for the switch.
    pub switch_doorbell: Option<BorrowedFd<'a>>,
    /// Eventfd that it rings for a sleeping control plane. Several guests may share one.
    pub control_doorbell: Option<BorrowedFd<'a>>,
    /// CPUs of the host that its CPUs are bound to, in round-robin order; none: unbound.
    pub pins: &'a [usize],
    /// Where it goes on, if it is a copy: with the control region that the [snapshot has](Snapshot::control) for it,
    /// and a data region that is a copy, too. Its configuration is not read again, but has the original's length or less.
    pub snapshot: Option<&'a Snapshot>,
    /// Whether it is killed when this process ends. A guest that outlives its parent can be
    /// [adopted](crate::Orphan).
    pub end_with_parent: bool,
}

impl<'a> GuestSpec<'a> {
    /// A guest with a name, a number and a control region, and default choices for the rest.
    pub fn new(name: &'a str, id: u64, control: &'a Control) -> Self {
        Self {
            name,
            owner: "",
            id,
            isolation: Isolation::Auto,
            cpus: 1,
            memory: DEFAULT_MEMORY,
            config: b"",
            data: None,
            sockets: None,
            control,
            switch_doorbell: None,
            control_doorbell: None,
            pins: &[],
            snapshot: None,
            end_with_parent: true,
        }
    }

    /// The guest's shape.
    pub fn shape(&self) -> Shape<'a> {
        Shape {
            isolation: self.isolation,
            cpus: self.cpus,
            memory: self.memory,
            data: self.data.map_or(0, |data| data.length),
            sockets: self.sockets.is_some(),
            switch_doorbell: self.switch_doorbell,
            control_doorbell: self.control_doorbell,
        }
    }
}
