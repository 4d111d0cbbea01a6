//! Checks of a wire's consistency that need the file alone.

mod stacks;
mod vnics;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use switch::lookup::Flow;
use switch::netlink;
use switch::properties::{DomainProperties, LookupKind, cpus_here};

use crate::model::{
    INTERFACE_NAME_MAX, NAME_MAX, Route, Vnic, Wire, check_stub_mtu, output, takes_less,
};

/// Longest name of a wire and of a patch, which ports are called by together.
const PATCH_MAX: usize = 31;
/// The MTU to check against if the link's is not known yet.
const MTU: u16 = 1500;

/// The errors of a wire: each is a sentence that names the part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What keeps it from being applied.
    pub errors: Vec<String>,
    /// The field that the first of them is about.
    pub field: Option<String>,
    /// What its author should know.
    pub warnings: Vec<String>,
}

/// Looks a wire over.
pub fn check(wire: &Wire) -> Findings {
    let mut findings = Findings::default();
    let mut look = Look {
        wire,
        findings: &mut findings,
    };
    look.names();
    look.switches();
    look.vnics();
    look.addresses();
    look.namespaces();
    look.stacks();
    look.guests();
    look.flows();
    look.tables();
    look.cycles();
    findings
}

struct Look<'a> {
    wire: &'a Wire,
    findings: &'a mut Findings,
}

/// A name that a shell, a file and the API can take.
fn is_name(name: &str, most: usize) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=most).contains(&name.len())
        && name.chars().all(letter)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

