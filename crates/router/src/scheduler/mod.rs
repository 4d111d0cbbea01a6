//! The scheduler: tasks, timers, signals, and what tasks and elements wait for outside.

pub(crate) mod pace;
pub(crate) mod signal;
pub(crate) mod task;
pub(crate) mod timer;

use crate::embedding::{Embedding, Side, Steady};
use crate::prelude::*;
use crate::runtime::{DeviceId, Devices};
use signal::{SignalId, Signals};
use task::{TaskId, Tasks};
use timer::Timers;

/// A file descriptor that an element waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The descriptor.
    pub fd: i32,
    /// The element that waits.
    pub element: ElementId,
    /// It waits for something to read.
    pub read: bool,
    /// It waits for room to write.
    pub write: bool,
}

/// A task that is scheduled once a device is ready.
#[derive(Clone, Copy)]
struct DeviceWait {
    device: DeviceId,
    side: Side,
    task: TaskId,
}

/// What a thread of a router runs, and when.
#[derive(Default)]
pub(crate) struct Scheduler {
    pub tasks: Tasks,
    pub timers: Timers,
    pub signals: Signals,
    /// Whether the time that tasks take is measured.
    pub measured: bool,
    /// Turns of tasks left in this round.
    pub turns: usize,
    /// Whether a packet may make an element stop the driver or write a handler.
    pub may_be_interrupted: bool,
    /// How many elements will soon stop the driver or write a handler.
    interrupt_soon: u32,
    waits: Vec<DeviceWait>,
    watches: Vec<Watch>,
    /// A reading of the clock that is at most a few turns of tasks old.
    recent: Option<Steady>,
}

/// Signals and time.
impl Scheduler {
    /// Sets a signal; if it becomes active, schedules its listeners.
    #[inline]
    pub fn set_signal(&mut self, id: SignalId, active: bool) {
        if self.signals.set(id, active) {
            self.wake_listeners(id);
        }
    }

    /// Schedules the listeners of a signal that became active, and activates its dependents. A
    /// circle of signals ends at one that is active already.
    fn wake_listeners(&mut self, id: SignalId) {
        for task in self.signals.listeners(id) {
            self.tasks.schedule(*task);
        }
        let mut next = 0;
        while let Some(&dependent) = self.signals.dependents(id).get(next) {
            self.set_signal(dependent, true);
            next += 1;
        }
    }

    /// The last reading of the clock, or a new one if it is forgotten.
    #[inline]
    pub fn recent(&mut self, embedding: &dyn Embedding) -> Steady {
        *self.recent.get_or_insert_with(|| embedding.steady())
    }

    /// Forgets the last reading of the clock.
    pub fn forget_recent(&mut self) {
        self.recent = None;
    }

    /// Whether tasks take their turns one by one.
    #[inline]
    pub fn goes_turn_by_turn(&self) -> bool {
        self.may_be_interrupted || self.interrupt_soon > 0
    }

    /// One element more, or one less, will soon stop the driver or write a handler.
    #[cold]
    pub fn set_interrupts_soon(&mut self, is_soon: bool) {
        self.interrupt_soon = match is_soon {
            true => self.interrupt_soon + 1,
            false => self.interrupt_soon.saturating_sub(1),
        };
        self.tasks.forget_first_pulls();
    }

    /// Charges the task that runs for so many turns more.
    #[inline]
    pub fn charge(&mut self, turns: u64) {
        self.turns = self.turns.saturating_sub(turns as usize);
        self.tasks.charge(turns as u32);
    }

    /// The time, if the run of a task that starts now is measured.
    #[inline]
    pub fn begin_turn(&mut self, embedding: &dyn Embedding) -> Option<Steady> {
        (self.measured && self.tasks.measures()).then(|| embedding.steady())
    }
}

/// Devices and file descriptors.
impl Scheduler {
    /// Schedules `task` once the device is ready.
    pub fn await_device(&mut self, device: DeviceId, side: Side, task: TaskId) {
        self.waits.push(DeviceWait { device, side, task });
    }

