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
    /// Has a port keep to other limits. Those who waited for it look again; what was on its way to it
    /// in a line is dropped and counted.
    pub(crate) fn set_shape(&mut self, place: PortIndex, shape: Option<Arc<Shape>>, mtu: u16) {
        self.forget_shape(place);
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
    }

    /// Has a port have no limits any more.
    pub(super) fn forget_shape(&mut self, place: PortIndex) {
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return;
        };
        let Some(mut shaped) = port.shaped.take() else {
            return;
        };
        if let Some(domain) = slot_mut(&mut self.domains, port.domain) {
            domain.shaped -= 1;
        }
        let counters = self.counters.port(place);
        let waited = shaped.backlog.as_ref().map_or(0, |line| line.len());
        counters.dropped(Reason::OverLimit, waited as u64);
        let line = shaped.wire.as_ref().and_then(|wire| wire.line.as_ref());
        counters.dropped(Reason::LineFull, line.map_or(0, |line| line.len()) as u64);
        let waiters: Vec<_> = shaped.waiters.drain().collect();
        for queue in waiters {
            self.resume(queue);
        }
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

    /// Removes a flow from a domain.
    pub(crate) fn remove_flow(&mut self, domain: u32, number: u32) {
        if let Some(domain) = slot_mut(&mut self.domains, domain)
            && let Some(flows) = domain.flows.as_mut()
            && flows.get(number).is_some()
        {
            flows.remove(number);
            domain.shaped -= 1;
        }
    }
}
