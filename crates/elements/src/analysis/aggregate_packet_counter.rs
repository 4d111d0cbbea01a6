use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use hashbrown::HashMap;
use packet::anno::{AGGREGATE, Anno};
use packet::{Batch, Packet};
use router::args::{AnnoArg, Args, ElementRef, Failed, WordArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

/// Most counts that are kept.
const COUNTS_MAX: usize = 1 << 22;

/// Counts packets by aggregate and packet number.
///
/// Each input has counts of its own, and its packets leave by the output of the same number: so it
/// can be told which packets passed one place of a network but not another. Packets whose aggregate
/// annotation is 0 are not counted; nor are, when there are 4194304 counts, packets that would need
/// another.
///
/// # Arguments
/// - `ANNO` (annotation of 4 bytes, PACKET_NUMBER): where the packet's number is; `NONE`: all
///   packets of an aggregate count as one.
/// - `NOTIFIER` (element): accepted, without effect.
///
/// # Ports
/// As many inputs as outputs, one or more, agnostic.
///
/// # Handlers
/// - `count` (read): all packets counted.
/// - `received` (read, with an aggregate): the numbers of its packets that came to any input, one
///   a line.
/// - `undelivered` (read, with an aggregate): those that came to input 0 more often than to
///   input 1; with two inputs or more.
/// - `clear` (write): sets all counts to 0.
///
/// # Example
/// ```click
/// c :: AggregatePacketCounter;
/// FromIPSummaryDump(sent, STOP true) -> [0]c[0] -> Discard;
/// FromIPSummaryDump(received, STOP true) -> [1]c[1] -> Discard;
/// DriverManager(pause, pause, print $(c.undelivered 1));
/// ```
///
/// # See also
/// AggregateCounter, AggregateIP, AggregateIPFlows
#[derive(Default)]
pub struct AggregatePacketCounter {
    anno: Option<Anno>,
    /// By aggregate, packet number and input.
    counts: HashMap<(u32, u32, u32), u32>,
    seen: u64,
    /// Packets with an aggregate.
    seen_with_aggregate: u64,
}

impl Class for AggregatePacketCounter {
    const NAME: &'static str = "AggregatePacketCounter";
    const PORTS: &'static str = "1-/=";
    const FLOW: &'static str = "#/#";
}

impl AggregatePacketCounter {
    #[inline]
    fn count(&mut self, port: usize, packet: &Packet) {
        self.seen += 1;
        let aggregate = packet.anno(AGGREGATE);
        if aggregate == 0 {
            return;
        }
        self.seen_with_aggregate += 1;
        let number = self.anno.map_or(0, |anno| packet.anno(anno));
        let key = (aggregate, number, port as u32);
        if let Some(count) = self.counts.get_mut(&key) {
            *count = count.saturating_add(1);
        } else if self.counts.len() < COUNTS_MAX && self.counts.try_reserve(1).is_ok() {
            self.counts.insert(key, 1);
        }
    }

    /// The packet numbers of an aggregate for which `wanted` says so of the input they came to.
    fn numbers(&self, aggregate: u32, wanted: impl Fn(u32, u32) -> bool) -> String {
        let keys = self.counts.keys();
        let own = keys.filter(|(of, number, port)| *of == aggregate && wanted(*number, *port));
        let mut numbers: Vec<u32> = own.map(|(_, number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut text = String::new();
        for number in numbers {
            // Writing to memory does not fail.
            let _ = writeln!(text, "{number}");
        }
        text
    }
}

impl Declared for AggregatePacketCounter {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut name = String::from("PACKET_NUMBER");
        let mut notifier: Option<ElementRef> = None;
        args.keyword("NOTIFIER", &mut notifier)
            .keyword_with("ANNO", WordArg, &mut name)
            .complete()?;
        if name != "NONE" {
            let place = args.context().parse_with(AnnoArg(4), &name);
            let place = place.map_err(|_| args.fail("bad ANNO"))?;
            self.anno = Some(Anno {
                name: "",
                offset: place.offset.into(),
                size: 4,
            });
        }
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.write("clear").read("count");
        list.read_with("received").read_with("undelivered");
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<String, HandlerError> {
        if name == "count" {
            let count: u64 = self.counts.values().map(|count| u64::from(*count)).sum();
            return Ok(count.to_string());
        }
        if !matches!(name, "received" | "undelivered") {
            return Err(HandlerError::Unknown);
        }
        let aggregate = match value.trim() {
            "" => 0,
            text => {
                let parsed = cx.names().parse(text);
                parsed.map_err(|_| "argument should be aggregate number")?
            }
        };
        if name == "received" {
            return Ok(self.numbers(aggregate, |_, _| true));
        }
        if cx.inputs() < 2 {
            return Err("needs two inputs".into());
        }
        let count = |number, port| self.counts.get(&(aggregate, number, port)).unwrap_or(&0);
        Ok(self.numbers(aggregate, |number, port| {
            port == 0 && count(number, 0) > count(number, 1)
        }))
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        match name {
            "clear" => self.counts.clear(),
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for AggregatePacketCounter {
    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if self.seen > 0 && self.seen_with_aggregate == 0 {
            let declaration = cx.declaration();
            cx.chatter(format_args!(
                "{declaration}: warning: saw no packets with aggregate annotations"
            ));
        }
    }

    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        for packet in batch.iter() {
            self.count(port, packet);
        }
        port
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        cx.pull(port, batch, most);
        for packet in batch.iter() {
            self.count(port, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::anno::{AGGREGATE, PACKET_NUMBER};

    use crate::testing::Rig;

    #[test]
    fn packets_that_did_not_arrive_are_named() {
        let mut rig = Rig::new(
            "i :: Inject -> [0]c :: AggregatePacketCounter -> Discard; j :: Inject -> [1]c[1] -> Discard;
             s :: Script(TYPE PROXY, return $(c.undelivered $0));",
        );
        let mut push = |name: &str, aggregate, number| {
            rig.push_with(name, &[0], |packet| {
                packet.set_anno(AGGREGATE, aggregate);
                packet.set_anno(PACKET_NUMBER, number);
            });
        };
        for number in [1, 2, 3, 3, u32::MAX] {
            push("i", 9, number);
        }
        for number in [2, 3, 5] {
            push("j", 9, number);
        }
        push("i", 0, 1);
        push("i", 8, 4);
        assert_eq!(rig.read("c.count"), "9");
        let mut read = |handler: &str, aggregate: &str| {
            let id = rig.router.find("c");
            rig.router.read(id, handler, aggregate)
        };
        assert_eq!(read("undelivered", "9").unwrap(), "1\n3\n4294967295\n");
        assert_eq!(read("received", "9").unwrap(), "1\n2\n3\n5\n4294967295\n");
        assert_eq!(read("received", "").unwrap(), "");
        assert!(read("received", "x").is_err());
        rig.write("c.clear", "");
        assert_eq!(rig.read("c.count"), "0");
    }

    #[test]
    fn packets_without_aggregate_are_told_of() {
        let mut rig = Rig::new("i :: Inject -> c :: AggregatePacketCounter(ANNO NONE) -> Discard;");
        rig.push("i", &[0]);
        assert!(rig.try_read("c.undelivered").is_err());
        let errors = Rig::errors("Idle -> AggregatePacketCounter(ANNO PAINT) -> Discard;");
        assert!(errors.contains("bad ANNO"), "{errors}");
    }
}
