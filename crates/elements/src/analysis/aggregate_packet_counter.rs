use core::fmt::Write;

use hashbrown::HashMap;

use crate::prelude::*;

/// Most counts that are kept.
const COUNTS_MAX: usize = 1 << 22;

/// Counts packets by aggregate and packet number.
///
/// Each input has its own counts, and its packets leave by the output of the same number. A
/// comparison of the inputs shows which packets passed one point of a network but not another.
/// Packets whose aggregate annotation is 0 are not counted. At 4194304 counts, packets that need a
/// new count are not counted.
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
#[derive(Element)]
#[element(ports = "1-/=", flow = "#/#", handlers)]
pub struct AggregatePacketCounter {
    /// Accepted, without effect.
    #[arg]
    notifier: Option<ElementRef>,
    /// The annotation of 4 bytes that holds the packet's number; `NONE`: all packets of an
    /// aggregate count as one.
    #[arg(
        name = "ANNO",
        with = WordArg,
        kind = "annotation",
        default = "PACKET_NUMBER".into(),
        default_text = "PACKET_NUMBER"
    )]
    anno_name: String,
    anno: Option<Anno>,
    /// By aggregate, packet number and input.
    counts: HashMap<(u32, u32, u32), u32>,
    seen: u64,
    /// Packets with an aggregate.
    seen_with_aggregate: u64,
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

/// The aggregate that a handler is read with.
fn aggregate(cx: &Cx<'_>, parameter: &str) -> Result<u32, &'static str> {
    match parameter.trim() {
        "" => Ok(0),
        text => {
            let parsed = cx.names().parse(text);
            parsed.map_err(|_| "argument should be aggregate number")
        }
    }
}

#[handlers]
impl AggregatePacketCounter {
    /// All packets counted.
    #[read(name = "count")]
    fn total(&self) -> u64 {
        self.counts.values().map(|count| u64::from(*count)).sum()
    }

    /// The numbers of an aggregate's packets that came to any input, one a line.
    #[read]
    fn received(&self, cx: &mut Cx<'_>, of: &str) -> Result<String, &'static str> {
        Ok(self.numbers(aggregate(cx, of)?, |_, _| true))
    }

    /// The numbers of an aggregate's packets that came to input 0 more often than to input 1; with
    /// two inputs or more.
    #[read]
    fn undelivered(&self, cx: &mut Cx<'_>, of: &str) -> Result<String, &'static str> {
        let aggregate = aggregate(cx, of)?;
        if cx.inputs() < 2 {
            return Err("needs two inputs");
        }
        let count = |number, port| self.counts.get(&(aggregate, number, port)).unwrap_or(&0);
        Ok(self.numbers(aggregate, |number, port| {
            port == 0 && count(number, 0) > count(number, 1)
        }))
    }

    /// Sets all counts to 0.
    #[write]
    fn clear(&mut self) {
        self.counts.clear();
    }
}

impl Element for AggregatePacketCounter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.anno = match self.anno_name.as_str() {
            "NONE" => None,
            name => {
                let anno = args.context().parse::<AnnoOf<4>>(name);
                Some(anno.map_err(|_| args.fail("bad ANNO"))?.anno())
            }
        };
        Ok(())
    }

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
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most);
    }

    #[inline]
    fn pulled(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            self.count(port, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
        Rig::refuses(
            "Idle -> AggregatePacketCounter(ANNO PAINT) -> Discard;",
            "bad ANNO",
        );
    }
}
