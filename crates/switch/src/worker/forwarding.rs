//! Where the frames of a batch go: the lookup function's answers, into the egress queues of this
//! lane's ports, to other lanes, and through patches into other domains.
//!
//! There is one path. For domains in which any port or flow has limits and the like it is compiled
//! with [shaping](super::shaping), for all others without (`SHAPED`).

use std::ops::Range;

use super::Clock;
use super::shaping::{Admission, Shaping};
use super::table::Table;
use crate::counters::{LaneCounters, Reason};
use crate::handoff::{Burst, HandoffReceiver, HandoffSender, Report, Target};
use crate::ids::{DomainIndex, LaneIndex, LaneMask, PORTS_MAX, PortIndex};
use crate::lookup::Destination;
use crate::pace::Pace;
use crate::port::flow_hash::flow_hash;
use crate::port::{BATCH, Batch};
use crate::qos::classifier::Classifier;
use crate::qos::threshold::FrameSource;

/// Most patches that a frame goes through.
pub const PATCHES_MAX: u8 = 8;
/// Most times that frames of one batch go through patches: a bound on what a cycle of them costs.
const HOPS_MAX: usize = 64;
/// Most bursts of one lane that are taken in a round.
pub(super) const BURSTS_PER_ROUND: usize = 4;

const _: () = assert!(BATCH <= u64::BITS as usize);

/// The handoff rings from and to the other lanes.
pub(crate) struct Handoff {
    /// To the other lanes, by their indices; none to itself.
    pub senders: Vec<Option<HandoffSender>>,
    /// From the other lanes, and which those are.
    pub receivers: Vec<(HandoffReceiver, LaneIndex)>,
}

/// Frames of the batch that have come through a patch.
struct PatchHop {
    /// The end that they came out of.
    from: PortIndex,
    /// How many patches they have gone through.
    patches: u8,
    /// The frames, one bit each.
    frames: u64,
}

/// A frame of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRef {
    /// Its index in the batch.
    pub i: u16,
    /// The port that it came from.
    pub from: PortIndex,
    /// The domain in which it is.
    pub domain: DomainIndex,
}

/// The batch under way, and where its frames go.
pub(super) struct Forwarding {
    pub batch: Box<Batch>,
    /// Where its frames come from.
    pub source: FrameSource,
    destinations: [Destination; BATCH],
    /// Ports with frames in their egress queues.
    pub touched: Vec<PortIndex>,
    hops: Vec<PatchHop>,
    /// Patch hops of the current batch so far.
    hops_done: usize,
    handoff: Handoff,
    /// The other lanes to which frames of the current batch were handed off.
    pub reached: LaneMask,
    /// How long to wait for frames from other lanes.
    pub pace: Pace,
}

impl Forwarding {
    pub fn new(handoff: Handoff, clock: &Clock) -> Forwarding {
        Forwarding {
            batch: Box::new(Batch::new()),
            source: FrameSource::DelayLines,
            destinations: [Destination::Flood; BATCH],
            touched: Vec::with_capacity(PORTS_MAX),
            hops: Vec::with_capacity(HOPS_MAX),
            hops_done: 0,
            handoff,
            reached: 0,
            pace: Pace::new(clock.now),
        }
    }

    /// Has the domain of port `from` say where a run of the batch's frames goes, and queues them
    /// there.
    pub fn resolve(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        from: PortIndex,
        run: Range<usize>,
    ) {
        let domain = table.ports.get(from).map(|port| port.domain);
        let found = domain.and_then(|domain| Some((domain, table.domains.get(domain)?.shaped)));
        match found {
            Some((domain, 0)) => {
                self.dispatch::<false>(table, shaping, clock, domain, from, run);
            }
            Some((domain, _)) => {
                self.dispatch::<true>(table, shaping, clock, domain, from, run);
            }
            None => {
                let counters = table.counters.port(from);
                counters.dropped(Reason::NoDestination, run.len() as u64);
            }
        }
    }

