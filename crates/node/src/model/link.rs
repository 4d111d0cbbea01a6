//! Links: how each kind is specified, what follows from the kind, and how it is opened.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use switch::links::{self, Device, HostLink, LinkError, Tap, Vxlan, VxlanError};
use switch::lookup::{FlowDefault, Mac};
use switch::port::{LinkRecord as SwitchRecord, PortKind};
use switch::properties::{DomainProperties, PortProperties, Vlan};
use utoipa::ToSchema;

use super::object::{Object, Spec, Verb, is_default, record};
use super::properties::{PortTable, SwitchTable};
use crate::error::{Error, Fault, Result};

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
}

/// A network with other hosts by VXLAN (RFC 7348), as a link reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// The network's number, 24 bits.
    #[schema(maximum = 16_777_215)]
    pub vni: u32,
    /// The other hosts' addresses, all IPv4 or all IPv6. There may be none yet.
    #[schema(value_type = Vec<String>, example = json!(["192.0.2.2"]))]
    pub remotes: Vec<IpAddr>,
    /// Ethernet addresses that are known to be behind them; others are learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbors: Vec<Neighbor>,
    /// This host's address; without one, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub local: Option<IpAddr>,
    /// The UDP port, here and there; without one, 4789.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// An Ethernet address behind another host. Frames to it, and ARP requests for its IP addresses, go to that host alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    /// The address.
    #[schema(value_type = String, example = "02:00:00:00:00:01")]
    pub mac: Mac,
    /// The other host, one of the remotes.
    #[schema(value_type = String, example = "192.0.2.2")]
    pub remote: IpAddr,
    /// Its IPv4 addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.2"]))]
    pub ips: Vec<Ipv4Addr>,
}

impl Tunnel {
    /// Refuses what cannot be.
    fn check(&self, name: &str) -> Result<()> {
        self.with(name, |link| link.check()).map_err(|error| {
            let at = match &error {
                VxlanError::Remote(ip) | VxlanError::Twice(ip) => {
                    self.remotes.iter().rposition(|it| it == ip)
                }
                _ => None,
            };
            let error = Error::from(LinkError::from(error));
            match at {
                Some(at) => error.of_field(&format!("vxlan.remotes[{at}]")),
                None => error,
            }
        })?;
        if self.port == Some(0) {
            let sentence = "UDP port 0 cannot be that of a link: it is from 1 to 65535";
            return Err(Error::invalid(sentence).of_field("vxlan.port"));
        }
        let mut all = self.neighbors.iter().enumerate();
        match all.find(|(_, it)| !self.remotes.contains(&it.remote)) {
            Some((at, it)) => Err(Error::invalid(format_args!(
                "neighbor {} of link ‘{name}’ is behind {}, which is no remote of the link: add it to `remotes`",
                it.mac, it.remote
            ))
            .of_field(&format!("vxlan.neighbors[{at}].remote"))),
            None => Ok(()),
        }
    }

