//! The mappings of a NAT: which port of its address stands for which port of a host inside.
//!
//! A mapping is the same for all destinations (RFC 4787, section 4.1), and lives as long as something
//! holds it: connections, and what was announced and is yet to come. Free ports are taken at random
//! (RFC 6056). All memory is allocated at once.

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

/// The ports of a protocol.
#[derive(Default)]
struct Ports {
    /// The mapping of each port, plus one; 0 for none.
    mappings: Vec<u32>,
    free: Vec<u16>,
}

/// All mappings.
#[derive(Default)]
pub struct Mappings {
    index: Index,
    mappings: Vec<Mapping>,
    free: Vec<u32>,
    protocols: [Ports; 3],
    /// The first and last port that hosts get.
    range: (u16, u16),
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
        all.index.seed([random.next_u64(), random.next_u64()]);
        all.index.reserve(capacity, |_, _| 0)?;
        let no_memory = |_| NoMemory;
        all.mappings
            .try_reserve_exact(capacity)
            .map_err(no_memory)?;
        all.mappings.resize(capacity, Mapping::default());
        all.free.try_reserve_exact(capacity).map_err(no_memory)?;
        all.free.extend((0..capacity as u32).rev());
        for ports in &mut all.protocols {
            let mappings = &mut ports.mappings;
            mappings.try_reserve_exact(1 << 16).map_err(no_memory)?;
            mappings.resize(1 << 16, 0);
            let count = usize::from(last - first) + 1;
            ports.free.try_reserve_exact(count).map_err(no_memory)?;
            ports.free.extend(first..=last);
            for at in (1..count).rev() {
                let other = random.below(at as u32 + 1) as usize;
                ports.free.swap(at, other);
            }
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
        let ports = &self.protocols[slot(protocol)?];
        let number = ports.mappings.get(usize::from(port))?.checked_sub(1)?;
        let mapping = self.mappings.get(number as usize)?;
        Some((number, mapping.inside))
    }

    fn find(&self, inside: Endpoint) -> Option<u32> {
        let hash = self.index.hash(inside.protocol.into(), inside.key());
        self.index.find(hash, |number| {
            let mapping = self.mappings.get(number as usize);
            mapping.is_some_and(|mapping| mapping.inside == inside)
        })
    }

    /// Holds the mapping of a host's port, which is made if it is not there. `None` if all ports or
    /// mappings are in use.
    pub fn hold(&mut self, inside: Endpoint) -> Option<u32> {
        if let Some(number) = self.find(inside) {
            self.hold_again(number);
            return Some(number);
        }
        let ports = self.protocols.get_mut(slot(inside.protocol)?)?;
        let number = *self.free.last()?;
        let port = ports.free.pop()?;
        self.free.pop();
        self.put(number, inside, port);
        Some(number)
    }

    /// Holds the mapping of a host's port to this very port, which is made if it is not there. `None` if
    /// either has another one, or all mappings are in use. [`settle`](Self::settle) follows.
    pub fn hold_as(&mut self, inside: Endpoint, port: u16) -> Option<u32> {
        if let Some(number) = self.find(inside) {
            if self.port(number) != Some(port) {
                return None;
            }
            self.hold_again(number);
            return Some(number);
        }
        let ports = self.protocols.get(slot(inside.protocol)?)?;
        if ports.mappings.get(usize::from(port)) != Some(&0) {
            return None;
        }
        let number = self.free.pop()?;
        self.put(number, inside, port);
        Some(number)
    }

    /// Notes that the ports of mappings are not free.
    pub fn settle(&mut self) {
        for Ports { mappings, free } in &mut self.protocols {
            free.retain(|port| mappings.get(usize::from(*port)) == Some(&0));
        }
    }

    /// A mapping: the host's port inside, and the port outside.
    pub fn get(&self, number: u32) -> Option<(Endpoint, u16)> {
        let mapping = self.mappings.get(number as usize)?;
        (mapping.held > 0).then_some((mapping.inside, mapping.port))
    }

    /// Holds a mapping to this very port for ever; false if that is in use.
    pub fn fix(&mut self, inside: Endpoint, port: u16) -> bool {
        let is_new = self.find(inside).is_none() && self.hold_as(inside, port).is_some();
        self.settle();
        is_new
    }

    fn put(&mut self, number: u32, inside: Endpoint, port: u16) {
        let hash = self.index.hash(inside.protocol.into(), inside.key());
        self.index.insert(hash, number);
        if let Some(mapping) = self.mappings.get_mut(number as usize) {
            *mapping = Mapping {
                inside,
                port,
                held: 1,
            };
        }
        let ports = slot(inside.protocol).and_then(|at| self.protocols.get_mut(at));
        if let Some(place) = ports.and_then(|ports| ports.mappings.get_mut(usize::from(port))) {
            *place = number + 1;
        }
    }

    /// Holds a mapping once more.
    pub fn hold_again(&mut self, number: u32) {
        if let Some(mapping) = self.mappings.get_mut(number as usize) {
            mapping.held += 1;
        }
    }

    /// Lets a mapping go; with the last hold it ends.
    pub fn release(&mut self, number: u32, random: &mut Random) {
        let Some(mapping) = self.mappings.get_mut(number as usize) else {
            return;
        };
        mapping.held = mapping.held.saturating_sub(1);
        if mapping.held > 0 {
            return;
        }
        let Mapping { inside, port, .. } = *mapping;
        let hash = self.index.hash(inside.protocol.into(), inside.key());
        self.index.remove(hash, number);
        self.free.push(number);
        if let Some(ports) = slot(inside.protocol).and_then(|at| self.protocols.get_mut(at)) {
            ports.mappings[usize::from(port)] = 0;
            if !(self.range.0..=self.range.1).contains(&port) {
                return;
            }
            ports.free.push(port);
            let last = ports.free.len() - 1;
            let other = random.below(last as u32 + 1) as usize;
            ports.free.swap(last, other);
        }
    }
}
