use super::timed_pull::TimedPull;
use crate::prelude::*;

/// Pulls packets at every interval, BURST at most, and pushes them on.
///
/// When ten pulls in a row found nothing in the queue before it, the next packet leaves at once, and
/// intervals are counted from then. After a pause of more than a second in which the router did not run, what was missed is
/// not made up for.
///
/// # Example
/// ```click
/// RatedSource(RATE 100, LIMIT 10) -> Queue -> TimedUnqueue(50ms, 2) -> Discard;
/// ```
///
/// # See also
/// Burster, RatedUnqueue, Unqueue, TimedSource
#[derive(Element)]
#[element(ports = "1/1", processing = "l/h")]
pub struct TimedUnqueue {
    #[delegate(configured = set_burst)]
    timed: TimedPull,
    /// Most packets at a time.
    #[arg(positional, default = 1)]
    burst: i32,
}

impl TimedUnqueue {
    fn set_burst(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.timed.set_burst(args, self.burst)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
        for (class, burst) in [
            ("TimedUnqueue(20ms)", 1),
            ("TimedUnqueue(20ms, 3)", 3),
            ("Burster(20ms)", 8),
        ] {
            let config = format!("i :: Inject -> Queue -> t :: {class} -> c :: Collect;");
            let mut rig = Rig::new(&config);
            rig.run();
            // Idle for so long that it waits for packets.
            rig.advance(400 * MS);
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
    fn the_first_packet_waits_for_an_interval() {
        for class in ["TimedUnqueue(20ms)", "Burster(20ms)"] {
            let config = format!("i :: Inject -> Queue -> {class} -> c :: Collect;");
            let mut rig = Rig::new(&config);
            rig.run();
            rig.push("i", &[1]);
            rig.advance(20 * MS - 1);
            assert!(rig.collected("c").is_empty(), "{class}");
            rig.advance(1);
            assert_eq!(rig.data("c"), [[1]], "{class}");
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
        let config =
            "InfiniteSource(LENGTH 64) -> Queue -> TimedUnqueue(100ms) -> c :: Counter -> Discard;";
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
            ("-1s", "INTERVAL: parse error"),
            ("4294968", "INTERVAL: out of range"),
            ("1s, 0", "bad BURST"),
            ("1s, -1", "bad BURST"),
        ] {
            Rig::refuses(
                &format!("Idle -> Burster({arguments}) -> Discard;"),
                message,
            );
        }
    }
}
