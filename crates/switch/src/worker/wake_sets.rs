//! The descriptors that wake sleeping queues, in two epoll sets.
//!
//! Guests' doorbells are in a set that a busy lane polls often, so that a guest that sends little
//! does not wait for one that floods. Host interfaces are in another set, which the lane polls much
//! less often, as a NIC moderates its interrupts: frames that arrive on an interface meanwhile are
//! then one large batch. (TCP of 1500-byte packets between two namespaces through a guest, by
//! AF_XDP, on two CPUs: 2.7 Gb/s with interfaces polled every 50 µs, 3.9 Gb/s with this interval.)
//! A lane that sleeps waits for both sets.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::doorbell::Doorbell;
use crate::ids::QueueIndex;
use crate::port::Link;

/// Most descriptors reported by one poll.
const EVENTS: usize = 64;
/// Rounds of a busy lane between two looks, at most.
const ROUNDS_PER_LOOK: u32 = 32;
/// Time between two polls of the doorbells, besides a round: about the time of a wake-up of a
/// sleeping lane.
const TIME_PER_LOOK: Duration = Duration::from_micros(50);

/// What a descriptor stands for, as the event's 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A link's own descriptor.
    Queue(QueueIndex),
    /// The doorbell with this number.
    Doorbell(u32),
    /// The lane's waker.
    Waker,
    /// The guests' set.
    Guests,
}

impl Token {
    fn to_event(self) -> epoll::EventData {
        let (kind, number) = match self {
            Token::Queue(queue) => (0, queue),
            Token::Doorbell(number) => (1, number),
            Token::Waker => (2, 0),
            Token::Guests => (3, 0),
        };
        epoll::EventData::new_u64(kind << 32 | u64::from(number))
    }

    fn of_event(data: epoll::EventData) -> Token {
        let number = data.u64() as u32;
        match data.u64() >> 32 {
            0 => Token::Queue(number),
            1 => Token::Doorbell(number),
            2 => Token::Waker,
            _ => Token::Guests,
        }
    }
}

/// Storage for the events of one look.
pub(super) type Events = [MaybeUninit<epoll::Event>; EVENTS];

/// Storage for events, without any.
pub(super) fn no_events() -> Events {
    [const { MaybeUninit::uninit() }; EVENTS]
}

/// A set of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeSet {
    All,
    Guests,
}

/// The two epoll sets of a lane.
pub(super) struct WakeSets {
    /// Host interfaces, and the other set.
    all: OwnedFd,
    /// Guests' descriptors and the lane's waker.
    guests: OwnedFd,
    /// Rounds since the last look at all.
    rounds: u32,
    /// Time since the last look at any.
    unlooked: Duration,
}

impl WakeSets {
    pub fn new(waker: impl AsFd) -> Result<WakeSets, Errno> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let guests = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Not edge-triggered: a look may leave some for the next.
        let nested = epoll::EventFlags::IN;
        epoll::add(&all, &guests, Token::Guests.to_event(), nested)?;
        add(&guests, waker, Token::Waker)?;
        Ok(WakeSets {
            all,
            guests,
            rounds: 0,
            unlooked: Duration::ZERO,
        })
    }

    /// Watches a link's own descriptors.
    pub fn add_link(&self, queue: QueueIndex, link: &Link) -> Result<(), Errno> {
        let set = self.set_of(link);
        let mut descriptors = link.descriptors().into_iter();
        descriptors.try_for_each(|fd| add(set, fd, Token::Queue(queue)))
    }

    /// Stops watching them.
    pub fn remove_link(&self, link: &Link) {
        let set = self.set_of(link);
        for fd in link.descriptors() {
            let _ = epoll::delete(set, fd);
        }
    }

    /// Watches a doorbell.
    pub fn add_doorbell(&self, doorbell: &Doorbell) -> Result<(), Errno> {
        add(&self.guests, doorbell, Token::Doorbell(doorbell.number))
    }

    /// Stops watching a doorbell.
    pub fn remove_doorbell(&self, doorbell: &Doorbell) {
        let _ = epoll::delete(&self.guests, doorbell);
    }

    fn set_of(&self, link: &Link) -> &OwnedFd {
        if link.is_interface() {
            &self.all
        } else {
            &self.guests
        }
    }

    /// Counts a round, which took so long.
    #[inline]
    pub fn tick(&mut self, round: Duration) {
        self.rounds += 1;
        self.unlooked += round;
    }

    /// The set that it is time for a busy lane to look into.
    #[inline]
    pub fn due(&self) -> Option<WakeSet> {
        if self.rounds >= ROUNDS_PER_LOOK {
            Some(WakeSet::All)
        } else if self.unlooked >= TIME_PER_LOOK {
            Some(WakeSet::Guests)
        } else {
            None
        }
    }

    /// The descriptors of a set that have events. Waits for one, `timeout` at most.
    pub fn wait<'events>(
        &mut self,
        set: WakeSet,
        timeout: Option<&Timespec>,
        events: &'events mut Events,
    ) -> Result<impl Iterator<Item = Token> + use<'events>, Errno> {
        self.unlooked = Duration::ZERO;
        let set = match set {
            WakeSet::All => {
                self.rounds = 0;
                &self.all
            }
            WakeSet::Guests => &self.guests,
        };
        let (events, _) = epoll::wait(set, events, timeout)?;
        Ok(events.iter().map(|event| Token::of_event(event.data)))
    }
}

/// Edge-triggered, so that a counter need not be read.
fn add(set: &OwnedFd, file: impl AsFd, token: Token) -> Result<(), Errno> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(set, file, token.to_event(), flags)
}
