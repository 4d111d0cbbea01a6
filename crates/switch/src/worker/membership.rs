//! Who is on a worker: what it is told of ports, queues and domains. Called between two rounds, so
//! no batch is under way.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;

use super::{Domain, Doorbell, Placed, Port, Queue, QueueIndex, State, Ways, Worker};
use super::{slot, slot_mut};
use crate::lookup::{Answer, Command, Known, Lookup, PortIndex, Seconds};
use crate::pace::Pace;
use crate::port::{BATCH, Batch, Link};
use crate::properties::{DomainProperties, Share};
use crate::qos::schedule::Credit;

use super::properties::LEVEL;

/// A queue to be served by a lane.
pub(crate) struct Served {
    pub link: Link,
    /// The guest that it belongs to, and its doorbell.
    pub guest: Option<(u32, Arc<OwnedFd>)>,
    /// Whether frames are taken from it; else they leave by it only.
    pub polled: bool,
    /// The lanes over which its flows are spread, a bit each; 0 for none.
    pub spreads: u64,
    /// What is left of its last batch, if that was held back.
    pub kept: Option<Box<Batch>>,
}

impl Worker {
    /// Makes a domain at a place that none has.
    pub(crate) fn open_domain(&mut self, place: u32, turn: u32, lookup: Box<dyn Lookup>) {
        put_at(&mut self.domains, place, Domain::new(turn, lookup));
    }

    /// Removes a domain that has no ports.
    pub(crate) fn close_domain(&mut self, place: u32) {
        if let Some(domain) = self.domains.get_mut(place as usize) {
            *domain = None;
        }
    }

    /// Gives a domain other properties.
    pub(crate) fn configure_domain(&mut self, place: u32, properties: &DomainProperties) {
        if let Some(domain) = slot_mut(&mut self.domains, place) {
            domain.lookup.configure(properties);
        }
    }

    /// Gives a domain another lookup function.
    pub(crate) fn replace_lookup(&mut self, place: u32, mut lookup: Box<dyn Lookup>) {
        for (index, port) in (0..).zip(&self.ports) {
            if let Some(port) = port.as_ref().filter(|port| port.domain == place) {
                port.present(index, port.mac, &mut *lookup);
            }
        }
        if let Some(domain) = slot_mut(&mut self.domains, place) {
            domain.lookup = lookup;
        }
    }

    /// Asks something of a domain's lookup function.
    pub(crate) fn command(
        &mut self,
        place: u32,
        command: &Command<PortIndex>,
    ) -> Result<Answer, String> {
        let domain = slot_mut(&mut self.domains, place);
        domain.map_or(Ok(Answer::Done), |domain| domain.lookup.command(command))
    }

    /// Forgets what was learned in a domain.
    pub(crate) fn flush(&mut self, place: u32) {
        if let Some(domain) = slot_mut(&mut self.domains, place) {
            domain.lookup.flush();
        }
    }

    /// The addresses that a domain's lookup function knows.
    pub(crate) fn table(&self, place: u32) -> Vec<Known> {
        let now = self.started.elapsed().as_secs() as Seconds;
        let domain = slot(&self.domains, place);
        domain.map_or_else(Vec::new, |domain| domain.lookup.table(now))
    }

    /// Takes note of a port of the switch, at a place that none has, without its queues.
    pub(crate) fn place(&mut self, placed: &Placed) {
        let place = placed.place;
        self.counters.port(place).reset();
        let mut port = Port {
            turn: placed.turn,
            domain: placed.domain,
            mac: placed.mac,
            name: Arc::clone(&placed.name),
            uplink: placed.uplink,
            ways: placed.ways,
            queue: Vec::with_capacity(BATCH),
            sends: None,
            queues: Vec::new(),
            closed: false,
            violations: 0,
            shaped: None,
            crowd: None,
            vlan: 0,
            member: None,
        };
        if let Some(domain) = slot_mut(&mut self.domains, placed.domain) {
            domain.ports += 1;
            join(domain, &mut port, place, self.lane);
            port.present(place, port.mac, &mut *domain.lookup);
        }
        put_at(&mut self.ports, place.into(), port);
    }

    /// Forgets a port and lets go of its queues here.
    pub(crate) fn remove(&mut self, place: PortIndex) {
        self.take_queues(place);
        self.forget_shape(place);
        let Some(port) = self
            .ports
            .get_mut(usize::from(place))
            .and_then(Option::take)
        else {
            return;
        };
        if let Some(domain) = slot_mut(&mut self.domains, port.domain) {
            domain.ports -= 1;
            leave(domain, &mut self.ports, &port, self.lane);
            domain.lookup.detach(place);
        }
    }

    /// Changes how frames get out by a port.
    pub(crate) fn set_ways(&mut self, place: PortIndex, ways: Ways) {
        let Some(mut port) = self
            .ports
            .get_mut(usize::from(place))
            .and_then(Option::take)
        else {
            return;
        };
        if let Some(domain) = slot_mut(&mut self.domains, port.domain) {
            leave(domain, &mut self.ports, &port, self.lane);
            port.ways = ways;
            join(domain, &mut port, place, self.lane);
        }
        put_at(&mut self.ports, place.into(), port);
    }

