//! What a worker holds of ports, queues and domains.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::lane::{LANES_MAX, LaneIndex};
use crate::lookup::{Lookup, Mac, PortIndex};
use crate::pace::Pace;
use crate::port::{Batch, Link};
use crate::qos::crowd::Crowd;
use crate::qos::schedule::Credit;
use crate::qos::shape::{Flows, Shaped};

/// A queue's index among those of its worker.
pub type QueueIndex = u32;

/// How frames get out by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The lanes that have a way of their own, a bit each: a queue, or for a patch each lane.
    pub lanes: u64,
    /// The lane that sends for all others.
    pub home: LaneIndex,
    /// The port at the other end, if it is a patch.
    pub patch: Option<PortIndex>,
}

impl Ways {
    /// Whether a lane has a way of its own.
    #[inline(always)]
    pub fn has(&self, lane: LaneIndex) -> bool {
        self.lanes >> lane & 1 != 0
    }
}

/// What all lanes are told of a port.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Where it stands.
    pub place: PortIndex,
    /// Which turn of that place it is.
    pub turn: u32,
    /// The domain that it joins.
    pub domain: u32,
    /// The address that is known to be behind it.
    pub mac: Option<Mac>,
    /// How users call it.
    pub name: Arc<str>,
    /// Whether it leads out of the host.
    pub uplink: bool,
    /// How frames get out by it.
    pub ways: Ways,
}

/// A port as a worker holds it, its own or another's.
pub(super) struct Port {
    pub turn: u32,
    pub domain: u32,
    pub mac: Option<Mac>,
    pub name: Arc<str>,
    pub uplink: bool,
    pub ways: Ways,
    /// Frames of the current batch that go here.
    pub queue: Vec<u16>,
    /// The queue of this lane by which they do.
    pub sends: Option<QueueIndex>,
    /// All its queues that this lane has.
    pub queues: Vec<QueueIndex>,
    pub closed: bool,
    pub violations: u32,
    /// Its limits and the like, if it has any.
    pub shaped: Option<Box<Shaped>>,
    /// Who sent it frames while it did not keep up, if that ever was.
    pub crowd: Option<Box<Crowd>>,
    /// The VLAN that it gives access to; 0 if it bears all.
    pub vlan: u16,
    /// Its place among the members of its domain, if it is one here.
    pub member: Option<u32>,
}

impl Port {
    /// Has a lookup function know of the port, behind which `mac` is known to be.
    pub fn present(&self, place: PortIndex, mac: Option<Mac>, lookup: &mut dyn Lookup) {
        lookup.introduce(place, &self.name, self.uplink);
        lookup.attach(place, mac, self.vlan);
    }
}

/// One queue of a port: what is polled.
pub(super) struct Queue {
    pub link: Link,
    pub port: PortIndex,
    /// The guest whose doorbell wakes it.
    pub guest: Option<u32>,
    pub pace: Pace,
    pub state: State,
    /// The lanes over which its flows are spread, a bit each; 0 for none.
    pub spreads: u64,
    /// The lanes to which its last batch crossed.
    pub crosses: u64,
    /// The queue to which all of its last batch went.
    pub follows: Option<QueueIndex>,
    /// Its other side may not have noticed what was delivered.
    pub owes: bool,
    /// What is left of its last batch, where that could not go on and its link cannot keep it.
    pub kept: Option<Box<Batch>>,
    /// Its standing in the round.
    pub credit: Credit,
    /// Its level, the highest first.
    pub level: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In the round; `true` until the first look after a wake-up.
    Polled {
        woken: bool,
    },
    Asleep,
    /// Its next frame must wait, for its own rate's sake or its destination's.
    Held,
    /// Frames leave by it, but none are taken from it.
    SendsOnly,
    Closed,
}

/// A guest's doorbell, and the queues that it wakes.
pub(super) struct Doorbell {
    pub file: Arc<OwnedFd>,
    pub queues: Vec<QueueIndex>,
}

/// A segment: the ports that reach each other.
pub(super) struct Domain {
    pub turn: u32,
    pub lookup: Box<dyn Lookup>,
    /// How many ports it has, on all lanes.
    pub ports: usize,
    /// Those that this lane has a way to.
    pub members: Vec<PortIndex>,
    /// How many of the others are each lane's.
    pub others: [u32; LANES_MAX],
    /// The lanes that have some of them, a bit each.
    pub elsewhere: u64,
    /// How many ports and flows have limits and the like.
    pub shaped: u32,
    /// Its flows.
    pub flows: Option<Box<Flows>>,
}

impl Domain {
    /// Whether a receiver may have several senders.
    #[inline]
    pub fn may_crowd(&self) -> bool {
        self.ports > 2
    }

    pub fn new(turn: u32, lookup: Box<dyn Lookup>) -> Domain {
        Domain {
            turn,
            lookup,
            ports: 0,
            members: Vec::new(),
            others: [0; LANES_MAX],
            elsewhere: 0,
            shaped: 0,
            flows: None,
        }
    }

    /// Counts a port of another lane's in or out.
    pub fn count_other(&mut self, lane: LaneIndex, joins: bool) {
        let Some(count) = self.others.get_mut(usize::from(lane)) else {
            return;
        };
        *count = match joins {
            true => *count + 1,
            false => count.saturating_sub(1),
        };
        let bit = 1 << lane;
        match *count {
            0 => self.elsewhere &= !bit,
            _ => self.elsewhere |= bit,
        }
    }
}
