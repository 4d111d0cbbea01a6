//! Dispatch of a batch to several outputs.
//!
//! A batch is split as late and into as few pieces as possible. If the fused paths behind all its
//! outputs have the same effect, that is done first, to the whole batch. Packets with the same
//! destination stay together, in order.

use packet::{BATCH, Facts, Pool, first};

use super::numbers::{EdgeId, Pushed};
use super::{Pending, Walk};
use crate::prelude::*;

/// Destinations up to which a small table is cleared for them.
pub(crate) const FEW: usize = 8;

/// Packets of a batch with the same destination.
#[derive(Clone, Copy)]
struct Group {
    /// The edge of the lowest of their outputs; that of dropped packets is [`EdgeId::NONE`].
    output: EdgeId,
    /// The edge by which they go on: the same, or one behind it.
    exit: EdgeId,
    /// How many of them count for another edge to the same destination.
    elsewhere: u32,
    /// How many they are.
    count: u32,
    /// The destination's [key](super::numbers::Target::key).
    key: u64,
    /// A bit for each packet.
    packets: u64,
}

const NO_GROUP: Group = Group {
    output: EdgeId::NONE,
    exit: EdgeId::NONE,
    elsewhere: 0,
    count: 0,
    key: u64::MAX,
    packets: 0,
};

/// Packets of a batch that leave by one output.
#[derive(Clone, Copy)]
pub(crate) struct OutputSet {
    /// The output's edge, or [`EdgeId::NONE`] if they are dropped.
    pub output: EdgeId,
    /// The edge by which they go on: the same, or one behind elements that only classify; or
    /// [`EdgeId::NONE`].
    pub exit: EdgeId,
    /// A bit for each packet.
    pub packets: u64,
}

impl Walk {
    /// Dispatches a batch: `outputs` are outputs of element `id`, with a bit for each packet that
    /// leaves there. Returns how the rest of the batch goes on; the other packets are emitted.
    pub fn dispatch(
        &mut self,
        pool: &mut Pool,
        id: ElementId,
        batch: &mut Batch,
        outputs: &[(u32, u64)],
    ) -> Pushed {
        let of = self.edges.outputs_of(id);
        let sets = outputs.iter().map(|&(output, packets)| {
            let edge = of.edge(output as usize).unwrap_or(EdgeId::NONE);
            OutputSet {
                output: edge,
                exit: edge,
                packets,
            }
        });
        let path = if of.same_effect {
            let same = |edge: EdgeId| {
                let edge = self.edges.get(edge);
                edge.map_or(EdgeId::NONE, |edge| edge.same_effect)
            };
            let exits = sets.clone().map(|set| (set.exit, same(set.exit)));
            self.common_path(exits, batch.facts())
        } else {
            None
        };
        let destinations = sets.len();
        Pushed::edge(self.dispatch_sets(pool, batch, sets, destinations, path))
    }

    /// Dispatches a batch by `sets` to at most so many destinations. The work of the fused path
    /// `path` is done first: the paths from all sets have the same effect. Returns the edge by which
    /// the rest of the batch goes on; the other packets are emitted.
    #[inline]
    pub fn dispatch_sets(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        sets: impl Iterator<Item = OutputSet> + Clone,
        destinations: usize,
        path: Option<usize>,
    ) -> EdgeId {
        let (fused, left) = match path {
            Some(path) => self.run_common_path(pool, path, batch),
            None => (false, None),
        };
        let may_stay = left.is_none();
        let done = batch.len();
        let rest = if destinations <= FEW {
            self.dispatch_to::<FEW>(pool, batch, sets.clone(), fused, may_stay)
        } else {
            self.dispatch_to_many(pool, batch, &mut sets.clone(), fused, may_stay)
        };
        if let Some(left) = left {
            self.emit_uncovered(pool, done, left, &mut { sets });
        }
        rest
    }

    /// As [`dispatch_to`](Self::dispatch_to), to as many destinations as there are packets.
    #[inline(never)]
    fn dispatch_to_many(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        sets: &mut dyn Iterator<Item = OutputSet>,
        fused: bool,
        may_stay: bool,
    ) -> EdgeId {
        self.dispatch_to::<BATCH>(pool, batch, sets, fused, may_stay)
    }

    /// Emits the packets of a batch behind the first `done`, which the fused path does not cover:
    /// they go from element to element.
    #[cold]
    fn emit_uncovered(
        &mut self,
        pool: &mut Pool,
        done: usize,
        mut left: Box<Batch>,
        sets: &mut dyn Iterator<Item = OutputSet>,
    ) {
        let mut dispatch = left.dispatch();
        for set in sets {
            let mut some = self.batch();
            dispatch.send(set.packets.unbounded_shr(done as u32), &mut some);
            self.emit_batch(pool, set.output, set.exit, some);
        }
        drop(dispatch);
        self.put_back(pool, left);
    }

