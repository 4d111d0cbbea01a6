//! Making a wire of what was seen.
//!
//! A bridge becomes a stub, or a link if a NIC is a port of it. A veth pair with one end in a bridge
//! becomes a VNIC, with both ends in bridges a patch, with none a stub with two VNICs. A VLAN
//! interface on a VNIC becomes a VNIC of its own. What has no counterpart is told in a note.

use std::collections::{BTreeMap, BTreeSet};

use switch::properties::{Bandwidth, DomainProperties, Loss, Micros, PortProperties, Vlan};

use super::seen::{Kind, Link as SeenLink, Namespace as SeenNamespace, Shaping};
use crate::model::{Link, Namespace, Patch, Route, STUB_MTUS, Stub, Vnic, Wire};

/// The MTU that needs no mention.
const MTU: u16 = 1500;
/// Longest name of a VNIC.
const VNIC_MAX: usize = 15;
/// Longest name of anything else.
const NAME_MAX: usize = 31;

/// A wire, and what of the network is not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Captured {
    /// The wire.
    pub wire: Wire,
    /// What has no counterpart, a sentence each.
    pub notes: Vec<String>,
}

impl Captured {
    /// Leaves out switches from which no captured namespace is reached, and what is on them.
    pub fn keep_reached(&mut self) {
        let wire = &mut self.wire;
        let in_namespaces = wire.vnics.values().filter(|vnic| vnic.namespace.is_some());
        let mut reached: BTreeSet<String> = in_namespaces.map(|vnic| vnic.link.clone()).collect();
        loop {
            let patches = wire.patches.values().map(|patch| &patch.between);
            let beyond = patches.filter(|ends| ends.iter().any(|end| reached.contains(end)));
            let beyond: Vec<_> = beyond.flatten().cloned().collect();
            let before = reached.len();
            reached.extend(beyond);
            if reached.len() == before {
                break;
            }
        }
        wire.stubs.retain(|name, _| reached.contains(name));
        wire.links.retain(|name, _| reached.contains(name));
        wire.vnics.retain(|_, vnic| reached.contains(&vnic.link));
        let is_reached = |patch: &Patch| patch.between.iter().all(|end| reached.contains(end));
        wire.patches.retain(|_, patch| is_reached(patch));
    }
}

/// Makes a wire called `name` of what was seen; namespaces get `prefix` in front of their names.
pub fn describe(seen: &[SeenNamespace], name: &str, prefix: &str) -> Captured {
    let mut describing = Describing {
        seen,
        wire: Wire {
            wire: name.into(),
            ..Wire::default()
        },
        notes: Vec::new(),
        prefix,
        taken: BTreeSet::new(),
        vnics: BTreeMap::new(),
    };
    describing.bridges();
    describing.pairs();
    describing.mtus();
    describing.namespaces();
    describing.left_out();
    Captured {
        wire: describing.wire,
        notes: describing.notes,
    }
}

/// An interface: its namespace's place and its number there.
type At = (usize, u32);

struct Describing<'a> {
    seen: &'a [SeenNamespace],
    wire: Wire,
    notes: Vec<String>,
    prefix: &'a str,
    /// Names of VNICs and switches that are used.
    taken: BTreeSet<String>,
    /// Which VNIC an interface became.
    vnics: BTreeMap<At, String>,
}

impl<'a> Describing<'a> {
    fn note(&mut self, at: usize, link: &SeenLink, text: &str) {
        let namespace = self.seen[at].called();
        self.notes
            .push(format!("‘{}’ of {namespace}: {text}", link.name));
    }

