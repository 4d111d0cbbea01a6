use super::numbering::{Numbering, Numbers};
use crate::prelude::*;

/// Slots unless N says otherwise.
const SLOTS: u32 = 1 << 16;
/// Least slots with DYNAMIC.
const SLOTS_DYNAMIC: u32 = 1 << 20;
/// Most slots.
const SLOTS_MAX: u32 = 1 << 24;

/// In a slot: no time was recorded.
const NEVER: u64 = 0;
/// In a slot: the time was taken.
const TAKEN: u64 = 1;
/// What is added to a time in a slot, in nanoseconds.
const FROM: u64 = 2;

/// An element that knows when packets passed it.
pub(super) trait Recorder {
    /// Whether packets' numbers are in network byte order.
    fn net_order(&self, cx: &Cx<'_>) -> bool;

    /// Takes the time at which packet `number` passed; `None` if it is not known, or was taken.
    fn take(&mut self, cx: &mut Cx<'_>, number: u64) -> Option<Steady>;
}

impl Interface for dyn Recorder {
    const NAME: &'static str = "RecordTimestamp";
}

/// Records the time at which packets pass, for TimestampDiff.
///
/// The packets of a batch have the same time. The table of times is allocated at initialization.
/// Packets without a slot are not recorded; the first is reported.
///
/// # Example
/// ```click
/// InfiniteSource(LENGTH 64, LIMIT 1000, STOP true) -> NumberPacket
///     -> r :: RecordTimestamp(N 1000, OFFSET 40) -> Queue -> Unqueue
///     -> d :: TimestampDiff(r) -> Discard;
/// DriverManager(pause, print d.average);
/// ```
///
/// # See also
/// NumberPacket, TimestampDiff, SetTimestamp
#[derive(Element)]
#[element(ports = "1/1", processing = "h", provides(Recorder))]
pub struct RecordTimestamp {
    /// The NumberPacket element whose byte order packets' numbers have.
    #[arg]
    counter: Option<Link<dyn Numbers>>,
    /// Slots of the table, up to 16777216; 0 stands for 65536. A slot takes 8 bytes.
    #[arg]
    n: u32,
    /// Offset of the packet's number, which names its slot. If it is negative, the packets fill the
    /// table in order.
    #[arg(default = -1)]
    offset: i32,
    /// Whether the table has at least 1048576 slots.
    #[arg]
    dynamic: bool,
    /// Whether packets' numbers are in network byte order. COUNTER overrides it.
    #[arg]
    net_order: bool,
    /// One of this many numbers is recorded.
    #[arg(default = 1)]
    sample: u32,
    numbering: Option<Numbering>,
    /// Packets that passed, if they are not numbered.
    passed: u64,
    slots: Vec<u64>,
    reported: bool,
}

impl RecordTimestamp {
    /// The slot of packet `number`, if it is one of those recorded.
    #[inline]
    fn slot(&self, number: u64) -> Option<usize> {
        let sample = u64::from(self.sample);
        if sample <= 1 {
            return Some(number as usize);
        }
        number
            .is_multiple_of(sample)
            .then_some((number / sample) as usize)
    }

    #[inline]
    fn number(&mut self, packet: &Packet) -> Option<u64> {
        match &self.numbering {
            Some(numbering) => numbering.read(packet),
            None => {
                self.passed += 1;
                Some(self.passed - 1)
            }
        }
    }

    #[cold]
    fn report(&mut self, cx: &mut Cx<'_>, what: core::fmt::Arguments<'_>) {
        if !self.reported {
            self.reported = true;
            let name = cx.declaration();
            cx.chatter(format_args!("{name}: {what}"));
        }
    }
}

impl Recorder for RecordTimestamp {
    fn net_order(&self, cx: &Cx<'_>) -> bool {
        match self.counter {
            Some(counter) => cx.view(counter).is_some_and(|counter| counter.net_order()),
            None => self.net_order,
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, number: u64) -> Option<Steady> {
        let slot = self.slot(number)?;
        let Some(time) = self.slots.get_mut(slot) else {
            self.report(cx, format_args!("Index {number} is out of range !"));
            return None;
        };
        match *time {
            NEVER => None,
            TAKEN => {
                self.report(cx, format_args!("Timestamp read multiple times !"));
                None
            }
            recorded => {
                *time = TAKEN;
                Some(Steady(recorded - FROM))
            }
        }
    }
}

impl Element for RecordTimestamp {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.n > SLOTS_MAX {
            return Err(args.fail(format_args!("N {}: at most {SLOTS_MAX} slots", self.n)));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let net_order = self.net_order(cx);
        let offset = u32::try_from(self.offset).ok();
        self.numbering = offset.map(|offset| Numbering { offset, net_order });
        let given = if self.n == 0 { SLOTS } else { self.n };
        let slots = if self.dynamic {
            given.max(SLOTS_DYNAMIC)
        } else {
            given
        } as usize;
        if self.slots.try_reserve_exact(slots).is_err() {
            return Err(cx.error(format_args!("N {slots}: out of memory; use fewer slots")));
        }
        self.slots.resize(slots, NEVER);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let time = cx.steady().0.saturating_add(FROM);
        for packet in batch.iter() {
            let Some(number) = self.number(packet) else {
                continue;
            };
            let Some(slot) = self.slot(number) else {
                continue;
            };
            match self.slots.get_mut(slot) {
                Some(slot) => *slot = time,
                None => {
                    let most = self.slots.len();
                    self.report(
                        cx,
                        format_args!("packet {number} has no slot of {most}: raise N"),
                    );
                }
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const PATH: &str = "q :: Queue -> u :: Unqueue(BURST 64, ACTIVE false)
        -> d :: TimestampDiff(r, OFFSET 0, NANO true) -> c :: Collect; d[1] -> e :: Collect;";

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> r :: RecordTimestamp({arguments}) -> {PATH}"
        ))
    }

    fn pass(rig: &mut Rig, numbers: &[u64]) {
        for number in numbers {
            rig.push("i", &number.to_ne_bytes());
            rig.pause(10);
        }
        rig.write("u.active", "true");
        rig.run();
        rig.write("u.active", "false");
    }

    #[test]
    fn packets_fill_the_table_in_order() {
        let mut rig = rig("");
        pass(&mut rig, &[0, 1, 2]);
        assert_eq!(rig.read("d.dump"), "0: 30\n1: 20\n2: 10\n");
    }

    #[test]
    fn the_number_names_the_slot() {
        let mut rig = rig("N 3, OFFSET 0");
        pass(&mut rig, &[2, 0]);
        pass(&mut rig, &[2]);
        assert_eq!(rig.read("d.dump_list"), "20\n10\n10\n");
        assert!(rig.data("e").is_empty());
    }

    #[test]
    fn packets_without_a_slot_are_not_measured() {
        let mut rig = rig("N 1, OFFSET 0");
        pass(&mut rig, &[0, 1]);
        rig.push("i", &[0]);
        assert_eq!(rig.data("c"), [0u64.to_ne_bytes()]);
        assert_eq!(rig.data("e"), [1u64.to_ne_bytes()]);
        assert_eq!(
            rig.printed(),
            ["r :: RecordTimestamp: packet 1 has no slot of 1: raise N"]
        );
        let mut large = Rig::new(&format!(
            "i :: Inject -> r :: RecordTimestamp(N 1, OFFSET 0, DYNAMIC true) -> {PATH}"
        ));
        pass(&mut large, &[1048575, 1048576]);
        assert_eq!(large.read("d.index"), "0");
    }

    #[test]
    fn a_time_is_taken_once() {
        let mut rig = rig("OFFSET 0");
        pass(&mut rig, &[7, 7]);
        assert_eq!((rig.data("c").len(), rig.data("e").len()), (1, 1));
        assert_eq!(
            rig.printed(),
            ["r :: RecordTimestamp: Timestamp read multiple times !"]
        );
    }

    #[test]
    fn one_of_several_is_recorded() {
        let config = "i :: Inject -> r :: RecordTimestamp(N 2, OFFSET 0, SAMPLE 3)
            -> d :: TimestampDiff(r, OFFSET 0, SAMPLE 3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        for number in 0u64..6 {
            rig.push("i", &number.to_ne_bytes());
        }
        assert_eq!(rig.data("c").len(), 6);
        assert_eq!(rig.read("d.index"), "1");
        assert!(rig.printed().is_empty());
    }

    #[test]
    fn the_byte_order_is_the_counters() {
        let config = "i :: Inject -> n :: NumberPacket(0, NET_ORDER true)
            -> r :: RecordTimestamp(COUNTER n, OFFSET 0, N 2)
            -> d :: TimestampDiff(r, OFFSET 0) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![0; 8], vec![0; 8]]);
        assert_eq!(rig.data("c").len(), 2);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        Rig::refuses(
            "Idle -> RecordTimestamp(N 16777217) -> Discard;",
            "at most 16777216 slots",
        );
        let config = "Idle -> x :: Null -> RecordTimestamp(COUNTER x) -> Discard;";
        Rig::refuses(config, "expected NumberPacket");
    }
}
