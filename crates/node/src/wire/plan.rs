//! The steps that make one wire of another, each of which can be taken back.

use std::collections::{BTreeMap, BTreeSet};

use switch::lookup::Flow as TableFlow;

use super::file::{Attachment, Flow, Guest, Namespace, Patch, Route, Stub, Vnic, Wire, output};
use super::order::order;
use crate::model::FlowEntry;

/// One part of a wire, with the names of links resolved to those of the host's interfaces. The
/// order is that in which parts are made: each needs only what comes before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A namespace, without its routes.
    Namespace(Namespace),
    /// A switch without a NIC.
    Stub(Stub),
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
    /// Where the flow table of the switch of that name sends what has no entry.
    Default(String),
}

/// The rank of stubs.
const STUB: u8 = 1;
/// The rank of VNICs.
const VNIC: u8 = 4;

impl Part {
    fn rank(&self) -> u8 {
        match self {
            Part::Namespace(_) => 0,
            Part::Stub(_) => STUB,
            Part::Link(_) => 2,
            Part::Patch(_) => 3,
            Part::Vnic(_) => VNIC,
            Part::Routes(_) => 5,
            Part::Guest(_) => 6,
            Part::Flow(_) => 7,
            Part::Entry { .. } => 8,
            // Behind the entries: what they name goes where it is to go before the rest is dropped.
            Part::Default(_) => 9,
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
            Part::Entry { .. } => "flow table entry",
            Part::Default(_) => "default of flow table",
        }
    }

    /// The switches without which the part cannot be: those that go take it along.
    fn switches<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        match self {
            Part::Patch(patch) => patch.between.iter().map(String::as_str).collect(),
            Part::Vnic(vnic) => vec![&vnic.link],
            Part::Flow(flow) => vec![&flow.link],
            Part::Entry { link, .. } => vec![link],
            Part::Default(_) => vec![name],
            _ => Vec::new(),
        }
    }

    /// The VNICs without which the part cannot be: those that go take it along.
    fn vnics(&self) -> Vec<&str> {
        match self {
            Part::Guest(guest) => guest.interfaces.values().map(String::as_str).collect(),
            Part::Entry { port, .. } => vec![port],
            Part::Default(action) => output(action).into_iter().collect(),
            _ => Vec::new(),
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
                    restart: old.restart,
                    ..new.clone()
                };
                same == *old
            }
            (Part::Stub(old), Part::Stub(new)) => old.mtu == new.mtu,
            (Part::Patch(_), _) | (Part::Flow(_), _) => false,
            _ => true,
        }
    }
}