    /// As [`resolve`](Self::resolve), in the source's domain. Stops at the first frame that must
    /// wait.
    #[inline]
    fn dispatch<const SHAPED: bool>(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        domain: DomainIndex,
        from: PortIndex,
        run: Range<usize>,
    ) {
        let Some(entry) = table.domains.get_mut(domain) else {
            return;
        };
        let frames = &self.batch.frames()[run.clone()];
        let to = &mut self.destinations[..frames.len()];
        entry.lookup.steer(from, frames, to, clock.seconds());
        let mut at = 0;
        while let Some(&to) = self.destinations[..run.len()].get(at) {
            let i = (run.start + at) as u16;
            match to {
                Destination::Port(to) if SHAPED => {
                    let alike = self.destinations[at..run.len()].iter();
                    let alike = alike.take_while(|other| **other == Destination::Port(to));
                    let alike = alike.count();
                    let mut frame = FrameRef { i, from, domain };
                    let now = clock.nanos();
                    let go = shaping.admit_run(table, &self.batch, frame, alike, to, now);
                    self.enqueue_run(table, i, go, to);
                    at += go;
                    if go == alike {
                        continue;
                    }
                    frame.i += go as u16;
                    match shaping.admit(table, &mut self.batch, frame, to, now) {
                        Admission::Go => self.enqueue(table, from, frame.i, to),
                        Admission::Done => {}
                        Admission::Wait => break,
                    }
                }
                Destination::Port(to) => self.enqueue(table, from, i, to),
                Destination::Drop(reason) => table.counters.port(from).dropped(reason, 1),
                Destination::Flood => {
                    let frame = FrameRef { i, from, domain };
                    self.flood::<SHAPED>(table, shaping, clock, frame);
                }
            }
            at += 1;
        }
        if !self.handoff.receivers.is_empty() {
            self.report_news(table, domain);
        }
    }

    /// Queues frame `i` to a port, on this lane or another.
    #[inline(always)]
    pub fn enqueue(&mut self, table: &mut Table, from: PortIndex, i: u16, to: PortIndex) {
        match table.ports.get_mut(to) {
            Some(port) if port.egress.has(table.lane) => {
                if port.egress_queue.is_empty() {
                    self.touched.push(to);
                }
                port.egress_queue.push(i);
            }
            Some(port) => {
                let (lane, generation) = (port.egress.lane, port.generation);
                let target = Target::Port {
                    port: to,
                    generation,
                };
                self.hand_off(table, from, i, lane.into(), target);
            }
            None => table.counters.port(from).dropped(Reason::NoDestination, 1),
        }
    }

    /// Queues `frames` frames from `first` on to a port of this lane.
    fn enqueue_run(&mut self, table: &mut Table, first: u16, frames: usize, to: PortIndex) {
        if let Some(port) = table.ports.get_mut(to).filter(|_| frames > 0) {
            if port.egress_queue.is_empty() {
                self.touched.push(to);
            }
            port.egress_queue.extend(first..first + frames as u16);
        }
    }

    /// Hands frame `i` off to another lane. A frame that does not fit is counted at its source.
    #[inline(never)]
    fn hand_off(&mut self, table: &Table, from: PortIndex, i: u16, lane: usize, target: Target) {
        self.reached |= 1 << lane;
        let sender = self.handoff.senders.get_mut(lane).and_then(Option::as_mut);
        let sent = sender.is_some_and(|sender| sender.push(&self.batch, i, target));
        if !sent {
            table.counters.port(from).dropped(Reason::CrossingFull, 1);
        }
    }

    /// Queues a frame to all other ports of its domain.
    fn flood<const SHAPED: bool>(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        frame: FrameRef,
    ) {
        let counters = table.counters.port(frame.from);
        if SHAPED && !shaping.may_flood(table, frame.from, clock.nanos()) {
            return counters.dropped(Reason::FloodLimit, 1);
        }
        let domain = table.domains.get(frame.domain);
        if domain.is_none_or(|domain| domain.ports < 2) {
            return counters.dropped(Reason::NoDestination, 1);
        }
        if SHAPED && !shaping.admit_flood(table, &mut self.batch, frame, clock.nanos()) {
            return;
        }
        self.flood_on::<SHAPED>(table, shaping, clock, frame);
    }

