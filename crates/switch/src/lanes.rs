//! All lanes of a switch, and who is on them: what the control thread keeps.
//!
//! Each lane knows all ports and domains, but only its own queues. A port's queues are given to the
//! lanes that its `cpus` name, else to those with the least to do, and to no more than its `lanes`
//! says. A link of one queue whose `cpus` name several lanes, and one that has fewer queues than its
//! `lanes`, has its flows spread over them in software.

mod domains;
mod patch;
mod qos;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hashbrown::HashMap;
use rustix::io::Errno;

use crate::crossing::{Bell, crossing};
use crate::lane::{Board, Lane, LaneIndex, LaneStats, Meter, answer};
use crate::lookup::{Mac, PortIndex};
use crate::memory::{CounterFile, Gatherer, LaneCounters};
use crate::port::Link;
use crate::process::Options;
use crate::properties::{DomainProperties, PortProperties};
use crate::protocol::{PortId, PortKind};
use crate::qos::shape::Shape;
use crate::worker::{PORTS_MAX, Parts, Placed, Served, Ways, Worker};

use domains::Domain;
pub use patch::PatchEnd;
pub use qos::{FLOWS_MAX, FlowDescription, FlowOn};

/// What is to be attached.
pub struct Attach {
    /// Where the port leads: a link for each of its queues.
    pub links: Vec<Link>,
    /// What that is.
    pub kind: PortKind,
    /// How users call it.
    pub name: String,
    /// The number of the domain that it joins; made if it is the first port there.
    pub domain: u32,
    /// The Ethernet address known to be behind it.
    pub mac: Option<Mac>,
    /// What is asked of it.
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
    /// A property that cannot be.
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
    /// What was asked of it.
    pub properties: PortProperties,
    /// The address known to be behind it.
    mac: Option<Mac>,
    /// Its link's own MTU, in bytes.
    mtu: u16,
    /// The lanes that poll its queues, in their order.
    pub lanes: Vec<LaneIndex>,
    /// The other end, if it is a patch.
    patch: Option<PortIndex>,
}

