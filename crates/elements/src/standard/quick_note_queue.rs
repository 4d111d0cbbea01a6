use super::queue_storage::{Overflow, QueueStorage, Sleep};
use crate::prelude::*;

/// Stores packets first in, first out, with an empty notifier that acts at once.
///
/// As Queue, but its notifier puts the puller to sleep as soon as the last packet was pulled.
/// Queue's notifier waits for several empty pulls, which saves work if packets arrive one by one.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> QuickNoteQueue(20) -> RatedUnqueue(100) -> Discard;
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
    is_a("SimpleQueue", "NotifierQueue", "FullNoteQueue")
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct QuickNoteQueue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::New, Sleep::AtOnce, true))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_puller_sleeps_at_once() {
        for (class, pulls) in [("Queue", 10), ("QuickNoteQueue", 1)] {
            let config =
                alloc::format!("i :: Inject -> {class} -> Unqueue -> c :: Counter -> Discard;");
            let mut rig = Rig::new(&config);
            rig.run();
            rig.push("i", &[1]);
            let mut tasks = 0;
            while rig.step() == router::Status::Busy {
                tasks += 1;
            }
            assert_eq!(rig.read("c.count"), "1");
            assert_eq!(tasks, pulls, "{class}");
        }
    }
}
