//! A concentrator's sessions: their slots, their hosts, their addresses and their deadlines.
//!
//! All memory is allocated at once.

use super::authority::Terms;
use super::layer::NEVER;
use super::ppp::Ppp;
use crate::prelude::*;
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

/// Most sessions of a host.
pub const HOST_MAX: usize = 16;

/// A session.
pub struct Session {
    pub ppp: Ppp,
    pub peer: EtherAddress,
    /// Its number in accounts.
    pub id: u64,
    /// Counts what it asked for.
    pub attempt: u32,
    /// Its address, and whether that is one of the pool's.
    pub address: Option<(Ipv4Addr, bool)>,
    pub terms: Terms,
    /// Whether the concentrator itself knows its user.
    pub local: bool,
    /// When packets began to flow.
    pub up: u64,
    /// When its time is over.
    pub ends: u64,
    /// When the next account is due.
    pub interim: u64,
    /// When it is looked at next for packets of its subscriber, and how many there were.
    pub idle: u64,
    pub seen: u64,
    /// When the host is told its prefix again.
    pub advertise: u64,
}

const _: () = assert!(size_of::<Option<Session>>() <= 800);

impl Session {
    pub fn new(ppp: Ppp, peer: EtherAddress, id: u64) -> Session {
        Session {
            ppp,
            peer,
            id,
            attempt: 0,
            address: None,
            terms: Terms::default(),
            local: false,
            up: NEVER,
            ends: NEVER,
            interim: NEVER,
            idle: NEVER,
            seen: 0,
            advertise: NEVER,
        }
    }

    fn deadline(&self) -> u64 {
        let own = self.interim.min(self.idle).min(self.advertise);
        own.min(self.ends).min(self.ppp.deadline())
    }
}

/// The sessions.
#[derive(Default)]
pub struct Sessions {
    slots: Vec<Option<Session>>,
    free: VecDeque<u16>,
    /// When each slot is due.
    deadlines: Vec<u64>,
    /// When each session began, until its user is known.
    waiting: Vec<u64>,
    hosts: Index,
    /// Addresses that sessions may get, the longest unused first.
    pool: VecDeque<u32>,
}

fn key(host: EtherAddress) -> FlowKey {
    FlowKey {
        addresses: host.to_bits(),
        ports: 0,
    }
}

impl Sessions {
    pub fn new(
        capacity: usize,
        pool: impl Iterator<Item = u32>,
        seeds: [u64; 2],
    ) -> Result<Sessions, NoMemory> {
        let mut new = Sessions::default();
        new.hosts.seed(seeds);
        new.hosts.reserve(capacity, |_, _| 0)?;
        let none = |_| NoMemory;
        new.slots.try_reserve_exact(capacity).map_err(none)?;
        new.free.try_reserve_exact(capacity).map_err(none)?;
        new.deadlines.try_reserve_exact(capacity).map_err(none)?;
        new.waiting.try_reserve_exact(capacity).map_err(none)?;
        new.slots.resize_with(capacity, || None);
        new.free.extend((0..capacity).map(|slot| slot as u16));
        new.deadlines.resize(capacity, NEVER);
        new.waiting.resize(capacity, NEVER);
        for address in pool {
            new.pool.try_reserve(1).map_err(none)?;
            new.pool.push_back(address);
        }
        Ok(new)
    }

    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub fn get(&self, slot: usize) -> Option<&Session> {
        self.slots.get(slot)?.as_ref()
    }

    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Session> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The sessions, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Session)> + Clone {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, session)| Some((slot, session.as_ref()?)))
    }

    /// Begins a session; `None` if no slot is free.
    pub fn add(&mut self, session: Session, now: u64) -> Option<usize> {
        let slot = self.free.pop_front()?;
        let hash = self.hosts.hash(0, key(session.peer));
        self.hosts.insert(hash, slot.into());
        let slot = usize::from(slot);
        *self.slots.get_mut(slot)? = Some(session);
        *self.waiting.get_mut(slot)? = now;
        Some(slot)
    }

    /// Ends a session.
    pub fn remove(&mut self, slot: usize) -> Option<Session> {
        self.release(slot);
        let session = self.slots.get_mut(slot)?.take()?;
        let hash = self.hosts.hash(0, key(session.peer));
        self.hosts.remove(hash, slot as u32);
        self.free.push_back(slot as u16);
        *self.deadlines.get_mut(slot)? = NEVER;
        *self.waiting.get_mut(slot)? = NEVER;
        Some(session)
    }

    /// An address of the pool that `is_used` does not hold for.
    pub fn take_address(&mut self, is_used: impl Fn(u32) -> bool) -> Option<Ipv4Addr> {
        for _ in 0..self.pool.len() {
            let address = self.pool.pop_front()?;
            if !is_used(address) {
                return Some(Ipv4Addr::from_bits(address));
            }
            self.pool.push_back(address);
        }
        None
    }

    /// Gives back the address of the session in a slot.
    pub fn release(&mut self, slot: usize) {
        let address = self.get_mut(slot).and_then(|it| it.address.take());
        if let Some((address, true)) = address {
            self.pool.push_back(address.to_bits());
        }
    }

    /// Addresses that are free.
    pub fn free_addresses(&self) -> usize {
        self.pool.len()
    }

    /// The slots of a host's sessions.
    pub fn of_host(&self, host: EtherAddress) -> heapless::Vec<usize, HOST_MAX> {
        let mut found = heapless::Vec::new();
        let hash = self.hosts.hash(0, key(host));
        self.hosts.find(hash, |slot| {
            let session = self.get(slot as usize);
            if session.is_some_and(|session| session.peer == host) {
                let _ = found.push(slot as usize);
            }
            false
        });
        found
    }

    /// The session that has been waiting for its user to be known for the longest time.
    pub fn longest_waiting(&self) -> Option<usize> {
        let slots = self.waiting.iter().enumerate();
        let waiting = slots.filter(|(_, since)| **since != NEVER);
        waiting
            .min_by_key(|(_, since)| **since)
            .map(|(slot, _)| slot)
    }

    /// Notes when a session is due, and whether its user is known; returns when it is due.
    pub fn settle(&mut self, slot: usize) -> u64 {
        let Some(session) = self.slots.get(slot).and_then(Option::as_ref) else {
            return NEVER;
        };
        let due = session.deadline();
        if let Some(deadline) = self.deadlines.get_mut(slot) {
            *deadline = due;
        }
        if session.ppp.is_authentic()
            && let Some(waiting) = self.waiting.get_mut(slot)
        {
            *waiting = NEVER;
        }
        due
    }

    /// The first slot from `from` on that is due.
    pub fn due(&self, from: usize, now: u64) -> Option<usize> {
        let deadlines = self.deadlines.get(from..)?;
        let due = deadlines.iter().position(|deadline| *deadline <= now);
        due.map(|at| from + at)
    }

    /// When the next one is due.
    pub fn next_due(&self) -> u64 {
        self.deadlines.iter().copied().min().unwrap_or(NEVER)
    }
}
