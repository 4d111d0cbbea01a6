//! IPv6 hosts with an IPv4 address each, as long as they use it.
//!
//! Hosts are in one list, the one that was used last at its end, so that those whose time is up are at its
//! start. All memory is allocated at once.

use super::translate::Addresses;
use crate::prelude::*;
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

const NONE: u32 = u32::MAX;

/// A host; its alias follows from its number.
#[derive(Clone, Copy, Debug)]
struct Host {
    address: u128,
    /// The second of its last packet.
    last: u32,
    next: u32,
    previous: u32,
}

/// Hosts and their aliases.
#[derive(Default)]
pub struct Aliases {
    /// The prefix of 96 bits that stands for IPv4 (RFC 6052).
    prefix: u128,
    /// The first alias.
    first: u32,
    index: Index,
    hosts: Vec<Host>,
    free: u32,
    /// The hosts that were used first and last.
    oldest: u32,
    newest: u32,
    count: usize,
    now: u32,
    /// New hosts that found no alias.
    pub refused: u64,
}

impl Aliases {
    /// Aliases from `first` on.
    pub fn new(
        prefix: Ipv6Addr,
        (first, capacity): (Ipv4Addr, usize),
        seeds: [u64; 2],
    ) -> Result<Aliases, NoMemory> {
        let mut all = Aliases {
            prefix: prefix.to_bits() >> 32 << 32,
            first: first.to_bits(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            ..Aliases::default()
        };
        all.index.seed(seeds);
        all.index.reserve(capacity, |_, _| 0)?;
        all.hosts
            .try_reserve_exact(capacity)
            .map_err(|_| NoMemory)?;
        all.hosts.extend((0..capacity as u32).map(|_| Host {
            address: 0,
            last: 0,
            next: NONE,
            previous: NONE,
        }));
        for number in (0..capacity as u32).rev() {
            all.hosts[number as usize].next = core::mem::replace(&mut all.free, number);
        }
        Ok(all)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether another has the same aliases.
    pub fn is_like(&self, other: &Aliases) -> bool {
        let shape = |it: &Aliases| (it.prefix, it.first, it.hosts.len());
        shape(self) == shape(other)
    }

    /// Hosts, each with its alias and the seconds since its last packet, the longest first.
    pub fn iter(&self) -> impl Iterator<Item = (Ipv6Addr, Ipv4Addr, u32)> {
        let mut number = self.oldest;
        core::iter::from_fn(move || {
            let host = self.hosts.get(number as usize)?;
            let alias = self.alias(core::mem::replace(&mut number, host.next));
            let idle = self.now.wrapping_sub(host.last);
            Some((Ipv6Addr::from_bits(host.address), alias, idle))
        })
    }

    fn alias(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first.wrapping_add(number))
    }

    fn hash(&self, address: u128) -> u64 {
        let half = |addresses| FlowKey {
            addresses,
            ports: 0,
        };
        let upper = self.index.hash(1, half((address >> 64) as u64));
        self.index.hash(2, half(address as u64 ^ upper))
    }

    fn unlink(&mut self, number: u32) {
        let Some(&Host { next, previous, .. }) = self.hosts.get(number as usize) else {
            return;
        };
        match self.hosts.get_mut(previous as usize) {
            Some(host) => host.next = next,
            None => self.oldest = next,
        }
        match self.hosts.get_mut(next as usize) {
            Some(host) => host.previous = previous,
            None => self.newest = previous,
        }
    }

    fn append(&mut self, number: u32) {
        let previous = core::mem::replace(&mut self.newest, number);
        match self.hosts.get_mut(previous as usize) {
            Some(host) => host.next = number,
            None => self.oldest = number,
        }
        if let Some(host) = self.hosts.get_mut(number as usize) {
            (host.previous, host.next, host.last) = (previous, NONE, self.now);
        }
    }

    /// Notes that a host is used, unless that was noted in this second.
    fn touch(&mut self, number: u32) {
        let last = self.hosts.get(number as usize).map(|host| host.last);
        if last != Some(self.now) {
            self.unlink(number);
            self.append(number);
        }
    }

    /// The number of a host, which gets an alias if it has none.
    fn host(&mut self, address: u128) -> Option<u32> {
        let hash = self.hash(address);
        let is_it = |number: u32| {
            let host = self.hosts.get(number as usize);
            host.is_some_and(|host| host.address == address)
        };
        if let Some(number) = self.index.find(hash, is_it) {
            self.touch(number);
            return Some(number);
        }
        let number = self.free;
        let Some(host) = self.hosts.get_mut(number as usize) else {
            self.refused += 1;
            return None;
        };
        self.free = host.next;
        host.address = address;
        self.append(number);
        self.index.insert(hash, number);
        self.count += 1;
        Some(number)
    }

    /// Sets the time in seconds, and takes back the aliases of hosts that used theirs for the last time
    /// `timeout` seconds ago.
    pub fn advance(&mut self, now: u32, timeout: u32) {
        self.now = now;
        while let Some(host) = self.hosts.get(self.oldest as usize).copied() {
            if now.wrapping_sub(host.last) < timeout {
                return;
            }
            let number = self.oldest;
            self.unlink(number);
            self.index.remove(self.hash(host.address), number);
            let free = core::mem::replace(&mut self.free, number);
            if let Some(host) = self.hosts.get_mut(number as usize) {
                host.next = free;
            }
            self.count -= 1;
        }
    }
}

/// Whether an address is one of a single host elsewhere.
fn is_host(address: Ipv6Addr) -> bool {
    let link_local = address.segments()[0] & 0xffc0 == 0xfe80;
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || link_local)
}

