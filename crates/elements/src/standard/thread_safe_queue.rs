use super::queue_storage::{Overflow, QueueStorage, Sleep, TestedQueue};
use crate::prelude::*;

/// Stores packets first in, first out, between threads: another name of Queue.
///
/// Every queue can stand between threads. It belongs to the thread that pulls from it; packets of
/// other threads come by a ring that counts as part of it, but not in `length`, and sources wait
/// when the ring is full.
///
/// # Example
/// ```click
/// a :: InfiniteSource(LIMIT 1000) -> ThreadSafeQueue -> b :: Unqueue -> Discard;
/// StaticThreadSched(a 0, b 1);
/// ```
///
/// # See also
/// Queue, StaticThreadSched
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "h/lh",
    segments,
    live,
    take_over,
    provides(Storage, TestedQueue),
    is_a("SimpleQueue", "NotifierQueue", "FullNoteQueue", "Queue")
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct ThreadSafeQueue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::New, Sleep::Late, true))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn it_is_a_queue() {
        let mut rig = Rig::new("i :: Inject -> q :: ThreadSafeQueue(1) -> p :: Puller;");
        rig.push("i", &[1]);
        rig.push("i", &[2]);
        rig.assert_handlers(&[("q.length", "1"), ("q.drops", "1")]);
        assert_eq!(rig.pull("p", 1)[0].data(), [1]);
    }
}
