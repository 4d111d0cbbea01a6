//! What a guest is to be.

use std::os::fd::BorrowedFd;

use crate::Control;

/// Memory that a guest gets if nothing else is asked for, in bytes. Only what it touches is used.
pub const DEFAULT_MEMORY: u64 = 4 << 20;

/// Which wall is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A virtual machine.
    Vm,
    /// A process under a system call filter.
    Process,
    /// A virtual machine where KVM is to be had, else a process.
    #[default]
    Auto,
}

/// Which wall a guest has got.
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

/// What has to be known of a guest to make a process ready for it.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    /// Which wall it gets.
    pub isolation: Isolation,
    /// How many CPUs it has, from 1 to [`abi::CPUS_MAX`].
    pub cpus: usize,
    /// Bytes of private memory.
    pub memory: u64,
    /// Bytes of its data region; 0 for none.
    pub data: usize,
    /// Eventfd that it rings for the switch.
    pub switch_doorbell: Option<BorrowedFd<'a>>,
    /// Eventfd that it rings for the control plane.
    pub control_doorbell: Option<BorrowedFd<'a>>,
}

/// A guest to be started.
#[derive(Clone, Copy)]
pub struct GuestSpec<'a> {
    /// Its name; the process is called so too.
    pub name: &'a str,
    /// Its number on this host.
    pub id: u64,
    /// Which wall it gets.
    pub isolation: Isolation,
    /// How many CPUs it has, from 1 to [`abi::CPUS_MAX`].
    pub cpus: usize,
    /// Bytes of private memory: image, configuration, stacks and heap. Rings and packet buffers come on top.
    pub memory: u64,
    /// Its configuration text.
    pub config: &'a [u8],
    /// Its packet rings and buffers.
    pub data: Option<DataFile<'a>>,
    /// Its control region, made for it and not used before.
    pub control: &'a Control,
    /// Eventfd that it rings for the switch.
    pub switch_doorbell: Option<BorrowedFd<'a>>,
    /// Eventfd that it rings for the control plane, when that sleeps. Several guests may share one.
    pub control_doorbell: Option<BorrowedFd<'a>>,
    /// CPUs of the host that its CPUs are tied to, one each in turn, from the first again if there are fewer;
    /// any, if there is none.
    pub pins: &'a [usize],
    /// Whether it is killed when this process ends. A guest that outlives its parent can be taken over by
    /// the next one.
    pub end_with_parent: bool,
}

impl<'a> GuestSpec<'a> {
    /// A guest with a name, a number and a control region, and default choices for the rest.
    pub fn new(name: &'a str, id: u64, control: &'a Control) -> Self {
        Self {
            name,
            id,
            isolation: Isolation::Auto,
            cpus: 1,
            memory: DEFAULT_MEMORY,
            config: b"",
            data: None,
            control,
            switch_doorbell: None,
            control_doorbell: None,
            pins: &[],
            end_with_parent: true,
        }
    }
    /// What makes a process ready for this guest.
    pub fn shape(&self) -> Shape<'a> {
        Shape {
            isolation: self.isolation,
            cpus: self.cpus,
            memory: self.memory,
            data: self.data.map_or(0, |data| data.length),
            switch_doorbell: self.switch_doorbell,
            control_doorbell: self.control_doorbell,
        }
    }
}
