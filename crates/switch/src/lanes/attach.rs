//! Attaching and detaching ports.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::assignment::{self, beside};
use super::{Lanes, Member, port_id};
use crate::doorbell::Doorbell;
use crate::ids::{LaneIndex, PORTS_MAX, PortIndex};
use crate::lane::result;
use crate::mac::Mac;
use crate::port::Link;
use crate::properties::{PortProperties, Settle};
use crate::protocol::{PortId, PortKind};
use crate::qos::policy::PortPolicy;
use crate::worker::{PortSetup, QueueSetup, Worker};

/// A port to be attached.
pub struct Attach {
    /// A link for each of its queues.
    pub links: Vec<Link>,
    /// What it leads to.
    pub kind: PortKind,
    /// Its name.
    pub name: String,
    /// The number of the domain that it joins; made if this is its first port.
    pub domain: u32,
    /// The Ethernet address known to be behind it.
    pub mac: Option<Mac>,
    /// Its properties.
    pub properties: PortProperties,
    /// The port that gets this link instead of its own, and stays as it is otherwise.
    pub replaces: Option<PortIndex>,
    /// The port of the same domain that it is behind, if it is: it gets one TCP connection of that port at a time.
    pub behind: Option<PortIndex>,
}

/// Why a port could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There are too many.
    #[error("the switch has {PORTS_MAX} ports, the maximum: detach one first")]
    Full,
    /// The kernel would not watch its descriptor.
    #[error("cannot watch the port's descriptor: {0}")]
    Watch(#[from] Errno),
    /// An invalid property.
    #[error("{0}")]
    Property(String),
}

/// A port that the lanes do not know yet.
struct Joining {
    setup: PortSetup,
    policy: Option<Arc<PortPolicy>>,
    settles: bool,
    mtu: u16,
    queues: Vec<(LaneIndex, QueueSetup)>,
}

impl Joining {
    fn id(&self) -> PortId {
        port_id(self.setup.port, self.setup.generation)
    }
}

