use super::limit::Limit;
use super::source::SourceData;
use crate::prelude::*;
use crate::rates::token_bucket::TokenBucket;

/// Makes packets of the same data at a rate.
///
/// A token bucket keeps the rate. It holds the packets of 10 ms, two at least: so many are made at
/// once when it starts, and can be caught up after a delay. With BANDWIDTH it holds two packets for
/// each byte of LENGTH at least.
///
/// # Example
/// ```click
/// RatedSource(DATA \<0800>, RATE 1000, LIMIT 100, STOP true) -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, TimedSource, RatedUnqueue
#[derive(Element)]
#[element(ports = "0/1", processing = "a", handlers, task(when = list.pushes))]
pub struct RatedSource {
    #[flatten]
    payload: SourceData,
    /// Packets a second.
    #[arg(positional, default = 10, read, write, error = "syntax error", then = set_rate)]
    rate: u32,
    /// Packets after which it stops; no limit if negative.
    #[arg(positional, default_text = "-1", read = Limit::or_none, write, calm,
        error = "syntax error", then = wake)]
    limit: Limit,
    /// Whether it makes packets.
    #[arg(positional, default = true, read, checkbox)]
    active: bool,
    /// The same as LENGTH.
    #[arg]
    datasize: Option<i32>,
    /// Stop the driver after LIMIT packets.
    #[arg]
    stop: bool,
    /// Sets RATE so that packets of the first length make it.
    #[arg]
    bandwidth: Option<Bandwidth>,
    /// Packets made.
    #[handler(read)]
    count: u64,
    template: Vec<u8>,
    bucket: TokenBucket,
    task: Option<TaskId>,
    timer: Option<TimerId>,
}

/// Packets that a source of `rate` may be behind.
fn burst(rate: u32) -> u64 {
    (rate / 100).max(2).into()
}

impl RatedSource {
    /// Packets that the limit still allows.
    fn allowed(&self) -> u64 {
        self.limit.left(self.count)
    }

    /// Adds the packets that are due, `most` at most; returns whether the limit allows more.
    fn fill(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> bool {
        let allowed = self.allowed();
        if allowed == 0 {
            if self.stop {
                cx.stop();
            }
            return false;
        }
        self.bucket.fill(cx.steady());
        let due = self.bucket.tokens().min(allowed).min(most as u64);
        if due > 0 {
            let now = cx.wall();
            for _ in 0..due {
                let Some(mut packet) = cx.pool().copy(&self.template) else {
                    break;
                };
                packet.set_timestamp(now);
                if batch.push(packet).is_err() {
                    break;
                }
            }
            self.bucket.take(batch.len() as u64);
            self.count += batch.len() as u64;
        }
        true
    }

    fn set_rate(&mut self, cx: &mut Cx<'_>) {
        self.bucket.reassign(self.rate.into(), burst(self.rate));
        self.wake(cx);
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        if let (Some(task), true) = (self.task, self.active) {
            cx.schedule(task);
        }
    }
}

#[handlers]
impl RatedSource {
    /// The argument DATA.
    #[write(raw)]
    fn write_data(&mut self, cx: &mut Cx<'_>, value: &str) {
        self.payload.data = click::text::encode(value).into_owned();
        self.template = self.payload.bytes();
        self.wake(cx);
    }

