//! Shortcuts: rows of elements whose work a batch gets in one go.
//!
//! A shortcut starts where an edge leads to elements that say what they do as an
//! [`Edit`](packet::Edit), or that have nothing to do for packets of which some facts are known. It
//! ends at an edge behind them. What is not usual goes the long way, from element to element, so
//! shortcuts change nothing but the time that it takes. They are found anew when a handler may have
//! changed what an element does, and so are [trees](crate::sorting).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use packet::{Edit, Facts, Plan};

use crate::context::ElementId;
use crate::engine::{Core, Edge};
use crate::handler::HandlerError;
use crate::sorting::{Sorting, Tree};

/// Most elements of a shortcut.
const LENGTH_MAX: usize = 16;

/// A way past elements.
pub(crate) struct Shortcut {
    /// What is done to packets on the way.
    pub plan: Plan,
    /// What has to be known of them.
    pub needs: Facts,
    /// What stays true of them.
    pub keeps: Facts,
    /// What the plan may find out.
    pub learns: Facts,
    /// The edges that packets pass.
    pub passed: Box<[u32]>,
    /// The edge behind.
    pub exit: u32,
    /// Packets that passed, and that the edges do not count yet.
    pub packets: u64,
}

impl Shortcut {
    /// Whether it does the same as another, wherever they lead.
    fn does_as(&self, other: &Shortcut) -> bool {
        let facts = |shortcut: &Shortcut| (shortcut.needs, shortcut.keeps, shortcut.learns);
        facts(self) == facts(other) && self.plan == other.plan
    }
}

/// The shortcuts of a router.
#[derive(Default)]
pub(crate) struct Shortcuts {
    pub list: Vec<Shortcut>,
    pub trees: Vec<Tree>,
    /// Trees that may not be right any more, to be used again where they are.
    pub former: Vec<Tree>,
    /// They are right.
    pub known: bool,
}

impl Shortcuts {
    fn from(&self, edge: &Edge) -> Option<&Shortcut> {
        self.list.get((edge.shortcut as usize).checked_sub(1)?)
    }

    /// Whether there are shortcuts from both edges that do the same.
    pub fn alike(&self, one: &Edge, other: &Edge) -> bool {
        matches!((self.from(one), self.from(other)), (Some(one), Some(other)) if one.does_as(other))
    }

    /// The edge behind the shortcut from an edge.
    pub fn exit(&self, edge: &Edge) -> Option<u32> {
        self.from(edge).map(|shortcut| shortcut.exit)
    }
}

/// What an element says of its packets.
struct Said {
    edit: Option<Edit>,
    moot: Facts,
    sorting: Option<Arc<dyn Sorting>>,
}

impl PartialEq for Said {
    fn eq(&self, other: &Said) -> bool {
        let sorting = match (&self.sorting, &other.sorting) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        sorting && self.edit == other.edit && self.moot == other.moot
    }
}

impl Core {
    /// Forgets all shortcuts: elements may do something else from now on, or be elsewhere.
    pub fn forget_shortcuts(&mut self) {
        self.count_shortcuts();
        let Shortcuts {
            trees, mut former, ..
        } = core::mem::take(&mut self.shortcuts);
        former.extend(trees);
        self.shortcuts.former = former;
        for edge in &mut self.outputs {
            edge.shortcut = 0;
        }
        self.note_alike(|_, _| false);
    }

    /// Lets edges count the packets that passed them on shortcuts: who reads the counts calls this
    /// first.
    pub fn count_shortcuts(&mut self) {
        for shortcut in &mut self.shortcuts.list {
            let packets = core::mem::take(&mut shortcut.packets);
            for edge in &shortcut.passed {
                if let Some(edge) = self.outputs.get_mut(*edge as usize) {
                    edge.packets += packets;
                }
            }
        }
        for tree in &mut self.shortcuts.trees {
            tree.count(|edge, packets| {
                if let Some(edge) = self.outputs.get_mut(edge as usize) {
                    edge.packets += packets;
                }
            });
        }
    }

    /// Lets an element do something by which what it says of its packets may change.
    pub fn with_change<R>(&mut self, id: ElementId, change: impl FnOnce(&mut Core) -> R) -> R {
        let before = self.said(id);
        let result = change(self);
        if before != self.said(id) {
            self.forget_shortcuts();
        }
        result
    }

    fn said(&self, id: ElementId) -> Option<Said> {
        let element = self.elements.get(id.index())?.as_ref()?;
        Some(Said {
            edit: element.edit(),
            moot: element.moot(),
            sorting: element.sorting(),
        })
    }

    /// Finds the shortcuts and trees from all edges.
    #[cold]
    pub fn find_shortcuts(&mut self) {
        if self.share.as_ref().is_some_and(|share| share.whole) {
            // Elements of other threads are here for a moment.
            return;
        }
        self.forget_shortcuts();
        for edge in 0..self.outputs.len() as u32 {
            if let Some(shortcut) = self.shortcut(edge) {
                self.shortcuts.list.push(shortcut);
                self.outputs[edge as usize].shortcut = self.shortcuts.list.len() as u32;
            }
        }
        let shortcuts = core::mem::take(&mut self.shortcuts);
        self.note_alike(|one, other| shortcuts.alike(one, other));
        self.shortcuts = shortcuts;
        self.find_trees();
        self.shortcuts.known = true;
    }

    /// The longest shortcut from an edge, if one is worth it.
    fn shortcut(&self, edge: u32) -> Option<Shortcut> {
        let (mut edit, mut edits) = (Edit::NOTHING, 0);
        let (mut needs, mut keeps) = (Facts::NONE, Facts::ALL);
        // What the edit says of all packets, and what it may find out.
        let (mut known, mut learns) = (Facts::NONE, Facts::NONE);
        let (mut passed, mut at) = (Vec::new(), edge);
        while passed.len() < LENGTH_MAX {
            let Some((id, 0)) = self.outputs[at as usize].target() else {
                break;
            };
            let (Some(said), Some(onward)) = (self.said(id), self.output_edge(id, 0)) else {
                break;
            };
            let Said {
                edit: does, moot, ..
            } = said;
            let asks = moot.without(known);
            if moot != Facts::NONE && asks.without(keeps) == Facts::NONE {
                needs = needs.and(asks);
            } else if let Some(next) = does.and_then(|next| edit.then(&next)) {
                let kept = self.elements[id.index()].as_ref()?.keeps();
                let finds = next.learns().without(edit.learns());
                let may = if finds == Facts::NONE {
                    Facts::NONE
                } else {
                    Facts::ALL
                };
                (edit, edits) = (next, edits + 1);
                keeps = keeps.among(kept);
                (known, learns) = (known.among(kept).and(finds), learns.among(kept).and(may));
            } else {
                break;
            }
            passed.push(at);
            at = onward;
        }
        // A lone edit is done as quickly by the element.
        (!passed.is_empty() && (edits != 1 || passed.len() > 1)).then(|| Shortcut {
            plan: edit.plan(),
            needs,
            keeps,
            learns,
            passed: passed.into(),
            exit: at,
            packets: 0,
        })
    }

    /// Writes an element's handler.
    pub fn write_element(
        &mut self,
        id: ElementId,
        name: &str,
        value: &str,
    ) -> Option<Result<(), HandlerError>> {
        self.with_change(id, |core| {
            core.with(id, |element, cx| element.write(cx, name, value))
        })
    }
}
