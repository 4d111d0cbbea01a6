//! Guests.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};

use crate::error::Fault;

use super::object::{Object, Spec, Verb, is_default, record};
use super::{Configuration, ConfigurationState, Health};

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

/// When a guest that ended is restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// However it ended.
    Always,
    /// When it did not end in good order.
    #[default]
    OnFailure,
    /// Not.
    Never,
}

/// A network function in a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Guest {
    /// The file of its configuration. In a wire's file it is read from there, relative to the wire's
    /// own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is
    /// needed beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub file: Option<PathBuf>,
    /// The configuration, in Click's language. A list of guests leaves it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each
    /// overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function.
    #[serde(
        default,
        alias = "parameters",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub variables: BTreeMap<String, String>,
    /// Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub configurations: BTreeMap<String, Configuration>,
    /// By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is
    /// removed with the guest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<String, String>,
    /// The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nsm: Option<String>,
    /// Private memory; default: 4 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = memory_schema, required = false)]
    pub memory: Option<Memory>,
    /// Slots of each of its rings, a power of two from 64 to 2048; default: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_slots: Option<u32>,
    /// Virtual CPUs; default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// CPUs of the host that those are tied to, one each in turn; without any, they run on all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pin: Vec<usize>,
    /// The wall around it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub isolation: Isolation,
    /// When it is restarted; default: `on-failure`.
    #[serde(default)]
    pub restart: Restart,
    /// Processors of the host that its process may use, as in 0.5; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_max: Option<f64>,
    /// Memory that its process may use, its private memory included; default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = memory_max_schema, required = false)]
    pub memory_max: Option<Memory>,
    /// Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is
    /// unhealthy after so many failures in a row. One that may be restarted is restarted then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub health: Vec<Health>,
}

impl Guest {
    /// Slots of each ring, if none are given.
    pub const RING_SLOTS: u32 = 256;

    /// Its configurations with their variables, as a guest takes them.
    pub fn text(&self) -> String {
        self.text_of(&self.config)
    }

    /// The same with another main configuration.
    pub fn text_of(&self, config: &str) -> String {
        let installed = self.configurations.iter();
        let installed = installed.map(|(name, it)| (name.as_str(), it.text()));
        click::configurations::join(installed, &text(&self.variables, config))
    }

    /// Whether there is a configuration for the guest of this name: lists leave it out.
    pub fn check_config(&self, name: &str) -> Result<(), Fault> {
        if self.config.trim().is_empty() {
            return Err(Fault::NoConfig { guest: name.into() });
        }
        check_variables(&self.variables)?;
        self.check_installed()
    }

    /// What its process may use.
    pub fn limits(&self) -> Limits {
        Limits {
            cpu_max: self.cpu_max,
            memory_max: self.memory_max,
        }
    }

    /// Whether its limits can be.
    pub fn check_limits(&self) -> Result<(), Fault> {
        if let Some(cpus) = self.cpu_max.filter(|it| !CPU_MAX.contains(it)) {
            return Err(Fault::CpuMax { cpus });
        }
        let memory = self.memory();
        match self.memory_max.filter(|it| it.0 < memory + MEMORY_BESIDE) {
            Some(most) => Err(Fault::MemoryMax {
                most: most.into(),
                memory: Memory(memory).into(),
            }),
            None => Ok(()),
        }
    }

    /// Bytes of private memory.
    pub fn memory(&self) -> u64 {
        self.memory
            .map_or(vmm::DEFAULT_MEMORY, |Memory(bytes)| bytes)
    }

    /// Slots of each of its rings.
    pub fn ring_slots(&self) -> u32 {
        self.ring_slots.unwrap_or(Self::RING_SLOTS)
    }

    /// Number of its virtual CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus.unwrap_or(1)
    }

    /// The configuration's name in messages.
    pub fn file_name(&self) -> String {
        let file = self.file.as_ref();
        file.map_or_else(|| "config".into(), |file| file.display().to_string())
    }
}

/// A configuration with the values of its variables, as a guest takes it.
pub(super) fn text(variables: &BTreeMap<String, String>, config: &str) -> String {
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
    click::settings::join(variables, config)
}

