//! The entries of the table: ports, queues and domains.

use std::sync::Arc;

use crate::doorbell::Doorbell;
use crate::ids::{DomainIndex, Generation, LANES_MAX, LaneIndex, LaneMask, PortIndex, QueueIndex};
use crate::lookup::Lookup;
use crate::mac::Mac;
use crate::pace::Pace;
use crate::port::{BATCH, Batch, Link};
use crate::properties::Share;
use crate::qos::deficit::{Deficit, LEVEL_DEFAULT, level};
use crate::qos::flow::LaneFlows;
use crate::qos::policy::PortShaping;
use crate::qos::threshold::RingThreshold;
use crate::worker::connections::Connections;
use crate::worker::slots::Slots;

/// How frames leave by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The lanes that send by themselves: the lanes with a queue of the port, or all for a patch.
    pub lanes: LaneMask,
    /// The lane that sends for the others.
    pub lane: LaneIndex,
    /// The port at the other end, if it is a patch.
    pub patch: Option<PortIndex>,
}

impl Egress {
    /// Whether a lane sends by itself.
    #[inline(always)]
    pub fn has(&self, lane: LaneIndex) -> bool {
        self.lanes >> lane & 1 != 0
    }

    /// Whether a lane sends a copy of a frame that `origin` has flooded.
    pub(super) fn takes_flood(&self, lane: LaneIndex, origin: LaneIndex) -> bool {
        self.lane == lane && !self.has(origin)
    }
}

/// A port that all lanes are to know of.
#[derive(Clone, Debug)]
pub struct PortSetup {
    /// Its slot.
    pub port: PortIndex,
    /// The generation of its slot.
    pub generation: Generation,
    /// The domain that it joins.
    pub domain: DomainIndex,
    /// The address that is known to be behind it.
    pub mac: Option<Mac>,
    /// Its name.
    pub name: Arc<str>,
    /// Whether it leads out of the host.
    pub uplink: bool,
    /// How frames leave by it.
    pub egress: Egress,
    /// The port that it is [behind](crate::worker::connections), if it is.
    pub behind: Option<PortIndex>,
    /// Whether it waits for its guest.
    pub waits: bool,
}

/// A queue that a lane is to serve.
pub(crate) struct QueueSetup {
    pub link: Link,
    /// What wakes it, if it is a guest's.
    pub doorbell: Option<Arc<Doorbell>>,
    /// Whether frames are taken from it; else they only leave by it.
    pub polled: bool,
    /// The lanes over which its flows are spread; none if 0.
    pub spreads: LaneMask,
    /// The rest of its last batch, if that was held back.
    pub kept: Option<Box<Batch>>,
}

/// A port, of this lane or another.
pub(in crate::worker) struct PortEntry {
    pub generation: Generation,
    pub domain: DomainIndex,
    pub mac: Option<Mac>,
    pub name: Arc<str>,
    pub uplink: bool,
    pub egress: Egress,
    /// Frames of the current batch to be sent.
    pub egress_queue: Vec<u16>,
    /// The queue of this lane by which they leave.
    pub sends_by: Option<QueueIndex>,
    /// All its queues on this lane.
    pub queues: Vec<QueueIndex>,
    pub closed: bool,
    pub violations: u32,
    /// Its limits and the like, if it has any.
    pub shaping: Option<Box<PortShaping>>,
    /// The last slots of its ring, if it is a guest's.
    pub threshold: Option<Box<RingThreshold>>,
    /// The VLAN that it gives access to; 0 if it bears all.
    pub vlan: u16,
    /// Its position among the members of its domain, if it is one here.
    pub member: Option<u32>,
    /// The port that it is behind: then it is in no domain.
    pub front: Option<PortIndex>,
    /// Its TCP connections, if other ports are behind it.
    pub connections: Option<Box<Connections>>,
    /// Whether its guest may settle flows.
    pub settles: bool,
    /// The ports of its guest, if it is a guest's, in the order of the interfaces.
    pub siblings: Option<Arc<[(PortIndex, Generation)]>>,
    /// What settled flows need to know of it, if it is an interface of the host whose frames the kernel may pass on.
    pub passage: Option<Passage>,
}

/// An interface of the host between which the kernel may pass frames on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    /// Its index.
    pub interface: u32,
    /// Its MTU, in bytes.
    pub mtu: u16,
}

impl PortEntry {
    pub(super) fn new(setup: &PortSetup) -> PortEntry {
        PortEntry {
            generation: setup.generation,
            domain: setup.domain,
            mac: setup.mac,
            name: Arc::clone(&setup.name),
            uplink: setup.uplink,
            egress: setup.egress,
            egress_queue: Vec::with_capacity(BATCH),
            sends_by: None,
            queues: Vec::new(),
            closed: false,
            violations: 0,
            shaping: None,
            threshold: None,
            vlan: 0,
            member: None,
            front: setup.behind,
            connections: None,
            settles: false,
            siblings: None,
            passage: None,
        }
    }