    /// Begins to serve a queue of a port.
    pub(crate) fn serve_queue(&mut self, port: PortIndex, served: Served) -> Result<(), Errno> {
        let index = self.free.pop().unwrap_or(self.queues.len() as QueueIndex);
        let Served {
            link,
            guest,
            polled,
            spreads,
            kept,
        } = served;
        let watched = match polled {
            true => self.watch(index, &link, guest.as_ref()),
            false => Ok(()),
        };
        if let Err(error) = watched {
            self.watch.remove_link(&link);
            if (index as usize) < self.queues.len() {
                self.free.push(index);
            }
            return Err(error);
        }
        let queue = Queue {
            link,
            port,
            guest: guest.map(|(guest, _)| guest),
            pace: Pace::new(Instant::now()),
            state: match polled {
                true => State::Polled { woken: false },
                false => State::SendsOnly,
            },
            spreads,
            crosses: 0,
            follows: None,
            owes: false,
            kept,
            credit: Credit::new(Share::default()),
            level: LEVEL,
        };
        put_at(&mut self.queues, index, queue);
        self.rank(index);
        if let Some(port) = slot_mut(&mut self.ports, port.into()) {
            port.sends.get_or_insert(index);
            port.queues.push(index);
        }
        if polled {
            self.active.push(index);
        }
        Ok(())
    }

    /// Lets go of a port's queues here, and hands them out, each with the guest that it belongs
    /// to.
    pub(crate) fn take_queues(&mut self, place: PortIndex) -> Vec<Served> {
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return Vec::new();
        };
        port.sends = None;
        let queues = std::mem::take(&mut port.queues);
        let taken = queues.into_iter().filter_map(|index| {
            let mut queue = self.queues.get_mut(index as usize)?.take()?;
            self.free.push(index);
            self.unrank(index, queue.level, queue.state);
            if matches!(queue.state, State::Polled { .. }) {
                self.active.retain(|&active| active != index);
            }
            if queue.state == State::Asleep {
                queue.link.wake();
            }
            self.down.retain(|&down| down != index);
            self.watch.remove_link(&queue.link);
            let guest = queue.guest.map(|guest| (guest, self.leave(guest, index)));
            Some(Served {
                link: queue.link,
                guest: guest.and_then(|(guest, file)| Some((guest, file?))),
                polled: queue.state != State::SendsOnly,
                spreads: queue.spreads,
                kept: queue.kept,
            })
        });
        taken.collect()
    }

    /// Copies of the descriptors of a port's queues here from which frames are taken, if another
    /// switch can go on with them.
    pub(crate) fn files(&self, place: PortIndex) -> Vec<OwnedFd> {
        let queues = slot(&self.ports, place.into()).map_or(&[][..], |port| &port.queues);
        let queues = queues
            .iter()
            .filter_map(|&index| slot(&self.queues, index))
            .filter(|queue| queue.state != State::SendsOnly);
        let files = queues.flat_map(|queue| queue.link.files());
        files
            .filter_map(|fd| fd.try_clone_to_owned().ok())
            .collect()
    }

    /// Brings the counters up to date that the kernel keeps for a port.
    pub(crate) fn catch_up(&mut self, place: PortIndex) {
        let Some(port) = slot(&self.ports, place.into()) else {
            return;
        };
        for &index in &port.queues {
            if let Some(queue) = slot_mut(&mut self.queues, index) {
                queue.link.catch_up(self.counters.port(place));
            }
        }
    }

    /// Has what a queue is waited for by wake it.
    fn watch(
        &mut self,
        index: QueueIndex,
        link: &Link,
        guest: Option<&(u32, Arc<OwnedFd>)>,
    ) -> Result<(), Errno> {
        self.watch.add_link(index, link)?;
        let Some((guest, file)) = guest else {
            return Ok(());
        };
        if let Some(doorbell) = self.doorbells.get_mut(guest) {
            doorbell.queues.push(index);
            return Ok(());
        }
        self.watch.add_doorbell(*guest, file)?;
        let doorbell = Doorbell {
            file: Arc::clone(file),
            queues: vec![index],
        };
        self.doorbells.insert(*guest, doorbell);
        Ok(())
    }

    /// Takes a queue off its guest's doorbell.
    fn leave(&mut self, guest: u32, index: QueueIndex) -> Option<Arc<OwnedFd>> {
        let doorbell = self.doorbells.get_mut(&guest)?;
        doorbell.queues.retain(|&other| other != index);
        let file = Arc::clone(&doorbell.file);
        if doorbell.queues.is_empty() {
            // Closing the doorbell here would not end that: the guest's VMM holds it, too.
            self.watch.remove_doorbell(&file);
            self.doorbells.remove(&guest);
        }
        Some(file)
    }
}

/// Puts something at a place, which may be behind all others.
fn put_at<T>(slots: &mut Vec<Option<T>>, place: u32, what: T) {
    let place = place as usize;
    if slots.len() <= place {
        slots.resize_with(place + 1, || None);
    }
    slots[place] = Some(what);
}

/// Has floods of a domain reach a port, by its own way or by the lane that has one.
fn join(domain: &mut Domain, port: &mut Port, place: PortIndex, lane: u8) {
    if port.ways.has(lane) {
        port.member = Some(domain.members.len() as u32);
        domain.members.push(place);
    } else {
        port.member = None;
        domain.count_other(port.ways.home, true);
    }
}

/// Has them reach it no more.
fn leave(domain: &mut Domain, ports: &mut [Option<Port>], port: &Port, lane: u8) {
    let Some(at) = port.member else {
        if !port.ways.has(lane) {
            domain.count_other(port.ways.home, false);
        }
        return;
    };
    domain.members.swap_remove(at as usize);
    if let Some(&moved) = domain.members.get(at as usize)
        && let Some(moved) = slot_mut(ports, moved.into())
    {
        moved.member = Some(at);
    }
}
