use crate::prelude::*;

/// Stores packets first in, first out, in a queue for each thread they come from.
///
/// A packet is dropped if its thread's queue is full. Pulls take packets from the queues in turn.
/// There is no notifier.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> CPUQueue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// ThreadSafeQueue, CPUSwitch, StaticThreadSched
#[derive(Element)]
#[element(ports = "1/1-", processing = "h/l")]
pub struct CPUQueue {
    /// Most packets that the queue of a thread stores.
    #[arg(positional, default = 128, read)]
    capacity: u32,
    /// Packets dropped because their queue was full.
    #[handler(read)]
    drops: u64,
    queues: Vec<VecDeque<Packet>>,
    /// The queue whose turn it is.
    next: usize,
}

impl CPUQueue {
    fn take(&mut self) -> Option<Packet> {
        let count = self.queues.len();
        for _ in 0..count {
            let at = self.next;
            self.next = (at + 1) % count;
            if let Some(packet) = self.queues[at].pop_front() {
                return Some(packet);
            }
        }
        None
    }
}

impl Element for CPUQueue {
    /// Allocates the queues, so that the data path allocates nothing.
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.queues.clear();
        for _ in 0..cx.threads() {
            let mut queue = VecDeque::new();
            let reserved = queue.try_reserve(self.capacity as usize);
            reserved.map_err(|_| args.fail("out of memory"))?;
            self.queues.push(queue);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let origin = usize::from(cx.origin());
        if let Some(queue) = self.queues.get_mut(origin) {
            let mut taken = Batch::new();
            taken.append(batch, (self.capacity as usize).saturating_sub(queue.len()));
            queue.extend(taken.drain());
        }
        // The router drops the rest of the batch.
        self.drops += batch.len() as u64;
        usize::MAX
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..most.min(batch.room()) {
            let Some(packet) = self.take() else {
                break;
            };
            // The batch has space for as many packets as the loop has rounds.
            let _ = batch.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn it_stores_up_to_its_capacity_in_order() {
        let mut rig = Rig::new("i :: Inject -> q :: CPUQueue(2) -> p :: Puller;");
        for n in 1..=4 {
            rig.push("i", &[n]);
        }
        assert_eq!(rig.read("q.drops"), "2");
        assert_eq!(rig.read("q.capacity"), "2");
        let pulled = rig.pull("p", 9);
        assert_eq!((pulled[0].data(), pulled[1].data()), (&[1][..], &[2][..]));
        drop(pulled);
        assert_eq!(rig.outstanding(), 0);
    }
}