    /// The argument LENGTH.
    #[write(alias = "datasize", error = "syntax error")]
    fn write_length(&mut self, cx: &mut Cx<'_>, length: i32) -> Result<(), &'static str> {
        self.payload.set_length(length)?;
        self.template = self.payload.bytes();
        self.wake(cx);
        Ok(())
    }

    /// The argument LENGTH.
    #[read(deprecated)]
    fn read_datasize(&self) -> i32 {
        self.payload.length
    }

    /// The argument ACTIVE.
    #[write(error = "syntax error")]
    fn write_active(&mut self, cx: &mut Cx<'_>, active: bool) {
        if active && !self.active {
            self.bucket.set(1);
        }
        self.active = active;
        self.wake(cx);
    }

    /// Sets `count` to 0.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.count = 0;
        self.bucket.set(1);
        self.wake(cx);
    }
}

impl Element for RatedSource {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if let Some(length) = self.datasize {
            self.payload.length = length;
        }
        self.payload.check(args)?;
        self.template = self.payload.bytes();
        if let Some(Bandwidth(bandwidth @ 1..)) = self.bandwidth {
            let length = self.template.len().max(1) as u64;
            self.rate = u32::try_from(bandwidth / length).unwrap_or(u32::MAX);
        }
        let mut capacity = burst(self.rate);
        if matches!(self.bandwidth, Some(Bandwidth(1..))) {
            capacity = capacity.max(2 * u64::try_from(self.payload.length).unwrap_or(0));
        }
        self.bucket.assign(self.rate.into(), capacity);
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.output_is_push(0) {
            let task = cx.task();
            cx.schedule(task);
            (self.task, self.timer) = (Some(task), Some(cx.timer()));
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let mut batch = cx.batch();
        let limit = cx.limit();
        if !self.active || !self.fill(cx, &mut batch, limit) {
            cx.done(batch);
            return Ran::Nothing;
        }
        let worked = !batch.is_empty();
        cx.push(0, batch);
        if worked {
            cx.schedule(task);
        } else if let (Some(timer), Some(at)) = (self.timer, self.bucket.ready(1)) {
            cx.schedule_at(timer, at);
        }
        Ran::worked(worked)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.wake(cx);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        if self.active {
            self.fill(cx, batch, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn no_packet_is_longer_than_an_ip_packet_can_be() {
        let mut rig = Rig::new("s :: RatedSource(LENGTH 65535) -> Discard;");
        let refused = rig.try_write("s.length", "2147483647");
        assert_eq!(refused, Err("length must be at most 65535".into()));
        assert_eq!(rig.read("s.length"), "65535");
        Rig::refuses(
            "RatedSource(DATASIZE 65536) -> Discard;",
            "length must be at most 65535",
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn the_rate_is_held(rate in 1u64..5_000, batch in prop::sample::select(&[1, 64][..])) {
            let config = format!("s :: RatedSource(RATE {rate}) -> Discard;");
            let mut rig = Rig::with_batch(&config, batch);
            rig.advance(3 * SECOND);
            let count: u64 = rig.read("s.count").parse().unwrap();
            prop_assert!(count.abs_diff(3 * rate) <= 2 + 3 * rate / 100, "{count}");
        }
    }

    #[test]
    fn it_sleeps_between_packets() {
        let mut rig = Rig::new("s :: RatedSource(RATE 10) -> c :: Collect;");
        rig.run();
        assert_eq!(rig.read("s.scheduled"), "false");
        assert_eq!(rig.collected("c").len(), 2);
        rig.advance(SECOND / 2);
        let times: alloc::vec::Vec<_> = rig.collected("c").iter().map(|p| p.timestamp()).collect();
        assert_eq!(times.len(), 4, "{times:?}");
    }

    #[test]
    fn it_starts_with_a_burst() {
        for (arguments, burst) in [
            ("RATE 1", 2),
            ("RATE 199", 2),
            ("RATE 1000", 10),
            ("RATE 1000, LIMIT 4", 4),
            ("LENGTH 125, BANDWIDTH 1Mbps", 250),
        ] {
            for batch in [1, 64] {
                let config = format!("s :: RatedSource({arguments}) -> Discard;");
                let mut rig = Rig::with_batch(&config, batch);
                rig.run();
                assert_eq!(rig.read("s.count"), burst.to_string(), "{arguments}");
            }
        }
    }

    #[test]
    fn it_stops_at_the_limit() {
        let config = "s :: RatedSource(DATA ab, RATE 1000, LIMIT 5, STOP true) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(SECOND);
        assert_eq!(rig.data("c"), [b"ab"; 5]);
        assert_eq!(rig.router.run_count(), 0);
    }

    #[test]
    fn a_bandwidth_sets_the_rate() {
        let mut rig = Rig::new("s :: RatedSource(LENGTH 125, BANDWIDTH 1Mbps) -> Discard;");
        assert_eq!(rig.read("s.rate"), "1000");
        rig.write("s.rate", "50");
        rig.write("s.active", "false");
        rig.write("s.reset", "");
        rig.advance(SECOND);
        assert_eq!(rig.read("s.count"), "0");
        rig.write("s.active", "true");
        rig.advance(SECOND);
        let count: u32 = rig.read("s.count").parse().unwrap();
        assert!((49..=51).contains(&count), "{count}");
    }

    #[test]
    fn it_can_be_pulled_from() {
        let mut rig = Rig::new("s :: RatedSource(RATE 100) -> p :: Puller;");
        assert_eq!(rig.pull("p", 9).len(), 2);
        assert!(rig.pull("p", 9).is_empty());
        rig.advance(SECOND);
        assert_eq!(rig.pull("p", 9).len(), 2);
    }
}
