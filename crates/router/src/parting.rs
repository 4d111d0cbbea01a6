//! Parting a batch whose packets go different ways.
//!
//! What is done alike behind the outputs is done first, to all packets in one go, and packets for
//! the same place stay together, in order: a batch parts as late as it can, and in as few pieces.

use alloc::boxed::Box;

use packet::{BATCH, Batch, Facts, first};

use crate::context::ElementId;
use crate::engine::{BEHIND, Core, NONE, Parcel};

/// Outputs up to which little room is cleared for them.
const FEW: usize = 8;

/// Where packets go on that left by some outputs.
#[derive(Clone, Copy)]
struct Way {
    /// The edge of the lowest of the outputs; [`NONE`]'s packets are dropped.
    left_by: u32,
    /// The edge that they go on by: the same, or one behind it.
    by: u32,
    /// Packets of these that another edge to the same place counts.
    elsewhere: u32,
    /// How many they are.
    count: u32,
    /// Where they go; see [`Edge::place`](crate::engine::Edge::place).
    place: u64,
    /// A bit for each packet.
    set: u64,
}

const NO_WAY: Way = Way {
    left_by: NONE,
    by: NONE,
    elsewhere: 0,
    count: 0,
    place: u64::MAX,
    set: 0,
};

impl Core {
    /// Parts a batch: `routes` are outputs, with a bit for each packet that leaves there. Returns how
    /// what stays in it goes on, for [`push`](crate::Element::push) to return; the rest is emitted.
    pub fn part_batch(&mut self, id: ElementId, batch: &mut Batch, routes: &[(u32, u64)]) -> usize {
        let (behind, rest) = match self.done_alike(id, routes, batch.facts()) {
            Some(shortcut) => self.do_alike(shortcut, batch),
            None => (false, None),
        };
        let may_stay = rest.is_none();
        let stays = match routes.len() <= FEW {
            true => self.part_by::<FEW>(id, batch, routes, behind, may_stay),
            false => self.part_by::<BATCH>(id, batch, routes, behind, may_stay),
        };
        if let Some(mut rest) = rest {
            // These are not usual, and follow from element to element.
            let done = routes
                .iter()
                .fold(0, |all, (_, set)| all | set)
                .count_ones() as usize;
            let done = done - rest.len();
            let mut deal = rest.deal();
            for &(output, set) in routes {
                let mut some = self.batch();
                deal.give(set.unbounded_shr(done as u32), &mut some);
                self.send(id, output as usize, some);
            }
            drop(deal);
            self.put_back(rest);
        }
        BEHIND | stays as usize
    }

    /// The shortcut from the first of some outputs, if those from the others do the same and packets
    /// of which `facts` are known may take it.
    #[inline]
    fn done_alike(&self, id: ElementId, routes: &[(u32, u64)], facts: Facts) -> Option<usize> {
        if !self.outputs_alike(id) {
            return None;
        }
        let mut outputs = routes.iter().map(|(output, _)| {
            let edge = self.output_edge(id, *output as usize)?;
            Some(&self.outputs[edge as usize])
        });
        let first = outputs.next()??;
        let alike = outputs.all(|edge| edge.is_some_and(|edge| edge.alike == first.alike));
        let number = (first.shortcut as usize).checked_sub(1).filter(|_| alike)?;
        let needs = self.shortcuts.list.get(number)?.needs;
        (needs.without(facts) == Facts::NONE).then_some(number)
    }

    /// Does what a shortcut does to the packets of a batch up to the first that is not usual; the
    /// others are returned. False, and nothing done, if that is the first one.
    fn do_alike(&mut self, shortcut: usize, batch: &mut Batch) -> (bool, Option<Box<Batch>>) {
        let shortcut = &self.shortcuts.list[shortcut];
        let (keeps, learns) = (shortcut.keeps, shortcut.learns);
        let (ahead, spare) = (&mut self.ahead, &mut self.spare);
        let rest = batch.edit(&shortcut.plan, keeps, learns, ahead, || {
            spare.pop().unwrap_or_default()
        });
        match rest {
            Some(mut rest) if batch.is_empty() => {
                batch.append(&mut rest, BATCH);
                self.put_back(rest);
                (false, None)
            }
            rest => (true, rest),
        }
    }

    /// Emits packets by the edges that their routes lead to, or where the shortcuts from these end,
    /// but for those that stay, if any may: the most for one place. Returns by which edge they go on.
    #[inline(always)]
    fn part_by<const N: usize>(
        &mut self,
        id: ElementId,
        batch: &mut Batch,
        routes: &[(u32, u64)],
        behind: bool,
        may_stay: bool,
    ) -> u32 {
        let there = first(batch.len());
        let (mut ways, mut found) = ([NO_WAY; N], 0);
        for &(output, set) in routes.iter().take(N) {
            let set = set & there;
            let count = set.count_ones();
            let left_by = self.output_edge(id, output as usize).unwrap_or(NONE);
            let mut by = left_by;
            if behind {
                let number = self.outputs[left_by as usize].shortcut as usize;
                let shortcut = &mut self.shortcuts.list[number - 1];
                shortcut.packets += u64::from(count);
                by = shortcut.exit;
            }
            let edge = self.outputs.get_mut(by as usize);
            let place = edge.as_ref().map_or(u64::MAX, |edge| edge.place());
            match ways[..found].iter_mut().find(|way| way.place == place) {
                None => {
                    ways[found] = Way {
                        left_by,
                        by,
                        elsewhere: 0,
                        count,
                        place,
                        set,
                    };
                    found += 1;
                }
                Some(way) => {
                    way.set |= set;
                    way.count += count;
                    // Before what of any of these outputs follows.
                    way.left_by = way.left_by.min(left_by);
                    // They go on by the other edge, and count for their own.
                    if let Some(edge) = edge.filter(|_| way.by != by) {
                        edge.packets = edge.packets.wrapping_add(count.into());
                        way.elsewhere += count;
                    }
                }
            }
        }
        let ways = &ways[..found];
        for way in ways.iter().filter(|way| way.elsewhere > 0) {
            let edge = &mut self.outputs[way.by as usize];
            edge.packets = edge.packets.wrapping_sub(way.elsewhere.into());
        }
        if let ([way], true) = (ways, may_stay) {
            return way.by;
        }
        let most = ways.iter().max_by_key(|way| way.count);
        let stays = most.filter(|_| may_stay).map(|way| way.by);
        let mut deal = batch.deal();
        for way in ways.iter().filter(|way| Some(way.by) != stays) {
            let mut some = self.batch();
            deal.give(way.set, &mut some);
            if way.by == NONE || some.is_empty() {
                // Giving back a batch as a whole drops what is in it.
                self.put_back(some);
                continue;
            }
            // What comes after this batch may not overtake it.
            self.open[way.left_by as usize] = 0;
            self.stack.push(Parcel {
                edge: way.by,
                left_by: way.left_by,
                batch: some,
            });
        }
        stays.unwrap_or(NONE)
    }
}
