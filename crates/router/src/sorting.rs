//! Trees: elements right behind each other that do nothing but sort, as one.
//!
//! A tree starts where an edge leads to an element that only sorts, and has such elements behind
//! some of its outputs. What comes there is sorted in one go, with a look at each packet, and a
//! batch parts once, behind the last of these elements: what comes to one place then, by whichever
//! of their outputs, stays together. Packets count where they would have passed.
//!
//! Like shortcuts, trees change nothing but the time that it takes, and are found
//! anew when a handler may have changed what an element does.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use packet::{Batch, Facts};

use crate::context::ElementId;
use crate::engine::{Core, Edge, NONE, TREE};
use crate::parting::{FEW, Route};

/// Most elements of a tree.
const BRANCHES_MAX: usize = 16;
/// Batches that go from element to element after one with a packet that is not usual: to look for
/// nothing takes a fifth of the time.
const PAUSE: u8 = 63;

/// What an element does that only sorts: packets leave as they came, each by an output that depends
/// on nothing but the packet.
pub trait Sorting: Any + Send + Sync {
    /// What sorts as a tree of elements does; `None` if there is no such thing, or nothing that is
    /// quicker. The first of `branches` is this.
    fn together(&self, branches: &[Branch]) -> Option<Box<dyn Sorter>>;
}

/// One element of a tree.
pub struct Branch {
    /// What it does.
    pub sorting: Arc<dyn Sorting>,
    /// Where its outputs lead.
    pub outputs: Vec<Onward>,
    /// The leaf of packets that it drops.
    pub dropped: u32,
}

impl PartialEq for Branch {
    fn eq(&self, other: &Branch) -> bool {
        Arc::ptr_eq(&self.sorting, &other.sorting)
            && (&self.outputs, self.dropped) == (&other.outputs, other.dropped)
    }
}

/// Where packets go on in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// To the element of this number.
    Branch(usize),
    /// Out of the tree, by the leaf of this number.
    Leaf(u32),
}

/// A tree that sorts.
pub trait Sorter: Send {
    /// Says which packets of a batch come to which leaves, with a bit for each, the lowest for the
    /// first: adds them to `leaves`, depth first and in port order. Every packet comes to one. False,
    /// and what was added is not right, if some packet is not usual: then all go from element to
    /// element.
    fn sort(&mut self, batch: &Batch, leaves: &mut Vec<(u32, u64)>) -> bool;
}

/// A tree of a router.
pub(crate) struct Tree {
    branches: Vec<Branch>,
    sorter: Box<dyn Sorter>,
    leaves: Box<[Leaf]>,
    /// Whether the shortcuts from some leaves do the same.
    alike: bool,
    /// Whether they lead to few places only.
    few: bool,
    /// Batches that go from element to element.
    pause: u8,
    /// Room for what is found in a batch.
    found: Vec<(u32, u64)>,
    routes: Vec<Route>,
}

/// A way out of a tree.
struct Leaf {
    /// The edge by which packets leave the tree's first element; [`NONE`] if it drops them.
    left_by: u32,
    /// The edge by which they leave the tree; [`NONE`] if they are dropped.
    by: u32,
    /// The first leaf whose shortcut does the same; itself if there is none.
    alike: u32,
    /// The edges between the tree's elements that packets pass.
    passed: Box<[u32]>,
    /// Packets that passed, and that these edges do not count yet.
    packets: u64,
}

/// An element of a tree that is being found.
struct Found {
    id: ElementId,
    sorting: Arc<dyn Sorting>,
    /// The edges that lead here from the first.
    passed: Vec<u32>,
    /// For each output the element there, if it belongs to the tree.
    behind: Vec<Option<usize>>,
}

impl Tree {
    /// Adds to edges, by `count`, what passed them and was not added yet.
    pub fn count(&mut self, mut count: impl FnMut(u32, u64)) {
        for leaf in &mut self.leaves {
            let packets = core::mem::take(&mut leaf.packets);
            for edge in &leaf.passed {
                count(*edge, packets);
            }
        }
    }
}

