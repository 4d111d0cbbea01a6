//! A lock in memory that processes share. Its word names the holding thread, so that a thread that
//! finds the holder gone takes the lock over: what it guards is written in an order that leaves it
//! usable at each step.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

/// Set in the word when threads may sleep on it.
const WAITERS: u32 = 1 << 31;
/// Looks at the word before sleeping on it.
const SPINS: usize = 100;
/// How long a waiter sleeps before it looks whether the holder still runs.
const PATIENCE_MS: u32 = 100;

thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's number.
pub fn tid() -> u32 {
    TID.with(|known| {
        if known.get() == 0 {
            known.set(sys::gettid());
        }
        known.get()
    })
}

/// For the child of a fork: its thread has another number.
pub fn forget_thread() {
    TID.with(|known| known.set(0));
}

/// A lock; all zeros is a free one.
#[repr(transparent)]
pub struct Lock(AtomicU32);

/// Holds a lock until dropped.
pub struct Guard<'a>(&'a Lock);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    #[inline]
    pub fn lock(&self) -> Guard<'_> {
        let me = tid();
        if self
            .0
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.wait(me);
        }
        Guard(self)
    }

    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        self.0
            .compare_exchange(0, tid(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Guard(self))
    }

    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Takes the lock until [`release`](Self::release), in the parent of a fork, or
    /// [`reset`](Self::reset), in its child.
    pub fn lock_across_fork(&self) {
        core::mem::forget(self.lock());
    }

    /// Ends [`lock_across_fork`](Self::lock_across_fork).
    pub fn release(&self) {
        drop(Guard(self));
    }

    /// Frees a lock whose holder is known to be gone: in the child of a fork.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    #[cold]
    fn wait(&self, me: u32) {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if self.take(0, me) {
                return;
            }
        }
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word == 0 {
                if self.take(0, me | WAITERS) {
                    return;
                }
                continue;
            }
            if word & WAITERS == 0 && !self.take(word, word | WAITERS) {
                continue;
            }
            let word = word | WAITERS;
            let waited = sys::futex_wait(&self.0, word, PATIENCE_MS);
            if waited == Err(sys::Errno(libc::ETIMEDOUT))
                && !sys::thread_runs(word & !WAITERS)
                && self.take(word, me | WAITERS)
            {
                return;
            }
        }
    }

    fn take(&self, from: u32, to: u32) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

impl Drop for Guard<'_> {
    /// A full barrier: a thread that unlocks sees the waiters that registered before they checked.
    #[inline]
    fn drop(&mut self) {
        if self.0.0.swap(0, Ordering::SeqCst) & WAITERS != 0 {
            sys::futex_wake(&self.0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        static LOCK: Lock = Lock::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let _guard = LOCK.lock();
                        let n = COUNT.load(Ordering::Relaxed);
                        COUNT.store(n + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(COUNT.load(Ordering::Relaxed), 40_000);
    }

    #[test]
    fn a_lock_of_a_thread_that_is_gone_is_taken_over() {
        static LOCK: Lock = Lock::new();
        std::thread::spawn(|| core::mem::forget(LOCK.lock()))
            .join()
            .unwrap();
        assert!(LOCK.try_lock().is_none());
        drop(LOCK.lock());
        assert!(LOCK.try_lock().is_some());
    }
}
