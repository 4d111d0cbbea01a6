//! The planner: the steps that make one wire of another, each of which can be taken back. What
//! `weir wire diff` prints is this list, which `apply` carries out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use switch::lookup::Flow as TableFlow;

use super::sequence::sequence;
use crate::model::{
    EntryRecord, Flow, Guest, Link, Namespace, Patch, Route, Stub, Vnic, Wire, output,
};

/// One part of a wire, with the names of links resolved to those of the host's interfaces. The
/// order is that in which parts are made: each needs only what comes before it.
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

    /// What the file says of it.
    fn value(&self) -> Value {
        let value = match self {
            Part::Namespace(it) => serde_json::to_value(it),
            Part::Stub(it) => serde_json::to_value(it),
            Part::Link(it) => serde_json::to_value(it),
            Part::Patch(it) => serde_json::to_value(it),
            Part::Vnic(it) => serde_json::to_value(it),
            Part::Routes(it) => Ok(serde_json::json!({ "routes": it })),
            Part::Guest(it) => serde_json::to_value(it),
            Part::Flow(it) => serde_json::to_value(it),
            Part::Entry { port, .. } => Ok(serde_json::json!({ "port": port })),
            Part::Default(action) => Ok(serde_json::json!({ "default": action })),
        };
        value.unwrap_or_default()
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

/// How a part of a wire that was made is found on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// As it was made.
    None,
    /// Not at all: somebody removed it, and perhaps made another of its name.
    Missing,
    /// A VNIC whose interface, or the namespace that this was in, somebody removed.
    Lost,
    /// A VNIC without some of its addresses, or routes some of which are gone.
    Incomplete,
    /// With other properties or another configuration, which somebody changed.
    Altered,
    /// A guest that has ended, and how, and is not restarted.
    Ended(String),
}

/// One field that is another: its name, the value before and the value after.
pub type Field = (String, Option<Value>, Option<Value>);

/// Why a step is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The file is another: a part is new or removed, or these fields of it changed.
    File(Vec<Field>),
    /// The host is another.
    Drift(Drift),
    /// A part that it needs is made again, or it is made again for the file's sake.
    Again,
}

/// A step: a part that is there becomes another, or none; or one comes to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The part's name.
    pub name: String,
    /// The part before.
    pub from: Option<Part>,
    /// The part afterwards.
    pub to: Option<Part>,
    /// Why.
    pub why: Why,
}

impl Step {
    /// The step back.
    pub fn back(self) -> Step {
        Step {
            from: self.to,
            to: self.from,
            ..self
        }
    }

    /// Whether the step ends a guest, whose state is lost then.
    pub fn ends_guest(&self) -> bool {
        matches!((&self.from, &self.to), (Some(Part::Guest(_)), None))
    }

    /// How a message calls the part.
    pub fn part(&self) -> String {
        let part = self.to.as_ref().or(self.from.as_ref());
        format!("{} ‘{}’", part.map_or("part", Part::noun), self.name)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = matches!(self.why, Why::Drift(Drift::Lost));
        let sign = match (&self.from, &self.to) {
            (None, _) => '+',
            (_, None) => '-',
            _ if lost => '+',
            _ => '~',
        };
        write!(f, "{sign} {}", self.part())?;
        match &self.why {
            Why::File(fields) => show_fields(f, fields),
            Why::Drift(Drift::None) => Ok(()),
            Why::Drift(Drift::Missing | Drift::Lost) => f.write_str(", which was missing"),
            Why::Drift(Drift::Incomplete) => match &self.to {
                Some(Part::Vnic(_)) => f.write_str(", an address of which was missing"),
                _ => f.write_str(", one of which was missing"),
            },
            Why::Drift(Drift::Altered) => f.write_str(", which was changed by hand, is set again"),
            Why::Drift(Drift::Ended(how)) => match &self.to {
                None => write!(f, ", which had ended ({how})"),
                Some(_) => f.write_str(", which had ended, is restarted"),
            },
            Why::Again => match (&self.from, &self.to) {
                (Some(_), None) => f.write_str(", which is made again"),
                (None, _) => f.write_str(", made again"),
                _ => f.write_str(", set again"),
            },
        }
    }
}

fn show_fields(f: &mut fmt::Formatter<'_>, fields: &[Field]) -> fmt::Result {
    let is_long = |value: &Option<Value>| {
        let text = value.as_ref().and_then(Value::as_str);
        text.is_some_and(|text| text.contains('\n'))
    };
    for (i, (name, old, new)) in fields.iter().enumerate() {
        f.write_str(if i == 0 { ": " } else { ", " })?;
        if is_long(old) || is_long(new) {
            write!(f, "{name} is another")?;
        } else {
            write!(f, "{name} {} → {}", shown(old), shown(new))?;
        }
    }
    Ok(())
}

/// A value as a person writes it.
fn shown(value: &Option<Value>) -> String {
    match value {
        None => "none".into(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(all)) => {
            let all = all.iter().map(|value| shown(&Some(value.clone())));
            all.collect::<Vec<_>>().join(",")
        }
        Some(value) => value.to_string(),
    }
}

/// The fields in which two parts differ.
fn fields(old: &Part, new: &Part) -> Vec<Field> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    leaves("", &old.value(), &mut before);
    leaves("", &new.value(), &mut after);
    let names: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let pairs = names.into_iter().map(|name| {
        let (old, new) = (before.get(&name).cloned(), after.get(&name).cloned());
        (name, old, new)
    });
    pairs.filter(|(_, old, new)| old != new).collect()
}

