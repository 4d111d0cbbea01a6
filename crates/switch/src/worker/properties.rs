//! What a worker is told of limits and flows. Called between two rounds, so no batch is under way.

use std::sync::Arc;

use super::{QueueIndex, State, Worker, slot, slot_mut};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::properties::{FlowAttributes, Share};
use crate::qos::schedule::{Credit, level};
use crate::qos::shape::{Flow, Shape, Shaped};

/// The level of ports that were given none.
pub(super) const LEVEL: u8 = 1;

impl Worker {
    /// Has a port keep to other limits. Those who waited for it look again; what is on its way to it
    /// in a line arrives when it was to arrive, or at once if nothing is delayed any more.
    pub(crate) fn set_shape(&mut self, place: PortIndex, shape: Option<Arc<Shape>>, mtu: u16) {
        let old = self.take_shape(place);
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return;
        };
        let (share, level, vlan) = match &shape {
            Some(shape) => (shape.share, level(shape.priority) as u8, shape.vlan),
            None => (Share::default(), LEVEL, 0),
        };
        if let Some(domain) = slot_mut(&mut self.domains, port.domain) {
            domain.shaped += u32::from(shape.is_some());
            if port.vlan != vlan {
                port.vlan = vlan;
                domain.lookup.detach(place);
                port.present(place, port.mac, &mut *domain.lookup);
            }
        }
        port.shaped = shape.map(|shape| Box::new(Shaped::new(shape, place)));
        for i in 0..port.queues.len() {
            let Some(queue) = slot_mut(&mut self.queues, port.queues[i]) else {
                continue;
            };
            queue.link.set_mtu(mtu);
            queue.credit = Credit::new(share);
            self.leveled += u32::from(level != LEVEL);
            self.leveled -= u32::from(queue.level != LEVEL);
            queue.level = level;
        }
        if let Some(old) = old {
            let (delayed, backlog) = old.into_lines();
            if let Some(line) = delayed {
                self.add_line(place, line);
            }
            if let Some(line) = backlog {
                self.add_backlog(place, line);
            }
        }
    }

    /// Has a port have no limits any more. Those who waited for it look again.
    fn take_shape(&mut self, place: PortIndex) -> Option<Box<Shaped>> {
        let port = slot_mut(&mut self.ports, place.into())?;
        let mut shaped = port.shaped.take()?;
        if let Some(domain) = slot_mut(&mut self.domains, port.domain) {
            domain.shaped -= 1;
        }
        let waiters: Vec<_> = shaped.waiters.drain().collect();
        for queue in waiters {
            self.resume(queue);
        }
        Some(shaped)
    }

    /// The same for a port that is removed: what was on its way to it goes nowhere.
    pub(super) fn forget_shape(&mut self, place: PortIndex) {
        let Some(shaped) = self.take_shape(place) else {
            return;
        };
        let (delayed, backlog) = shaped.into_lines();
        let lines = [delayed, backlog].into_iter().flatten();
        let lost: usize = lines.map(|line| line.len()).sum();
        let counters = self.counters.port(place);
        counters.dropped(Reason::Closed, lost as u64);
    }

    /// Gives a queue that is new here the standing of its port.
    pub(super) fn rank(&mut self, place: QueueIndex) {
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return;
        };
        let port = slot(&self.ports, queue.port.into());
        if let Some(shaped) = port.and_then(|port| port.shaped.as_deref()) {
            queue.credit = Credit::new(shaped.shape.share);
            queue.level = level(shaped.shape.priority) as u8;
            self.leveled += u32::from(queue.level != LEVEL);
        }
    }

    /// A queue waits no more: it leaves this lane.
    pub(super) fn unrank(&mut self, index: QueueIndex, level: u8, state: State) {
        self.leveled -= u32::from(level != LEVEL);
        if state == State::Held {
            // It is not known for whom it waits, if for anyone. Few ports are waited for.
            for port in self.ports.iter_mut().flatten() {
                if let Some(shaped) = port.shaped.as_deref_mut() {
                    shaped.waiters.remove(index);
                }
            }
        }
    }

    /// Adds a flow to a domain, on one of its ports if there is one.
    pub(crate) fn add_flow(
        &mut self,
        domain: u32,
        number: u32,
        attributes: &FlowAttributes,
        port: Option<PortIndex>,
        flow: Arc<Flow>,
    ) {
        if let Some(domain) = slot_mut(&mut self.domains, domain) {
            let flows = domain.flows.get_or_insert_default();
            flows.add(number, attributes, port, flow);
            domain.shaped += 1;
        }
    }

    /// Removes a flow from a domain. What waited for its limit goes on.
    pub(crate) fn remove_flow(&mut self, place: u32, number: u32) {
        let Some(domain) = slot_mut(&mut self.domains, place) else {
            return;
        };
        let flows = domain.flows.as_mut();
        if let Some(flow) = flows.and_then(|flows| flows.remove(number)) {
            domain.shaped -= 1;
            if let Some(line) = flow.line {
                self.let_go(place, number, line);
            }
        }
    }
}
