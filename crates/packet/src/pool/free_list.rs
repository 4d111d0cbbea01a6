//! The free list that the pools over one region share.
//!
//! Each CPU of a guest has its own pool over the one region. A buffer belongs to no pool: it is free
//! in the pool of the CPU that used it last. So buffers migrate, for example from the CPU that
//! receives to the one that sends. A pool with more than its share moves buffers in chunks to a
//! lock-free queue, from which pools that run short take them. A steady load on one CPU never uses
//! the queue.

use core::ptr::NonNull;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crossbeam_queue::ArrayQueue;

use super::Pool;
use crate::buffer::Meta;
use crate::prefetch::prefetch_buffer;

/// Most buffers of a chunk.
const CHUNK: usize = 32;
/// Buffers that [`Pool::available`] makes free if it can: a packet of 64 KB takes half of them.
const AT_HAND: usize = 64;

/// Buffers on their way from one pool to another.
struct Chunk {
    count: usize,
    buffers: [NonNull<Meta>; CHUNK],
}

// SAFETY: free buffers, owned by the chunk.
unsafe impl Send for Chunk {}

/// Free buffers that are in no pool.
#[derive(Clone)]
pub(super) struct FreeList {
    chunks: Arc<ArrayQueue<Chunk>>,
    /// Buffers in each chunk.
    chunk: usize,
    /// Most free buffers that a pool keeps for long.
    keep: usize,
}

impl Pool {
    /// Shares this pool's region with `others` more pools, which are returned: one for each further
    /// thread. A pool that runs short takes free buffers of the others.
    ///
    /// # Panics
    /// If the pool is not over a region, or is shared already.
    pub fn share(&mut self, others: usize) -> Vec<Pool> {
        assert!(self.region.is_some() && self.shared.is_none());
        let pools = others + 1;
        // All pools together keep at most half of the buffers.
        let keep = (self.own() / (2 * pools)).max(2);
        let chunk = (keep / 2).clamp(1, CHUNK);
        let shared = FreeList {
            chunks: Arc::new(ArrayQueue::new(self.total().div_ceil(chunk))),
            chunk,
            keep,
        };
        self.shared = Some(shared.clone());
        self.rebalance();
        let pool = || self.sibling(shared.clone());
        (0..others).map(|_| pool()).collect()
    }

    /// Moves buffers beyond this pool's share to the shared list. To be called now and then.
    #[inline]
    pub fn rebalance(&mut self) {
        if let Some(shared) = &self.shared
            && self.free.len() > shared.keep
        {
            self.share_surplus();
        }
    }

    #[cold]
    fn share_surplus(&mut self) {
        let Some(shared) = &self.shared else {
            return;
        };
        while self.free.len() >= shared.keep.max(shared.chunk) {
            // The buffers that have been free for longest.
            let mut chunk = Chunk {
                count: shared.chunk,
                buffers: [NonNull::dangling(); CHUNK],
            };
            let oldest = self.free.drain(..shared.chunk);
            for (slot, buffer) in chunk.buffers.iter_mut().zip(oldest) {
                *slot = buffer;
            }
            // The queue has capacity for all buffers of the region.
            if let Err(back) = shared.chunks.push(chunk) {
                self.free.extend_from_slice(&back.buffers[..back.count]);
                return;
            }
        }
    }

    /// Takes chunks off the shared list until `wanted` buffers are free or the list is empty.
    pub(super) fn take_shared(&mut self, wanted: usize) {
        while self.free.len() < wanted {
            let Some(chunk) = self.shared.as_ref().and_then(|shared| shared.chunks.pop()) else {
                return;
            };
            let buffers = &chunk.buffers[..chunk.count];
            // They lie in the cache of the processor that freed them.
            buffers.iter().for_each(|buffer| prefetch_buffer(*buffer));
            self.free.extend_from_slice(buffers);
        }
    }

    /// Free buffers, after a look at the remote stack and the shared list.
    pub fn available(&mut self) -> usize {
        self.collect();
        self.take_shared(AT_HAND);
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

    /// Every buffer of these pools and their shared list, each once.
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
                next.rebalance();
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
                there.rebalance();
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
