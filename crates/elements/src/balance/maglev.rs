//! Maglev's consistent hashing (Eisenbud et al., *Maglev: A Fast and Reliable Software Network Load
//! Balancer*, NSDI 2016, section 3.4).
//!
//! A table of a prime size has a server in each entry. Each server has a permutation of the entries of its
//! own; in turn, each takes the first entry of its permutation that is free, so that all get as many
//! entries, and most entries keep their server when another one comes or goes. A server of weight
//! `n` takes `n` entries in its turn. Permutations and hashes depend on the servers and
//! packets alone: several balancers with the same servers choose the same one.

use crate::flow::ip6::AnyKey;
use crate::prelude::*;
use crate::rewriter::index::NoMemory;

/// Entries: the paper's size, a prime.
pub const SIZE: usize = 65537;

/// An entry without a server.
const EMPTY: u16 = u16::MAX;

/// The table.
#[derive(Default)]
pub struct Maglev {
    entries: Vec<u16>,
    permutations: Vec<Permutation>,
}

/// A server that takes entries.
#[derive(Clone, Copy)]
struct Permutation {
    number: u16,
    weight: u16,
    next: u32,
    skip: u32,
}

/// Mixes a number's bits (Steele et al., *SplitMix*).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A number that stands for an address.
fn number(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            mix(mix((bits >> 64) as u64).wrapping_add(bits as u64))
        }
    }
}

/// The hash of a connection.
pub fn hash(protocol: IpProtocol, key: AnyKey) -> u64 {
    let ports = u64::from(protocol.0) << 32 | u64::from(key.ports());
    let addresses = match key {
        AnyKey::V4(key) => key.addresses,
        AnyKey::V6(key) => {
            let [source, destination] = key.addresses.map(|address| number(address.into()));
            mix(source).wrapping_add(destination)
        }
    };
    mix(mix(addresses).wrapping_add(ports))
}

impl Permutation {
    fn new(server: u16, weight: u16, (address, port): (IpAddr, u16)) -> Permutation {
        let name = number(address) << 16 ^ u64::from(port);
        let (offset, skip) = (mix(name), mix(name ^ 0x9e37_79b9_7f4a_7c15));
        Permutation {
            number: server,
            weight,
            next: (offset % SIZE as u64) as u32,
            skip: (skip % (SIZE as u64 - 1)) as u32 + 1,
        }
    }

    /// Takes the next entry of the permutation that is free. There must be one.
    fn take(&mut self, entries: &mut [u16]) {
        // Its size is prime: a permutation passes all entries.
        for _ in 0..SIZE {
            let at = self.next as usize;
            self.next = (self.next + self.skip) % SIZE as u32;
            if let Some(entry) = entries.get_mut(at).filter(|entry| **entry == EMPTY) {
                *entry = self.number;
                return;
            }
        }
    }
}

impl Maglev {
    /// About how much memory one takes.
    pub const BYTES: usize = SIZE * size_of::<u16>();

    /// Whether it has no memory yet.
    pub fn is_absent(&self) -> bool {
        self.entries.is_empty()
    }

    /// A table of at most so many servers, with none.
    pub fn new(servers: usize) -> Result<Maglev, NoMemory> {
        let mut table = Maglev::default();
        let entries = table.entries.try_reserve_exact(SIZE);
        let permutations = table.permutations.try_reserve_exact(servers);
        entries.and(permutations).map_err(|_| NoMemory)?;
        table.entries.resize(SIZE, EMPTY);
        Ok(table)
    }

    /// Fills the table for servers: the number, weight, address and port of each.
    pub fn fill(&mut self, servers: impl Iterator<Item = (u16, u16, (IpAddr, u16))>) {
        self.entries.fill(EMPTY);
        self.permutations.clear();
        let servers = servers.filter(|(_, weight, _)| *weight > 0);
        let servers = servers.map(|(number, weight, name)| Permutation::new(number, weight, name));
        self.permutations.extend(servers);
        if self.permutations.is_empty() {
            return;
        }
        let mut left = SIZE;
        loop {
            for permutation in &mut self.permutations {
                for _ in 0..permutation.weight {
                    if left == 0 {
                        return;
                    }
                    permutation.take(&mut self.entries);
                    left -= 1;
                }
            }
        }
    }

    /// The server of a hash; `None` if there are no servers.
    pub fn server(&self, hash: u64) -> Option<u16> {
        let entry = self.entries.get((hash % SIZE as u64) as usize);
        entry.copied().filter(|entry| *entry != EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn table(servers: &[(u16, u16)]) -> Maglev {
        let mut table = Maglev::new(servers.len()).unwrap();
        let name = |number| {
            (
                Ipv4Addr::from_bits(0x0a00_0000 + u32::from(number)).into(),
                80,
            )
        };
        table.fill(servers.iter().map(|(n, weight)| (*n, *weight, name(*n))));
        table
    }

    fn shares(table: &Maglev, most: usize) -> Vec<usize> {
        let mut shares = std::vec![0; most];
        for entry in &table.entries {
            shares[usize::from(*entry)] += 1;
        }
        shares
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        /// Shares go by weights, to an entry of a turn.
        #[test]
        fn servers_get_their_shares(weights in prop::collection::vec(0u16..10, 1..60)) {
            prop_assume!(weights.iter().any(|weight| *weight > 0));
            let servers: Vec<_> = (0..).zip(weights.iter().copied()).collect();
            let shares = shares(&table(&servers), weights.len());
            let all: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
            for (share, weight) in shares.iter().zip(weights) {
                let (weight, turns) = (usize::from(weight), SIZE / all);
                prop_assert!((turns * weight..=(turns + 1) * weight).contains(share));
            }
        }

        /// The entries of a server that goes are divided, and few others change.
        #[test]
        fn few_other_entries_change(count in 2u16..100, gone in any::<prop::sample::Index>()) {
            let gone = gone.index(count.into()) as u16;
            let before: Vec<_> = (0..count).map(|number| (number, 1)).collect();
            let after: Vec<_> = before.iter().copied().filter(|(n, _)| *n != gone).collect();
            let (before, after) = (table(&before), table(&after));
            let entries = || before.entries.iter().zip(&after.entries);
            prop_assert!(entries().all(|(_, new)| *new != gone));
            let stayed = entries().filter(|(old, _)| **old != gone);
            let changed = stayed.clone().filter(|(old, new)| old != new).count();
            // The paper's figure 12 has 2 to 3 % for as many.
            prop_assert!(changed * 100 <= stayed.count() * 5, "{} of {}", changed, SIZE);
        }
    }

    #[test]
    fn the_table_does_not_depend_on_the_order_of_arrival() {
        assert!(Maglev::new(3).unwrap().server(7).is_none());
        let mut changed = table(&[(1, 1), (2, 3)]);
        changed.fill([(9, 2, (Ipv6Addr::LOCALHOST.into(), 1))].into_iter());
        assert!(changed.entries.iter().all(|entry| *entry == 9));
        changed.fill([].into_iter());
        assert_eq!(changed.server(u64::MAX), None);
    }
}
