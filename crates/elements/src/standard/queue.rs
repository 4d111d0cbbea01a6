use alloc::string::String;
use core::any::Any;

use packet::Batch;
use router::args::{Args, Failed};
use router::{Capability, Class, Cx, Declared, Element, HandlerError, HandlerList, Notice, Search, Storage};

use super::store::{Overflow, Sleep, Store};

macro_rules! queue {
    (
        $(#[$doc:meta])* $name:ident, $inputs:literal, $processing:literal,
        sleep: $sleep:ident, nonfull: $nonfull:literal, $overflow:ident,
        is_a: $is_a:expr $(, warning: $warning:literal)?
    ) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            pub(crate) store: Store,
        }

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = concat!($inputs, "/1-2");
            const PROCESSING: &'static str = $processing;
            const IS_A: &'static [&'static str] = $is_a;
            const SEGMENTS: bool = true;
            const CAPABILITIES: &'static [Capability] = router::provides!($name: Storage);
        }

        impl Declared for $name {
            fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.store.configure(cx, args, Sleep::$sleep, $nonfull)?;
                $(args.warning($warning);)?
                Ok(())
            }

            fn can_live_reconfigure(&self) -> bool {
                true
            }

            fn handlers(&self, list: &mut HandlerList) {
                self.store.handlers(list);
            }

            fn read(
                &mut self,
                _cx: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                self.store.read(name)
            }

            fn write(
                &mut self,
                cx: &mut Cx<'_>,
                name: &str,
                value: &str,
            ) -> Result<(), HandlerError> {
                self.store.write(cx, name, value)
            }

            fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
                let old: &mut dyn Any = old;
                if let Some(old) = old.downcast_mut::<$name>() {
                    self.store.take(cx, &mut old.store, Overflow::$overflow);
                }
            }
        }

        impl Storage for $name {
            fn stored(&self) -> usize {
                self.store.len()
            }

            fn room(&self) -> Option<usize> {
                Some(self.store.room())
            }
        }

        impl Element for $name {
            #[inline]
            fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
                match port {
                    0 => self.store.push(cx, batch, Overflow::$overflow),
                    _ => self.store.push_front(cx, batch),
                }
                0
            }

            #[inline]
            fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
                self.store.pull(cx, batch, most);
            }

            fn notifier(&self, notice: Notice, port: usize) -> Search {
                self.store.notifier(notice, port)
            }
        }
    };
}

queue! {
    /// Stores packets first in, first out, and says when it is empty and when it is full.
    ///
    /// Packets that come when it is full leave by output 1, or are dropped if that is not connected.
    /// Elements that pull from it sleep while it is empty, and sources that push into it sleep while
    /// it is full, thanks to its two notifiers.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 1000, LIMIT 100) -> Queue(20) -> RatedUnqueue(100) -> Discard;
    /// ```
    ///
    /// # See also
    /// NotifierQueue, SimpleQueue, FrontDropQueue, MixedQueue, Unqueue
    Queue, "1", "h/lh", sleep: Late, nonfull: true, New,
    is_a: &["Storage", "SimpleQueue", "NotifierQueue", "FullNoteQueue"]
}

queue! {
    /// Stores packets first in, first out: another name of Queue.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 1000, LIMIT 100) -> FullNoteQueue(20) -> RatedUnqueue(100) -> Discard;
    /// ```
    ///
    /// # See also
    /// Queue
    FullNoteQueue, "1", "h/lh", sleep: Late, nonfull: true, New,
    is_a: &["Storage", "SimpleQueue", "NotifierQueue", "Queue"]
}

queue! {
    /// Stores packets first in, first out, and says at once when it is empty.
    ///
    /// As Queue, but its notifier tells whoever pulls from it to sleep as soon as the last packet
    /// was pulled. Queue waits until several pulls found nothing, which saves work where packets
    /// come one by one.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 1000, LIMIT 100) -> QuickNoteQueue(20) -> RatedUnqueue(100) -> Discard;
    /// ```
    ///
    /// # See also
    /// Queue, NotifierQueue
    QuickNoteQueue, "1", "h/lh", sleep: AtOnce, nonfull: true, New,
    is_a: &["Storage", "SimpleQueue", "NotifierQueue", "FullNoteQueue"]
}

queue! {
    /// Stores packets first in, first out, and says when it is empty.
    ///
    /// As Queue, but it does not say when it is full.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 1000, LIMIT 100) -> NotifierQueue(20) -> RatedUnqueue(100) -> Discard;
    /// ```
    ///
    /// # See also
    /// Queue, SimpleQueue
    NotifierQueue, "1", "h/lh", sleep: Late, nonfull: false, New,
    is_a: &["Storage", "SimpleQueue"]
}

queue! {
    /// Stores packets first in, first out, without notifiers.
    ///
    /// As Queue, but who pulls from it has to poll, and who pushes into it is not told when it is full.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 1000, LIMIT 100) -> SimpleQueue(20) -> RatedUnqueue(100) -> Discard;
    /// ```
    ///
    /// # See also
    /// Queue, NotifierQueue
    SimpleQueue, "1", "h/lh", sleep: Never, nonfull: false, New,
    is_a: &["Storage"]
}

