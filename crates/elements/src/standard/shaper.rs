use super::shape::RateShape;
use crate::prelude::*;

/// Lets packets be pulled at a rate at most.
///
/// If the puller is fast enough, packets leave evenly spaced. Up to BURST_DURATION of unused time can be
/// caught up.
///
/// # Example
/// ```click
/// InfiniteSource -> Shaper(1000) -> Counter(COUNT_CALL 100 stop) -> Discard;
/// ```
///
/// # See also
/// BandwidthShaper, RatedUnqueue, DelayShaper
#[derive(Element)]
#[element(ports = "1/1-2", processing = "l", live)]
#[outputs(
    "packets within the rate",
    "packets that can be pulled while output 0 gives none"
)]
pub struct Shaper {
    #[delegate]
    shape: RateShape<false>,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// Packets pulled within three seconds, `most` at a time, every `step` nanoseconds.
    fn pulled(shaper: &str, length: u64, step: u64, most: usize) -> u64 {
        let config = format!("InfiniteSource(LENGTH {length}) -> s :: {shaper} -> p :: Puller;");
        let mut rig = Rig::new(&config);
        let mut count = 0;
        for _ in 0..3 * SECOND / step {
            count += rig.pull("p", most).len() as u64;
            rig.advance(step);
        }
        count
    }

    #[test]
    fn a_pause_is_caught_up_on_for_a_time() {
        let config =
            "InfiniteSource(LENGTH 100) -> s :: BandwidthShaper(1MBps, BURST_DURATION 10ms)
            -> p :: Puller;";
        let mut rig = Rig::new(config);
        let pull = |rig: &mut Rig| {
            let pulled = |_| rig.pull("p", 64).len();
            (0..10).map(pulled).sum::<usize>()
        };
        pull(&mut rig);
        for pause in [500 * MS, 3 * SECOND, 7 * MS] {
            rig.advance(pause);
            let bytes = pull(&mut rig) as u64 * 100;
            let expected = 10_000.min(pause / 1000);
            assert!(bytes.abs_diff(expected) <= 100, "{bytes} after {pause} ns");
        }
        rig.write("s.rate", "100kBps");
        rig.advance(SECOND);
        assert_eq!(pull(&mut rig), 10);
        rig.assert_handlers(&[("s.config", "100kBps, BURST_DURATION 10ms")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn the_rate_is_held(rate in 1u64..5_000) {
            let count = pulled(&format!("Shaper({rate})"), 64, 1_000_000, 64);
            prop_assert!(count.abs_diff(3 * rate) <= 2 + 3 * rate / 100, "{count}");
        }

        #[test]
        fn the_bandwidth_is_held(rate in 1000u64..1_000_000, length in 64u64..1500) {
            let bytes = pulled(&format!("BandwidthShaper({rate})"), length, 1_000_000, 64) * length;
            let slack = 2 * length + 3 * rate / 100;
            prop_assert!(bytes.abs_diff(3 * rate) <= slack, "{bytes} of {}", 3 * rate);
        }

        #[test]
        fn in_batches_as_many_packets_leave_as_one_by_one(
            digits in 3u32..11,
            length in 64u64..1500,
            pauses in prop::collection::vec(0u64..3_000_000, 1..20),
        ) {
            let rate = 10u64.pow(digits);
            let [singly, together] = [1, 64].map(|most| {
                let config = format!(
                    "InfiniteSource(LENGTH {length}) -> s :: BandwidthShaper({rate}Bps) -> p :: Puller;"
                );
                let mut rig = Rig::new(&config);
                let mut left = Vec::new();
                for pause in &pauses {
                    let mut count = 0;
                    while count < 200 {
                        match rig.pull("p", most.min(200 - count)).len() {
                            0 => break,
                            some => count += some,
                        }
                    }
                    left.push(count);
                    rig.advance(*pause);
                }
                left
            });
            prop_assert_eq!(singly, together);
        }
    }

    #[test]
    fn packets_leave_evenly_spaced() {
        let mut rig = Rig::new("InfiniteSource -> Shaper(100) -> p :: Puller;");
        for millisecond in 0..1000 {
            let due = usize::from(millisecond % 10 == 0);
            assert_eq!(rig.pull("p", 64).len(), due, "at {millisecond} ms");
            rig.advance(1_000_000);
        }
    }

    #[test]
    fn output_1_gives_packets_while_output_0_gives_none() {
        let config = "InfiniteSource -> s :: Shaper(10); s[0] -> a :: Puller; s[1] -> b :: Puller;";
        let mut rig = Rig::new(config);
        assert!(rig.pull("b", 5).is_empty());
        assert_eq!(rig.pull("a", 5).len(), 1);
        assert!(rig.pull("a", 5).is_empty());
        assert_eq!(rig.pull("b", 5).len(), 5);
    }

    #[test]
    fn the_rate_can_be_changed() {
        let mut rig = Rig::new("InfiniteSource -> s :: Shaper(10) -> p :: Puller;");
        rig.write("s.rate", "0");
        assert_eq!(rig.read("s.rate"), "0");
        rig.advance(SECOND);
        assert!(rig.pull("p", 5).is_empty());
        rig.write("s.config", "1000");
        rig.write("s.reset", "");
        assert_eq!(rig.pull("p", 5).len(), 1);
    }
}
