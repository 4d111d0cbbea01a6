use super::queue_storage::{Overflow, QueueStorage, Sleep, TestedQueue};
use crate::prelude::*;

/// Stores packets first in, first out: an old name of ThreadSafeQueue.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000) -> MSQueue -> Unqueue -> Discard;
/// ```
///
/// # See also
/// ThreadSafeQueue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "h/lh",
    segments,
    live,
    take_over,
    provides(Storage, TestedQueue),
    is_a(
        "SimpleQueue",
        "NotifierQueue",
        "FullNoteQueue",
        "Queue",
        "ThreadSafeQueue"
    )
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct MSQueue {
    #[delegate(configured = warn)]
    #[init(QueueStorage::new(Overflow::New, Sleep::Late, true))]
    storage: QueueStorage,
    warned: bool,
}

impl MSQueue {
    fn warn(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.storage.configured(cx, args)?;
        if !core::mem::replace(&mut self.warned, true) {
            args.warning("MSQueue is deprecated, use ThreadSafeQueue instead");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn it_works_and_warns_of_its_name() {
        let mut rig = Rig::new("i :: Inject -> q :: MSQueue -> p :: Puller;");
        assert_contains(&rig.printed().concat(), "use ThreadSafeQueue instead");
        rig.write("q.config", "5");
        assert_eq!(rig.read("q.capacity"), "5");
        assert!(rig.printed().is_empty(), "the warning is printed once");
        rig.push("i", &[1]);
        assert_eq!(rig.pull("p", 9).len(), 1);
        let errors = Rig::errors("Idle -> MSQueue(-1) -> Discard;");
        assert!(!errors.contains("deprecated"), "{errors}");
    }
}