/// Whether variables have names that can be.
pub(super) fn check_variables(variables: &BTreeMap<String, String>) -> Result<(), Fault> {
    let is_name = |name: &&String| click::settings::is_name(name);
    match variables.keys().find(|name| !is_name(name)) {
        Some(name) => Err(Fault::Variable { name: name.clone() }),
        None => Ok(()),
    }
}

/// Processors that a guest may be limited to.
const CPU_MAX: std::ops::RangeInclusive<f64> = 0.01..=1024.0;
/// Memory that a guest's process needs beside the guest's own.
const MEMORY_BESIDE: u64 = 2 << 20;

/// What a guest's process may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Processors; none: all.
    pub cpu_max: Option<f64>,
    /// Memory; none: no limit.
    pub memory_max: Option<Memory>,
}

impl Limits {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }
}

/// An amount of memory in bytes: a number, or one with K, M or G for the binary multiples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Memory(pub u64);

/// An amount of memory as the API describes it.
fn memory_schema() -> Schema {
    size_schema("Private memory, in bytes, or with K, M or G; default: 4 MiB.")
}

fn memory_max_schema() -> Schema {
    size_schema("Memory that its process may use, its private memory included; default: no limit.")
}

fn size_schema(description: &str) -> Schema {
    let kinds = vec![Type::String, Type::Integer, Type::Null];
    let memory = ObjectBuilder::new()
        .schema_type(SchemaType::Array(kinds))
        .minimum(Some(0))
        .description(Some(description))
        .examples([serde_json::json!("4M")]);
    memory.into()
}

/// A text that is no amount of memory.
#[derive(Debug, thiserror::Error)]
#[error("‘{0}’ is not a size: write bytes, or a number with K, M or G")]
pub struct NoSize(String);

impl FromStr for Memory {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Memory, NoSize> {
        let end = text.find(|c: char| !c.is_ascii_digit());
        let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
        let shift = match unit.trim_end_matches(['b', 'B']).trim_end_matches('i') {
            "" => 0,
            "k" | "K" => 10,
            "m" | "M" => 20,
            "g" | "G" => 30,
            _ => return Err(NoSize(text.into())),
        };
        let size = digits
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(1 << shift));
        size.map(Memory).ok_or_else(|| NoSize(text.into()))
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Memory, D::Error> {
        struct Size;
        impl serde::de::Visitor<'_> for Size {
            type Value = Memory;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size: bytes, or a string with K, M or G")
            }

            fn visit_u64<E>(self, bytes: u64) -> Result<Memory, E> {
                Ok(Memory(bytes))
            }

            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Memory, E> {
                let bytes = u64::try_from(bytes);
                bytes
                    .map(Memory)
                    .map_err(|_| E::custom("a size is not negative"))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Memory, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Size)
    }
}

impl From<Memory> for String {
    fn from(Memory(bytes): Memory) -> String {
        let units = [(30, "G"), (20, "M"), (10, "K"), (0, "")];
        let fits = |(shift, _): &(u32, &str)| bytes.is_multiple_of(1 << shift);
        let (shift, unit) = units.into_iter().find(fits).unwrap_or((0, ""));
        format!("{}{unit}", bytes >> shift)
    }
}

/// State of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestState {
    /// It boots.
    #[default]
    Starting,
    /// It runs.
    Running,
    /// It was paused by command: its processors stand still until it is resumed.
    Paused,
    /// It stands still as a template of clones until it is resumed.
    Template,
    /// It does not answer: its process was stopped by a signal, or a request got no answer for 2 s.
    Silent,
    /// It runs, and a check of its health failed as often as makes it unhealthy.
    Unhealthy,
    /// It was stopped by command, and stays so until it is started.
    Stopped,
    /// It ended in good order.
    Halted,
    /// It ended otherwise, or could not be started.
    Crashed,
    /// It comes from another node, which has not left it to this one yet.
    Arriving,
}

