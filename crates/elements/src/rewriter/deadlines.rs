//! When flows may be given up.
//!
//! A packet only notes its time in its flow. The queues hold, for each flow, a moment before which
//! nothing is to be done about it; when that comes up, the flow's true deadline is looked at, and
//! if that is later the flow is queued again. So a packet costs nothing here, and a flow a few
//! steps in a heap for each time that its timeout passes, not for each packet.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::flow::{Flow, NO_TABLE, Queue};
use super::index::NoMemory;

/// The queues of deadlines.
#[derive(Default)]
pub struct Deadlines {
    heaps: [BinaryHeap<Reverse<(u64, u32)>>; 2],
}

impl Deadlines {
    /// Makes sure of room for `flows` flows, twice over: what no flow waits for any more is thrown
    /// out when a heap is full, and that is to be half of it.
    pub fn reserve(&mut self, flows: usize) -> Result<(), NoMemory> {
        for heap in &mut self.heaps {
            let more = (2 * flows + 64).saturating_sub(heap.len());
            heap.try_reserve(more).map_err(|_| NoMemory)?;
        }
        Ok(())
    }

    /// Lets flow `number` wait in `queue` until `deadline`, and no longer where it was.
    pub fn put(&mut self, flows: &mut [Flow], number: u32, queue: Queue, deadline: u64) {
        let Some(flow) = flows.get_mut(number as usize) else {
            return;
        };
        flow.queue = queue;
        flow.queued = deadline;
        let heap = &mut self.heaps[queue as usize];
        if heap.len() == heap.capacity() {
            heap.retain(|&Reverse((deadline, number))| waits(flows, queue, deadline, number));
        }
        heap.push(Reverse((deadline, number)));
    }

    /// The first flow of a queue, with its queued deadline.
    pub fn first(&mut self, queue: Queue, flows: &[Flow]) -> Option<(u64, u32)> {
        let heap = &mut self.heaps[queue as usize];
        while let Some(&Reverse((deadline, number))) = heap.peek() {
            if waits(flows, queue, deadline, number) {
                return Some((deadline, number));
            }
            heap.pop();
        }
        None
    }

    /// Takes the first entry of a queue off.
    pub fn pop(&mut self, queue: Queue) {
        self.heaps[queue as usize].pop();
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.heaps.iter_mut().for_each(BinaryHeap::clear);
    }
}

/// Whether an entry is its flow's present one.
fn waits(flows: &[Flow], queue: Queue, deadline: u64, number: u32) -> bool {
    flows.get(number as usize).is_some_and(|flow| {
        flow.table != NO_TABLE && flow.queue == queue && flow.queued == deadline
    })
}
