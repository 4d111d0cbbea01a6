//! Next hops: the different places that a table's routes lead to.

use alloc::collections::BTreeMap;

use simd::Simd;

use crate::prelude::*;

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
        port: crate::filters::dispatch::DROP,
    };
}

impl Hop {
    /// The words of this hop: the output, and the gateway as it is in memory.
    fn words(self) -> [u32; 2] {
        [self.port, u32::from_ne_bytes(self.gateway.octets())]
    }

    fn of_words([port, gateway]: [u32; 2]) -> Hop {
        Hop {
            gateway: gateway.to_ne_bytes().into(),
            port,
        }
    }
}

/// The number of a hop. Number 0 is the default route's, or [`Hop::NOWHERE`].
pub type HopId = u32;

/// Every hop of a table, once.
pub struct Hops {
    hops: Vec<[u32; 2]>,
    uses: Vec<u32>,
    ids: BTreeMap<Hop, HopId>,
    free: Vec<HopId>,
}

impl Hops {
    pub fn new() -> Hops {
        Hops {
            hops: alloc::vec![Hop::NOWHERE.words()],
            uses: alloc::vec![1],
            ids: BTreeMap::new(),
            free: Vec::new(),
        }
    }

    /// A hop by its number.
    #[inline]
    pub fn get(&self, id: HopId) -> Hop {
        let words = self.hops.get(id as usize);
        words.map_or(Hop::NOWHERE, |words| Hop::of_words(*words))
    }

    /// Finds the outputs and the gateways, as they are in memory, of the first `blocks` blocks of
    /// hops.
    #[inline(always)]
    pub fn get_all<S: Simd>(
        &self,
        simd: S,
        ids: &[HopId; BATCH],
        blocks: usize,
        ports: &mut [u32; BATCH],
        gateways: &mut [u32; BATCH],
    ) {
        let words = self.hops.as_flattened();
        simd.gather(words, &ids.map(|id| id << 1), blocks, ports);
        simd.gather(words, &ids.map(|id| id << 1 | 1), blocks, gateways);
    }

    /// Bytes that the hops take.
    pub fn memory(&self) -> usize {
        core::mem::size_of_val(self.hops.as_slice())
    }

    /// Sets where packets go that no other route is for.
    pub fn set_default(&mut self, hop: Hop) {
        if let Some(first) = self.hops.first_mut() {
            *first = hop.words();
        }
    }

    /// Makes sure that there is memory for another hop, and to release all again.
    pub fn reserve(&mut self) -> bool {
        let most = self.hops.len() + 1;
        self.hops.try_reserve(1).is_ok()
            && self.uses.try_reserve(1).is_ok()
            && self.free.try_reserve(most - self.free.len()).is_ok()
    }

    /// The number of `hop`, which has one use more from now on.
    pub fn acquire(&mut self, hop: Hop) -> HopId {
        if let Some(&id) = self.ids.get(&hop) {
            self.uses[id as usize] += 1;
            return id;
        }
        let id = match self.free.pop() {
            Some(id) => {
                (self.hops[id as usize], self.uses[id as usize]) = (hop.words(), 1);
                id
            }
            None => {
                self.hops.push(hop.words());
                self.uses.push(1);
                self.hops.len() as HopId - 1
            }
        };
        self.ids.insert(hop, id);
        id
    }

    /// One use less.
    pub fn release(&mut self, id: HopId) {
        self.uses[id as usize] -= 1;
        if self.uses[id as usize] == 0 {
            self.ids.remove(&self.get(id));
            self.free.push(id);
        }
    }
}
