//! Which lanes serve a port's queues.

use std::sync::Arc;

use rustix::io::Errno;

use super::{AttachError, Lanes, Member};
use crate::doorbell::Doorbell;
use crate::ids::{LaneIndex, PortIndex};
use crate::lane::Lane;
use crate::port::Link;
use crate::properties::PortProperties;
use crate::worker::{Egress, QueueSetup, Worker};

impl Lanes {
    /// Gives a port other properties. Its queues move if its CPUs or its number of lanes change.
    pub fn set_properties(
        &mut self,
        port: PortIndex,
        properties: PortProperties,
    ) -> Result<(), AttachError> {
        let member = self.members.get_mut(usize::from(port));
        let Some(member) = member.and_then(Option::as_mut) else {
            return Ok(());
        };
        let (mac, mtu, number) = (member.mac, member.mtu, member.domain);
        let is = &member.properties;
        let moves = (&is.cpus, is.lanes) != (&properties.cpus, properties.lanes);
        if member.is_front && moves {
            return Err(AttachError::Property(
                "a port with ports behind it stays on its lane: delete it, and create it with other `cpus` or `lanes`".into(),
            ));
        }
        self.check_properties(&properties, mtu)?;
        self.policy(number, mac, &properties)?;
        let Some(member) = self.members[usize::from(port)].as_mut() else {
            return Ok(());
        };
        member.properties = properties;
        self.update_policy(port)?;
        let Some(member) = self.members[usize::from(port)].as_mut() else {
            return Ok(());
        };
        if moves && member.patch.is_none() && member.front.is_none() {
            self.reassign(port)?;
        }
        Ok(())
    }

    /// Moves a port's queues to the lanes that its properties name now.
    fn reassign(&mut self, port: PortIndex) -> Result<(), AttachError> {
        // Frames in a lane's delay line go on by the lane that sends for the port then.
        let take =
            move |worker: &mut Worker| (worker.take_queues(port), worker.take_delay_line(port));
        let (taken, mut lines): (Vec<_>, Vec<_>) = self.on_all(take).into_iter().unzip();
        let mut doorbell = None;
        let (mut links, mut kept) = (Vec::new(), Vec::new());
        for queue in taken.into_iter().flatten().filter(|queue| queue.polled) {
            doorbell = doorbell.or(queue.doorbell);
            links.push(queue.link);
            kept.push(queue.kept);
        }
        let Some(member) = self.members[usize::from(port)].as_mut() else {
            return Ok(());
        };
        for lane in std::mem::take(&mut member.lanes) {
            self.lanes[usize::from(lane)].queues -= 1;
        }
        let properties = member.properties.clone();
        let mut assigned = self.assign(links, doorbell, &properties);
        for ((_, queue), kept) in assigned.iter_mut().zip(kept) {
            queue.kept = kept;
        }
        let egress = egress(&assigned);
        self.on_all(move |worker| worker.set_egress(port, egress));
        self.serve(port, assigned)?;
        lines.extend(self.on_all(move |worker| worker.take_delay_line(port)));
        let lane = &self.lanes[usize::from(egress.lane)];
        lane.call(move |worker| {
            for line in lines.into_iter().flatten() {
                worker.add_delay_line(port, line);
            }
        });
        Ok(())
    }

    /// Assigns a port's queues to lanes.
    pub(super) fn assign(
        &mut self,
        links: Vec<Link>,
        doorbell: Option<Arc<Doorbell>>,
        properties: &PortProperties,
    ) -> Vec<(LaneIndex, QueueSetup)> {
        let mut lanes = self.candidates(&properties.cpus);
        lanes.truncate(properties.lanes.map_or(usize::MAX, usize::from));
        let mask = lanes.iter().fold(0, |mask, lane| mask | 1 << lane);
        // A link with several queues spreads flows over them. With fewer queues than lanes asked
        // for, the lanes spread them.
        let asked = properties.lanes.is_some() || (links.len() == 1 && !properties.cpus.is_empty());
        let spreads = if asked && links.len() < lanes.len() {
            mask
        } else {
            0
        };
        let mut also = Vec::new();
        if spreads != 0 {
            // Where each lane can send by itself, no frame is handed off a second time.
            also.extend(lanes.iter().skip(links.len()).filter_map(|&lane| {
                let link = links.first()?.another_way()?;
                Some((lane, sends_only(link)))
            }));
        }
        let queues = links.into_iter().zip(lanes.iter().cycle());
        let queues = queues.map(|(link, &lane)| {
            let queue = QueueSetup {
                link,
                doorbell: doorbell.clone(),
                polled: true,
                spreads,
                kept: None,
            };
            (lane, queue)
        });
        queues.chain(also).collect()
    }

    /// The lanes that may serve a port, the one with the least to do first: the lanes on its CPUs, or
    /// all if none is. A lane that is bound to no CPU counts as on the CPU of its own index.
    fn candidates(&mut self, cpus: &[u16]) -> Vec<LaneIndex> {
        let cpu = |lane: &Lane, i: usize| lane.cpu.unwrap_or(i);
        let named = |cpu: usize| cpus.iter().any(|&named| usize::from(named) == cpu);
        let lanes = self.lanes.iter_mut().enumerate();
        let mut lanes: Vec<_> = lanes
            .map(|(i, lane)| (!named(cpu(lane, i)), lane.load(), lane.queues, i))
            .collect();
        lanes.sort_unstable();
        let any = lanes.first().is_some_and(|&(other, ..)| other);
        lanes.retain(|&(other, ..)| any || !other);
        lanes.into_iter().map(|(.., i)| i as LaneIndex).collect()
    }

    /// Assigns a port's queues to lanes, which begin to serve them.
    fn serve(
        &mut self,
        port: PortIndex,
        queues: Vec<(LaneIndex, QueueSetup)>,
    ) -> Result<(), Errno> {
        self.count_queues(port, &queues);
        for (lane, queue) in queues {
            let lane = &self.lanes[usize::from(lane)];
            lane.call(move |worker| worker.add_queue(port, queue))?;
        }
        Ok(())
    }

    /// Adds a port's queues to the counts of their lanes.
    pub(super) fn count_queues(&mut self, port: PortIndex, queues: &[(LaneIndex, QueueSetup)]) {
        for (lane, _) in queues.iter().filter(|(_, queue)| queue.polled) {
            self.lanes[usize::from(*lane)].queues += 1;
            if let Some(member) = &mut self.members[usize::from(port)] {
                member.lanes.push(*lane);
            }
        }
    }
}

/// The queues of a port on the lane that serves another.
pub(super) fn beside(
    front: &Member,
    links: Vec<Link>,
    doorbell: Option<Arc<Doorbell>>,
) -> Vec<(LaneIndex, QueueSetup)> {
    let lane = front.lanes.first().copied().unwrap_or(0);
    let queue = |link| QueueSetup {
        link,
        doorbell: doorbell.clone(),
        polled: true,
        spreads: 0,
        kept: None,
    };
    links.into_iter().map(|link| (lane, queue(link))).collect()
}

fn sends_only(link: Link) -> QueueSetup {
    QueueSetup {
        link,
        doorbell: None,
        polled: false,
        spreads: 0,
        kept: None,
    }
}

/// How frames leave by a port whose queues are on these lanes.
pub(super) fn egress(queues: &[(LaneIndex, QueueSetup)]) -> Egress {
    let lanes = queues.iter().map(|&(lane, _)| lane);
    Egress {
        lanes: lanes.clone().fold(0, |mask, lane| mask | 1 << lane),
        lane: lanes.clone().next().unwrap_or(0),
        patch: None,
    }
}
