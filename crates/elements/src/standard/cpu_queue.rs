use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use packet::{Batch, Packet};
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

/// Stores packets first in, first out, in a queue for each thread they come from.
///
/// A packet that finds the queue of its thread full is dropped. Whoever pulls gets a packet from
/// each queue in turn. There is no notifier.
///
/// # Arguments
/// - `CAPACITY` (integer, 128): most packets that the queue of a thread stores.
///
/// # Ports
/// One push input, one or more pull outputs.
///
/// # Handlers
/// - `capacity` (read): the argument.
/// - `drops` (read): packets for which there was no room.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> CPUQueue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// ThreadSafeQueue, CPUSwitch, StaticThreadSched
#[derive(Default)]
pub struct CPUQueue {
    queues: Vec<VecDeque<Packet>>,
    capacity: usize,
    /// The queue whose turn it is.
    next: usize,
    drops: u64,
}

impl Class for CPUQueue {
    const NAME: &'static str = "CPUQueue";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/l";
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

impl Declared for CPUQueue {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut capacity = 128u32;
        args.positional("CAPACITY", &mut capacity).complete()?;
        self.capacity = capacity as usize;
        // The room is taken now, so that the data path takes none.
        for _ in 0..cx.threads() {
            let mut queue = VecDeque::new();
            let reserved = queue.try_reserve(self.capacity);
            reserved.map_err(|_| args.fail("out of memory"))?;
            self.queues.push(queue);
        }
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("capacity").read("drops");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "capacity" => Ok(self.capacity.to_string()),
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for CPUQueue {
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let origin = usize::from(cx.origin());
        if let Some(queue) = self.queues.get_mut(origin) {
            let mut taken = Batch::new();
            taken.append(batch, self.capacity.saturating_sub(queue.len()));
            queue.extend(taken.drain());
        }
        // The router drops what is left.
        self.drops += batch.len() as u64;
        usize::MAX
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..most.min(batch.room()) {
            let Some(packet) = self.take() else {
                break;
            };
            // There is room: that was counted.
            let _ = batch.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

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
