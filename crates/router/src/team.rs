//! Threads that share a router, and how they come together.
//!
//! Each thread has a [`Core`] of its own with the elements whose home it is, their tasks and
//! timers; the places of the others' elements are empty. Whoever has to see the whole router
//! (a handler is called, a configuration replaced, the driver stopped) *gathers* it: the others
//! notice within a round of tasks, hand over their cores and wait, and what is in them moves into
//! the caller's core, which then is that of an undivided router. Afterwards it *scatters* it
//! again. A thread that wants the same at the same time hands over its core meanwhile; elements
//! it has at work stay out of reach, as always.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use packet::Batch;
use spin::Mutex;

use crate::crossing::{BATCHES, Entry, Exit};
use crate::engine::{Core, Parcel, Runtime};
use crate::notifier::SignalId;

/// How a thread of a router is woken, and waits for another.
pub trait Bell: Send + Sync {
    /// Wakes the thread, which sleeps or is about to.
    fn ring(&self);

    /// Called again and again by a thread that waits for others, for as long as a round of their
    /// work takes.
    fn pause(&self) {
        core::hint::spin_loop();
    }
}

/// A thread that is to have a part of a router.
pub struct Member {
    /// Its packets and its view of the world.
    pub runtime: Runtime,
    /// How it is woken.
    pub bell: Box<dyn Bell>,
}

/// A thread's place.
struct Seat {
    /// Its core, handed over to whoever gathers.
    left: Mutex<Option<Box<Core>>>,
    /// Its core, on the way back.
    back: Mutex<Option<Box<Core>>>,
    /// The thread has ended: its core stays here.
    gone: AtomicBool,
    asleep: AtomicBool,
    bell: Box<dyn Bell>,
}

impl Seat {
    fn take(&self) -> Option<Box<Core>> {
        let left = self.left.lock().take();
        match self.gone.load(Ordering::Acquire) {
            true => left.or_else(|| self.back.lock().take()),
            false => left,
        }
    }

    fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            self.bell.ring();
        }
    }
}

/// The threads of a router.
pub(crate) struct Team {
    /// Threads that gather the router or wait to do so.
    calls: AtomicUsize,
    /// One of them does.
    led: AtomicBool,
    /// The router has stopped.
    ended: AtomicBool,
    seats: Vec<Seat>,
}

impl Team {
    pub fn new(bells: impl Iterator<Item = Box<dyn Bell>>) -> Team {
        let seats = bells.map(|bell| Seat {
            left: Mutex::new(None),
            back: Mutex::new(None),
            gone: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            bell,
        });
        Team {
            calls: AtomicUsize::new(0),
            led: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            seats: seats.collect(),
        }
    }

    pub fn threads(&self) -> usize {
        self.seats.len()
    }

    /// Stops every thread.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        fence(Ordering::SeqCst);
        self.seats.iter().for_each(Seat::wake);
    }
}

/// A thread's share in a router.
pub(crate) struct Share {
    pub team: Arc<Team>,
    /// The thread's number.
    pub me: u16,
    /// Every element's home.
    pub homes: Arc<[u16]>,
    /// Crossings by number: the entries and exits that are here.
    pub entries: Vec<Option<Entry>>,
    pub exits: Vec<Option<Exit>>,
    /// The other threads' cores, while everything is gathered here.
    #[expect(clippy::vec_box, reason = "a core moves by its pointer")]
    pub parts: Vec<Box<Core>>,
    pub whole: bool,
    /// Homes are to be settled anew.
    pub moved: bool,
    /// There are elements that hear what others say.
    pub heard: bool,
    /// Where the packets came from that are on their way through the elements here.
    pub origin: u16,
    asleep: bool,
}

impl Share {
    pub fn new(team: Arc<Team>, me: u16, homes: Arc<[u16]>) -> Share {
        Share {
            team,
            me,
            homes,
            entries: Vec::new(),
            exits: Vec::new(),
            parts: Vec::new(),
            whole: false,
            moved: false,
            heard: false,
            origin: me,
            asleep: false,
        }
    }

    fn seat(&self) -> &Seat {
        &self.team.seats[usize::from(self.me)]
    }
}

/// Gathering and scattering.
impl Core {
    /// Works with the whole router.
    pub fn whole<R>(&mut self, work: impl FnOnce(&mut Core) -> R) -> R {
        let gathered = self.gather();
        let result = work(self);
        if gathered {
            self.scatter();
        }
        result
    }

