//! All lanes of a switch, its ports and domains: what the control thread keeps.
//!
//! Each lane knows all ports and domains, but only its own queues. The queues of a port are assigned
//! to the lanes that its `cpus` name, else to the lanes with the least to do, and to no more than its
//! `lanes` says ([assignment]). A link of one queue whose `cpus` name several lanes, and one that has
//! fewer queues than its `lanes`, has its flows spread over lanes in software.

mod assignment;
mod domains;
mod options;
mod patch;
mod policies;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hashbrown::HashMap;
use rustix::io::Errno;

use crate::counters::{LaneCounters, LaneStatus};
use crate::handoff::{LaneWaker, handoff};
use crate::ids::{DomainIndex, Generation, LaneIndex, PORTS_MAX, PortIndex};
use crate::lane::{Lane, LaneStats, result};
use crate::lookup::Mac;
use crate::memory::{Collapser, CounterFile, LanePorts};
use crate::port::Link;
use crate::properties::{DomainProperties, PortProperties};
use crate::protocol::{PortId, PortKind};
use crate::qos::policy::PortPolicy;
use crate::worker::{Handoff, Parts, PortSetup, QueueSetup, Worker};

use domains::DomainRecord;
pub use options::Options;
pub use patch::PatchEnd;
pub use policies::FLOWS_MAX;
use policies::FlowRecords;

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
}

/// Why a port could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There are too many.
    #[error("the switch has {PORTS_MAX} ports already: detach one first")]
    Full,
    /// The kernel would not watch its descriptor.
    #[error("cannot watch the port's descriptor: {0}")]
    Watch(#[from] Errno),
    /// An invalid property.
    #[error("{0}")]
    Property(String),
}

/// An attached port.
pub struct Member {
    /// Which port.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// The number of its domain.
    pub domain: u32,
    /// What it leads to.
    pub kind: PortKind,
    /// Its properties.
    pub properties: PortProperties,
    /// The address known to be behind it.
    mac: Option<Mac>,
    /// Its link's own MTU, in bytes.
    mtu: u16,
    /// The lanes that poll its queues, in the order of the queues.
    pub lanes: Vec<LaneIndex>,
    /// The other end, if it is a patch.
    patch: Option<PortIndex>,
}

/// The lanes of a switch and its ports. Dropping this ends the lanes.
pub struct Lanes {
    lanes: Vec<Lane>,
    collapser: Collapser,
    status: Arc<LaneStatus>,
    members: Vec<Option<Member>>,
    free: Vec<PortIndex>,
    domains: HashMap<u32, DomainRecord>,
    free_domains: Vec<DomainIndex>,
    /// The properties of domains, with ports or without.
    asked: HashMap<u32, DomainProperties>,
    generations: Generation,
    guests: u32,
    flows: FlowRecords,
    /// The CPUs that properties may name.
    cpus: Vec<u16>,
}

impl Lanes {
    /// Starts the lanes. Their counters are those of the file, by which others may read them.
    pub fn start(options: &Options) -> Result<(Lanes, OwnedFd), Box<dyn std::error::Error>> {
        options.check()?;
        let number = options.lanes;
        let (counters, file) = CounterFile::create(number * PORTS_MAX)?;
        let counters = Arc::new(counters);
        let status = Arc::new(LaneStatus::new());
        let wakers = (0..number).map(|_| LaneWaker::new().map(Arc::new));
        let wakers = wakers.collect::<Result<Vec<_>, _>>()?;
        let lanes = connect(&wakers).into_iter().zip(wakers).enumerate();
        let lanes = lanes.map(|(lane, (handoff, waker))| {
            let parts = Parts {
                lane: lane as LaneIndex,
                ports: LanePorts::new(Arc::clone(&counters), lane),
                counters: Arc::new(LaneCounters::default()),
                status: Arc::clone(&status),
                waker,
                handoff,
            };
            let cpu = options.cpus.get(lane % options.cpus.len().max(1));
            Lane::start(parts, cpu.copied())
        });
        let lanes = lanes.collect::<Result<_, _>>()?;
        // The process that starts a switch may be bound to other CPUs than its lanes.
        let mut cpus = policies::cpus();
        cpus.extend(
            options
                .cpus
                .iter()
                .filter_map(|&cpu| u16::try_from(cpu).ok()),
        );
        cpus.sort_unstable();
        cpus.dedup();
        let lanes = Lanes {
            lanes,
            collapser: Collapser::start()?,
            status,
            members: Vec::new(),
            free: Vec::new(),
            domains: HashMap::new(),
            free_domains: Vec::new(),
            asked: HashMap::new(),
            generations: 0,
            guests: 0,
            flows: FlowRecords::default(),
            cpus,
        };
        Ok((lanes, file))
    }

    /// Collapses guests' memory into huge pages.
    pub(crate) fn collapser(&self) -> Collapser {
        self.collapser.clone()
    }

