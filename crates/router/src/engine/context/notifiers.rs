//! Notifiers, as an element sees them: its own signals, and the search for others'.

use alloc::collections::BTreeSet;

use super::Cx;
use crate::engine::ports::flow;
use crate::prelude::*;
use crate::scheduler::signal::{Notice, Signal, SignalId};
use crate::scheduler::task::TaskId;

/// Notifiers.
impl Cx<'_> {
    /// The element's signal for a notice: it is made, with this value, if there is none yet. To be
    /// called from [`configured`](crate::Element::configured), so that it is there when others are
    /// initialized and search for it.
    pub fn signal(&mut self, notice: Notice, active: bool) -> SignalId {
        let signals = &mut self.engine.scheduler.signals;
        signals.add(self.id, notice, active, false)
    }

    /// As [`signal`](Self::signal), of an element that stores packets of those behind it for a
    /// while: its listeners are woken by theirs too.
    pub fn relay_signal(&mut self, notice: Notice, active: bool) -> SignalId {
        let signals = &mut self.engine.scheduler.signals;
        signals.add(self.id, notice, active, true)
    }

    /// Says that the element never gives nor takes a packet: searches end at it, and find nothing.
    pub fn never_notifies(&mut self) {
        self.engine.scheduler.signals.set_idle(self.id);
    }

    /// Sets a signal, and wakes its listeners if it becomes active.
    #[inline]
    pub fn set_signal(&mut self, signal: SignalId, active: bool) {
        self.engine.scheduler.set_signal(signal, active);
    }

    /// Whether a signal, or any of those found together, is active.
    #[inline]
    pub fn is_active(&self, signal: &Signal) -> bool {
        self.engine.scheduler.signals.any_active(signal)
    }

    /// A signal in Click's notation, for a debugger of notifiers: each word of signals by its
    /// notice and number, with the mask of signals and the active ones among them in hexadecimal,
    /// and a star if any is active.
    pub fn describe_signal(&self, signal: &Signal) -> String {
        self.engine.scheduler.signals.describe(signal)
    }

    /// The signals that say whether input `port` has packets to pull. `task` is scheduled when
    /// one becomes active.
    pub fn upstream_signal(&mut self, port: usize, task: Option<TaskId>) -> Signal {
        self.search(Notice::Empty, port, task)
    }

    /// The signals that say whether output `port` has room downstream. `task` is scheduled when
    /// one becomes active.
    pub fn downstream_signal(&mut self, port: usize, task: Option<TaskId>) -> Signal {
        self.search(Notice::Full, port, task)
    }

    /// Lets `dependent`, a signal of this element, become active whenever a signal upstream of
    /// input `port` does.
    pub fn lead_upstream(&mut self, port: usize, dependent: SignalId) -> Signal {
        let (signal, found) = self.walk(Notice::Empty, port);
        for id in found {
            self.engine.scheduler.signals.lead(id, dependent);
        }
        signal
    }

    fn search(&mut self, notice: Notice, port: usize, task: Option<TaskId>) -> Signal {
        let (signal, found) = self.walk(notice, port);
        if let Some(task) = task {
            for id in found {
                self.engine.scheduler.signals.listen(id, task);
            }
        }
        signal
    }

    /// The signals of a search, and all signals that can wake the searching element.
    pub(crate) fn walk(&self, notice: Notice, port: usize) -> (Signal, Vec<SignalId>) {
        let (parts, always, deeper) = self.walk_to(notice, port, false);
        let signal = Signal {
            always,
            parts: parts.clone(),
        };
        // Behind a notifier that stands for all behind it, the others only wake.
        let found = if deeper && !always {
            self.walk_to(notice, port, true).0
        } else {
            parts
        };
        (signal, found)
    }

    /// Follows the graph until notifiers stop it; with `beyond`, also past notifiers that relay.
    /// Returns the signals, whether a path meets a port without notifier, and whether the graph goes
    /// on behind a notifier that relays.
    fn walk_to(&self, notice: Notice, port: usize, beyond: bool) -> (Vec<SignalId>, bool, bool) {
        let graph = &self.engine.graph;
        let step = |id: ElementId, port: usize| -> Vec<(ElementId, usize)> {
            match notice {
                Notice::Empty => graph.upstream(id, port).collect(),
                Notice::Full => graph.downstream(id, port).collect(),
            }
        };
        let (mut parts, mut always, mut deeper) = (Vec::new(), false, false);
        let mut seen: BTreeSet<(ElementId, usize)> = BTreeSet::new();
        let mut pending = step(self.id, port);
        while let Some(next) = pending.pop() {
            if !seen.insert(next) {
                continue;
            }
            let (id, at) = next;
            let signals = &self.engine.scheduler.signals;
            let part = signals.of(id, notice);
            let relays = part.is_some_and(|part| signals.relays(part));
            deeper |= relays;
            let go_on = match part {
                Some(_) => relays && beyond,
                None => !signals.is_idle(id),
            };
            parts.extend(part.filter(|part| !parts.contains(part)));
            if !go_on {
                continue;
            }
            let info = graph.info(id);
            // Behind the element, by the ports that its packets come from or go to. A push port
            // on the way up, a pull port on the way down, or no port at all ends the search
            // without an answer: the element has to poll.
            let (others, dead): (&[bool], bool) = match notice {
                Notice::Empty => (&info.inputs, true),
                Notice::Full => (&info.outputs, false),
            };
            let flows = flow(info.class.flow, at, others.len(), notice == Notice::Empty);
            let mut any = false;
            for (other, _) in flows.iter().enumerate().filter(|(_, flows)| **flows) {
                any = true;
                if others[other] == dead {
                    always |= part.is_none();
                    continue;
                }
                pending.extend(step(id, other));
            }
            // A dead end that takes everything (Discard) is never full; one that gives nothing
            // by itself may give something later.
            always |= !any && part.is_none();
        }
        (parts, always, deeper)
    }
}