    /// Does something with the switch's notion of it.
    fn with<T>(&self, name: &str, what: impl FnOnce(&Vxlan<'_>) -> T) -> T {
        let neighbor = |it: &Neighbor| {
            let remote = self.remotes.iter().position(|remote| *remote == it.remote);
            Some(links::Neighbor {
                mac: it.mac,
                remote: u16::try_from(remote?).ok()?,
                ips: it.ips.clone(),
            })
        };
        let neighbors: Vec<_> = self.neighbors.iter().filter_map(neighbor).collect();
        what(&Vxlan {
            name,
            vni: self.vni,
            local: self.local,
            remotes: &self.remotes,
            neighbors: &neighbors,
            port: self.port,
            mtu: None,
        })
    }

    /// The tunnel that `VNI@ADDRESS,ADDRESS…` describes.
    fn parse(text: &str) -> Option<Tunnel> {
        let (vni, remotes) = text.split_once('@')?;
        let remotes = remotes.split(',').map(str::parse);
        Some(Tunnel {
            vni: vni.parse().ok()?,
            remotes: remotes.collect::<std::result::Result<_, _>>().ok()?,
            ..Tunnel::default()
        })
    }
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
    /// It waits for a frame, which starts its guest.
    Waiting,
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
    #[schema(value_type = PortTable)]
    pub port: PortProperties,
    /// Properties of the switch.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = SwitchTable)]
    pub properties: DomainProperties,
}

/// What [`Link::parse`] takes.
pub const LINK_FORMS: &str = "tap:NAME, dev:NAME, xdp:NAME, packet:NAME or vxlan:VNI@ADDRESS,…";

/// What each of [`LINK_FORMS`] does.
pub const LINK_HELP: &str = "tap:NAME makes a TAP device. dev:NAME attaches an interface of the host, by AF_XDP if its driver supports zero-copy, else by AF_PACKET. xdp:NAME and packet:NAME choose the kind of socket. vxlan:VNI@ADDRESS,… connects to other hosts by VXLAN";

impl Link {
    /// The link that a `KIND:NAME` of [`LINK_FORMS`] describes.
    pub fn parse(text: &str) -> Option<Link> {
        let (kind, name) = text.split_once(':').filter(|(_, name)| !name.is_empty())?;
        let mode = match kind {
            "dev" => Mode::Auto,
            "xdp" => Mode::Xdp,
            "packet" => Mode::Packet,
            "tap" => Mode::Tap,
            "vxlan" => {
                let vxlan = Some(Tunnel::parse(name)?);
                return Some(Link {
                    vxlan,
                    ..Link::default()
                });
            }
            _ => return None,
        };
        Some(Link {
            device: name.into(),
            mode,
            ..Link::default()
        })
    }

    /// The kind of its port; none if it is the best for the interface.
    pub fn kind(&self) -> Option<PortKind> {
        match self.mode {
            _ if self.vxlan.is_some() => Some(PortKind::Vxlan),
            Mode::Auto => None,
            Mode::Xdp => Some(PortKind::Xdp),
            Mode::Packet => Some(PortKind::Packet),
            Mode::Tap => Some(PortKind::Tap),
        }
    }

    /// The interface of this host that it uses, unless it leads to other hosts.
    pub fn interface(&self) -> Option<&str> {
        let has = self.kind().is_none_or(PortKind::has_interface);
        has.then_some(self.device.as_str())
    }

    /// Whether its interface has to be there before it is attached.
    pub fn needs_interface(&self) -> bool {
        self.interface().is_some() && self.kind().is_none_or(PortKind::is_uplink)
    }

    /// What the node calls the link that is called `name` in a wire's file: as its interface.
    pub fn called(&self, name: &str) -> String {
        self.interface().unwrap_or(name).into()
    }

    /// What it leads to, in a drawing.
    pub fn leads_to(&self) -> String {
        match &self.vxlan {
            Some(tunnel) => format!("vxlan {tunnel}"),
            None => self.device.clone(),
        }
    }

    /// The specification as it is kept: with the name of its interface.
    pub fn canonical(mut self, name: &str) -> Result<Link> {
        let is_named = !self.device.is_empty();
        let fault = if self.vxlan.is_some() {
            let has_mode = self.mode != Mode::Auto;
            (is_named || has_mode).then(|| Fault::NoDevice {
                name: name.into(),
                field: "vxlan",
            })
        } else {
            (is_named && self.device != name).then(|| Fault::OtherDevice {
                name: name.into(),
                device: std::mem::take(&mut self.device),
            })
        };
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        match &self.vxlan {
            Some(tunnel) => tunnel.check(name)?,
            None => self.device = name.into(),
        }
        Ok(self)
    }

    /// Why a wire's file cannot have it: there, the interface is named.
    pub fn check_fields(&self) -> std::result::Result<(), &'static str> {
        if self.device.is_empty() == self.vxlan.is_none() {
            Err("it needs either ‘device’, the host's interface, or ‘vxlan’, the other hosts")
        } else if self.vxlan.is_some() && self.mode != Mode::Auto {
            Err("‘mode’ is for a link with ‘device’")
        } else {
            Ok(())
        }
    }

