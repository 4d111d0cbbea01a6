//! What wakes queues that sleep: descriptors, in two sets.
//!
//! Doorbells of tenants are in one that a busy lane looks into often: who sends little is not to
//! wait for who floods. Host interfaces are in another, which it looks into much less often, as a
//! NIC that moderates its interrupts: what comes by an interface meanwhile is then one large batch.
//! (TCP of 1500-byte packets between two namespaces through a guest, by AF_XDP, on two CPUs: 2.7
//! Gb/s where interfaces were looked at every 50 µs, 3.9 so.) A lane that sleeps waits for both.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::QueueIndex;
use crate::port::Link;

/// Descriptors told of in one look.
const EVENTS: usize = 64;
/// Rounds of a busy lane between two looks, at most.
const ROUNDS_PER_LOOK: u32 = 32;
/// Time between two looks at tenants, but for a round: as long as somebody who wakes the lane for a
/// frame waits for it.
const TIME_PER_LOOK: Duration = Duration::from_micros(50);

/// What a descriptor stands for, as the event's 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A link's own descriptor.
    Queue(QueueIndex),
    /// A guest's doorbell.
    Guest(u32),
    /// The lane's own bell.
    Bell,
    /// The tenants' set.
    Tenants,
}

impl Token {
    fn to_event(self) -> epoll::EventData {
        let (kind, number) = match self {
            Token::Queue(queue) => (0, queue),
            Token::Guest(guest) => (1, guest),
            Token::Bell => (2, 0),
            Token::Tenants => (3, 0),
        };
        epoll::EventData::new_u64(kind << 32 | u64::from(number))
    }

    fn of_event(data: epoll::EventData) -> Token {
        let number = data.u64() as u32;
        match data.u64() >> 32 {
            0 => Token::Queue(number),
            1 => Token::Guest(number),
            2 => Token::Bell,
            _ => Token::Tenants,
        }
    }
}

/// Room for what one look tells.
pub(super) type Events = [MaybeUninit<epoll::Event>; EVENTS];

/// Room for events.
pub(super) fn room() -> Events {
    [const { MaybeUninit::uninit() }; EVENTS]
}

/// Which descriptors are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    All,
    Tenants,
}

/// What a lane's sleeping queues are woken by.
pub(super) struct Watch {
    /// Host interfaces, and the other set.
    all: OwnedFd,
    /// Tenants' descriptors and the lane's bell.
    tenants: OwnedFd,
    /// Since all were looked at.
    rounds: u32,
    /// Since any were.
    unlooked: Duration,
}

impl Watch {
    pub fn new(bell: impl AsFd) -> Result<Watch, Errno> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let tenants = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Not edge-triggered: a look may leave some for the next.
        let nested = epoll::EventFlags::IN;
        epoll::add(&all, &tenants, Token::Tenants.to_event(), nested)?;
        add(&tenants, bell, Token::Bell)?;
        Ok(Watch {
            all,
            tenants,
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

    /// Watches them no more.
    pub fn remove_link(&self, link: &Link) {
        let set = self.set_of(link);
        for fd in link.descriptors() {
            let _ = epoll::delete(set, fd);
        }
    }

    /// Watches a guest's doorbell.
    pub fn add_doorbell(&self, guest: u32, file: impl AsFd) -> Result<(), Errno> {
        add(&self.tenants, file, Token::Guest(guest))
    }

    /// Watches it no more.
    pub fn remove_doorbell(&self, file: impl AsFd) {
        let _ = epoll::delete(&self.tenants, file);
    }

    fn set_of(&self, link: &Link) -> &OwnedFd {
        match link.is_interface() {
            true => &self.all,
            false => &self.tenants,
        }
    }

    /// A round has passed, which took so long.
    #[inline]
    pub fn tick(&mut self, round: Duration) {
        self.rounds += 1;
        self.unlooked += round;
    }

    /// Whose descriptors it is time for a busy lane to look at.
    #[inline]
    pub fn due(&self) -> Option<Whose> {
        if self.rounds >= ROUNDS_PER_LOOK {
            Some(Whose::All)
        } else if self.unlooked >= TIME_PER_LOOK {
            Some(Whose::Tenants)
        } else {
            None
        }
    }

    /// What has something, of the descriptors of a set; waits for it for as long as is said, or
    /// until there is.
    pub fn wait<'room>(
        &mut self,
        whose: Whose,
        timeout: Option<&Timespec>,
        room: &'room mut Events,
    ) -> Result<impl Iterator<Item = Token> + use<'room>, Errno> {
        self.unlooked = Duration::ZERO;
        let set = match whose {
            Whose::All => {
                self.rounds = 0;
                &self.all
            }
            Whose::Tenants => &self.tenants,
        };
        let (events, _) = epoll::wait(set, room, timeout)?;
        Ok(events.iter().map(|event| Token::of_event(event.data)))
    }
}

/// Edge-triggered, so that nothing need be read that is no frame.
fn add(set: &OwnedFd, file: impl AsFd, token: Token) -> Result<(), Errno> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(set, file, token.to_event(), flags)
}
