use alloc::format;
use alloc::string::{String, ToString};

use packet::Batch;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Ran, Signal, TaskId, TimerId};

use super::bucket::Bucket;
use crate::values;

/// What RatedUnqueue and BandwidthRatedUnqueue share. Tokens are packets, or bytes if `BYTES`.
#[derive(Default)]
struct Rated<const BYTES: bool> {
    bucket: Bucket<BYTES>,
    active: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    signal: Signal,
    runs: u64,
    pushes: u64,
    failed_pulls: u64,
    empty_runs: u64,
}

impl<const BYTES: bool> Rated<BYTES> {
    fn initialize(&mut self, cx: &mut Cx<'_>) {
        let task = cx.task();
        cx.schedule(task);
        self.signal = cx.upstream_signal(0, Some(task));
        (self.task, self.timer) = (Some(task), Some(cx.timer()));
        (self.active, self.bucket.started) = (true, true);
    }

    /// Pulls what the bucket allows; returns whether it allowed anything.
    fn pull(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> bool {
        let mut any = false;
        while batch.len() < cx.limit() && self.bucket.allows() {
            any = true;
            let most = self.bucket.packets().min((cx.limit() - batch.len()) as u64) as usize;
            if !self.pull_some(cx, batch, most) {
                break;
            }
        }
        any
    }

    /// Pulls at most `most` packets; returns whether there were so many.
    fn pull_some(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> bool {
        let mut pulled = cx.batch();
        cx.pull(0, &mut pulled, most);
        for packet in pulled.iter() {
            self.bucket.take(packet);
        }
        let all = batch.append(&mut pulled, most) == most;
        cx.done(pulled);
        all
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        self.runs += 1;
        if !self.active {
            return Ran::Nothing;
        }
        self.bucket.fill(cx.steady());
        let mut batch = cx.batch();
        let allowed = self.pull(cx, &mut batch);
        let pulled = batch.len();
        cx.push(0, batch);
        if !allowed {
            self.empty_runs += 1;
            if let (Some(timer), Some(at)) = (self.timer, self.bucket.ready()) {
                cx.schedule_at(timer, at);
            }
            return Ran::Nothing;
        }
        self.pushes += pulled as u64;
        if pulled == 0 {
            self.failed_pulls += 1;
            if !cx.is_active(&self.signal) {
                return Ran::Nothing;
            }
            self.empty_runs += 1;
        }
        cx.schedule(task);
        Ran::worked(pulled > 0)
    }

    fn wake(&self, cx: &mut Cx<'_>) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("calls").read_write("rate").checkbox("active");
        list.task(true).add("config", HandlerFlags::CALM);
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "rate" => Ok(self.bucket.rate()),
            "active" => Ok(self.active.to_string()),
            "calls" => Ok(format!(
                "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n",
                self.runs, self.empty_runs, self.pushes, self.failed_pulls
            )),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "rate" => self.bucket.write_rate(cx, value)?,
            "active" => self.active = values::boolean(cx, value)?,
            _ => return Err(HandlerError::Unknown),
        }
        self.wake(cx);
        Ok(())
    }
}

macro_rules! rated {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name(Rated<$bytes>);

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/1";
            const PROCESSING: &'static str = "l/h";
        }

        impl Declared for $name {
            fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.0.bucket.configure(args)
            }

            fn can_live_reconfigure(&self) -> bool {
                true
            }

            fn handlers(&self, list: &mut HandlerList) {
                self.0.handlers(list);
            }

            fn read(
                &mut self,
                _cx: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                self.0.read(name)
            }

            fn write(
                &mut self,
                cx: &mut Cx<'_>,
                name: &str,
                value: &str,
            ) -> Result<(), HandlerError> {
                self.0.write(cx, name, value)
            }
        }

        impl Element for $name {
            fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
                self.0.initialize(cx);
                Ok(())
            }

            fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
                self.0.run_task(cx, task)
            }

            fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
                self.0.wake(cx);
            }
        }
    };
}

rated! {
    /// Pulls packets at a rate and pushes them on.
    ///
    /// The rate is kept by a token bucket that starts full. It holds the packets of 20 ms, one at
    /// least, unless an argument says otherwise: so many may be caught up on after a pause. A
    /// bucket of a single packet falls short of a rate that is not a whole number of milliseconds
    /// a packet.
    ///
    /// # Arguments
    /// - `RATE` (integer): packets a second.
    /// - `BURST_DURATION` (time, 20ms): the bucket holds what comes in within that time.
    /// - `BURST_SIZE` (integer): the bucket holds so many packets; not together with
    ///   BURST_DURATION.
    ///
    /// # Ports
    /// One pull input, one push output.
    ///
    /// # Handlers
    /// - `rate` (read, write): the argument.
    /// - `active` (read, write): whether it works.
    /// - `calls` (read): how often it ran and what came of it.
    /// - `scheduled`, `tickets`, `home_thread`: the task's.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource -> Queue -> RatedUnqueue(1000) -> Counter(COUNT_CALL 100 stop) -> Discard;
    /// ```
    ///
    /// # See also
    /// BandwidthRatedUnqueue, Unqueue, Shaper, RatedSource
    RatedUnqueue, false
}