    /// Whether this is one part of several, and not all of them gathered.
    pub fn is_part(&self) -> bool {
        self.share.as_ref().is_some_and(|share| !share.whole)
    }

    /// Gathers the router here; false if it is all here already.
    pub fn gather(&mut self) -> bool {
        let Some(share) = self.share.as_ref().filter(|share| !share.whole) else {
            return false;
        };
        let (team, me) = (Arc::clone(&share.team), share.me);
        team.calls.fetch_add(1, Ordering::SeqCst);
        while team.led.swap(true, Ordering::Acquire) {
            self.step_aside();
        }
        team.wake_all();
        let bell = &team.seats[usize::from(me)].bell;
        let others = team.seats.iter().enumerate();
        let others = others.filter(|(i, _)| *i != usize::from(me));
        let mut parts: Vec<Box<Core>> = others
            .map(|(_, seat)| {
                loop {
                    match seat.take() {
                        Some(part) => break part,
                        None => bell.pause(),
                    }
                }
            })
            .collect();
        for part in &mut parts {
            part.give(self);
            for (mine, theirs) in self.outputs.iter_mut().zip(&mut part.outputs) {
                mine.packets += core::mem::take(&mut theirs.packets);
            }
            for (mine, theirs) in self.inputs.iter_mut().zip(&mut part.inputs) {
                mine.packets += core::mem::take(&mut theirs.packets);
            }
        }
        if me != 0 {
            core::mem::swap(&mut self.names, &mut parts[0].names);
        }
        let quiet = self.current == 0 && parts.iter().all(|part| part.current == 0);
        if let Some(share) = &mut self.share {
            (share.parts, share.whole) = (parts, true);
        }
        if quiet {
            self.bring_over();
        }
        true
    }

    /// Lets all that is under way between threads arrive, as far as there is room for it.
    pub fn bring_over(&mut self) {
        let crossings = self.share.as_ref().map_or(0, |share| share.exits.len());
        for _ in 0..=crossings {
            if !self.take_in() {
                break;
            }
        }
    }

    /// Gives the other threads their parts back.
    pub fn scatter(&mut self) {
        if self.share.as_ref().is_some_and(|share| share.moved) {
            self.settle();
        }
        let Some(share) = &mut self.share else {
            return;
        };
        let mut parts = core::mem::take(&mut share.parts);
        share.whole = false;
        let (team, me) = (Arc::clone(&share.team), share.me);
        if me != 0 {
            core::mem::swap(&mut self.names, &mut parts[0].names);
        }
        for part in &mut parts {
            self.give_to(part);
        }
        self.refresh_signals();
        team.calls.fetch_sub(1, Ordering::SeqCst);
        team.led.store(false, Ordering::Release);
        for part in parts {
            let me = part.share.as_ref().map_or(0, |share| share.me);
            *team.seats[usize::from(me)].back.lock() = Some(part);
        }
    }

    /// Hands what belongs to `part` over to it.
    pub fn give_to(&mut self, part: &mut Core) {
        part.tasks.extend(&self.tasks);
        part.timers.extend(&self.timers);
        part.signals.extend(&self.signals);
        let me = part.share.as_ref().map_or(0, |share| share.me);
        self.hand_over(me, part);
        part.refresh_signals();
    }

    /// Hands everything here over to the core that gathers.
    fn give(&mut self, to: &mut Core) {
        let me = self.share.as_ref().map_or(0, |share| share.me);
        self.hand_over(me, to);
    }

