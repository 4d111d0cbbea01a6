//! The storage of a queue: packets up to a capacity, notifiers, arguments and handlers.

use crate::prelude::*;

/// How often a pull must find nothing before the empty notifier says so: queues that hover around
/// a packet or two would have it thrash.
const SLEEPINESS: u32 = 9;
/// Largest capacity, for which memory is allocated at once: 128 MB.
const CAPACITY_MAX: u32 = 1 << 24;

/// Packets up to which those of a queue are in the second cache still, where the processor finds
/// them in time by itself.
const NEAR: usize = 2048;

/// Which packet goes when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The one that comes.
    New,
    /// The oldest.
    Oldest,
}

/// When the empty notifier says that there is nothing to pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// There is no such notifier.
    Never,
    /// When several pulls found nothing.
    Late,
    /// As soon as the last packet leaves.
    AtOnce,
}

/// Packets of a queue, up to its capacity.
#[derive(Component)]
#[component(handlers)]
pub(crate) struct QueueStorage {
    /// Most packets it stores.
    #[arg(positional, default = 1000, read, write, config, calm, then = fit)]
    capacity: u32,
    /// Most packets stored so far.
    #[handler(read, name = "highwater_length")]
    highwater: usize,
    /// Packets dropped or sent to output 1 because it was full.
    #[handler(read)]
    drops: u64,
    packets: Fifo,
    sleepiness: u32,
    #[init(Overflow::New)]
    overflow: Overflow,
    #[init(Sleep::Never)]
    sleep: Sleep,
    /// Whether a notifier says when it is full.
    tells_full: bool,
    nonempty: Option<SignalId>,
    nonfull: Option<SignalId>,
}

#[handlers]
impl QueueStorage {
    /// Packets stored.
    #[read]
    fn length(&self) -> usize {
        self.len()
    }

    /// Sets `drops` to 0 and `highwater_length` to `length`.
    #[write(button)]
    fn reset_counts(&mut self) {
        self.drops = 0;
        self.highwater = self.packets.len();
    }

    /// Drops all packets stored.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.packets.pop_front() {
            cx.emit(1, packet);
        }
        self.tell_nonfull(cx);
    }
}

impl QueueStorage {
    /// A queue's storage; `tells_full` if a notifier says when it is full.
    pub fn new(overflow: Overflow, sleep: Sleep, tells_full: bool) -> QueueStorage {
        QueueStorage {
            overflow,
            sleep,
            tells_full,
            ..QueueStorage::default()
        }
    }

    /// Allocates memory for the capacity. If more packets are stored than fit, the last are dropped.
    fn fit(&mut self, cx: &mut Cx<'_>) -> Result<(), &'static str> {
        if self.capacity > CAPACITY_MAX {
            return Err("CAPACITY: at most 16777216 packets can be stored");
        }
        // Memory is allocated now, so that the data path allocates none.
        let more = self.capacity().saturating_sub(self.packets.len());
        self.packets
            .try_reserve(more)
            .map_err(|_| "out of memory")?;
        while self.packets.len() > self.capacity() {
            if let Some(packet) = self.packets.pop_back() {
                cx.kill(packet);
            }
        }
        self.tell_nonfull(cx);
        Ok(())
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Packets stored.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Packets that it has room for.
    pub fn free(&self) -> usize {
        self.capacity().saturating_sub(self.packets.len())
    }

    /// A queue without capacity is never full, as in Click: it drops what a source sends.
    fn tell_nonfull(&self, cx: &mut Cx<'_>) {
        if let Some(signal) = self.nonfull {
            cx.set_signal(signal, self.free() > 0 || self.packets.is_empty());
        }
    }

    /// After packets came in.
    #[inline]
    fn arrived(&mut self, cx: &mut Cx<'_>) {
        self.highwater = self.highwater.max(self.packets.len());
        if let (Some(signal), false) = (self.nonempty, self.packets.is_empty()) {
            cx.set_signal(signal, true);
        }
        if self.free() == 0 {
            self.tell_nonfull(cx);
        }
    }

    /// Takes in a batch behind what is stored.
    #[inline]
    fn push_back(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        cx.prefetcher().step(batch.len());
        if batch.len() <= self.free() {
            // Memory for the capacity was allocated when it was set.
            self.packets.append(batch);
        } else {
            self.push_overflowing(cx, batch);
        }
        self.arrived(cx);
    }

    #[cold]
    fn push_overflowing(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.drain() {
            if self.free() > 0 {
                self.put_back(cx, packet);
            } else if self.overflow == Overflow::New {
                self.drop(cx, packet);
            } else {
                let oldest = self.packets.pop_front();
                match oldest {
                    Some(oldest) => {
                        self.drop(cx, oldest);
                        self.put_back(cx, packet);
                    }
                    None => self.drop(cx, packet),
                }
            }
        }
    }

    /// Takes packets out of the midst, the last one first, and no more than `most` of them.
    #[cfg_attr(
        not(feature = "host"),
        expect(dead_code, reason = "what asks for it is there on hosts only")
    )]
    pub fn yank(
        &mut self,
        cx: &mut Cx<'_>,
        most: usize,
        wanted: impl Fn(&Packet) -> bool,
    ) -> Vec<Packet> {
        let mut yanked = Vec::new();
        // The packets that stay go round once, so all keep their order.
        for _ in 0..self.packets.len() {
            match self.packets.pop_back() {
                Some(packet) if yanked.len() < most && wanted(&packet) => yanked.push(packet),
                Some(packet) => self.put_front(cx, packet),
                None => {}
            }
        }
        self.tell_nonfull(cx);
        yanked
    }