/// A guest as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct GuestStatus {
    /// Its number; never given twice.
    pub id: u64,
    /// Its number in the control store, where it is a domain while it runs.
    pub domain_id: u16,
    /// Its state.
    pub state: GuestState,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// The wall that it has got: `vm` or `process`.
    pub wall: Option<String>,
    /// Milliseconds from the order to start it to its main loop; none if this node adopted it.
    pub boot_ms: Option<f64>,
    /// Seconds that it has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_s: Option<f64>,
    /// Seconds of processor time that its process has used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Bytes of memory that its process has in use, shared pages included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// Fields that were changed while it runs, and hold from its next start on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
    /// Number of times that this node has restarted it.
    pub restarts: u32,
    /// The state of each configuration that it runs, if there are several. Its main one is `main`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub configurations: BTreeMap<String, ConfigurationState>,
    /// The VNIC of each interface.
    pub vnics: BTreeMap<String, String>,
    /// Warnings about its configuration; in the answer to its creation or change only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<String>,
}

impl Spec for Guest {
    type Status = GuestStatus;
    const PATH: &'static str = "guests";
    const NOUN: &'static str = "guest";
    const CALLED: [&'static str; 2] = ["a guest", "guests"];
    const HAS_CONFIG: bool = true;

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::List => "The configurations are omitted.",
            Verb::Create => {
                "The answer comes when the guest runs; a guest that does not start is removed."
            }
            Verb::Put | Verb::Patch => {
                "`restart`, `health`, `cpu-max` and `memory-max` hold at once, and so does `config` by a hotswap that keeps state. Other changes of a guest that runs hold from its next start on, as `status.pending` says."
            }
            Verb::Delete => "The VNICs made for it are removed with it.",
            Verb::Show => "",
        }
    }

    fn example() -> Object<Guest> {
        let interfaces = [("lan", "lan0")].map(|(name, vnic)| (name.into(), vnic.into()));
        let mut guest = Object::new(
            "fw",
            Guest {
                config: "FromNetfront(lan) -> EtherMirror -> ToNetfront(lan);".into(),
                interfaces: interfaces.clone().into(),
                memory: Some(Memory(4 << 20)),
                ..Guest::default()
            },
        );
        guest.status = GuestStatus {
            id: 1,
            state: GuestState::Running,
            pid: Some(4711),
            wall: Some("vm".into()),
            boot_ms: Some(1.5),
            uptime_s: Some(3600.0),
            cpu_s: Some(0.5),
            resident: Some(900 << 10),
            vnics: interfaces.into(),
            ..GuestStatus::default()
        };
        guest
    }

    fn check_patch(&self, name: &str, patch: &Map<String, Value>) -> crate::error::Result<()> {
        let removed = |field: &str, there: &BTreeMap<String, String>| {
            let fields = patch.get(field).and_then(Value::as_object)?;
            let mut removed = fields.iter().filter(|(_, value)| value.is_null());
            let removed = removed.find(|(name, _)| !there.contains_key(*name))?;
            Some(removed.0.clone())
        };
        if let Some(interface) = removed("interfaces", &self.interfaces) {
            let there: Vec<_> = self.interfaces.keys().map(String::as_str).collect();
            return Err(Fault::NoGuestInterface {
                guest: name.into(),
                interface,
                there: if there.is_empty() {
                    "none".into()
                } else {
                    there.join(", ")
                },
            }
            .into());
        }
        if let Some(variable) = removed("variables", &self.variables) {
            let guest = name.into();
            return Err(Fault::NoGuestVariable { guest, variable }.into());
        }
        Ok(())
    }

    fn shorten(&mut self) {
        self.config = String::new();
        let installed = self.configurations.values_mut();
        installed.for_each(|it| it.config = String::new());
    }
}

/// A handler to be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerRead {
    /// `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own, with its argument behind a
    /// space.
    pub handler: String,
}

/// The value of a handler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HandlerValue {
    /// Its value; bytes that are no text are replaced.
    pub value: String,
}

/// A handler to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerWrite {
    /// `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own.
    pub handler: String,
    /// The value.
    #[serde(default)]
    pub value: String,
}

record!(GuestRecord: "guests", Guest);
record!(Leaving: "leaving");

