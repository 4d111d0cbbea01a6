//! The planner: makes the reversible steps from one wire to another. `weir wire diff` prints them,
//! and `apply` carries them out.

mod part;
mod sequence;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Wire;
use part::{Key, NSM, Parts, STUB, VNIC, parts};
use sequence::sequence;
use step::fields;

pub use part::{Part, patches};
pub use step::{Drift, Step, Why};

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

/// The parts that cannot change in use, and the parts on them: they are removed and recreated.
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
    // The parts on a stub are removed before it, and recreated after it.
    for (key, old, new) in both() {
        let goes = |switch: &str| replaced.contains(&(STUB, switch.to_string()));
        let stands_on = [new, old].map(|part| part.switches(&key.1));
        if stands_on.into_iter().flatten().any(goes) {
            replaced.insert(key.clone());
        }
    }
    // A guest is removed before its VNIC, and recreated after it; so are a VNIC's flow table
    // entries.
    for (key, old, new) in both() {
        let moves = |vnic: &str| {
            let vnic = (VNIC, vnic.to_string());
            replaced.contains(&vnic) || before.contains_key(&vnic) != after.contains_key(&vnic)
        };
        if new.vnics().into_iter().chain(old.vnics()).any(moves) {
            replaced.insert(key.clone());
        }
    }
    // A program is ended before the NSM that it has goes.
    for (key, old, _) in both() {
        if let Part::Application(old) = old {
            let nsm = (NSM, old.nsm.clone());
            if replaced.contains(&nsm) || !after.contains_key(&nsm) {
                replaced.insert(key.clone());
            }
        }
    }
    replaced
}
