//! Where frames go: by the lookup function's word into the queues of this lane's ports, into
//! crossings to other lanes, and by patches into other domains.

use std::ops::Range;

use super::port::{Domain, State};
use super::{PARCELS_PER_ROUND, Worker, bits, slot, slot_mut};
use crate::counters::{PortCounters, Reason};
use crate::crossing::{Entry, Report, Target};
use crate::flow_hash::flow_hash;
use crate::lookup::{Destination, PortIndex};
use crate::port::{BATCH, Batch, Link, Outcome};
use crate::qos::crowd::{Crowd, Source};

/// Most patches that a frame goes through.
pub const PATCHES_MAX: u8 = 8;
/// Most times that frames of one batch go through patches: a bound on what a cycle of them costs.
const PASSAGES_MAX: u32 = 64;

/// Frames of the batch that have come through a patch.
pub(super) struct Passage {
    /// The end that they came out of.
    from: PortIndex,
    /// How many patches they have gone through.
    patches: u8,
    frames: Vec<u16>,
}

impl Worker {
    /// Has the domain of port `from` say where a run of the batch's frames goes, and queues them
    /// there.
    pub(super) fn steer(&mut self, from: PortIndex, run: Range<usize>) {
        let seconds = self.seconds();
        let counters = self.counters.port(from);
        let domain = slot(&self.ports, from.into()).map(|port| port.domain);
        let Some((place, domain)) =
            domain.and_then(|place| Some((place, slot_mut(&mut self.domains, place)?)))
        else {
            return counters.dropped(Reason::NoDestination, run.len() as u64);
        };
        if domain.shaped > 0 {
            return self.steer_shaped(from, place, run);
        }
        let frames = &self.batch.frames()[run.clone()];
        let to = &mut self.destinations[..frames.len()];
        domain.lookup.steer(from, frames, to, seconds);
        let mut crossing = Crossing {
            entries: &mut self.entries,
            crossed: &mut self.crossed,
            batch: &self.batch,
            counters,
        };
        for (i, to) in (run.start as u16..).zip(to) {
            match *to {
                Destination::Port(place) => match slot_mut(&mut self.ports, place.into()) {
                    Some(port) if port.ways.has(self.lane) => {
                        if port.queue.is_empty() {
                            self.touched.push(place);
                        }
                        port.queue.push(i);
                    }
                    Some(port) => {
                        let turn = port.turn;
                        crossing.put(port.ways.home.into(), i, Target::Port { place, turn });
                    }
                    None => counters.dropped(Reason::NoDestination, 1),
                },
                Destination::Drop(reason) => counters.dropped(reason, 1),
                Destination::Flood if domain.ports < 2 => {
                    counters.dropped(Reason::NoDestination, 1);
                }
                Destination::Flood => {
                    for &to in domain.members.iter().filter(|&&to| to != from) {
                        if let Some(port) = slot_mut(&mut self.ports, to.into()) {
                            if port.queue.is_empty() {
                                self.touched.push(to);
                            }
                            port.queue.push(i);
                        }
                    }
                    let turn = domain.turn;
                    for lane in bits(domain.elsewhere) {
                        let domain = place;
                        crossing.put(lane, i, Target::Flood { domain, turn, from });
                    }
                }
            }
        }
        if !self.exits.is_empty() {
            self.tell_news(place);
        }
    }

    /// Tells the other lanes what a domain's lookup function has learned.
    pub(super) fn tell_news(&mut self, place: u32) {
        let Some(domain) = slot_mut(&mut self.domains, place) else {
            return;
        };
        let turn = domain.turn;
        while let Some(news) = domain.lookup.news() {
            let domain = place;
            let report = Report { domain, turn, news };
            for entry in self.entries.iter_mut().flatten() {
                entry.report(report);
            }
        }
    }

    /// Shares a batch out among the lanes of the mask `over`, each flow to one of them, that are to
    /// ask where its frames go.
    pub(super) fn spread(&mut self, from: PortIndex, frames: Range<usize>, over: u64) {
        let Some(turn) = slot(&self.ports, from.into()).map(|port| port.turn) else {
            return;
        };
        let lanes = u64::from(over.count_ones());
        let target = Target::Steer { from, turn };
        let mut mine = frames.start;
        for i in frames.clone() {
            let hash = u64::from(flow_hash(self.batch.frames()[i].head()));
            let lane = bits(over).nth(((hash * lanes) >> 32) as usize);
            let Some(lane) = lane.filter(|&lane| lane != usize::from(self.lane)) else {
                continue;
            };
            if mine < i {
                self.steer(from, mine..i);
            }
            mine = i + 1;
            let mut crossing = Crossing {
                entries: &mut self.entries,
                crossed: &mut self.crossed,
                batch: &self.batch,
                counters: self.counters.port(from),
            };
            crossing.put(lane, i as u16, target);
        }
        if mine < frames.end {
            self.steer(from, mine..frames.end);
        }
    }