impl Core {
    /// Finds the trees behind all edges. Shortcuts are known.
    pub(crate) fn find_trees(&mut self) {
        let mut former = core::mem::take(&mut self.shortcuts.former);
        // Where packets come from what does not sort; and from there on, behind trees.
        let mut starts = Vec::new();
        for id in (0..self.elements.len() as u32).map(ElementId) {
            if self.sorting(id).is_none() {
                self.note_sorting(self.outputs_of(id).edges(), &mut starts);
            }
        }
        let mut at = 0;
        while let Some(&id) = starts.get(at) {
            at += 1;
            let Some(tree) = self.tree(id, &mut former) else {
                self.note_sorting(self.outputs_of(id).edges(), &mut starts);
                continue;
            };
            self.note_sorting(tree.leaves.iter().map(|leaf| leaf.by), &mut starts);
            let number = self.shortcuts.trees.len() as u32;
            self.shortcuts.trees.push(tree);
            let here = self.outputs.iter_mut();
            for edge in here.filter(|edge| edge.target() == Some((id, 0))) {
                edge.shortcut = TREE | number;
            }
        }
    }

    fn sorting(&self, id: ElementId) -> Option<Arc<dyn Sorting>> {
        self.elements[id.index()].as_ref()?.sorting()
    }

    /// Adds elements that sort, if edges lead there and they are not among `elements` yet.
    fn note_sorting(&self, edges: impl Iterator<Item = u32>, elements: &mut Vec<ElementId>) {
        for edge in edges {
            let target = self.outputs.get(edge as usize).and_then(Edge::target);
            if let Some((id, 0)) = target
                && !elements.contains(&id)
                && self.sorting(id).is_some()
            {
                elements.push(id);
            }
        }
    }

    /// The largest tree that starts with an element, if there is one.
    fn tree(&self, id: ElementId, former: &mut Vec<Tree>) -> Option<Tree> {
        let mut found = Vec::from([self.found(id, Vec::new())?]);
        let mut at = 0;
        while at < found.len() {
            for port in 0..found[at].behind.len() {
                let Found { id, passed, .. } = &found[at];
                let edge = self.output_edge(*id, port)?;
                let behind = match self.outputs[edge as usize].target() {
                    Some((id, 0)) if found.len() < BRANCHES_MAX => {
                        let mut passed = passed.clone();
                        passed.push(edge);
                        self.found(id, passed)
                    }
                    _ => None,
                };
                if let Some(behind) = behind {
                    found[at].behind[port] = Some(found.len());
                    found.push(behind);
                }
            }
            at += 1;
        }
        let mut count = found.len();
        while count > 1 {
            if let Some(tree) = self.tree_of(&found[..count], former) {
                return Some(tree);
            }
            count /= 2;
        }
        None
    }

    fn found(&self, id: ElementId, passed: Vec<u32>) -> Option<Found> {
        let sorting = self.sorting(id)?;
        let outputs = self.outputs_of(id);
        Some(Found {
            id,
            sorting,
            passed,
            behind: alloc::vec![None; outputs.count as usize],
        })
    }

    /// The tree of some elements, and no others.
    fn tree_of(&self, found: &[Found], former: &mut Vec<Tree>) -> Option<Tree> {
        let (mut branches, mut leaves) = (Vec::new(), Vec::new());
        for Found {
            id,
            sorting,
            passed,
            behind,
        } in found
        {
            let mut leaf = |by: u32| {
                leaves.push(Leaf {
                    left_by: passed.first().copied().unwrap_or(by),
                    by,
                    alike: leaves.len() as u32,
                    passed: passed.as_slice().into(),
                    packets: 0,
                });
                leaves.len() as u32 - 1
            };
            let outputs = behind.iter().enumerate().map(|(port, behind)| {
                let behind = behind.filter(|behind| *behind < found.len());
                let edge = || self.output_edge(*id, port).unwrap_or(NONE);
                behind.map_or_else(|| Onward::Leaf(leaf(edge())), Onward::Branch)
            });
            let outputs = outputs.collect();
            branches.push(Branch {
                sorting: sorting.clone(),
                outputs,
                dropped: leaf(NONE),
            });
        }
        let same = former.iter().position(|former| former.branches == branches);
        let sorter = match same {
            Some(same) => former.swap_remove(same).sorter,
            None => found.first()?.sorting.together(&branches)?,
        };
        let alike = self.note_leaves_alike(&mut leaves);
        let few = [false, true].map(|behind| self.lead_to_few(&leaves, behind));
        Some(Tree {
            branches,
            sorter,
            leaves: leaves.into(),
            alike,
            few: few == [true; 2],
            pause: 0,
            found: Vec::with_capacity(packet::BATCH),
            routes: Vec::with_capacity(packet::BATCH),
        })
    }

