//! The steps from what there is of a wire to what its file says. Guests that change or go are removed first; the rest
//! is one transaction.

use std::collections::BTreeSet;

use node::error::{Error, Kind as ErrorKind, Result};
use node::model::Wire;

use super::parts::Parts;
use super::{guests_of, networks_of};
use crate::guests::{check, check_program};
use crate::keys::{self, Kind};
use crate::model::{Demand, GuestRecord, Network, WireRecord};
use crate::networks::check_unused;
use crate::transaction::Transaction;
use crate::view::View;

/// Most keys that one transaction writes: etcd takes 128 operations.
const WRITES_MAX: usize = 120;
/// Most bytes of one transaction: etcd takes 1.5 MiB.
const BYTES_MAX: usize = 1 << 20;

/// What is done to a wire.
pub struct Plan {
    /// The steps, a line each: `+` makes a part, `-` removes it, `~` changes it.
    pub steps: Vec<String>,
    /// Guests that are removed first. The plan is made again then.
    pub gone: Vec<String>,
    /// Guests that are created.
    pub made: Vec<String>,
    /// All else.
    pub transaction: Transaction,
}

impl Plan {
    /// The plan that makes a wire as its file says. Without a demand, its guests have that of the last time.
    pub fn apply(view: &View, wire: &Wire, demand: Option<&Demand>) -> Result<Plan> {
        let key = Kind::Wire.of(&wire.wire);
        let before = view.get::<WireRecord>(&key);
        let demand = demand.or(before.as_ref().map(|it| &it.demand)).cloned();
        let record = WireRecord {
            wire: wire.clone(),
            demand: demand.unwrap_or_default(),
        };
        let parts = Parts::of(view, wire, &record.demand)?;
        let mut plan = Plan::between(view, &wire.wire, &parts)?;
        if before.as_ref() != Some(&record) {
            if plan.steps.is_empty() {
                plan.steps.push(format!("~ wire {}", wire.wire));
            }
            plan.add(|it| it.puts(key, &record));
        }
        plan.check_size(&wire.wire)?;
        Ok(plan)
    }

    /// The plan that removes a wire.
    pub fn delete(view: &View, name: &str) -> Result<Plan> {
        let nothing = Parts {
            networks: Default::default(),
            guests: Default::default(),
        };
        let mut plan = Plan::between(view, name, &nothing)?;
        plan.add(|it| it.removes(Kind::Wire.of(name)));
        Ok(plan)
    }

    fn between(view: &View, name: &str, parts: &Parts) -> Result<Plan> {
        let mut plan = Plan {
            steps: Vec::new(),
            gone: Vec::new(),
            made: Vec::new(),
            transaction: Transaction::default().as_seen(view, Kind::Wire.of(name)),
        };
        let renewed = plan.networks(view, name, parts)?;
        plan.guests(view, name, parts, &renewed)?;
        Ok(plan)
    }

    /// Adds to the transaction.
    fn add(&mut self, more: impl FnOnce(Transaction) -> Transaction) {
        self.transaction = more(std::mem::take(&mut self.transaction));
    }

    /// Creates, replaces and removes networks. Returns the replaced ones.
    fn networks(&mut self, view: &View, wire: &str, parts: &Parts) -> Result<BTreeSet<String>> {
        let (mut renewed, mut numbered) = (BTreeSet::new(), None);
        for (name, creation) in &parts.networks {
            let key = Kind::Network.of(name);
            let network = view.get::<Network>(&key);
            match &network {
                None => self.steps.push(format!("+ network {name}")),
                Some(network) if network.wire.as_deref() != Some(wire) => {
                    return Err(taken(wire, "network", name));
                }
                Some(network) if network.mtu == creation.mtu(view) => continue,
                Some(network) => {
                    check_unused(view, name, Some(wire))?;
                    let (before, now) = (network.mtu, creation.mtu(view));
                    self.steps
                        .push(format!("~ network {name}: its MTU is {now}, not {before}"));
                    renewed.insert(name.clone());
                }
            }
            // Each sees the numbers of the ones before.
            let beside = numbered.get_or_insert_with(|| view.clone());
            let record = creation.record(beside).map_err(|error| {
                error.within(|why| format!("wire ‘{wire}’, stub ‘{name}’: {why}"))
            })?;
            let value = serde_json::to_vec(&record).unwrap_or_default();
            beside.apply(&key, Some(&value), i64::MAX);
            self.add(|it| it.as_seen(view, key.clone()).puts(key, &record));
        }
        if numbered.is_some() {
            let last = keys::NETWORKS.to_string();
            self.add(|it| it.as_seen(view, last.clone()).puts(last, &wire));
        }
        for name in networks_of(view, wire) {
            if parts.networks.contains_key(name) {
                continue;
            }
            check_unused(view, name, Some(wire))?;
            self.steps.push(format!("- network {name}"));
            let key = Kind::Network.of(name);
            self.add(|it| it.as_seen(view, key.clone()).removes(key));
        }
        Ok(renewed)
    }