    /// Introduces the port to a lookup function; `mac` is known to be behind it.
    pub fn introduce(&self, port: PortIndex, mac: Option<Mac>, lookup: &mut dyn Lookup) {
        lookup.introduce(port, &self.name, self.uplink);
        lookup.attach(port, mac, self.vlan);
    }
}

/// One queue of a port: the unit of polling.
pub(in crate::worker) struct QueueEntry {
    pub link: Link,
    pub port: PortIndex,
    /// What wakes it, if it is a guest's.
    pub doorbell: Option<Arc<Doorbell>>,
    pub pace: Pace,
    pub state: QueueState,
    /// Whether frames are taken from it; else they only leave by it.
    pub polled: bool,
    /// The lanes over which its flows are spread; none if 0.
    pub spreads: LaneMask,
    /// The lanes to which frames of its last batch were handed off.
    pub reached: LaneMask,
    /// The queue to which all of its last batch went.
    pub follows: Option<QueueIndex>,
    /// Whether its other side may not have noticed delivered frames.
    pub notify: bool,
    /// The rest of its last batch, where that could not go on and its link cannot keep it.
    pub kept: Option<Box<Batch>>,
    /// Its standing in the polling round.
    pub deficit: Deficit,
    /// Its level: 0 is the highest.
    pub level: u8,
}

impl QueueEntry {
    pub fn new(
        setup: QueueSetup,
        port: PortIndex,
        shaping: Option<&PortShaping>,
        pace: Pace,
    ) -> QueueEntry {
        let policy = shaping.map(|shaping| &shaping.policy);
        let share = policy.map_or(Share::default(), |policy| policy.share);
        let level = policy.map_or(LEVEL_DEFAULT, |policy| level(policy.priority));
        QueueEntry {
            link: setup.link,
            port,
            doorbell: setup.doorbell,
            pace,
            state: if setup.polled {
                QueueState::Polled { woken: false }
            } else {
                QueueState::SendsOnly
            },
            polled: setup.polled,
            spreads: setup.spreads,
            reached: 0,
            follows: None,
            notify: false,
            kept: setup.kept,
            deficit: Deficit::new(share),
            level,
        }
    }
}

/// Whether a queue is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum QueueState {
    /// In the polling round; `woken` until the first look after a wake-up.
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

/// A segment: the ports that reach each other.
pub(in crate::worker) struct DomainEntry {
    pub generation: Generation,
    pub lookup: Box<dyn Lookup>,
    /// Number of its ports, on all lanes.
    pub ports: usize,
    /// The ports that this lane sends by itself.
    pub members: Vec<PortIndex>,
    /// How many of the others each lane sends for.
    others: [u32; LANES_MAX],
    /// The lanes that send for some of them.
    pub elsewhere: LaneMask,
    /// Number of ports and flows with limits and the like.
    pub shaped: u32,
    /// Its flows.
    pub flows: Option<Box<LaneFlows>>,
}

impl DomainEntry {
    pub(super) fn new(generation: Generation, lookup: Box<dyn Lookup>) -> DomainEntry {
        DomainEntry {
            generation,
            lookup,
            ports: 0,
            members: Vec::new(),
            others: [0; LANES_MAX],
            elsewhere: 0,
            shaped: 0,
            flows: None,
        }
    }

    /// Whether a receiver may have several senders.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.ports > 2
    }

    /// Counts a port that another lane sends for in or out.
    fn count_other(&mut self, lane: LaneIndex, joins: bool) {
        let Some(count) = self.others.get_mut(usize::from(lane)) else {
            return;
        };
        *count = if joins {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        let bit = 1 << lane;
        if *count == 0 {
            self.elsewhere &= !bit;
        } else {
            self.elsewhere |= bit;
        }
    }

    /// Adds a port to the flooded ports, by this lane or by the lane that sends for it.
    pub(super) fn join(&mut self, port: &mut PortEntry, index: PortIndex, lane: LaneIndex) {
        if port.egress.has(lane) {
            port.member = Some(self.members.len() as u32);
            self.members.push(index);
        } else {
            port.member = None;
            self.count_other(port.egress.lane, true);
        }
    }

    /// Removes a port from the flooded ports.
    pub(super) fn leave(
        &mut self,
        ports: &mut Slots<PortEntry>,
        port: &PortEntry,
        lane: LaneIndex,
    ) {
        let Some(at) = port.member else {
            if !port.egress.has(lane) {
                self.count_other(port.egress.lane, false);
            }
            return;
        };
        self.members.swap_remove(at as usize);
        if let Some(&moved) = self.members.get(at as usize)
            && let Some(moved) = ports.get_mut(moved)
        {
            moved.member = Some(at);
        }
    }
}
