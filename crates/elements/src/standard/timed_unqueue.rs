use router::args::{Args, Failed, Timestamp};
use router::{Class, Cx, Declared, Element, Ran, Signal, Steady, TaskId, TimerId};

/// Most nanoseconds that are made up for; after longer pauses the intervals start anew.
const ARREARS_MAX: u64 = 1_000_000_000;

/// What TimedUnqueue and Burster share.
#[derive(Default)]
struct Timed {
    interval: Timestamp,
    burst: u32,
    /// Packets left of the burst under way; 0 between bursts.
    left: u32,
    /// When the last burst was due; none after there was nothing to pull.
    due: Option<Steady>,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    signal: Signal,
}

impl Timed {
    fn configure(&mut self, burst: i32, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut burst = burst;
        args.mandatory_positional("INTERVAL", &mut self.interval)
            .positional("BURST", &mut burst)
            .complete()?;
        self.burst = match u32::try_from(burst) {
            Ok(burst @ 1..) => burst,
            _ => return Err(args.fail("bad BURST")),
        };
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) {
        let task = cx.task();
        cx.schedule(task);
        self.signal = cx.upstream_signal(0, Some(task));
        (self.task, self.timer) = (Some(task), Some(cx.timer()));
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> Ran {
        let Some(timer) = self.timer else {
            return Ran::Nothing;
        };
        if self.left == 0 {
            // Packets may have come, but it is not their time yet.
            if cx.expires(timer).is_some() {
                return Ran::Nothing;
            }
            self.left = self.burst;
        }
        let most = cx.limit().min(self.left as usize);
        let mut batch = cx.batch();
        cx.pull(0, &mut batch, most);
        let pulled = batch.len();
        cx.push(0, batch);
        if pulled == 0 && self.left == self.burst && !cx.is_active(&self.signal) {
            (self.left, self.due) = (0, None);
            return Ran::Nothing;
        }
        self.left -= pulled as u32;
        if pulled == most && self.left > 0 {
            return Ran::More;
        }
        self.left = 0;
        let now = cx.steady();
        let last = self.due.filter(|due| now.since(*due) <= ARREARS_MAX);
        let next = last.unwrap_or(now).after(self.interval.0.unsigned_abs());
        self.due = Some(next);
        cx.schedule_at(timer, next);
        Ran::Worked
    }

    fn run_timer(&self, cx: &mut Cx<'_>) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }
}

macro_rules! timed {
    ($(#[$doc:meta])* $name:ident, $burst:literal, is_a: $is_a:expr) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name(Timed);

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/1";
            const PROCESSING: &'static str = "l/h";
            const IS_A: &'static [&'static str] = $is_a;
        }

        impl Declared for $name {
            fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.0.configure($burst, args)
            }
        }

        impl Element for $name {
            fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
                self.0.initialize(cx);
                Ok(())
            }

            fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
                self.0.run_task(cx)
            }

            fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
                self.0.run_timer(cx);
            }
        }
    };
}

timed! {
    /// Pulls packets at every interval, BURST at most, and pushes them on.
    ///
    /// When there was nothing to pull, the next packet leaves at once, and intervals are counted from
    /// then. After a pause of more than a second in which the router did not run, what was missed is
    /// not made up for.
    ///
    /// # Arguments
    /// - `INTERVAL` (time): time between bursts.
    /// - `BURST` (integer, 1): most packets at a time.
    ///
    /// # Ports
    /// One pull input, one push output.
    ///
    /// # Handlers
    /// None of its own.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 100, LIMIT 10) -> Queue -> TimedUnqueue(50ms, 2) -> Discard;
    /// ```
    ///
    /// # See also
    /// Burster, RatedUnqueue, Unqueue, TimedSource
    TimedUnqueue, 1, is_a: &[]
}

timed! {
    /// Pulls packets at every interval, BURST at most, and pushes them on.
    ///
    /// As TimedUnqueue, with another BURST unless one is given.
    ///
    /// # Arguments
    /// - `INTERVAL` (time): time between bursts.
    /// - `BURST` (integer, 8): most packets at a time.
    ///
    /// # Ports
    /// One pull input, one push output.
    ///
    /// # Handlers
    /// None of its own.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 100, LIMIT 10) -> Queue -> Burster(50ms) -> Discard;
    /// ```
    ///
    /// # See also
    /// TimedUnqueue, RatedUnqueue, Unqueue
    Burster, 8, is_a: &["TimedUnqueue"]
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use crate::testing::Rig;

    const MS: u64 = 1_000_000;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// While there are packets, a burst leaves at every interval.
        #[test]
        fn the_rate_is_held(
            microseconds in 500u64..200_000,
            burst in 1u64..200,
            batch in prop::sample::select(&[1, 64][..]),
        ) {
            let config = format!(
                "InfiniteSource(LENGTH 64, BURST 64) -> Queue(300)
                    -> TimedUnqueue({microseconds}us, {burst}) -> c :: Counter -> Discard;"
            );
            let mut rig = Rig::with_batch(&config, batch);
            rig.advance(3_000 * MS - 1);
            let count: u64 = rig.read("c.count").parse().unwrap();
            // Within 1 %: intervals are counted from when the first burst left.
            let expected = burst * (3_000_000u64).div_ceil(microseconds);
            prop_assert!(count.abs_diff(expected) <= burst + expected / 100, "{count} {expected}");
        }
    }

    #[test]
    fn bursts_leave_at_intervals() {
        for (class, burst) in [("TimedUnqueue(20ms)", 1), ("TimedUnqueue(20ms, 3)", 3), ("Burster(20ms)", 8)] {
            let config = format!("i :: Inject -> Queue -> t :: {class} -> c :: Collect;");
            let mut rig = Rig::new(&config);
            rig.run();
            for _ in 0..20 {
                rig.push("i", &[1]);
            }
            let mut left = Vec::new();
            for _ in 0..3 {
                rig.advance(0);
                left.push(rig.collected("c").len());
                rig.advance(20 * MS - 1);
                assert!(rig.collected("c").is_empty());
                rig.advance(1);
            }
            assert_eq!(left, [burst, burst, burst.min(20 - 2 * burst)], "{class}");
        }
    }

    #[test]
    fn a_packet_after_a_pause_leaves_at_once() {
        let mut rig = Rig::new("i :: Inject -> Queue -> TimedUnqueue(20ms) -> c :: Collect;");
        rig.push("i", &[1]);
        rig.advance(400 * MS + 7);
        assert_eq!(rig.data("c"), [[1]]);
        rig.push("i", &[2]);
        rig.push("i", &[3]);
        rig.run();
        assert_eq!(rig.data("c"), [[2]]);
        rig.advance(20 * MS - 1);
        assert!(rig.collected("c").is_empty());
        rig.advance(1);
        assert_eq!(rig.data("c"), [[3]]);
    }

    #[test]
    fn long_pauses_are_not_made_up_for() {
        let config = "InfiniteSource(LENGTH 64) -> Queue -> TimedUnqueue(100ms) -> c :: Counter -> Discard;";
        let mut rig = Rig::new(config);
        rig.run();
        for (pause, more) in [(500, 6), (5_000, 1)] {
            rig.write("c.reset", "");
            rig.pause(pause * MS);
            rig.run();
            assert!(rig.read("c.count").parse::<u32>().unwrap() <= more);
        }
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "INTERVAL: required argument missing"),
            ("1s, 0", "bad BURST"),
            ("1s, -1", "bad BURST"),
        ] {
            let errors = Rig::errors(&format!("Idle -> Burster({arguments}) -> Discard;"));
            assert!(errors.contains(message), "{errors}");
        }
    }
}
