use super::histogram::Histogram;
use super::sequences::{Arrival, Sequences};
use super::stamp::{FLOWS_MAX, Stamp};
use crate::prelude::*;
use crate::rates::traffic::Traffic;

/// Most numbers of a window.
const WINDOW_MAX: u32 = 1 << 16;

/// Measures rate, loss, order and delay of TrafficSource's packets.
///
/// Packets are Ethernet frames, or have their IP header marked; they pass unchanged. Packets of
/// another origin leave by output 1, or are dropped if that is not connected.
///
/// A number of a flow that does not come is lost, one that comes after a higher one is reordered
/// (RFC 4737), and one that comes again is a duplicate. Numbers are told apart as long as they are
/// among the last WINDOW of their flow; older ones are `stale`. The sink counts a flow's losses from the
/// flow's first packet if one of the first WINDOW packets arrives, else from the first that
/// arrives. It does not know of packets behind the last that arrived.
///
/// Delays are in nanoseconds, from the source's clock to the sink's at the packet's batch: clocks of
/// different machines must be in step. If the sink's clock is behind, the delay counts as 0, and
/// as `early`. A histogram of constant size keeps delays up to 137 s, to within 1/64.
///
/// All memory is allocated when the router is initialized: 18 kB, and for each flow 8 bytes and a
/// bit for each number of its window. Of flows beyond FLOWS, only rate and delay are measured
/// (`untracked`).
///
/// # Example
/// ```click
/// TrafficSource(FLOWS 10, COUNT 1000, STOP true) -> Unqueue -> s :: TrafficSink -> Discard;
/// DriverManager(pause, print "$(s.count) $(s.lost) $(s.delay_p99)");
/// ```
///
/// # See also
/// TrafficSource, CheckNumberPacket, TimestampDiff
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h", handlers)]
#[outputs("TrafficSource's packets", "the others")]
pub struct TrafficSink {
    /// Most flows that are tracked, 1048576 at most.
    #[arg(positional, default = 4096, read)]
    flows: u32,
    /// Numbers of a flow that are told apart: a multiple of 64, 65536 at most.
    #[arg(default = 1024, read)]
    window: u32,
    /// Packets.
    #[handler(read)]
    count: u64,
    /// Their bytes.
    #[handler(read, name = "byte_count")]
    bytes: u64,
    /// Packets that are missing.
    #[handler(read)]
    lost: u64,
    /// Packets that came after a later one of their flow.
    #[handler(read)]
    reordered: u64,
    /// Packets that came before.
    #[handler(read)]
    duplicates: u64,
    /// Packets that are older than their flow's window.
    #[handler(read)]
    stale: u64,
    /// Packets of flows beyond FLOWS.
    #[handler(read)]
    untracked: u64,
    /// Packets that seem to have come before they were sent.
    #[handler(read)]
    early: u64,
    /// Packets of another origin.
    #[handler(read)]
    others: u64,
    #[flatten]
    traffic: Traffic,
    sequences: Sequences,
    delays: Histogram,
}

impl TrafficSink {
    #[inline]
    fn measure(&mut self, stamp: &Stamp, now: i64) {
        let delay = u64::try_from(now.saturating_sub(stamp.time));
        self.early += u64::from(delay.is_err());
        self.delays.record(delay.unwrap_or(0));
        let Stamp {
            flow,
            run,
            sequence,
            ..
        } = *stamp;
        match self.sequences.arrive(flow, run, sequence) {
            Some(Arrival::Next(missing)) => self.lost += u64::from(missing),
            Some(Arrival::Late) => {
                self.lost = self.lost.saturating_sub(1);
                self.reordered += 1;
            }
            Some(Arrival::Duplicate) => self.duplicates += 1,
            Some(Arrival::Stale) => self.stale += 1,
            None => self.untracked += 1,
        }
    }
}