/// Whether a part of a wire is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// It is.
    Yes,
    /// It is not: somebody removed it, and perhaps made another of its name.
    No,
    /// It is a VNIC whose interface, or the namespace that this was in, somebody removed.
    Lost,
    /// It is a VNIC without some of its addresses, or some of the routes are not: somebody removed
    /// those.
    Lacks,
    /// Somebody changed what can change in use.
    Differs,
    /// It is a guest that has ended otherwise than in good order, and is not started anew.
    Ended,
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

    /// Whether the step ends a guest, whose state is lost then.
    pub fn ends_guest(&self) -> bool {
        matches!((&self.from, &self.to), (Some(Part::Guest(_)), None))
    }

    /// What of the part there is not, if it lacks something.
    pub fn lacking(&self) -> String {
        match &self.to {
            Some(Part::Vnic(_)) => format!("an address of {}", self.part()),
            _ => format!("a route of namespace ‘{}’", self.name),
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
        // Texts that are no flows were told of before.
        let flows = table.flows.iter();
        for (flow, to) in flows.filter_map(|(flow, to)| Some((flow.parse().ok()?, to))) {
            let entry = Part::Entry {
                link: own.clone(),
                flow,
                port: port(to),
            };
            add(FlowEntry::key(&own, flow), entry);
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

/// The steps from `old`, of which `there` tells what is left, to `new`. What can be lost for good if
/// a step fails comes last: see [`order`].
pub fn plan(old: &Wire, new: &Wire, there: impl Fn(&str, &Part) -> There) -> Vec<Step> {
    let mut before = parts(old);
    let after = parts(new);
    let mut replaced: BTreeSet<(u8, String)> = BTreeSet::new();
    let mut again: BTreeSet<(u8, String)> = BTreeSet::new();
    before.retain(|key, part| {
        let there = there(&key.1, part);
        match there {
            There::Ended => drop(replaced.insert(key.clone())),
            There::Lost | There::Lacks | There::Differs => drop(again.insert(key.clone())),
            There::Yes | There::No => {}
        }
        there != There::No
    });
    for (key, part) in &after {
        let is_another = |before: &Part| before != part && !before.can_become(part);
        if before.get(key).is_some_and(is_another) {
            replaced.insert(key.clone());
        }
    }
    // What is on a stub goes before it can, and comes back after it.
    for (key, part) in &after {
        let Some(old) = before.get(key) else {
            continue;
        };
        let goes = |switch: &str| replaced.contains(&(STUB, switch.to_string()));
        let stands_on = [part, old].map(|part| part.switches(&key.1));
        if stands_on.into_iter().flatten().any(goes) {
            replaced.insert(key.clone());
        }
    }
    // A guest goes before its VNIC can, and comes back after it; so does what a flow table says of
    // a VNIC.
    let is_vnic = |of: &Parts, vnic: &(u8, String)| of.contains_key(vnic);
    for (key, part) in &after {
        let Some(old) = before.get(key) else {
            continue;
        };
        let moves = |vnic: &str| {
            let vnic = (VNIC, vnic.to_string());
            replaced.contains(&vnic) || is_vnic(&before, &vnic) != is_vnic(&after, &vnic)
        };
        if part.vnics().into_iter().chain(old.vnics()).any(moves) {
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
        let went = matches!(part, Part::Routes(_)) && moved.contains(&key.1);
        let is_whole = !went && !again.contains(&key);
        if from == Some(&part) && is_whole {
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
    order(steps)
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
        told(&plan(old, new, |_, _| There::Yes))
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
        let removed = steps(&wire(WIRE), &nothing());
        // The guest, and what cannot go before it, goes last.
        let expected = [
            "- flow ‘w’",
            "- routes of namespace ‘a’",
            "- vnic ‘v’",
            "- patch ‘p’",
            "- stub ‘s’",
            "- namespace ‘a’",
            "- guest ‘f’",
            "- vnic ‘g’",
            "- link ‘eth7’",
        ];
        assert_eq!(removed, expected);
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
    fn a_stub_of_another_mtu_is_another_with_all_that_is_on_it() {
        let larger = WIRE.replace("[stub.s]", "[stub.s]\nmtu = 9000");
        let expected = [
            "- flow ‘w’",
            "- vnic ‘v’",
            "- patch ‘p’",
            "- stub ‘s’",
            "+ stub ‘s’",
            "+ patch ‘p’",
            "+ vnic ‘v’",
            "~ routes of namespace ‘a’",
            "+ flow ‘w’",
        ];
        assert_eq!(steps(&wire(WIRE), &wire(&larger)), expected);
        let faster = WIRE.replace("[stub.s]", "[stub.s]\nspeed = '1G'");
        assert_eq!(steps(&wire(WIRE), &wire(&faster)), ["~ stub ‘s’"]);
    }

    const TABLE: &str = "
        wire = 'w'
        [stub.s]
        lookup = 'flow-table'
        [vnic.a]
        link = 's'
        host = true
        [vnic.b]
        link = 's'
        host = true
        [table.s]
        default = 'output:b'
        [table.s.flows]
        'nw_dst=10.0.0.2,nw_src=10.0.0.1,icmp' = 'b'
        'icmp,nw_src=10.0.0.2,nw_dst=10.0.0.1' = 'a'
    ";

    #[test]
    fn entries_of_flow_tables_come_and_go_one_by_one_and_with_their_vnics() {
        let to_b = "flow table entry ‘s icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2’";
        let to_a = "flow table entry ‘s icmp,nw_src=10.0.0.2,nw_dst=10.0.0.1’";
        let default = "default of flow table ‘s’";
        let made = steps(&nothing(), &wire(TABLE));
        let expected = ["stub ‘s’", "vnic ‘a’", "vnic ‘b’", to_b, to_a, default];
        assert_eq!(made, expected.map(|part| format!("+ {part}")));
        let with = |from: &str, to: &str| {
            assert!(TABLE.contains(from));
            steps(&wire(TABLE), &wire(&TABLE.replace(from, to)))
        };
        let spelled = with(
            "nw_dst=10.0.0.2,nw_src=10.0.0.1,icmp",
            "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2",
        );
        assert!(spelled.is_empty(), "the same flow: {spelled:?}");
        assert_eq!(with("= 'a'", "= 'b'"), [format!("~ {to_a}")]);
        assert_eq!(with("'output:b'", "'drop'"), [format!("~ {default}")]);
        let first = "'nw_dst=10.0.0.2,nw_src=10.0.0.1,icmp' = 'b'";
        assert_eq!(with(first, ""), [format!("- {to_b}")]);
        // What is said of a VNIC goes before it and comes back after it; the rest stays.
        let moved = with("[vnic.b]", "[vnic.b]\ninterface = 'c'");
        let again = |sign: &str| [to_b, default].map(|part| format!("{sign} {part}"));
        let [to, rest] = again("-");
        let mut expected = vec![rest, to, "- vnic ‘b’".into(), "+ vnic ‘b’".into()];
        expected.extend(again("+"));
        assert_eq!(moved, expected);
    }

    #[test]
    fn what_is_missing_is_made_again() {
        let there = |name: &str, part: &Part| match part {
            Part::Vnic(_) if name == "v" => There::No,
            _ => There::Yes,
        };
        let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
        assert_eq!(again, ["+ vnic ‘v’", "~ routes of namespace ‘a’"]);
    }

    #[test]
    fn addresses_and_routes_that_are_missing_are_set_again() {
        let lacks = |wanted: fn(&Part) -> bool| {
            let there = move |_: &str, part: &Part| match wanted(part) {
                true => There::Lacks,
                false => There::Yes,
            };
            told(&plan(&wire(WIRE), &wire(WIRE), there))
        };
        let routes = lacks(|part| matches!(part, Part::Routes(_)));
        assert_eq!(routes, ["~ routes of namespace ‘a’"]);
        let addresses =
            lacks(|part| matches!(part, Part::Vnic(vnic) if !vnic.addresses.is_empty()));
        assert_eq!(addresses, ["~ vnic ‘v’", "~ routes of namespace ‘a’"]);
    }

    #[test]
    fn what_was_changed_is_set_again_where_it_is() {
        let there = |_: &str, part: &Part| match part {
            Part::Stub(_) | Part::Link(_) | Part::Guest(_) => There::Differs,
            Part::Vnic(_) => There::Lost,
            _ => There::Yes,
        };
        let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
        let expected = [
            "~ stub ‘s’",
            "~ link ‘eth7’",
            "~ vnic ‘g’",
            "~ vnic ‘v’",
            "~ routes of namespace ‘a’",
            "~ guest ‘f’",
        ];
        assert_eq!(again, expected);
    }

    #[test]
    fn a_guest_that_has_ended_is_started_anew() {
        let there = |_: &str, part: &Part| match part {
            Part::Guest(_) => There::Ended,
            _ => There::Yes,
        };
        let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
        assert_eq!(again, ["- guest ‘f’", "+ guest ‘f’"]);
        assert_eq!(
            told(&plan(
                &wire(WIRE),
                &wire(&WIRE.replace("Idle", "Null")),
                there
            )),
            again
        );
    }

    #[test]
    fn guests_are_ended_when_nothing_else_is_to_be_done() {
        let more = |guest: &str, rest: &str| {
            let wider = WIRE.replace("[guest.f]", &format!("[guest.f]\n{guest}"));
            steps(&wire(WIRE), &wire(&(wider + rest)))
        };
        let larger = "memory = '8M'";
        let last = ["- guest ‘f’", "+ guest ‘f’"];
        assert_eq!(more(larger, ""), last);
        // Another guest, a stub that may be taken, a flow: before.
        let rest = "[guest.e]\nconfig = 'Idle -> Discard;'\n[stub.t]\n[flow.x]\nlink = 't'\nattributes = { transport = 'udp' }\n";
        let others = ["+ stub ‘t’", "+ guest ‘e’", "+ flow ‘x’"];
        assert_eq!(more(larger, rest), [&others[..], &last[..]].concat());
        assert_eq!(more("restart = 'always'", ""), ["~ guest ‘f’"]);
        for apart in ["pin = [0]", "isolation = 'process'", "cpus = 2"] {
            assert_eq!(more(apart, ""), last, "{apart}");
        }
    }

    #[test]
    fn what_waits_for_a_guest_comes_after_it() {
        let two = "
            wire = 'w'
            [stub.old]
            [vnic.v]
            link = 'old'
            mac = '02:00:00:00:00:01'
            [vnic.u]
            link = 'old'
            [guest.f]
            config = 'Idle -> Discard;'
            interfaces = { x = 'v' }
            [guest.g]
            config = 'Idle -> Discard;'
            interfaces = { x = 'u' }
        ";
        // To another switch, the old one goes; and each guest comes back before the next is ended.
        let moved = steps(&wire(two), &wire(&two.replace("old", "new")));
        let expected = [
            "+ stub ‘new’",
            "- guest ‘f’",
            "- vnic ‘v’",
            "+ vnic ‘v’",
            "+ guest ‘f’",
            "- guest ‘g’",
            "- vnic ‘u’",
            "+ vnic ‘u’",
            "+ guest ‘g’",
            "- stub ‘old’",
        ];
        assert_eq!(moved, expected);
        let larger = two
            .replace("[guest.", "[guest.@")
            .replace(
                "]\n            config",
                "]\n            memory = '8M'\n            config",
            )
            .replace('@', "");
        let larger = steps(&wire(two), &wire(&larger));
        assert_eq!(
            larger,
            ["- guest ‘f’", "+ guest ‘f’", "- guest ‘g’", "+ guest ‘g’"]
        );
        // A guest of another name takes the VNIC, a VNIC of another name the address.
        let renamed = steps(&wire(two), &wire(&two.replace("guest.f", "guest.h")));
        assert_eq!(renamed, ["- guest ‘f’", "+ guest ‘h’"]);
        let renamed = two.replace("vnic.v", "vnic.w").replace("'v'", "'w'");
        let renamed = steps(&wire(two), &wire(&renamed));
        assert_eq!(
            renamed,
            ["- guest ‘f’", "- vnic ‘v’", "+ vnic ‘w’", "+ guest ‘f’"]
        );
    }

    #[test]
    fn a_step_back_undoes_a_step() {
        let steps = plan(&nothing(), &wire(WIRE), |_, _| There::Yes);
        let back: Vec<_> = steps.into_iter().map(Step::back).collect();
        let (mut back, mut removed) = (told(&back), self::steps(&wire(WIRE), &nothing()));
        back.sort();
        removed.sort();
        assert_eq!(back, removed);
    }
}
