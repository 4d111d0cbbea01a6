use alloc::string::{String, ToString};
use core::net::Ipv4Addr;

use packet::anno::{FWD_RATE, REV_RATE};
use packet::wire::Ipv4Packet;
use packet::{Batch, Packet};
use router::args::{Args, Failed, FixedPoint, WordArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

mod tree;

use tree::{FREQUENCY, Tree, epoch};

/// Least memory, in KiB.
const MEMORY_MIN: u32 = 100;
/// Memory if none is given, in KiB.
const MEMORY: u32 = 4096;
/// `RATIO` of one.
const ONE: u32 = 1 << 16;

/// Measures the rates of traffic from and to addresses, more closely where there is more.
///
/// At first it keeps a rate for each first byte of addresses. When packets from or to those come
/// faster than the threshold, it keeps rates for each second byte behind it, and so on. When the
/// traffic of a prefix falls below about an eighth of the threshold, it is one again; that is looked
/// after once a second. Packets must have their IP header marked; others pass uncounted.
///
/// Packets that come by input 0 are counted by their source, those by input 1 by their destination;
/// each gets the rates of its address, or of the longest prefix of it that has some, in its FWD_RATE
/// and REV_RATE annotations: from it, and to it.
///
/// # Arguments
/// - `TYPE` (`PACKETS` or `BYTES`): what is counted.
/// - `RATIO` (number from 0 to 1): which part of packets is counted, by chance.
/// - `THRESH` (integer): the threshold, in packets or bytes a second as if `RATIO` were 1.
/// - `MEMORY` (integer, 0): most KiB of rates, 100 at least; 0 is 4096. Where there is no room,
///   rates stay those of shorter prefixes, and packets whose first byte has none get none.
/// - `ANNO` (boolean, true): whether to annotate packets.
///
/// # Ports
/// One or two inputs and outputs, agnostic: what comes by an input leaves by the output of its
/// number.
///
/// # Handlers
/// - `look` (read): time since rates were reset, in 125ths of a second; then a line for each prefix
///   that has rates: from it, and to it, a second. Longer prefixes are indented.
/// - `thresh` (read): the threshold of what is counted.
/// - `mem` (read): bytes of rates.
/// - `memmax` (read, write): most bytes; written in KiB.
/// - `anno_level` (write, `IPADDR, LEVEL, SECONDS`): keeps no rates behind the first `LEVEL` (0 to
///   3) bytes and one of the address for this long.
/// - `reset` (write): forgets all rates.
///
/// # Example
/// ```click
/// m :: IPRateMonitor(PACKETS, 0.5, 256, 600);
/// FromDump(in.pcap) -> CheckIPHeader(14) -> m -> Discard;
/// ```
///
/// # See also
/// Counter, AverageCounter, AggregateCounter
pub struct IPRateMonitor {
    packets: bool,
    ratio: u32,
    annotate: bool,
    tree: Tree,
    reset_at: u64,
    next_fold: u64,
}

impl Default for IPRateMonitor {
    fn default() -> Self {
        IPRateMonitor {
            packets: true,
            ratio: ONE,
            annotate: true,
            tree: Tree::new(1, bytes(0)),
            reset_at: 0,
            next_fold: 0,
        }
    }
}

impl Class for IPRateMonitor {
    const NAME: &'static str = "IPRateMonitor";
    const PORTS: &'static str = "1-2/1-2";
}

/// Bytes that `MEMORY` allows.
fn bytes(memory: u32) -> usize {
    let memory = if memory == 0 { MEMORY } else { memory.max(MEMORY_MIN) };
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
        let address = if port == 0 { ip.source() } else { ip.destination() };
        let amount = if self.packets { 1 } else { ip.total_len().into() };
        let rates = self.tree.update(address, port, amount, count, now);
        if let Some([from, to]) = rates.filter(|_| self.annotate) {
            packet.set_anno(FWD_RATE, u32::try_from(from).unwrap_or(u32::MAX));
            packet.set_anno(REV_RATE, u32::try_from(to).unwrap_or(u32::MAX));
        }
    }

    fn keep_shallow(&mut self, cx: &Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let words = match value.contains(',') {
            true => click::config::split_args(value),
            false => click::config::split_space(value),
        };
        let [address, level, seconds] = words.as_slice() else {
            return Err("expecting 3 arguments".into());
        };
        let names = cx.names();
        let address: Ipv4Addr = names.parse(address).map_err(|_| "not an IP address")?;
        let level = names.parse::<usize>(level).ok().filter(|level| *level < 4);
        let level =
            level.ok_or("2nd argument specifies a level, between 0 and 3, to annotate")?;
        let seconds = names.parse::<u32>(seconds).ok().filter(|seconds| *seconds > 0);
        let seconds =
            seconds.ok_or("3rd argument specifies when this rule expires, must be > 0")?;
        let until = epoch(cx.steady()) + u64::from(seconds) * FREQUENCY;
        self.tree.keep_shallow(address, level, until);
        Ok(())
    }
}

impl Declared for IPRateMonitor {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut kind, mut threshold, mut memory) = (String::new(), 0u32, 0u32);
        args.mandatory_positional_with("TYPE", WordArg, &mut kind)
            .mandatory_positional_with("RATIO", FixedPoint { bits: 16 }, &mut self.ratio)
            .mandatory_positional("THRESH", &mut threshold)
            .positional("MEMORY", &mut memory)
            .positional("ANNO", &mut self.annotate)
            .complete()?;
        self.packets = match kind.to_ascii_uppercase().as_str() {
            "PACKETS" => true,
            "BYTES" => false,
            _ => return Err(args.fail("monitor type should be \"PACKETS\" or \"BYTES\"")),
        };
        if self.ratio > ONE {
            return Err(args.fail("ratio must be between 0 and 1"));
        }
        let threshold = (u64::from(threshold) * u64::from(self.ratio)) >> 16;
        self.tree = Tree::new(threshold, bytes(memory));
        self.reset_at = epoch(cx.steady());
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("look").read("thresh").read("mem");
        list.read_write("memmax").write("anno_level").button("reset");
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "look" => {
                let now = epoch(cx.steady());
                let since = now.saturating_sub(self.reset_at);
                Ok(alloc::format!("{since}\n{}", self.tree.look(now)))
            }
            "thresh" => Ok(self.tree.threshold.to_string()),
            "mem" => Ok(self.tree.memory().to_string()),
            "memmax" => Ok(self.tree.limit().to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "reset" => {
                self.tree.clear();
                self.reset_at = epoch(cx.steady());
            }
            "memmax" => {
                let memory = cx.names().parse(value.trim()).map_err(|_| "not an integer")?;
                self.tree.set_limit(bytes(memory), epoch(cx.steady()));
            }
            "anno_level" => self.keep_shallow(cx, value)?,
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for IPRateMonitor {
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.monitor(cx, port, batch);
        port
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        cx.pull(port, batch, most);
        self.monitor(cx, port, batch);
    }
}

#[cfg(test)]
mod tests;