/// A guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GuestRecord {
    /// Its name.
    pub name: String,
    /// The specification; its configuration is the last one that was set.
    pub spec: Guest,
    /// Its number; never given twice.
    pub id: u64,
    /// Its number in the control store, which no other guest has; 0: none yet.
    #[serde(default)]
    pub domain_id: u16,
    /// Its interfaces, in the order of its data region.
    pub ports: Vec<GuestPort>,
    /// Bytes of the configuration that it was booted with, which decides where things lie in it.
    pub booted_config: usize,
    /// Whether it runs.
    pub run: Run,
    /// Whether it is paused while it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Whether it stands still while it runs, for clones of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub template: bool,
    /// Whether it comes from another node, which has not left it to this one yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arriving: bool,
    /// Where it is to go on, from just before it is left to that node until it is removed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departure: Option<Destination>,
    /// The specification of its start, if it differs from the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<Booted>,
}

/// Another node, and a guest there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Destination {
    /// The node, as it was named.
    pub to: String,
    /// The guest's number there.
    pub id: u64,
}

/// The fields of a specification that cannot change while a guest runs, as it was started with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Booted {
    /// The configuration, if another one will be used at the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    interfaces: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nsm: Option<String>,
    memory: u64,
    ring_slots: u32,
    cpus: usize,
    pin: Vec<usize>,
    isolation: Isolation,
}

impl Booted {
    /// Of a guest that is as its record says.
    pub fn of(guest: &GuestRecord) -> Booted {
        Booted {
            config: None,
            interfaces: guest.interfaces.clone(),
            nsm: guest.nsm.clone(),
            memory: guest.memory(),
            ring_slots: guest.ring_slots(),
            cpus: guest.cpus(),
            pin: guest.pin.clone(),
            isolation: guest.isolation,
        }
    }
}

impl GuestRecord {
    /// The guest with the values of its start, where the present ones differ.
    pub fn as_booted(&self) -> GuestRecord {
        let mut guest = self.clone();
        if let Some(booted) = &self.booted {
            let booted = booted.clone();
            guest.spec.interfaces = booted.interfaces;
            guest.spec.nsm = booted.nsm;
            guest.spec.memory = Some(Memory(booted.memory));
            guest.spec.ring_slots = Some(booted.ring_slots);
            guest.spec.cpus = Some(booted.cpus);
            guest.spec.pin = booted.pin;
            guest.spec.isolation = booted.isolation;
        }
        guest
    }

    /// The fields that hold from its next start on.
    pub fn pending(&self) -> Vec<&'static str> {
        let Some(booted) = &self.booted else {
            return Vec::new();
        };
        let fields = [
            ("config", booted.config.is_some()),
            ("interfaces", booted.interfaces != self.interfaces),
            ("nsm", booted.nsm != self.nsm),
            ("memory", booted.memory != self.memory()),
            ("ring-slots", booted.ring_slots != self.ring_slots()),
            ("cpus", booted.cpus != self.cpus()),
            ("pin", booted.pin != self.pin),
            ("isolation", booted.isolation != self.isolation),
        ];
        let pending = fields.into_iter().filter(|(_, is)| *is);
        pending.map(|(name, _)| name).collect()
    }
}

/// One interface of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestPort {
    /// Its name in the configuration.
    pub name: String,
    /// The VNIC that it is.
    pub vnic: String,
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
        /// The boot of the machine that it was started on.
        boot: String,
        /// Whether it is a virtual machine.
        vm: bool,
        /// Number of the descriptor of the switch's doorbell in its process.
        doorbell: Option<i32>,
    },
    /// It was stopped by command, and is not to run until it is started.
    Stopped,
    /// It ended, and is not to be restarted.
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
    pub fn of(guest: &GuestRecord) -> Leaving {
        Leaving {
            name: guest.id.to_string(),
            run: guest.run.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_written_with_binary_units() {
        for text in ["4M", "2049K", "1G", "65537"] {
            assert_eq!(String::from(text.parse::<Memory>().unwrap()), text);
        }
        assert_eq!("2MiB".parse::<Memory>().unwrap(), Memory(2 << 20));
        for wrong in ["", "M", "4X", "-1", "99999999999G"] {
            assert!(wrong.parse::<Memory>().is_err(), "{wrong}");
        }
    }
}
