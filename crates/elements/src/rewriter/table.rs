//! Tables of flows: what their flows keep of their packets, and how long they live.

use super::flow::Flow;

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;

/// What a table's flows keep of their packets in [`Flow::state`], and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// Packets, up to three, and whether one was a reply.
    Datagrams,
    /// Data and ends of either direction.
    Connections,
}

/// How long a table's flows live after their last packet, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// How long a flow cannot be given up for another; 0: it always can.
    pub guarantee: u64,
    /// Flows with nothing special about them.
    pub plain: u64,
    /// Connections with data both ways; streams of datagrams.
    pub active: u64,
    /// Connections that ended.
    pub done: u64,
}

/// A table of a set.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// What its flows keep.
    pub kind: Kind,
    /// How long they live.
    pub timeouts: Timeouts,
}

/// [`Flow::state`] of [`Kind::Connections`]: the forward direction is done; shifted by one, the
/// reply direction.
pub const DONE: u8 = 1;
/// Both directions are done.
pub const BOTH_DONE: u8 = 3;
/// There was data in the forward direction; shifted by one, in the reply direction.
pub const DATA: u8 = 4;
/// There was data both ways.
pub const BOTH_DATA: u8 = 12;
/// [`Flow::state`] of [`Kind::Datagrams`]: there was a reply.
pub const REPLIED: u8 = 1;
/// Three packets or more; the bits below count.
pub const THREE: u8 = 6;

impl Table {
    /// When flow `flow` may not be given up any more.
    #[inline]
    pub fn guaranteed(&self, flow: &Flow) -> u64 {
        flow.last.saturating_add(self.timeouts.guarantee)
    }

    /// When a flow's time is up.
    pub fn expires(&self, flow: &Flow) -> u64 {
        let timeouts = &self.timeouts;
        let timeout = match self.kind {
            Kind::Connections if flow.state & BOTH_DONE == BOTH_DONE => timeouts.done,
            Kind::Connections if flow.state & BOTH_DATA == BOTH_DATA => timeouts.active,
            Kind::Datagrams if flow.state > THREE => timeouts.active,
            _ => timeouts.plain,
        };
        flow.last.saturating_add(timeout)
    }
}
