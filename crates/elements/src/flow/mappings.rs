//! The mappings of a NAT: which port of its address stands for which port of a host inside.
//!
//! A mapping is the same for all destinations (RFC 4787, section 4.1), and lives as long as something
//! holds it: connections, and what was announced and is yet to come. A free port is taken from a random
//! one on (RFC 6056, section 3.3.1). All memory is allocated at once.

use crate::prelude::*;
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

/// A port of a host, and of which protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// TCP, UDP or ICMP, whose ports are identifiers.
    pub protocol: u8,
    /// The host.
    pub address: u32,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    fn key(self) -> FlowKey {
        FlowKey {
            addresses: u64::from(self.address) << 32,
            ports: u32::from(self.port) << 16,
        }
    }
}

/// A mapping.
#[derive(Clone, Copy, Debug, Default)]
struct Mapping {
    inside: Endpoint,
    port: u16,
    /// How often it is held.
    held: u32,
}

/// The ports of a protocol that are in use: a bit for each.
type Ports = Vec<u64>;

/// Words of 64 ports.
const WORDS: usize = 1 << 10;

/// All mappings.
#[derive(Default)]
pub struct Mappings {
    /// By the host's port inside.
    inside: Index,
    /// By the port outside.
    outside: Index,
    mappings: Vec<Mapping>,
    free: Vec<u32>,
    protocols: [Ports; 3],
    /// The first and last port that hosts get.
    range: (u16, u16),
}

/// The key of a port of the NAT's address.
fn outside_key(port: u16) -> FlowKey {
    FlowKey {
        addresses: 0,
        ports: u32::from(port) << 16,
    }
}

/// The first port from `first` to `last` that is not in use.
fn first_free(ports: &Ports, first: u16, last: u16) -> Option<u16> {
    let (from, to) = (usize::from(first), usize::from(last));
    let words = (from / 64..=to / 64).zip(ports.get(from / 64..=to / 64)?);
    let mut free = words.filter_map(|(word, in_use)| {
        let skipped = match word == from / 64 {
            true => (1u64 << (from % 64)) - 1,
            false => 0,
        };
        let bit = (in_use | skipped).trailing_ones() as usize;
        (bit < 64).then_some(64 * word + bit)
    });
    let port = free.next()?;
    u16::try_from(port).ok().filter(|_| port <= to)
}

fn slot(protocol: u8) -> Option<usize> {
    match IpProtocol(protocol) {
        IpProtocol::TCP => Some(0),
        IpProtocol::UDP => Some(1),
        IpProtocol::ICMP => Some(2),
        _ => None,
    }
}

impl Mappings {
    /// Room for `capacity` mappings to the ports from `first` to `last`.
    pub fn new(
        capacity: usize,
        (first, last): (u16, u16),
        random: &mut Random,
    ) -> Result<Mappings, NoMemory> {
        let mut all = Mappings {
            range: (first, last),
            ..Mappings::default()
        };
        let no_memory = |_| NoMemory;
        for index in [&mut all.inside, &mut all.outside] {
            index.seed([random.next_u64(), random.next_u64()]);
            index.reserve(capacity, |_, _| 0)?;
        }
        all.mappings
            .try_reserve_exact(capacity)
            .map_err(no_memory)?;
        all.mappings.resize(capacity, Mapping::default());
        all.free.try_reserve_exact(capacity).map_err(no_memory)?;
        all.free.extend((0..capacity as u32).rev());
        for ports in &mut all.protocols {
            ports.try_reserve_exact(WORDS).map_err(no_memory)?;
            ports.resize(WORDS, 0);
        }
        Ok(all)
    }

    /// Mappings.
    pub fn count(&self) -> usize {
        self.mappings.len() - self.free.len()
    }

    /// All mappings: the host inside, the port outside, and how often it is held.
    pub fn iter(&self) -> impl Iterator<Item = (Endpoint, u16, u32)> {
        let held = self.mappings.iter().filter(|mapping| mapping.held > 0);
        held.map(|mapping| (mapping.inside, mapping.port, mapping.held))
    }

    /// The port outside of a mapping.
    pub fn port(&self, number: u32) -> Option<u16> {
        let mapping = self.mappings.get(number as usize);
        mapping.map(|mapping| mapping.port)
    }

    /// The mapping of a port of the NAT's address, and its host.
    pub fn outside(&self, protocol: u8, port: u16) -> Option<(u32, Endpoint)> {
        let hash = self.outside.hash(protocol.into(), outside_key(port));
        let number = self.outside.find(hash, |number| {
            let mapping = self.mappings.get(number as usize);
            mapping.is_some_and(|it| (it.inside.protocol, it.port) == (protocol, port))
        })?;
        let mapping = self.mappings.get(number as usize)?;
        Some((number, mapping.inside))
    }

    fn find(&self, inside: Endpoint) -> Option<u32> {
        let hash = self.inside.hash(inside.protocol.into(), inside.key());
        self.inside.find(hash, |number| {
            let mapping = self.mappings.get(number as usize);
            mapping.is_some_and(|mapping| mapping.inside == inside)
        })
    }

