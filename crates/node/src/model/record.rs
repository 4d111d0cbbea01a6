//! Records of the store: a specification, and what the node has to know besides.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use switch::lookup::{Flow as TableFlow, FlowDefault, Mac};

use super::{Class, Flow, Guest, Link, Mode, Stub, Vnic, Wire};

/// A record is used as the specification in it.
macro_rules! has_spec {
    ($($record:ty: $spec:ty),*) => { $(
        impl Deref for $record {
            type Target = $spec;
            fn deref(&self) -> &$spec {
                &self.spec
            }
        }
        impl DerefMut for $record {
            fn deref_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }
    )* };
}
has_spec!(LinkRecord: Link, VnicRecord: Vnic, FlowRecord: Flow, GuestRecord: Guest);

/// A link or stub.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkRecord {
    /// Its name: the interface's, or the stub's.
    pub name: String,
    /// What is wanted; of a stub, its properties.
    pub spec: Link,
    /// Number of its domain in the switch; never given twice.
    pub domain: u32,
    /// Link or stub.
    pub class: Class,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Its interface's GRO was off, and is on for as long as it is attached.
    #[serde(default)]
    pub gro: bool,
    /// The number of its interface when it was attached, by which it is known whatever it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The action of a flow table for frames without an entry.
    #[serde(default)]
    pub default: FlowDefault<String>,
}

impl LinkRecord {
    /// The specification, if it is a stub.
    pub fn stub(&self) -> Stub {
        Stub {
            mtu: Some(self.mtu),
            properties: self.spec.properties.clone(),
        }
    }

    /// How the interface is to be attached.
    pub fn mode(&self) -> Mode {
        if self.vxlan.is_some() {
            Mode::Vxlan
        } else {
            self.spec.mode
        }
    }
}

/// A VNIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VnicRecord {
    /// Its name, and that of its port.
    pub name: String,
    /// What is wanted, with its address.
    pub spec: Vnic,
    /// Whether it was made for a guest's interface and is removed with the guest.
    #[serde(default)]
    pub implicit: bool,
}

impl VnicRecord {
    /// Its address.
    pub fn mac(&self) -> Mac {
        self.spec.mac.unwrap_or(Mac([0; 6]))
    }

    /// The name that its interface has in the namespace or on the host.
    pub fn interface(&self) -> &str {
        self.spec.interface.as_deref().unwrap_or(&self.name)
    }
}

/// A flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Its name.
    pub name: String,
    /// What is wanted.
    pub spec: Flow,
}

/// An entry of a flow table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryRecord {
    /// Its key: the link and the flow (see [`EntryRecord::key`]).
    pub name: String,
    /// The link.
    pub link: String,
    /// The flow, in one direction.
    pub flow: TableFlow,
    /// The VNIC, or the link's own interface, that it goes to.
    pub port: String,
}

impl EntryRecord {
    /// The key of the entry for a flow: there is one.
    pub fn key(link: &str, flow: TableFlow) -> String {
        format!("{link} {flow}")
    }
}

/// A guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GuestRecord {
    /// Its name.
    pub name: String,
    /// What is wanted; its configuration is the last one that was set.
    pub spec: Guest,
    /// Its number; never given twice.
    pub id: u64,
    /// Its interfaces, in the order of its data region.
    pub ports: Vec<GuestPort>,
    /// Bytes of the configuration that it was booted with, which decides where things lie in it.
    pub booted_config: usize,
    /// Whether it runs.
    pub run: Run,
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

/// A wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireRecord {
    /// Its name.
    pub name: String,
    /// What is there.
    pub applied: Wire,
    /// What is being made of it; a node that finds this after a restart takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Wire>,
    /// Links that were attached for it, and not before by somebody else: they are removed with it.
    #[serde(default)]
    pub links: Vec<String>,
    /// What namespaces that were there before forwarded, where that was changed for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forwarding: BTreeMap<String, Forwarding>,
}

impl WireRecord {
    /// What is wanted of it.
    pub fn wanted(&self) -> &Wire {
        self.pending.as_ref().unwrap_or(&self.applied)
    }
}

/// Which packets a network namespace forwards between its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarding {
    /// IPv4's.
    pub ipv4: bool,
    /// IPv6's.
    pub ipv6: bool,
}

impl Forwarding {
    /// All, or none.
    pub const fn all(on: bool) -> Forwarding {
        Forwarding { ipv4: on, ipv6: on }
    }
}