    /// Emits a batch that leaves by `output` and goes on by `exit`.
    fn emit_batch(&mut self, pool: &mut Pool, output: EdgeId, exit: EdgeId, batch: Box<Batch>) {
        if exit.is_none() || batch.is_empty() {
            // The packets of a batch that is put back are dropped.
            return self.put_back(pool, batch);
        }
        // Packets that follow may not overtake this batch.
        self.close(output);
        self.stack.push(Pending {
            edge: exit,
            output,
            batch,
        });
    }

    /// The fused path from the first of some edges, if those from the others have the same effect
    /// and packets of which `facts` hold may take it. Each edge comes with a value that is equal for
    /// edges whose paths have the same effect.
    #[inline]
    pub fn common_path<T: PartialEq>(
        &self,
        mut edges: impl Iterator<Item = (EdgeId, T)>,
        facts: Facts,
    ) -> Option<usize> {
        let (first, effect) = edges.next()?;
        if !edges.all(|(_, other)| other == effect) {
            return None;
        }
        let path = self.edges.get(first)?.optimization.as_path()?;
        self.paths.0.get(path)?.admits(facts).then_some(path)
    }

    /// Does the work of a fused path to the packets of a batch up to the first that it does not
    /// cover; the others are returned. False, and nothing done, if that is the first one.
    fn run_common_path(
        &mut self,
        pool: &mut Pool,
        path: usize,
        batch: &mut Batch,
    ) -> (bool, Option<Box<Batch>>) {
        let path = &self.paths.0[path];
        match path.run(batch, &mut self.prefetcher, &mut self.spare) {
            Some(mut left) if batch.is_empty() => {
                batch.append(&mut left, BATCH);
                self.put_back(pool, left);
                (false, None)
            }
            left => (true, left),
        }
    }

    /// Emits packets by the edges of their sets, or behind the fused paths from these if that work
    /// is done. If packets `may_stay`, the largest group stays in the batch; returns the edge by
    /// which it goes on.
    #[inline(always)]
    fn dispatch_to<const N: usize>(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        sets: impl Iterator<Item = OutputSet>,
        fused: bool,
        may_stay: bool,
    ) -> EdgeId {
        let there = first(batch.len());
        let (mut groups, mut found) = ([NO_GROUP; N], 0);
        for OutputSet {
            output,
            mut exit,
            packets,
        } in sets
        {
            let packets = packets & there;
            let count = packets.count_ones();
            if fused && let Some(path) = self.edges[exit].optimization.as_path() {
                let path = &mut self.paths.0[path];
                path.packets += u64::from(count);
                exit = path.exit;
            }
            let edge = self.edges.get_mut(exit);
            let key = edge.as_ref().map_or(u64::MAX, |edge| edge.target.key());
            match groups[..found].iter_mut().find(|group| group.key == key) {
                None => {
                    let Some(group) = groups.get_mut(found) else {
                        // There are no more destinations than that.
                        break;
                    };
                    *group = Group {
                        output,
                        exit,
                        elsewhere: 0,
                        count,
                        key,
                        packets,
                    };
                    found += 1;
                }
                Some(group) => {
                    group.packets |= packets;
                    group.count += count;
                    // Before the packets that any of these outputs emits later.
                    group.output = group.output.min(output);
                    // They go on by the group's edge, and count for their own.
                    if let Some(edge) = edge.filter(|_| group.exit != exit) {
                        edge.packets = edge.packets.wrapping_add(count.into());
                        group.elsewhere += count;
                    }
                }
            }
        }
        let groups = &groups[..found];
        for group in groups.iter().filter(|group| group.elsewhere > 0) {
            let edge = &mut self.edges[group.exit];
            edge.packets = edge.packets.wrapping_sub(group.elsewhere.into());
        }
        if let ([group], true) = (groups, may_stay) {
            return group.exit;
        }
        let largest = groups.iter().max_by_key(|group| group.count);
        let stays = largest.filter(|_| may_stay).map(|group| group.exit);
        let mut dispatch = batch.dispatch();
        for group in groups.iter().filter(|group| Some(group.exit) != stays) {
            let mut some = self.batch();
            dispatch.send(group.packets, &mut some);
            self.emit_batch(pool, group.output, group.exit, some);
        }
        stays.unwrap_or(EdgeId::NONE)
    }
}