    /// As [`flood`](Self::flood), past the limits of the source.
    pub fn flood_on<const SHAPED: bool>(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        frame: FrameRef,
    ) {
        let reached = self.copy_to_members::<SHAPED>(table, shaping, clock, frame, None);
        let FrameRef { i, from, domain } = frame;
        let Some(entry) = table.domains.get(domain) else {
            return;
        };
        let (generation, elsewhere) = (entry.generation, entry.elsewhere);
        if !reached && elsewhere == 0 {
            let counters = table.counters.port(from);
            counters.dropped(Reason::NoDestination, 1);
        }
        let target = Target::Flood {
            domain,
            generation,
            from,
        };
        for lane in bits(elsewhere) {
            self.hand_off(table, from, i, lane, target);
        }
    }

    /// Queues a copy of a frame to each other port that this lane sends; of a frame from another
    /// lane (`origin`) only to the ports that this lane sends for it. Returns whether there is any.
    fn copy_to_members<const SHAPED: bool>(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        frame: FrameRef,
        origin: Option<LaneIndex>,
    ) -> bool {
        let key = if SHAPED {
            shaping.key_of(table, &mut self.batch, frame, Classifier::has_ports)
        } else {
            None
        };
        let Some(domain) = table.domains.get_mut(frame.domain) else {
            return false;
        };
        // Lent, since the table is written meanwhile.
        let members = std::mem::take(&mut domain.members);
        let mut reached = false;
        for &to in members.iter().filter(|&&to| to != frame.from) {
            if origin.is_some_and(|origin| !table.takes_flood(to, origin)) {
                continue;
            }
            let admission = if SHAPED {
                shaping.admit_copy(table, &self.batch, frame, key, to, clock.nanos())
            } else {
                Some(Admission::Go)
            };
            reached |= admission.is_some();
            if admission == Some(Admission::Go) {
                self.enqueue_run(table, frame.i, 1, to);
            }
        }
        if let Some(domain) = table.domains.get_mut(frame.domain) {
            domain.members = members;
        }
        reached
    }

    /// Reports to the other lanes what a domain's lookup function has learned.
    fn report_news(&mut self, table: &mut Table, domain: DomainIndex) {
        let Some(entry) = table.domains.get_mut(domain) else {
            return;
        };
        let generation = entry.generation;
        while let Some(news) = entry.lookup.news() {
            let report = Report {
                domain,
                generation,
                news,
            };
            for sender in self.handoff.senders.iter_mut().flatten() {
                sender.report(report);
            }
        }
    }

    /// Spreads a batch over the lanes of a mask, each flow to one of them. Each lane asks the lookup
    /// function about its frames.
    pub fn spread(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        from: PortIndex,
        frames: Range<usize>,
        over: LaneMask,
    ) {
        let Some(generation) = table.generation(from) else {
            return;
        };
        let lanes = u64::from(over.count_ones());
        let target = Target::Lookup { from, generation };
        let mut mine = frames.start;
        for i in frames.clone() {
            let hash = u64::from(flow_hash(self.batch.frames()[i].head()));
            let lane = bits(over).nth(((hash * lanes) >> 32) as usize);
            let Some(lane) = lane.filter(|&lane| lane != usize::from(table.lane)) else {
                continue;
            };
            if mine < i {
                self.resolve(table, shaping, clock, from, mine..i);
            }
            mine = i + 1;
            self.hand_off(table, from, i as u16, lane, target);
        }
        if mine < frames.end {
            self.resolve(table, shaping, clock, from, mine..frames.end);
        }
    }

    /// Has frames of a port's egress queue go through its patch.
    pub fn pass(&mut self, table: &mut Table, port: PortIndex, patches: u8) {
        let Some(entry) = table.ports.get_mut(port) else {
            return;
        };
        let counters = table.counters.port(port);
        let frames = entry.egress_queue.len() as u64;
        let Some(other) = entry.egress.patch else {
            return;
        };
        if patches >= PATCHES_MAX || self.hops_done >= HOPS_MAX {
            entry.egress_queue.clear();
            return counters.dropped(Reason::PatchLoop, frames);
        }
        self.hops_done += 1;
        let (mut mask, mut bytes) = (0, 0);
        for i in entry.egress_queue.drain(..) {
            mask |= 1 << i;
            bytes += self.batch.frames()[usize::from(i)].len() as u64;
        }
        counters.went_out(frames, bytes);
        table.counters.port(other).came_in(frames, bytes);
        self.hops.push(PatchHop {
            from: other,
            patches: patches + 1,
            frames: mask,
        });
    }