/// A percentage with up to 4 digits after the point, in millionths.
fn percentage(text: &str) -> Result<u32, String> {
    let percent: Option<f64> = text.trim().parse().ok();
    match percent.filter(|percent| (0.0..=100.0).contains(percent)) {
        Some(percent) => Ok((percent * 10_000.0 + 0.5) as u32),
        None => Err(format!(
            "expected a percentile from 0 to 100, as in 99.9, not ‘{text}’"
        )),
    }
}

#[handlers]
impl TrafficSink {
    /// Flows that were seen.
    #[read(name = "flow_count", expensive)]
    fn seen_flows(&self) -> usize {
        self.sequences.count()
    }

    /// The share of packets that are missing, of those sent so far as the sink knows: 0 to 1.
    #[read]
    fn loss(&self) -> String {
        let distinct = self.count - self.duplicates.min(self.count);
        let sent = (distinct + self.lost).max(1);
        unparse::real(self.lost as f64 / sent as f64)
    }

    /// The least delay.
    #[read]
    fn delay_min(&self) -> u64 {
        self.delays.least()
    }

    /// The mean delay.
    #[read]
    fn delay_mean(&self) -> u64 {
        self.delays.mean()
    }

    /// The median of delays.
    #[read]
    fn delay_p50(&self) -> u64 {
        self.delays.quantile(500_000)
    }

    /// The 90th percentile of delays.
    #[read]
    fn delay_p90(&self) -> u64 {
        self.delays.quantile(900_000)
    }

    /// The 99th percentile of delays.
    #[read]
    fn delay_p99(&self) -> u64 {
        self.delays.quantile(990_000)
    }

    /// The 99.9th percentile of delays.
    #[read]
    fn delay_p999(&self) -> u64 {
        self.delays.quantile(999_000)
    }

    /// The largest delay.
    #[read]
    fn delay_max(&self) -> u64 {
        self.delays.most()
    }

    /// The percentile of delays that the parameter says, from 0 to 100.
    #[read]
    fn delay_percentile(&self, percent: &str) -> Result<u64, String> {
        Ok(self.delays.quantile(percentage(percent)?))
    }

    /// The histogram of delays: a line for each bucket that is not empty, with its least and largest
    /// delay and the number of packets.
    #[read(expensive)]
    fn histogram(&self) -> String {
        self.delays.lines()
    }

    /// Sets all counts to 0, and forgets all delays. Losses are counted from here.
    #[write(button)]
    fn reset(&mut self) {
        for count in [
            &mut self.count,
            &mut self.bytes,
            &mut self.lost,
            &mut self.reordered,
            &mut self.duplicates,
            &mut self.stale,
            &mut self.untracked,
            &mut self.early,
            &mut self.others,
        ] {
            *count = 0;
        }
        self.delays.clear();
    }
}

