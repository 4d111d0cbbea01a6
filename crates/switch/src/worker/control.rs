//! The jobs of the control thread. A worker does them between two rounds, so no batch is under way.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Worker;
use super::table::{Egress, PortSetup, QueueSetup, QueueState};
use crate::counters::Reason;
use crate::doorbell::Doorbell;
use crate::ids::{DomainIndex, Generation, PortIndex};
use crate::late;
use crate::lookup::{Answer, Command, Known, Lookup, Seconds};
use crate::pace::Pace;
use crate::port::{Link, LinkRecord};
use crate::properties::{DomainProperties, FlowAttributes, Share};
use crate::qos::deficit::{Deficit, LEVEL_DEFAULT, level};
use crate::qos::delay_line::DelayLine;
use crate::qos::flow::SharedFlow;
use crate::qos::policy::{PortPolicy, PortShaping};
use crate::qos::token_bucket::{Nanos, clock};

/// Timers that a port with limits and the like may need: for its rate and for its delay line.
const TIMERS_PER_PORT: usize = 2;
/// Timers that a flow may need.
const TIMERS_PER_FLOW: usize = 1;

impl Worker {
    /// Makes a domain in a free slot.
    pub(crate) fn open_domain(
        &mut self,
        domain: DomainIndex,
        generation: Generation,
        lookup: Box<dyn Lookup>,
    ) {
        self.table.open_domain(domain, generation, lookup);
    }

    /// Removes a domain that has no ports.
    pub(crate) fn close_domain(&mut self, domain: DomainIndex) {
        let flows = self.table.flows(domain).map_or(0, |flows| flows.len());
        for _ in 0..flows {
            self.shaping.remove_subject(TIMERS_PER_FLOW);
        }
        self.table.close_domain(domain);
    }

    /// Gives a domain other properties.
    pub(crate) fn configure_domain(&mut self, domain: DomainIndex, properties: &DomainProperties) {
        if let Some(domain) = self.table.domains.get_mut(domain) {
            domain.lookup.configure(properties);
        }
        self.table.take_back(domain);
    }

    /// Gives a domain another lookup function.
    pub(crate) fn replace_lookup(&mut self, domain: DomainIndex, lookup: Box<dyn Lookup>) {
        self.table.replace_lookup(domain, lookup);
    }

    /// Asks something of a domain's lookup function.
    pub(crate) fn command(
        &mut self,
        domain: DomainIndex,
        command: &Command<PortIndex>,
    ) -> Result<Answer, String> {
        let domain = self.table.domains.get_mut(domain);
        domain.map_or(Ok(Answer::Done), |domain| domain.lookup.command(command))
    }

    /// Forgets the learned entries of a domain.
    pub(crate) fn flush(&mut self, domain: DomainIndex) {
        if let Some(domain) = self.table.domains.get_mut(domain) {
            domain.lookup.flush();
        }
        self.table.take_back(domain);
    }

    /// The addresses that a domain's lookup function knows.
    pub(crate) fn known_addresses(&self, domain: DomainIndex) -> Vec<Known> {
        let now = self.clock.started.elapsed().as_secs() as Seconds;
        let domain = self.table.domains.get(domain);
        domain.map_or_else(Vec::new, |domain| domain.lookup.table(now))
    }

    /// Adds a port of the switch in a free slot, without its queues.
    pub(crate) fn add_port(&mut self, setup: &PortSetup) {
        self.table.add_port(setup);
    }

    /// Removes a port and its queues here. Frames on their way to it are dropped.
    pub(crate) fn remove_port(&mut self, port: PortIndex) {
        self.take_queues(port);
        if let Some(shaping) = self.take_shaping(port) {
            let (delayed, backlog) = shaping.into_lines();
            let lines = [delayed, backlog].into_iter().flatten();
            let lost: usize = lines.map(|line| line.len()).sum();
            let counters = self.table.counters.port(port);
            counters.dropped(Reason::Closed, lost as u64);
        }
        self.table.remove_port(port);
    }

    /// Changes how frames leave by a port.
    pub(crate) fn set_egress(&mut self, port: PortIndex, egress: Egress) {
        self.table.set_egress(port, egress);
    }