    /// Takes note of which leaves have shortcuts that do the same; returns whether some have.
    fn note_leaves_alike(&self, leaves: &mut [Leaf]) -> bool {
        let edge = |leaf: &Leaf| self.outputs.get(leaf.by as usize);
        let mut some = false;
        for at in 1..leaves.len() {
            let own = edge(&leaves[at]).filter(|own| self.shortcuts.exit(own).is_some());
            let Some(own) = own else {
                continue;
            };
            let same = |leaf: &Leaf| edge(leaf).is_some_and(|edge| self.shortcuts.alike(own, edge));
            if let Some(first) = leaves[..at].iter().position(same) {
                leaves[at].alike = first as u32;
                some = true;
            }
        }
        some
    }

    /// Whether leaves lead to few places only, or the shortcuts behind them do.
    fn lead_to_few(&self, leaves: &[Leaf], behind: bool) -> bool {
        let mut places = Vec::new();
        for leaf in leaves {
            let mut edge = self.outputs.get(leaf.by as usize);
            if let Some(exit) = edge
                .and_then(|edge| self.shortcuts.exit(edge))
                .filter(|_| behind)
            {
                edge = self.outputs.get(exit as usize);
            }
            let place = edge.map(Edge::place);
            if places.len() <= FEW && !places.contains(&place) {
                places.push(place);
            }
        }
        places.len() <= FEW
    }

    /// Sorts a batch as a tree does. Returns by which edge what stays in it goes on, or [`NONE`]; the
    /// rest is emitted. `None`, and nothing done, if it has to go from element to element.
    pub(crate) fn sort(&mut self, number: usize, batch: &mut Batch) -> Option<u32> {
        let tree = self.shortcuts.trees.get_mut(number)?;
        if tree.pause > 0 {
            tree.pause -= 1;
            return None;
        }
        tree.found.clear();
        if !tree.sorter.sort(batch, &mut tree.found) {
            tree.pause = PAUSE;
            return None;
        }
        let mut routes = core::mem::take(&mut tree.routes);
        routes.clear();
        for &(leaf, set) in &tree.found {
            let leaf = &mut tree.leaves[leaf as usize];
            leaf.packets += u64::from(set.count_ones());
            routes.push(Route {
                left_by: leaf.left_by,
                by: leaf.by,
                set,
            });
        }
        let places = if tree.few { FEW } else { routes.len() };
        let shortcut = match tree.alike {
            true => self.leaves_alike(number, batch.facts()),
            false => None,
        };
        let stays = self.part_routes(batch, routes.iter().copied(), places, shortcut);
        if let Some(tree) = self.shortcuts.trees.get_mut(number) {
            tree.routes = routes;
        }
        Some(stays)
    }

    /// The shortcut from the first of the leaves that were found, if those from the others do the
    /// same and packets of which `facts` are known may take it.
    fn leaves_alike(&self, number: usize, facts: Facts) -> Option<usize> {
        let tree = self.shortcuts.trees.get(number)?;
        let leaves = tree.found.iter().map(|(leaf, _)| {
            let leaf = &tree.leaves[*leaf as usize];
            (leaf.by, leaf.alike)
        });
        self.done_alike(leaves, facts)
    }
}
