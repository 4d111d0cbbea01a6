//! Turns the captured interfaces into a wire.
//!
//! A bridge becomes a stub, or a link if a NIC is a port of it. A veth pair with one end in a
//! bridge becomes a VNIC, with both ends in bridges a patch, with none a stub with two VNICs. A
//! VLAN interface on a VNIC becomes a VNIC of its own. A note names each thing without a
//! counterpart.

mod down;
mod rest;
mod switches;

use std::collections::{BTreeMap, BTreeSet};

use switch::properties::PortProperties;

use super::seen::{InterfaceKind, SeenInterface, SeenNamespace};
use crate::model::{Patch, STUB_MTUS, Vnic, Wire};

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
    /// Things without a counterpart, a sentence each.
    pub notes: Vec<String>,
}

impl Captured {
    /// Leaves out switches from which no captured namespace is reached, with the parts on them.
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

/// Makes a wire called `name` of the captured namespaces, whose names get `prefix` in front.
pub fn describe(seen: &[SeenNamespace], name: &str, prefix: &str) -> Captured {
    let (up, notes) = down::without(seen);
    let mut describing = Describing {
        seen: &up,
        wire: Wire {
            wire: name.into(),
            ..Wire::default()
        },
        notes,
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

/// An interface: its namespace's index and its number there.
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
    fn note(&mut self, at: usize, link: &SeenInterface, text: &str) {
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
    fn peer(&self, link: &SeenInterface) -> Option<(usize, &'a SeenInterface)> {
        let InterfaceKind::Veth { index, namespace } = link.kind else {
            return None;
        };
        let at = namespace?;
        Some((at, self.seen.get(at)?.interface(index)?))
    }

    /// The bridge that an interface is a port of.
    fn bridge_of(&self, at: usize, link: &SeenInterface) -> Option<&'a SeenInterface> {
        let master = self.seen[at].interface(link.master?)?;
        matches!(master.kind, InterfaceKind::Bridge { .. }).then_some(master)
    }

    fn vnic(&mut self, at: usize, link: &SeenInterface, switch: &str, properties: PortProperties) {
        let namespace = &self.seen[at];
        // A VLAN interface has the address of the one below, which is on the same switch.
        let own = !matches!(
            link.kind,
            InterfaceKind::Vlan { .. } | InterfaceKind::Bridge { .. }
        );
        let alone = self.seen.iter().flat_map(|namespace| &namespace.interfaces);
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
                    "switch ‘{name}’: its MTU is {largest}, and a stub's is at most {most}"
                ));
            }
            stub.mtu = (most != MTU).then_some(most);
            for vnic in &mut vnics {
                let own = vnic.properties.mtu.unwrap_or(MTU);
                vnic.properties.mtu = (own < most).then_some(own);
            }
        }
    }
}

/// That the other end of a pair was not looked at, and how it can be.
fn beyond(link: &SeenInterface) -> String {
    match &link.beyond {
        Some(name) => format!(
            "its other end is in namespace ‘{name}’, which was not read: the interface is omitted; add `-n {name}` to read it"
        ),
        None => {
            "its other end is in a namespace that was not read: the interface is omitted".into()
        }
    }
}
