//! Virtual wires: whole networks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use switch::lookup::Mac;
use switch::properties::PortProperties;
use utoipa::ToSchema;

use super::object::{Object, Spec, Verb, is_default, record};
use super::properties::PortTable;
use super::{Application, Chain, Flow, Guest, GuestState, Link, Nsm, State, Stub, Vnic, output};

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Its name.
    pub wire: String,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Stubs and links of the node that it uses, and neither makes nor removes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub existing: BTreeSet<String>,
    /// Functions in a row, in a wire's file only: reading it makes guests of them.
    #[serde(rename = "chain", default, skip_serializing)]
    #[schema(ignore)]
    pub chains: BTreeMap<String, Chain>,
    /// Switches without a NIC, and their properties.
    #[serde(rename = "stub", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stubs: BTreeMap<String, Stub>,
    /// Switches with a NIC: interfaces of the host that are attached.
    #[serde(rename = "link", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, Link>,
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
    /// Network stack modules.
    #[serde(rename = "nsm", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nsms: BTreeMap<String, Nsm>,
    /// Programs that the node runs, whose sockets NSMs serve.
    #[serde(rename = "app", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub applications: BTreeMap<String, Application>,
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

impl Wire {
    /// The address of a VNIC that is given none: always the same for the same wire, so that its
    /// neighbours still know one that was made again. (FNV-1a.)
    pub fn mac_of(wire: &str, vnic: &str) -> Mac {
        let bytes = wire.bytes().chain([0]).chain(vnic.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let [_, b, c, d, e, f, ..] = hash.to_le_bytes();
        // Locally administered, unicast.
        Mac([0x02, b, c, d, e, f])
    }
}

/// A wire between two switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// The two stubs or links.
    pub between: [String; 2],
    /// Properties from the first to the second; also back, unless `back` is given.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = PortTable)]
    pub properties: PortProperties,
    /// Properties from the second to the first; default: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PortTable>)]
    pub back: Option<PortProperties>,
}

/// A network namespace, as `ip netns` knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Whether it is there already: then the wire neither makes nor removes it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub existing: bool,
    /// Whether it forwards IP packets between its interfaces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forwarding: bool,
    /// Its routes, besides the routes that follow from its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["default via 10.0.1.1"]))]
    pub routes: Vec<Route>,
}

/// A switch's flow table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The action for frames without an entry, in ovs-ofctl's words: `normal` (by addresses), `drop`
    /// or `output:VNIC`; default: `normal`.
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
    "‘{0}’ is not a route: write PREFIX or default, then ‘via ADDRESS’, ‘dev VNIC’ or both, and ‘metric N’ if it has one"
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

impl Spec for Wire {
    type Status = WireStatus;
    const PATH: &'static str = "wires";
    const NOUN: &'static str = "wire";
    const CALLED: [&'static str; 2] = ["a wire", "wires"];
    const HAS_CONFIG: bool = true;
    const VERBS: &'static [Verb] = &[Verb::List, Verb::Show, Verb::Delete];

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::List => "The configurations of guests are omitted.",
            Verb::Delete => "All its parts are removed with it.",
            _ => "",
        }
    }

    fn example() -> Object<Wire> {
        let mut wire = Wire {
            wire: "office".into(),
            description: "A switch and a host".into(),
            ..Wire::default()
        };
        wire.stubs.insert("lan".into(), Stub::default());
        wire.namespaces.insert("desk".into(), Namespace::default());
        wire.vnics.insert("desk0".into(), Vnic::example().spec);
        Object::new("office", wire)
    }

    fn shorten(&mut self) {
        self.guests.values_mut().for_each(Guest::shorten);
    }
}

/// A wire as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct WireStatus {
    /// The state of each of its guests.
    pub guests: Vec<WireGuest>,
    /// The state of each of its NSMs.
    pub nsms: Vec<WireProcess>,
    /// The state of each of its applications.
    pub applications: Vec<WireProcess>,
    /// Whether it is being changed.
    pub changing: bool,
}

/// State of a guest of a wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WireGuest {
    /// Its name.
    pub name: String,
    /// Its state; `None` if it was removed.
    pub state: Option<GuestState>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// State of an NSM or an application of a wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WireProcess {
    /// Its name.
    pub name: String,
    /// Its state; `None` if it was removed.
    pub state: Option<State>,
    /// Why it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The steps that applying a wire took, or would take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WireChange {
    /// The steps in their order, a line each: `+` makes a part, `-` removes it, `~` changes it.
    pub steps: Vec<String>,
    /// What the wire's author should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}

record!(WireRecord: "wires");

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
    /// Links that were attached for it: they are removed with it. Links that were attached before
    /// are not.
    #[serde(default)]
    pub links: Vec<String>,
    /// What namespaces that were there before forwarded, where that was changed for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forwarding: BTreeMap<String, Forwarding>,
}

impl WireRecord {
    /// Whether a guest is of this wire, in its present or its desired form.
    pub fn has_guest(&self, name: &str) -> bool {
        let wires = [Some(&self.applied), self.pending.as_ref()];
        wires
            .into_iter()
            .flatten()
            .any(|wire| wire.guests.contains_key(name))
    }

    /// Its desired form.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_those_of_ip_route() {
        for text in [
            "default via 10.0.0.1",
            "10.1.0.0/16 via 10.0.0.1 dev eth0",
            "fd00::/8 dev x",
            "default via fe80::1 dev x",
            "10.1.0.0/16 via 10.0.0.1 dev eth0 metric 7",
            "10.1.0.0/16 via 10.0.0.1 metric 7",
        ] {
            assert_eq!(text.parse::<Route>().unwrap().to_string(), text);
        }
        assert_eq!(
            "10.1.2.3 dev x".parse::<Route>().unwrap().to_string(),
            "10.1.2.3/32 dev x"
        );
        assert_eq!(
            "::/0 dev x".parse::<Route>().unwrap().to_string(),
            "::/0 dev x"
        );
        for wrong in [
            "",
            "default",
            "10.0.0.0/33 dev x",
            "10.0.0.0/8 via fd00::1",
            "default via 1.1.1.1 via 1.1.1.1",
            "default dev",
            "default dev x metric",
            "default dev x metric high",
        ] {
            assert!(wrong.parse::<Route>().is_err(), "{wrong}");
        }
    }
}
