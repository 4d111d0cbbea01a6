use super::control_law::{INTERVAL, INTERVAL_MAX, Law, TARGET};
use super::managed::{Managed, Unmarked};
use crate::prelude::*;

/// Drops packets so that the delay in the queue before it falls to a target.
///
/// Controlled delay (RFC 8289): the first-timestamp annotation is the time at which a packet
/// entered the queue. When the delay has been above TARGET for an INTERVAL, a packet is dropped,
/// and further packets at decreasing intervals until the delay is below TARGET. Packets without the
/// annotation pass. Bursts pass: the algorithm uses the least delay within an interval.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 1000, STOP true)
///     -> SetTimestamp(FIRST true) -> Queue(200) -> CoDel(5ms, 100ms)
///     -> RatedUnqueue(900) -> Discard;
/// ```
///
/// # See also
/// RED, PI, Queue, SetTimestamp
#[derive(Element)]
#[element(ports = "1/1", processing = "l", segments, live, handlers, take_over)]
pub struct CoDel {
    /// The target delay.
    #[arg(positional, default = TARGET, default_text = "5ms", read, write, config, then = apply,
        handler = "codel_target", also = "target")]
    target: Timestamp,
    /// How long the delay may be above it; about the longest round-trip time of the connections.
    #[arg(positional, default = INTERVAL, default_text = "100ms", read, write, config,
        then = apply, handler = "codel_interval", also = "interval")]
    interval: Timestamp,
    /// The queues to observe, instead of the nearest.
    #[arg(name = "QUEUES", with = args::Any, kind = "element names")]
    names: String,
    /// Packets dropped.
    #[handler(read)]
    drops: u64,
    #[flatten]
    queues: Managed,
    law: Law,
    unmarked: Unmarked,
}

#[handlers]
impl CoDel {
    /// Length and packets dropped, in words.
    #[read]
    fn stats(&self, cx: &mut Cx<'_>) -> String {
        let length = self.queues.length(cx);
        format!("{length} current queue\n{} drops\n", self.drops)
    }

    /// The arguments as they are now.
    #[read(calm)]
    fn config(&self, cx: &mut Cx<'_>) -> String {
        let queues = self.queues.argument(cx);
        format!("{}s, {}s, {queues}", self.target, self.interval)
    }
}

impl CoDel {
    #[inline]
    fn decide(&mut self, now: i64, packet: &Packet, left: usize) -> bool {
        let came = packet.anno_u64(anno::FIRST_TIMESTAMP) as i64;
        if came == 0 {
            self.law.rest();
            return false;
        }
        self.law.drops(now, now.saturating_sub(came), left)
    }

    /// Takes the times that were configured or written.
    fn apply(&mut self, _cx: &mut Cx<'_>) -> Result<(), &'static str> {
        if !(1..=INTERVAL_MAX).contains(&self.interval.0) {
            return Err("INTERVAL must be above 0 and at most a day");
        }
        if self.target.0 > INTERVAL_MAX {
            return Err("TARGET must be at most a day");
        }
        (self.law.target, self.law.interval) = (self.target.0, self.interval.0);
        Ok(())
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        self.law = old.law;
        (self.law.target, self.law.interval) = (self.target.0, self.interval.0);
    }
}

impl Element for CoDel {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.queues.configured(args, &self.names)?;
        self.apply(cx).map_err(|error| args.fail(error))
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.queues.initialize(cx)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, most: usize) {
        self.unmarked.pull(cx, most);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let found = batch.len();
        if found == 0 {
            self.law.rest();
        } else {
            let now = cx.wall();
            // Those behind a packet were still in the queue when it left.
            let left = self.queues.length(cx) + found;
            batch.filter(
                &mut (&mut *self, &mut *cx, left),
                |(codel, _, left), packet| {
                    *left = left.saturating_sub(1);
                    codel.decide(now, packet, *left).then_some(())
                },
                |(codel, cx, _), packet, ()| {
                    codel.drops += packet.stands_for() as u64;
                    cx.kill(packet);
                },
            );
        }
        self.unmarked.pulled(cx, batch, found);
    }
}

#[cfg(test)]
mod tests {
    use core::any::Any;

    use super::*;
    use crate::testing::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Pushes a packet that comes `now`, in nanoseconds of the simulated clock.
    fn push(rig: &mut Rig, now: u64) {
        let now = START as u64 + now;
        rig.push_with("i", &[0], |p| p.set_anno_u64(anno::FIRST_TIMESTAMP, now));
    }

    /// What senders do.
    #[derive(Clone, Copy)]
    enum Senders {
        /// So many packets a millisecond, come what may.
        Steady(f64),
        /// Twenty TCP connections with a round-trip time of 50 ms: their rate grows by a packet
        /// each within that time, and halves for one of them with each drop.
        Tcp,
    }

