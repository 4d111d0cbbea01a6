//! What a wire's file says, as values. TOML; unknown keys are errors.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use switch::lookup::Mac;
use switch::properties::{
    Bandwidth, DomainProperties, FlowAttributes, FlowProperties, LookupKind, PortProperties,
};

use crate::model::{Isolation, Restart, Tunnel};

/// A virtual wire: a whole network. Each part has a name of its own among those of its kind.
///
/// As text it is TOML:
///
/// ```toml
/// wire = "two-subnets"
///
/// [stub.office]
/// speed = "1G"
///
/// [namespace.desk]
/// routes = ["default via 10.0.1.1"]
///
/// [vnic.desk0]
/// link = "office"
/// namespace = "desk"
/// addresses = ["10.0.1.2/24"]
/// properties = { maxbw = "100M", delay = "2ms" }
///
/// [guest.router]
/// file = "router.click"
/// interfaces = { inside = "router0", outside = "router1" }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Its name.
    pub wire: String,
    /// What it is, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Switches without a NIC, and their properties.
    #[serde(rename = "stub", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stubs: BTreeMap<String, Stub>,
    /// Switches with a NIC: interfaces of the host that are attached.
    #[serde(rename = "link", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, Attachment>,
    /// Wires between switches.
    #[serde(rename = "patch", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub patches: BTreeMap<String, Patch>,
    /// Hosts that are network namespaces.
    #[serde(
        rename = "namespace",
        default,
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub namespaces: BTreeMap<String, Namespace>,
    /// Virtual NICs.
    #[serde(rename = "vnic", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vnics: BTreeMap<String, Vnic>,
    /// Network functions.
    #[serde(rename = "guest", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub guests: BTreeMap<String, Guest>,
    /// Traffic classes on links and stubs.
    #[serde(rename = "flow", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flows: BTreeMap<String, Flow>,
    /// Flow tables of switches that work by one, by the switches' names.
    #[serde(rename = "table", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
}

/// A switch without a NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "SaidOfStub", into = "SaidOfStub")]
pub struct Stub {
    /// Largest IP packet, in bytes; 1500 if none is given.
    pub mtu: Option<u16>,
    /// The switch's properties.
    pub properties: DomainProperties,
}

/// A stub as it is written: all in one table, where unknown keys are told with their line.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct SaidOfStub {
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lookup: Option<LookupKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aging: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mac_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<Bandwidth>,
}

impl From<SaidOfStub> for Stub {
    fn from(said: SaidOfStub) -> Stub {
        let usual = DomainProperties::default();
        Stub {
            mtu: said.mtu,
            properties: DomainProperties {
                lookup: said.lookup.unwrap_or(usual.lookup),
                aging: said.aging.unwrap_or(usual.aging),
                mac_limit: said.mac_limit.unwrap_or(usual.mac_limit),
                speed: said.speed,
            },
        }
    }
}

impl From<Stub> for SaidOfStub {
    fn from(stub: Stub) -> SaidOfStub {
        let (usual, said) = (DomainProperties::default(), stub.properties);
        SaidOfStub {
            mtu: stub.mtu,
            lookup: (said.lookup != usual.lookup).then_some(said.lookup),
            aging: (said.aging != usual.aging).then_some(said.aging),
            mac_limit: (said.mac_limit != usual.mac_limit).then_some(said.mac_limit),
            speed: said.speed,
        }
    }
}

/// How an interface of the host is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The best that works.
    #[default]
    Auto,
    /// AF_XDP.
    Xdp,
    /// AF_PACKET.
    Packet,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A switch with a NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Attachment {
    /// The host's interface; none, if it leads to other hosts by VXLAN.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Other hosts, instead of an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vxlan: Option<Tunnel>,
    /// How it is attached.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Mode,
    /// What the interface's port may do: `lanes`, `maxbw` and so on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: PortProperties,
    /// The switch's properties.
    #[serde(default, skip_serializing_if = "is_default")]
    pub properties: DomainProperties,
}

