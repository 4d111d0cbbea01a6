//! Classifies frames by flow.
//!
//! A flow is a key and a mask over a frame's header fields. Flows of the same mask share a hash
//! table, and a frame is looked up once for each mask, the most specific first (tuple space search;
//! Srinivasan, Suri and Varghese 1999). So the cost grows with the number of masks, not of flows.
//!
//! Of two flows that match the same frame, one must be the more specific in every respect: it
//! decides. If neither is, or both are equal, the second is refused ([`Overlap`]), so the result
//! never depends on the order in which flows were made. Flows on two ports do not exclude each
//! other: a frame from one port to the other belongs to both, and a flooded frame to the flows of
//! each port that it reaches.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::headers::{Bytes, HeaderError, Ip, ethertype};
use crate::ids::PortIndex;
use crate::properties::{FlowAttributes, IpPrefix};

/// Most masks of a domain's flows: each is one more look into a table for every frame.
pub const MASKS_MAX: usize = 32;

const WORDS: usize = 6;
/// Where the words of a key are: local address, remote address, the rest, the port.
const LOCAL: usize = 0;
const REMOTE: usize = 2;
const REST: usize = 4;
const PORT: usize = 5;

/// The fields of a frame, or a mask over them, in words to be compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Words([u64; WORDS]);

/// The parts of the word [`REST`].
#[derive(Clone, Copy, Default)]
struct Rest {
    /// 4 or 6.
    family: u8,
    transport: u8,
    dsfield: u8,
    /// 1 if there are ports.
    has_ports: u8,
    local_port: u16,
    remote_port: u16,
}

impl Rest {
    fn word(self) -> u64 {
        u64::from(self.family) << 56
            | u64::from(self.transport) << 48
            | u64::from(self.dsfield) << 40
            | u64::from(self.has_ports) << 32
            | u64::from(self.local_port) << 16
            | u64::from(self.remote_port)
    }
}

fn address(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(a) => [u64::from(a.to_bits()) << 32, 0],
        IpAddr::V6(a) => [(a.to_bits() >> 64) as u64, a.to_bits() as u64],
    }
}

fn prefix_mask(prefix: IpPrefix) -> [u64; 2] {
    let bits = u128::MAX
        .checked_shl(128 - u32::from(prefix.len()))
        .unwrap_or(0);
    [(bits >> 64) as u64, bits as u64]
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    }
}

impl Words {
    #[inline]
    fn masked(&self, mask: &Words) -> Words {
        Words(std::array::from_fn(|i| self.0[i] & mask.0[i]))
    }

    /// Whether every bit here is there, too.
    fn is_within(&self, other: &Words) -> bool {
        self.masked(other) == *self
    }

    fn ones(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// A flow's key and mask.
    fn of_flow(attributes: &FlowAttributes, port: Option<PortIndex>) -> (Words, Words) {
        let (mut key, mut mask) = (Words([0; WORDS]), Words([0; WORDS]));
        let (mut rest, mut counts) = (Rest::default(), Rest::default());
        for (at, prefix) in [(LOCAL, attributes.local_ip), (REMOTE, attributes.remote_ip)] {
            if let Some(prefix) = prefix {
                key.0[at..at + 2].copy_from_slice(&address(prefix.address()));
                mask.0[at..at + 2].copy_from_slice(&prefix_mask(prefix));
                (rest.family, counts.family) = (family(prefix.address()), 0xff);
            }
        }
        if let Some(transport) = attributes.transport {
            (rest.transport, counts.transport) = (transport.0, 0xff);
        }
        if let Some(dsfield) = attributes.dsfield {
            (rest.dsfield, counts.dsfield) = (dsfield.value(), dsfield.mask());
        }
        if let Some(local) = attributes.local_port {
            (rest.local_port, counts.local_port) = (local, 0xffff);
        }
        if let Some(remote) = attributes.remote_port {
            (rest.remote_port, counts.remote_port) = (remote, 0xffff);
        }
        if attributes.local_port.is_some() || attributes.remote_port.is_some() {
            (rest.has_ports, counts.has_ports) = (1, 1);
        }
        // A frame of a flow is always an IP packet.
        if counts.family == 0 {
            (rest.family, counts.family) = (4, 4);
        }
        (key.0[REST], mask.0[REST]) = (rest.word(), counts.word());
        if let Some(port) = port {
            (key.0[PORT], mask.0[PORT]) = (u64::from(port) + 1, u64::MAX);
        }
        (key, mask)
    }
}

/// The fields of a frame, as its sender and as its receiver see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKey {
    sent: Words,
    received: Words,
}

