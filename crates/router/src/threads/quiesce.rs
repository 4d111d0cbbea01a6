//! Stop-the-world: one thread collects the engines of all others, works with the whole router, and
//! gives them back.
//!
//! A thread *requests* a stop, and gets a ticket. The others notice within a round of tasks,
//! *park*: they leave their engine in their slot and wait until it is back. A thread that requests
//! the same at the same time parks until it is its turn: tickets are served in order, and a thread
//! that was parked does a round of its own tasks before it parks for the next, so that a thread
//! that stops the world for every packet leaves the others their time.
//!
//! The world is stopped for calls of handlers of another thread's elements, for writes of handlers,
//! scripts, a control socket, a hotswap and the end, and for references between elements that no
//! argument shows. Elements, tasks, timers and signals move into the caller's engine, and packets in
//! handoff rings are delivered as far as there is room.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use spin::Mutex;

use crate::prelude::*;
use crate::runtime::Runtime;

/// How a thread of a router is woken, and waits for another.
pub trait Waker: Send + Sync {
    /// Wakes the thread, which sleeps or is about to.
    fn wake(&self);

    /// Called repeatedly by a thread that waits for others, for as long as a round of their work
    /// takes.
    fn pause(&self) {
        core::hint::spin_loop();
    }
}

/// A thread that is to run a part of a router.
pub struct Member {
    /// Its packets and its view of the world.
    pub runtime: Runtime,
    /// How it is woken.
    pub waker: Box<dyn Waker>,
}

/// What the other threads see of a thread. `E` is its engine.
struct ThreadSlot<E> {
    /// Its engine, left for the thread that stops the world.
    parked: Mutex<Option<Box<E>>>,
    /// Its engine, on the way back.
    returned: Mutex<Option<Box<E>>>,
    /// The thread has ended: its engine stays here.
    gone: AtomicBool,
    asleep: AtomicBool,
    waker: Box<dyn Waker>,
}

impl<E> ThreadSlot<E> {
    fn take(&self) -> Option<Box<E>> {
        let parked = self.parked.lock().take();
        if self.gone.load(Ordering::Acquire) {
            parked.or_else(|| self.returned.lock().take())
        } else {
            parked
        }
    }

    fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

/// The threads of a router.
pub(crate) struct ThreadGroup<E> {
    /// The ticket of the next request.
    next: AtomicUsize,
    /// The ticket whose thread stops the world, or will.
    served: AtomicUsize,
    /// The router has ended.
    ended: AtomicBool,
    slots: Vec<ThreadSlot<E>>,
}

impl<E> ThreadGroup<E> {
    /// A group of as many threads as there are wakers.
    pub fn new(wakers: impl Iterator<Item = Box<dyn Waker>>) -> ThreadGroup<E> {
        let slots = wakers.map(|waker| ThreadSlot {
            parked: Mutex::new(None),
            returned: Mutex::new(None),
            gone: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            waker,
        });
        ThreadGroup {
            next: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            slots: slots.collect(),
        }
    }

    /// Number of threads.
    pub fn threads(&self) -> u16 {
        self.slots.len() as u16
    }

    fn slot(&self, thread: u16) -> &ThreadSlot<E> {
        &self.slots[usize::from(thread)]
    }
}

/// Stop-the-world.
impl<E> ThreadGroup<E> {
    /// Asks the other threads to park. Returns the ticket.
    pub fn request(&self) -> usize {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether some thread asks the others to park.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.next.load(Ordering::Acquire) != self.served.load(Ordering::Acquire)
    }

    /// Whether the thread with a ticket is the one that stops the world.
    pub fn is_served(&self, ticket: usize) -> bool {
        self.served.load(Ordering::Acquire) == ticket
    }

    /// Collects the engines of all threads but `me`, which stops the world.
    pub fn collect(&self, me: u16) -> Vec<Box<E>> {
        self.wake_all();
        let own = self.slot(me);
        let others = self.slots.iter().enumerate();
        let others = others.filter(|(i, _)| *i != usize::from(me));
        let wait = |slot: &ThreadSlot<E>| {
            loop {
                match slot.take() {
                    Some(engine) => break engine,
                    None => own.waker.pause(),
                }
            }
        };
        others.map(|(_, slot)| wait(slot)).collect()
    }