    /// Begins to serve a queue of a port.
    pub(crate) fn add_queue(
        &mut self,
        port: PortIndex,
        mut setup: QueueSetup,
    ) -> Result<(), Errno> {
        if let Some(entry) = self.table.ports.get(port) {
            setup.link.set_settles(entry.settles);
        }
        let (polled, is_kept) = (setup.polled, setup.kept.is_some());
        if polled {
            let index = self.table.next_queue();
            self.polling
                .watch(index, &setup.link, setup.doorbell.as_ref())?;
        }
        let pace = Pace::new(Instant::now());
        let index = self.table.add_queue(port, setup, pace);
        self.polling.add(index, polled, self.table.queues.len());
        self.shaping.add_queue(is_kept, self.table.links);
        let level = self.table.queues.get(index).map(|queue| queue.level);
        self.round
            .change_level(LEVEL_DEFAULT, level.unwrap_or(LEVEL_DEFAULT));
        Ok(())
    }

    /// Stops serving a port's queues, and returns them.
    pub(crate) fn take_queues(&mut self, port: PortIndex) -> Vec<QueueSetup> {
        let queues = self.table.take_queues_of(port).into_iter();
        let taken = queues.filter_map(|index| {
            let mut queue = self.table.take_queue(index)?;
            self.round.change_level(queue.level, LEVEL_DEFAULT);
            self.shaping.remove_queue(queue.kept.is_some());
            if queue.state == QueueState::Held {
                // It is not known for which port it waits. Few ports are waited for.
                for port in self.table.ports.iter_mut() {
                    if let Some(shaping) = port.shaping.as_deref_mut() {
                        shaping.waiters.remove(index);
                    }
                }
            }
            let doorbell = self.polling.remove(index, &mut queue);
            Some(QueueSetup {
                link: queue.link,
                doorbell,
                polled: queue.polled,
                spreads: queue.spreads,
                kept: queue.kept,
            })
        });
        taken.collect()
    }

    /// Gives the queue of a port another link, to which the frames go that the old one's other side has not read.
    /// Returns the old queues.
    pub(crate) fn replace_queue(
        &mut self,
        port: PortIndex,
        link: Link,
        doorbell: Arc<Doorbell>,
    ) -> Result<Vec<QueueSetup>, Errno> {
        let old = self.take_queues(port);
        let setup = QueueSetup {
            link,
            doorbell: Some(doorbell),
            polled: true,
            spreads: old.first().map_or(0, |queue| queue.spreads),
            kept: None,
        };
        let runs = !matches!(setup.link, Link::Waiting(_));
        self.add_queue(port, setup)?;
        let front = self.table.front_of(port);
        if front != port {
            let waited = |queue: &QueueSetup| matches!(queue.link, Link::Waiting(_));
            let has_gone = !runs && !old.iter().all(waited);
            if (runs || has_gone)
                && let Some(connections) = self.table.connections(front)
            {
                connections.set_running(port, runs, clock(Instant::now()));
            }
            if has_gone {
                // What it has not read is of its connection.
                return Ok(old);
            }
        }
        for queue in &old {
            let frames = queue.link.unread();
            let (count, bytes) = late::size(&frames);
            self.table.counters.port(port).leave_again(count, bytes);
            self.deliver_late(port, &frames);
        }
        Ok(old)
    }

    /// The ports behind a port whose connections are over for `grace`, or had no segment for `idle`.
    pub(crate) fn over(
        &mut self,
        front: PortIndex,
        grace: Duration,
        idle: Duration,
    ) -> Vec<PortIndex> {
        let now = clock(Instant::now());
        let [grace, idle] = [grace, idle].map(|time| time.as_nanos() as Nanos);
        let connections = self.table.connections(front);
        connections.map_or_else(Vec::new, |it| it.over(now, grace, idle))
    }

    /// Copies of the descriptors of a port's polled queues here, if another switch can go on with
    /// them.
    pub(crate) fn files(&self, port: PortIndex) -> Vec<OwnedFd> {
        let queues = self.table.ports.get(port);
        let queues = queues.map_or(&[][..], |port| &port.queues).iter();
        let queues = queues
            .filter_map(|&index| self.table.queues.get(index))
            .filter(|queue| queue.polled);
        let files = queues.flat_map(|queue| queue.link.files());
        files
            .filter_map(|fd| fd.try_clone_to_owned().ok())
            .collect()
    }

    /// Changes what the record of a port's links says.
    pub(crate) fn set_link(&mut self, port: PortIndex, record: &LinkRecord) -> Result<(), String> {
        let Some(entry) = self.table.ports.get(port) else {
            return Ok(());
        };
        let queues = entry.queues.iter();
        queues
            .copied()
            .try_for_each(|index| match self.table.queues.get_mut(index) {
                Some(queue) => queue.link.set_record(record),
                None => Ok(()),
            })
    }

