//! What pools that share a region's buffers have in common.
//!
//! Each CPU of a guest has a pool of its own over the one region. A buffer belongs to none of them: it
//! is free in the pool of the CPU that was done with it last. So buffers migrate, as from the CPU
//! that receives to the one that sends, and a pool that has more than its share hands them on in
//! chunks, by a queue that takes no lock, to those that run short. A steady load on one CPU never
//! meets the queue.

use core::ptr::NonNull;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crossbeam_queue::ArrayQueue;

use crate::buffer::Meta;
use crate::pool::Pool;

/// Most buffers that are handed on together.
const CHUNK: usize = 32;
/// Buffers that a pool which is asked what it has takes care to have, if it can: a packet of 64 KB
/// takes half of them.
const AT_HAND: usize = 64;

/// Buffers on their way from one pool to another.
struct Chunk {
    count: usize,
    buffers: [NonNull<Meta>; CHUNK],
}

// SAFETY: free buffers, owned by whoever has the chunk.
unsafe impl Send for Chunk {}

/// Free buffers that no pool has.
#[derive(Clone)]
pub(crate) struct Depot {
    chunks: Arc<ArrayQueue<Chunk>>,
    /// Buffers in each chunk.
    chunk: usize,
    /// Free buffers that a pool keeps at most for long.
    keep: usize,
}

impl Pool {
    /// Shares this pool's region with `others` more pools, which are returned: one for each further
    /// thread. Free buffers find their way to whoever needs them.
    ///
    /// # Panics
    /// If the pool is not over a region, or is shared already.
    pub fn share(&mut self, others: usize) -> Vec<Pool> {
        assert!(self.region.is_some() && self.depot.is_none());
        let pools = others + 1;
        // All pools together keep at most half of what there is.
        let keep = (self.own() / (2 * pools)).max(2);
        let chunk = (keep / 2).clamp(1, CHUNK);
        let depot = Depot {
            chunks: Arc::new(ArrayQueue::new(self.total().div_ceil(chunk))),
            chunk,
            keep,
        };
        self.depot = Some(depot.clone());
        self.even_out();
        let pool = || self.sibling(depot.clone());
        (0..others).map(|_| pool()).collect()
    }

    /// Hands on what is more than this pool's share. To be called now and then.
    #[inline]
    pub fn even_out(&mut self) {
        if let Some(depot) = &self.depot
            && self.free.len() > depot.keep
        {
            self.hand_on();
        }
    }

    #[cold]
    fn hand_on(&mut self) {
        let Some(depot) = &self.depot else {
            return;
        };
        while self.free.len() >= depot.keep.max(depot.chunk) {
            // The buffers that have been free for longest.
            let mut chunk = Chunk {
                count: depot.chunk,
                buffers: [NonNull::dangling(); CHUNK],
            };
            let oldest = self.free.drain(..depot.chunk);
            for (place, buffer) in chunk.buffers.iter_mut().zip(oldest) {
                *place = buffer;
            }
            // There is room for all the buffers that there are.
            if let Err(back) = depot.chunks.push(chunk) {
                self.free.extend_from_slice(&back.buffers[..back.count]);
                return;
            }
        }
    }

    /// Takes buffers that others handed on until `wanted` are free, as far as there are so many.
    pub(crate) fn take_over(&mut self, wanted: usize) {
        while self.free.len() < wanted {
            let Some(chunk) = self.depot.as_ref().and_then(|depot| depot.chunks.pop()) else {
                return;
            };
            self.free.extend_from_slice(&chunk.buffers[..chunk.count]);
        }
    }

    /// Buffers that are at hand without asking for any.
    pub fn available(&mut self) -> usize {
        self.collect();
        self.take_over(AT_HAND);
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::{BUFFER, Packet};

    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Line(#[allow(dead_code)] [u8; 64]);

    fn region(count: usize, in_rings: usize) -> Pool {
        let memory = std::vec![Line([0; 64]); count * BUFFER / 64].leak();
        // SAFETY: aligned, long enough, never freed.
        unsafe { Pool::region(NonNull::from(&mut memory[0]).cast(), count, in_rings) }
    }

    /// Every buffer that these pools and what lies between them have, each once.
    fn drain(pools: &mut [Pool]) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for pool in pools {
            while let Some(index) = pool.spare() {
                assert!(found.insert(index), "buffer {index} is there twice");
            }
        }
        found
    }

    #[test]
    fn one_pool_can_have_all_buffers_or_another() {
        for pools in [2, 3, 8] {
            let mut first = region(320, 64);
            let mut all = first.share(pools - 1);
            all.insert(0, first);
            for user in 0..pools {
                let held: Vec<Packet> = core::iter::from_fn(|| all[user].empty()).collect();
                let hoard: usize = all.iter().map(|pool| pool.free.len()).sum();
                assert_eq!(held.len() + hoard, 256);
                assert!(held.len() >= 128, "{} of {pools}", held.len());
                let next = &mut all[(user + 1) % pools];
                held.into_iter().for_each(|packet| next.kill(packet));
                next.even_out();
            }
            assert_eq!(drain(&mut all).len(), 256);
        }
    }

    #[test]
    fn packets_that_one_thread_makes_and_another_sends_never_run_out() {
        let mut here = region(256, 0);
        let mut there = here.share(1).remove(0);
        let (sender, receiver) = channel::<Packet>();
        const PACKETS: usize = 100_000;
        let sends = thread::spawn(move || {
            for packet in receiver {
                // As by a ring: the packet's buffer in exchange for a spent one, here the same.
                let (index, ..) = there.surrender(packet).ok().unwrap();
                // SAFETY: surrendered just now, and in no ring.
                unsafe { there.reclaim(index) };
                there.even_out();
            }
            there
        });
        let mut made = 0;
        while made < PACKETS {
            match here.copy(&made.to_be_bytes()) {
                Some(packet) => {
                    sender.send(packet).unwrap();
                    made += 1;
                }
                None => thread::yield_now(),
            }
        }
        drop(sender);
        let there = sends.join().unwrap();
        assert_eq!(drain(&mut [here, there]).len(), 256);
    }
}
