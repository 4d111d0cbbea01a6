use alloc::string::{String, ToString};
use alloc::vec::Vec;

use packet::Batch;
use router::args::{Args, Bandwidth, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Ran, TaskId, TimerId};

use super::infinite_source::{DATA, checked_length, packet_data};
use super::limit::Limit;
use crate::token_bucket::TokenBucket;

/// Makes packets of the same data at a rate.
///
/// The rate is kept by a token bucket that holds a hundredth of a second's packets, two at least:
/// that much is caught up on after a delay.
///
/// # Arguments
/// - `DATA` (bytes): what each packet holds; 64 bytes or more if not given.
/// - `RATE` (integer, 10): packets a second.
/// - `LIMIT` (integer, -1): packets after which it stops; no limit if negative.
/// - `ACTIVE` (boolean, true): whether it makes packets.
/// - `LENGTH` (integer): length of each packet, in bytes, 65535 at most; DATA is cut or repeated to
///   fit.
/// - `BANDWIDTH` (bandwidth): sets RATE so that packets of the first length make it.
/// - `STOP` (boolean, false): stop the driver after LIMIT packets.
///
/// # Ports
/// No input; one output, agnostic.
///
/// # Handlers
/// - `count` (read): packets made.
/// - `reset` (write): sets `count` to 0.
/// - `data`, `rate`, `limit`, `active`, `length` (read, write): the arguments.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a push output.
///
/// # Example
/// ```click
/// RatedSource(DATA \<0800>, RATE 1000, LIMIT 100, STOP true) -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, TimedSource, RatedUnqueue
#[derive(Default)]
pub struct RatedSource {
    data: Vec<u8>,
    length: i32,
    template: Vec<u8>,
    bucket: TokenBucket,
    limit: Limit,
    count: u64,
    active: bool,
    stop: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
}

impl Class for RatedSource {
    const NAME: &'static str = "RatedSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "a";
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

    fn wake(&self, cx: &mut Cx<'_>) {
        if let (Some(task), true) = (self.task, self.active) {
            cx.schedule(task);
        }
    }
}

impl Declared for RatedSource {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.data, self.length, self.limit) = (DATA.to_vec(), -1, Limit::NONE);
        (self.active, self.stop) = (true, false);
        let (mut rate, mut bandwidth, mut datasize) = (10, Bandwidth(0), None);
        args.positional("DATA", &mut self.data)
            .positional("RATE", &mut rate)
            .positional("LIMIT", &mut self.limit)
            .positional("ACTIVE", &mut self.active)
            .keyword("LENGTH", &mut self.length)
            .keyword("DATASIZE", &mut datasize)
            .keyword("STOP", &mut self.stop)
            .keyword("BANDWIDTH", &mut bandwidth)
            .complete()?;
        let length = checked_length(datasize.unwrap_or(self.length));
        self.length = length.map_err(|e| args.fail(e))?;
        self.template = packet_data(&self.data, self.length);
        if bandwidth.0 > 0 {
            let length = self.template.len().max(1) as u64;
            rate = u32::try_from(bandwidth.0 / length).unwrap_or(u32::MAX);
        }
        self.bucket.assign(rate.into(), burst(rate));
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("data").read_write("rate").read_write("limit");
        list.checkbox("active").read("count").button("reset");
        list.read_write("length");
        list.read_write("datasize")
            .add("datasize", HandlerFlags::DEPRECATED);
        if self.task.is_some() {
            list.task(false);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "data" => Ok(String::from_utf8_lossy(&self.data).into_owned()),
            "rate" => Ok(self.bucket.rate().to_string()),
            "limit" => Ok(self.limit.to_string()),
            "active" => Ok(self.active.to_string()),
            "count" => Ok(self.count.to_string()),
            "length" | "datasize" => Ok(self.length.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let names = cx.names();
        let syntax = "syntax error";
        match name {
            "data" => self.data = value.as_bytes().to_vec(),
            "rate" => {
                let rate = names.parse(value).map_err(|_| syntax)?;
                self.bucket.reassign(u64::from(rate), burst(rate));
            }
            "limit" => self.limit = names.parse(value).map_err(|_| syntax)?,
            "active" => {
                let active = names.parse(value).map_err(|_| syntax)?;
                if active && !self.active {
                    self.bucket.set(1);
                }
                self.active = active;
            }
            "reset" => {
                self.count = 0;
                self.bucket.set(1);
            }
            "length" | "datasize" => {
                self.length = checked_length(names.parse(value).map_err(|_| syntax)?)?;
            }
            _ => return Err(HandlerError::Unknown),
        }
        self.template = packet_data(&self.data, self.length);
        self.wake(cx);
        Ok(())
    }
}

impl Element for RatedSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.output_is_push(0) {
            let task = cx.task();
            cx.schedule(task);
            (self.task, self.timer) = (Some(task), Some(cx.timer()));
        }
        self.bucket.set(1);
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
    use alloc::format;

    use proptest::prelude::*;

    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn no_packet_is_longer_than_an_ip_packet_can_be() {
        let mut rig = Rig::new("s :: RatedSource(LENGTH 65535) -> Discard;");
        let refused = rig.try_write("s.length", "2147483647");
        assert_eq!(refused, Err("length must be at most 65535".into()));
        assert_eq!(rig.read("s.length"), "65535");
        let errors = Rig::errors("RatedSource(DATASIZE 65536) -> Discard;");
        assert!(errors.contains("length must be at most 65535"), "{errors}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn the_rate_is_held(rate in 1u64..5_000, batch in prop::sample::select(&[1, 64][..])) {
            let config = format!("s :: RatedSource(RATE {rate}) -> Discard;");
            let mut rig = Rig::with_batch(&config, batch);
            rig.advance(3 * SECOND);
            let count: u64 = rig.read("s.count").parse().unwrap();
            prop_assert!(count.abs_diff(3 * rate) <= 1 + 3 * rate / 100, "{count}");
        }
    }

    #[test]
    fn it_sleeps_between_packets() {
        let mut rig = Rig::new("s :: RatedSource(RATE 10) -> c :: Collect;");
        rig.run();
        assert_eq!(rig.read("s.scheduled"), "false");
        assert_eq!(rig.collected("c").len(), 1);
        rig.advance(SECOND / 2);
        let times: alloc::vec::Vec<_> = rig.collected("c").iter().map(|p| p.timestamp()).collect();
        assert_eq!(times.len(), 4, "{times:?}");
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
        assert_eq!(rig.pull("p", 9).len(), 1);
        assert!(rig.pull("p", 9).is_empty());
        rig.advance(SECOND);
        assert_eq!(rig.pull("p", 9).len(), 2);
    }
}
