//! Threads: which thread runs which element, the rings between threads, and how one thread stops the
//! others to work with the whole router.
//!
//! Each thread has an engine of its own, with the elements that are assigned to it, their tasks and
//! timers; the slots of the other elements are empty. What a thread needs beside that is its
//! [`Partition`]. A router on one thread is an engine with all elements, and pays one comparison a
//! round.

pub(crate) mod assignment;
pub(crate) mod constraints;
mod passing;
pub(crate) mod quiesce;
pub(crate) mod ring;
pub(crate) mod thread_set;

use crate::prelude::*;
use crate::runtime::DeviceId;
use crate::scheduler::signal::SignalId;
use assignment::Assigned;
use quiesce::ThreadGroup;
use ring::{RingReceiver, RingSender};
use thread_set::ThreadSet;

/// What a router knows of its threads. `E` is the engine of a thread.
pub(crate) struct Threads<E> {
    /// Threads that the router runs on, or is to run on.
    pub count: u16,
    /// The thread that was asked for, for each element.
    pub affinity: Vec<Option<i32>>,
    /// Elements that refer to each other by their arguments.
    pub bound: Vec<(ElementId, ElementId)>,
    /// Elements for which threads that send to them, or to those before them, wait while a ring is full.
    pub blocking: Vec<ElementId>,
    /// Devices, and the elements that opened them.
    pub openers: Vec<(DeviceId, ElementId)>,
    /// Packets that were dropped by rings which no longer exist.
    pub former_drops: u64,
    /// This thread's partition, if the router is divided.
    pub partition: Option<Box<Partition<E>>>,
}

impl<E> Threads<E> {
    /// The threads of a router with so many elements.
    pub fn new(count: u16, elements: usize) -> Threads<E> {
        Threads {
            count,
            affinity: alloc::vec![None; elements],
            bound: Vec::new(),
            blocking: Vec::new(),
            openers: Vec::new(),
            former_drops: 0,
            partition: None,
        }
    }

    /// The number of this thread.
    #[inline]
    pub fn me(&self) -> u16 {
        self.partition.as_ref().map_or(0, |own| own.me)
    }

    /// The thread that the packets at hand are on.
    #[inline]
    pub fn current(&self) -> u16 {
        self.partition.as_ref().map_or(0, |own| own.current)
    }

    /// The thread that the packets at hand come from.
    #[inline]
    pub fn origin(&self) -> u16 {
        self.partition.as_ref().map_or(0, |own| own.origin)
    }

    /// Number of the threads before that of the packets at hand whose packets pass an element.
    pub fn rank(&self, id: ElementId) -> usize {
        let own = self.partition.as_ref();
        let passing = own.and_then(|own| own.passing.get(id.index()));
        passing.map_or(0, |passing| passing.rank(self.current()))
    }

    /// Whether this is one partition of several, and the others are elsewhere.
    pub fn is_partial(&self) -> bool {
        self.partition.as_ref().is_some_and(|own| !own.whole)
    }

    /// Whether the router is divided, and all partitions are here.
    pub fn is_quiesced(&self) -> bool {
        self.partition.as_ref().is_some_and(|own| own.whole)
    }

    /// Whether an element is on another thread.
    pub fn is_elsewhere(&self, id: ElementId) -> bool {
        self.partition.as_ref().is_some_and(|own| {
            let thread = own.assigned(id).and_then(Assigned::thread);
            !own.whole && thread.is_some_and(|thread| thread != own.me)
        })
    }

    /// The thread that an element runs on.
    pub fn thread_of(&self, id: ElementId) -> u16 {
        let own = self.partition.as_ref();
        let assigned = own.and_then(|own| own.assigned(id));
        assigned.and_then(Assigned::thread).unwrap_or(0)
    }

    /// Packets that were dropped between threads, as far as is known here.
    pub fn drops(&self) -> u64 {
        let senders = self.partition.iter().flat_map(|own| &own.senders);
        let drops: u64 = senders.flatten().map(|sender| sender.drops).sum();
        drops + self.former_drops
    }

    /// Assigns the elements again before the other threads resume.
    pub fn request_assignment(&mut self) {
        if let Some(own) = &mut self.partition {
            own.reassign = true;
        }
    }

    /// Whether the elements are still to be assigned: tasks' threads are wishes until then.
    pub fn is_assignment_due(&self) -> bool {
        self.partition.as_ref().is_none_or(|own| own.reassign)
    }

    /// Whether this thread waits for room in a ring.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.partition.as_ref().is_some_and(|own| own.blocked)
    }

    /// Stops all threads, if there are several.
    pub fn end(&self) {
        if let Some(own) = &self.partition {
            own.group.end();
        }
    }
}

