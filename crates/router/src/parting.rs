//! Parting a batch whose packets go different ways.
//!
//! What is done alike behind the outputs is done first, to all packets in one go, and packets for
//! the same place stay together, in order: a batch parts as late as it can, and in as few pieces.

use alloc::boxed::Box;

use packet::{BATCH, Batch, Facts, first};

use crate::context::ElementId;
use crate::engine::{BEHIND, Core, NONE, Parcel};

/// Places up to which little room is cleared for them.
pub(crate) const FEW: usize = 8;

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

/// Packets of a batch that leave by one output of the element that got it.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// The output's edge; [`NONE`] if they are dropped.
    pub left_by: u32,
    /// The edge that they go on by: the same, or one behind elements that do nothing but sort; or
    /// [`NONE`].
    pub by: u32,
    /// A bit for each packet.
    pub set: u64,
}

impl Core {
    /// Parts a batch: `routes` are outputs, with a bit for each packet that leaves there. Returns how
    /// what stays in it goes on, for [`push`](crate::Element::push) to return; the rest is emitted.
    pub fn part_batch(&mut self, id: ElementId, batch: &mut Batch, routes: &[(u32, u64)]) -> usize {
        let outputs = self.outputs_of(id);
        let routes = routes.iter().map(|&(output, set)| {
            let edge = outputs.edge(output as usize).unwrap_or(NONE);
            Route {
                left_by: edge,
                by: edge,
                set,
            }
        });
        let shortcut = match outputs.alike {
            true => {
                let alike = |by: u32| {
                    self.outputs
                        .get(by as usize)
                        .map_or(NONE, |edge| edge.alike)
                };
                let ways = routes.clone().map(|route| (route.by, alike(route.by)));
                self.done_alike(ways, batch.facts())
            }
            false => None,
        };
        let places = routes.len();
        BEHIND | self.part_routes(batch, routes, places, shortcut) as usize
    }

    /// Parts a batch that goes by `routes`, to `places` at most; what `shortcut` does is done first,
    /// as those from all of them do the same. Returns by which edge what stays in it goes on; the
    /// rest is emitted.
    #[inline]
    pub fn part_routes(
        &mut self,
        batch: &mut Batch,
        routes: impl Iterator<Item = Route> + Clone,
        places: usize,
        shortcut: Option<usize>,
    ) -> u32 {
        let (behind, rest) = match shortcut {
            Some(shortcut) => self.do_alike(shortcut, batch),
            None => (false, None),
        };
        let may_stay = rest.is_none();
        let done = batch.len();
        let stays = match places <= FEW {
            true => self.part_by::<FEW>(batch, routes.clone(), behind, may_stay),
            false => self.part_to_many(batch, &mut routes.clone(), behind, may_stay),
        };
        if let Some(rest) = rest {
            self.part_rest(done, rest, &mut { routes });
        }
        stays
    }

    /// As [`part_by`](Self::part_by), to as many places as there are packets.
    #[inline(never)]
    fn part_to_many(
        &mut self,
        batch: &mut Batch,
        routes: &mut dyn Iterator<Item = Route>,
        behind: bool,
        may_stay: bool,
    ) -> u32 {
        self.part_by::<BATCH>(batch, routes, behind, may_stay)
    }

    /// Emits the packets of a batch behind the first `done`, which are not usual, and follow from
    /// element to element.
    #[cold]
    fn part_rest(
        &mut self,
        done: usize,
        mut rest: Box<Batch>,
        routes: &mut dyn Iterator<Item = Route>,
    ) {
        let mut deal = rest.deal();
        for route in routes {
            let mut some = self.batch();
            deal.give(route.set.unbounded_shr(done as u32), &mut some);
            self.emit_by(route.left_by, route.by, some);
        }
        drop(deal);
        self.put_back(rest);
    }

    /// Emits a batch.
    fn emit_by(&mut self, left_by: u32, by: u32, batch: Box<Batch>) {
        if by == NONE || batch.is_empty() {
            // Giving back a batch as a whole drops what is in it.
            return self.put_back(batch);
        }
        // What comes after this batch may not overtake it.
        self.open[left_by as usize] = 0;
        self.stack.push(Parcel {
            edge: by,
            left_by,
            batch,
        });
    }

    /// The shortcut from the first of some edges, if those from the others do the same and packets
    /// of which `facts` are known may take it. Edges come with a number that is the same for those
    /// whose shortcuts do the same.
    #[inline]
    pub fn done_alike(
        &self,
        mut edges: impl Iterator<Item = (u32, u32)>,
        facts: Facts,
    ) -> Option<usize> {
        let (first, alike) = edges.next()?;
        if !edges.all(|(_, other)| other == alike) {
            return None;
        }
        let number = (self.outputs.get(first as usize)?.shortcut as usize).checked_sub(1)?;
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
        batch: &mut Batch,
        routes: impl Iterator<Item = Route>,
        behind: bool,
        may_stay: bool,
    ) -> u32 {
        let there = first(batch.len());
        let (mut ways, mut found) = ([NO_WAY; N], 0);
        for Route {
            left_by,
            mut by,
            set,
        } in routes
        {
            let set = set & there;
            let count = set.count_ones();
            if behind {
                let number = self.outputs[by as usize].shortcut as usize;
                let shortcut = &mut self.shortcuts.list[number - 1];
                shortcut.packets += u64::from(count);
                by = shortcut.exit;
            }
            let edge = self.outputs.get_mut(by as usize);
            let place = edge.as_ref().map_or(u64::MAX, |edge| edge.place());
            match ways[..found].iter_mut().find(|way| way.place == place) {
                None => {
                    let Some(way) = ways.get_mut(found) else {
                        // There are no more places than that.
                        break;
                    };
                    *way = Way {
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
            self.emit_by(way.left_by, way.by, some);
        }
        stays.unwrap_or(NONE)
    }
}