/// The lanes of a switch and its ports. Dropping this ends the lanes.
pub struct Lanes {
    lanes: Vec<Lane>,
    gatherer: Gatherer,
    board: Arc<Board>,
    members: Vec<Option<Member>>,
    free: Vec<PortIndex>,
    domains: HashMap<u32, Domain>,
    free_domains: Vec<u32>,
    /// What was asked of domains, whether they have ports or not.
    asked: HashMap<u32, DomainProperties>,
    next_turn: u32,
    next_guest: u32,
    flows: qos::FlowBook,
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
        let board = Arc::new(Board::new());
        let bells: Result<Vec<_>, _> = (0..number).map(|_| Bell::new().map(Arc::new)).collect();
        let bells = bells?;
        let mut entries: Vec<Vec<_>> = Vec::new();
        let mut exits: Vec<Vec<_>> = (0..number).map(|_| Vec::new()).collect();
        for from in 0..number {
            let to = bells.iter().enumerate().map(|(to, bell)| {
                (to != from).then(|| {
                    let (entry, exit) = crossing(Arc::clone(bell));
                    exits[to].push((exit, from as LaneIndex));
                    entry
                })
            });
            entries.push(to.collect());
        }
        let lanes = entries.into_iter().zip(exits).zip(bells).enumerate();
        let lanes = lanes.map(|(lane, ((entries, exits), bell))| {
            let parts = Parts {
                lane: lane as LaneIndex,
                counters: LaneCounters::new(Arc::clone(&counters), lane),
                bell,
                meter: Arc::new(Meter::default()),
                board: Arc::clone(&board),
                entries,
                exits,
            };
            let cpu = options.cpus.get(lane % options.cpus.len().max(1));
            Lane::start(parts, cpu.copied())
        });
        let lanes = lanes.collect::<Result<_, _>>()?;
        // Whoever starts a switch may be bound to other CPUs than its lanes.
        let mut cpus = qos::cpus();
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
            gatherer: Gatherer::start()?,
            board,
            members: Vec::new(),
            free: Vec::new(),
            domains: HashMap::new(),
            free_domains: Vec::new(),
            asked: HashMap::new(),
            next_turn: 0,
            next_guest: 0,
            flows: qos::FlowBook::default(),
            cpus,
        };
        Ok((lanes, file))
    }

    /// Who gathers guests' memory into large pages.
    pub(crate) fn gatherer(&self) -> Gatherer {
        self.gatherer.clone()
    }

    /// Attaches a guest's ports, which `doorbell` wakes. All or none.
    pub fn attach_guest(
        &mut self,
        ports: Vec<Attach>,
        doorbell: OwnedFd,
    ) -> Result<Vec<PortId>, AttachError> {
        if self.room() < ports.len() {
            return Err(AttachError::Full);
        }
        let guest = self.next_guest;
        self.next_guest = self.next_guest.wrapping_add(1);
        let doorbell = Arc::new(doorbell);
        let mut joining: Vec<Joining> = Vec::with_capacity(ports.len());
        for port in ports {
            match self.prepare(port, Some((guest, Arc::clone(&doorbell)))) {
                Ok(port) => joining.push(port),
                Err(error) => {
                    for port in joining {
                        self.detach(port.placed.place);
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

    /// Makes a port, of which the lanes are yet to be told. What cannot be is refused here.
    fn prepare(
        &mut self,
        mut attach: Attach,
        guest: Option<(u32, Arc<OwnedFd>)>,
    ) -> Result<Joining, AttachError> {
        let own = attach.links.first().map_or(u16::MAX, Link::mtu);
        self.check_properties(&attach.properties, own)?;
        let shape = self.shape(attach.domain, attach.mac, &attach.properties)?;
        let domain = self.domain(attach.domain)?;
        let Some(place) = self.take_place() else {
            self.leave_domain(attach.domain);
            return Err(AttachError::Full);
        };
        let mtu = attach.properties.mtu.map_or(own, |mtu| mtu.min(own));
        for link in &mut attach.links {
            link.set_mtu(mtu);
        }
        let queues = self.arrange(attach.links, guest, &attach.properties);
        let turn = self.next_turn;
        self.next_turn = self.next_turn.wrapping_add(1);
        self.board.reopen(place);
        let placed = Placed {
            place,
            turn,
            domain,
            mac: attach.mac,
            name: attach.name.as_str().into(),
            uplink: attach.kind.is_uplink(),
            ways: ways(&queues),
        };
        self.members[usize::from(place)] = Some(Member {
            id: PortId { place, turn },
            name: attach.name,
            domain: attach.domain,
            kind: attach.kind,
            properties: attach.properties,
            mac: attach.mac,
            mtu: own,
            lanes: Vec::new(),
            patch: None,
        });
        self.count_queues(place, &queues);
        Ok(Joining {
            placed,
            shape,
            mtu,
            queues,
        })
    }

    /// Has the lanes take note of ports, then serve their queues: all of them, or none.
    fn join(&mut self, joining: Vec<Joining>) -> Result<Vec<PortId>, AttachError> {
        let ids: Vec<_> = joining.iter().map(Joining::id).collect();
        let mut queues: Vec<Vec<_>> = self.lanes.iter().map(|_| Vec::new()).collect();
        let mut known = Vec::with_capacity(joining.len());
        for port in joining {
            for (lane, served) in port.queues {
                queues[usize::from(lane)].push((port.placed.place, served));
            }
            known.push((port.placed, port.shape, port.mtu));
        }
        let note = move |worker: &mut Worker| {
            for (placed, shape, mtu) in &known {
                worker.place(placed);
                // Limits are there before the first frame.
                worker.set_shape(placed.place, shape.clone(), *mtu);
            }
        };
        let serve = |worker: &mut Worker, queues: Vec<(PortIndex, Served)>| {
            let mut queues = queues.into_iter();
            queues.try_for_each(|(place, served)| worker.serve_queue(place, served))
        };
        let served = match (self.lanes.as_slice(), queues.pop()) {
            ([lane], Some(queues)) => lane.ask(move |worker| {
                note(worker);
                serve(worker, queues)
            }),
            (_, last) => {
                // No lane sees a frame of a port that another does not know yet.
                self.on_all(note);
                queues.extend(last);
                let busy = self.lanes.iter().zip(queues);
                let busy = busy.filter(|(_, queues)| !queues.is_empty());
                let asked: Vec<_> = busy
                    .map(|(lane, queues)| lane.order(move |worker| serve(worker, queues)))
                    .collect();
                asked.into_iter().try_for_each(answer)
            }
        };
        if let Err(error) = served {
            for id in ids {
                self.detach(id.place);
            }
            return Err(error.into());
        }
        Ok(ids)
    }

    /// Detaches a port, and the other end if it is a patch; its links are closed. Returns whether
    /// there was one.
    pub fn detach(&mut self, place: PortIndex) -> bool {
        let member = self.members.get_mut(usize::from(place));
        let Some(member) = member.and_then(Option::take) else {
            return false;
        };
        self.remove_flows_on(member.id);
        // What the queues held is let go of here, where nobody waits for it.
        let queues = self.on_all(move |worker| {
            let queues = worker.take_queues(place);
            worker.remove(place);
            queues
        });
        drop(queues);
        for lane in member.lanes {
            self.lanes[usize::from(lane)].queues -= 1;
        }
        self.free.push(place);
        if let Some(other) = member.patch
            && let Some(end) = self.member(other)
        {
            self.part(member.domain, end.domain);
            self.detach(other);
        }
        self.leave_domain(member.domain);
        true
    }

    /// Gives a port other properties. Its queues move if its CPUs are others.
    pub fn set_properties(
        &mut self,
        place: PortIndex,
        properties: PortProperties,
    ) -> Result<(), AttachError> {
        let member = self.members.get_mut(usize::from(place));
        let Some(member) = member.and_then(Option::as_mut) else {
            return Ok(());
        };
        let (mac, mtu, number) = (member.mac, member.mtu, member.domain);
        self.check_properties(&properties, mtu)?;
        self.shape(number, mac, &properties)?;
        let Some(member) = self.members[usize::from(place)].as_mut() else {
            return Ok(());
        };
        let old = std::mem::replace(&mut member.properties, properties);
        self.reshape(place)?;
        let Some(member) = self.members[usize::from(place)].as_mut() else {
            return Ok(());
        };
        let new = &member.properties;
        let others = (&old.cpus, old.lanes) != (&new.cpus, new.lanes);
        if others && member.patch.is_none() {
            self.rearrange(place)?;
        }
        Ok(())
    }

    /// Has a port's queues served by the lanes that its properties name now.
    fn rearrange(&mut self, place: PortIndex) -> Result<(), AttachError> {
        // What is under way to the port in a line of a lane's goes on by the lane that has it then.
        let take = move |worker: &mut Worker| (worker.take_queues(place), worker.take_line(place));
        let (taken, mut lines): (Vec<_>, Vec<_>) = self.on_all(take).into_iter().unzip();
        let mut guest = None;
        let (mut links, mut kept) = (Vec::new(), Vec::new());
        for queue in taken.into_iter().flatten().filter(|queue| queue.polled) {
            guest = guest.or(queue.guest);
            links.push(queue.link);
            kept.push(queue.kept);
        }
        let Some(member) = self.members[usize::from(place)].as_mut() else {
            return Ok(());
        };
        for lane in std::mem::take(&mut member.lanes) {
            self.lanes[usize::from(lane)].queues -= 1;
        }
        let properties = member.properties.clone();
        let mut arranged = self.arrange(links, guest, &properties);
        for ((_, served), kept) in arranged.iter_mut().zip(kept) {
            served.kept = kept;
        }
        let ways = ways(&arranged);
        self.on_all(move |worker| worker.set_ways(place, ways));
        self.serve(place, arranged)?;
        lines.extend(self.on_all(move |worker| worker.take_line(place)));
        let home = &self.lanes[usize::from(ways.home)];
        home.ask(move |worker| {
            for line in lines.into_iter().flatten() {
                worker.add_line(place, line);
            }
        });
        Ok(())
    }

    /// Chooses lanes for a port's queues.
    fn arrange(
        &mut self,
        links: Vec<Link>,
        guest: Option<(u32, Arc<OwnedFd>)>,
        properties: &PortProperties,
    ) -> Vec<(LaneIndex, Served)> {
        let mut lanes = self.candidates(&properties.cpus);
        lanes.truncate(properties.lanes.map_or(usize::MAX, usize::from));
        let mask = lanes.iter().fold(0, |mask, lane| mask | 1 << lane);
        // Queues are spread by whoever fills them; what is short of the lanes asked for is here.
        let asked = properties.lanes.is_some() || (links.len() == 1 && !properties.cpus.is_empty());
        let spreads = match asked && links.len() < lanes.len() {
            true => mask,
            false => 0,
        };
        let mut also = Vec::new();
        if spreads != 0 {
            // Where each lane can send by itself, nothing need cross a second time.
            also.extend(lanes.iter().skip(links.len()).filter_map(|&lane| {
                let link = links.first()?.another_way()?;
                Some((lane, unpolled(link)))
            }));
        }
        let queues = links.into_iter().zip(lanes.iter().cycle());
        let queues = queues.map(|(link, &lane)| {
            let served = Served {
                link,
                guest: guest.clone(),
                polled: true,
                spreads,
                kept: None,
            };
            (lane, served)
        });
        queues.chain(also).collect()
    }

    /// The lanes that may serve a port, that with the least to do first: those on its CPUs, or all
    /// if none is. A lane that is bound to no CPU counts as on that of its own number.
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

    /// Has lanes begin to serve a port's queues.
    fn serve(&mut self, place: PortIndex, queues: Vec<(LaneIndex, Served)>) -> Result<(), Errno> {
        self.count_queues(place, &queues);
        for (lane, served) in queues {
            let lane = &self.lanes[usize::from(lane)];
            lane.ask(move |worker| worker.serve_queue(place, served))?;
        }
        Ok(())
    }

    /// Counts a port's queues among what their lanes have to do.
    fn count_queues(&mut self, place: PortIndex, queues: &[(LaneIndex, Served)]) {
        for (lane, _) in queues.iter().filter(|(_, served)| served.polled) {
            self.lanes[usize::from(*lane)].queues += 1;
            if let Some(member) = &mut self.members[usize::from(place)] {
                member.lanes.push(*lane);
            }
        }
    }

    /// The ports from a place on, in the order of their places.
    pub fn members(&self, from: PortIndex) -> impl Iterator<Item = &Member> {
        let members = self.members.get(usize::from(from)..).unwrap_or_default();
        members.iter().flatten()
    }

    /// The port at a place.
    pub fn member(&self, place: PortIndex) -> Option<&Member> {
        self.members.get(usize::from(place))?.as_ref()
    }

    /// Whether a port was closed, for its violations or because its interface is gone.
    pub fn is_closed(&self, place: PortIndex) -> bool {
        self.board.is_closed(place)
    }

    /// Copies of the descriptors of a host link's queues.
    pub fn files(&self, place: PortIndex) -> Vec<OwnedFd> {
        let files = self.on_all(move |worker| worker.files(place));
        files.into_iter().flatten().collect()
    }

    /// Brings the counters up to date that the kernel keeps for a port.
    pub fn catch_up(&self, place: PortIndex) {
        self.on_all(move |worker| worker.catch_up(place));
    }

    /// What each lane has done.
    pub fn stats(&self) -> Vec<LaneStats> {
        self.lanes.iter().map(Lane::stats).collect()
    }

    /// Number of lanes.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Has all lanes do something, at the same time, and waits for what they return.
    fn on_all<R: Send + 'static>(
        &self,
        order: impl Fn(&mut Worker) -> R + Send + Sync + 'static,
    ) -> Vec<R> {
        let order = Arc::new(order);
        let asked = self.lanes.iter().map(|lane| {
            let order = Arc::clone(&order);
            lane.order(move |worker| order(worker))
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(answer).collect()
    }

    /// Has all lanes do something before whatever they are told later.
    fn tell_all(&self, order: impl Fn(&mut Worker) + Send + Sync + 'static) {
        let order = Arc::new(order);
        for lane in &self.lanes {
            let order = Arc::clone(&order);
            lane.tell(move |worker| order(worker));
        }
    }

    /// How many more ports can be attached.
    fn room(&self) -> usize {
        PORTS_MAX - self.members.len() + self.free.len()
    }

    fn take_place(&mut self) -> Option<PortIndex> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        let place = self.members.len();
        (place < PORTS_MAX).then(|| {
            self.members.push(None);
            place as PortIndex
        })
    }
}

/// A port that the lanes are to be told of.
struct Joining {
    placed: Placed,
    shape: Option<Arc<Shape>>,
    mtu: u16,
    queues: Vec<(LaneIndex, Served)>,
}

impl Joining {
    fn id(&self) -> PortId {
        let Placed { place, turn, .. } = self.placed;
        PortId { place, turn }
    }
}

fn unpolled(link: Link) -> Served {
    Served {
        link,
        guest: None,
        polled: false,
        spreads: 0,
        kept: None,
    }
}

/// How frames get out by a port whose queues are on these lanes.
fn ways(queues: &[(LaneIndex, Served)]) -> Ways {
    let lanes = queues.iter().map(|&(lane, _)| lane);
    Ways {
        lanes: lanes.clone().fold(0, |mask, lane| mask | 1 << lane),
        home: lanes.clone().next().unwrap_or(0),
        patch: None,
    }
}