impl Element for TrafficSink {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            return Err(args.fail(format_args!("FLOWS must be from 1 to {FLOWS_MAX}")));
        }
        if !self.window.is_multiple_of(64) || !(64..=WINDOW_MAX).contains(&self.window) {
            return Err(args.fail(format_args!(
                "WINDOW must be a multiple of 64, up to {WINDOW_MAX}"
            )));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let (flows, window) = (self.flows as usize, self.window as usize);
        if !self.sequences.reserve(flows, window) || !self.delays.reserve() {
            return Err(cx.error(format_args!(
                "out of memory for {flows} flows with windows of {window} numbers"
            )));
        }
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects::of_observer()
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let now = cx.wall();
        let (mut packets, mut bytes, mut others) = (0u64, 0u64, 0u64);
        for (at, packet) in batch.iter().enumerate() {
            match Stamp::of(packet) {
                Some(stamp) => {
                    self.measure(&stamp, now);
                    packets += 1;
                    bytes += packet.len() as u64;
                }
                None => others |= 1 << at,
            }
        }
        self.count += packets;
        self.bytes += bytes;
        self.traffic.update(cx.steady(), packets, bytes);
        if others == 0 {
            return 0;
        }
        self.others += u64::from(others.count_ones());
        let own = packet::first(batch.len()) & !others;
        cx.dispatch(batch, &[(0, own), (1, others)])
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn loss_of_a_known_amount_is_counted() {
        let config = "TrafficSource(FLOWS 3, COUNT 900, STOP true) -> Unqueue
            -> p :: RoundRobinSwitch; p[0] -> Discard; p[1], p[2], p[3] -> s :: TrafficSink -> Discard;";
        let mut rig = Rig::new(config);
        rig.run();
        // The first packet of each four is lost; the last of all is not.
        rig.assert_handlers(&[
            ("s.count", "675"),
            ("s.lost", "225"),
            ("s.loss", "0.25"),
            ("s.reordered", "0"),
            ("s.duplicates", "0"),
            ("s.flow_count", "3"),
        ]);
        rig.write("s.reset", "");
        rig.assert_handlers(&[("s.count", "0"), ("s.lost", "0"), ("s.delay_max", "0")]);
    }

    #[test]
    fn duplicates_are_counted() {
        let config = "TrafficSource(FLOWS 7, COUNT 500, STOP true) -> Unqueue
            -> t :: Tee(3) -> s :: TrafficSink -> Discard; t[1], t[2] -> s;";
        let mut rig = Rig::new(config);
        rig.run();
        rig.assert_handlers(&[
            ("s.count", "1500"),
            ("s.duplicates", "1000"),
            ("s.lost", "0"),
            ("s.reordered", "0"),
        ]);
    }

    #[test]
    fn reordering_and_delay_are_measured() {
        // Each second packet of the only flow takes 5 ms more than the one after it.
        let config = "TrafficSource(RATE 1000, COUNT 1000) -> Unqueue -> p :: RoundRobinSwitch;
            p[0] -> SetTimestamp -> Queue(2000) -> DelayUnqueue(5ms) -> s :: TrafficSink -> Discard; p[1] -> s;";
        let mut rig = Rig::new(config);
        rig.advance(2 * SECOND);
        rig.assert_handlers(&[
            ("s.count", "1000"),
            ("s.reordered", "500"),
            ("s.lost", "0"),
            ("s.duplicates", "0"),
            ("s.stale", "0"),
            ("s.delay_min", "0"),
            ("s.delay_p50", "0"),
        ]);
        let p99: u64 = rig.read("s.delay_p99").parse().unwrap();
        assert!((5_000_000..6_100_000).contains(&p99), "{p99}");
        assert!(
            rig.router
                .read(rig.router.find("s"), "delay_percentile", "101")
                .is_err()
        );
        let lines = rig.read("s.histogram");
        let total = lines
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(total.sum::<u64>(), 1000);
    }

    #[test]
    fn a_window_has_an_end_and_flows_a_limit() {
        let config =
            "TrafficSource(FLOWS 2, COUNT 400) -> Unqueue -> s :: TrafficSink(FLOWS 1, WINDOW 64)
            -> c :: Collect; i :: Inject -> s; s[1] -> d :: Collect;";
        let mut rig = Rig::new(config);
        rig.run();
        rig.assert_handlers(&[("s.count", "400"), ("s.untracked", "200"), ("s.lost", "0")]);
        let packets = rig.data("c");
        rig.push_all(
            "i",
            &[packets[398].clone(), packets[2].clone(), vec![0; 60]],
        );
        rig.assert_handlers(&[("s.duplicates", "1"), ("s.stale", "1"), ("s.others", "1")]);
        assert_eq!(rig.data("d"), [vec![0; 60]]);
        Rig::refuses(
            "Idle -> TrafficSink(FLOWS 0) -> Discard;",
            "FLOWS must be from 1",
        );
        Rig::refuses(
            "Idle -> TrafficSink(WINDOW 65) -> Discard;",
            "a multiple of 64",
        );
    }
}
