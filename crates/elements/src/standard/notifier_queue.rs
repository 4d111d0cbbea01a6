use super::queue_storage::{Overflow, QueueStorage, Sleep};
use crate::prelude::*;

/// Stores packets first in, first out, with an empty notifier.
///
/// As Queue, without the full notifier.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> NotifierQueue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// Queue, SimpleQueue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "h/lh",
    segments,
    live,
    take_over,
    provides(Storage),
    is_a("SimpleQueue")
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct NotifierQueue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::New, Sleep::Late, false))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn queues_have_the_notifiers_that_their_pages_name() {
        for (class, sleeps, waits) in [
            ("Queue", true, true),
            ("FullNoteQueue", true, true),
            ("NotifierQueue", true, false),
            ("FrontDropQueue", true, false),
            ("SimpleQueue", false, false),
        ] {
            let config = alloc::format!(
                "s :: InfiniteSource(LIMIT 9) -> q :: {class}(3) -> u :: Unqueue(ACTIVE false)
                    -> Discard;
                 Idle -> {class} -> v :: Unqueue -> Discard;"
            );
            let mut rig = Rig::new(&config);
            for _ in 0..200 {
                rig.step();
            }
            assert_eq!(rig.read("v.scheduled"), (!sleeps).to_string(), "{class}");
            let count = if waits { "3" } else { "9" };
            assert_eq!(rig.read("s.count"), count, "{class}");
        }
    }
}
