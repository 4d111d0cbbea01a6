//! Notifiers, as an element sees them: its own signals, and the search for others'.

use alloc::string::String;
use alloc::vec::Vec;

use super::Cx;
use crate::engine::element::Notifier;
use crate::engine::ports::flow;
use crate::scheduler::signal::{Notice, Search, Signal, SignalId};
use crate::scheduler::task::TaskId;
use crate::topology::ElementId;

/// Notifiers.
impl Cx<'_> {
    /// Makes a signal that gives a notice. To be called from [`configure`](crate::Declared::configure), so that the element's
    /// [`notifier`](crate::Element::notifier) is there when others are initialized.
    pub fn signal(&mut self, notice: Notice, active: bool) -> SignalId {
        self.engine.scheduler.signals.add(self.id, notice, active)
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

    /// A signal in Click's notation, for those who look into notifiers: each word of signals by its
    /// notice and number, with those in question and those of them that are active in hexadecimal,
    /// and a star if any is.
    pub fn describe_signal(&self, signal: &Signal) -> String {
        self.engine.scheduler.signals.describe(signal)
    }

    /// Whether one signal is active.
    #[inline]
    pub fn signal_is_active(&self, signal: SignalId) -> bool {
        self.engine.scheduler.signals.is_active(signal)
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

    /// Goes along the graph until notifiers stop it, and also beyond those that say
    /// [`ContinueWake`](Search::ContinueWake) if `beyond`. Returns the signals, whether the way
    /// meets a place without notifier, and whether there is something beyond.
    fn walk_to(&self, notice: Notice, port: usize, beyond: bool) -> (Vec<SignalId>, bool, bool) {
        let graph = &self.engine.graph;
        let step = |id: ElementId, port: usize| -> Vec<(ElementId, usize)> {
            match notice {
                Notice::Empty => graph.upstream(id, port).collect(),
                Notice::Full => graph.downstream(id, port).collect(),
            }
        };
        let (mut parts, mut always, mut deeper) = (Vec::new(), false, false);
        let mut seen: Vec<(ElementId, usize)> = Vec::new();
        let mut pending = step(self.id, port);
        while let Some(next) = pending.pop() {
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            let (id, at) = next;
            let notifier = self.link::<dyn Notifier>(id);
            let found = match notifier.and_then(|link| self.view(link)) {
                Some(element) => element.notifier(notice, at),
                None => Search::Pass,
            };
            let (part, go_on) = match found {
                Search::Pass => (None, true),
                Search::Never => (None, false),
                Search::Stop(part) => (Some(part), false),
                Search::Continue(part) => (Some(part), true),
                Search::ContinueWake(part) => {
                    deeper = true;
                    (Some(part), beyond)
                }
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
