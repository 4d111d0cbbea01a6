//! VNICs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use switch::links::{HostLink, Tap, VhostUser};
use switch::lookup::Mac;
use switch::port::guest::MTU_MAX;
use switch::properties::PortProperties;
use utoipa::ToSchema;

use super::object::{Object, Spec, Verb, is_default, record};
use super::properties::PortTable;
use super::{OnDemand, State, Trigger};
use crate::error::{Error, Fault, Result};

/// Whether an interface can have `mac` as its own.
pub fn is_usable(mac: Mac) -> bool {
    !mac.is_multicast() && mac.0 != [0; 6]
}

/// A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a
/// program's that speaks vhost-user, or a user NSM's, or starts a guest when it is needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vnic {
    /// The stub or link that it is on.
    pub link: String,
    /// The network namespace that it is in: a name (`ip netns`), or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether it is in the host's namespace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: bool,
    /// The socket where a vhost-user frontend connects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub vhost_user: Option<PathBuf>,
    /// The guest that is started when it is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<OnDemand>,
    /// The user NSM that has it: it is made with the NSM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nsm: Option<String>,
    /// The interface's name in the namespace or on the host; default: the VNIC's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its Ethernet address; default: in a wire, derived from the names, else random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "02:00:00:00:00:01")]
    pub mac: Option<Mac>,
    /// The IP addresses of its interface, with their prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.2/24"]))]
    pub addresses: Vec<IpNet>,
    /// Speed, delay, loss, VLAN, protection and so on.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = PortTable)]
    pub properties: PortProperties,
}

/// The fields of a VNIC that say where it is.
pub const LOCATIONS: &str = "`namespace`, `host`, `vhost-user` and `guest`";

/// Where a VNIC's interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location<'a> {
    /// In a guest, which takes it when it is created, or which it starts.
    Guest,
    /// In a network namespace.
    Namespace(&'a str),
    /// On the host.
    Host,
    /// In a program that connects to this socket.
    VhostUser(&'a Path),
    /// In a user NSM.
    Nsm(&'a str),
}

impl Location<'_> {
    /// What it is, and its name; none for a guest.
    pub fn described(&self) -> Option<(&'static str, String)> {
        match self {
            Location::Guest => None,
            Location::Namespace(name) => Some(("namespace", name.to_string())),
            Location::Host => Some(("", "host".into())),
            Location::VhostUser(socket) => Some(("vhost-user", socket.display().to_string())),
            Location::Nsm(name) => Some(("nsm", name.to_string())),
        }
    }
}

impl Vnic {
    /// Where its interface is.
    pub fn location(&self) -> Location<'_> {
        match (&self.namespace, self.host, &self.vhost_user, &self.nsm) {
            (Some(namespace), ..) => Location::Namespace(namespace),
            (_, true, ..) => Location::Host,
            (_, _, Some(socket), _) => Location::VhostUser(socket),
            (.., Some(nsm)) => Location::Nsm(nsm),
            _ => Location::Guest,
        }
    }

    /// Whether its user has the rings of a data region.
    pub fn has_rings(&self) -> bool {
        matches!(self.location(), Location::Guest | Location::Nsm(_))
    }

    /// The socket that it has instead of an interface.
    pub fn socket(&self) -> Option<&Path> {
        self.vhost_user.as_deref()
    }

    /// Whether the node makes an interface for it, on the host or in a namespace.
    pub fn has_interface(&self) -> bool {
        matches!(self.location(), Location::Host | Location::Namespace(_))
    }

    /// How many locations its fields give it beside a guest.
    pub fn locations(&self) -> usize {
        let locations = [
            self.namespace.is_some(),
            self.host,
            self.vhost_user.is_some(),
            self.guest.is_some(),
        ];
        locations.iter().filter(|given| **given).count()
    }

    /// Refuses fields that exclude each other.
    pub fn check_place(&self, name: &str) -> Result<()> {
        if let Some(nsm) = &self.nsm {
            return Err(Fault::VnicOfNsm { nsm: nsm.clone() }.into());
        }
        if self.locations() > 1 {
            let (vnic, fields) = (name.into(), LOCATIONS);
            return Err(Fault::Locations { vnic, fields }.into());
        }
        let without = |field| Fault::NoInterface {
            vnic: name.into(),
            field,
        };
        match self.has_interface() {
            false if self.interface.is_some() => Err(without("interface").into()),
            false if !self.addresses.is_empty() => Err(without("addresses").into()),
            _ => self.check_addresses(name),
        }
    }

    /// Refuses an address that is given twice, with any prefixes.
    pub fn check_addresses(&self, name: &str) -> Result<()> {
        let mut seen = BTreeSet::new();
        let mut all = self.addresses.iter().enumerate();
        match all.find(|(_, it)| !seen.insert(it.addr())) {
            Some((at, twice)) => Err(Fault::AddressTwice {
                vnic: name.into(),
                address: twice.addr(),
                at,
            }
            .into()),
            None => Ok(()),
        }
    }
}