impl FrameKey {
    /// Of the frame of `len` bytes that begins with `known`; `None` if it is no IP packet.
    #[inline]
    pub fn of_frame(known: &[u8], len: usize) -> Result<Option<FrameKey>, HeaderError> {
        let bytes = Bytes::new(known, len);
        let (kind, l3) = ethertype(bytes)?;
        let Some(ip) = Ip::parse(bytes, kind, l3)? else {
            return Ok(None);
        };
        let ports = match ip.ports(bytes) {
            Err(HeaderError::Malformed) => None,
            ports => ports?,
        };
        let (source_port, destination_port) = ports.unwrap_or_default();
        let rest = Rest {
            family: family(ip.source),
            transport: ip.transport,
            dsfield: ip.dsfield,
            has_ports: ports.is_some().into(),
            local_port: source_port,
            remote_port: destination_port,
        };
        let back = Rest {
            local_port: destination_port,
            remote_port: source_port,
            ..rest
        };
        let (source, destination) = (address(ip.source), address(ip.destination));
        let words = |local: [u64; 2], remote: [u64; 2], rest: Rest| {
            Words([local[0], local[1], remote[0], remote[1], rest.word(), 0])
        };
        Ok(Some(FrameKey {
            sent: words(source, destination, rest),
            received: words(destination, source, back),
        }))
    }

    /// Of the same frame on its way from one port to another, if that is known.
    #[inline]
    pub fn between(mut self, from: PortIndex, to: Option<PortIndex>) -> FrameKey {
        self.sent.0[PORT] = u64::from(from) + 1;
        self.received.0[PORT] = to.map_or(0, |to| u64::from(to) + 1);
        self
    }
}

/// Why a flow is refused: it could have frames of another, and neither is the more specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The other has the very same attributes.
    Same(u32),
    /// Each has an attribute that the other has not.
    Partial(u32),
    /// There are too many combinations of attributes.
    Masks,
}

/// The flows of one mask.
struct MaskTable {
    mask: Words,
    flows: HashMap<Words, u32>,
}

impl MaskTable {
    fn is_on_port(&self) -> bool {
        self.mask.0[PORT] != 0
    }

    #[inline]
    fn find(&self, words: &Words) -> Option<u32> {
        self.flows.get(&words.masked(&self.mask)).copied()
    }
}

/// Which flow a frame belongs to.
#[derive(Default)]
pub struct Classifier {
    /// The most specific first.
    tables: Vec<MaskTable>,
}

impl Classifier {
    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Adds a flow by its number; on one port only, if there is one.
    pub fn add(
        &mut self,
        attributes: &FlowAttributes,
        port: Option<PortIndex>,
        flow: u32,
    ) -> Result<(), Overlap> {
        let (key, mask) = Words::of_flow(attributes, port);
        for table in &self.tables {
            if mask == table.mask {
                match table.flows.get(&key) {
                    Some(&same) => return Err(Overlap::Same(same)),
                    None => continue,
                }
            }
            if mask.is_within(&table.mask) || table.mask.is_within(&mask) {
                continue;
            }
            let both = mask.masked(&table.mask);
            let same = |(other, _): &(&Words, &u32)| other.masked(&both) == key.masked(&both);
            if let Some((_, &other)) = table.flows.iter().find(same) {
                return Err(Overlap::Partial(other));
            }
        }
        let at = self.tables.iter().position(|table| table.mask == mask);
        let at = match at {
            Some(at) => at,
            None if self.tables.len() == MASKS_MAX => return Err(Overlap::Masks),
            None => {
                let specific = mask.ones();
                let at = self
                    .tables
                    .partition_point(|table| table.mask.ones() > specific);
                let flows = HashMap::new();
                self.tables.insert(at, MaskTable { mask, flows });
                at
            }
        };
        self.tables[at].flows.insert(key, flow);
        Ok(())
    }

    /// Takes a flow out.
    pub fn remove(&mut self, flow: u32) {
        for table in &mut self.tables {
            table.flows.retain(|_, &mut other| other != flow);
        }
        self.tables.retain(|table| !table.flows.is_empty());
    }

    /// Whether there are flows on one port only.
    pub fn has_ports(&self) -> bool {
        self.tables.iter().any(MaskTable::is_on_port)
    }

    /// The flows that a frame belongs to: the most specific one, and, if that is a flow on one
    /// port, the flow on the other port. Each limits what its own port sends and receives,
    /// independently of the other. The sender's comes first.
    #[inline]
    pub fn find(&self, key: &FrameKey) -> [Option<u32>; 2] {
        let other = |tables: &[MaskTable], words: &Words| {
            let own = tables[0].is_on_port();
            let mut ports = tables.iter().filter(|table| own && table.is_on_port());
            ports.find_map(|table| table.find(words))
        };
        for (i, table) in self.tables.iter().enumerate() {
            if let Some(flow) = table.find(&key.sent) {
                return [Some(flow), other(&self.tables[i..], &key.received)];
            }
            if let Some(flow) = table.find(&key.received) {
                return [other(&self.tables[i..], &key.sent), Some(flow)];
            }
        }
        [None, None]
    }

    /// The flow on a frame's receiver that it belongs to.
    pub fn find_receiver(&self, key: &FrameKey) -> Option<u32> {
        let mut ports = self.tables.iter().filter(|table| table.is_on_port());
        ports.find_map(|table| table.find(&key.received))
    }
}

#[cfg(test)]
mod tests;
