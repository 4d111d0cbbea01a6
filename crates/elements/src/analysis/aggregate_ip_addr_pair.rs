use crate::aggregates::{AggregateNotifier, Listeners};
use crate::keyed_table::{Key, KeyedTable};
use crate::prelude::*;
use crate::rewriter::key::FlowKey;

/// Most pairs that are known.
const PAIRS_MAX: usize = 1 << 20;
const PER_SECOND: i64 = 1_000_000_000;

/// Numbers pairs of IP addresses, and sets packets' aggregate annotation to the number.
///
/// Packets between the same two addresses get the same number, in both directions; the first pair
/// gets 1. The paint annotation becomes 0 for packets in the direction of the pair's first packet,
/// 1 for the others. The element knows up to 1048576 pairs; packets of further pairs leave by
/// output 1.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true, FORCE_IP true)
///     -> AggregateIPAddrPair -> c :: AggregateCounter -> Discard;
/// DriverManager(pause, write c.write_text_file -);
/// ```
///
/// # See also
/// AggregateIPFlows, AggregateCounter, AggregateIP
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "a/ah",
    handlers,
    provides(AggregateNotifier)
)]
#[outputs(
    "packets with a number",
    "packets without a network header mark, or of too many pairs"
)]
pub struct AggregateIPAddrPair {
    /// How long, by packets' timestamps, a pair is known without a packet; after that it gets
    /// another number. 0: for ever.
    #[arg(name = "TIMEOUT", default_text = "0")]
    timeout_arg: Seconds,
    /// How often expired pairs are removed, by packets' timestamps.
    #[arg(name = "REAP", default = Seconds(20 * 60), default_text = "20 min")]
    reap_arg: Seconds,
    pairs: KeyedTable<Pair>,
    /// The arguments, in seconds.
    timeout: i64,
    reap_interval: i64,
    next: u32,
    /// The latest packet's time, and when pairs that timed out are looked for next; in seconds.
    now: i64,
    reap_at: i64,
    warned: bool,
    /// One packet at a time is on the way.
    alone: bool,
    listeners: Listeners,
}

#[derive(Clone, Copy)]
struct Pair {
    aggregate: u32,
    /// The first packet went from the greater address to the lesser.
    reverse: bool,
    /// The last packet's time, in seconds.
    last: i64,
}

impl AggregateIPAddrPair {
    /// A new pair.
    fn start(&mut self, reverse: bool, last: i64) -> Pair {
        self.next = match self.next.wrapping_add(1) {
            0 => 1,
            next => next,
        };
        Pair {
            aggregate: self.next,
            reverse,
            last,
        }
    }

    /// The pair of a key, which is made if need be, with a packet at `time`, in seconds. `None` if there is no room.
    #[inline]
    fn find(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        hash: u64,
        reverse: bool,
        time: i64,
    ) -> Option<Pair> {
        let timeout = self.timeout;
        let Some(pair) = self.pairs.get_mut(key, hash) else {
            if self.pairs.len() >= PAIRS_MAX {
                return None;
            }
            let pair = self.start(reverse, time);
            return self.pairs.insert(key, hash, pair).is_ok().then_some(pair);
        };
        if timeout == 0 {
            return Some(*pair);
        }
        if pair.last >= time - timeout {
            pair.last = time;
            return Some(*pair);
        }
        self.listeners.ended(cx, pair.aggregate, self.alone);
        let new = self.start(reverse, time);
        if let Some(pair) = self.pairs.get_mut(key, hash) {
            *pair = new;
        }
        Some(new)
    }

    /// Numbers a packet of a pair. Returns false if there is no room for the pair.
    #[inline]
    fn number(
        &mut self,
        cx: &mut Cx<'_>,
        packet: &mut Packet,
        key: Key,
        hash: u64,
        reverse: bool,
    ) -> bool {
        let mut time = 0;
        if self.timeout > 0 {
            if packet.timestamp() == 0 {
                self.warn(cx);
                packet.set_timestamp(cx.wall());
            }
            time = packet.timestamp().div_euclid(PER_SECOND);
        }
        let Some(pair) = self.find(cx, key, hash, reverse, time) else {
            return false;
        };
        if self.timeout > 0 {
            self.now = time;
            if time > self.reap_at {
                if self.reap_at != 0 {
                    self.reap(cx, Some(time - self.timeout));
                }
                self.reap_at = time.saturating_add(self.reap_interval);
            }
        }
        packet.set_anno(AGGREGATE, pair.aggregate);
        packet.set_paint(u8::from(pair.reverse != reverse));
        true
    }

    /// Forgets pairs whose last packet came before `before`, or all.
    #[cold]
    fn reap(&mut self, cx: &mut Cx<'_>, before: Option<i64>) {
        let (listeners, alone) = (&mut self.listeners, self.alone);
        self.pairs.retain(|_, pair| {
            let keep = before.is_some_and(|before| pair.last >= before);
            if !keep {
                listeners.ended(cx, pair.aggregate, alone);
            }
            keep
        });
    }