    /// Holds the mapping of a host's port, which is made if it is not there. `None` if all ports or
    /// mappings are in use.
    pub fn hold(&mut self, inside: Endpoint, random: &mut Random) -> Option<u32> {
        if let Some(number) = self.find(inside) {
            self.hold_again(number);
            return Some(number);
        }
        let ports = self.protocols.get(slot(inside.protocol)?)?;
        let (first, last) = self.range;
        let from = first + random.below(u32::from(last - first) + 1) as u16;
        let port = first_free(ports, from, last).or_else(|| first_free(ports, first, from))?;
        let number = self.free.pop()?;
        self.put(number, inside, port);
        Some(number)
    }

    /// Holds the mapping of a host's port to this very port, which is made if it is not there. `None` if
    /// either has another one, or all mappings are in use.
    pub fn hold_as(&mut self, inside: Endpoint, port: u16) -> Option<u32> {
        if let Some(number) = self.find(inside) {
            if self.port(number) != Some(port) {
                return None;
            }
            self.hold_again(number);
            return Some(number);
        }
        slot(inside.protocol)?;
        if self.outside(inside.protocol, port).is_some() {
            return None;
        }
        let number = self.free.pop()?;
        self.put(number, inside, port);
        Some(number)
    }

    /// A mapping: the host's port inside, and the port outside.
    pub fn get(&self, number: u32) -> Option<(Endpoint, u16)> {
        let mapping = self.mappings.get(number as usize)?;
        (mapping.held > 0).then_some((mapping.inside, mapping.port))
    }

    /// Holds a mapping to this very port for ever; false if that is in use.
    pub fn fix(&mut self, inside: Endpoint, port: u16) -> bool {
        self.find(inside).is_none() && self.hold_as(inside, port).is_some()
    }

    fn put(&mut self, number: u32, inside: Endpoint, port: u16) {
        if let Some(mapping) = self.mappings.get_mut(number as usize) {
            *mapping = Mapping {
                inside,
                port,
                held: 1,
            };
        }
        let (by_inside, by_outside) = self.hashes(inside, port);
        self.inside.insert(by_inside, number);
        self.outside.insert(by_outside, number);
        self.mark(inside.protocol, port, true);
    }

    fn hashes(&self, inside: Endpoint, port: u16) -> (u64, u64) {
        let protocol = inside.protocol.into();
        (
            self.inside.hash(protocol, inside.key()),
            self.outside.hash(protocol, outside_key(port)),
        )
    }

    /// Notes whether a port is in use.
    fn mark(&mut self, protocol: u8, port: u16, in_use: bool) {
        let ports = slot(protocol).and_then(|at| self.protocols.get_mut(at));
        if let Some(word) = ports.and_then(|ports| ports.get_mut(usize::from(port) / 64)) {
            let bit = 1 << (port % 64);
            *word = if in_use { *word | bit } else { *word & !bit };
        }
    }

    /// Holds a mapping once more.
    pub fn hold_again(&mut self, number: u32) {
        if let Some(mapping) = self.mappings.get_mut(number as usize) {
            mapping.held += 1;
        }
    }

    /// Lets a mapping go; with the last hold it ends.
    pub fn release(&mut self, number: u32) {
        let Some(mapping) = self.mappings.get_mut(number as usize) else {
            return;
        };
        mapping.held = mapping.held.saturating_sub(1);
        if mapping.held > 0 {
            return;
        }
        let Mapping { inside, port, .. } = *mapping;
        let (by_inside, by_outside) = self.hashes(inside, port);
        self.inside.remove(by_inside, number);
        self.outside.remove(by_outside, number);
        self.free.push(number);
        self.mark(inside.protocol, port, false);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn host(port: u16) -> Endpoint {
        Endpoint {
            protocol: 17,
            address: 0x0a00_0001,
            port,
        }
    }

    proptest! {
        /// Whatever is held and released, each host's port has one port outside, of the range, that no
        /// other has; and none is refused while one is free.
        #[test]
        fn every_mapping_has_its_own_port(
            first in 1000u16..1140,
            ports in 1u16..80,
            steps in prop::collection::vec((0u16..100, any::<bool>()), 0..400),
        ) {
            let mut random = Random::new(7);
            let range = (first, first + ports - 1);
            let mut mappings = Mappings::new(64, range, &mut random).unwrap();
            let mut known: HashMap<u16, (u32, u16)> = HashMap::new();
            for (port, hold) in steps {
                match (known.get(&port).copied(), hold) {
                    (Some((number, outside)), false) => {
                        mappings.release(number);
                        known.remove(&port);
                        prop_assert_eq!(mappings.outside(17, outside), None);
                    }
                    (None, true) => {
                        let number = mappings.hold(host(port), &mut random);
                        let is_full = known.len() >= usize::from(ports).min(64);
                        prop_assert_eq!(number.is_none(), is_full);
                        if let Some(number) = number {
                            let outside = mappings.port(number).unwrap();
                            prop_assert!((range.0..=range.1).contains(&outside));
                            prop_assert!(known.values().all(|(_, other)| *other != outside));
                            known.insert(port, (number, outside));
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(mappings.count(), known.len());
                for (port, (number, outside)) in &known {
                    prop_assert_eq!(mappings.outside(17, *outside), Some((*number, host(*port))));
                }
            }
        }
    }
}
