use super::queue_storage::{Overflow, QueueStorage, Sleep};
use crate::prelude::*;

/// Stores packets first in, first out, and drops the oldest when it is full.
///
/// It has an empty notifier, as NotifierQueue.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> FrontDropQueue(20) -> RatedUnqueue(100) -> Discard;
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
    provides(Storage),
    is_a("SimpleQueue", "NotifierQueue")
)]
#[outputs("packets stored", "packets dropped to make room")]
pub struct FrontDropQueue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::Oldest, Sleep::Late, false))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_youngest_packets_are_kept() {
        let config = "i :: Inject -> q :: FrontDropQueue(2) -> p :: Puller; q[1] -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[1, 2, 3, 4, 5].map(|n| vec![n]));
        assert_eq!(rig.data("c"), [[1], [2], [3]]);
        assert_eq!(rig.read("q.drops"), "3");
        let pulled = rig.pull("p", 9);
        assert_eq!((pulled[0].data(), pulled[1].data()), (&[4][..], &[5][..]));
        let mut rig = Rig::new("i :: Inject -> q :: FrontDropQueue(0) -> p :: Puller;");
        rig.push("i", &[1]);
        assert_eq!((rig.read("q.length"), rig.outstanding()), ("0".into(), 0));
    }
}
