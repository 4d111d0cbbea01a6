//! Routes in the order in which the `table` handler shows them, which is that of Click's tables.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::prelude::*;

/// Which free slot a new route takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The lowest; a route that is set again stays where it was.
    #[default]
    Lowest,
    /// The one that became free last; a route that is set again moves to another.
    Latest,
}

/// The routes of a table.
pub struct Slots<R> {
    order: Order,
    routes: Vec<Option<R>>,
    lowest: BinaryHeap<Reverse<u32>>,
    latest: Vec<u32>,
}

impl<R> Slots<R> {
    pub fn new(order: Order) -> Self {
        Slots {
            order,
            routes: Vec::new(),
            lowest: BinaryHeap::new(),
            latest: Vec::new(),
        }
    }

    /// Makes sure that there is memory for so many more routes, and to remove all again.
    pub fn reserve(&mut self, count: usize) -> bool {
        let most = self.routes.len() + count;
        self.routes.try_reserve(count).is_ok()
            && match self.order {
                Order::Lowest => self.lowest.try_reserve(most - self.lowest.len()).is_ok(),
                Order::Latest => self.latest.try_reserve(most - self.latest.len()).is_ok(),
            }
    }

    pub fn get(&self, slot: u32) -> Option<&R> {
        self.routes.get(slot as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.routes.iter().flatten()
    }

    /// Stores a route; returns its slot.
    pub fn insert(&mut self, route: R) -> u32 {
        let free = match self.order {
            Order::Lowest => self.lowest.pop().map(|Reverse(slot)| slot),
            Order::Latest => self.latest.pop(),
        };
        match free {
            Some(slot) => {
                self.routes[slot as usize] = Some(route);
                slot
            }
            None => {
                self.routes.push(Some(route));
                self.routes.len() as u32 - 1
            }
        }
    }

    /// Takes the route in `slot` away.
    pub fn remove(&mut self, slot: u32) {
        self.routes[slot as usize] = None;
        match self.order {
            Order::Lowest => self.lowest.push(Reverse(slot)),
            Order::Latest => self.latest.push(slot),
        }
    }

    /// Puts `route` in the place of the one in `slot`; returns where it is then.
    pub fn replace(&mut self, slot: u32, route: R) -> u32 {
        match self.order {
            Order::Lowest => {
                self.routes[slot as usize] = Some(route);
                slot
            }
            Order::Latest => {
                let new = self.insert(route);
                self.remove(slot);
                new
            }
        }
    }
}