impl Attachment {
    /// What the node calls the link that is called `name` in the file: as its interface.
    pub fn called(&self, name: &str) -> String {
        match self.vxlan {
            Some(_) => name.into(),
            None => self.device.clone(),
        }
    }
}

/// A wire between two switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// The two stubs or links.
    pub between: [String; 2],
    /// What the wire does, from the first to the second, and back unless that is said.
    #[serde(default, skip_serializing_if = "is_default")]
    pub properties: PortProperties,
    /// What it does from the second to the first, if that is another thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<PortProperties>,
}

/// A network namespace, as `ip netns` knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Whether it is there already: then the wire neither makes nor removes it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub existing: bool,
    /// Whether it forwards IP packets between its interfaces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forwarding: bool,
    /// Its routes, besides those that follow from its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a
/// program's that speaks vhost-user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vnic {
    /// The stub or link that it is on.
    pub link: String,
    /// The namespace that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether it is in the host's namespace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: bool,
    /// The socket where a vhost-user frontend connects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost_user: Option<PathBuf>,
    /// The interface's name in the namespace; the VNIC's own if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its Ethernet address; without one, one that follows from the wire's name and its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// Its IP addresses, with their prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpNet>,
    /// Speed, delay, loss, VLAN, protection and so on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub properties: PortProperties,
}

/// A network function in a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Guest {
    /// The file with its Click configuration, from the wire's own folder on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The configuration itself, instead of a file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Which VNIC is which of its interfaces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<String, String>,
    /// Private memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Slots of each ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_slots: Option<u32>,
    /// Virtual CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// CPUs of the host that those are tied to, one each in turn; without any, they run on all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pin: Vec<usize>,
    /// The wall around it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub isolation: Isolation,
    /// When it is started anew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: Restart,
}

/// An amount of memory in bytes: a number, or one with K, M or G for the binary multiples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Memory(pub u64);

/// A text that is no amount of memory.
#[derive(Debug, thiserror::Error)]
#[error("‘{0}’ is no size: write bytes, or a number with K, M or G")]
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

impl TryFrom<String> for Memory {
    type Error = NoSize;

    fn try_from(text: String) -> Result<Memory, NoSize> {
        text.parse()
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

/// A class of traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The stub or link.
    pub link: String,
    /// Which frames are its own.
    pub attributes: FlowAttributes,
    /// What is done to them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub properties: FlowProperties,
}

/// A switch's flow table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Where goes what has no entry, in ovs-ofctl's words: `normal` (by addresses), `drop` or
    /// `output:VNIC`; `normal` if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Flows, in ovs-ofctl's words, and the VNIC that each goes to, or the switch's own name for
    /// its NIC.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flows: BTreeMap<String, String>,
}

impl Table {
    /// The port that the default names.
    pub fn default_port(&self) -> Option<&str> {
        self.default.as_deref().and_then(output)
    }
}

/// The port of an action `output:PORT`.
pub fn output(action: &str) -> Option<&str> {
    action.strip_prefix("output:")
}

/// A route: `PREFIX|default [via ADDRESS] [dev VNIC] [metric N]`, as `ip route` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Route {
    /// Where to.
    pub to: IpNet,
    /// The next router.
    pub via: Option<IpAddr>,
    /// The VNIC that it goes out by.
    pub vnic: Option<String>,
    /// Which of several to one prefix is taken: that with the least.
    pub metric: Option<u32>,
}

/// A text that is no route.
#[derive(Debug, thiserror::Error)]
#[error(
    "‘{0}’ is no route: write PREFIX or default, then ‘via ADDRESS’, ‘dev VNIC’ or both, and ‘metric N’ if it has one"
)]
pub struct NoRoute(String);

impl FromStr for Route {
    type Err = NoRoute;

