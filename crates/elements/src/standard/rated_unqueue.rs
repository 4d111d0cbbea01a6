use super::rated_pull::RatedPull;
use crate::prelude::*;

/// Pulls packets at a rate and pushes them on.
///
/// A token bucket keeps the rate. It starts full and holds the packets of 20 ms, one at least,
/// unless an argument sets another size: that number of packets can be caught up after a pause.
/// With a bucket of one packet, the rate is too low if a packet's time is not a whole number of
/// milliseconds.
///
/// # Example
/// ```click
/// InfiniteSource -> Queue -> RatedUnqueue(1000) -> Counter(COUNT_CALL 100 stop) -> Discard;
/// ```
///
/// # See also
/// BandwidthRatedUnqueue, Unqueue, Shaper, RatedSource
#[derive(Element)]
#[element(ports = "1/1", processing = "l/h", live)]
pub struct RatedUnqueue {
    #[delegate(configured = set_burst)]
    rated: RatedPull<false>,
    /// The bucket holds that number of packets; not together with BURST_DURATION.
    #[arg]
    burst_size: Option<u32>,
}

impl RatedUnqueue {
    fn set_burst(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.rated.bucket.set_burst(args, self.burst_size)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn passed(unqueue: &str, length: u32, seconds: u64, batch: usize) -> u64 {
        let config = format!(
            "InfiniteSource(LENGTH {length}, BURST 64) -> Queue(256) -> {unqueue} -> c :: Counter
                -> Discard;"
        );
        let mut rig = Rig::with_batch(&config, batch);
        rig.advance(seconds * SECOND);
        rig.read("c.count").parse().unwrap()
    }

    #[test]
    fn its_configuration_changes_and_its_schedule_is_its_own() {
        let mut rig = Rig::new("Idle -> Queue -> u :: RatedUnqueue(10, BURST_SIZE 3) -> Discard;");
        let handlers = rig.read("u.handlers");
        assert_contains(&handlers, "config\trw\n");
        assert_contains(&handlers, "scheduled\tr\n");
        assert!(rig.try_write("u.scheduled", "false").is_err());
        rig.write("u.rate", "20");
        assert_eq!(rig.read("u.config"), "20, BURST_SIZE 3");
        rig.write("u.config", "30");
        rig.assert_handlers(&[("u.config", "30"), ("u.rate", "30")]);
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
        assert_eq!(
            count("BandwidthRatedUnqueue(200Bps, BURST_DURATION 25)"),
            71
        );
        assert_eq!(
            count("BandwidthRatedUnqueue(10000Bps, BURST_BYTES 100)"),
            1001
        );
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
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "RATE: required argument missing"),
            ("-1", "RATE: invalid number"),
            ("1, BURST_SIZE 1, BURST_DURATION 1s", "cannot specify both"),
        ] {
            let config = format!("Idle -> RatedUnqueue({arguments}) -> Discard;");
            Rig::refuses(&config, message);
        }
    }
}