    /// Gives each destination its share of the batch, and goes on with what comes out of patches.
    pub(super) fn deliver(&mut self) {
        self.hand_out(0);
        while let Some(mut passage) = self.passages.pop() {
            let mut rest = &passage.frames[..];
            while let Some(&first) = rest.first() {
                let run = rest.iter().zip(first..).take_while(|(i, n)| **i == *n);
                let run = run.count();
                let start = usize::from(first);
                self.steer(passage.from, start..start + run);
                rest = &rest[run..];
            }
            passage.frames.clear();
            self.spare.push(passage.frames);
            self.hand_out(passage.patches);
        }
        self.passed = 0;
    }

    /// Gives each destination its share of the batch, whose frames went through so many patches.
    fn hand_out(&mut self, patches: u8) {
        while let Some(place) = self.touched.pop() {
            let Some(port) = slot_mut(&mut self.ports, place.into()) else {
                continue;
            };
            // What came through a patch may belong to a VLAN where nobody has heard of any.
            let domain = slot(&self.domains, port.domain);
            let shaped = domain.is_some_and(|domain| domain.shaped > 0);
            let several = domain.is_some_and(Domain::may_crowd);
            if (shaped || self.batch.says_vlans()) && self.send_shaped(place, patches) {
                continue;
            }
            let Some(port) = slot_mut(&mut self.ports, place.into()) else {
                continue;
            };
            if port.ways.patch.is_some() {
                self.pass(place, patches);
                continue;
            }
            let counters = self.counters.port(place);
            let queue = port.sends.filter(|_| !port.closed);
            let outcome = match queue.and_then(|queue| slot_mut(&mut self.queues, queue)) {
                Some(queue) if queue.state != State::Closed => {
                    let alone = patches == 0 && self.touched.is_empty();
                    if self.watched && alone && self.passages.is_empty() {
                        self.send_watching(place);
                        continue;
                    }
                    if several {
                        let frames = port.queue.len();
                        let leaves = leaves(&mut queue.link, &mut port.crowd, self.source, frames);
                        queue.link.leave(leaves);
                    }
                    queue.link.send(&mut self.batch, &port.queue, counters)
                }
                _ => {
                    counters.dropped(Reason::Closed, port.queue.len() as u64);
                    Outcome::default()
                }
            };
            port.queue.clear();
            if let (Some(queue), true) = (queue, outcome.owes) {
                self.owe(queue);
            }
            if let Some(queue) = queue
                && self.settle(queue, outcome)
                && outcome.busy
            {
                self.wake(queue);
            }
        }
    }

