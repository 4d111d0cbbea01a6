//! Where the frames of a batch go: the lookup function's answers, into the egress queues of this
//! lane's ports, to other lanes, and through patches into other domains.
//!
//! There is one path, compiled twice (`SHAPED`): with [shaping](super::shaping) for domains in
//! which any port or flow needs it, without for all others.

mod lanes;
mod patches;

use std::ops::Range;

use super::Clock;
use super::frame::FrameRef;
use super::shaping::{Admission, Shaping};
use super::table::Table;
use crate::counters::Reason;
use crate::handoff::Target;
use crate::ids::{DomainIndex, LaneIndex, LaneMask, PORTS_MAX, PortIndex};
use crate::lookup::Destination;
use crate::pace::Pace;
use crate::port::{BATCH, Batch};
use crate::qos::classifier::Classifier;
use crate::qos::threshold::FrameSource;
use crate::settled::Key;

pub(super) use lanes::BURSTS_PER_ROUND;
pub(crate) use lanes::Handoff;
use lanes::bits;
pub use patches::PATCHES_MAX;
use patches::{HOPS_MAX, PatchHop};

/// The batch under way, and where its frames go.
pub(super) struct Forwarding {
    pub batch: Box<Batch>,
    /// The flows of the batch's frames that tell a guest what passed.
    pub passed_keys: Vec<Key>,
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
            passed_keys: Vec::new(),
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

    /// Looks up the destinations of a run of the batch's frames in the domain of port `from`, and
    /// queues the frames there.
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
        if let Some(settled) = &table.settled
            && entry.lookup.has_moved()
        {
            settled.take_back_of_domain(domain);
        }
        let mut at = 0;
        while let Some(&to) = self.destinations[..run.len()].get(at) {
            let i = (run.start + at) as u16;
            let mut frame = FrameRef { i, from, domain };
            match to {
                Destination::Port(to) if SHAPED => {
                    let alike = self.alike(at..run.len());
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
                    // Each frame of a shaped domain has limits to pass.
                    let alike = if SHAPED { 1 } else { self.alike(at..run.len()) };
                    self.flood::<SHAPED>(table, shaping, clock, frame, alike);
                    at += alike;
                    continue;
                }
            }
            at += 1;
        }
        if !self.handoff.receivers.is_empty() {
            self.report_news(table, domain);
        }
    }

    /// How many of these frames, from the first on, have the first one's destination.
    #[inline(always)]
    fn alike(&self, frames: Range<usize>) -> usize {
        let destinations = &self.destinations[frames];
        let alike = destinations.iter().take_while(|to| **to == destinations[0]);
        alike.count()
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

    /// Queues `frames` frames from `frame` on to all other ports of their domain; if it is shaped,
    /// one frame at a time.
    fn flood<const SHAPED: bool>(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        frame: FrameRef,
        frames: usize,
    ) {
        let counters = table.counters.port(frame.from);
        if SHAPED && !shaping.may_flood(table, frame.from, clock.nanos()) {
            return counters.dropped(Reason::FloodLimit, 1);
        }
        let domain = table.domains.get(frame.domain);
        if domain.is_none_or(|domain| domain.ports < 2) {
            return counters.dropped(Reason::NoDestination, frames as u64);
        }
        if SHAPED && !shaping.admit_flood(table, &mut self.batch, frame, clock.nanos()) {
            return;
        }
        self.flood_on::<SHAPED>(table, shaping, clock, frame, frames);
    }

    /// As [`flood`](Self::flood), past the limits of the source.
    pub fn flood_on<const SHAPED: bool>(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        frame: FrameRef,
        frames: usize,
    ) {
        let reached = self.copy_to_members::<SHAPED>(table, shaping, clock, frame, frames, None);
        let FrameRef { i, from, domain } = frame;
        let Some(entry) = table.domains.get(domain) else {
            return;
        };
        let (generation, elsewhere) = (entry.generation, entry.elsewhere);
        if !reached && elsewhere == 0 {
            let counters = table.counters.port(from);
            counters.dropped(Reason::NoDestination, frames as u64);
        }
        let target = Target::Flood {
            domain,
            generation,
            from,
        };
        for i in i..i + frames as u16 {
            for lane in bits(elsewhere) {
                self.hand_off(table, from, i, lane, target);
            }
        }
    }

    /// Queues copies of frames, as [`flood`](Self::flood) does, to each other port that this lane
    /// sends; of frames from another lane (`origin`) only to the ports that this lane sends for it.
    /// Returns whether there is any.
    fn copy_to_members<const SHAPED: bool>(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
        frame: FrameRef,
        frames: usize,
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
                self.enqueue_run(table, frame.i, frames, to);
            }
        }
        if let Some(domain) = table.domains.get_mut(frame.domain) {
            domain.members = members;
        }
        reached
    }
}