    /// Attaches a guest's ports, which `doorbell` wakes. All or none.
    pub fn attach_guest(
        &mut self,
        ports: Vec<Attach>,
        doorbell: OwnedFd,
    ) -> Result<Vec<PortId>, AttachError> {
        if self.free_slots() < ports.len() {
            return Err(AttachError::Full);
        }
        let guest = self.guests;
        self.guests = self.guests.wrapping_add(1);
        let doorbell = Arc::new(doorbell);
        let mut joining: Vec<Joining> = Vec::with_capacity(ports.len());
        for port in ports {
            match self.prepare(port, Some((guest, Arc::clone(&doorbell)))) {
                Ok(port) => joining.push(port),
                Err(error) => {
                    for port in joining {
                        self.detach(port.setup.port);
                    }
                    return Err(error);
                }
            }
        }
        self.join(joining)
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
        guest: Option<(u32, Arc<OwnedFd>)>,
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
        for link in &mut attach.links {
            link.set_mtu(mtu);
        }
        let queues = self.assign(attach.links, guest, &attach.properties);
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
        });
        self.count_queues(port, &queues);
        Ok(Joining {
            setup,
            policy,
            mtu,
            queues,
        })
    }

    /// Has the lanes add ports, then serve their queues: all of them, or none.
    fn join(&mut self, joining: Vec<Joining>) -> Result<Vec<PortId>, AttachError> {
        let ids: Vec<_> = joining.iter().map(Joining::id).collect();
        let mut queues: Vec<Vec<_>> = self.lanes.iter().map(|_| Vec::new()).collect();
        let mut known = Vec::with_capacity(joining.len());
        for port in joining {
            for (lane, queue) in port.queues {
                queues[usize::from(lane)].push((port.setup.port, queue));
            }
            known.push((port.setup, port.policy, port.mtu));
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
                self.detach(id.place());
            }
            return Err(error.into());
        }
        Ok(ids)
    }

    /// Detaches a port, and the other end if it is a patch; its links are closed. Returns whether
    /// there was one.
    pub fn detach(&mut self, port: PortIndex) -> bool {
        let member = self.members.get_mut(usize::from(port));
        let Some(member) = member.and_then(Option::take) else {
            return false;
        };
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

    /// The ports from a slot on, in the order of their slots.
    pub fn members(&self, from: PortIndex) -> impl Iterator<Item = &Member> {
        let members = self.members.get(usize::from(from)..).unwrap_or_default();
        members.iter().flatten()
    }

    /// The port in a slot.
    pub fn member(&self, port: PortIndex) -> Option<&Member> {
        self.members.get(usize::from(port))?.as_ref()
    }

    /// Whether a port was closed, for its violations or because its interface is gone.
    pub fn is_closed(&self, port: PortIndex) -> bool {
        self.status.is_closed(port)
    }

    /// Copies of the descriptors of a host link's queues.
    pub fn files(&self, port: PortIndex) -> Vec<OwnedFd> {
        let files = self.on_all(move |worker| worker.files(port));
        files.into_iter().flatten().collect()
    }

    /// Brings the counters up to date that the kernel keeps for a port.
    pub fn catch_up(&self, port: PortIndex) {
        self.on_all(move |worker| worker.catch_up(port));
    }

    /// What each lane has done.
    pub fn stats(&self) -> Vec<LaneStats> {
        self.lanes.iter().map(Lane::stats).collect()
    }

    /// Number of lanes.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Has all lanes do a job, at the same time, and waits for their results.
    fn on_all<R: Send + 'static>(
        &self,
        job: impl Fn(&mut Worker) -> R + Send + Sync + 'static,
    ) -> Vec<R> {
        let job = Arc::new(job);
        let submitted = self.lanes.iter().map(|lane| {
            let job = Arc::clone(&job);
            lane.submit(move |worker| job(worker))
        });
        let submitted: Vec<_> = submitted.collect();
        submitted.into_iter().map(result).collect()
    }

    /// Has all lanes do a job, before the jobs that they get later.
    fn post_to_all(&self, job: impl Fn(&mut Worker) + Send + Sync + 'static) {
        let job = Arc::new(job);
        for lane in &self.lanes {
            let job = Arc::clone(&job);
            lane.post(move |worker| job(worker));
        }
    }

    /// How many more ports can be attached.
    fn free_slots(&self) -> usize {
        PORTS_MAX - self.members.len() + self.free.len()
    }

    fn take_slot(&mut self) -> Option<PortIndex> {
        if let Some(port) = self.free.pop() {
            return Some(port);
        }
        let port = self.members.len();
        (port < PORTS_MAX).then(|| {
            self.members.push(None);
            port as PortIndex
        })
    }

    /// A generation for the slot of a port or a domain.
    fn next_generation(&mut self) -> Generation {
        let generation = self.generations;
        self.generations = self.generations.wrapping_add(1);
        generation
    }
}

/// A port that the lanes do not know yet.
struct Joining {
    setup: PortSetup,
    policy: Option<Arc<PortPolicy>>,
    mtu: u16,
    queues: Vec<(LaneIndex, QueueSetup)>,
}

impl Joining {
    fn id(&self) -> PortId {
        port_id(self.setup.port, self.setup.generation)
    }
}

/// How a port in a slot is named outside.
fn port_id(port: PortIndex, generation: Generation) -> PortId {
    PortId {
        place: port,
        turn: generation,
    }
}

/// Connects lanes, each with every other, by handoff rings.
fn connect(wakers: &[Arc<LaneWaker>]) -> Vec<Handoff> {
    let none = || Handoff {
        senders: Vec::new(),
        receivers: Vec::new(),
    };
    let mut lanes: Vec<_> = wakers.iter().map(|_| none()).collect();
    for from in 0..wakers.len() {
        for (to, waker) in wakers.iter().enumerate() {
            let pair = (to != from).then(|| handoff(Arc::clone(waker)));
            let (sender, receiver) = pair.unzip();
            lanes[from].senders.push(sender);
            lanes[to]
                .receivers
                .extend(receiver.map(|receiver| (receiver, from as LaneIndex)));
        }
    }
    lanes
}