queue! {
    /// Stores packets first in, first out, and drops the oldest when it is full.
    ///
    /// It says when it is empty, as NotifierQueue does.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets dropped to make room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets dropped to make room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 1000, LIMIT 100) -> FrontDropQueue(20) -> RatedUnqueue(100) -> Discard;
    /// ```
    ///
    /// # See also
    /// Queue, NotifierQueue
    FrontDropQueue, "1", "h/lh", sleep: Late, nonfull: false, Oldest,
    is_a: &["Storage", "SimpleQueue", "NotifierQueue"]
}

queue! {
    /// Stores packets first in, first out, or last in, first out.
    ///
    /// What comes by input 0 goes behind the packets stored, and is dropped when it is full. What comes
    /// by input 1 goes before them, and the packet at the end is dropped when it is full. It says when
    /// it is empty, as NotifierQueue does.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// Two push inputs. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
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
    MixedQueue, "2", "h/lh", sleep: Late, nonfull: false, New,
    is_a: &["Storage", "SimpleQueue", "NotifierQueue"]
}

queue! {
    /// Stores packets first in, first out, between threads: another name of Queue.
    ///
    /// Every queue can stand between threads. It belongs to the thread of whoever pulls from it;
    /// packets of others come by a ring that counts as part of it, but not in `length`, and those
    /// who push into it wait when it is full.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// a :: InfiniteSource(LIMIT 1000) -> ThreadSafeQueue -> b :: Unqueue -> Discard;
    /// StaticThreadSched(a 0, b 1);
    /// ```
    ///
    /// # See also
    /// Queue, StaticThreadSched
    ThreadSafeQueue, "1", "h/lh", sleep: Late, nonfull: true, New,
    is_a: &["Storage", "SimpleQueue", "NotifierQueue", "FullNoteQueue", "Queue"]
}

queue! {
    /// Stores packets first in, first out: an old name of ThreadSafeQueue.
    ///
    /// # Arguments
    /// - `CAPACITY` (integer, 1000): most packets it stores.
    ///
    /// # Ports
    /// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no room.
    ///
    /// # Handlers
    /// - `length` (read): packets stored.
    /// - `highwater_length` (read): most packets stored so far.
    /// - `capacity` (read, write): the argument.
    /// - `drops` (read): packets for which there was no room.
    /// - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to `length`.
    /// - `reset` (write): drops all packets stored.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource(LIMIT 1000) -> MSQueue -> Unqueue -> Discard;
    /// ```
    ///
    /// # See also
    /// ThreadSafeQueue
    MSQueue, "1", "h/lh", sleep: Late, nonfull: true, New,
    is_a: &["Storage", "SimpleQueue", "NotifierQueue", "FullNoteQueue", "Queue", "ThreadSafeQueue"],
    warning: "MSQueue is deprecated, use ThreadSafeQueue instead"
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use crate::testing::Rig;

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
    fn what_finds_no_room_leaves_by_output_1() {
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
    fn whoever_pulls_sleeps_while_it_is_empty() {
        let mut rig = Rig::new("i :: Inject -> q :: Queue -> u :: Unqueue -> c :: Collect;");
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.push("i", &[1]);
        assert_eq!(rig.read("u.scheduled"), "true");
        rig.run();
        assert_eq!(rig.data("c"), [[1]]);
    }

    #[test]
    fn whoever_pushes_sleeps_while_it_is_full() {
        let config = "s :: InfiniteSource -> q :: Queue(5) -> p :: Puller;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(
            (rig.read("q.length"), rig.read("q.drops")),
            ("5".into(), "0".into())
        );
        assert_eq!(rig.read("s.scheduled"), "false");
        rig.pull("p", 2);
        rig.run();
        assert_eq!(rig.read("s.count"), "7");
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
        assert!(
            errors.contains("While configuring 'q :: Queue':"),
            "{errors}"
        );
        assert!(errors.contains("CAPACITY: invalid number"), "{errors}");
        let errors = Rig::errors("Inject -> Queue(2000000000) -> Puller;");
        assert!(errors.contains("at most 16777216 packets"), "{errors}");
    }

    #[test]
    fn notifiers_are_as_each_queue_has_them() {
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

    #[test]
    fn a_quick_note_queue_lets_whoever_pulls_sleep_at_once() {
        for (class, pulls) in [("Queue", 10), ("QuickNoteQueue", 1)] {
            let config = alloc::format!("i :: Inject -> {class} -> Unqueue -> c :: Counter -> Discard;");
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

    #[test]
    fn a_front_drop_queue_keeps_the_youngest() {
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

    #[test]
    fn a_mixed_queue_takes_in_at_both_ends() {
        let config = "i :: Inject -> [0] q :: MixedQueue(5) -> p :: Puller; j :: Inject -> [1] q;";
        let mut rig = Rig::new(config);
        for (input, data) in [("i", 1), ("i", 2), ("j", 3), ("i", 4), ("j", 5), ("i", 6), ("j", 7)] {
            rig.push(input, &[data]);
        }
        let pulled = rig.pull("p", 9);
        let pulled = pulled.iter().map(|packet| packet.data()[0]);
        assert!(pulled.eq([7, 5, 3, 1, 2]));
        assert_eq!(rig.read("q.drops"), "2");
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
