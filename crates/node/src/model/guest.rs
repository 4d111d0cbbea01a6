//! Guests.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The wall around a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A virtual machine.
    Vm,
    /// A process under a system call filter.
    Process,
    /// A virtual machine where there is KVM, else a process.
    #[default]
    Auto,
}

impl From<Isolation> for vmm::Isolation {
    fn from(isolation: Isolation) -> vmm::Isolation {
        match isolation {
            Isolation::Vm => vmm::Isolation::Vm,
            Isolation::Process => vmm::Isolation::Process,
            Isolation::Auto => vmm::Isolation::Auto,
        }
    }
}

/// When a guest that ended is started anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// However it ended.
    Always,
    /// When it did not end in good order.
    OnFailure,
    /// Not.
    #[default]
    Never,
}

/// One interface of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Interface {
    /// Its name in the configuration.
    pub name: String,
    /// The VNIC that it is.
    pub vnic: String,
}

/// A guest as it is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// Its number; never given twice.
    pub id: u64,
    /// Its configuration, or the last one that took its place.
    pub config: String,
    /// Its interfaces, in the order of its data region.
    pub interfaces: Vec<Interface>,
    /// The wall asked for.
    pub isolation: Isolation,
    /// Bytes of private memory.
    pub memory: u64,
    /// Bytes of the configuration that it was booted with, which decides where things lie in it.
    pub booted_config: usize,
    /// Slots of each of its rings.
    pub ring_slots: u32,
    /// How many CPUs it has.
    pub cpus: usize,
    /// CPUs of the host that they are tied to; none: any.
    pub pins: Vec<usize>,
    /// When it is started anew.
    pub restart: Restart,
    /// Whether it runs.
    pub run: Run,
}

/// Whether a guest runs, and by what it is found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Run {
    /// It is to run.
    Wanted,
    /// It was started as this process.
    Started {
        /// The process.
        pid: u32,
        /// When that was started (field 22 of `/proc/PID/stat`).
        started: u64,
        /// Which boot of the machine that was on.
        boot: String,
        /// Whether it is a virtual machine.
        vm: bool,
        /// Number that its process has the switch's doorbell by.
        doorbell: Option<i32>,
    },
    /// It ended, and is not to be started anew.
    Ended {
        /// Whether that was in good order.
        halted: bool,
        /// How.
        reason: String,
    },
}

/// A guest that was removed, until its process has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Its number.
    pub name: String,
    /// By what its process is found again.
    pub run: Run,
}

impl Leaving {
    /// Of a guest.
    pub fn of(guest: &Guest) -> Leaving {
        Leaving {
            name: guest.id.to_string(),
            run: guest.run.clone(),
        }
    }
}

/// One interface of a guest to be created.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInterface {
    /// Its name in the configuration.
    pub name: String,
    /// The VNIC that it is, or the link for which one is made that goes with the guest.
    pub on: String,
}

/// A guest to be created.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGuest {
    /// Its name.
    pub name: String,
    /// Its configuration, in Click's language.
    pub config: String,
    /// The name of the configuration in messages; without one, `config`.
    #[serde(default)]
    pub file: Option<String>,
    /// Its interfaces.
    #[serde(default)]
    pub interfaces: Vec<NewInterface>,
    /// The wall around it.
    #[serde(default)]
    pub isolation: Isolation,
    /// Bytes of private memory; without it, 4 MiB.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Slots of each of its rings, a power of two from 64 to 2048; without it, 256.
    #[serde(default)]
    pub ring_slots: Option<u32>,
    /// How many CPUs it has; without it, 1.
    #[serde(default)]
    pub cpus: Option<usize>,
    /// CPUs of the host that they are tied to, one each in turn; without any, they run on all.
    #[serde(default)]
    pub pins: Vec<usize>,
    /// When it is started anew.
    #[serde(default)]
    pub restart: Restart,
}

/// How a guest fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestState {
    /// It boots.
    Starting,
    /// It runs.
    Running,
    /// It ended in good order.
    Halted,
    /// It ended otherwise, or could not be started.
    Crashed,
}

/// A guest as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GuestView {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// How it fares.
    pub state: GuestState,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// The wall that it has got: `vm` or `process`.
    pub wall: Option<String>,
    /// Milliseconds from the order to start it to its main loop; none if this node took it over.
    pub boot_ms: Option<f64>,
    /// Bytes of private memory.
    pub memory: u64,
    /// When it is started anew.
    pub restart: Restart,
    /// How often this node has started it anew.
    pub restarts: u32,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// What is odd about its configuration; told when it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<String>,
}

/// A handler to be read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerRead {
    /// `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own, with what it takes behind a
    /// space.
    pub handler: String,
}

/// What a handler says.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HandlerValue {
    /// Its value; bytes that are no text are replaced.
    pub value: String,
}

/// A handler to be written.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerWrite {
    /// `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own.
    pub handler: String,
    /// The value.
    #[serde(default)]
    pub value: String,
}
