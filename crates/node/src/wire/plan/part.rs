//! The parts of a wire, in the order in which they are made.

use std::collections::BTreeMap;

use serde_json::Value;
use switch::lookup::Flow as TableFlow;

use crate::model::{
    Application, EntryRecord, Flow, Guest, Link, Namespace, Nsm, Patch, Route, Stub, Vnic, Wire,
    output,
};

/// One part of a wire, with the names of links resolved to the host's interfaces. Parts are made in
/// this order: each needs only parts before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A namespace, without its routes.
    Namespace(Namespace),
    /// A switch without a NIC.
    Stub(Stub),
    /// A switch with a NIC; it is called as its interface.
    Link(Link),
    /// A wire between switches.
    Patch(Patch),
    /// A virtual NIC.
    Vnic(Vnic),
    /// The routes of the namespace of that name, which need its VNICs.
    Routes(Vec<Route>),
    /// A network stack module.
    Nsm(Nsm),
    /// A network function.
    Guest(Guest),
    /// A traffic class.
    Flow(Flow),
    /// An entry of a flow table, called by its key. Each is a part of its own, so that a change of
    /// one leaves the others alone.
    Entry {
        /// The switch.
        link: String,
        /// The flow.
        flow: TableFlow,
        /// The port that it goes to.
        port: String,
    },
    /// The default of the flow table of the switch of that name.
    Default(String),
    /// A program that the node runs.
    Application(Application),
}

/// The rank of stubs.
pub(super) const STUB: u8 = 1;
/// The rank of VNICs.
pub(super) const VNIC: u8 = 4;
/// The rank of NSMs.
pub(super) const NSM: u8 = 6;

impl Part {
    fn rank(&self) -> u8 {
        match self {
            Part::Namespace(_) => 0,
            Part::Stub(_) => STUB,
            Part::Link(_) => 2,
            Part::Patch(_) => 3,
            Part::Vnic(_) => VNIC,
            Part::Routes(_) => 5,
            Part::Nsm(_) => NSM,
            Part::Guest(_) => 7,
            Part::Flow(_) => 8,
            Part::Entry { .. } => 9,
            // Behind the entries: their flows have a destination before the default drops the rest.
            Part::Default(_) => 10,
            // Programs find their network complete.
            Part::Application(_) => 11,
        }
    }