    /// How many slots of a port's ring so many frames of the batch are to leave free.
    pub(super) fn leaves(&mut self, place: PortIndex, frames: usize) -> u32 {
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return 0;
        };
        let domain = slot(&self.domains, port.domain);
        let queue = port
            .sends
            .and_then(|queue| slot_mut(&mut self.queues, queue));
        match queue.filter(|_| domain.is_some_and(Domain::may_crowd)) {
            Some(queue) => leaves(&mut queue.link, &mut port.crowd, self.source, frames),
            None => 0,
        }
    }

    /// Has a port's share of the batch go through its patch.
    pub(super) fn pass(&mut self, place: PortIndex, patches: u8) {
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return;
        };
        let counters = self.counters.port(place);
        let frames = port.queue.len() as u64;
        let Some(other) = port.ways.patch else {
            return;
        };
        if patches >= PATCHES_MAX || self.passed >= PASSAGES_MAX {
            port.queue.clear();
            return counters.dropped(Reason::PatchLoop, frames);
        }
        self.passed += 1;
        let lens = port
            .queue
            .iter()
            .map(|&i| self.batch.frames()[usize::from(i)].len() as u64);
        let bytes = lens.sum();
        counters.went_out(frames, bytes);
        self.counters.port(other).came_in(frames, bytes);
        let spare = self.spare.pop();
        let spare = spare.unwrap_or_else(|| Vec::with_capacity(BATCH));
        self.passages.push(Passage {
            from: other,
            patches: patches + 1,
            frames: std::mem::replace(&mut port.queue, spare),
        });
    }

    /// Deals with what has come by crossings.
    pub(super) fn arrivals(&mut self) {
        for i in 0..self.exits.len() {
            for _ in 0..PARCELS_PER_ROUND {
                let (exit, from) = &mut self.exits[i];
                let from = *from;
                let Some(mut parcel) = exit.take() else {
                    break;
                };
                for report in parcel.reports.drain(..) {
                    self.hear(report);
                }
                std::mem::swap(&mut self.batch, &mut parcel.batch);
                self.arrive(&parcel.targets, from);
                std::mem::swap(&mut self.batch, &mut parcel.batch);
                self.meter.arrived(parcel.targets.len());
                self.exits[i].0.give_back(parcel);
                self.pace.busy(self.now);
                self.moved = true;
            }
        }
    }

    fn hear(&mut self, report: Report) {
        let seconds = self.seconds();
        if let Some(domain) = slot_mut(&mut self.domains, report.domain)
            && domain.turn == report.turn
        {
            domain.lookup.hear(report.news, seconds);
        }
    }

    /// Delivers the batch of a parcel from another lane.
    fn arrive(&mut self, targets: &[Target], origin: u8) {
        let mut i = 0;
        while let Some(&target) = targets.get(i) {
            match target {
                Target::Port { place, turn } => self.arrive_at(place, turn, i as u16),
                Target::Flood { domain, turn, from } => {
                    self.arrive_all(domain, turn, from, origin, i as u16);
                }
                Target::Steer { from, turn } => {
                    let same = |target: &&Target| matches!(target, Target::Steer { from: f, turn: t } if *f == from && *t == turn);
                    let run = targets[i..].iter().take_while(same).count();
                    match slot(&self.ports, from.into()) {
                        Some(port) if port.turn == turn => self.steer(from, i..i + run),
                        _ => self.meter.lost(run),
                    }
                    i += run;
                    continue;
                }
            }
            i += 1;
        }
        self.source = Source::Lane(origin);
        self.deliver();
        self.crossed = 0;
    }

    fn arrive_at(&mut self, place: PortIndex, turn: u32, i: u16) {
        match slot_mut(&mut self.ports, place.into()) {
            Some(port) if port.turn == turn && port.ways.has(self.lane) => {
                if port.queue.is_empty() {
                    self.touched.push(place);
                }
                port.queue.push(i);
            }
            // Gone, or moved to another lane meanwhile.
            _ => self.meter.lost(1),
        }
    }

    /// Queues a flooded frame of another lane's to the ports that are this lane's to serve.
    fn arrive_all(&mut self, place: u32, turn: u32, from: PortIndex, origin: u8, i: u16) {
        let Some(domain) = slot(&self.domains, place).filter(|domain| domain.turn == turn) else {
            return self.meter.lost(1);
        };
        if domain.shaped > 0 {
            return self.arrive_shaped(place, i, from, origin);
        }
        for &to in domain.members.iter().filter(|&&to| to != from) {
            let Some(port) = slot_mut(&mut self.ports, to.into()) else {
                continue;
            };
            if port.ways.home == self.lane && !port.ways.has(origin) {
                if port.queue.is_empty() {
                    self.touched.push(to);
                }
                port.queue.push(i);
            }
        }
    }

    /// Sends what is to cross to other lanes.
    pub(super) fn depart(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            entry.flush();
        }
    }
}

/// How many slots of a link's ring so many frames from `source` are to leave free.
#[inline]
fn leaves(link: &mut Link, crowd: &mut Option<Box<Crowd>>, source: Source, frames: usize) -> u32 {
    let Some(slots) = link.crowded(frames) else {
        return 0;
    };
    let crowd = crowd.get_or_insert_default();
    crowd.offer(source, frames as u32, slots)
}

/// What it takes to have a frame cross.
pub(super) struct Crossing<'a> {
    pub entries: &'a mut [Option<Entry>],
    /// The lanes to which frames of the batch have crossed.
    pub crossed: &'a mut u64,
    pub batch: &'a Batch,
    /// The source's.
    pub counters: &'a PortCounters,
}

impl Crossing<'_> {
    /// Has frame `i` of the batch cross to a lane.
    #[inline(never)]
    pub fn put(&mut self, lane: usize, i: u16, target: Target) {
        *self.crossed |= 1 << lane;
        let entry = self.entries.get_mut(lane).and_then(Option::as_mut);
        let gone = entry.is_some_and(|entry| entry.put(self.batch, i, target));
        if !gone {
            self.counters.dropped(Reason::CrossingFull, 1);
        }
    }
}
