//! Links: interfaces of the host that are attached, and stubs. Each is a domain of the switch.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use switch::lookup::{FlowDefault, Mac};
use switch::properties::{DomainProperties, PortProperties};
use utoipa::ToSchema;

use crate::error::{Error, Result};

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// An interface of the host, attached.
    Nic,
    /// A switch without an interface (Crossbow's etherstub).
    Stub,
}

/// How an interface is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkMode {
    /// By AF_XDP sockets, one for each of its queues.
    Xdp,
    /// By AF_PACKET sockets: any Ethernet interface can be attached so.
    Packet,
    /// A TAP device of that name, made for it: the host's own network stack is at its other end.
    Tap,
    /// No interface of this host's, but other hosts, by VXLAN (RFC 7348).
    Vxlan,
}

/// A network with other hosts by VXLAN (RFC 7348), as a link reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// The network's number, 24 bits.
    pub vni: u32,
    /// The other hosts' addresses, all IPv4 or all IPv6.
    #[schema(value_type = Vec<String>, example = json!(["192.0.2.2"]))]
    pub remotes: Vec<IpAddr>,
    /// This host's address; without one, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub local: Option<IpAddr>,
    /// The UDP port, here and there; without one, 4789.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remotes: Vec<_> = self.remotes.iter().map(IpAddr::to_string).collect();
        write!(f, "vni {} to {}", self.vni, remotes.join(","))?;
        if let Some(local) = self.local {
            write!(f, " from {local}")?;
        }
        match self.port {
            Some(port) => write!(f, " port {port}"),
            None => Ok(()),
        }
    }
}

/// Whether something does what it is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It does.
    Up,
    /// It does not; the reason is told beside. The node goes on trying.
    Down,
    /// Nothing uses it yet.
    Unused,
}

/// A link as it is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Its name: the interface's, or the stub's.
    pub name: String,
    /// Number of its domain in the switch; never given twice.
    pub domain: u32,
    /// Interface or stub.
    pub class: Class,
    /// How the interface is to be attached; if it is not said, as suits it best.
    pub mode: Option<LinkMode>,
    /// Where it leads, if it is by VXLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Its interface's GRO was off, and is on for as long as it is attached.
    #[serde(default)]
    pub gro: bool,
    /// The number of its interface when it was attached, by which it is known whatever it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// What the interface's port may do.
    #[serde(default)]
    pub port: PortProperties,
    /// How its domain works.
    pub properties: DomainProperties,
    /// Where a flow table sends what has no entry.
    #[serde(default)]
    pub default: FlowDefault<String>,
}

/// An interface to be attached.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLink {
    /// The interface; by VXLAN, what the link is to be called.
    pub name: String,
    /// How; without one, the best that the interface can.
    #[serde(default)]
    pub mode: Option<LinkMode>,
    /// Where it leads, if it is by VXLAN.
    #[serde(default)]
    pub tunnel: Option<Tunnel>,
    /// `maxbw=1G,cpus=0+1`, as on the command line.
    #[serde(default)]
    pub properties: String,
}

/// A stub to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStub {
    /// Its name.
    pub name: String,
    /// Largest IP packet, in bytes; without it, 1500.
    #[serde(default)]
    pub mtu: Option<u16>,
}

/// A link as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// Its name.
    pub name: String,
    /// Interface or stub.
    pub class: Class,
    /// How the interface is attached; none for a stub.
    pub mode: Option<LinkMode>,
    /// Where it leads, if it is by VXLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Whether it works.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// VNICs that stand on it.
    pub vnics: usize,
    /// What the interface's port may do.
    #[schema(value_type = Object)]
    pub properties: PortProperties,
}

/// A link's switching function as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SwitchView {
    /// The link.
    pub link: String,
    /// Its properties: lookup, aging, mac-limit, speed.
    #[schema(value_type = Object)]
    #[serde(serialize_with = "DomainProperties::serialize_whole")]
    pub properties: DomainProperties,
    /// Where a flow table sends what has no entry, in ovs-ofctl's words: `normal` (by addresses),
    /// `drop`, or `output:VNIC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// When a Click configuration was set: names in it that no port of the link has yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Properties to be set back, and then those to be set. All or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PropertyChange {
    /// `maxbw=100M,priority=high`, as on the command line.
    #[serde(default)]
    pub set: String,
    /// Names of properties that are to be as if they had never been given.
    #[serde(default)]
    pub reset: Vec<String>,
}

impl PropertyChange {
    /// Sets what `text` says, as on the command line.
    pub fn set(text: String) -> PropertyChange {
        PropertyChange {
            set: text,
            reset: Vec::new(),
        }
    }

    /// Sets the properties of these names back.
    pub fn reset(names: &[String]) -> PropertyChange {
        PropertyChange {
            set: String::new(),
            reset: names.to_vec(),
        }
    }
}

/// A change of how a link's switch works. All or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchChange {
    /// `lookup=hash,aging=60`, as on the command line.
    #[serde(default)]
    pub set: String,
    /// Names of properties that are to be as if they had never been given.
    #[serde(default)]
    pub reset: Vec<String>,
    /// Where a flow table is to send what has no entry: `normal`, `drop` or `output:VNIC`.
    #[serde(default)]
    pub default: Option<String>,
    /// A Click configuration that is to be the lookup function.
    #[serde(default)]
    pub click: Option<String>,
    /// The configuration's name in messages.
    #[serde(default)]
    pub file: Option<String>,
}

/// An address that a link's switch knows.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Address {
    /// The address.
    #[schema(value_type = String, example = "02:00:00:00:00:01")]
    pub mac: Mac,
    /// Its VLAN; 0 for frames without a tag.
    pub vlan: u16,
    /// The VNIC or interface that it is behind.
    pub port: String,
    /// Seconds since it was last seen; none for one that does not age.
    pub age: Option<u32>,
}

/// Smallest and largest MTU of a stub, in bytes: IPv4's least (RFC 791), and what any port takes.
pub const STUB_MTUS: std::ops::RangeInclusive<u16> = 68..=9216;

/// Whether a stub can have an MTU.
pub fn check_stub_mtu(mtu: u16) -> Result<()> {
    match STUB_MTUS.contains(&mtu) {
        true => Ok(()),
        false => Err(Error::invalid(format_args!(
            "an MTU of {mtu} cannot be: a stub's is from {} to {} bytes",
            STUB_MTUS.start(),
            STUB_MTUS.end()
        ))),
    }
}