    fn guests(
        &mut self,
        view: &View,
        wire: &str,
        parts: &Parts,
        renewed: &BTreeSet<String>,
    ) -> Result<()> {
        let vnics = vnics_of_others(view, wire);
        for (name, record) in &parts.guests {
            check(name, record, view)?;
            check_program(name, record)?;
            if let Some(vnic) = record.vnics.keys().find(|vnic| vnics.contains(*vnic)) {
                return Err(taken(wire, "vnic", vnic));
            }
            match view.guest(name) {
                None => self.steps.push(format!("+ guest {name}")),
                Some(there) if there.wire.as_deref() != Some(wire) => {
                    return Err(taken(wire, "guest", name));
                }
                Some(there) if there.removing => {
                    self.steps.push(format!("+ guest {name}"));
                    self.gone.push(name.clone());
                    continue;
                }
                Some(there) => {
                    let on = record.links().find(|link| renewed.contains(*link));
                    let why = on.map(|link| format!("network {link} is created again"));
                    let Some(why) = why.or_else(|| difference(&there, record)) else {
                        continue;
                    };
                    self.steps
                        .push(format!("~ guest {name}: it is created again, since {why}"));
                    self.gone.push(name.clone());
                    continue;
                }
            }
            self.made.push(name.clone());
            let key = Kind::Guest.of(name);
            self.add(|it| it.expects(key.clone(), 0).puts(key, record));
        }
        for name in guests_of(view, wire).filter(|name| !parts.guests.contains_key(*name)) {
            self.steps.push(format!("- guest {name}"));
            self.gone.push(name.into());
        }
        Ok(())
    }

    /// Refuses more than one transaction takes.
    fn check_size(&self, wire: &str) -> Result<()> {
        let writes = &self.transaction.writes;
        let bytes = writes.iter().filter_map(|(_, value)| value.as_ref());
        let bytes: usize = bytes.map(Vec::len).sum();
        match writes.len() <= WRITES_MAX && bytes <= BYTES_MAX {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::TooLarge,
                format_args!(
                    "wire ‘{wire}’ changes {} parts of {bytes} bytes at once: a cluster takes {WRITES_MAX} of {BYTES_MAX}: apply it in several steps, or as several wires, whose stubs are `existing` for each other",
                    writes.len()
                ),
            )),
        }
    }
}

/// What differs between a guest as it is and as it is to be.
fn difference(there: &GuestRecord, wanted: &GuestRecord) -> Option<String> {
    let interfaces = |it: &GuestRecord| (it.guest.interfaces.clone(), it.vnics.clone());
    let fields = [
        (there.guest.text() != wanted.guest.text(), "configuration"),
        (interfaces(there) != interfaces(wanted), "interfaces"),
        (there.demand != wanted.demand, "demands of its host"),
        (there.guest != wanted.guest, "properties"),
    ];
    let differs = fields.into_iter().find(|(differs, _)| *differs);
    differs.map(|(_, what)| format!("its {what} changed"))
}

/// VNICs of guests of other wires.
fn vnics_of_others(view: &View, wire: &str) -> BTreeSet<String> {
    let guests = view.names(Kind::Guest).filter_map(|name| view.guest(name));
    let others = guests.filter(|it| it.wire.as_deref() != Some(wire));
    others.flat_map(|it| it.vnics.into_keys()).collect()
}