    /// Takes in a batch before what is stored: the last packet of it leaves first. Where there is
    /// no room, the packets at the end go.
    fn push_front(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.drain() {
            if self.free() == 0
                && let Some(last) = self.packets.pop_back()
            {
                self.drop(cx, last);
            }
            if self.free() == 0 {
                self.drop(cx, packet);
            } else {
                self.put_front(cx, packet);
            }
        }
        self.arrived(cx);
    }

    fn put_front(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if let Err(packet) = self.packets.push_front(packet) {
            cx.kill(packet);
        }
    }

    fn put_back(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if let Err(packet) = self.packets.push_back(packet) {
            cx.kill(packet);
        }
    }

    fn drop(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.drops == 0 && self.capacity > 0 {
            let declaration = cx.declaration();
            cx.chatter(format_args!("{declaration}: overflow"));
        }
        self.drops += packet.stands_for() as u64;
        cx.emit(1, packet);
    }

    fn tell_empty(&self, cx: &mut Cx<'_>) {
        if let (Some(signal), true) = (self.nonempty, self.packets.is_empty()) {
            cx.set_signal(signal, false);
        }
    }

    /// Takes over what `old` stores, as far as there is room: the oldest packets, or the youngest
    /// if those are kept when there is none.
    pub fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut QueueStorage) {
        let old_length = old.packets.len();
        let lost = old_length.saturating_sub(self.capacity());
        if self.overflow == Overflow::Oldest {
            for _ in 0..lost {
                old.packets
                    .pop_front()
                    .into_iter()
                    .for_each(|packet| cx.kill(packet));
            }
        }
        for _ in lost..old_length {
            // Packets that the old router took as they were may be none for this one.
            if let Some(packet) = old.packets.pop_front().and_then(|packet| cx.admit(packet)) {
                self.put_back(cx, packet);
            }
        }
        self.highwater = self.packets.len();
        if lost > 0 {
            let capacity = self.capacity;
            cx.warning(format_args!(
                "some packets lost (old length {old_length}, new capacity {capacity})"
            ));
        }
        self.arrived(cx);
    }
}

/// A queue that QueueYankTest tries.
#[cfg_attr(
    not(feature = "host"),
    expect(dead_code, reason = "only an element of hosts uses it")
)]
pub(crate) trait TestedQueue {
    /// Its storage.
    fn storage(&mut self) -> &mut QueueStorage;
}

impl Interface for dyn TestedQueue {
    const NAME: &'static str = "Queue";
}

impl TestedQueue for QueueStorage {
    fn storage(&mut self) -> &mut QueueStorage {
        self
    }
}

impl Storage for QueueStorage {
    fn stored(&self) -> usize {
        self.packets.len()
    }

    fn room(&self) -> Option<usize> {
        Some(self.free())
    }
}

impl Element for QueueStorage {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.sleep != Sleep::Never {
            // It is not known to be empty before it was pulled from.
            self.nonempty = Some(cx.signal(Notice::Empty, true));
        }
        if self.tells_full {
            self.nonfull = Some(cx.signal(Notice::Full, true));
        }
        self.fit(cx).map_err(|e| args.fail(e))
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        if port == 0 {
            self.push_back(cx, batch);
        } else {
            self.push_front(cx, batch);
        }
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let was_full = self.free() == 0;
        let n = self.packets.take(batch, most);
        if self.packets.len() > NEAR {
            // The packets that are pulled next have been here for a while, and are far by now.
            cx.prefetcher().announce(self.packets.iter().take(n));
        }
        if was_full {
            self.tell_nonfull(cx);
        }
        if self.sleep == Sleep::AtOnce {
            self.tell_empty(cx);
        } else if n > 0 {
            self.sleepiness = 0;
        } else if self.sleepiness < SLEEPINESS {
            self.sleepiness += 1;
        } else if let Some(signal) = self.nonempty {
            cx.set_signal(signal, false);
        }
    }
}
