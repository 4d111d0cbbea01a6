//! Notifiers: a queue tells the elements that pull from it that it has packets, and the elements
//! that push into it that it has room.
//!
//! A *signal* is a bit that an element sets: active or not. An element that pulls looks for the
//! signals upstream of its input when it is initialized, with its task as listener; while none of
//! them is active there is no use in pulling, and when one becomes active its listeners are
//! scheduled. Where the search meets a path without notifier, the answer is a signal that is
//! always active: the element has to poll.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::task::TaskId;
use crate::topology::ElementId;

/// Which of the two notices a search is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Whether packets can be pulled: looked for upstream of inputs.
    Empty,
    /// Whether packets can be pushed: looked for downstream of outputs.
    Full,
}

/// A signal that an element owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignalId(pub(crate) u32);

/// What a search finds at an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// No notifier here: the search goes on behind the element.
    Pass,
    /// There will never be anything from here: the search stops.
    Never,
    /// A signal; the search stops here.
    Stop(SignalId),
    /// A signal that adds to those behind the element.
    Continue(SignalId),
    /// A signal that stands for all behind the element; listeners are woken by those too.
    ContinueWake(SignalId),
}

/// The signals that a search found together: active if any of them is.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    pub(crate) always: bool,
    pub(crate) parts: Vec<SignalId>,
}

impl Signal {
    /// A signal that is always active.
    pub fn busy() -> Signal {
        Signal {
            always: true,
            parts: Vec::new(),
        }
    }
}

#[derive(Clone)]
struct SignalState {
    /// The element that owns it.
    owner: ElementId,
    notice: Notice,
    active: bool,
    listeners: Vec<TaskId>,
    /// Signals that become active when this one does.
    dependents: Vec<SignalId>,
}

/// Every signal of a router.
#[derive(Clone, Default)]
pub(crate) struct Signals(Vec<SignalState>);

impl Signals {
    pub fn add(&mut self, owner: ElementId, notice: Notice, active: bool) -> SignalId {
        self.0.push(SignalState {
            owner,
            notice,
            active,
            listeners: Vec::new(),
            dependents: Vec::new(),
        });
        SignalId(self.0.len() as u32 - 1)
    }

    #[inline]
    pub fn is_active(&self, id: SignalId) -> bool {
        self.0[id.0 as usize].active
    }

    #[inline]
    pub fn any_active(&self, signal: &Signal) -> bool {
        signal.always || signal.parts.iter().any(|id| self.is_active(*id))
    }

    /// See [`describe_signal`](crate::Cx::describe_signal).
    pub fn describe(&self, signal: &Signal) -> String {
        if signal.always {
            return "busy*".into();
        }
        let mut words: BTreeMap<_, (u32, u32)> = BTreeMap::new();
        for id in &signal.parts {
            // Each notice has words of its own.
            let (before, notice) = (&self.0[..id.0 as usize], self.0[id.0 as usize].notice);
            let number = before.iter().filter(|s| s.notice == notice).count() as u32;
            let name = match notice {
                Notice::Empty => "empty",
                Notice::Full => "full",
            };
            let (all, active) = words.entry((name, number / u32::BITS)).or_default();
            let bit = 1 << (number % u32::BITS);
            *all |= bit;
            *active |= if self.is_active(*id) { bit } else { 0 };
        }
        let words = words.iter().map(|((name, word), (all, active))| {
            let star = if *active != 0 { "*" } else { "" };
            format!("{name}.{word}/{all:x}:{active:x}{star}")
        });
        match words.collect::<Vec<_>>() {
            none if none.is_empty() => "idle".into(),
            words => words.join("+"),
        }
    }

    pub fn listen(&mut self, id: SignalId, task: TaskId) {
        let listeners = &mut self.0[id.0 as usize].listeners;
        if !listeners.contains(&task) {
            listeners.push(task);
        }
    }

    /// Lets `dependent` become active whenever `id` does.
    pub fn lead(&mut self, id: SignalId, dependent: SignalId) {
        let dependents = &mut self.0[id.0 as usize].dependents;
        if id != dependent && !dependents.contains(&dependent) {
            dependents.push(dependent);
        }
    }

    /// Sets a signal; returns whether it became active and has listeners or dependents.
    #[inline]
    pub fn set(&mut self, id: SignalId, active: bool) -> bool {
        let state = &mut self.0[id.0 as usize];
        let woken = active && !state.active;
        state.active = active;
        woken && !(state.listeners.is_empty() && state.dependents.is_empty())
    }

    /// The tasks that are scheduled when a signal becomes active.
    pub fn listeners(&self, id: SignalId) -> &[TaskId] {
        &self.0[id.0 as usize].listeners
    }

    /// The signals that become active when a signal does.
    pub fn dependents(&self, id: SignalId) -> &[SignalId] {
        &self.0[id.0 as usize].dependents
    }

    /// The element that owns a signal.
    pub fn owner(&self, id: SignalId) -> ElementId {
        self.0[id.0 as usize].owner
    }

    /// Every signal.
    pub fn iter(&self) -> impl Iterator<Item = SignalId> + use<> {
        (0..self.0.len() as u32).map(SignalId)
    }

    /// Adds the signals that only `other` knows.
    pub fn add_missing(&mut self, other: &Signals) {
        let signals = other.0.iter().skip(self.0.len());
        self.0.extend(signals.cloned());
    }
}
