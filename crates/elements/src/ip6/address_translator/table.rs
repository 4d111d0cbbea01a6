//! Which address, and perhaps port, stands for which: fixed mappings, and a pool of addresses or
//! ports that are bound as they are asked for.

use hashbrown::HashMap;

use crate::prelude::*;

/// How long a binding must have been idle before what it holds may be given to another, in seconds
/// (RFC 4787, requirement 5).
const IDLE: u64 = 300;
/// No slot.
const NONE: u32 = u32::MAX;

/// An address and a port of it, or an echo's identifier.
pub type Endpoint = (Ipv6Addr, u16);

/// One side of a flow: an end that is translated, and the peer, which is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Side {
    pub protocol: IpProtocol,
    pub own: Endpoint,
    pub peer: Endpoint,
}

/// Fixed mappings.
#[derive(Default)]
pub struct Fixed {
    /// Whether ports are mapped too. Otherwise they stay, and those here are 0.
    pub ports: bool,
    outward: HashMap<Endpoint, Endpoint>,
    inward: HashMap<Endpoint, Endpoint>,
}

impl Fixed {
    /// Adds a mapping; of two for one address the first counts.
    pub fn add(&mut self, inner: Endpoint, mapped: Endpoint) {
        self.outward.entry(inner).or_insert(mapped);
        self.inward.entry(mapped).or_insert(inner);
    }

    /// What stands for `own` on the other side.
    #[inline]
    pub fn find(&self, outward: bool, own: Endpoint) -> Option<Endpoint> {
        let map = if outward { &self.outward } else { &self.inward };
        let asked = if self.ports { own } else { (own.0, 0) };
        let (address, port) = *map.get(&asked)?;
        Some((address, if self.ports { port } else { own.1 }))
    }
}

/// What a pool gives out.
pub enum Stock {
    /// Addresses; ports stay.
    Addresses(Vec<Ipv6Addr>),
    /// Ports of one address, from the first to the last.
    Ports(Ipv6Addr, u16, u16),
}

struct Slot {
    bound: Side,
    used: u64,
    older: u32,
    newer: u32,
}

/// A pool. Addresses or ports are given in order; when all are in use, the one that has been idle
/// longest is given to another, if it was idle for five minutes.
pub struct Pool {
    stock: Stock,
    /// Where an address stands in the stock.
    places: HashMap<Ipv6Addr, u32>,
    slots: Vec<Slot>,
    bound: HashMap<Side, u32>,
    oldest: u32,
    newest: u32,
}

impl Pool {
    pub fn new(stock: Stock) -> Pool {
        let mut places = HashMap::new();
        if let Stock::Addresses(addresses) = &stock {
            for (place, address) in (0..).zip(addresses) {
                places.entry(*address).or_insert(place);
            }
        }
        Pool {
            stock,
            places,
            slots: Vec::new(),
            bound: HashMap::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Bindings there are.
    pub fn count(&self) -> usize {
        self.bound.len()
    }

    /// Whether it gives out ports.
    pub fn has_ports(&self) -> bool {
        matches!(self.stock, Stock::Ports(..))
    }

    fn size(&self) -> usize {
        match self.stock {
            Stock::Addresses(ref addresses) => addresses.len(),
            Stock::Ports(_, first, last) => (usize::from(last) + 1).saturating_sub(first.into()),
        }
    }

    /// What a binding is found by: where only addresses are bound, by the address alone.
    fn key(&self, side: Side) -> Side {
        match self.stock {
            Stock::Ports(..) => side,
            Stock::Addresses(_) => Side {
                protocol: IpProtocol(0),
                own: (side.own.0, 0),
                peer: (Ipv6Addr::UNSPECIFIED, 0),
            },
        }
    }

    /// What slot `at` holds, for an end whose port is `port`.
    fn held(&self, at: u32, port: u16) -> Option<Endpoint> {
        match &self.stock {
            Stock::Addresses(addresses) => Some((*addresses.get(at as usize)?, port)),
            Stock::Ports(address, first, _) => Some((*address, first.checked_add(at as u16)?)),
        }
    }

    /// What stands for `side`'s end, out of the pool; with `bind`, from now on.
    pub fn take(&mut self, side: Side, bind: bool, now: u64) -> Option<Endpoint> {
        let key = self.key(side);
        let at = match self.bound.get(&key) {
            Some(at) => *at,
            None if bind => self.bind(key, now)?,
            None => return None,
        };
        self.touch(at, now);
        self.held(at, side.own.1)
    }

    /// Whose end `side`'s, which is the pool's, stands for.
    pub fn owner(&mut self, side: Side, now: u64) -> Option<Endpoint> {
        let at = match self.stock {
            Stock::Addresses(_) => *self.places.get(&side.own.0)?,
            Stock::Ports(address, first, _) => {
                let at = side.own.1.checked_sub(first)?;
                u32::from((side.own.0 == address).then_some(at)?)
            }
        };
        let bound = self.slots.get(at as usize)?.bound;
        if !self.has_ports() {
            self.touch(at, now);
            return Some((bound.own.0, side.own.1));
        }
        let same = (bound.protocol, bound.peer) == (side.protocol, side.peer);
        if same {
            self.touch(at, now);
        }
        same.then_some(bound.own)
    }

    /// Binds what is free, or has been idle.
    fn bind(&mut self, key: Side, now: u64) -> Option<u32> {
        self.bound.try_reserve(1).ok()?;
        let fresh = self.slots.len();
        let at = if fresh < self.size() {
            self.slots.try_reserve(1).ok()?;
            self.slots.push(Slot {
                bound: key,
                used: now,
                older: NONE,
                newer: NONE,
            });
            let at = fresh as u32;
            self.append(at);
            at
        } else {
            let at = self.oldest;
            let slot = self.slots.get_mut(at as usize)?;
            if now.saturating_sub(slot.used) < IDLE {
                return None;
            }
            let old = core::mem::replace(&mut slot.bound, key);
            self.bound.remove(&old);
            at
        };
        self.bound.insert(key, at);
        Some(at)
    }

    /// Makes a slot the one used last.
    fn touch(&mut self, at: u32, now: u64) {
        if let Some(slot) = self.slots.get_mut(at as usize) {
            slot.used = now;
        }
        if self.newest != at {
            self.unlink(at);
            self.append(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Slot { older, newer, .. }) = self.slots.get(at as usize) else {
            return;
        };
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }

    fn append(&mut self, at: u32) {
        let older = core::mem::replace(&mut self.newest, at);
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = at,
            None => self.oldest = at,
        }
        if let Some(slot) = self.slots.get_mut(at as usize) {
            (slot.older, slot.newer) = (older, NONE);
        }
    }
}