impl Lanes {
    /// Attaches a guest's ports, which `doorbell` wakes. All or none. Guests that come with the same name of a `shared`
    /// doorbell have one together.
    pub fn attach_guest(
        &mut self,
        ports: Vec<Attach>,
        doorbell: OwnedFd,
        shared: Option<u64>,
    ) -> Result<Vec<PortId>, AttachError> {
        let new = ports.iter().filter(|port| port.replaces.is_none());
        if self.free_slots() < new.count() {
            return Err(AttachError::Full);
        }
        let doorbell = self.doorbells.doorbell(doorbell, shared);
        let (mut joining, mut replacing, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for port in ports {
            if let Some(member) = port.replaces.and_then(|slot| self.member(slot)) {
                ids.push(member.id);
                replacing.push((member.id.slot(), port));
                continue;
            }
            match self.prepare(port, Some(Arc::clone(&doorbell))) {
                Ok(port) => {
                    ids.push(port.id());
                    joining.push(port);
                }
                Err(error) => {
                    for port in joining {
                        self.detach(port.setup.port);
                    }
                    return Err(error);
                }
            }
        }
        self.join(joining)?;
        for (port, attach) in replacing {
            if let Err(error) = self.replace(port, attach, &doorbell) {
                for id in ids {
                    self.detach(id.slot());
                }
                return Err(error.into());
            }
        }
        self.set_siblings(&ids);
        Ok(ids)
    }

    /// Gives an attached port another link, on the lane that serves it, between two rounds: no frame is lost.
    fn replace(
        &mut self,
        port: PortIndex,
        attach: Attach,
        doorbell: &Arc<Doorbell>,
    ) -> Result<(), Errno> {
        let member = self.members.get_mut(usize::from(port));
        let (Some(member), Some(mut link)) = (
            member.and_then(Option::as_mut),
            attach.links.into_iter().next(),
        ) else {
            return Ok(());
        };
        (member.kind, member.mtu) = (attach.kind, link.mtu());
        link.set_mtu(
            member
                .properties
                .mtu
                .map_or(member.mtu, |mtu| mtu.min(member.mtu)),
        );
        let Some(&lane) = member.lanes.first() else {
            return Ok(());
        };
        let doorbell = Arc::clone(doorbell);
        let replace = move |worker: &mut Worker| worker.replace_queue(port, link, doorbell);
        // The old link is dropped here, so that the lane does not wait for that.
        self.lanes[usize::from(lane)].call(replace).map(drop)
    }

    /// Attaches a host link's port.
    pub fn attach_link(&mut self, port: Attach) -> Result<PortId, AttachError> {
        let joining = self.prepare(port, None)?;
        let id = joining.id();
        self.join(vec![joining]).map(|_| id)
    }

    /// Makes a port that the lanes do not know yet. Invalid properties are refused here.
    fn prepare(
        &mut self,
        mut attach: Attach,
        doorbell: Option<Arc<Doorbell>>,
    ) -> Result<Joining, AttachError> {
        let own = attach.links.first().map_or(u16::MAX, Link::mtu);
        self.check_properties(&attach.properties, own)?;
        let policy = self.policy(attach.domain, attach.mac, &attach.properties)?;
        let domain = self.domain(attach.domain)?;
        let Some(port) = self.take_slot() else {
            self.leave_domain(attach.domain);
            return Err(AttachError::Full);
        };
        let mtu = attach.properties.mtu.map_or(own, |mtu| mtu.min(own));
        let settles = attach.properties.settle == Settle::On;
        for link in &mut attach.links {
            link.set_mtu(mtu);
        }
        let queues = match attach.behind.and_then(|front| self.member(front)) {
            None => self.assign(attach.links, doorbell, &attach.properties),
            // One lane knows all connections of the front.
            Some(front) => beside(front, attach.links, doorbell),
        };
        if let Some(front) = attach
            .behind
            .and_then(|front| self.members[usize::from(front)].as_mut())
        {
            front.is_front = true;
        }
        let generation = self.next_generation();
        self.status.set_closed(port, false);
        let setup = PortSetup {
            port,
            generation,
            domain,
            mac: attach.mac,
            name: attach.name.as_str().into(),
            uplink: attach.kind.is_uplink(),
            egress: assignment::egress(&queues),
            behind: attach.behind,
            waits: attach.kind == PortKind::Waiting,
        };
        self.members[usize::from(port)] = Some(Member {
            id: port_id(port, generation),
            name: attach.name,
            domain: attach.domain,
            kind: attach.kind,
            properties: attach.properties,
            mac: attach.mac,
            mtu: own,
            lanes: Vec::new(),
            patch: None,
            front: attach.behind,
            is_front: false,
        });
        self.count_queues(port, &queues);
        Ok(Joining {
            setup,
            policy,
            settles,
            mtu,
            queues,
        })
    }

    /// Adds ports to the lanes, then assigns their queues: all of them, or none.
    fn join(&mut self, joining: Vec<Joining>) -> Result<Vec<PortId>, AttachError> {
        let ids: Vec<_> = joining.iter().map(Joining::id).collect();
        let mut queues: Vec<Vec<_>> = self.lanes.iter().map(|_| Vec::new()).collect();
        let mut known = Vec::with_capacity(joining.len());
        for port in joining {
            for (lane, queue) in port.queues {
                queues[usize::from(lane)].push((port.setup.port, queue));
            }
            known.push((port.setup, (port.policy, port.settles), port.mtu));
        }
        let add = move |worker: &mut Worker| {
            for (setup, policy, mtu) in &known {
                worker.add_port(setup);
                // Limits are there before the first frame.
                worker.set_policy(setup.port, policy.clone(), *mtu);
            }
        };
        let serve = |worker: &mut Worker, queues: Vec<(PortIndex, QueueSetup)>| {
            let mut queues = queues.into_iter();
            queues.try_for_each(|(port, queue)| worker.add_queue(port, queue))
        };
        let served = match (self.lanes.as_slice(), queues.pop()) {
            ([lane], Some(queues)) => lane.call(move |worker| {
                add(worker);
                serve(worker, queues)
            }),
            (_, last) => {
                // No lane sees a frame of a port that another does not know yet.
                self.on_all(add);
                queues.extend(last);
                let busy = self.lanes.iter().zip(queues);
                let busy = busy.filter(|(_, queues)| !queues.is_empty());
                let asked: Vec<_> = busy
                    .map(|(lane, queues)| lane.submit(move |worker| serve(worker, queues)))
                    .collect();
                asked.into_iter().try_for_each(result)
            }
        };
        if let Err(error) = served {
            for id in ids {
                self.detach(id.slot());
            }
            return Err(error.into());
        }
        Ok(ids)
    }

    /// Detaches a port, with the ports behind it, and the other end if it is a patch; its links are closed. Returns whether
    /// there was one.
    pub fn detach(&mut self, port: PortIndex) -> bool {
        let member = self.members.get_mut(usize::from(port));
        let Some(member) = member.and_then(Option::take) else {
            return false;
        };
        if member.is_front {
            for behind in self.behind(port) {
                self.detach(behind);
            }
        }
        self.passages.remove(&port);
        self.remove_flows_on(member.id);
        // The queues are dropped here, so that no lane waits for it.
        let queues = self.on_all(move |worker| {
            let queues = worker.take_queues(port);
            worker.remove_port(port);
            queues
        });
        drop(queues);
        for lane in member.lanes {
            self.lanes[usize::from(lane)].queues -= 1;
        }
        self.free.push(port);
        if let Some(other) = member.patch
            && let Some(end) = self.member(other)
        {
            self.unjoin(member.domain, end.domain);
            self.detach(other);
        }
        self.leave_domain(member.domain);
        true
    }
}
