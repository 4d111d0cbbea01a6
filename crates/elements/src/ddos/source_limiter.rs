mod sketch;

use sketch::{BUCKETS_MAX, ROWS, Sketch};

use crate::filters::dispatch::send;
use crate::flow::upper::ends;
use crate::prelude::*;

/// Limits the packets of each source, in constant memory.
///
/// A source is an IPv4 source address, or the network of an IPv6 one, its first 64 bits: a host has all addresses of it.
/// It may send RATE packets a second, and BURST at once; further packets leave by
/// output 1, or are dropped. Nothing is kept of a source: each adds to one bucket in each of four rows,
/// chosen by a hash with a secret key, and its level is that of the lowest of the four, in which the fewest others
/// are (a count-min sketch of leaky buckets, with conservative update: Estan and Varghese, *New directions in traffic
/// measurement and accounting*, 2002).
///
/// So no source gets more than its limit. One that keeps to it is limited wrongly only if all four of its
/// buckets are full of others: with h sources beyond their limit, that is (h / BUCKETS)^4, as 1 in 70 000 for
/// 1000 of them and 16384 buckets. If more packets than RATE times BUCKETS a second come from sources that are
/// made up, all buckets fill, and the limit hits all sources alike.
///
/// All memory is allocated when the router is initialized: 32 bytes for each of BUCKETS. Packets must have their IP header
/// marked. A packet that stands for several counts as these.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIPHeader(14) -> c :: IPClassifier(icmp, -);
/// c[0] -> l :: SourceLimiter(100) -> Discard;
/// c[1] -> Discard;
/// ```
///
/// # See also
/// SYNProxy, IPRateMonitor, RatedSplitter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h/h", segments, handlers, take_over)]
#[outputs("packets within the limit", "further packets")]
pub struct SourceLimiter {
    /// Packets of a source in a second.
    #[arg(mandatory, read)]
    rate: u32,
    /// Packets of a source at once; RATE if not given.
    #[arg]
    burst: u32,
    /// Buckets of each of the four rows, a power of two up to 65536.
    #[arg(default = 16384)]
    buckets: u32,
    /// Packets within the limit.
    #[handler(read)]
    count: u64,
    /// Packets beyond it.
    #[handler(read)]
    drops: u64,
    sketch: Sketch,
}

/// The number of a source.
fn number(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

#[handlers]
impl SourceLimiter {
    /// How many packets a source has sent beyond its rate, at most, by its address; at BURST it is limited.
    #[read]
    fn level(&mut self, cx: &mut Cx<'_>, source: &str) -> Result<u64, String> {
        let source = source.trim().parse::<IpAddr>();
        let source = source.map_err(|_| "expected IP address".to_string())?;
        Ok(self.sketch.level(number(source), cx.steady()))
    }

    /// The share of buckets that are full; those in which a source is limited.
    #[read]
    fn load(&mut self, cx: &mut Cx<'_>) -> f64 {
        let now = cx.steady();
        self.sketch.load(now)
    }

    /// Sets all counters to 0.
    #[write(button)]
    fn reset(&mut self) {
        (self.count, self.drops) = (0, 0);
    }
}

impl SourceLimiter {
    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        (self.count, self.drops) = (old.count, old.drops);
        self.sketch.take_over(&mut old.sketch);
    }
}

impl Element for SourceLimiter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.burst == 0 {
            self.burst = self.rate;
        }
        let is_right = self.buckets.is_power_of_two() && self.buckets as usize <= BUCKETS_MAX;
        if self.rate == 0 || !is_right {
            return Err(args.fail(format_args!(
                "RATE must be at least 1, and BUCKETS a power of two up to {BUCKETS_MAX}"
            )));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let key = [cx.random().next_u64(), cx.random().next_u64()];
        let (rate, burst) = (self.rate.into(), self.burst.into());
        let sketch = Sketch::new(rate, burst, self.buckets as usize, key);
        let bytes = 8 * ROWS * self.buckets as usize;
        self.sketch = sketch.ok_or_else(|| {
            cx.error(format_args!(
                "out of memory for {bytes} bytes of buckets; give smaller BUCKETS, or a guest more memory, as in --memory 32M"
            ))
        })?;
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let now = cx.steady();
        let mut outputs = [0; BATCH];
        for (packet, output) in batch.iter().zip(&mut outputs) {
            let source = ends(packet).map(|[source, _]| number(source));
            let packets = packet.stands_for() as u64;
            // What is no IP packet has no source.
            let is_within = source.is_none_or(|source| self.sketch.take(source, packets, now));
            *output = u32::from(!is_within);
            *(if is_within {
                &mut self.count
            } else {
                &mut self.drops
            }) += packets;
        }
        send(cx, batch, &outputs)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> MarkIPHeader -> l :: SourceLimiter(10, BURST 20)
        -> c :: Collect; l[1] -> over :: Collect;";

    #[test]
    fn a_source_gets_its_burst_and_its_rate() {
        let mut rig = Rig::new(CONFIG);
        let packet = udp((A, 1), (B, 2), &[]);
        rig.push_all("i", &vec![packet.clone(); 30]);
        assert_eq!((rig.data("c").len(), rig.data("over").len()), (20, 10));
        // Another is not concerned.
        rig.push("i", &udp((B, 1), (A, 2), &[]));
        assert_eq!(rig.data("c").len(), 1);
        rig.advance(500 * MS);
        rig.push_all("i", &vec![packet; 30]);
        assert_eq!((rig.data("c").len(), rig.data("over").len()), (5, 25));
        rig.assert_handlers(&[("l.count", "26"), ("l.drops", "35")]);
        let level = |rig: &mut Rig| {
            let id = rig.router.find("l");
            rig.router.read(id, "level", "1.0.0.1").unwrap()
        };
        assert_eq!(level(&mut rig), "20");
        rig.swap(CONFIG);
        assert_eq!(level(&mut rig), "20");
        rig.assert_handlers(&[("l.count", "26")]);
        rig.write("l.reset", "");
        rig.assert_handlers(&[("l.count", "0"), ("l.drops", "0")]);
    }

    #[test]
    fn a_source_of_ipv6_is_a_network() {
        let mut rig = Rig::new(&CONFIG.replace("MarkIPHeader", "MarkIP6Header"));
        let of = |source: &str| {
            let (from, to) = (ip6::addr(source), ip6::addr("2001:db8:2::1"));
            ip6::udp((from, 1), (to, 2), &[])
        };
        let hosts = (1..=30).map(|host| of(&format!("2001:db8::{host}")));
        rig.push_all("i", &hosts.collect::<Vec<_>>());
        assert_eq!((rig.data("c").len(), rig.data("over").len()), (20, 10));
        rig.push("i", &of("2001:db8:0:1::1"));
        assert_eq!(rig.data("c").len(), 1);
        let id = rig.router.find("l");
        let level = rig.router.read(id, "level", "2001:db8::ffff").unwrap();
        assert_eq!(level, "20");
    }

    #[test]
    fn wrong_arguments_are_told() {
        for arguments in ["0", "5, BUCKETS 1000", "5, BUCKETS 131072"] {
            let config = format!("Idle -> SourceLimiter({arguments}) -> Discard;");
            Rig::refuses(
                &config,
                "RATE must be at least 1, and BUCKETS a power of two",
            );
        }
    }
}
