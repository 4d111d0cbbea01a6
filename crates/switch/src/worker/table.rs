//! The ports and domains of the switch as one lane knows them, and the queues that the lane serves.
//!
//! Ports and domains have the same slots on all lanes. A slot is reused when its port or domain is
//! gone; its generation tells the present entry from the former one.

mod entries;

use std::sync::Arc;
use std::time::Instant;

use super::connections::Connections;
use super::slots::Slots;
use crate::handoff::Report;
use crate::ids::{DomainIndex, Generation, LaneIndex, PORTS_MAX, PortIndex, QueueIndex};
use crate::lookup::{Lookup, Seconds};
use crate::memory::LanePorts;
use crate::pace::Pace;
use crate::properties::Share;
use crate::qos::flow::{LaneFlow, LaneFlows};
use crate::qos::policy::PortShaping;
use crate::qos::threshold::{FrameSource, RingThreshold};
use crate::qos::token_bucket::clock;
use crate::settled::SettledFlows;

pub(super) use entries::{DomainEntry, PortEntry, QueueEntry, QueueState};
pub use entries::{Egress, PortSetup};
pub(crate) use entries::{Passage, QueueSetup};

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
    /// The flows that the kernel passes on by itself, if it does.
    pub settled: Option<Arc<SettledFlows>>,
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
            settled: None,
        }
    }

    /// Takes back what is settled by way of a domain: something about it is another now.
    pub fn take_back(&self, domain: DomainIndex) {
        if let Some(settled) = &self.settled {
            settled.take_back_of_domain(domain);
        }
    }

    /// Takes back what is settled by way of a port's domain.
    pub fn take_back_of(&self, port: PortIndex) {
        if let Some(port) = self.ports.get(port) {
            self.take_back(port.domain);
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

    /// The connections of a port that others are behind.
    pub fn connections(&mut self, front: PortIndex) -> Option<&mut Connections> {
        self.ports.get_mut(front)?.connections.as_deref_mut()
    }

    /// The port that counts as the source of what a port sends: itself, or the one that it is behind.
    #[inline]
    pub fn front_of(&self, port: PortIndex) -> PortIndex {
        let front = self.ports.get(port).and_then(|port| port.front);
        front.unwrap_or(port)
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
        match queue.link.reserve_if_full(frames) {
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
            let is_member = |entry: &&PortEntry| entry.domain == index && entry.front.is_none();
            if let Some(entry) = entry.filter(is_member) {
                entry.introduce(port, entry.mac, &mut *lookup);
            }
        }
        if let Some(domain) = self.domains.get_mut(index) {
            domain.lookup = lookup;
        }
        self.take_back(index);
    }

    /// Adds a port of the switch in a free slot, without its queues.
    pub fn add_port(&mut self, setup: &PortSetup) {
        self.counters.port(setup.port).reset();
        let mut port = PortEntry::new(setup);
        if let Some(front) = setup.behind {
            if let Some(front) = self.ports.get_mut(front) {
                let connections = front.connections.get_or_insert_default();
                connections.add(setup.port, !setup.waits, clock(Instant::now()));
            }
        } else if let Some(domain) = self.domains.get_mut(setup.domain) {
            domain.ports += 1;
            domain.join(&mut port, setup.port, self.lane);
            port.introduce(setup.port, port.mac, &mut *domain.lookup);
        }
        self.ports.put(setup.port, port);
        self.take_back(setup.domain);
    }

    /// Removes a port, which has no queues here any more.
    pub fn remove_port(&mut self, index: PortIndex) {
        let Some(port) = self.ports.take(index) else {
            return;
        };
        if let Some(front) = port.front {
            if let Some(connections) = self.connections(front) {
                connections.remove(index);
            }
        } else if let Some(domain) = self.domains.get_mut(port.domain) {
            domain.ports -= 1;
            domain.leave(&mut self.ports, &port, self.lane);
            domain.lookup.detach(index);
        }
        self.take_back(port.domain);
        if let Some(settled) = &self.settled {
            settled.take_back_of_port(index);
        }
    }

    /// Changes how frames leave by a port.
    pub fn set_egress(&mut self, index: PortIndex, egress: Egress) {
        let Some(mut port) = self.ports.take(index) else {
            return;
        };
        if port.front.is_some() {
            port.egress = egress;
        } else if let Some(domain) = self.domains.get_mut(port.domain) {
            domain.leave(&mut self.ports, &port, self.lane);
            port.egress = egress;
            domain.join(&mut port, index, self.lane);
        }
        self.ports.put(index, port);
    }

    /// Closes a port: its lookup function forgets the addresses behind it.
    pub fn close_port(&mut self, index: PortIndex) {
        let Some(port) = self.ports.get_mut(index) else {
            return;
        };
        port.closed = true;
        let domain = port.domain;
        if port.front.is_none()
            && let Some(domain) = self.domains.get_mut(port.domain)
        {
            domain.lookup.detach(index);
            port.introduce(index, None, &mut *domain.lookup);
        }
        self.take_back(domain);
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
        let is_guest = setup.doorbell.is_some();
        self.links += usize::from(setup.polled && !is_guest);
        let queue = QueueEntry::new(setup, port, self.shaping(port), pace);
        self.queues.put(index, queue);
        if let Some(port) = self.ports.get_mut(port) {
            port.sends_by.get_or_insert(index);
            port.queues.push(index);
            if is_guest && port.threshold.is_none() {
                port.threshold = Some(Box::<RingThreshold>::default());
            }
        }
        index
    }

    /// Takes out a queue, whose port names it no more.
    pub fn take_queue(&mut self, index: QueueIndex) -> Option<QueueEntry> {
        let queue = self.queues.take(index)?;
        self.links -= usize::from(queue.polled && queue.doorbell.is_none());
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