/// That a name is that of another part.
fn taken(wire: &str, kind: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::Exists,
        format_args!(
            "wire ‘{wire}’, {kind} ‘{name}’: the cluster has a {kind} of this name that is not the wire's: choose another"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::Member;

    /// Three guests on two stubs.
    const WIRE: &str = "
wire = 'w'
[stub.one]
speed = '1G'
[stub.two]
mtu = 1400
[vnic.a0]
link = 'one'
[vnic.r0]
link = 'one'
properties = { maxbw = '10M' }
[vnic.r1]
link = 'two'
[vnic.b0]
link = 'two'
mac = '02:00:00:00:00:07'
[guest.a]
config = 'FromNetfront(x) -> ToNetfront(x);'
interfaces = { x = 'a0' }
[guest.r]
config = 'FromNetfront(x) -> ToNetfront(y); FromNetfront(y) -> ToNetfront(x);'
interfaces = { x = 'r0', y = 'r1' }
[guest.b]
config = 'FromNetfront(x) -> ToNetfront(x);'
interfaces = { x = 'b0' }
";

    fn wire(text: &str) -> Wire {
        Wire::parse(text, Path::new("w.toml")).unwrap()
    }

    /// Changes a key, after all changes before.
    fn change(view: &mut View, key: &str, value: Option<&[u8]>) {
        let revision = view.revision_of(keys::NETWORKS).max(view.revision_of(key)) + 1;
        view.apply(key, value, revision);
        view.seen_to(i64::MAX);
    }

    /// The plan, carried out on a view: guests that go are gone.
    fn carry_out(view: &mut View, wire: &Wire) -> Vec<String> {
        let first = Plan::apply(view, wire, None).unwrap();
        for name in &first.gone {
            change(view, &Kind::Guest.of(name), None);
        }
        let plan = Plan::apply(view, wire, None).unwrap();
        assert!(plan.gone.is_empty());
        for (key, value) in &plan.transaction.writes {
            change(view, key, value.as_deref());
        }
        first.steps
    }

    #[test]
    fn stubs_are_networks_and_guests_keep_their_vnics() {
        let mut view = View::default();
        let steps = carry_out(&mut view, &wire(WIRE));
        assert_eq!(
            steps,
            [
                "+ network one",
                "+ network two",
                "+ guest a",
                "+ guest b",
                "+ guest r"
            ]
        );
        let network = |name: &str| view.get::<Network>(&Kind::Network.of(name)).unwrap();
        assert_eq!((network("one").vni, network("one").mtu), (1, 1450));
        assert_eq!((network("two").vni, network("two").mtu), (2, 1400));
        let guest = |name: &str| view.guest(name).unwrap();
        let bandwidth = |text: &str| Some(text.parse().unwrap());
        assert_eq!(guest("a").vnics["a0"].properties.maxbw, bandwidth("1G"));
        assert_eq!(guest("r").vnics["r0"].properties.maxbw, bandwidth("10M"));
        assert_eq!(guest("r").vnics["r1"].properties.maxbw, None);
        assert_eq!(guest("a").vnics["a0"].mac, Some(Wire::mac_of("w", "a0")));
        let near = |name: &str| Vec::from_iter(guest(name).facts().chain);
        assert_eq!(
            (near("a"), near("r")),
            (vec!["r".into()], vec!["a".into(), "b".to_string()])
        );
        let links = guest("r").facts().links;
        assert_eq!(Vec::from_iter(links.keys()), ["one", "two"]);
        // Nothing is to be done then, also if the demand is not repeated.
        assert!(carry_out(&mut view, &wire(WIRE)).is_empty());
        let demand = Demand {
            labels: ["ssd".to_string()].into(),
            ..Demand::default()
        };
        let plan = Plan::apply(&view, &wire(WIRE), Some(&demand)).unwrap();
        assert_eq!(plan.gone, ["a", "b", "r"]);
        for (key, value) in &plan.transaction.writes {
            change(&mut view, key, value.as_deref());
        }
        for guest in plan.gone {
            change(&mut view, &Kind::Guest.of(&guest), None);
        }
        carry_out(&mut view, &wire(WIRE));
        assert_eq!(view.guest("a").unwrap().demand.labels, demand.labels);
        assert!(carry_out(&mut view, &wire(WIRE)).is_empty());
    }

    #[test]
    fn what_changes_is_created_again_and_what_is_missing_is_repaired() {
        let mut view = View::default();
        carry_out(&mut view, &wire(WIRE));
        let other = WIRE
            .replace("mtu = 1400", "mtu = 1300")
            .replace("[guest.a]", "[guest.c]");
        let steps = carry_out(&mut view, &wire(&other));
        assert_eq!(
            steps,
            [
                "~ network two: its MTU is 1300, not 1400",
                "~ guest b: it is created again, since network two is created again",
                "+ guest c",
                "~ guest r: it is created again, since network two is created again",
                "- guest a",
            ]
        );
        change(&mut view, &Kind::Guest.of("c"), None);
        assert_eq!(carry_out(&mut view, &wire(&other)), ["+ guest c"]);
        let other = other.replace(
            "'FromNetfront(x) -> ToNetfront(x);'",
            "'Idle -> ToNetfront(x);'",
        );
        let plan = Plan::apply(&view, &wire(&other), None).unwrap();
        let again = ["b", "c"].map(|guest| {
            format!("~ guest {guest}: it is created again, since its configuration changed")
        });
        assert_eq!(plan.steps, again);
        let gone = Plan::delete(&view, "w").unwrap();
        assert_eq!(gone.gone, ["b", "c", "r"]);
        assert_eq!(gone.steps[..2], ["- network one", "- network two"]);
        // A guest has gone, and its VNIC is still told of; another's VNIC keeps the network.
        change(&mut view, &Kind::Guest.of("c"), None);
        let mut member = Member {
            id: view.get::<Network>(&Kind::Network.of("one")).unwrap().id,
            address: [192, 0, 2, 1].into(),
            vnics: [(Wire::mac_of("w", "a0"), Vec::new())].into(),
            wireguard: None,
            fault: None,
        };
        let mut tell = |member: &Member| {
            let value = serde_json::to_vec(member).unwrap();
            change(
                &mut view,
                &keys::of_host(Kind::Member, "h", "one"),
                Some(&value),
            );
            Plan::delete(&view, "w").err().map(|error| error.error)
        };
        assert_eq!(tell(&member), None);
        member.vnics.insert(Wire::mac_of("v", "a0"), Vec::new());
        assert_eq!(
            tell(&member).unwrap(),
            "network one has 1 VNICs on hosts h: remove these first"
        );
    }

    #[track_caller]
    fn refused(view: &View, text: &str) -> String {
        let plan = Plan::apply(view, &wire(text), None);
        plan.err().unwrap().error
    }

    #[test]
    fn what_only_one_host_has_is_refused() {
        let mut view = View::default();
        let error = refused(
            &view,
            "wire = 'w'\nexisting = ['lan']\n[link.up]\n[namespace.desk]\n[stub.s]\naging = 5\n[patch.p]\nbetween = ['s', 'lan']\n[vnic.d0]\nlink = 's'\nnamespace = 'desk'\n[vnic.e0]\nlink = 's'\n",
        );
        let lines: Vec<_> = error
            .lines()
            .map(|it| it.split(": ").next().unwrap())
            .collect();
        assert_eq!(
            lines,
            [
                "link ‘up’",
                "patch ‘p’",
                "namespace ‘desk’",
                "existing ‘lan’",
                "stub ‘s’",
                "vnic ‘d0’",
                "vnic ‘e0’"
            ]
        );
        carry_out(&mut view, &wire(WIRE));
        let error = refused(&view, &WIRE.replace("wire = 'w'", "wire = 'v'"));
        assert_eq!(
            error,
            "wire ‘v’, network ‘one’: the cluster has a network of this name that is not the wire's: choose another"
        );
        let guests: String = (0..WRITES_MAX)
            .map(|it| format!("[guest.g{it}]\nconfig = 'Idle -> Discard;'\n"))
            .collect();
        let error = refused(&view, &format!("wire = 'big'\n[stub.s]\n{guests}"));
        assert!(
            error.starts_with("wire ‘big’ changes 123 parts of "),
            "{error}"
        );
    }
}
