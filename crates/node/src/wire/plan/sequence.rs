//! The sequence in which the steps from one wire to another are taken.
//!
//! Most steps can be undone without a trace. The end of a guest or a program cannot: its memory is
//! lost. So these steps, and the steps that wait for them, come last: a step that can come earlier never
//! fails after them.

use std::collections::HashMap;

use switch::lookup::Mac;

use super::part::Part;
use super::step::Step;
use crate::model::output;

/// A thing that a step provides to later steps, or needs from earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Need {
    /// The name of a guest is free.
    GuestName(String),
    /// No guest has the VNIC.
    Unused(String),
    /// The name of a link, stub or VNIC is free.
    PortName(String),
    /// The Ethernet address is free.
    Address(Mac),
    /// A VNIC less is on the switch.
    Leaves(String),
    /// An attached link less is there: its interface or its tunnel may be another's.
    Detached,
    /// The switch is there.
    Switch(String),
    /// The VNIC is there.
    Vnic(String),
    /// A VNIC more is in the namespace.
    Inside(String),
    /// An entry more is in the flow table of the switch.
    Entry(String),
    /// The name of an NSM is free.
    NsmName(String),
    /// The NSM is there.
    Nsm(String),
    /// An application of the NSM less is there.
    Unserved(String),
    /// The name of an application is free.
    ApplicationName(String),
}

/// Orders steps so that a failure loses as little as possible; each step comes behind the steps
/// that it needs. Reversible steps come first, then configurations that are replaced in use, then
/// steps that end guests or programs and steps that wait for those. Each ended guest is restarted before the
/// next is ended.
pub fn sequence(steps: Vec<Step>) -> Vec<Step> {
    let mut late = Late::default();
    for (i, step) in steps.iter().enumerate() {
        let before = late.before(step);
        if step.loses_state() || !before.is_empty() {
            for gives in gives(step) {
                late.givers.entry(gives).or_default().push(i);
            }
            late.before.insert(i, before);
        }
    }
    let mut order: Vec<usize> = (0..steps.len())
        .filter(|i| !late.before.contains_key(i))
        .collect();
    order.sort_by_key(|&i| matches!(steps[i].from, Some(Part::Guest(_))));
    let mut waits: Vec<usize> = late.before.keys().copied().collect();
    // A guest pulls in the steps that it needs; steps that only remove come last.
    let is_guest = |i: usize| matches!(steps[i].to, Some(Part::Guest(_)));
    waits.sort_by_key(|&i| (steps[i].to.is_none(), !is_guest(i), i));
    for step in waits {
        late.take(step, &mut order);
    }
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    order.into_iter().filter_map(|i| steps[i].take()).collect()
}

/// Steps that end guests or programs, or wait for such.
#[derive(Default)]
struct Late {
    /// By number: the late steps that have to be taken before it. One that was taken is not there.
    before: HashMap<usize, Vec<usize>>,
    /// Which of them give something.
    givers: HashMap<Need, Vec<usize>>,
}

impl Late {
    fn before(&self, step: &Step) -> Vec<usize> {
        let givers = needs(step).into_iter().filter_map(|n| self.givers.get(&n));
        givers.flatten().copied().collect()
    }

    /// Takes a step that is not taken yet, behind the steps that it needs.
    fn take(&mut self, step: usize, order: &mut Vec<usize>) {
        let Some(before) = self.before.remove(&step) else {
            return;
        };
        for step in before {
            self.take(step, order);
        }
        order.push(step);
    }
}

/// Things that a step provides and late steps may wait for.
fn gives(step: &Step) -> Vec<Need> {
    let name = || step.name.clone();
    match (&step.from, &step.to) {
        (Some(Part::Guest(it)), None) => {
            let unused = it.interfaces.values().cloned().map(Need::Unused);
            unused.chain([Need::GuestName(name())]).collect()
        }
        (Some(Part::Vnic(it)), None) => {
            let address = it.mac.map(Need::Address);
            let gone = [Need::PortName(name()), Need::Leaves(it.link.clone())];
            gone.into_iter().chain(address).collect()
        }
        (Some(Part::Nsm(it)), None) => {
            let leaves = it.link.clone().map(Need::Leaves);
            let gone = [Need::NsmName(name()), Need::PortName(name())];
            gone.into_iter().chain(leaves).collect()
        }
        (Some(Part::Application(it)), None) => {
            vec![
                Need::Unserved(it.nsm.clone()),
                Need::ApplicationName(name()),
            ]
        }
        (Some(Part::Stub(_)), None) => vec![Need::PortName(name())],
        (Some(Part::Link(_)), None) => vec![Need::PortName(name()), Need::Detached],
        (None, Some(Part::Stub(_) | Part::Link(_))) => vec![Need::Switch(name())],
        (None, Some(Part::Vnic(it))) => {
            let inside = it.namespace.clone().map(Need::Inside);
            inside.into_iter().chain([Need::Vnic(name())]).collect()
        }
        (None, Some(Part::Nsm(_))) => vec![Need::Nsm(name())],
        (_, Some(Part::Entry { link, .. })) => vec![Need::Entry(link.clone())],
        _ => Vec::new(),
    }
}

/// Things that a step needs, if a late step provides them.
fn needs(step: &Step) -> Vec<Need> {
    let name = || step.name.clone();
    match (&step.from, &step.to) {
        (Some(Part::Vnic(_)), None) => vec![Need::Unused(name())],
        (Some(Part::Stub(_) | Part::Link(_)), None) => vec![Need::Leaves(name())],
        (None, Some(Part::Stub(_))) => vec![Need::PortName(name())],
        (None, Some(Part::Link(_))) => vec![Need::PortName(name()), Need::Detached],
        (None, Some(Part::Patch(it))) => it.between.iter().cloned().map(Need::Switch).collect(),
        (None, Some(Part::Vnic(it))) => {
            let address = it.mac.map(Need::Address);
            let needs = [Need::PortName(name()), Need::Switch(it.link.clone())];
            needs.into_iter().chain(address).collect()
        }
        (_, Some(Part::Routes(_))) => vec![Need::Inside(name())],
        (None, Some(Part::Guest(it))) => {
            let vnics = it.interfaces.values();
            let vnics = vnics.flat_map(|it| [Need::Unused(it.clone()), Need::Vnic(it.clone())]);
            vnics.chain([Need::GuestName(name())]).collect()
        }
        (Some(Part::Nsm(_)), None) => vec![Need::Unserved(name())],
        (None, Some(Part::Nsm(it))) => {
            let ports = it
                .link
                .clone()
                .map(|link| [Need::PortName(name()), Need::Switch(link)]);
            let ports = ports.into_iter().flatten();
            ports.chain([Need::NsmName(name())]).collect()
        }
        (_, Some(Part::Application(it))) => {
            vec![Need::Nsm(it.nsm.clone()), Need::ApplicationName(name())]
        }
        (None, Some(Part::Flow(it))) => vec![Need::Switch(it.link.clone())],
        (_, Some(Part::Entry { link, port, .. })) => {
            vec![Need::Switch(link.clone()), Need::Vnic(port.clone())]
        }
        (_, Some(Part::Default(action))) => {
            let vnic = output(action).map(|port| Need::Vnic(port.into()));
            let table = [Need::Switch(name()), Need::Entry(name())];
            table.into_iter().chain(vnic).collect()
        }
        _ => Vec::new(),
    }
}