/// A thread's part of a divided router.
pub(crate) struct Partition<E> {
    pub group: Arc<ThreadGroup<E>>,
    /// The thread's number.
    pub me: u16,
    /// Where every element runs.
    pub assignment: Arc<[Assigned]>,
    /// The threads whose packets pass each element.
    pub passing: Arc<[ThreadSet]>,
    /// Handoff rings by number: the ends that are on this thread.
    pub senders: Vec<Option<RingSender>>,
    pub receivers: Vec<Option<RingReceiver>>,
    /// The other threads' engines, while the router is quiesced here.
    pub others: Vec<Box<E>>,
    /// The router is quiesced here.
    pub whole: bool,
    /// The thread assignment must be computed again.
    pub reassign: bool,
    /// Some element listens to others' messages.
    pub listened: bool,
    /// The thread that the packets at hand come from.
    pub origin: u16,
    /// The thread that the packets at hand are on: another than this one if they are delivered while
    /// the router is quiesced here.
    pub current: u16,
    /// The thread does nothing, since a ring to a blocking element is full.
    pub blocked: bool,
    asleep: bool,
}

impl<E> Partition<E> {
    /// The partition of thread `me`, with no elements yet.
    pub fn new(group: Arc<ThreadGroup<E>>, me: u16) -> Partition<E> {
        Partition {
            group,
            me,
            assignment: Arc::new([]),
            passing: Arc::new([]),
            senders: Vec::new(),
            receivers: Vec::new(),
            others: Vec::new(),
            whole: false,
            reassign: false,
            listened: false,
            origin: me,
            current: me,
            blocked: false,
            asleep: false,
        }
    }

    pub fn assigned(&self, id: ElementId) -> Option<Assigned> {
        self.assignment.get(id.index()).copied()
    }

    /// Moves the ends of rings that belong to thread `thread` to its partition.
    pub fn transfer_rings(&mut self, thread: u16, to: &mut Partition<E>) {
        for (from, to) in self.senders.iter_mut().zip(&mut to.senders) {
            if from.as_ref().is_some_and(|sender| sender.from == thread) {
                *to = from.take();
            }
        }
        for (from, to) in self.receivers.iter_mut().zip(&mut to.receivers) {
            if from.as_ref().is_some_and(|receiver| receiver.to == thread) {
                *to = from.take();
            }
        }
    }

    /// The sending end of a ring, if it is here.
    pub fn sender(&mut self, ring: usize) -> Option<&mut RingSender> {
        self.senders.get_mut(ring)?.as_mut()
    }

    /// The receiving end of a ring, if it is here.
    pub fn receiver(&self, ring: usize) -> Option<&RingReceiver> {
        self.receivers.get(ring)?.as_ref()
    }

    /// The signals of other threads' elements that a ring sets on this thread, and their values:
    /// inactive if this ring, or another to the same queue, is full.
    pub fn ring_signals(&self, ring: usize) -> Vec<(SignalId, bool)> {
        let sender = self.senders.get(ring).and_then(Option::as_ref);
        let signals = sender.map_or(&[][..], |sender| &sender.signals);
        let is_full = |signal: &SignalId| {
            let mut senders = self.senders.iter().flatten();
            senders.any(|sender| sender.full && sender.signals.contains(signal))
        };
        let value = |signal: &SignalId| (*signal, !is_full(signal));
        signals.iter().map(value).collect()
    }

    /// Whether a thread waits for room: this one, or while the router is quiesced here any of them.
    pub fn waits(&self, thread: u16) -> bool {
        if self.whole {
            self.is_blocked(thread)
        } else {
            self.blocked
        }
    }

    /// Finds out whether this thread waits for room.
    pub fn update_blocked(&mut self) {
        self.blocked = self.is_blocked(self.me);
    }

    fn is_blocked(&self, thread: u16) -> bool {
        let mut senders = self.senders.iter().flatten();
        senders.any(|sender| sender.from == thread && sender.is_blocked())
    }

    /// Wakes the threads that packets were sent to since the last call.
    pub fn wake_receivers(&mut self) {
        for sender in self.senders.iter_mut().flatten() {
            if sender.take_sent() {
                self.group.wake_fenced(sender.to);
            }
        }
    }

    /// Records that this thread is awake.
    pub fn wake_up(&mut self) {
        if core::mem::take(&mut self.asleep) {
            self.group.set_awake(self.me);
        }
    }

    /// Records that this thread is about to sleep; returns whether another thread already asks for
    /// something.
    pub fn fall_asleep(&mut self) -> bool {
        self.asleep = true;
        self.group.set_asleep(self.me);
        self.group.is_requested()
            || self.group.has_ended()
            || self.senders.iter().flatten().any(RingSender::has_drained)
    }
}
