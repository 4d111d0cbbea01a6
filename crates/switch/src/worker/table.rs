//! The ports and domains of the switch as one lane knows them, and the queues that the lane serves.
//!
//! Ports and domains stand in the same slots on all lanes. A slot is used again when its port or
//! domain is gone; its generation tells the one there now from the one before.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::slots::Slots;
use crate::handoff::Report;
use crate::ids::{
    DomainIndex, Generation, LANES_MAX, LaneIndex, LaneMask, PORTS_MAX, PortIndex, QueueIndex,
};
use crate::lookup::{Lookup, Mac, Seconds};
use crate::memory::LanePorts;
use crate::pace::Pace;
use crate::port::{BATCH, Batch, Link};
use crate::properties::Share;
use crate::qos::deficit::{Deficit, LEVEL_DEFAULT, level};
use crate::qos::flow::{LaneFlow, LaneFlows};
use crate::qos::policy::PortShaping;
use crate::qos::threshold::{FrameSource, RingThreshold};

/// How frames leave by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The lanes that send by themselves: those with a queue of the port, or all for a patch.
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
    fn takes_flood(&self, lane: LaneIndex, origin: LaneIndex) -> bool {
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
}

/// A queue that a lane is to serve.
pub(crate) struct QueueSetup {
    pub link: Link,
    /// The guest that it belongs to, and its doorbell.
    pub guest: Option<(u32, Arc<OwnedFd>)>,
    /// Whether frames are taken from it; else they only leave by it.
    pub polled: bool,
    /// The lanes over which its flows are spread; none if 0.
    pub spreads: LaneMask,
    /// The rest of its last batch, if that was held back.
    pub kept: Option<Box<Batch>>,
}

/// A port, of this lane or another.
pub(super) struct PortEntry {
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
}

impl PortEntry {
    fn new(setup: &PortSetup) -> PortEntry {
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
        }
    }

    /// Introduces the port to a lookup function; `mac` is known to be behind it.
    pub fn introduce(&self, port: PortIndex, mac: Option<Mac>, lookup: &mut dyn Lookup) {
        lookup.introduce(port, &self.name, self.uplink);
        lookup.attach(port, mac, self.vlan);
    }
}

