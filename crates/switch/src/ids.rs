//! Indices of ports, domains, queues and lanes, and how many of each there can be.
//!
//! Ports, domains and queues are in slots that are reused. Where an index may outlive the entry
//! that it names (a frame on its way to another lane, a frame in a delay line), the slot's
//! generation goes with it.

/// The slot of a port, the same on every lane.
pub type PortIndex = u16;
/// The slot of a domain, the same on every lane.
pub type DomainIndex = u32;
/// The slot of a queue, on its lane.
pub type QueueIndex = u32;
/// The index of a lane in its switch.
pub type LaneIndex = u8;
/// How often a slot has been given out: tells a port or a domain from an earlier one in its slot.
pub type Generation = u32;
/// A set of lanes, one bit each.
pub type LaneMask = u64;

/// Most ports of a switch. A domain has at least one, so there are no more domains. A port that was never there costs
/// next to nothing: tables reserve addresses for it, not memory.
pub const PORTS_MAX: usize = 65_535;
/// Most lanes of a switch.
pub const LANES_MAX: usize = 16;

// One number is no port's.
const _: () = assert!(PORTS_MAX <= PortIndex::MAX as usize);
const _: () = assert!(LANES_MAX <= LaneMask::BITS as usize);
