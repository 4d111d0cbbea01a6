use super::queue_storage::{Overflow, QueueStorage, Sleep, TestedQueue};
use crate::prelude::*;

/// Stores packets first in, first out, with empty and full notifiers.
///
/// While it is full, packets leave by output 1, or are dropped if that is not connected. Its two
/// notifiers let pullers sleep while it is empty, and sources while it is full.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> Queue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// NotifierQueue, SimpleQueue, FrontDropQueue, MixedQueue, Unqueue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "h/lh",
    segments,
    live,
    take_over,
    provides(Storage, TestedQueue),
    alias("FullNoteQueue"),
    is_a("SimpleQueue", "NotifierQueue", "FullNoteQueue")
)]
#[outputs("packets stored", "packets for which there was no room")]
pub struct Queue {
    #[delegate]
    #[init(QueueStorage::new(Overflow::New, Sleep::Late, true))]
    storage: QueueStorage,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_leave_in_the_order_in_which_they_came() {
        let mut rig = Rig::new("i :: Inject -> q :: Queue(10) -> p :: Puller;");
        rig.push_all("i", &[vec![1], vec![2], vec![3]]);
        assert_eq!(rig.read("q.length"), "3");
        let first = rig.pull("p", 2);
        assert_eq!(first[0].data(), [1]);
        assert_eq!(first[1].data(), [2]);
        assert_eq!(rig.read("q.highwater_length"), "3");
    }

    #[test]
    fn packets_without_room_leave_by_output_1() {
        let config = "i :: Inject -> q :: Queue(2) -> p :: Puller; q[1] -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![1], vec![2], vec![3], vec![4]]);
        assert_eq!(rig.data("c"), [[3], [4]]);
        assert_eq!(rig.read("q.drops"), "2");
        assert_eq!(rig.printed(), ["q :: Queue: overflow"]);
        rig.write("q.reset", "");
        assert_eq!(rig.data("c"), [[1], [2]]);
        assert!(rig.pull("p", 1).is_empty());
    }

    #[test]
    fn the_puller_sleeps_while_it_is_empty() {
        let mut rig = Rig::new("i :: Inject -> q :: Queue -> u :: Unqueue -> c :: Collect;");
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.push("i", &[1]);
        assert_eq!(rig.read("u.scheduled"), "true");
        rig.run();
        assert_eq!(rig.data("c"), [[1]]);
    }

    #[test]
    fn the_source_sleeps_while_it_is_full() {
        let config = "s :: InfiniteSource -> q :: Queue(5) -> p :: Puller;";
        let mut rig = Rig::new(config);
        rig.run();
        rig.assert_handlers(&[("q.length", "5"), ("q.drops", "0")]);
        assert_eq!(rig.read("s.scheduled"), "false");
        rig.pull("p", 2);
        rig.run();
        assert_eq!(rig.read("s.count"), "7");
    }

    #[test]
    fn a_queue_without_capacity_drops_all() {
        let mut rig = Rig::new("s :: InfiniteSource(LIMIT 5) -> q :: Queue(0) -> p :: Puller;");
        rig.run();
        rig.assert_handlers(&[("s.count", "5"), ("q.drops", "5"), ("q.length", "0")]);
        assert_eq!(rig.printed(), [""; 0]);
    }

    #[test]
    fn a_successor_tells_what_it_has_no_room_for() {
        let mut rig = Rig::new("i :: Inject -> q :: Queue(10) -> p :: Puller;");
        rig.push_all("i", &vec![vec![1]; 10]);
        rig.swap("i :: Inject -> q :: Queue(5) -> p :: Puller;");
        let expected = "config:1: While hot-swapping state into ‘q :: Queue’:\n  \
            warning: some packets lost (old length 10, new capacity 5)";
        assert_eq!(rig.printed(), [expected]);
        assert_eq!(rig.read("q.length"), "5");
    }

    #[test]
    fn the_capacity_can_change_while_it_runs() {
        let mut rig = Rig::new("i :: Inject -> q :: Queue(3) -> p :: Puller;");
        rig.push_all("i", &[vec![1], vec![2], vec![3]]);
        rig.write("q.capacity", "2");
        assert_eq!(rig.read("q.length"), "2");
        rig.write("q.config", "4");
        assert_eq!(rig.read("q.capacity"), "4");
        assert_eq!(rig.pull("p", 9)[1].data(), [2]);
    }

    #[test]
    fn wrong_capacities_are_refused() {
        let errors = Rig::errors("Inject -> q :: Queue(many) -> Puller;");
        assert_contains(&errors, "While configuring 'q :: Queue':");
        assert!(errors.contains("CAPACITY: invalid number"), "{errors}");
        Rig::refuses(
            "Inject -> Queue(2000000000) -> Puller;",
            "at most 16777216 packets",
        );
    }

    #[test]
    fn the_capacity_stands_in_the_configuration() {
        let mut rig = Rig::new("Idle -> q :: Queue -> Idle;");
        rig.write("q.capacity", "10");
        assert_eq!(rig.read("q.config"), "CAPACITY 10");
        let mut rig = Rig::new("Idle -> q :: Queue(5) -> Idle;");
        rig.write("q.capacity", "10");
        assert_eq!(rig.read("q.config"), "10");
    }
}