/// One queue of a port: the unit of polling.
pub(super) struct QueueEntry {
    pub link: Link,
    pub port: PortIndex,
    /// The guest whose doorbell wakes it.
    pub guest: Option<u32>,
    pub pace: Pace,
    pub state: QueueState,
    /// The lanes over which its flows are spread; none if 0.
    pub spreads: LaneMask,
    /// The lanes to which frames of its last batch were handed off.
    pub reached: LaneMask,
    /// The queue to which all of its last batch went.
    pub follows: Option<QueueIndex>,
    /// Whether its other side may not have noticed what was delivered.
    pub notify: bool,
    /// The rest of its last batch, where that could not go on and its link cannot keep it.
    pub kept: Option<Box<Batch>>,
    /// Its standing in the polling round.
    pub deficit: Deficit,
    /// Its level: 0 is the highest.
    pub level: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueState {
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
pub(super) struct DomainEntry {
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
    fn new(generation: Generation, lookup: Box<dyn Lookup>) -> DomainEntry {
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

    /// Has floods reach a port, by this lane or by the one that sends for it.
    fn join(&mut self, port: &mut PortEntry, index: PortIndex, lane: LaneIndex) {
        if port.egress.has(lane) {
            port.member = Some(self.members.len() as u32);
            self.members.push(index);
        } else {
            port.member = None;
            self.count_other(port.egress.lane, true);
        }
    }

    /// Has floods reach it no more.
    fn leave(&mut self, ports: &mut Slots<PortEntry>, port: &PortEntry, lane: LaneIndex) {
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

/// All ports and domains of a switch, the queues of one lane, and what the lane counts of ports.
pub(super) struct Table {
    pub lane: LaneIndex,
    pub ports: Slots<PortEntry>,
    pub domains: Slots<DomainEntry>,
    pub queues: Slots<QueueEntry>,
    free_queues: Vec<QueueIndex>,
    /// How many of the queues are host links' that are polled.
    pub links: usize,
    pub counters: LanePorts,
}

impl Table {
    pub fn new(lane: LaneIndex, counters: LanePorts) -> Table {
        Table {
            lane,
            ports: Slots::with_capacity(PORTS_MAX),
            domains: Slots::with_capacity(PORTS_MAX),
            queues: Slots::with_capacity(0),
            free_queues: Vec::new(),
            links: 0,
            counters,
        }
    }

    /// Whether a port's domain has ports or flows with limits and the like.
    #[inline]
    pub fn is_shaped(&self, port: PortIndex) -> bool {
        let domain = self
            .ports
            .get(port)
            .and_then(|port| self.domains.get(port.domain));
        domain.is_some_and(|domain| domain.shaped > 0)
    }

    /// A port's limits and the like.
    pub fn shaping(&self, port: PortIndex) -> Option<&PortShaping> {
        self.ports.get(port)?.shaping.as_deref()
    }

    /// A port's limits and the like.
    pub fn shaping_mut(&mut self, port: PortIndex) -> Option<&mut PortShaping> {
        self.ports.get_mut(port)?.shaping.as_deref_mut()
    }

    /// The flows of a domain.
    pub fn flows(&self, domain: DomainIndex) -> Option<&LaneFlows> {
        self.domains.get(domain)?.flows.as_deref()
    }

    /// A flow of a domain.
    pub fn flow_mut(&mut self, domain: DomainIndex, flow: u32) -> Option<&mut LaneFlow> {
        let flows = self.domains.get_mut(domain)?.flows.as_deref_mut()?;
        flows.get(flow)
    }

    /// The generation of the port in a slot.
    pub fn generation(&self, port: PortIndex) -> Option<Generation> {
        self.ports.get(port).map(|port| port.generation)
    }

    /// The weight of the port of a queue.
    pub fn share_of(&self, queue: QueueIndex) -> Share {
        let queue = self.queues.get(queue);
        let shaping = queue.and_then(|queue| self.shaping(queue.port));
        shaping.map_or(Share::default(), |shaping| shaping.policy.share)
    }

    /// Whether this lane sends a copy of a frame to a port that another lane has flooded.
    pub fn takes_flood(&self, port: PortIndex, origin: LaneIndex) -> bool {
        let port = self.ports.get(port);
        port.is_some_and(|port| port.egress.takes_flood(self.lane, origin))
    }

    /// How many slots of a port's ring so many frames are to leave free.
    #[inline]
    pub fn reserve(&mut self, port: PortIndex, source: FrameSource, frames: usize) -> u32 {
        let Some(port) = self.ports.get_mut(port) else {
            return 0;
        };
        let domain = self.domains.get(port.domain);
        if !domain.is_some_and(DomainEntry::is_contended) {
            return 0;
        }
        let queue = port.sends_by.and_then(|queue| self.queues.get_mut(queue));
        let (Some(queue), Some(threshold)) = (queue, &mut port.threshold) else {
            return 0;
        };
        match queue.link.crowded(frames) {
            Some(slots) => threshold.offer(source, frames as u32, slots),
            None => 0,
        }
    }

    /// Makes a domain in a free slot.
    pub fn open_domain(
        &mut self,
        index: DomainIndex,
        generation: Generation,
        lookup: Box<dyn Lookup>,
    ) {
        self.domains
            .put(index, DomainEntry::new(generation, lookup));
    }

    /// Removes a domain that has no ports.
    pub fn close_domain(&mut self, index: DomainIndex) {
        self.domains.take(index);
    }

    /// Tells a domain's lookup function what another lane's has learned.
    pub fn hear(&mut self, report: Report, now: Seconds) {
        if let Some(domain) = self.domains.get_mut(report.domain)
            && domain.generation == report.generation
        {
            domain.lookup.hear(report.news, now);
        }
    }

    /// Gives a domain another lookup function.
    pub fn replace_lookup(&mut self, index: DomainIndex, mut lookup: Box<dyn Lookup>) {
        for (port, entry) in (0..).zip(self.ports.iter()) {
            if let Some(entry) = entry.filter(|entry| entry.domain == index) {
                entry.introduce(port, entry.mac, &mut *lookup);
            }
        }
        if let Some(domain) = self.domains.get_mut(index) {
            domain.lookup = lookup;
        }
    }

    /// Adds a port of the switch in a free slot, without its queues.
    pub fn add_port(&mut self, setup: &PortSetup) {
        self.counters.port(setup.port).reset();
        let mut port = PortEntry::new(setup);
        if let Some(domain) = self.domains.get_mut(setup.domain) {
            domain.ports += 1;
            domain.join(&mut port, setup.port, self.lane);
            port.introduce(setup.port, port.mac, &mut *domain.lookup);
        }
        self.ports.put(setup.port, port);
    }

    /// Removes a port, which has no queues here any more.
    pub fn remove_port(&mut self, index: PortIndex) {
        let Some(port) = self.ports.take(index) else {
            return;
        };
        if let Some(domain) = self.domains.get_mut(port.domain) {
            domain.ports -= 1;
            domain.leave(&mut self.ports, &port, self.lane);
            domain.lookup.detach(index);
        }
    }

    /// Changes how frames leave by a port.
    pub fn set_egress(&mut self, index: PortIndex, egress: Egress) {
        let Some(mut port) = self.ports.take(index) else {
            return;
        };
        if let Some(domain) = self.domains.get_mut(port.domain) {
            domain.leave(&mut self.ports, &port, self.lane);
            port.egress = egress;
            domain.join(&mut port, index, self.lane);
        }
        self.ports.put(index, port);
    }

    /// Closes a port: its lookup function forgets what is behind it.
    pub fn close_port(&mut self, index: PortIndex) {
        let Some(port) = self.ports.get_mut(index) else {
            return;
        };
        port.closed = true;
        if let Some(domain) = self.domains.get_mut(port.domain) {
            domain.lookup.detach(index);
            port.introduce(index, None, &mut *domain.lookup);
        }
    }

    /// The slot that the next queue gets.
    pub fn next_queue(&self) -> QueueIndex {
        let free = self.free_queues.last().copied();
        free.unwrap_or(self.queues.len() as QueueIndex)
    }

    /// Adds a queue of a port in the slot [`next_queue`](Self::next_queue).
    pub fn add_queue(&mut self, port: PortIndex, setup: QueueSetup, pace: Pace) -> QueueIndex {
        let index = self.next_queue();
        self.free_queues.pop();
        let policy = self.shaping(port).map(|shaping| &shaping.policy);
        let share = policy.map_or(Share::default(), |policy| policy.share);
        let level = policy.map_or(LEVEL_DEFAULT, |policy| level(policy.priority));
        let is_guest = setup.guest.is_some();
        self.links += usize::from(setup.polled && !is_guest);
        let queue = QueueEntry {
            link: setup.link,
            port,
            guest: setup.guest.map(|(guest, _)| guest),
            pace,
            state: if setup.polled {
                QueueState::Polled { woken: false }
            } else {
                QueueState::SendsOnly
            },
            spreads: setup.spreads,
            reached: 0,
            follows: None,
            notify: false,
            kept: setup.kept,
            deficit: Deficit::new(share),
            level,
        };
        self.queues.put(index, queue);
        if let Some(port) = self.ports.get_mut(port) {
            port.sends_by.get_or_insert(index);
            port.queues.push(index);
            if is_guest && port.threshold.is_none() {
                port.threshold = Some(Box::new(RingThreshold::new()));
            }
        }
        index
    }

    /// Takes out a queue, whose port names it no more.
    pub fn take_queue(&mut self, index: QueueIndex) -> Option<QueueEntry> {
        let queue = self.queues.take(index)?;
        let is_link = queue.state != QueueState::SendsOnly && queue.guest.is_none();
        self.links -= usize::from(is_link);
        self.free_queues.push(index);
        Some(queue)
    }

    /// The queues of a port on this lane, which it loses.
    pub fn take_queues_of(&mut self, port: PortIndex) -> Vec<QueueIndex> {
        let Some(port) = self.ports.get_mut(port) else {
            return Vec::new();
        };
        port.sends_by = None;
        std::mem::take(&mut port.queues)
    }
}
