//! Bridges and veth pairs: switches, the VNICs on them, and the patches between them.

use std::collections::BTreeMap;

use switch::properties::{Bandwidth, DomainProperties, Loss, Micros, PortProperties, Vlan};

use super::super::seen::{InterfaceKind, SeenInterface, Shaping};
use super::{At, Describing, MTU, NAME_MAX, beyond};
use crate::model::{Link, Patch, Stub};

impl Describing<'_> {
    pub(super) fn bridges(&mut self) {
        let seen = self.seen;
        let mut switches: BTreeMap<At, String> = BTreeMap::new();
        let mut made = Vec::new();
        for (at, namespace) in seen.iter().enumerate() {
            for bridge in &namespace.interfaces {
                if let InterfaceKind::Bridge { .. } = bridge.kind {
                    let name = self.switch(at, bridge);
                    switches.insert((at, bridge.index), name.clone());
                    made.push((at, bridge, name));
                }
            }
        }
        for (at, bridge, name) in made {
            let ports = seen[at]
                .interfaces
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
    fn switch(&mut self, at: usize, bridge: &SeenInterface) -> String {
        let name = self.name(&bridge.name, NAME_MAX);
        let mut properties = DomainProperties::default();
        if let InterfaceKind::Bridge {
            aging,
            spanning_tree,
            ..
        } = bridge.kind
        {
            properties.aging = aging.max(1);
            if spanning_tree {
                self.note(at, bridge, "it runs the spanning tree protocol, which a stub does not: make sure that the wire has no cycle");
            }
        }
        let ports = self.seen[at]
            .interfaces
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
                    self.note(at, nic, "it is in another namespace than the host's: move it to the host's before you apply the wire");
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
                self.note(at, nic, "it is in another namespace than the host's: move it to the host's before you apply the wire");
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

    /// The part that a port of a bridge leads to.
    fn port(
        &mut self,
        at: usize,
        port: &SeenInterface,
        switch: &str,
        switches: &BTreeMap<At, String>,
    ) {
        let mut properties = self.toward(at, port, &port.shaping);
        if let Some(bridge) = self.bridge_of(at, port)
            && matches!(bridge.kind, InterfaceKind::Bridge { vlans: true, .. })
        {
            if let Some(pvid) = port.pvid.filter(|pvid| *pvid != 1) {
                properties.vlan = Vlan::try_from(pvid).ok();
            }
            if !port.tagged.is_empty() {
                let tagged: Vec<_> = port.tagged.iter().map(u16::to_string).collect();
                let text = format!(
                    "it accepts the tagged VLANs {}; a VNIC accepts all VLANs or one",
                    tagged.join(", ")
                );
                self.note(at, port, &text);
            }
        }
        match (&port.kind, self.peer(port)) {
            (InterfaceKind::Veth { .. }, None) => {
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
            (InterfaceKind::Tap, _) => {
                self.note(at, port, "it is a program's TAP device: the VNIC is on the host under the same name, for the program to open");
                self.vnic(at, port, switch, properties);
            }
            (kind, _) if is_nic(kind) => {}
            _ => self.note(
                at,
                port,
                "an interface of this kind has no counterpart and is omitted",
            ),
        }
    }

    /// Properties of the port by which frames go out that `shaping` shapes.
    fn toward(&mut self, at: usize, link: &SeenInterface, shaping: &Shaping) -> PortProperties {
        let micros = |time: u64| u32::try_from(time).ok().and_then(Micros::new);
        let loss = Loss::new((shaping.loss * 1e9).round() as u32);
        let (delay, jitter) = (micros(shaping.delay), micros(shaping.jitter));
        if delay.is_none() || jitter.is_none() {
            self.note(
                at,
                link,
                "its delay exceeds a VNIC's maximum and is omitted",
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
    fn ends(
        &mut self,
        at: usize,
        link: &SeenInterface,
        switch: &str,
        mut properties: PortProperties,
    ) {
        let sends = link.shaping;
        let rate = sends.rate.and_then(Bandwidth::from_bits);
        // A VNIC's rate holds in both directions, its delay and loss for received frames. Other
        // settings become a cable's, to a switch for the VNIC alone.
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
                        "only the traffic that it {way} is limited, to {only}; the maxbw of a VNIC holds in both directions"
                    );
                    self.note(at, link, &text);
                }
                properties.maxbw = properties.maxbw.or(rate);
                switch
            }
        };
        let vlans = self.seen[at]
            .interfaces
            .iter()
            .filter_map(|vlan| match vlan.kind {
                InterfaceKind::Vlan { id, below } if below == link.index => Some((vlan, id)),
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

    /// Adds a switch at a cable's other end, joined to `switch`. Returns its name.
    fn cable(
        &mut self,
        at: usize,
        link: &SeenInterface,
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

    /// Pairs of which no end is a bridge's port.
    pub(super) fn pairs(&mut self) {
        let seen = self.seen;
        for (at, namespace) in seen.iter().enumerate() {
            for link in &namespace.interfaces {
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
                // One end's egress is the other's ingress.
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
                let only_rate = |link: &SeenInterface| SeenInterface {
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
}

/// The kernel's kinds of interfaces made in software that can be attached as a link's.
const ATTACHED: [&str; 3] = ["bond", "team", "vxlan"];

/// Whether an interface can be attached as a link's.
fn is_nic(kind: &InterfaceKind) -> bool {
    match kind {
        InterfaceKind::Device | InterfaceKind::Vlan { .. } => true,
        InterfaceKind::Other(kind) => ATTACHED.contains(&kind.as_str()),
        _ => false,
    }
}