    /// How an error calls the part.
    pub fn noun(&self) -> &'static str {
        match self {
            Part::Namespace(_) => "namespace",
            Part::Stub(_) => "stub",
            Part::Link(_) => "link",
            Part::Patch(_) => "patch",
            Part::Vnic(_) => "vnic",
            Part::Routes(_) => "routes of namespace",
            Part::Nsm(_) => "nsm",
            Part::Guest(_) => "guest",
            Part::Flow(_) => "flow",
            Part::Entry { .. } => "flow table entry",
            Part::Default(_) => "default of flow table",
            Part::Application(_) => "app",
        }
    }

    /// The switches that the part needs: it is removed with them.
    pub(super) fn switches<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        match self {
            Part::Patch(patch) => patch.between.iter().map(String::as_str).collect(),
            Part::Vnic(vnic) => vec![&vnic.link],
            Part::Flow(flow) => vec![&flow.link],
            Part::Nsm(nsm) => nsm.link.iter().map(String::as_str).collect(),
            Part::Entry { link, .. } => vec![link],
            Part::Default(_) => vec![name],
            _ => Vec::new(),
        }
    }

    /// The VNICs that the part needs: it is removed with them.
    pub(super) fn vnics(&self) -> Vec<&str> {
        match self {
            Part::Guest(guest) => guest.interfaces.values().map(String::as_str).collect(),
            Part::Entry { port, .. } => vec![port],
            Part::Default(action) => output(action).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The part as in the file.
    pub(super) fn value(&self) -> Value {
        let value = match self {
            Part::Namespace(it) => serde_json::to_value(it),
            Part::Stub(it) => serde_json::to_value(it),
            Part::Link(it) => serde_json::to_value(it),
            Part::Patch(it) => serde_json::to_value(it),
            Part::Vnic(it) => serde_json::to_value(it),
            Part::Routes(it) => Ok(serde_json::json!({ "routes": it })),
            Part::Nsm(it) => serde_json::to_value(it),
            Part::Guest(it) => serde_json::to_value(it),
            Part::Flow(it) => serde_json::to_value(it),
            Part::Entry { port, .. } => Ok(serde_json::json!({ "port": port })),
            Part::Default(action) => Ok(serde_json::json!({ "default": action })),
            Part::Application(it) => serde_json::to_value(it),
        };
        value.unwrap_or_default()
    }

    /// Whether the part can become `other` while it is in use.
    pub(super) fn can_become(&self, other: &Part) -> bool {
        match (self, other) {
            (Part::Vnic(old), Part::Vnic(new)) => {
                let there = Vnic {
                    addresses: old.addresses.clone(),
                    properties: old.properties.clone(),
                    ..new.clone()
                };
                // An access port is another port; so is one with another MTU.
                let (a, b) = (&old.properties, &new.properties);
                there == *old && a.vlan == b.vlan && a.mtu == b.mtu
            }
            (Part::Guest(old), Part::Guest(new)) => {
                let same = Guest {
                    config: old.config.clone(),
                    variables: old.variables.clone(),
                    restart: old.restart,
                    ..new.clone()
                };
                same == *old
            }
            (Part::Nsm(old), Part::Nsm(new)) => old.can_become(new),
            (Part::Application(old), Part::Application(new)) => old.can_become(new),
            (Part::Stub(old), Part::Stub(new)) => old.mtu == new.mtu,
            (Part::Patch(_), _) | (Part::Flow(_), _) => false,
            _ => true,
        }
    }
}

/// Rank and name.
pub(super) type Key = (u8, String);
pub(super) type Parts = BTreeMap<Key, Part>;

/// All parts of a wire.
pub(super) fn parts(wire: &Wire) -> Parts {
    let link = |name: &String| match wire.links.get(name) {
        Some(link) => link.called(name),
        None => name.clone(),
    };
    let mut parts = Parts::new();
    let mut add = |name: String, part: Part| drop(parts.insert((part.rank(), name), part));
    for (name, namespace) in &wire.namespaces {
        let mut namespace = namespace.clone();
        let routes = std::mem::take(&mut namespace.routes);
        add(name.clone(), Part::Namespace(namespace));
        if !routes.is_empty() {
            add(name.clone(), Part::Routes(routes));
        }
    }
    for (name, stub) in &wire.stubs {
        add(name.clone(), Part::Stub(stub.clone()));
    }
    for (name, it) in &wire.links {
        add(it.called(name), Part::Link(it.clone()));
    }
    for (name, patch) in &wire.patches {
        let mut patch = patch.clone();
        patch.between = patch.between.each_ref().map(link);
        add(name.clone(), Part::Patch(patch));
    }
    for (name, vnic) in &wire.vnics {
        let link = link(&vnic.link);
        add(
            name.clone(),
            Part::Vnic(Vnic {
                link,
                ..vnic.clone()
            }),
        );
    }
    for (name, nsm) in &wire.nsms {
        let link = nsm.link.as_ref().map(link);
        let nsm = nsm.clone();
        add(name.clone(), Part::Nsm(Nsm { link, ..nsm }));
    }
    for (name, application) in &wire.applications {
        add(name.clone(), Part::Application(application.clone()));
    }
    for (name, guest) in &wire.guests {
        add(name.clone(), Part::Guest(guest.clone()));
    }
    for (name, flow) in &wire.flows {
        let link = link(&flow.link);
        add(
            name.clone(),
            Part::Flow(Flow {
                link,
                ..flow.clone()
            }),
        );
    }
    for (name, table) in &wire.tables {
        let own = link(name);
        // Its own name stands for the switch's NIC.
        let port = |port: &str| {
            if port == name {
                own.clone()
            } else {
                port.into()
            }
        };
        // Invalid texts were reported before.
        let flows = table.flows.iter();
        for (flow, to) in flows.filter_map(|(flow, to)| Some((flow.parse().ok()?, to))) {
            let entry = Part::Entry {
                link: own.clone(),
                flow,
                port: port(to),
            };
            add(EntryRecord::key(&own, flow), entry);
        }
        if let Some(action) = &table.default {
            let action = match output(action) {
                Some(to) => format!("output:{}", port(to)),
                None => action.clone(),
            };
            add(own.clone(), Part::Default(action));
        }
    }
    parts
}

/// The patches of a wire, with the names of links resolved.
pub fn patches(wire: &Wire) -> Vec<(String, Patch)> {
    let patch = |((_, name), part)| match part {
        Part::Patch(patch) => Some((name, patch)),
        _ => None,
    };
    parts(wire).into_iter().filter_map(patch).collect()
}