impl Addresses for Aliases {
    fn to_v4(&mut self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let bits = address.to_bits();
        if bits >> 32 << 32 == self.prefix {
            return Some(Ipv4Addr::from_bits(bits as u32));
        }
        if !is_host(address) {
            return None;
        }
        let number = self.host(bits)?;
        Some(self.alias(number))
    }

    fn to_v6(&mut self, address: Ipv4Addr) -> Option<Ipv6Addr> {
        let number = address.to_bits().wrapping_sub(self.first);
        if (number as usize) < self.hosts.len() {
            let address = self.hosts.get(number as usize)?.address;
            let is_it = |found: u32| found == number;
            self.index.find(self.hash(address), is_it)?;
            self.touch(number);
            return Some(Ipv6Addr::from_bits(address));
        }
        Some(Ipv6Addr::from_bits(
            self.prefix | u128::from(address.to_bits()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A host has an alias of its own as long as it uses it, and there are never more than there is
        /// room for.
        #[test]
        fn hosts_have_aliases_of_their_own(
            steps in prop::collection::vec((0u16..9, 0u32..20, any::<bool>()), 0..200),
        ) {
            let prefix: Ipv6Addr = "64:ff9b::".parse().unwrap();
            let first = Ipv4Addr::new(100, 64, 0, 0);
            let mut aliases = Aliases::new(prefix, (first, 5), [1, 2]).unwrap();
            let mut model: HashMap<u16, (Ipv4Addr, u32)> = HashMap::new();
            let mut now = 0;
            for (number, pause, back) in steps {
                now += pause;
                aliases.advance(now, 30);
                model.retain(|_, (_, last)| now - *last < 30);
                let host = Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 1);
                if back {
                    if let Some((alias, last)) = model.get_mut(&number) {
                        prop_assert_eq!(aliases.to_v6(*alias), Some(host));
                        *last = now;
                    }
                } else {
                    let alias = aliases.to_v4(host);
                    prop_assert_eq!(alias.is_none(), model.len() == 5 && !model.contains_key(&number));
                    if let Some(alias) = alias {
                        let known = model.insert(number, (alias, now));
                        prop_assert!(known.is_none_or(|(known, _)| known == alias));
                    }
                }
                let mut used: Vec<_> = model.values().map(|(alias, _)| *alias).collect();
                used.sort_unstable();
                used.dedup();
                prop_assert_eq!(used.len(), model.len());
                prop_assert_eq!((aliases.count(), aliases.iter().count()), (model.len(), model.len()));
                for alias in (0..5).map(|at| Ipv4Addr::from_bits(first.to_bits() + at)) {
                    if !used.contains(&alias) {
                        prop_assert_eq!(aliases.to_v6(alias), None);
                    }
                }
            }
            let outside = Ipv4Addr::new(192, 0, 2, 1);
            let embedded = aliases.to_v6(outside).unwrap();
            prop_assert_eq!(embedded, "64:ff9b::c000:201".parse::<Ipv6Addr>().unwrap());
            prop_assert_eq!(aliases.to_v4(embedded), Some(outside));
        }
    }
}