    #[cold]
    fn warn(&mut self, cx: &mut Cx<'_>) {
        if !core::mem::replace(&mut self.warned, true) {
            let name = alloc::string::String::from(cx.name());
            cx.chatter(format_args!(
                "{name}: warning: packet received without timestamp"
            ));
        }
    }
}

/// The pair of a packet's addresses, the lesser one first, and whether it goes from the greater one to the lesser.
#[inline]
fn pair_of(packet: &Packet) -> Option<(Key, bool)> {
    let header = packet.network_header()?.first_chunk::<20>()?;
    let &[.., a, b, c, d, e, f, g, h] = header;
    let addresses = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let reverse = addresses >> 32 > addresses & u64::from(u32::MAX);
    let key = FlowKey {
        addresses,
        ports: 0,
    };
    Some(((0, if reverse { key.reverse() } else { key }), reverse))
}

impl AggregateNotifier for AggregateIPAddrPair {
    fn listeners(&mut self) -> &mut Listeners {
        &mut self.listeners
    }
}

#[handlers]
impl AggregateIPAddrPair {
    /// Forgets all pairs.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        self.reap(cx, None);
    }
}

impl Element for AggregateIPAddrPair {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.timeout = self.timeout_arg.0.into();
        self.reap_interval = self.reap_arg.0.into();
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.pairs.seed(cx);
        self.listeners.initialize(cx);
        Ok(())
    }

    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.alone = batch.len() == 1;
        let mut found = [None; BATCH];
        for (packet, slot) in batch.iter().zip(&mut found) {
            *slot = pair_of(packet).map(|(key, reverse)| {
                let hash = self.pairs.hash(key);
                self.pairs.prefetch(hash);
                (key, hash, reverse)
            });
        }
        let mut found = found.iter();
        batch.filter(
            &mut (self, cx),
            |(this, cx), packet| {
                let numbered =
                    found
                        .next()
                        .copied()
                        .flatten()
                        .is_some_and(|(key, hash, reverse)| {
                            this.number(cx, packet, key, hash, reverse)
                        });
                (!numbered).then_some(())
            },
            |(_, cx), packet, ()| cx.emit(1, packet),
        );
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.listeners.tell(cx);
        Ran::Worked
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn push(rig: &mut Rig, from: u8, to: u8, seconds: i64) {
        let packet = udp(([from, 0, 0, 1].into(), 1), ([to, 0, 0, 2].into(), 2), b"");
        rig.push_with("i", &packet, |packet| {
            packet.set_timestamp(seconds * 1_000_000_000);
        });
    }

    fn numbers(rig: &mut Rig) -> Vec<(u32, u8)> {
        let packets = rig.collected("c");
        packets
            .iter()
            .map(|p| (p.anno(AGGREGATE), p.paint()))
            .collect()
    }

    #[test]
    fn pairs_are_numbered_and_ways_painted() {
        let config = "i :: Inject -> MarkIPHeader -> a :: AggregateIPAddrPair -> c :: Collect;";
        let mut rig = Rig::new(config);
        for (from, to) in [(2, 1), (1, 2), (1, 3), (2, 1), (3, 1)] {
            push(&mut rig, from, to, 0);
        }
        // The hosts' last bytes differ: 1.0.0.1 and 1.0.0.2 are two hosts.
        assert_eq!(numbers(&mut rig), [(1, 0), (2, 0), (3, 0), (1, 0), (4, 0)]);
        rig.write("a.clear", "");
        push(&mut rig, 2, 1, 0);
        assert_eq!(numbers(&mut rig), [(5, 0)]);
        let mut reply = udp(([1, 0, 0, 2].into(), 1), ([2, 0, 0, 1].into(), 2), b"");
        rig.push("i", &reply);
        assert_eq!(numbers(&mut rig), [(5, 1)]);
        reply.truncate(19);
        let mut rig = Rig::new(
            "i :: Inject -> a :: AggregateIPAddrPair -> c :: Collect; a[1] -> d :: Collect;",
        );
        rig.push("i", &reply);
        assert_eq!(rig.collected("d").len(), 1);
    }

    #[test]
    fn pairs_time_out() {
        let config = "i :: Inject -> MarkIPHeader -> a :: AggregateIPAddrPair(TIMEOUT 10, REAP 5) -> c :: Collect;";
        let mut rig = Rig::new(config);
        for time in [100, 105, 115, 126, 127] {
            push(&mut rig, 1, 2, time);
        }
        push(&mut rig, 1, 3, 150);
        push(&mut rig, 1, 2, 0);
        let numbers: Vec<u32> = numbers(&mut rig).iter().map(|n| n.0).collect();
        assert_eq!(numbers, [1, 1, 1, 2, 2, 3, 4]);
        assert_eq!(
            rig.printed(),
            ["a: warning: packet received without timestamp"]
        );
    }
}
