//! Next hops: the different places that a table's routes lead to.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// A gateway and an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The router to send to; unspecified: the destination itself.
    pub gateway: Ipv4Addr,
    /// The output; [`NOWHERE`](Hop::NOWHERE)'s if there is no route.
    pub port: u32,
}

impl Hop {
    /// Where packets without a route go.
    pub const NOWHERE: Hop = Hop {
        gateway: Ipv4Addr::UNSPECIFIED,
        port: crate::dispatch::DROP,
    };
}

/// The number of a hop. Number 0 is the default route's, or [`Hop::NOWHERE`].
pub type HopId = u32;

/// Every hop of a table, once.
pub struct Hops {
    hops: Vec<Hop>,
    uses: Vec<u32>,
    ids: BTreeMap<Hop, HopId>,
    free: Vec<HopId>,
}

impl Hops {
    pub fn new() -> Hops {
        Hops {
            hops: alloc::vec![Hop::NOWHERE],
            uses: alloc::vec![1],
            ids: BTreeMap::new(),
            free: Vec::new(),
        }
    }

    /// The hops by number, for the data path.
    #[inline]
    pub fn as_slice(&self) -> &[Hop] {
        &self.hops
    }

    /// Sets where packets go that no other route is for.
    pub fn set_default(&mut self, hop: Hop) {
        if let Some(first) = self.hops.first_mut() {
            *first = hop;
        }
    }

    /// The number of `hop`, which has one use more from now on.
    pub fn acquire(&mut self, hop: Hop) -> HopId {
        if let Some(&id) = self.ids.get(&hop) {
            self.uses[id as usize] += 1;
            return id;
        }
        let id = match self.free.pop() {
            Some(id) => {
                (self.hops[id as usize], self.uses[id as usize]) = (hop, 1);
                id
            }
            None => {
                self.hops.push(hop);
                self.uses.push(1);
                self.hops.len() as HopId - 1
            }
        };
        self.ids.insert(hop, id);
        id
    }

    /// One use less.
    pub fn release(&mut self, id: HopId) {
        let uses = &mut self.uses[id as usize];
        *uses -= 1;
        if *uses == 0 {
            self.ids.remove(&self.hops[id as usize]);
            self.free.push(id);
        }
    }
}