    /// Whether frames have gone through patches that are yet to be resolved.
    #[inline]
    pub fn has_hops(&self) -> bool {
        !self.hops.is_empty()
    }

    /// Resolves frames that have gone through a patch. Returns how many patches they went through;
    /// `None` if there are none.
    pub fn resolve_hop(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
    ) -> Option<u8> {
        let Some(mut hop) = self.hops.pop() else {
            self.hops_done = 0;
            return None;
        };
        while hop.frames != 0 {
            let first = hop.frames.trailing_zeros() as usize;
            let run = (hop.frames >> first).trailing_ones() as usize;
            let end = first + run;
            self.resolve(table, shaping, clock, hop.from, first..end);
            hop.frames = if end < 64 {
                hop.frames >> end << end
            } else {
                0
            };
        }
        Some(hop.patches)
    }

    /// How many lanes hand frames off to this one.
    #[inline]
    pub fn other_lanes(&self) -> usize {
        self.handoff.receivers.len()
    }

    /// The next burst from the `i`-th other lane, and which that is.
    pub fn take_burst(&mut self, i: usize) -> Option<(Burst, LaneIndex)> {
        let (receiver, from) = self.handoff.receivers.get_mut(i)?;
        Some((receiver.take()?, *from))
    }

    /// Returns a burst to the `i`-th other lane.
    pub fn give_back(&mut self, i: usize, burst: Burst) {
        if let Some((receiver, _)) = self.handoff.receivers.get_mut(i) {
            receiver.give_back(burst);
        }
    }

    /// Resolves the batch of a burst from another lane.
    pub fn resolve_burst(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        counters: &LaneCounters,
        targets: &[Target],
        origin: LaneIndex,
    ) {
        let mut i = 0;
        while let Some(&target) = targets.get(i) {
            let mut run = 1;
            match target {
                Target::Port { port, generation } => match table.ports.get(port) {
                    Some(entry)
                        if entry.generation == generation && entry.egress.has(table.lane) =>
                    {
                        self.enqueue_run(table, i as u16, 1, port);
                    }
                    // Gone, or moved to another lane meanwhile.
                    _ => counters.handed_in_dropped(1),
                },
                Target::Flood {
                    domain,
                    generation,
                    from,
                } => {
                    let i = i as u16;
                    let frame = FrameRef { i, from, domain };
                    let origin = Some(origin);
                    let entry = table.domains.get(domain);
                    match entry.filter(|entry| entry.generation == generation) {
                        Some(entry) if entry.shaped > 0 => {
                            self.copy_to_members::<true>(table, shaping, clock, frame, origin);
                        }
                        Some(_) => {
                            self.copy_to_members::<false>(table, shaping, clock, frame, origin);
                        }
                        None => counters.handed_in_dropped(1),
                    }
                }
                Target::Lookup { from, generation } => {
                    run = targets[i..].iter().take_while(|t| **t == target).count();
                    if table.generation(from) == Some(generation) {
                        self.resolve(table, shaping, clock, from, i..i + run);
                    } else {
                        counters.handed_in_dropped(run);
                    }
                }
            }
            i += run;
        }
    }

    /// Whether the handoff rings to all of `lanes` have room for a batch.
    #[inline]
    pub fn has_room(&mut self, lanes: LaneMask) -> bool {
        bits(lanes).all(|lane| match self.handoff.senders.get_mut(lane) {
            Some(Some(sender)) => sender.has_room(),
            _ => true,
        })
    }

    /// Sends to the other lanes what is to go there.
    pub fn flush(&mut self) {
        for sender in self.handoff.senders.iter_mut().flatten() {
            sender.flush();
        }
    }

    /// Whether nothing is on its way from other lanes.
    pub fn is_idle(&self) -> bool {
        let mut receivers = self.handoff.receivers.iter();
        receivers.all(|(receiver, _)| receiver.is_empty())
    }
}

/// The indices of a mask's bits.
#[inline]
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
