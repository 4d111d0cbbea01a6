//! Doubly linked lists whose nodes are numbers: members of a table that are in one list at a time.

use alloc::collections::TryReserveError;

use crate::prelude::*;

/// Doubly linked lists of numbers below a bound; each list has a node of its own above that.
#[derive(Default)]
pub struct Lists(Vec<[u32; 2]>);

const NEXT: usize = 0;
const PREVIOUS: usize = 1;

impl Lists {
    /// Lists of so many nodes, each a list of its own at first.
    pub fn new(nodes: usize) -> Result<Lists, TryReserveError> {
        let mut lists = Vec::new();
        lists.try_reserve_exact(nodes)?;
        lists.extend((0..nodes as u32).map(|node| [node; 2]));
        Ok(Lists(lists))
    }

    /// The node behind another; the list itself at its end.
    pub fn next(&self, node: u32) -> u32 {
        self.0.get(node as usize).map_or(node, |links| links[NEXT])
    }

    fn set(&mut self, node: u32, which: usize, to: u32) {
        if let Some(links) = self.0.get_mut(node as usize) {
            links[which] = to;
        }
    }

    /// Takes a node out of its list, if it is in one.
    pub fn unlink(&mut self, node: u32) {
        if let Some(&[next, previous]) = self.0.get(node as usize) {
            self.set(previous, NEXT, next);
            self.set(next, PREVIOUS, previous);
            self.set(node, NEXT, node);
            self.set(node, PREVIOUS, node);
        }
    }

    /// Puts a node, which is in no list, at the end of a list.
    pub fn append(&mut self, list: u32, node: u32) {
        if let Some(&[_, last]) = self.0.get(list as usize) {
            self.set(last, NEXT, node);
            self.set(node, PREVIOUS, last);
            self.set(node, NEXT, list);
            self.set(list, PREVIOUS, node);
        }
    }
}