impl Look<'_> {
    /// Something is wrong with a field of the wire: its path.
    fn error(&mut self, field: String, text: String) {
        self.findings.errors.push(text);
        // A fault of the whole part has no field in it.
        let field = field.trim_end_matches('.').to_string();
        self.findings.field.get_or_insert(field);
    }

    fn is_switch(&self, name: &str) -> bool {
        let wire = self.wire;
        let is_own = wire.stubs.contains_key(name) || wire.links.contains_key(name);
        is_own || wire.existing.contains(name)
    }

    fn names(&mut self) {
        let Wire {
            wire,
            existing,
            chains,
            stubs,
            links,
            patches,
            namespaces,
            vnics,
            nsms,
            applications,
            guests,
            flows,
            // They are called as their switches.
            tables: _,
            description: _,
        } = self.wire;
        let kinds: [(&str, usize, Vec<&String>); 10] = [
            ("wire", PATCH_MAX, vec![wire]),
            ("stub", NAME_MAX, stubs.keys().collect()),
            ("link", NAME_MAX, links.keys().collect()),
            ("patch", PATCH_MAX, patches.keys().collect()),
            ("namespace", NAME_MAX, namespaces.keys().collect()),
            ("vnic", INTERFACE_NAME_MAX, vnics.keys().collect()),
            ("nsm", NAME_MAX, nsms.keys().collect()),
            ("app", NAME_MAX, applications.keys().collect()),
            ("guest", NAME_MAX, guests.keys().collect()),
            ("flow", NAME_MAX, flows.keys().collect()),
        ];
        for (kind, most, names) in kinds {
            for name in names.into_iter().filter(|name| !is_name(name, most)) {
                self.error(format!("{kind}.{name}"), format!(
                    "{kind} ‘{name}’: a name is 1 to {most} letters, digits, ‘.’, ‘_’ or ‘-’, and starts with a letter or digit"
                ));
            }
        }
        for name in existing {
            if stubs.contains_key(name) || links.contains_key(name) {
                self.error(
                    "existing".into(),
                    format!(
                        "‘{name}’ is existing, and a stub or link of the wire: remove one of them"
                    ),
                );
            }
        }
        if let Some(name) = chains.keys().next() {
            self.error(
                format!("chain.{name}"),
                format!(
                    "chain ‘{name}’: only a file has chains: `weir wire apply` makes guests of them"
                ),
            );
        }
        for name in stubs.keys().filter(|name| links.contains_key(*name)) {
            self.error(
                format!("stub.{name}"),
                format!(
                    "stub ‘{name}’ and link ‘{name}’: a VNIC's link would be ambiguous: rename one"
                ),
            );
        }
    }

    fn switches(&mut self) {
        let wire = self.wire;
        let links = wire
            .links
            .iter()
            .map(|(name, link)| ("link", name, &link.properties));
        let stubs = wire.stubs.iter();
        let stubs = stubs.map(|(name, stub)| ("stub", name, &stub.properties));
        for (kind, name, properties) in links.chain(stubs) {
            if let Err(error) = properties.check() {
                self.error(
                    format!("{kind}.{name}"),
                    format!("{kind} ‘{name}’: {error}"),
                );
            }
        }
        for (name, stub) in &wire.stubs {
            if let Some(Err(error)) = stub.mtu.map(check_stub_mtu) {
                self.error(
                    format!("stub.{name}.mtu"),
                    format!("stub ‘{name}’: {error}"),
                );
            }
        }
        let mut devices: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, link) in &wire.links {
            if let Err(error) = link.check_fields() {
                self.error(format!("link.{name}"), format!("link ‘{name}’: {error}"));
            }
            if let Err(error) = link.port.check(MTU, &cpus_here()) {
                self.error(
                    format!("link.{name}.port"),
                    format!("link ‘{name}’: {error}"),
                );
            }
            if let Some(device) = link.interface()
                && !device.is_empty()
                && let Some(other) = devices.insert(device, name)
            {
                self.error(
                    format!("link.{name}.device"),
                    format!("link ‘{name}’: interface ‘{device}’ is link ‘{other}’ already"),
                );
            }
        }
        for (name, patch) in &wire.patches {
            for end in &patch.between {
                if !self.is_switch(end) {
                    self.missing("patch", name, "stub or link", end);
                }
            }
            if patch.between[0] == patch.between[1] {
                self.error(
                    format!("patch.{name}.between"),
                    format!(
                        "patch ‘{name}’: both ends are on switch ‘{}’",
                        patch.between[0]
                    ),
                );
            }
            for properties in [Some(&patch.properties), patch.back.as_ref()] {
                let checked = properties.map_or(Ok(()), |it| it.check(MTU, &cpus_here()));
                if let Err(error) = checked {
                    self.error(
                        format!("patch.{name}.properties"),
                        format!("patch ‘{name}’: {error}"),
                    );
                }
            }
        }
    }

    fn missing(&mut self, kind: &str, name: &str, what: &str, missing: &str) {
        let field = match kind {
            "patch" => format!("patch.{name}.between"),
            "guest" => format!("guest.{name}.interfaces"),
            "table" => format!("table.{name}"),
            _ => format!("{kind}.{name}.link"),
        };
        self.error(
            field,
            format!("{kind} ‘{name}’: there is no {what} ‘{missing}’ in the wire"),
        );
    }

    fn namespaces(&mut self) {
        let wire = self.wire;
        for (name, namespace) in &wire.namespaces {
            let inside = |vnic: &&Vnic| vnic.namespace.as_deref() == Some(name);
            let mut prefixes: BTreeMap<(IpNet, u32), &Route> = BTreeMap::new();
            for route in &namespace.routes {
                let metric = netlink::metric(route.to, route.metric);
                if let Some(other) = prefixes.insert((route.to, metric), route) {
                    self.error(format!("namespace.{name}.routes"), format!(
                        "namespace ‘{name}’: route ‘{route}’ is to the same prefix as ‘{other}’ and would replace it: give one of them another ‘metric N’"
                    ));
                }
                if let Some(vnic) = &route.vnic {
                    if !wire.vnics.get(vnic).is_some_and(|vnic| inside(&vnic)) {
                        self.error(format!("namespace.{name}.routes"), format!(
                            "namespace ‘{name}’: route ‘{route}’ goes out by ‘{vnic}’, which is not a vnic in it"
                        ));
                    }
                    continue;
                }
                let mut near = wire
                    .vnics
                    .values()
                    .filter(inside)
                    .flat_map(|v| &v.addresses);
                let mut straight = namespace.routes.iter().filter(|it| it.via.is_none());
                let reached = route.via.is_some_and(|via| {
                    near.any(|net| net.contains(&via)) || straight.any(|it| it.to.contains(&via))
                });
                if !reached && !namespace.existing {
                    self.error(format!("namespace.{name}.routes"), format!(
                        "namespace ‘{name}’: route ‘{route}’: no vnic in it has an address in the gateway's subnet, and no route without a gateway leads to the gateway: add one, ‘{} dev VNIC’",
                        route.via.map_or_else(String::new, |via| IpNet::from(via).to_string())
                    ));
                }
            }
        }
    }

    fn guests(&mut self) {
        let wire = self.wire;
        let mut used: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, guest) in &wire.guests {
            for (interface, vnic) in &guest.interfaces {
                if !wire.vnics.contains_key(vnic) {
                    self.missing(
                        "guest",
                        name,
                        &format!("vnic for its interface ‘{interface}’,"),
                        vnic,
                    );
                }
                let on = wire.vnics.get(vnic).map(|vnic| (vnic, &vnic.link));
                let less = on.and_then(|(it, link)| {
                    let mtu = wire.stubs.get(link)?.mtu?;
                    takes_less(vnic, it.properties.mtu, link, mtu)
                });
                self.findings.warnings.extend(less);
                if let Some(other) = used.insert(vnic, name) {
                    self.error(format!("guest.{name}.interfaces.{interface}"), format!(
                        "guest ‘{name}’: vnic ‘{vnic}’ is an interface of guest ‘{other}’ already"
                    ));
                }
            }
            if let Err(error) = guest.check_config(name) {
                let inner = error.field().unwrap_or_default();
                self.error(format!("guest.{name}.{inner}"), error.to_string());
            }
            if guest.interfaces.is_empty() {
                self.findings
                    .warnings
                    .push(format!("guest ‘{name}’: it has no interfaces"));
            }
        }
    }

    fn flows(&mut self) {
        let wire = self.wire;
        for (name, flow) in &wire.flows {
            if !self.is_switch(&flow.link) {
                self.missing("flow", name, "stub or link", &flow.link);
            }
            if let Err(error) = flow.attributes.check() {
                self.error(
                    format!("flow.{name}.attributes"),
                    format!("flow ‘{name}’: {error}"),
                );
            }
        }
    }

    fn tables(&mut self) {
        let wire = self.wire;
        for (name, table) in &wire.tables {
            let Some(switch) = self.switch(name) else {
                self.missing("table", name, "stub or link", name);
                continue;
            };
            if switch.lookup != LookupKind::FlowTable {
                self.error(format!("table.{name}"), format!(
                    "table ‘{name}’: the lookup function of its switch is {}: give it lookup = \"flow-table\"",
                    switch.lookup
                ));
            }
            let mut flows: BTreeMap<Flow, &str> = BTreeMap::new();
            for (text, port) in &table.flows {
                self.port_of(name, port);
                match text.parse::<Flow>() {
                    Err(error) => self.error(
                        format!("table.{name}.flows"),
                        format!("table ‘{name}’: {error}"),
                    ),
                    Ok(flow) => {
                        if let Some(other) = flows.insert(flow, text) {
                            self.error(format!("table.{name}.flows"), format!(
                                "table ‘{name}’: ‘{text}’ and ‘{other}’ are the same flow: give it one port"
                            ));
                        }
                    }
                }
            }
            match table.default.as_deref() {
                None | Some("normal" | "drop") => {}
                Some(action) => match output(action) {
                    Some(port) => self.port_of(name, port),
                    None => self.error(format!("table.{name}.default"), format!(
                        "table ‘{name}’: default = \"{action}\" is invalid: it is normal (by addresses), drop, or output:VNIC"
                    )),
                },
            }
        }
    }

    /// The properties of a stub or link.
    fn switch(&self, name: &str) -> Option<&DomainProperties> {
        let link = self.wire.links.get(name).map(|link| &link.properties);
        let stub = self.wire.stubs.get(name).map(|stub| &stub.properties);
        stub.or(link)
    }

    /// Whether a flow table may send something to a port: a VNIC on its switch, or its own NIC.
    fn port_of(&mut self, table: &str, port: &str) {
        let own = port == table && self.wire.links.contains_key(table);
        let vnic = self.wire.vnics.get(port);
        if !own && vnic.is_none_or(|vnic| vnic.link != table) {
            self.missing("table", table, "vnic on its switch", port);
        }
    }

    /// Warns of switches that patches join in a ring: frames would go round for ever.
    fn cycles(&mut self) {
        let wire = self.wire;
        let mut of: BTreeMap<&str, &str> = BTreeMap::new();
        fn root<'a>(of: &BTreeMap<&'a str, &'a str>, mut name: &'a str) -> &'a str {
            while let Some(above) = of.get(name) {
                name = above;
            }
            name
        }
        let mut warned = BTreeSet::new();
        let mut bridged: Vec<(String, &str, &str)> = Vec::new();
        for (name, patch) in &wire.patches {
            bridged.push((
                format!("patch ‘{name}’"),
                &patch.between[0],
                &patch.between[1],
            ));
        }
        for (name, guest) in &wire.guests {
            let is_bridge =
                guest.config.contains("EtherSwitch") && !guest.config.contains("EtherSpanTree");
            let links: Vec<&str> = guest
                .interfaces
                .values()
                .filter_map(|vnic| Some(wire.vnics.get(vnic)?.link.as_str()))
                .collect();
            if is_bridge {
                for pair in links.windows(2) {
                    bridged.push((format!("guest ‘{name}’, a bridge,"), pair[0], pair[1]));
                }
            }
        }
        for (what, a, b) in &bridged {
            let (a, b) = (root(&of, a), root(&of, b));
            if a != b {
                of.insert(a, b);
            } else if warned.insert(what.clone()) {
                self.findings.warnings.push(format!(
                    "{what} closes a cycle of switches without a spanning tree: flooded frames would circulate forever"
                ));
            }
        }
    }
}
