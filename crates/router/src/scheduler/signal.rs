//! Notifiers: a queue tells the elements that pull from it that it has packets, and the elements
//! that push into it that it has room.
//!
//! A *signal* is a bit that an element sets: active or not. An element that pulls looks for the
//! signals upstream of its input when it is initialized, with its task as listener; while none of
//! them is active there is no use in pulling, and when one becomes active its listeners are
//! scheduled. Where the search meets a path without notifier, the answer is a signal that is
//! always active: the element has to poll.

use alloc::collections::{BTreeMap, BTreeSet};

use super::task::TaskId;
use crate::prelude::*;

/// Which of the two notices a search is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// Whether packets can be pulled: looked for upstream of inputs.
    Empty,
    /// Whether packets can be pushed: looked for downstream of outputs.
    Full,
}

/// A signal that an element owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignalId(pub(crate) u32);

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

    /// Whether it is always active: some path has no notifier.
    pub fn is_busy(&self) -> bool {
        self.always
    }
}

#[derive(Clone)]
struct SignalState {
    /// The element that owns it.
    owner: ElementId,
    notice: Notice,
    active: bool,
    relays: bool,
    listeners: Vec<TaskId>,
    /// Signals that become active when this one does.
    dependents: Vec<SignalId>,
}

/// Every signal of a router.
#[derive(Clone, Default)]
pub(crate) struct Signals {
    states: Vec<SignalState>,
    by_owner: BTreeMap<(ElementId, Notice), SignalId>,
    /// Elements that never give nor take a packet.
    idle: BTreeSet<ElementId>,
    /// Free numbers, the next to use at the end.
    reused: Vec<SignalId>,
}

impl Signals {
    /// As [`Tasks::reserve`](super::task::Tasks::reserve). What listens to a signal stays with it.
    pub fn reserve(&self, stays: impl Fn(ElementId) -> bool) -> Signals {
        let mut new = Signals {
            idle: self.idle.iter().copied().filter(|id| stays(*id)).collect(),
            ..Signals::default()
        };
        for (at, state) in self.states.iter().enumerate() {
            let (id, mut state) = (SignalId(at as u32), state.clone());
            if stays(state.owner) {
                new.by_owner.insert((state.owner, state.notice), id);
            } else {
                state.owner = ElementId::NONE;
                new.reused.push(id);
            }
            new.states.push(state);
        }
        new.reused.reverse();
        new
    }

    /// As [`Tasks::settle`](super::task::Tasks::settle).
    pub fn settle(&mut self) {
        self.reused = Vec::new();
    }

    /// The signal of an element for a notice; it is made, with this value, if there is none yet.
    /// Of one that `relays`, searches find the listeners behind the element too.
    pub fn add(
        &mut self,
        owner: ElementId,
        notice: Notice,
        active: bool,
        relays: bool,
    ) -> SignalId {
        if let Some(id) = self.of(owner, notice) {
            return id;
        }
        self.insert(SignalState {
            owner,
            notice,
            active,
            relays,
            listeners: Vec::new(),
            dependents: Vec::new(),
        })
    }

    fn insert(&mut self, state: SignalState) -> SignalId {
        let reused = self.reused.pop();
        let id = reused.unwrap_or(SignalId(self.states.len() as u32));
        self.by_owner.insert((state.owner, state.notice), id);
        match reused {
            Some(id) => self.states[id.0 as usize] = state,
            None => self.states.push(state),
        }
        id
    }

    /// The signal of an element for a notice, if it has one.
    pub fn of(&self, owner: ElementId, notice: Notice) -> Option<SignalId> {
        self.by_owner.get(&(owner, notice)).copied()
    }

    /// Whether elements behind a signal's element wake its listeners too.
    pub fn relays(&self, id: SignalId) -> bool {
        self.states[id.0 as usize].relays
    }

    /// Makes an element one that never gives nor takes a packet.
    pub fn set_idle(&mut self, element: ElementId) {
        self.idle.insert(element);
    }

    /// Whether an element never gives nor takes a packet.
    pub fn is_idle(&self, element: ElementId) -> bool {
        self.idle.contains(&element)
    }

    #[inline]
    pub fn is_active(&self, id: SignalId) -> bool {
        self.states[id.0 as usize].active
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
            let (before, notice) = (
                &self.states[..id.0 as usize],
                self.states[id.0 as usize].notice,
            );
            let there = before.iter().filter(|s| s.owner != ElementId::NONE);
            let number = there.filter(|s| s.notice == notice).count() as u32;
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
        let listeners = &mut self.states[id.0 as usize].listeners;
        if !listeners.contains(&task) {
            listeners.push(task);
        }
    }

    /// Lets `dependent` become active whenever `id` does.
    pub fn lead(&mut self, id: SignalId, dependent: SignalId) {
        let dependents = &mut self.states[id.0 as usize].dependents;
        if id != dependent && !dependents.contains(&dependent) {
            dependents.push(dependent);
        }
    }

    /// Sets a signal; returns whether it became active and has listeners or dependents.
    #[inline]
    pub fn set(&mut self, id: SignalId, active: bool) -> bool {
        let state = &mut self.states[id.0 as usize];
        let woken = active && !state.active;
        state.active = active;
        woken && !(state.listeners.is_empty() && state.dependents.is_empty())
    }

    /// The tasks that are scheduled when a signal becomes active.
    pub fn listeners(&self, id: SignalId) -> &[TaskId] {
        &self.states[id.0 as usize].listeners
    }

    /// The signals that become active when a signal does.
    pub fn dependents(&self, id: SignalId) -> &[SignalId] {
        &self.states[id.0 as usize].dependents
    }

    /// The element that owns a signal.
    pub fn owner(&self, id: SignalId) -> ElementId {
        self.states[id.0 as usize].owner
    }

    /// Every signal, in the order of numbers.
    pub fn list(&self) -> alloc::vec::IntoIter<SignalId> {
        let all = (0..self.states.len() as u32).map(SignalId);
        let there = all.filter(|id| self.owner(*id) != ElementId::NONE);
        there.collect::<Vec<_>>().into_iter()
    }

    /// Adds the signals that only `other` knows.
    pub fn add_missing(&mut self, other: &Signals) {
        for state in other.states.iter().skip(self.states.len()) {
            match state.owner {
                ElementId::NONE => self.states.push(state.clone()),
                _ => _ = self.insert(state.clone()),
            }
        }
    }
}
