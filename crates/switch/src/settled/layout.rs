//! What lies in the maps: as in `programs.c`.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::ids::{DomainIndex, PORTS_MAX, PortIndex};

/// Most rules.
pub(super) const RULES: usize = 65_536;
/// Words of the map of epochs: one for each port and each domain.
pub(super) const EPOCHS: usize = 131_072;
const _: () = assert!(2 * PORTS_MAX < EPOCHS);
/// Cells that a rule depends on.
pub(super) const CELLS: usize = 3;

/// The cell of a port.
pub(super) fn cell_of_port(port: PortIndex) -> u32 {
    port.into()
}

/// The cell of a domain.
pub(super) fn cell_of_domain(domain: DomainIndex) -> u32 {
    (EPOCHS / 2) as u32 + domain % (EPOCHS / 2) as u32
}

/// A flow by the headers of its packets when they come, in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Key {
    /// The index of the interface.
    pub link: u32,
    /// Source and destination address; those of IPv4 as mapped ones.
    pub addresses: [[u8; 16]; 2],
    /// Source and destination port.
    pub ports: [[u8; 2]; 2],
    /// The IP protocol.
    pub protocol: u32,
}

/// Addresses or ports change.
pub(super) const REWRITE: u32 = 1;
/// The time to live is one less.
pub(super) const HOPS: u32 = 2;

/// Where and how a flow's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Hop {
    /// The index of the interface by which they leave.
    pub out: u32,
    /// What changes: see [`flagged`](Hop::flagged).
    pub flags: u32,
    /// Destination and source MAC address with which they come.
    pub macs: [u8; 12],
    /// Those with which they leave.
    pub to_macs: [u8; 12],
    /// Source and destination address with which they leave; of IPv6, those with which they come.
    pub addresses: [[u8; 16]; 2],
    /// Source and destination port.
    pub ports: [[u8; 2]; 2],
}

impl Hop {
    /// The same with the flags that follow: how `key` changes, and whether the time to live is one less.
    pub fn flagged(self, key: &Key, hops: bool) -> Hop {
        let rewrites = (self.addresses, self.ports) != (key.addresses, key.ports);
        let flags = [(rewrites, REWRITE), (hops, HOPS)];
        Hop {
            flags: flags.iter().map(|(is, flag)| u32::from(*is) * flag).sum(),
            ..self
        }
    }
}

/// A rule, as it lies in the map.
#[repr(C)]
pub(super) struct Rule {
    pub live: AtomicU32,
    pub out: AtomicU32,
    pub cells: [AtomicU32; CELLS],
    _spare: AtomicU32,
    pub epochs: [AtomicU64; CELLS],
    pub macs: [AtomicU32; 6],
    pub addresses: [AtomicU32; 2],
    pub ports: AtomicU32,
    pub flags: AtomicU32,
    pub until: AtomicU64,
    pub up: AtomicU64,
    pub last: AtomicU64,
    pub frames: AtomicU64,
    pub bytes: AtomicU64,
}

const _: () = assert!(size_of::<Rule>() == 128);
const _: () = assert!(size_of::<Key>() == 44);
