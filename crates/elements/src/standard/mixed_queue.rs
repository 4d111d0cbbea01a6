use super::queue_storage::{Overflow, QueueStorage, Sleep};
use crate::prelude::*;

/// Stores packets first in, first out, or last in, first out.
///
/// It has an empty notifier, as NotifierQueue.
///
/// # Example
/// ```click
/// q :: MixedQueue(20) -> RatedUnqueue(100) -> Discard;
/// RatedSource(RATE 1000, LIMIT 100) -> [0] q;
/// TimedSource(0.1s, LIMIT 10) -> [1] q;
/// ```
///
/// # See also
/// Queue, FrontDropQueue
#[derive(Element)]
#[element(
    ports = "2/1-2",
    processing = "h/lh",
    segments,
    live,
    take_over,
    provides(Storage),
    is_a("SimpleQueue", "NotifierQueue")
)]
#[inputs(
    "packets to go behind those stored; dropped when it is full",
    "packets to go before those stored; the last one stored is dropped when it is full"
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct MixedQueue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::New, Sleep::Late, false))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_come_in_at_both_ends() {
        let config = "i :: Inject -> [0] q :: MixedQueue(5) -> p :: Puller; j :: Inject -> [1] q;";
        let mut rig = Rig::new(config);
        for (input, data) in [
            ("i", 1),
            ("i", 2),
            ("j", 3),
            ("i", 4),
            ("j", 5),
            ("i", 6),
            ("j", 7),
        ] {
            rig.push(input, &[data]);
        }
        let pulled = rig.pull("p", 9);
        let pulled = pulled.iter().map(|packet| packet.data()[0]);
        assert!(pulled.eq([7, 5, 3, 1, 2]));
        assert_eq!(rig.read("q.drops"), "2");
    }
}
