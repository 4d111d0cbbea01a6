//! The steps that make one wire of another, each of which can be taken back.

use std::collections::{BTreeMap, BTreeSet};

use switch::properties::DomainProperties;

use super::file::{Attachment, Flow, Guest, Namespace, Patch, Route, Vnic, Wire};

/// One part of a wire, with the names of links resolved to those of the host's interfaces. The
/// order is that in which parts are made: each needs only what comes before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A namespace, without its routes.
    Namespace(Namespace),
    /// A switch without a NIC.
    Stub(DomainProperties),
    /// A switch with a NIC; it is called as its interface.
    Link(Attachment),
    /// A wire between switches.
    Patch(Patch),
    /// A virtual NIC.
    Vnic(Vnic),
    /// The routes of the namespace of that name, which need its VNICs.
    Routes(Vec<Route>),
    /// A network function.
    Guest(Guest),
    /// A traffic class.
    Flow(Flow),
}

impl Part {
    fn rank(&self) -> u8 {
        match self {
            Part::Namespace(_) => 0,
            Part::Stub(_) => 1,
            Part::Link(_) => 2,
            Part::Patch(_) => 3,
            Part::Vnic(_) => 4,
            Part::Routes(_) => 5,
            Part::Guest(_) => 6,
            Part::Flow(_) => 7,
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
            Part::Guest(_) => "guest",
            Part::Flow(_) => "flow",
        }
    }

    /// Whether the part can become `other` while it is in use.
    fn can_become(&self, other: &Part) -> bool {
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
                    ..new.clone()
                };
                same == *old
            }
            (Part::Patch(_), _) | (Part::Flow(_), _) => false,
            _ => true,
        }
    }
}

/// A step: a part that is there becomes another, or none; or one comes to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The part's name.
    pub name: String,
    /// What is there before.
    pub from: Option<Part>,
    /// What is there afterwards.
    pub to: Option<Part>,
}

impl Step {
    /// The step back.
    pub fn back(self) -> Step {
        Step {
            name: self.name,
            from: self.to,
            to: self.from,
        }
    }

    /// How an error calls the part.
    pub fn part(&self) -> String {
        let part = self.to.as_ref().or(self.from.as_ref());
        format!("{} ‘{}’", part.map_or("part", Part::noun), self.name)
    }
}

type Parts = BTreeMap<(u8, String), Part>;

