use crate::prelude::*;

mod tree;

use tree::{FREQUENCY, Tree, epoch};

/// Least memory, in KiB.
const MEMORY_MIN: u32 = 100;
/// Memory if none is given, in KiB.
const MEMORY: u32 = 4096;
/// `RATIO` of one.
const ONE: u32 = 1 << 16;

/// Measures the rates of traffic from and to addresses, by longer prefixes where there is more
/// traffic.
///
/// At first it keeps a rate for each first byte of addresses. When the rate of a prefix exceeds the
/// threshold, it keeps rates for each next byte. When the traffic of a prefix falls below about an
/// eighth of the threshold, its longer prefixes are merged; this is checked once a second. Packets
/// must have their IP header marked; others pass uncounted.
///
/// Packets that come by input 0 are counted by their source, those by input 1 by their destination;
/// FWD_RATE and REV_RATE annotations get the rates from and to that address, or from and to its
/// longest prefix with rates.
///
/// # Example
/// ```click
/// m :: IPRateMonitor(PACKETS, 0.5, 256, 600);
/// FromDump(in.pcap) -> CheckIPHeader(14) -> m -> Discard;
/// ```
///
/// # See also
/// Counter, AverageCounter, AggregateCounter
#[derive(Element)]
#[element(ports = "1-2/1-2", handlers)]
#[inputs(
    "packets counted by their source",
    "packets counted by their destination"
)]
#[outputs("packets of input 0", "packets of input 1")]
pub struct IPRateMonitor {
    /// The unit of the counts.
    #[arg(mandatory, name = "TYPE", with = WordArg, kind = "PACKETS or BYTES")]
    kind: String,
    /// The fraction of packets that is counted, chosen at random.
    #[arg(mandatory, with = FixedPoint { bits: 16 }, kind = "number from 0 to 1")]
    #[init(ONE)]
    ratio: u32,
    /// The threshold, in packets or bytes a second as if RATIO were 1.
    #[arg(mandatory, name = "THRESH")]
    threshold: u32,
    /// Most KiB of rates, 100 at least; 0 is 4096. Without room, only shorter prefixes have rates,
    /// and a packet whose first byte has none gets no rates.
    #[arg(positional, default = 0)]
    memory: u32,
    /// Whether to annotate packets.
    #[arg(positional, name = "ANNO", default = true)]
    annotate: bool,
    packets: bool,
    #[init(Tree::new(1, bytes(0)))]
    tree: Tree,
    reset_at: u64,
    next_fold: u64,
}

/// Bytes that `MEMORY` allows.
fn bytes(memory: u32) -> usize {
    let memory = if memory == 0 {
        MEMORY
    } else {
        memory.max(MEMORY_MIN)
    };
    memory as usize * 1024
}

impl IPRateMonitor {
    /// Counts and annotates packets that came by a port.
    fn monitor(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let now = epoch(cx.steady());
        for packet in batch.iter_mut() {
            let count = self.ratio >= ONE || cx.random().next_u32() & 0xffff <= self.ratio;
            self.count(packet, port, count, now);
        }
        if now >= self.next_fold {
            self.next_fold = now + FREQUENCY;
            self.tree.fold(now, self.tree.threshold);
        }
    }

    #[inline]
    fn count(&mut self, packet: &mut Packet, port: usize, count: bool, now: u64) {
        let Some(header) = packet.network_header().filter(|bytes| bytes.len() >= 20) else {
            return;
        };
        let ip = Ipv4Packet::new_unchecked(header);
        let address = if port == 0 {
            ip.source()
        } else {
            ip.destination()
        };
        let amount = if self.packets {
            1
        } else {
            ip.total_len().into()
        };
        let rates = self.tree.update(address, port, amount, count, now);
        if let Some([from, to]) = rates.filter(|_| self.annotate) {
            packet.set_anno(FWD_RATE, u32::try_from(from).unwrap_or(u32::MAX));
            packet.set_anno(REV_RATE, u32::try_from(to).unwrap_or(u32::MAX));
        }
    }
}

#[handlers]
impl IPRateMonitor {
    /// Time since rates were reset, in 125ths of a second; then a line for each prefix that has
    /// rates: from it, and to it, a second. Longer prefixes are indented.
    #[read]
    fn look(&mut self, cx: &mut Cx<'_>) -> String {
        let now = epoch(cx.steady());
        let since = now.saturating_sub(self.reset_at);
        alloc::format!("{since}\n{}", self.tree.look(now))
    }

    /// The threshold of the counts.
    #[read]
    fn thresh(&self) -> u64 {
        self.tree.threshold
    }

    /// Bytes of rates.
    #[read]
    fn mem(&self) -> usize {
        self.tree.memory()
    }

    /// Most bytes of rates.
    #[read]
    fn memmax(&self) -> usize {
        self.tree.limit()
    }

    /// Most KiB of rates.
    #[write(error = "not an integer")]
    fn set_memmax(&mut self, cx: &mut Cx<'_>, memory: u32) {
        self.tree.set_limit(bytes(memory), epoch(cx.steady()));
    }

    /// `IPADDR, LEVEL, SECONDS`: keeps no rates behind the first LEVEL (0 to 3) bytes and one of
    /// the address for this long.
    #[write(name = "anno_level")]
    fn keep_shallow(&mut self, cx: &Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let wrong = |error| HandlerError::failed(FailureKind::Failed, error);
        let words = if value.contains(',') {
            click::config::split_args(value)
        } else {
            click::config::split_space(value)
        };
        let [address, level, seconds] = words.as_slice() else {
            return Err(wrong("expecting 3 arguments"));
        };
        let names = cx.names();
        let address = names.parse(address);
        let address: Ipv4Addr = address.map_err(|_| wrong("not an IP address"))?;
        let level = names.parse::<usize>(level).ok().filter(|level| *level < 4);
        let level = level
            .ok_or_else(|| wrong("2nd argument specifies a level, between 0 and 3, to annotate"))?;
        let seconds = names
            .parse::<u32>(seconds)
            .ok()
            .filter(|seconds| *seconds > 0);
        let seconds = seconds
            .ok_or_else(|| wrong("3rd argument specifies when this rule expires, must be > 0"))?;
        let until = epoch(cx.steady()) + u64::from(seconds) * FREQUENCY;
        self.tree.keep_shallow(address, level, until);
        Ok(())
    }

    /// Forgets all rates.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.tree.clear();
        self.reset_at = epoch(cx.steady());
    }
}

impl Element for IPRateMonitor {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.packets = match self.kind.to_ascii_uppercase().as_str() {
            "PACKETS" => true,
            "BYTES" => false,
            _ => return Err(args.fail("monitor type should be \"PACKETS\" or \"BYTES\"")),
        };
        if self.ratio > ONE {
            return Err(args.fail("ratio must be between 0 and 1"));
        }
        let threshold = (u64::from(self.threshold) * u64::from(self.ratio)) >> 16;
        self.tree = Tree::new(threshold, bytes(self.memory));
        self.reset_at = epoch(cx.steady());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.monitor(cx, port, batch);
        port
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.monitor(cx, port, batch);
    }
}

#[cfg(test)]
mod tests;