    /// Gives the other threads their engines back. `thread` says which thread's an engine is.
    pub fn resume(&self, engines: Vec<Box<E>>, thread: impl Fn(&E) -> u16) {
        self.served.fetch_add(1, Ordering::SeqCst);
        for engine in engines {
            let thread = thread(&engine);
            *self.slot(thread).returned.lock() = Some(engine);
        }
    }

    /// Leaves the engine of thread `me` to the thread that stops the world, and waits until it is
    /// back.
    pub fn park(&self, me: u16, engine: Box<E>) -> Box<E> {
        let slot = self.slot(me);
        *slot.parked.lock() = Some(engine);
        loop {
            if let Some(engine) = slot.returned.lock().take() {
                return engine;
            }
            slot.waker.pause();
        }
    }
}

/// The end.
impl<E> ThreadGroup<E> {
    /// Leaves the engine of thread `me` to the others permanently, and ends the router.
    pub fn leave(&self, me: u16, engine: Box<E>) {
        let slot = self.slot(me);
        *slot.parked.lock() = Some(engine);
        slot.gone.store(true, Ordering::Release);
        self.end();
    }

    /// Whether all threads but `me` have left.
    pub fn is_left_to(&self, me: u16) -> bool {
        let others = self.slots.iter().enumerate();
        let mut others = others.filter(|(i, _)| *i != usize::from(me));
        others.all(|(_, slot)| slot.gone.load(Ordering::Acquire))
    }

    /// Waits a moment for the others.
    pub fn pause(&self, me: u16) {
        self.slot(me).waker.pause();
    }

    /// Stops every thread.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// Whether the router has ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// Sleep.
impl<E> ThreadGroup<E> {
    fn wake_all(&self) {
        fence(Ordering::SeqCst);
        self.slots.iter().for_each(ThreadSlot::wake);
    }

    /// Wakes a thread, if it sleeps. A fence was passed since the news that it is woken for.
    pub fn wake(&self, thread: u16) {
        self.slot(thread).wake();
    }

    /// As [`wake`](Self::wake), with a fence first.
    pub fn wake_fenced(&self, thread: u16) {
        // Pairs with the fence of a thread that falls asleep.
        fence(Ordering::SeqCst);
        self.wake(thread);
    }

    /// Records that thread `me` is about to sleep. It looks for news once more afterwards.
    pub fn set_asleep(&self, me: u16) {
        self.slot(me).asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Records that thread `me` is awake.
    pub fn set_awake(&self, me: u16) {
        self.slot(me).asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Spin;

    impl Waker for Spin {
        fn wake(&self) {}

        fn pause(&self) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_thread_at_a_time_has_the_engines_of_all() {
        const ROUNDS: u32 = 200;
        let wakers = (0..3).map(|_| Box::new(Spin) as Box<dyn Waker>);
        let group: Arc<ThreadGroup<(u16, u32)>> = Arc::new(ThreadGroup::new(wakers));
        let run = |me: u16| {
            let group = Arc::clone(&group);
            move || {
                let mut engine = Box::new((me, 0));
                for _ in 0..ROUNDS {
                    let ticket = group.request();
                    while !group.is_served(ticket) {
                        engine = group.park(me, engine);
                    }
                    let mut others = group.collect(me);
                    assert_eq!(others.len(), 2);
                    others.iter_mut().for_each(|other| other.1 += 1);
                    group.resume(others, |engine| engine.0);
                    while group.is_requested() && !group.has_ended() {
                        engine = group.park(me, engine);
                    }
                }
                // The others' rounds go on without this thread.
                group.leave(me, engine);
            }
        };
        let threads: Vec<_> = (0..3).map(|me| std::thread::spawn(run(me))).collect();
        for thread in threads {
            thread.join().expect("a thread panicked");
        }
        let counts: u32 = (0..3)
            .filter_map(|me| group.slot(me).take())
            .map(|e| e.1)
            .sum();
        assert_eq!(counts, 3 * 2 * ROUNDS);
    }
}