    /// Schedules the tasks whose devices are ready.
    pub fn check_devices(&mut self, devices: &mut Devices) {
        let mut i = 0;
        while let Some(&DeviceWait { device, side, task }) = self.waits.get(i) {
            let device = devices.get(device);
            let ready = match side {
                Side::Receive => device.has_received(),
                Side::Transmit => device.room() > 0,
            };
            if ready {
                self.waits.swap_remove(i);
                self.tasks.schedule(task);
            } else {
                i += 1;
            }
        }
    }

    /// Asks every device that a task waits for to wake `thread`. Returns whether no device is
    /// ready and no task is scheduled.
    pub fn arm(&mut self, devices: &mut Devices, thread: u16) -> bool {
        self.check_devices(devices);
        let mut quiet = true;
        for &DeviceWait { device, side, .. } in &self.waits {
            let device = devices.get(device);
            quiet &= match side {
                Side::Receive => device.arm_receive(thread),
                Side::Transmit => device.arm_transmit(thread),
            };
        }
        if !quiet {
            self.check_devices(devices);
        }
        quiet && self.tasks.is_idle()
    }

    /// The file descriptors that elements wait for.
    pub fn watches(&self) -> &[Watch] {
        &self.watches
    }

    /// Replaces what `watch.element` waits for at `watch.fd`; with neither direction it waits for
    /// nothing.
    pub fn watch(&mut self, watch: Watch) {
        let same = |other: &Watch| (other.fd, other.element) == (watch.fd, watch.element);
        self.watches.retain(|other| !same(other));
        if watch.read || watch.write {
            self.watches.push(watch);
        }
    }
}

/// A router that replaces another, and goes on with some of its elements.
impl Scheduler {
    /// A scheduler in which the tasks, timers and signals of the elements that stay have the numbers that they have
    /// here. They stand still until they are [transferred](Self::transfer).
    pub fn reserve(&self, stays: impl Fn(ElementId) -> bool) -> Scheduler {
        Scheduler {
            tasks: self.tasks.reserve(&stays),
            timers: self.timers.reserve(&stays),
            signals: self.signals.reserve(&stays),
            measured: self.measured,
            may_be_interrupted: self.may_be_interrupted,
            ..Scheduler::default()
        }
    }

    /// Uses no number of one that is gone again from now on.
    pub fn settle(&mut self) {
        self.tasks.settle();
        self.timers.settle();
        self.signals.settle();
    }
}

/// Several threads: each scheduler knows all tasks, timers and signals by the same ids.
impl Scheduler {
    /// Adds the tasks, timers and signals that only `other` knows, as another thread's.
    pub fn add_missing(&mut self, other: &Scheduler) {
        self.tasks.add_missing(&other.tasks);
        self.timers.add_missing(&other.timers);
        self.signals.add_missing(&other.signals);
    }

    /// Moves what belongs to the elements that `moves` selects to another thread's scheduler.
    pub fn transfer(&mut self, moves: impl Fn(ElementId) -> bool, to: &mut Scheduler) {
        for task in self.tasks.list() {
            if moves(self.tasks.element(task)) {
                self.tasks.transfer(task, &mut to.tasks);
            }
        }
        for (timer, element) in self.timers.list() {
            if moves(element) {
                self.timers.transfer(timer, &mut to.timers);
            }
        }
        for signal in self.signals.list() {
            if moves(self.signals.owner(signal)) {
                // The copy there may have had another value.
                to.set_signal(signal, self.signals.is_active(signal));
            }
        }
        let tasks = &self.tasks;
        let waits = self
            .waits
            .extract_if(.., |wait| moves(tasks.element(wait.task)));
        to.waits.extend(waits);
        let watches = self.watches.extract_if(.., |watch| moves(watch.element));
        to.watches.extend(watches);
    }
}