/// A VNIC as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct VnicStatus {
    /// Whether it works.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The guest that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// The name of its interface in the namespace or on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

impl Spec for Vnic {
    type Status = VnicStatus;
    const PATH: &'static str = "vnics";
    const NOUN: &'static str = "vnic";
    const CALLED: [&'static str; 2] = ["a VNIC", "VNICs"];
    const CHANGEABLE: &'static [&'static str] = &["properties", "addresses", "mac"];

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Create => {
                "Its interface in a namespace or on the host is made with it. One with `guest` waits for a frame."
            }
            Verb::Put | Verb::Patch => {
                "`properties` and `addresses` can change; properties hold from the next frame on."
            }
            Verb::Delete => {
                "Its interface is removed with it, or the guest that it started; no other guest may have it."
            }
            _ => "",
        }
    }

    fn example() -> Object<Vnic> {
        let mut vnic = Object::new(
            "desk0",
            Vnic {
                link: "lan".into(),
                namespace: Some("desk".into()),
                interface: Some("eth0".into()),
                mac: Some(Mac([2, 0, 0, 0, 0, 1])),
                addresses: "10.0.0.2/24".parse().into_iter().collect(),
                ..Vnic::default()
            },
        );
        vnic.spec.properties.mtu = Some(1400);
        vnic.status = VnicStatus {
            state: State::Up,
            mtu: 1400,
            interface: Some("eth0".into()),
            ..VnicStatus::default()
        };
        vnic
    }
}

/// That a guest takes shorter packets by a VNIC than its link of this MTU carries, unless the VNIC was
/// given an MTU.
pub(crate) fn takes_less(vnic: &str, asked: Option<u16>, link: &str, mtu: u16) -> Option<String> {
    (asked.is_none() && mtu > MTU_MAX).then(|| {
        format!(
            "vnic ‘{vnic}’: its link ‘{link}’ has an MTU of {mtu} bytes, and a guest takes IP packets of at most {MTU_MAX}: longer ones are dropped: give its neighbours `mtu={MTU_MAX}`"
        )
    })
}

record!(VnicRecord: "vnics", Vnic);

/// A VNIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VnicRecord {
    /// Its name, and that of its port.
    pub name: String,
    /// The specification, with its address.
    pub spec: Vnic,
    /// Whether it was made for a guest's interface and is removed with the guest.
    #[serde(default)]
    pub implicit: bool,
    /// The VNIC of which it gets one connection at a time, if it is made for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<String>,
}

impl VnicRecord {
    /// The VNICs behind it, each for a connection.
    pub fn behind(&self) -> Vec<VnicRecord> {
        let Some(on) = &self.spec.guest else {
            return Vec::new();
        };
        let vnic = |name| VnicRecord {
            name,
            spec: Vnic {
                guest: Some(OnDemand {
                    on: Trigger::FirstPacket,
                    guests: None,
                    ..on.clone()
                }),
                // What it may do is the front's to say.
                properties: PortProperties {
                    mtu: self.spec.properties.mtu,
                    ..PortProperties::default()
                },
                ..self.spec.clone()
            },
            implicit: false,
            front: Some(self.name.clone()),
        };
        on.behind(&self.name).into_iter().map(vnic).collect()
    }

    /// Its address.
    pub fn mac(&self) -> Mac {
        self.spec.mac.unwrap_or(Mac([0; 6]))
    }

    /// The name that its interface has in the namespace or on the host.
    pub fn interface(&self) -> &str {
        self.spec.interface.as_deref().unwrap_or(&self.name)
    }

    /// Makes its interface in the namespace of this thread, or its socket. `mtu` is its link's.
    pub fn open(&self, mtu: u16) -> Result<HostLink> {
        let mtu = self.spec.properties.mtu.unwrap_or(mtu).min(mtu);
        let Some(path) = self.spec.socket() else {
            let link = HostLink::open(&Tap {
                name: self.interface(),
                mac: self.spec.mac,
                mtu,
                owner: None,
            });
            return link.map_err(|error| match self.spec.interface {
                Some(_) => Error::from(error).renamed("name", "interface"),
                None => error.into(),
            });
        };
        if !path.is_absolute() {
            return Err(Error::invalid(format_args!(
                "‘{}’ is a relative path: give the socket's absolute path",
                path.display()
            ))
            .of_field("vhost-user"));
        }
        let link = HostLink::open(&VhostUser {
            path,
            name: &self.name,
            mtu,
            owner: None,
        })?;
        Ok(link.with_mac(self.mac()))
    }
}
