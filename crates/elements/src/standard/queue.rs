use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use core::any::Any;

use packet::{Batch, Packet};
use router::args::{Args, Failed};
use router::{Class, Cx, Element, HandlerError, HandlerList, Notice, Search, SignalId};

/// How often a pull must find nothing before the empty notifier says so.
const SLEEPINESS: u32 = 9;

/// What Queue and SimpleQueue share: a first-in-first-out store with a limit.
#[derive(Default)]
struct Store {
    packets: VecDeque<Packet>,
    capacity: usize,
    highwater: usize,
    drops: u64,
}

impl Store {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut capacity = 1000u32;
        args.positional("CAPACITY", &mut capacity).complete()?;
        self.capacity = capacity as usize;
        // The room is taken now, so that the data path takes none. A live reconfiguration may
        // find more packets than fit: the youngest go.
        while self.packets.len() > self.capacity {
            if let Some(packet) = self.packets.pop_back() {
                cx.kill(packet);
            }
        }
        let more = self.capacity - self.packets.len();
        if self.packets.try_reserve(more).is_err() {
            return Err(args.fail("out of memory"));
        }
        Ok(())
    }

    /// Takes in a batch; returns whether there were packets for which there was room.
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> bool {
        let room = self.capacity - self.packets.len();
        if batch.len() <= room {
            self.packets.extend(batch.drain());
        } else {
            for (i, packet) in batch.drain().enumerate() {
                if i < room {
                    self.packets.push_back(packet);
                } else {
                    self.overflow(cx, packet);
                }
            }
        }
        self.highwater = self.highwater.max(self.packets.len());
        room > 0
    }

    fn overflow(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.drops == 0 && self.capacity > 0 {
            let declaration = cx.declaration();
            cx.chatter(format_args!("{declaration}: overflow"));
        }
        self.drops += 1;
        cx.emit(1, packet);
    }

    #[inline]
    fn pull(&mut self, batch: &mut Batch, most: usize) {
        let n = most.min(batch.room()).min(self.packets.len());
        for packet in self.packets.drain(..n) {
            // There is room: n is at most that.
            let _ = batch.push(packet);
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("length").read("highwater_length").read("drops");
        list.add("capacity", router::HandlerFlags::CALM);
        list.read_write("capacity");
        list.button("reset_counts").button("reset");
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "length" => self.packets.len(),
            "highwater_length" => self.highwater,
            "capacity" => self.capacity,
            "drops" => return Ok(self.drops.to_string()),
            _ => return Err(HandlerError::Unknown),
        }
        .to_string())
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => {
                self.drops = 0;
                self.highwater = self.packets.len();
            }
            "reset" => {
                while let Some(packet) = self.packets.pop_front() {
                    cx.emit(1, packet);
                }
            }
            "capacity" => {
                let capacity: u32 = cx
                    .names()
                    .parse(value)
                    .map_err(|_| "CAPACITY: invalid number")?;
                self.capacity = capacity as usize;
                while self.packets.len() > self.capacity {
                    if let Some(packet) = self.packets.pop_back() {
                        cx.kill(packet);
                    }
                }
                let more = self.capacity - self.packets.len();
                self.packets
                    .try_reserve(more)
                    .map_err(|_| "out of memory")?;
                cx.set_config(value.to_string());
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }

    fn take(&mut self, cx: &mut Cx<'_>, old: &mut Store) {
        while self.packets.len() < self.capacity {
            match old.packets.pop_front() {
                Some(packet) => self.packets.push_back(packet),
                None => break,
            }
        }
        self.highwater = self.packets.len();
        if !old.packets.is_empty() {
            let (declaration, old_length) =
                (cx.declaration(), self.packets.len() + old.packets.len());
            let capacity = self.capacity;
            cx.chatter(format_args!(
                "{declaration}: some packets lost (old length {old_length}, new capacity {capacity})"
            ));
        }
    }
}

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
/// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no
/// room.
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
/// RatedSource(RATE 1000, LIMIT 100) -> q :: Queue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// SimpleQueue, Unqueue
#[derive(Default)]
pub struct Queue {
    store: Store,
    sleepiness: u32,
    nonempty: Option<SignalId>,
    nonfull: Option<SignalId>,
}

impl Class for Queue {
    const NAME: &'static str = "Queue";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/lh";
    const FLOW: &'static str = "x/x";
    const IS_A: &'static [&'static str] =
        &["Storage", "SimpleQueue", "NotifierQueue", "FullNoteQueue"];
}

impl Queue {
    fn tell_nonfull(&mut self, cx: &mut Cx<'_>) {
        if let Some(signal) = self.nonfull {
            cx.set_signal(signal, self.store.packets.len() < self.store.capacity);
        }
    }
}

impl Element for Queue {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.store.configure(cx, args)?;
        self.nonempty.get_or_insert_with(|| cx.signal(false));
        self.nonfull.get_or_insert_with(|| cx.signal(true));
        self.tell_nonfull(cx);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if self.store.push(cx, batch)
            && let Some(signal) = self.nonempty
        {
            cx.set_signal(signal, true);
        }
        if self.store.packets.len() == self.store.capacity {
            self.tell_nonfull(cx);
        }
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let was_full = self.store.packets.len() == self.store.capacity;
        self.store.pull(batch, most);
        if was_full {
            self.tell_nonfull(cx);
        }
        if !batch.is_empty() {
            self.sleepiness = 0;
        } else if self.sleepiness >= SLEEPINESS {
            if let Some(signal) = self.nonempty {
                cx.set_signal(signal, false);
            }
        } else {
            self.sleepiness += 1;
        }
    }

    fn notifier(&self, notice: Notice, port: usize) -> Search {
        let signal = match notice {
            Notice::Empty if port == 0 => self.nonempty,
            Notice::Full => self.nonfull,
            Notice::Empty => None,
        };
        signal.map_or(Search::Pass, Search::Stop)
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.store.handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.store.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.store.write(cx, name, value)?;
        self.tell_nonfull(cx);
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<Queue>() {
            self.store.take(cx, &mut old.store);
            self.tell_nonfull(cx);
            if let (Some(signal), false) = (self.nonempty, self.store.packets.is_empty()) {
                cx.set_signal(signal, true);
            }
        }
    }
}

/// Stores packets first in, first out, without notifiers.
///
/// As Queue, but who pulls from it has to poll.
///
/// # Arguments
/// - `CAPACITY` (integer, 1000): most packets it stores.
///
/// # Ports
/// One push input. Output 0 is pull; output 1, optional, is push: packets for which there was no
/// room.
///
/// # Handlers
/// As Queue's.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100) -> SimpleQueue(20) -> RatedUnqueue(100) -> Discard;
/// ```
///
/// # See also
/// Queue
#[derive(Default)]
pub struct SimpleQueue {
    store: Store,
}

impl Class for SimpleQueue {
    const NAME: &'static str = "SimpleQueue";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/lh";
    const IS_A: &'static [&'static str] = &["Storage"];
}

impl Element for SimpleQueue {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.store.configure(cx, args)
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.store.push(cx, batch);
        0
    }

    #[inline]
    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.store.pull(batch, most);
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.store.handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.store.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.store.write(cx, name, value)
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<SimpleQueue>() {
            self.store.take(cx, &mut old.store);
        }
    }
}

#[cfg(test)]
mod tests {
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
    }
}