    /// Brings the counters up to date that the kernel keeps for a port.
    pub(crate) fn catch_up(&mut self, port: PortIndex) {
        let Some(entry) = self.table.ports.get(port) else {
            return;
        };
        for &index in &entry.queues {
            if let Some(queue) = self.table.queues.get_mut(index) {
                queue.link.catch_up(self.table.counters.port(port));
            }
        }
    }

    /// Gives a port other limits and the like. The queues that wait for it look again; frames on
    /// their way to it arrive when they were to arrive, or at once if nothing is delayed any more.
    pub(crate) fn set_policy(
        &mut self,
        port: PortIndex,
        (policy, settles): (Option<Arc<PortPolicy>>, bool),
        mtu: u16,
    ) {
        let old = self.take_shaping(port);
        self.table.take_back_of(port);
        let Some(entry) = self.table.ports.get_mut(port) else {
            return;
        };
        entry.settles = settles;
        let (share, level, vlan) = match &policy {
            Some(policy) => (policy.share, level(policy.priority), policy.vlan),
            None => (Share::default(), LEVEL_DEFAULT, 0),
        };
        if let Some(domain) = self.table.domains.get_mut(entry.domain) {
            domain.shaped += u32::from(policy.is_some());
            if entry.vlan != vlan {
                entry.vlan = vlan;
                domain.lookup.detach(port);
                entry.introduce(port, entry.mac, &mut *domain.lookup);
            }
        }
        if let Some(policy) = policy {
            entry.shaping = Some(Box::new(PortShaping::new(policy, port)));
            let links = self.table.links;
            self.shaping.add_subject(TIMERS_PER_PORT, links);
        }
        if vlan != 0 {
            self.shaping.provide_scratch();
        }
        for &index in &entry.queues {
            let Some(queue) = self.table.queues.get_mut(index) else {
                continue;
            };
            queue.link.set_mtu(mtu);
            queue.link.set_settles(settles);
            queue.deficit = Deficit::new(share);
            self.round.change_level(queue.level, level);
            queue.level = level;
        }
        let (delayed, backlog) = old.map_or((None, None), |old| old.into_lines());
        if let Some(line) = delayed {
            self.move_delay_line(port, line);
        }
        if let Some(line) = backlog {
            self.move_backlog(port, line);
        }
    }

    /// Takes the limits and the like of a port. The queues that wait for it look again.
    fn take_shaping(&mut self, port: PortIndex) -> Option<Box<PortShaping>> {
        let entry = self.table.ports.get_mut(port)?;
        let mut shaping = entry.shaping.take()?;
        if let Some(domain) = self.table.domains.get_mut(entry.domain) {
            domain.shaped -= 1;
        }
        self.shaping.remove_subject(TIMERS_PER_PORT);
        for queue in shaping.waiters.drain() {
            self.polling.resume(&mut self.table, queue);
        }
        Some(shaping)
    }

    /// Takes the frames on their way to a port here, for another lane to go on with them.
    pub(crate) fn take_delay_line(&mut self, port: PortIndex) -> Option<DelayLine> {
        let wire = self.table.shaping_mut(port)?.wire.as_mut()?;
        let line = wire.line.as_mut()?;
        (!line.is_empty()).then(|| line.take())
    }

    /// Goes on with frames on their way to a port that another lane had.
    pub(crate) fn add_delay_line(&mut self, port: PortIndex, line: DelayLine) {
        self.move_delay_line(port, line);
    }

    /// Adds a flow to a domain, on one of its ports if there is one.
    pub(crate) fn add_flow(
        &mut self,
        domain: DomainIndex,
        number: u32,
        attributes: &FlowAttributes,
        port: Option<PortIndex>,
        flow: Arc<SharedFlow>,
    ) {
        if let Some(domain) = self.table.domains.get_mut(domain) {
            let flows = domain.flows.get_or_insert_default();
            flows.add(number, attributes, port, flow);
            domain.shaped += 1;
            let links = self.table.links;
            self.shaping.add_subject(TIMERS_PER_FLOW, links);
        }
        self.table.take_back(domain);
    }

    /// Removes a flow from a domain. Frames that waited for its rate go on.
    pub(crate) fn remove_flow(&mut self, domain: DomainIndex, number: u32) {
        let Some(entry) = self.table.domains.get_mut(domain) else {
            return;
        };
        let flows = entry.flows.as_mut();
        let Some(flow) = flows.and_then(|flows| flows.remove(number)) else {
            return;
        };
        entry.shaped -= 1;
        self.shaping.remove_subject(TIMERS_PER_FLOW);
        if let Some(line) = flow.backlog {
            self.send_removed_flow(domain, number, line);
        }
    }
}