    /// A queue that 10 packets leave every millisecond: the delays of the packets that left in the
    /// second half of the time, in order of size and in milliseconds, and the drops.
    fn delays(codel: &str, senders: Senders, milliseconds: u64) -> (Vec<u64>, u64) {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> q :: Queue(10000) -> c :: {codel} -> o :: Puller;"
        ));
        let mut rate = match senders {
            Senders::Steady(rate) => rate,
            Senders::Tcp => 10.0,
        };
        let (mut delays, mut credit, mut drops) = (Vec::new(), 0.0, 0);
        let mut now = 0;
        for tick in 0..milliseconds {
            credit += rate;
            while credit >= 1.0 {
                credit -= 1.0;
                push(&mut rig, now);
            }
            for packet in rig.pull("o", 10) {
                let came = packet.anno_u64(anno::FIRST_TIMESTAMP) - START as u64;
                if tick >= milliseconds / 2 {
                    delays.push((now - came) / MILLISECOND);
                }
            }
            let dropped = rig.read("c.drops").parse::<u64>().unwrap();
            if let Senders::Tcp = senders {
                rate += 20.0 / 50.0 / 50.0;
                rate *= 0.975f64.powi((dropped - drops) as i32);
            }
            drops = dropped;
            rig.pause(MILLISECOND);
            now += MILLISECOND;
        }
        assert_eq!(
            rig.outstanding() as u64,
            rig.read("q.length").parse::<u64>().unwrap()
        );
        delays.sort_unstable();
        (delays, drops)
    }

    fn median(delays: &[u64]) -> u64 {
        delays[delays.len() / 2]
    }

    #[test]
    fn the_delay_is_held_near_the_target_under_overload() {
        let (delays, drops) = delays("CoDel", Senders::Tcp, 40_000);
        let (median, high) = (median(&delays), delays[delays.len() * 95 / 100]);
        // Without drops the queue would stay full: 1000 ms.
        assert!((1..=20).contains(&median), "{median}");
        assert!(high <= 60, "{high}");
        assert!(drops > 300, "{drops}");
    }

    #[test]
    fn sources_that_do_not_slow_down_are_held_too() {
        // One in a hundred cannot leave: the delay would be 200 ms after 20 s.
        let (delays, drops) = delays("CoDel", Senders::Steady(10.1), 20_000);
        let median = median(&delays);
        assert!((1..=25).contains(&median), "{median}");
        assert!((1_700..2_100).contains(&drops), "{drops}");
    }

    #[test]
    fn target_and_interval_are_settings() {
        // Drops within a second in which packets come every millisecond, 40 ms old.
        let drops = |args: &str| {
            let mut rig = Rig::new(&format!("Idle -> Queue -> c :: CoDel({args}) -> Puller;"));
            let id = rig.router.find("c").unwrap();
            let work = |element: &mut dyn DynElement, _: &mut Cx<'_>| {
                let element: &mut dyn Any = element;
                let law = &mut element.downcast_mut::<CoDel>().unwrap().law;
                let times = (0..1_000).map(|now| now * MILLISECOND as i64);
                times.filter(|now| law.drops(*now, 40_000_000, 9)).count()
            };
            rig.router.with(id, work).unwrap()
        };
        assert_eq!(drops("50ms"), 0);
        let (slow, fast) = (drops("39ms, 300ms"), drops("TARGET 2ms, INTERVAL 20ms"));
        assert!((3..10).contains(&slow), "{slow}");
        assert!(fast > 100, "{fast}");
    }

    #[test]
    fn nothing_is_dropped_below_the_target_or_in_a_burst() {
        let (delays, drops) = delays("CoDel", Senders::Steady(10.0), 3_000);
        assert!(delays.iter().all(|delay| *delay == 0));
        assert_eq!(drops, 0);
        // A burst that takes 80 ms to drain is shorter than the interval.
        let mut rig = Rig::new("i :: Inject -> Queue -> c :: CoDel -> o :: Puller;");
        rig.pause(MILLISECOND);
        for _ in 0..80 {
            push(&mut rig, MILLISECOND);
        }
        for _ in 0..80 {
            assert_eq!(rig.pull("o", 1).len(), 1);
            rig.pause(MILLISECOND);
        }
        assert_eq!(rig.read("c.drops"), "0");
    }

    #[test]
    fn packets_without_the_annotation_pass() {
        let mut rig = Rig::new("i :: Inject -> Queue -> c :: CoDel -> o :: Puller;");
        for _ in 0..100 {
            rig.push("i", &[0]);
        }
        for _ in 0..100 {
            rig.pause(50 * MILLISECOND);
            assert_eq!(rig.pull("o", 1).len(), 1);
        }
        assert_eq!(rig.read("c.drops"), "0");
    }

    #[test]
    fn handlers_show_and_change_the_arguments() {
        let mut rig = Rig::new("Idle -> q :: Queue -> c :: CoDel -> Puller;");
        assert_eq!(rig.read("c.config"), "0.005000s, 0.100000s, QUEUES q");
        rig.write("c.codel_target", "7ms");
        rig.write("c.interval", "1s");
        assert_eq!(rig.read("c.target"), "0.007000");
        assert_eq!(rig.read("c.codel_interval"), "1.000000");
        assert!(rig.try_write("c.interval", "0").is_err());
        assert_eq!(rig.read("c.stats"), "0 current queue\n0 drops\n");
        Rig::refuses(
            "Idle -> Queue -> CoDel(1ms, 0) -> Puller;",
            "INTERVAL must be above 0",
        );
        Rig::refuses("Idle -> CoDel -> Puller;", "no nearby Queues");
    }
}
