//! Work with the whole router: this thread stops the others, all elements move to it, and move back
//! afterwards.

use super::Engine;
use super::library::Library;
use crate::prelude::*;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::threads::assignment::Assigned;

impl Engine {
    /// Works with the whole router.
    pub fn whole<R>(&mut self, work: impl FnOnce(&mut Engine) -> R) -> R {
        let stopped = self.quiesce();
        let result = work(self);
        if stopped {
            self.resume();
        }
        result
    }

    /// Stops the other threads and moves their elements here; false if all are here already.
    pub fn quiesce(&mut self) -> bool {
        let Some(own) = self.threads.partition.as_ref().filter(|own| !own.whole) else {
            return false;
        };
        let (group, me) = (Arc::clone(&own.group), own.me);
        let ticket = group.request();
        while !group.is_served(ticket) {
            self.park();
        }
        let mut others = group.collect(me);
        for other in &mut others {
            let thread = other.threads.me();
            other.transfer(thread, self);
            self.walk.edges.take_counts(&mut other.walk.edges);
        }
        self.swap_names(&mut others);
        let idle = self.elements.is_idle() && others.iter().all(|other| other.elements.is_idle());
        if let Some(own) = &mut self.threads.partition {
            (own.others, own.whole) = (others, true);
        }
        if idle {
            self.drain_rings();
        }
        true
    }

    /// Gives the other threads their elements back, and lets them go on.
    pub fn resume(&mut self) {
        let own = self.threads.partition.as_ref();
        if own.is_some_and(|own| own.reassign) {
            self.assign();
        }
        let Some(own) = &mut self.threads.partition else {
            return;
        };
        let mut others = core::mem::take(&mut own.others);
        own.whole = false;
        let group = Arc::clone(&own.group);
        self.swap_names(&mut others);
        for other in &mut others {
            self.give_to(other);
        }
        self.refresh_ring_signals();
        group.resume(others, |other| other.threads.me());
    }

    /// Names are the first thread's: brings them here, or back.
    fn swap_names(&mut self, others: &mut [Box<Engine>]) {
        if self.threads.me() != 0 {
            core::mem::swap(&mut self.names, &mut others[0].names);
        }
    }

    /// Moves what belongs to another thread to its engine.
    pub fn give_to(&mut self, other: &mut Engine) {
        other.scheduler.add_missing(&self.scheduler);
        self.transfer(other.threads.me(), other);
        other.refresh_ring_signals();
    }

    /// Moves what belongs to thread `thread` to another engine.
    fn transfer(&mut self, thread: u16, to: &mut Engine) {
        self.invalidate();
        to.invalidate();
        let (Some(own), Some(other)) = (
            self.threads.partition.as_mut(),
            to.threads.partition.as_mut(),
        ) else {
            return;
        };
        own.transfer_rings(thread, other);
        let assignment = &own.assignment;
        let moves = |id: ElementId| assignment.get(id.index()) == Some(&Assigned::to(thread));
        for id in to.elements.ids().filter(|id| moves(*id)) {
            self.elements.transfer(id, &mut to.elements);
        }
        self.scheduler.transfer(moves, &mut to.scheduler);
        self.listeners.transfer(moves, &mut to.listeners);
        for &(device, element) in &self.threads.openers {
            if moves(element) {
                let devices = &mut self.runtime.devices;
                devices.transfer(device, &mut to.runtime.devices);
            }
        }
    }

    /// An engine with no elements, in place of this one for a while.
    fn placeholder(&self) -> Box<Engine> {
        let (graph, library) = (Arc::clone(&self.graph), Library::new(&[]));
        let runtime = Runtime::placeholder();
        Engine::new(Vec::new(), graph, library, runtime, Settings::default())
    }

    /// Leaves this engine to the thread that stops the world, and waits until it is back.
    #[cold]
    pub fn park(&mut self) {
        let Some(own) = &self.threads.partition else {
            return;
        };
        let (group, me) = (Arc::clone(&own.group), own.me);
        let mut engine = self.placeholder();
        core::mem::swap(self, &mut engine);
        let mut engine = group.park(me, engine);
        core::mem::swap(self, &mut engine);
    }

    /// Waits until the other threads have left: each may stop the world until then.
    pub fn await_others(&mut self) {
        let Some(own) = self.threads.partition.as_ref().filter(|own| !own.whole) else {
            return;
        };
        let (group, me) = (Arc::clone(&own.group), own.me);
        while !group.is_left_to(me) {
            match group.is_requested() {
                true => self.park(),
                false => group.pause(me),
            }
        }
    }

    /// Leaves this engine, if it is one of several, to the others permanently: its thread ends, and
    /// so do theirs.
    pub fn leave(&mut self) {
        let Some(own) = self.threads.partition.as_ref().filter(|own| !own.whole) else {
            return;
        };
        let (group, me) = (Arc::clone(&own.group), own.me);
        let mut engine = self.placeholder();
        core::mem::swap(self, &mut engine);
        group.leave(me, engine);
    }
}