rated! {
    /// Pulls packets at a bandwidth and pushes them on.
    ///
    /// As RatedUnqueue, but its token bucket counts bytes. A packet is pulled while the bucket
    /// holds 128 KiB, which it does besides what the arguments say.
    ///
    /// # Arguments
    /// - `RATE` (bandwidth): bytes a second, or with a unit as in `10Mbps`.
    /// - `BURST_DURATION` (time, 20ms): the bucket holds what comes in within that time.
    /// - `BURST_BYTES` (integer): the bucket holds so many bytes; not together with
    ///   BURST_DURATION.
    ///
    /// # Ports
    /// One pull input, one push output.
    ///
    /// # Handlers
    /// - `rate` (read, write): the argument.
    /// - `active` (read, write): whether it works.
    /// - `calls` (read): how often it ran and what came of it.
    /// - `scheduled`, `tickets`, `home_thread`: the task's.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource -> Queue -> BandwidthRatedUnqueue(1Mbps)
    ///   -> Counter(COUNT_CALL 100 stop) -> Discard;
    /// ```
    ///
    /// # See also
    /// RatedUnqueue, BandwidthShaper
    BandwidthRatedUnqueue, true
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;

    fn passed(unqueue: &str, length: u32, seconds: u64, batch: usize) -> u64 {
        let config = format!(
            "InfiniteSource(LENGTH {length}, BURST 64) -> Queue(256) -> {unqueue} -> c :: Counter
                -> Discard;"
        );
        let mut rig = Rig::with_batch(&config, batch);
        rig.advance(seconds * SECOND);
        rig.read("c.count").parse().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn the_rate_is_held(rate in 1u64..5_000, batch in prop::sample::select(&[1, 64][..])) {
            let count = passed(&format!("RatedUnqueue({rate})"), 64, 3, batch);
            let expected = 3 * rate + rate / 50;
            prop_assert!(count.abs_diff(expected) <= 2 + expected / 100, "{count}");
        }

        #[test]
        fn the_bandwidth_is_held(
            rate in 1000u64..1_000_000,
            length in 64u32..1500,
            batch in prop::sample::select(&[1, 64][..]),
        ) {
            let unqueue = format!("BandwidthRatedUnqueue({rate})");
            let bytes = passed(&unqueue, length, 3, batch) * u64::from(length);
            let expected = 3 * rate + rate / 50;
            let slack = 2 * u64::from(length) + expected / 100;
            prop_assert!(bytes.abs_diff(expected) <= slack, "{bytes} of {expected}");
        }
    }

    #[test]
    fn bursts_are_as_large_as_asked_for() {
        // The figures of Click's own tests, just before ten seconds are over.
        let count = |unqueue: &str| {
            let config = format!(
                "InfiniteSource(LENGTH 100) -> Queue(10) -> {unqueue} -> c :: Counter -> Discard;"
            );
            let mut rig = Rig::new(&config);
            rig.advance(10 * SECOND - 1);
            rig.read("c.count").parse::<u64>().unwrap()
        };
        assert_eq!(count("RatedUnqueue(2)"), 20);
        assert_eq!(count("RatedUnqueue(2, BURST_SIZE 50)"), 69);
        assert_eq!(count("RatedUnqueue(2, BURST_DURATION 25)"), 69);
        assert!((909..=910).contains(&count("RatedUnqueue(100, BURST_SIZE 1)")));
        assert_eq!(count("BandwidthRatedUnqueue(200Bps)"), 21);
        assert_eq!(count("BandwidthRatedUnqueue(200Bps, BURST_BYTES 5000)"), 71);
        assert_eq!(count("BandwidthRatedUnqueue(200Bps, BURST_DURATION 25)"), 71);
        assert_eq!(count("BandwidthRatedUnqueue(10000Bps, BURST_BYTES 100)"), 1001);
    }

    #[test]
    fn it_sleeps_while_there_is_nothing_to_pull() {
        let config = "i :: Inject -> Queue -> u :: RatedUnqueue(10) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.push("i", &[1]);
        rig.push("i", &[2]);
        rig.run();
        assert_eq!(rig.data("c"), [[1]]);
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.advance(SECOND / 5);
        assert_eq!(rig.data("c"), [[2]]);
    }

    #[test]
    fn the_rate_can_be_changed() {
        let config = "InfiniteSource -> Queue -> u :: RatedUnqueue(RATE 100, BURST_SIZE 5)
            -> c :: Counter -> Discard;";
        let mut rig = Rig::new(config);
        rig.write("u.rate", "10");
        assert_eq!(rig.read("u.rate"), "10");
        assert_eq!(rig.read("u.config"), "BURST_SIZE 5, RATE 10");
        rig.advance(2 * SECOND);
        let count: u64 = rig.read("c.count").parse().unwrap();
        assert!((24..=25).contains(&count), "{count}");
        rig.write("u.active", "false");
        rig.advance(SECOND);
        assert_eq!(rig.read("c.count"), format!("{count}"));
        let mut rig = Rig::new("Idle -> u :: BandwidthRatedUnqueue(8Mbps) -> Discard;");
        assert_eq!(rig.read("u.rate"), "8Mbps");
        rig.write("u.rate", "1000");
        assert_eq!(rig.read("u.rate"), "8kbps");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "RATE: required argument missing"),
            ("-1", "RATE: invalid number"),
            ("1, BURST_SIZE 1, BURST_DURATION 1s", "cannot specify both"),
        ] {
            let config = format!("Idle -> RatedUnqueue({arguments}) -> Discard;");
            let errors = Rig::errors(&config);
            assert!(errors.contains(message), "{errors}");
        }
    }
}
