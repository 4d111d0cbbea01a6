//! Timers: moments of the steady clock at which elements run.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::embedding::Steady;
use crate::prelude::*;

/// A timer of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId(pub(crate) u32);

/// A timer that has expired, and has not run yet.
pub(crate) struct Expired {
    at: Steady,
    entry: u64,
    timer: TimerId,
}

struct Timer {
    element: ElementId,
    expires: Option<Steady>,
    /// The number of the timer's valid entry in the heap.
    entry: u64,
}

/// Every timer of a router. The heap may hold stale entries; they are skipped.
#[derive(Default)]
pub(crate) struct Timers {
    timers: Vec<Timer>,
    heap: BinaryHeap<Reverse<(Steady, u64, TimerId)>>,
    entries: u64,
    /// Free numbers, the next to use at the end.
    reused: Vec<TimerId>,
}

impl Timer {
    /// One that is not scheduled.
    fn at_rest(element: ElementId) -> Timer {
        Timer {
            element,
            expires: None,
            entry: 0,
        }
    }
}

impl Timers {
    pub fn add(&mut self, element: ElementId) -> TimerId {
        if let Some(id) = self.reused.pop() {
            self.timers[id.0 as usize] = Timer::at_rest(element);
            return id;
        }
        self.timers.push(Timer::at_rest(element));
        TimerId(self.timers.len() as u32 - 1)
    }

    /// As [`Tasks::reserve`](super::task::Tasks::reserve).
    pub fn reserve(&self, stays: impl Fn(ElementId) -> bool) -> Timers {
        let mut new = Timers::default();
        for (at, timer) in self.timers.iter().enumerate() {
            let element = match stays(timer.element) {
                true => timer.element,
                false => ElementId::NONE,
            };
            if element == ElementId::NONE {
                new.reused.push(TimerId(at as u32));
            }
            new.timers.push(Timer::at_rest(element));
        }
        new.reused.reverse();
        new
    }

    /// As [`Tasks::settle`](super::task::Tasks::settle).
    pub fn settle(&mut self) {
        self.reused = Vec::new();
    }

    pub fn element(&self, id: TimerId) -> ElementId {
        self.timers[id.0 as usize].element
    }

    pub fn expires(&self, id: TimerId) -> Option<Steady> {
        self.timers[id.0 as usize].expires
    }

    pub fn schedule(&mut self, id: TimerId, at: Steady) {
        self.entries += 1;
        let timer = &mut self.timers[id.0 as usize];
        timer.expires = Some(at);
        timer.entry = self.entries;
        // Bounds the stale entries: at most a few for each timer are kept.
        if self.heap.len() > 4 * self.timers.len() + 16 {
            let timers = &self.timers;
            self.heap
                .retain(|Reverse((_, entry, id))| timers[id.0 as usize].entry == *entry);
        }
        self.heap.push(Reverse((at, self.entries, id)));
    }

    pub fn unschedule(&mut self, id: TimerId) {
        let timer = &mut self.timers[id.0 as usize];
        timer.expires = None;
        timer.entry = 0;
    }

    /// When the next timer expires.
    pub fn next(&mut self) -> Option<Steady> {
        while let Some(Reverse((at, entry, id))) = self.heap.peek() {
            if self.timers[id.0 as usize].entry == *entry {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next timer that has expired at `now`.
    pub fn expired(&mut self, now: Steady) -> Option<TimerId> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, _, id)) = self.heap.pop()?;
        self.unschedule(id);
        Some(id)
    }

    /// All timers that have expired at `now`. Each is still scheduled until it is [claimed](Self::claim).
    pub fn all_expired(&mut self, now: Steady) -> alloc::vec::IntoIter<Expired> {
        let mut expired = Vec::new();
        while self.next().is_some_and(|next| next <= now) {
            expired.extend(self.heap.pop().map(|Reverse((at, entry, timer))| Expired {
                at,
                entry,
                timer,
            }));
        }
        expired.into_iter()
    }

    /// The timer of an expired entry, unless it was rescheduled or unscheduled since.
    pub fn claim(&mut self, expired: &Expired) -> Option<TimerId> {
        let is_same = self.timers[expired.timer.0 as usize].entry == expired.entry;
        is_same.then(|| {
            self.unschedule(expired.timer);
            expired.timer
        })
    }

    /// Puts back the expired timers that were not claimed.
    pub fn put_back(&mut self, expired: impl Iterator<Item = Expired>) {
        let entries = expired.map(|it| Reverse((it.at, it.entry, it.timer)));
        self.heap.extend(entries);
    }

    /// Every timer with its element, in the order of numbers.
    pub fn list(&self) -> alloc::vec::IntoIter<(TimerId, ElementId)> {
        let timers = self.timers.iter().enumerate();
        let timers = timers.filter(|(_, timer)| timer.element != ElementId::NONE);
        let timers = timers.map(|(i, timer)| (TimerId(i as u32), timer.element));
        timers.collect::<Vec<_>>().into_iter()
    }

    /// Adds the timers that only `other` knows, as timers of another thread.
    pub fn add_missing(&mut self, other: &Timers) {
        let timers = other.timers.iter().skip(self.timers.len());
        self.timers
            .extend(timers.map(|timer| Timer::at_rest(timer.element)));
    }

    /// Moves a timer to the table of the thread that it is to run on.
    pub fn transfer(&mut self, id: TimerId, to: &mut Timers) {
        match self.expires(id) {
            Some(at) => {
                self.unschedule(id);
                to.schedule(id, at);
            }
            None => to.unschedule(id),
        }
    }
}