    /// What of a link can be changed.
    pub const CAN_CHANGE: &str = "`port`, `properties`, and `remotes` and `neighbors` of `vxlan`";

    /// Whether it can be changed to this.
    pub fn can_become(&self, new: &Link) -> bool {
        let mut fixed = Link {
            port: self.port.clone(),
            properties: self.properties.clone(),
            ..new.clone()
        };
        if let (Some(fixed), Some(is)) = (&mut fixed.vxlan, &self.vxlan) {
            fixed.remotes.clone_from(&is.remotes);
            fixed.neighbors.clone_from(&is.neighbors);
        }
        fixed == *self
    }

    /// Leads where `other` does.
    pub fn lead_as(&mut self, other: &Link) {
        self.vxlan.clone_from(&other.vxlan);
    }

    /// What the switch is told when it leads elsewhere; none if it cannot.
    pub fn changed(&self, name: &str) -> Option<SwitchRecord> {
        let tunnel = self.vxlan.as_ref()?;
        let record = tunnel.with(name, |link| link.record());
        Some(SwitchRecord::Vxlan(record))
    }

    /// Whether it leads where `other` does, in the same way.
    pub fn leads_as(&self, other: &Link) -> bool {
        (self.mode, &self.vxlan) == (other.mode, &other.vxlan)
    }

    /// Whether a link that was attached by `there`, as a port of this kind if it is up, is as this
    /// asks.
    pub fn is_met_by(&self, there: &Link, kind: Option<PortKind>) -> bool {
        let wanted = self.kind();
        self.vxlan == there.vxlan && (wanted.is_none() || kind.is_none() || wanted == kind)
    }

    /// Opens it for so many lanes. `name` is a link's without an interface, `mtu` that of an
    /// interface that is made.
    pub fn open(
        &self,
        name: &str,
        mtu: u16,
        lanes: usize,
    ) -> std::result::Result<HostLink, LinkError> {
        if let Some(tunnel) = &self.vxlan {
            let mtu = self.port.mtu;
            return tunnel.with(name, |link| {
                HostLink::open(&Vxlan {
                    mtu,
                    ..link.clone()
                })
            });
        }
        let name = &self.device;
        let mode = match self.mode {
            Mode::Auto => links::Mode::Auto,
            Mode::Xdp => links::Mode::Xdp,
            Mode::Packet => links::Mode::Packet,
            Mode::Tap => {
                return HostLink::open(&Tap {
                    name,
                    mac: None,
                    mtu,
                    owner: None,
                });
            }
        };
        HostLink::attach_lanes(&Device { name, mode }, lanes)
    }
}

/// A link or stub as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct LinkStatus {
    /// Link or stub.
    pub class: Class,
    /// The kind of its port, as `packet`; none for a stub.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub mode: Option<PortKind>,
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

impl Spec for Link {
    type Status = LinkStatus;
    const PATH: &'static str = "links";
    const NOUN: &'static str = "link";
    const CALLED: [&'static str; 2] = ["a link", "links"];
    const CHANGEABLE: &'static [&'static str] = &["port", "properties"];

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
            mode: Some(PortKind::Packet),
            mtu: 1500,
            state: State::Up,
            reason: None,
            vnics: 1,
        };
        link
    }
}

record!(LinkRecord: "links", Link);

/// A link or stub.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkRecord {
    /// Its name: the interface's, or the stub's.
    pub name: String,
    /// The specification; for a stub, its properties.
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
    /// The number of its interface when it was attached, which identifies the interface under any
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The action of a flow table for frames without an entry.
    #[serde(default)]
    pub default: FlowDefault<String>,
}

impl LinkRecord {
    /// Largest IP packet that it carries for a port, in bytes: in a tunnel, a VLAN's tag takes its
    /// place from the packet.
    pub fn carries(&self, vlan: Option<Vlan>) -> u16 {
        const TAG: u16 = 4;
        match (&self.spec.vxlan, vlan) {
            (Some(_), Some(_)) => self.mtu - TAG,
            _ => self.mtu,
        }
    }
}
