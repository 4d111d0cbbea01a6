//! One of the guest's CPUs: its heartbeat, its sleep, its work.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

use abi::control::Sleep;

use crate::platform::store;
#[cfg(feature = "image")]
use crate::suspension;
use crate::{Platform, system};

/// Work for a CPU other than the first.
pub(crate) type Job = Box<dyn FnOnce(Cpu) + Send>;

/// A CPU. Its methods are called on that CPU, except [`wake`](Self::wake) and [`give`](Self::give).
#[derive(Clone, Copy)]
pub struct Cpu {
    platform: &'static Platform,
    number: usize,
}

/// Values of a CPU's wake words at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakes {
    control: u32,
    data: u32,
    sockets: u32,
}

impl Cpu {
    pub(crate) fn new(platform: &'static Platform, number: usize) -> Self {
        Self { platform, number }
    }

    /// The platform.
    pub fn platform(&self) -> &'static Platform {
        self.platform
    }

    /// Its number; the first is 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The word with the index of the element being run, plus one; 0 for none. A crash report names
    /// that element.
    pub fn element_word(&self) -> &'static AtomicU32 {
        self.platform.control().element_word(self.number)
    }

    /// Reports that work begins which may take seconds: the watchdog waits that long for the next round.
    pub fn begin_long_work(&self) {
        self.platform.control().begin_long_work(self.number);
    }

    /// Reports progress. The main loop calls it every round. Work that takes longer than a few hundred
    /// milliseconds calls it too, or the watchdog takes it for an endless loop.
    #[inline]
    pub fn beat(&self) {
        self.platform.control().beat(self.number);
    }

    /// The wake words' values, to be read before the last check of the rings.
    pub fn wakes(&self) -> Wakes {
        let control = self.platform.control().wake_word(self.number);
        let data = self.platform.data_wake(self.number);
        let sockets = self.platform.sockets_wake();
        Wakes {
            control: control.load(Ordering::Acquire),
            data: data.map_or(0, |word| word.load(Ordering::Acquire)),
            sockets: sockets.map_or(0, |word| word.load(Ordering::Acquire)),
        }
    }

    /// Sleeps until this CPU is woken, or until `deadline` (nanoseconds on the platform's clock). Returns at once
    /// if it was woken since `seen` was read. May return early.
    pub fn sleep(&self, seen: Wakes, deadline: Option<u64>) {
        let nanoseconds = match deadline {
            None => u64::MAX,
            Some(deadline) => match deadline.checked_sub(self.platform.clock().now()) {
                None | Some(0) => return,
                Some(left) => left,
            },
        };
        let sleep = Sleep {
            control: seen.control,
            data: seen.data,
            sockets: seen.sockets,
            nanoseconds,
        };
        let control = self.platform.control();
        if self.platform.is_process() {
            let address =
                |word: Option<&AtomicU32>| word.map_or(0, |word| core::ptr::from_ref(word) as u64);
            let words = [
                address(Some(control.wake_word(self.number))),
                address(self.platform.data_wake(self.number)),
                address(self.platform.sockets_wake()),
            ];
            system::sleep(words, sleep);
        } else {
            control.set_sleep(self.number, sleep);
            // SAFETY: the boot page says that a store here is a doorbell.
            unsafe { store(self.platform.boot().doorbells.wait, nanoseconds) };
        }
    }

    /// Wakes this CPU from another one, if it sleeps.
    pub fn wake(&self) {
        let control = self.platform.control();
        control.bump(self.number);
        if self.platform.is_process() {
            system::wake(control.wake_word(self.number));
        } else {
            let doorbell = self.platform.boot().doorbells.wake + 8 * self.number as u64;
            // SAFETY: the boot page says that a store here is a doorbell.
            unsafe { store(doorbell, 1) };
        }
    }

    /// Gives this CPU, which is not the first, a job. The CPU runs one job after the other, and sleeps without
    /// one.
    ///
    /// # Panics
    /// If it is the first CPU, or has not started its last job.
    pub fn give(&self, job: impl FnOnce(Cpu) + Send + 'static) {
        assert!(self.number > 0, "the first CPU runs the main function");
        let before = self.platform.jobs[self.number]
            .lock()
            .replace(Box::new(job));
        assert!(before.is_none(), "a CPU is given one job at a time");
        self.wake();
    }

    /// The main loop of a CPU other than the first.
    #[cfg(feature = "image")]
    pub(crate) fn serve(self) -> ! {
        loop {
            if suspension::is_wanted() {
                suspension::stand_by(self);
            }
            let seen = self.wakes();
            let job = self.platform.jobs[self.number].lock().take();
            match job {
                Some(job) => job(self),
                None if suspension::is_wanted() => {}
                None => self.sleep(seen, None),
            }
        }
    }
}
