//! Links and stubs. Each is a domain of the switch.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use switch::lookup::FlowDefault;
use switch::properties::{Bandwidth, DomainProperties, LookupKind, PortProperties};
use utoipa::ToSchema;

use super::object::{Object, Spec, Verb, is_default, record};
use crate::error::{Fault, Result};

/// What a link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// An interface of the host, attached, or other hosts.
    Nic,
    /// A switch without an interface (Crossbow's etherstub).
    #[default]
    Stub,
}

/// How an interface of the host is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The best that works.
    #[default]
    Auto,
    /// By AF_XDP sockets, one for each of its queues.
    Xdp,
    /// By AF_PACKET sockets: any Ethernet interface can be attached so.
    Packet,
    /// A TAP device of that name, made for it: the host's own network stack is at its other end.
    Tap,
    /// No interface of this host's, but other hosts, by VXLAN (RFC 7348). Status only: in a
    /// specification, `vxlan` says so.
    #[serde(skip_deserializing)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It does.
    Up,
    /// It does not; the reason is given beside. The node goes on trying.
    Down,
    /// Nothing uses it yet.
    #[default]
    Unused,
}

/// A switch with a NIC: an interface of the host, or other hosts by VXLAN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Link {
    /// The host's interface; without one, that of the link's name. With `vxlan` there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Other hosts, instead of an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vxlan: Option<Tunnel>,
    /// How the interface is attached.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Mode,
    /// Properties of the interface's port: `lanes`, `maxbw` and so on.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub port: PortProperties,
    /// Properties of the switch.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub properties: DomainProperties,
}

impl Link {
    /// What the node calls the link that is called `name` in a wire's file: as its interface.
    pub fn called(&self, name: &str) -> String {
        match self.vxlan {
            Some(_) => name.into(),
            None => self.device.clone(),
        }
    }
}

/// A link or stub as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct LinkStatus {
    /// Link or stub.
    pub class: Class,
    /// How the interface is attached: `xdp`, `packet`, `tap` or `vxlan`; none for a stub.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "attached_mode"
    )]
    pub mode: Option<Mode>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Whether it works.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of VNICs on it.
    pub vnics: usize,
}

/// A mode of a status, where VXLAN is one.
fn attached_mode<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Mode>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.and_then(|name| match name.as_str() {
        "vxlan" => Some(Mode::Vxlan),
        name => serde_json::from_value(name.into()).ok(),
    }))
}

const ALL: &[Verb] = &[
    Verb::List,
    Verb::Show,
    Verb::Create,
    Verb::Put,
    Verb::Patch,
    Verb::Delete,
];

impl Spec for Link {
    type Status = LinkStatus;
    const PATH: &'static str = "links";
    const NOUN: &'static str = "link";
    const CALLED: [&'static str; 2] = ["a link", "links"];
    const VERBS: &'static [Verb] = ALL;

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Create => "The interface belongs to the switch until the link is removed.",
            Verb::Patch => "Properties hold from the next frame on.",
            Verb::Delete => "The interface is restored to its former state.",
            _ => "",
        }
    }

    fn example() -> Object<Link> {
        let mut link = Object::new("eth1", Link::default());
        link.spec.device = "eth1".into();
        link.spec.port.lanes = Some(2);
        link.status = LinkStatus {
            class: Class::Nic,
            mode: Some(Mode::Packet),
            mtu: 1500,
            state: State::Up,
            reason: None,
            vnics: 1,
        };
        link
    }
}

/// A switch without a NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StubFields", into = "StubFields")]
pub struct Stub {
    /// Largest IP packet, in bytes; 1500 if none is given.
    pub mtu: Option<u16>,
    /// The switch's properties.
    pub properties: DomainProperties,
}

/// A switch without a NIC, as it is written: all in one table, where an unknown key is an error
/// with its line.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schema(as = Stub)]
struct StubFields {
    /// Largest IP packet, in bytes; 1500 if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<u16>,
    /// The lookup function: `learning`, `hash`, `flow-table` or a Click configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    lookup: Option<LookupKind>,
    /// Seconds after which an address that was not seen again is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    aging: Option<u32>,
    /// Most addresses that are learned behind one port.
    #[serde(skip_serializing_if = "Option::is_none")]
    mac_limit: Option<u32>,
    /// Highest rate of each port without a `maxbw` of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    speed: Option<Bandwidth>,
}

impl From<StubFields> for Stub {
    fn from(fields: StubFields) -> Stub {
        let default = DomainProperties::default();
        Stub {
            mtu: fields.mtu,
            properties: DomainProperties {
                lookup: fields.lookup.unwrap_or(default.lookup),
                aging: fields.aging.unwrap_or(default.aging),
                mac_limit: fields.mac_limit.unwrap_or(default.mac_limit),
                speed: fields.speed,
            },
        }
    }
}

impl From<Stub> for StubFields {
    fn from(stub: Stub) -> StubFields {
        let (default, is) = (DomainProperties::default(), stub.properties);
        StubFields {
            mtu: stub.mtu,
            lookup: (is.lookup != default.lookup).then_some(is.lookup),
            aging: (is.aging != default.aging).then_some(is.aging),
            mac_limit: (is.mac_limit != default.mac_limit).then_some(is.mac_limit),
            speed: is.speed,
        }
    }
}

impl utoipa::PartialSchema for Stub {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        StubFields::schema()
    }
}

impl ToSchema for Stub {}

impl Spec for Stub {
    type Status = LinkStatus;
    const PATH: &'static str = "stubs";
    const NOUN: &'static str = "stub";
    const CALLED: [&'static str; 2] = ["a stub", "stubs"];
    const VERBS: &'static [Verb] = ALL;

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Put | Verb::Patch => "The MTU of a stub cannot change.",
            Verb::Delete => "No VNIC may be on it.",
            _ => "",
        }
    }

    fn example() -> Object<Stub> {
        let mut stub = Object::new("lan", Stub::default());
        stub.spec.mtu = Some(9000);
        stub.status.mtu = 9000;
        stub.status.state = State::Up;
        stub
    }
}

/// Smallest and largest MTU of a stub, in bytes: IPv4's least (RFC 791), and what any port takes.
pub const STUB_MTUS: std::ops::RangeInclusive<u16> = 68..=9216;

/// Whether a stub can have an MTU.
pub fn check_stub_mtu(mtu: u16) -> Result<()> {
    if STUB_MTUS.contains(&mtu) {
        Ok(())
    } else {
        let (least, most) = (*STUB_MTUS.start(), *STUB_MTUS.end());
        Err(Fault::StubMtu { mtu, least, most }.into())
    }
}

record!(LinkRecord: "links", Link);

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