/// All parts of a wire.
fn parts(wire: &Wire) -> Parts {
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

/// The steps from `old`, of which `is_there` tells what is left, to `new`.
pub fn plan(old: &Wire, new: &Wire, is_there: impl Fn(&str, &Part) -> bool) -> Vec<Step> {
    let before: Parts = parts(old)
        .into_iter()
        .filter(|((_, name), part)| is_there(name, part))
        .collect();
    let after = parts(new);
    let mut replaced: BTreeSet<(u8, String)> = BTreeSet::new();
    for (key, part) in &after {
        let is_another = |before: &Part| before != part && !before.can_become(part);
        if before.get(key).is_some_and(is_another) {
            replaced.insert(key.clone());
        }
    }
    // A guest goes before its VNIC can, and comes back after it.
    for (key, part) in &after {
        let vnic_is_new = |vnic: &String| {
            let vnic = (4, vnic.clone());
            replaced.contains(&vnic) || !before.contains_key(&vnic)
        };
        if let Part::Guest(guest) = part
            && before.contains_key(key)
            && guest.interfaces.values().any(vnic_is_new)
        {
            replaced.insert(key.clone());
        }
    }
    let mut steps: Vec<Step> = Vec::new();
    for (key, part) in before.iter().rev() {
        if !after.contains_key(key) || replaced.contains(key) {
            steps.push(Step {
                name: key.1.clone(),
                from: Some(part.clone()),
                to: None,
            });
        }
    }
    let mut moved: BTreeSet<String> = BTreeSet::new();
    for (key, part) in after {
        let from = before.get(&key).filter(|_| !replaced.contains(&key));
        // Routes go with the interface and address that they lead by.
        let again = matches!(part, Part::Routes(_)) && moved.contains(&key.1);
        if from == Some(&part) && !again {
            continue;
        }
        if let Part::Vnic(vnic) = &part {
            moved.extend(vnic.namespace.clone());
        }
        steps.push(Step {
            name: key.1,
            from: from.cloned(),
            to: Some(part),
        });
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const WIRE: &str = "
        wire = 'w'
        [stub.s]
        [link.up]
        device = 'eth7'
        [patch.p]
        between = ['s', 'up']
        [namespace.a]
        routes = ['default via 10.0.0.1']
        [vnic.v]
        link = 's'
        namespace = 'a'
        addresses = ['10.0.0.2/24']
        [vnic.g]
        link = 'up'
        [guest.f]
        config = 'Idle -> Discard;'
        interfaces = { x = 'g' }
        [flow.w]
        link = 's'
        attributes = { transport = 'tcp' }
    ";

    fn wire(text: &str) -> Wire {
        Wire::parse(text, Path::new("w.toml")).unwrap()
    }

    fn nothing() -> Wire {
        wire("wire = 'w'")
    }

    /// `+` makes, `-` removes, `~` changes.
    fn told(steps: &[Step]) -> Vec<String> {
        let sign = |step: &Step| match (&step.from, &step.to) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        steps
            .iter()
            .map(|step| format!("{} {}", sign(step), step.part()))
            .collect()
    }

    fn steps(old: &Wire, new: &Wire) -> Vec<String> {
        told(&plan(old, new, |_, _| true))
    }

    #[test]
    fn parts_are_made_in_order_and_removed_in_the_other() {
        let made = steps(&nothing(), &wire(WIRE));
        let expected = [
            "+ namespace ‘a’",
            "+ stub ‘s’",
            "+ link ‘eth7’",
            "+ patch ‘p’",
            "+ vnic ‘g’",
            "+ vnic ‘v’",
            "+ routes of namespace ‘a’",
            "+ guest ‘f’",
            "+ flow ‘w’",
        ];
        assert_eq!(made, expected);
        let mut removed = steps(&wire(WIRE), &nothing());
        removed.reverse();
        assert_eq!(removed, expected.map(|step| step.replace('+', "-")));
        assert!(steps(&wire(WIRE), &wire(WIRE)).is_empty());
    }

    #[test]
    fn what_can_change_in_use_is_changed_and_the_rest_replaced() {
        let with = |from: &str, to: &str| steps(&wire(WIRE), &wire(&WIRE.replace(from, to)));
        let faster = with("[vnic.g]", "[vnic.g]\nproperties = { maxbw = '1G' }");
        assert_eq!(faster, ["~ vnic ‘g’"]);
        assert_eq!(with("Idle", "InfiniteSource"), ["~ guest ‘f’"]);
        // The guest has the VNIC, so it goes and comes with it.
        let elsewhere = with("link = 'up'", "link = 's'");
        assert_eq!(
            elsewhere,
            ["- guest ‘f’", "- vnic ‘g’", "+ vnic ‘g’", "+ guest ‘f’"]
        );
        assert_eq!(with("'tcp'", "'udp'"), ["- flow ‘w’", "+ flow ‘w’"]);
        let longer = with(
            "between = ['s', 'up']",
            "between = ['s', 'up']\nproperties = { delay = '1ms' }",
        );
        assert_eq!(longer, ["- patch ‘p’", "+ patch ‘p’"]);
        let address = with("10.0.0.2/24", "10.0.0.3/24");
        assert_eq!(address, ["~ vnic ‘v’", "~ routes of namespace ‘a’"]);
    }

    #[test]
    fn what_is_missing_is_made_again() {
        let there = |name: &str, part: &Part| !(name == "v" && matches!(part, Part::Vnic(_)));
        let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
        assert_eq!(again, ["+ vnic ‘v’", "~ routes of namespace ‘a’"]);
    }

    #[test]
    fn a_step_back_undoes_a_step() {
        let steps = plan(&nothing(), &wire(WIRE), |_, _| true);
        let back: Vec<_> = steps.into_iter().rev().map(Step::back).collect();
        assert_eq!(told(&back), self::steps(&wire(WIRE), &nothing()));
    }
}
