//! The control thread's state: all lanes of a switch, its ports and domains.
//!
//! Each lane knows all ports and domains, but only its own queues. The queues of a port are assigned to the lanes that
//! its `cpus` name, else to the lanes with the least to do, and to no more than its `lanes` says ([assignment]). If a
//! link has fewer queues than its `lanes`, or one queue and several lanes in its `cpus`, its flows are spread over
//! lanes in software.

mod arrival;
mod assignment;
mod attach;
mod domains;
mod options;
mod patch;
mod policies;
mod settling;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use crate::counters::{LaneCounters, LaneStatus};
use crate::doorbell::Doorbells;
use crate::handoff::{LaneWaker, handoff};
use crate::ids::{DomainIndex, Generation, LaneIndex, PORTS_MAX, PortIndex};
use crate::lane::{Lane, LaneStats, result};
use crate::mac::Mac;
use crate::memory::{Collapser, CounterFile, LanePorts};
use crate::port::LinkRecord;
use crate::properties::{DomainProperties, PortProperties};
use crate::protocol::{PortId, PortKind};
use crate::settled::{SettledFlows, Sweeper};
use crate::worker::{Handoff, Parts, Worker};

pub use attach::{Attach, AttachError};
use domains::DomainRecord;
pub use options::Options;
pub use patch::PatchEnd;
pub use policies::FLOWS_MAX;
use policies::FlowRecords;

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
    /// The port that it is behind, if it is.
    front: Option<PortIndex>,
    /// Whether ports are behind it.
    is_front: bool,
}

impl Member {
    /// Whether ports may be behind it: frames leave by it on one lane, which knows all its connections.
    pub fn may_be_front(&self) -> bool {
        matches!(self.kind, PortKind::Guest | PortKind::Waiting)
            && self.front.is_none()
            && self.lanes.len() == 1
    }
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
    doorbells: Doorbells,
    flows: FlowRecords,
    sweeper: Sweeper,
    /// The flows that the kernel passes on by itself, if it does; and what keeps its programs on interfaces.
    settled: Option<Arc<SettledFlows>>,
    passages: HashMap<PortIndex, OwnedFd>,
    /// The CPUs that properties may name.
    cpus: Vec<u16>,
}

impl Lanes {
    /// Starts the lanes. Other processes may read their counters by the file.
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
            doorbells: Doorbells::default(),
            flows: FlowRecords::default(),
            sweeper: Sweeper::start(LanePorts::new(counters, 0))?,
            settled: None,
            passages: HashMap::new(),
            cpus,
        };
        Ok((lanes, file))
    }

    /// Collapses guests' memory into huge pages.
    pub(crate) fn collapser(&self) -> Collapser {
        self.collapser.clone()
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

    /// The ports behind a port.
    fn behind(&self, front: PortIndex) -> Vec<PortIndex> {
        let members = self.members.iter().flatten();
        let behind = members.filter(|member| member.front == Some(front));
        behind.map(|member| member.id.slot()).collect()
    }

    /// The ports behind a port whose connections are over for `grace`, or had no segment for `idle`.
    pub fn over(&self, front: PortIndex, grace: Duration, idle: Duration) -> Vec<PortIndex> {
        let member = self.member(front);
        let Some(&lane) = member.and_then(|member| member.lanes.first()) else {
            return Vec::new();
        };
        self.lanes[usize::from(lane)].call(move |worker| worker.over(front, grace, idle))
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

    /// Changes what the record of a host link says. The error is the reason, as a sentence.
    pub fn set_link(&self, port: PortIndex, record: LinkRecord) -> Result<(), String> {
        let set = self.on_all(move |worker| worker.set_link(port, &record));
        set.into_iter().collect()
    }

    /// Brings the counters up to date that the kernel keeps for a port.
    pub fn catch_up(&self, port: PortIndex) {
        self.on_all(move |worker| worker.catch_up(port));
    }

    /// The statistics of each lane.
    pub fn stats(&self) -> Vec<LaneStats> {
        self.lanes.iter().map(Lane::stats).collect()
    }

    /// Number of lanes.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Sends all lanes a job, and waits for their results.
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

    /// Sends all lanes a job. They do it before later jobs.
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

/// How a port in a slot is named outside.
fn port_id(port: PortIndex, generation: Generation) -> PortId {
    PortId {
        slot: port,
        generation,
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