    /// Hands everything over whose home is `home`.
    fn hand_over(&mut self, home: u16, to: &mut Core) {
        let Some(share) = &self.share else {
            return;
        };
        let homes = Arc::clone(&share.homes);
        self.forget_shortcuts();
        to.forget_shortcuts();
        let Some(share) = &mut self.share else {
            return;
        };
        let here = |id: crate::ElementId| homes[id.index()] == home;
        for i in (0..homes.len()).filter(|i| homes[*i] == home) {
            to.elements[i] = self.elements[i].take();
            to.configs[i] = self.configs[i].take();
        }
        for task in self.tasks.iter() {
            if here(self.tasks.element(task)) {
                self.tasks.hand_over(task, &mut to.tasks);
            }
        }
        for (timer, element) in self.timers.list() {
            if here(element) {
                self.timers.hand_over(timer, &mut to.timers);
            }
        }
        for signal in self.signals.iter() {
            if here(self.signals.owner(signal)) {
                // What stood for it there may have said otherwise.
                to.set_signal(signal, self.signals.is_active(signal));
            }
        }
        let Some(other) = &mut to.share else {
            return;
        };
        let tasks = &to.tasks;
        let armed = self
            .armed
            .extract_if(.., |(_, _, task)| here(tasks.element(*task)));
        to.armed.extend(armed);
        let watches = self.watches.extract_if(.., |watch| here(watch.element));
        to.watches.extend(watches);
        self.listeners.hand_over(here, &mut to.listeners);
        for &(device, element) in &self.openers {
            if here(element) {
                self.runtime.hand_over(device, &mut to.runtime);
            }
        }
        for (from, to) in share.entries.iter_mut().zip(&mut other.entries) {
            if from.as_ref().is_some_and(|entry| entry.from == home) {
                *to = from.take();
            }
        }
        for (from, to) in share.exits.iter_mut().zip(&mut other.exits) {
            if from.as_ref().is_some_and(|exit| exit.to == home) {
                *to = from.take();
            }
        }
    }

    /// Hands this core over to a thread that gathers, and waits until it is back.
    #[cold]
    fn step_aside(&mut self) {
        let Some(share) = &self.share else {
            return;
        };
        let team = Arc::clone(&share.team);
        let seat = &team.seats[usize::from(share.me)];
        let hollow = self.hollow();
        let mine = core::mem::replace(self, hollow);
        *seat.left.lock() = Some(Box::new(mine));
        loop {
            if let Some(back) = seat.back.lock().take() {
                *self = *back;
                return;
            }
            seat.bell.pause();
        }
    }

    /// Leaves this core, if it is a part, to the others for good: its thread ends, and so do
    /// theirs.
    pub fn leave(&mut self) {
        let Some(share) = self.share.as_ref().filter(|share| !share.whole) else {
            return;
        };
        let team = Arc::clone(&share.team);
        let seat = &team.seats[usize::from(share.me)];
        let hollow = self.hollow();
        *seat.left.lock() = Some(Box::new(core::mem::replace(self, hollow)));
        seat.gone.store(true, Ordering::Release);
        team.end();
    }
}

/// A part's round.
impl Core {
    /// Begins a round: lets others gather the router, and takes in what came from them. Returns
    /// whether something came; `None` if the router has stopped.
    pub fn meet(&mut self) -> Option<bool> {
        let share = self.share.as_mut()?;
        let team = Arc::clone(&share.team);
        if core::mem::take(&mut share.asleep) {
            share.seat().asleep.store(false, Ordering::Relaxed);
        }
        while team.calls.load(Ordering::Acquire) > 0 {
            if team.ended.load(Ordering::Acquire) {
                return None;
            }
            self.step_aside();
        }
        if team.ended.load(Ordering::Acquire) {
            return None;
        }
        self.relieve();
        Some(self.take_in())
    }

    /// Takes in packets that came from other threads; returns whether there were any.
    fn take_in(&mut self) -> bool {
        let mut came = false;
        let count = self.share.as_ref().map_or(0, |share| share.exits.len());
        for number in 0..count {
            for _ in 0..BATCHES {
                let base = self.stack_height();
                if !self.take_some(number) {
                    break;
                }
                came = true;
                self.run_stack(base);
            }
        }
        if let Some(share) = &mut self.share {
            share.origin = share.me;
        }
        came
    }

    /// Puts a batch from a crossing on the stack, if there are packets and room for them.
    fn take_some(&mut self, number: usize) -> bool {
        let room = self.room_behind(number).min(self.limit);
        if room == 0 {
            return false;
        }
        let mut batch = self.batch();
        let edge = self.exit(number).map(|exit| exit.edge);
        match edge.filter(|_| self.receive(number, &mut batch, room)) {
            Some(edge) => {
                self.stack.push(Parcel::new(edge, batch));
                true
            }
            None => {
                self.put_back(batch);
                false
            }
        }
    }

    fn exit(&self, number: usize) -> Option<&Exit> {
        self.share.as_ref()?.exits.get(number)?.as_ref()
    }