    /// A name like `wanted` that nothing has yet.
    fn name(&mut self, wanted: &str, most: usize) -> String {
        let letter = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        };
        let clean: String = wanted.chars().map(letter).collect();
        let clean = clean.trim_start_matches(['.', '_', '-']);
        let clean = if clean.is_empty() { "x" } else { clean };
        let fits = |ending: &str| {
            let room = most - ending.len();
            format!("{}{ending}", &clean[..clean.len().min(room)])
        };
        let endings = std::iter::once(String::new()).chain((2..).map(|n: u32| n.to_string()));
        let mut names = endings.map(|ending| fits(&ending));
        let name = names
            .find(|name| !self.taken.contains(name))
            .unwrap_or_default();
        self.taken.insert(name.clone());
        name
    }

    /// The other end of a veth pair.
    fn peer(&self, link: &SeenLink) -> Option<(usize, &'a SeenLink)> {
        let Kind::Veth { index, namespace } = link.kind else {
            return None;
        };
        let at = namespace?;
        Some((at, self.seen.get(at)?.link(index)?))
    }

    /// The bridge that an interface is a port of.
    fn bridge_of(&self, at: usize, link: &SeenLink) -> Option<&'a SeenLink> {
        let master = self.seen[at].link(link.master?)?;
        matches!(master.kind, Kind::Bridge { .. }).then_some(master)
    }

    fn bridges(&mut self) {
        let seen = self.seen;
        let mut switches: BTreeMap<At, String> = BTreeMap::new();
        let mut made = Vec::new();
        for (at, namespace) in seen.iter().enumerate() {
            for bridge in &namespace.links {
                if let Kind::Bridge { .. } = bridge.kind {
                    let name = self.switch(at, bridge);
                    switches.insert((at, bridge.index), name.clone());
                    made.push((at, bridge, name));
                }
            }
        }
        for (at, bridge, name) in made {
            let ports = seen[at]
                .links
                .iter()
                .filter(|port| port.master == Some(bridge.index));
            for port in ports {
                self.port(at, port, &name, &switches);
            }
            if !bridge.addresses.is_empty() {
                self.vnic(at, bridge, &name, PortProperties::default());
            }
        }
    }

    /// Makes a bridge a stub, or a link if it has a NIC. Returns its name.
    fn switch(&mut self, at: usize, bridge: &SeenLink) -> String {
        let name = self.name(&bridge.name, NAME_MAX);
        let mut properties = DomainProperties::default();
        if let Kind::Bridge {
            aging,
            spanning_tree,
            ..
        } = bridge.kind
        {
            properties.aging = aging.max(1);
            if spanning_tree {
                self.note(at, bridge, "it runs the spanning tree protocol, which a stub does not: see that the wire has no rings");
            }
        }
        let ports = self.seen[at]
            .links
            .iter()
            .filter(|port| port.master == Some(bridge.index));
        let mut nics = ports.filter(|port| is_nic(&port.kind));
        match nics.next() {
            Some(nic) => {
                let link = Link {
                    device: nic.name.clone(),
                    properties,
                    ..Link::default()
                };
                self.wire.links.insert(name.clone(), link);
                if at != 0 {
                    self.note(at, nic, "it is not in the namespace of the host: move it there before the wire is applied");
                }
            }
            None => {
                let stub = Stub {
                    mtu: u16::try_from(bridge.mtu).ok().filter(|&mtu| mtu > MTU),
                    properties,
                };
                self.wire.stubs.insert(name.clone(), stub);
            }
        }
        // A link has one interface: each further one has a link of its own, joined to the first.
        for nic in nics {
            let other = self.name(&format!("{name}-{}", nic.name), NAME_MAX);
            let link = Link {
                device: nic.name.clone(),
                ..Link::default()
            };
            self.wire.links.insert(other.clone(), link);
            if at != 0 {
                self.note(at, nic, "it is not in the namespace of the host: move it there before the wire is applied");
            }
            let patch = Patch {
                between: [name.clone(), other],
                ..Patch::default()
            };
            let name = self.name(&nic.name, NAME_MAX);
            self.wire.patches.insert(name, patch);
        }
        name
    }

    /// What a port of a bridge leads to.
    fn port(&mut self, at: usize, port: &SeenLink, switch: &str, switches: &BTreeMap<At, String>) {
        let mut properties = self.toward(at, port, &port.shaping);
        if let Some(bridge) = self.bridge_of(at, port)
            && matches!(bridge.kind, Kind::Bridge { vlans: true, .. })
        {
            if let Some(pvid) = port.pvid.filter(|pvid| *pvid != 1) {
                properties.vlan = Vlan::try_from(pvid).ok();
            }
            if !port.tagged.is_empty() {
                let tagged: Vec<_> = port.tagged.iter().map(u16::to_string).collect();
                let text = format!(
                    "it takes VLANs {} with their tags; a VNIC takes all or one",
                    tagged.join(", ")
                );
                self.note(at, port, &text);
            }
        }
        match (&port.kind, self.peer(port)) {
            (Kind::Veth { .. }, None) => {
                self.note(at, port, &beyond(port));
            }
            (_, Some((other, peer))) => match self.bridge_of(other, peer) {
                Some(bridge) => {
                    // Both ends are ports: the first one seen makes the patch.
                    if (at, port.index) < (other, peer.index)
                        && let Some(to) = switches.get(&(other, bridge.index))
                    {
                        let name = self.name(&port.name, NAME_MAX);
                        let between = [switch.to_string(), to.clone()];
                        let back = self.toward(other, peer, &peer.shaping);
                        self.wire.patches.insert(
                            name,
                            Patch {
                                between,
                                back: (back != properties).then_some(back),
                                properties,
                            },
                        );
                    }
                }
                None => self.ends(other, peer, switch, properties),
            },
            (Kind::Tap, _) => {
                self.note(at, port, "it is some program's TAP: the VNIC is one of the host with its name, for the program to open");
                self.vnic(at, port, switch, properties);
            }
            (kind, _) if is_nic(kind) => {}
            _ => self.note(at, port, "such an interface has no counterpart: left out"),
        }
    }

    /// Properties of the port by which frames go out that `shaping` shapes.
    fn toward(&mut self, at: usize, link: &SeenLink, shaping: &Shaping) -> PortProperties {
        let micros = |time: u64| u32::try_from(time).ok().and_then(Micros::new);
        let loss = Loss::new((shaping.loss * 1e9).round() as u32);
        let (delay, jitter) = (micros(shaping.delay), micros(shaping.jitter));
        if delay.is_none() || jitter.is_none() {
            self.note(
                at,
                link,
                "its delay is longer than a VNIC's can be: left out",
            );
        }
        PortProperties {
            maxbw: shaping.rate.and_then(Bandwidth::from_bits),
            delay: delay.unwrap_or_default(),
            jitter: jitter.unwrap_or_default(),
            loss: loss.unwrap_or_default(),
            ..PortProperties::default()
        }
    }

    /// VNICs for the far end of a veth pair and the VLANs on it.
    fn ends(&mut self, at: usize, link: &SeenLink, switch: &str, mut properties: PortProperties) {
        let sends = link.shaping;
        let rate = sends.rate.and_then(Bandwidth::from_bits);
        // A VNIC's rate is for both ways, and its delay and loss for what it receives: what differs
        // is a cable's, to a switch that the VNIC has for itself.
        let differs = properties.maxbw.is_some() && rate.is_some() && properties.maxbw != rate;
        let own;
        let switch = match differs || sends.delay > 0 || sends.loss > 0.0 {
            true => {
                let sent = self.toward(at, link, &sends);
                let cable = PortProperties {
                    maxbw: properties.maxbw.take(),
                    delay: std::mem::take(&mut properties.delay),
                    jitter: std::mem::take(&mut properties.jitter),
                    loss: std::mem::take(&mut properties.loss),
                    ..PortProperties::default()
                };
                own = self.cable(at, link, switch, sent, cable);
                own.as_str()
            }
            false => {
                if let (Some(only), None) | (None, Some(only)) = (properties.maxbw, rate) {
                    let way = if rate.is_some() { "sends" } else { "receives" };
                    let text = format!(
                        "what it {way} is limited to {only}; the maxbw of a VNIC holds both ways"
                    );
                    self.note(at, link, &text);
                }
                properties.maxbw = properties.maxbw.or(rate);
                switch
            }
        };
        let vlans = self.seen[at]
            .links
            .iter()
            .filter_map(|vlan| match vlan.kind {
                Kind::Vlan { id, below } if below == link.index => Some((vlan, id)),
                _ => None,
            });
        let vlans: Vec<_> = vlans.collect();
        if vlans.is_empty() || !link.addresses.is_empty() {
            self.vnic(at, link, switch, properties.clone());
        }
        for (vlan, id) in vlans {
            let properties = PortProperties {
                vlan: Vlan::try_from(id).ok(),
                ..properties.clone()
            };
            self.vnic(at, vlan, switch, properties);
        }
    }

    /// A switch for what is at a cable's other end, joined to `switch`: its name.
    fn cable(
        &mut self,
        at: usize,
        link: &SeenLink,
        switch: &str,
        there: PortProperties,
        back: PortProperties,
    ) -> String {
        let namespace = self.seen[at].name.as_deref().unwrap_or("host");
        let stub = self.name(&format!("{namespace}-{}-end", link.name), NAME_MAX);
        self.wire.stubs.insert(stub.clone(), Stub::default());
        let patch = Patch {
            between: [stub.clone(), switch.to_string()],
            back: (back != there).then_some(back),
            properties: there,
        };
        let name = self.name(&format!("{namespace}-{}-cable", link.name), NAME_MAX);
        self.wire.patches.insert(name, patch);
        stub
    }

    fn vnic(&mut self, at: usize, link: &SeenLink, switch: &str, properties: PortProperties) {
        let namespace = &self.seen[at];
        // A VLAN interface has the address of the one below, which is on the same switch.
        let own = !matches!(link.kind, Kind::Vlan { .. } | Kind::Bridge { .. });
        let alone = self.seen.iter().flat_map(|namespace| &namespace.links);
        let alone = alone.filter(|other| other.name == link.name).count() == 1;
        let wanted = match (&namespace.name, alone) {
            (Some(namespace), false) => format!("{namespace}-{}", link.name),
            _ => link.name.clone(),
        };
        let name = self.name(&wanted, VNIC_MAX);
        let properties = PortProperties {
            mtu: u16::try_from(link.mtu).ok().filter(|&mtu| mtu != MTU),
            ..properties
        };
        let vnic = Vnic {
            link: switch.into(),
            namespace: namespace
                .name
                .as_ref()
                .map(|name| format!("{}{name}", self.prefix)),
            host: namespace.name.is_none(),
            interface: (name != link.name).then(|| link.name.clone()),
            mac: link.mac.filter(|mac| own && mac.0 != [0; 6]),
            addresses: link.addresses.clone(),
            properties,
            ..Vnic::default()
        };
        self.vnics.insert((at, link.index), name.clone());
        self.wire.vnics.insert(name, vnic);
    }

    /// Pairs of which no end is a bridge's port.
    fn pairs(&mut self) {
        let seen = self.seen;
        for (at, namespace) in seen.iter().enumerate() {
            for link in &namespace.links {
                let Some((other, peer)) = self.peer(link) else {
                    continue;
                };
                let first = (at, link.index) < (other, peer.index);
                let free =
                    self.bridge_of(at, link).is_none() && self.bridge_of(other, peer).is_none();
                if !first || !free {
                    continue;
                }
                let called = |at: usize| seen[at].name.as_deref().unwrap_or("host");
                let switch = self.name(&format!("{}-{}", called(at), called(other)), NAME_MAX);
                self.wire.stubs.insert(switch.clone(), Stub::default());
                // What one end sends is what the other receives.
                let to_link = self.toward(
                    other,
                    peer,
                    &Shaping {
                        rate: None,
                        ..peer.shaping
                    },
                );
                let to_peer = self.toward(
                    at,
                    link,
                    &Shaping {
                        rate: None,
                        ..link.shaping
                    },
                );
                let only_rate = |link: &SeenLink| SeenLink {
                    shaping: Shaping {
                        rate: link.shaping.rate,
                        ..Shaping::default()
                    },
                    ..link.clone()
                };
                self.ends(at, &only_rate(link), &switch, to_link);
                self.ends(other, &only_rate(peer), &switch, to_peer);
            }
        }
    }

    /// Gives each stub the largest MTU on it, and VNICs their own where that is another.
    fn mtus(&mut self) {
        for (name, stub) in &mut self.wire.stubs {
            let vnics = self.wire.vnics.values_mut();
            let mut vnics: Vec<_> = vnics.filter(|vnic| vnic.link == *name).collect();
            let on = vnics.iter().map(|vnic| vnic.properties.mtu.unwrap_or(MTU));
            let largest = on.chain(stub.mtu).max().unwrap_or(MTU).max(MTU);
            let most = largest.min(*STUB_MTUS.end());
            if most < largest {
                self.notes.push(format!(
                    "switch ‘{name}’: its MTU is {largest}, the largest that a stub can have is {most}"
                ));
            }
            stub.mtu = (most != MTU).then_some(most);
            for vnic in &mut vnics {
                let own = vnic.properties.mtu.unwrap_or(MTU);
                vnic.properties.mtu = (own < most).then_some(own);
            }
        }
    }

    /// Tells of interfaces that nothing was made of, and of queueing and routing that a wire does
    /// not have. Of the host's own interfaces and routing, only where the wire has VNICs of the host.
    fn left_out(&mut self) {
        let seen = self.seen;
        for (at, namespace) in seen.iter().enumerate() {
            for link in &namespace.links {
                let other = self.peer(link).map(|(at, peer)| (at, peer.index));
                let mut ends = [Some((at, link.index)), other].into_iter().flatten();
                let known = ends.any(|end| self.vnics.contains_key(&end));
                if known || self.bridge_of(at, link).is_some() {
                    for queueing in &link.queueing {
                        self.note(
                            at,
                            link,
                            &format!("{queueing} has no counterpart: left out"),
                        );
                    }
                }
            }
        }
        for (at, namespace) in seen.iter().enumerate() {
            let is_in = self.vnics.keys().any(|(place, _)| *place == at);
            if namespace.name.is_none() && !is_in {
                continue;
            }
            for policy in &namespace.policies {
                let called = namespace.called();
                self.notes
                    .push(format!("{policy} of {called} has no counterpart: left out"));
            }
            for link in &namespace.links {
                if namespace.name.is_some() {
                    self.end_left_out(at, link);
                }
                let kind = match &link.kind {
                    Kind::Tap => "TUN or TAP",
                    Kind::Vxlan { .. } => "VXLAN",
                    Kind::Other(kind) => kind,
                    Kind::Device if namespace.name.is_some() => "NIC",
                    _ => continue,
                };
                // Of ports, their bridges told; of what is down, there is nothing to tell.
                let known = link.master.is_some() || self.vnics.contains_key(&(at, link.index));
                if !known && (link.up || !link.addresses.is_empty()) {
                    let text = format!("a {kind} interface has no counterpart there: left out");
                    self.note(at, link, &text);
                }
            }
        }
    }

    /// Tells of addresses of a loopback, and of one end of a pair whose other end is not known.
    fn end_left_out(&mut self, at: usize, link: &SeenLink) {
        match link.kind {
            Kind::Loopback => {
                for address in &link.addresses {
                    let text = format!("its address {address} has no counterpart: left out");
                    self.note(at, link, &text);
                }
            }
            // Of a bridge's port, that was told.
            Kind::Veth { .. } if link.up && link.master.is_none() && self.peer(link).is_none() => {
                self.note(at, link, &beyond(link));
            }
            _ => {}
        }
    }

    fn namespaces(&mut self) {
        for (at, namespace) in self.seen.iter().enumerate() {
            let mut routes = Vec::new();
            for route in &namespace.routes {
                let vnic = route
                    .device
                    .and_then(|device| self.vnics.get(&(at, device)));
                match (vnic, &namespace.name) {
                    (Some(vnic), Some(_)) => routes.push(Route {
                        to: route.to,
                        via: route.via,
                        // The gateway's subnet tells the interface already.
                        vnic: route.via.is_none().then(|| vnic.clone()),
                        metric: route.metric,
                    }),
                    (Some(vnic), None) => self.notes.push(format!(
                        "the host has a route to {} by ‘{vnic}’, which the wire does not set: add it by ‘ip route’",
                        route.to
                    )),
                    (None, Some(name)) => self.notes.push(format!(
                        "namespace ‘{name}’ has a route to {} by an interface that is not in the wire: left out",
                        route.to
                    )),
                    (None, None) => {}
                }
            }
            let Some(name) = &namespace.name else {
                continue;
            };
            let name = format!("{}{name}", self.prefix);
            if self
                .wire
                .vnics
                .values()
                .any(|vnic| vnic.namespace.as_ref() == Some(&name))
            {
                let described = Namespace {
                    forwarding: namespace.forwards,
                    routes,
                    ..Namespace::default()
                };
                self.wire.namespaces.insert(name, described);
            }
        }
    }
}

/// That the other end of a pair was not looked at, and how it can be.
fn beyond(link: &SeenLink) -> String {
    match &link.beyond {
        Some(name) => format!(
            "its other end is in namespace ‘{name}’, which was not looked at: left out; `-n {name}` looks at that, too"
        ),
        None => "its other end is in a namespace that was not looked at: left out".into(),
    }
}

/// Whether an interface can be attached as a link's.
fn is_nic(kind: &Kind) -> bool {
    match kind {
        Kind::Device | Kind::Vlan { .. } | Kind::Vxlan { .. } => true,
        Kind::Other(kind) => kind == "bond" || kind == "team",
        _ => false,
    }
}