fn leaves(name: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    if let Value::Object(members) = value {
        for (member, value) in members {
            let dot = if name.is_empty() { "" } else { "." };
            leaves(&format!("{name}{dot}{member}"), value, into);
        }
    } else {
        into.insert(name.into(), value.clone());
    }
}

/// Rank and name.
type Key = (u8, String);
type Parts = BTreeMap<Key, Part>;

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

/// The steps from `old`, as `drift` finds its parts on the host, to `new`. Steps that lose something
/// for good come last: see [`sequence`].
pub fn plan(old: &Wire, new: &Wire, drift: impl Fn(&str, &Part) -> Drift) -> Vec<Step> {
    let was = parts(old);
    let after = parts(new);
    let drifts: BTreeMap<_, _> = was
        .iter()
        .map(|(key, part)| (key.clone(), drift(&key.1, part)))
        .filter(|(_, drift)| *drift != Drift::None)
        .collect();
    let is = |key: &Key, wanted: fn(&Drift) -> bool| drifts.get(key).is_some_and(wanted);
    let mut before = was.clone();
    before.retain(|key, _| !is(key, |drift| *drift == Drift::Missing));
    let replaced = replaced(&before, &after, |key| {
        is(key, |drift| matches!(drift, Drift::Ended(_)))
    });
    let why = |key: &Key| match (drifts.get(key), was.get(key), after.get(key)) {
        (Some(drift), _, Some(_)) => Why::Drift(drift.clone()),
        (_, Some(old), Some(new)) if old != new => Why::File(fields(old, new)),
        (_, Some(_), Some(_)) => Why::Again,
        _ => Why::File(Vec::new()),
    };
    let mut steps: Vec<Step> = Vec::new();
    for (key, part) in before.iter().rev() {
        let is_replaced = replaced.contains(key);
        if !after.contains_key(key) || is_replaced {
            // That what changed is told where it is made again.
            let why = match why(key) {
                Why::File(fields) if !fields.is_empty() => Why::Again,
                why => why,
            };
            steps.push(Step {
                name: key.1.clone(),
                from: Some(part.clone()),
                to: None,
                why,
            });
        }
    }
    let mut moved: BTreeSet<String> = BTreeSet::new();
    for (key, part) in &after {
        let from = before.get(key).filter(|_| !replaced.contains(key));
        // Routes go with the interface and address that they lead by.
        let went = matches!(part, Part::Routes(_)) && moved.contains(&key.1);
        if from == Some(part) && !went && !drifts.contains_key(key) {
            continue;
        }
        if let Part::Vnic(vnic) = part {
            let addressed =
                matches!(from, Some(Part::Vnic(old)) if old.addresses == vnic.addresses);
            let lost = is(key, |it| matches!(it, Drift::Lost | Drift::Incomplete));
            let namespace = vnic.namespace.clone();
            moved.extend(namespace.filter(|_| lost || !addressed));
        }
        steps.push(Step {
            name: key.1.clone(),
            from: from.cloned(),
            to: Some(part.clone()),
            why: why(key),
        });
    }
    sequence(steps)
}

/// The parts that cannot become what they are to be, and with them the parts on them: they are
/// removed and made again.
fn replaced(before: &Parts, after: &Parts, ended: impl Fn(&Key) -> bool) -> BTreeSet<Key> {
    let mut replaced: BTreeSet<Key> = before.keys().filter(|key| ended(key)).cloned().collect();
    let both = || {
        after
            .iter()
            .filter_map(|(key, new)| Some((key, before.get(key)?, new)))
    };
    for (key, old, new) in both() {
        if old != new && !old.can_become(new) {
            replaced.insert(key.clone());
        }
    }
    // What is on a stub goes before it can, and comes back after it.
    for (key, old, new) in both() {
        let goes = |switch: &str| replaced.contains(&(STUB, switch.to_string()));
        let stands_on = [new, old].map(|part| part.switches(&key.1));
        if stands_on.into_iter().flatten().any(goes) {
            replaced.insert(key.clone());
        }
    }
    // A guest goes before its VNIC can, and comes back after it; so does what a flow table says of
    // a VNIC.
    for (key, old, new) in both() {
        let moves = |vnic: &str| {
            let vnic = (VNIC, vnic.to_string());
            replaced.contains(&vnic) || before.contains_key(&vnic) != after.contains_key(&vnic)
        };
        if new.vnics().into_iter().chain(old.vnics()).any(moves) {
            replaced.insert(key.clone());
        }
    }
    replaced
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
        told(&plan(old, new, |_, _| Drift::None))
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
            Part::Vnic(_) if name == "v" => Drift::Missing,
            _ => Drift::None,
        };
        let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
        assert_eq!(again, ["+ vnic ‘v’", "~ routes of namespace ‘a’"]);
    }

    #[test]
    fn addresses_and_routes_that_are_missing_are_set_again() {
        let lacks = |wanted: fn(&Part) -> bool| {
            let there = move |_: &str, part: &Part| {
                if wanted(part) {
                    Drift::Incomplete
                } else {
                    Drift::None
                }
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
            Part::Stub(_) | Part::Link(_) | Part::Guest(_) => Drift::Altered,
            Part::Vnic(_) => Drift::Lost,
            _ => Drift::None,
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
            Part::Guest(_) => Drift::Ended(String::new()),
            _ => Drift::None,
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
        let steps = plan(&nothing(), &wire(WIRE), |_, _| Drift::None);
        let back: Vec<_> = steps.into_iter().map(Step::back).collect();
        let (mut back, mut removed) = (told(&back), self::steps(&wire(WIRE), &nothing()));
        back.sort();
        removed.sort();
        assert_eq!(back, removed);
    }
}
