//! Frames from and to other lanes.

use std::ops::Range;

use super::Forwarding;
use crate::counters::{LaneCounters, Reason};
use crate::handoff::{Burst, HandoffReceiver, HandoffSender, Report, Target};
use crate::ids::{DomainIndex, LaneIndex, LaneMask, PortIndex};
use crate::port::flow_hash::flow_hash;
use crate::worker::Clock;
use crate::worker::frame::FrameRef;
use crate::worker::shaping::Shaping;
use crate::worker::table::Table;

/// Most bursts of one lane that are taken in a round.
pub(in crate::worker) const BURSTS_PER_ROUND: usize = 4;

/// The handoff rings from and to the other lanes.
pub(crate) struct Handoff {
    /// To the other lanes, by their indices; none to itself.
    pub senders: Vec<Option<HandoffSender>>,
    /// From the other lanes, with their indices.
    pub receivers: Vec<(HandoffReceiver, LaneIndex)>,
}

impl Forwarding {
    /// Hands frame `i` off to another lane. A frame that does not fit is counted at its source.
    #[inline(never)]
    pub(super) fn hand_off(
        &mut self,
        table: &Table,
        from: PortIndex,
        i: u16,
        lane: usize,
        target: Target,
    ) {
        self.reached |= 1 << lane;
        let sender = self.handoff.senders.get_mut(lane).and_then(Option::as_mut);
        let sent = sender.is_some_and(|sender| sender.push(&self.batch, i, target));
        if !sent {
            table.counters.port(from).dropped(Reason::HandoffFull, 1);
        }
    }

    /// Reports to the other lanes what a domain's lookup function has learned.
    pub(super) fn report_news(&mut self, table: &mut Table, domain: DomainIndex) {
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
                            self.copy_to_members::<true>(table, shaping, clock, frame, 1, origin);
                        }
                        Some(_) => {
                            self.copy_to_members::<false>(table, shaping, clock, frame, 1, origin);
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

    /// Sends the other lanes their frames.
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
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
