use super::queue_storage::{Overflow, QueueStorage, Sleep};
use crate::prelude::*;

/// Stores packets first in, first out, without notifiers.
///
/// As Queue, without notifiers: elements that pull from it poll, and sources do not sleep while it
/// is full.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> SimpleQueue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// Queue, NotifierQueue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "h/lh",
    segments,
    live,
    take_over,
    provides(Storage)
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct SimpleQueue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::New, Sleep::Never, false))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_that_come_when_it_is_full_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> q :: SimpleQueue(2) -> p :: Puller;");
        for n in 1..=3 {
            rig.push("i", &[n]);
        }
        rig.assert_handlers(&[("q.length", "2"), ("q.drops", "1")]);
        assert!(
            rig.pull("p", 9)
                .iter()
                .map(|packet| packet.data()[0])
                .eq([1, 2])
        );
    }
}
