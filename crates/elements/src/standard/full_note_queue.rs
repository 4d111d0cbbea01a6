use super::queue_storage::{Overflow, QueueStorage, Sleep, TestedQueue};
use crate::prelude::*;

/// Stores packets first in, first out: another name of Queue.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> FullNoteQueue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// Queue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "h/lh",
    segments,
    live,
    take_over,
    provides(Storage, TestedQueue),
    is_a("SimpleQueue", "NotifierQueue", "Queue")
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct FullNoteQueue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::New, Sleep::Late, true))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn sources_wait_while_it_is_full() {
        let mut rig = Rig::new("s :: InfiniteSource -> q :: FullNoteQueue(5) -> Puller;");
        rig.run();
        rig.assert_handlers(&[("s.count", "5"), ("q.drops", "0")]);
    }
}