    /// Takes at most `most` packets from a crossing; returns whether there were any.
    fn receive(&mut self, number: usize, batch: &mut Batch, most: usize) -> bool {
        let Some(share) = &mut self.share else {
            return false;
        };
        let Some(exit) = share.exits.get_mut(number).and_then(Option::as_mut) else {
            return false;
        };
        share.origin = exit.from;
        if exit.receive(batch, most) {
            share.team.seats[usize::from(exit.from)].wake();
        }
        !batch.is_empty()
    }

    /// Packets that can be taken from a crossing without finding a full queue; 0 if there are
    /// none to take.
    fn room_behind(&self, number: usize) -> usize {
        let Some(exit) = self.exit(number).filter(|exit| exit.waiting() > 0) else {
            return 0;
        };
        if exit.signal.always {
            return usize::MAX;
        }
        if !self.signals.any_active(&exit.signal) {
            return 0;
        }
        let target = exit.target;
        match &self.elements[target.index()] {
            Some(_) => self.room(target).unwrap_or(usize::MAX),
            None => 0,
        }
    }

    /// Sends a batch to another thread; what finds no room stays in it.
    #[cold]
    pub fn cross(&mut self, number: usize, batch: &mut Batch) {
        let Some(share) = &mut self.share else {
            return;
        };
        let Some(entry) = share.entries.get_mut(number).and_then(Option::as_mut) else {
            return;
        };
        let before = entry.drops;
        let full = entry.send(batch);
        let first_drop = before == 0 && entry.drops > 0;
        let (edge, whole, inside) = (entry.edge, share.whole, entry.from == entry.to);
        if full && !whole {
            self.tell_entry(number);
        }
        if inside {
            // What is left of a crossing between elements that have come together: for each packet
            // that enters, one leaves, as long as there is room.
            self.take_some(number);
        }
        if first_drop {
            let text = self.overflow(edge);
            self.runtime.embedding.chatter(&text);
        }
    }

    /// Says on this thread whether a crossing, and others to the same queue, are full.
    fn tell_entry(&mut self, number: usize) {
        let entry = |core: &Core| -> Vec<SignalId> {
            let share = core.share.as_ref();
            let entry = share.and_then(|share| share.entries.get(number)?.as_ref());
            entry.map_or(Vec::new(), |entry| entry.signals.clone())
        };
        for signal in entry(self) {
            let full = self.share.as_ref().is_some_and(|share| {
                let mut entries = share.entries.iter().flatten();
                entries.any(|entry| entry.full && entry.signals.contains(&signal))
            });
            self.set_signal(signal, !full);
        }
    }

    pub fn refresh_signals(&mut self) {
        let count = self.share.as_ref().map_or(0, |share| share.entries.len());
        (0..count).for_each(|number| self.tell_entry(number));
    }

    /// Lets go on what stopped at crossings that have room again.
    fn relieve(&mut self) {
        let count = self.share.as_ref().map_or(0, |share| share.entries.len());
        for number in 0..count {
            let share = self.share.as_mut();
            let entry = share.and_then(|share| share.entries[number].as_mut());
            if entry.is_some_and(Entry::relieved) {
                self.tell_entry(number);
            }
        }
    }

    /// Ends a round: wakes the threads that packets were sent to, and gives those their buffers
    /// back whose packets ended here.
    pub fn tell_others(&mut self) {
        self.runtime.pool.send_strangers();
        self.runtime.pool.even_out();
        let Some(share) = &mut self.share else {
            return;
        };
        for entry in share.entries.iter_mut().flatten() {
            if entry.news() {
                // Pairs with the fence of a thread that goes to sleep.
                fence(Ordering::SeqCst);
                share.team.seats[usize::from(entry.to)].wake();
            }
        }
    }

    /// Says that this thread goes to sleep; false if there is something for it to do.
    pub fn doze(&mut self) -> bool {
        self.tell_others();
        let Some(share) = &mut self.share else {
            return true;
        };
        share.asleep = true;
        share.seat().asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let team = &share.team;
        let called = team.calls.load(Ordering::Relaxed) > 0 || team.ended.load(Ordering::Relaxed);
        let relieved = share.entries.iter().flatten().any(Entry::has_relief);
        let count = share.exits.len();
        !called && !relieved && (0..count).all(|number| self.room_behind(number) == 0)
    }
}