    fn from_str(text: &str) -> Result<Route, NoRoute> {
        let wrong = || NoRoute(text.into());
        let mut words = text.split_whitespace();
        let to = words.next().ok_or_else(wrong)?;
        let (mut via, mut vnic, mut metric) = (None, None, None);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(wrong)?;
            match word {
                "via" if via.is_none() => via = Some(value.parse::<IpAddr>().map_err(|_| wrong())?),
                "dev" if vnic.is_none() => vnic = Some(value.to_string()),
                "metric" if metric.is_none() => {
                    metric = Some(value.parse::<u32>().map_err(|_| wrong())?);
                }
                _ => return Err(wrong()),
            }
        }
        let everything = match via {
            Some(IpAddr::V6(_)) => IpNet::new(IpAddr::from([0; 16]), 0),
            _ => IpNet::new(IpAddr::from([0; 4]), 0),
        };
        let to = match to {
            "default" => everything.map_err(|_| wrong())?,
            to => match (to.parse::<IpNet>(), to.parse::<IpAddr>()) {
                (Ok(net), _) => net.trunc(),
                (_, Ok(host)) => IpNet::from(host),
                _ => return Err(wrong()),
            },
        };
        let one_family = via.is_none_or(|via| via.is_ipv4() == to.addr().is_ipv4());
        if !one_family || (via.is_none() && vnic.is_none()) {
            return Err(wrong());
        }
        Ok(Route {
            to,
            via,
            vnic,
            metric,
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a gateway to tell its family, an IPv6 default has to be written out.
        match (self.to.prefix_len(), self.to.addr(), self.via) {
            (0, IpAddr::V4(_), _) | (0, IpAddr::V6(_), Some(_)) => f.write_str("default")?,
            _ => write!(f, "{}", self.to)?,
        }
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(vnic) = &self.vnic {
            write!(f, " dev {vnic}")?;
        }
        if let Some(metric) = self.metric {
            write!(f, " metric {metric}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Route {
    type Error = NoRoute;

    fn try_from(text: String) -> Result<Route, NoRoute> {
        text.parse()
    }
}

impl From<Route> for String {
    fn from(route: Route) -> String {
        route.to_string()
    }
}

/// Why a wire's file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file itself, or a configuration that it names.
    #[error("{path}: {error}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It is no wire.
    #[error("{path}:{line}: {why}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A configuration is given twice, or not at all.
    #[error("{path}: guest ‘{guest}’ needs either ‘file’ or ‘config’, the Click configuration")]
    Config {
        /// The file.
        path: PathBuf,
        /// The guest.
        guest: String,
    },
}

impl Wire {
    /// Reads a wire's file, and the configurations that it names: the result stands by itself.
    pub fn read(path: &Path) -> Result<Wire, FileError> {
        let text = read(path)?;
        let mut wire = Wire::parse(&text, path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for (name, guest) in &mut wire.guests {
            match guest.file.take() {
                Some(file) if guest.config.is_empty() => guest.config = read(&folder.join(file))?,
                None if !guest.config.is_empty() => {}
                _ => {
                    return Err(FileError::Config {
                        path: path.into(),
                        guest: name.clone(),
                    });
                }
            }
        }
        Ok(wire)
    }

    /// The wire in a text; `path` is what errors call it.
    pub fn parse(text: &str, path: &Path) -> Result<Wire, FileError> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let why: Vec<_> = error.message().lines().map(str::trim).collect();
            FileError::Parse {
                path: path.into(),
                line: before.unwrap_or("").matches('\n').count() + 1,
                why: why.join("; "),
            }
        })
    }

    /// The wire as text, configurations in it, for [`parse`](Self::parse) to read.
    pub fn to_text(&self) -> String {
        // Every value of a wire has a form in TOML.
        toml::to_string_pretty(self).unwrap_or_default()
    }
}

fn read(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|error| FileError::Read {
        path: path.into(),
        error,
    })
}
