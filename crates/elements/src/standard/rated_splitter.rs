use super::rate_bucket::RateBucket;
use crate::prelude::*;

/// Lets packets pass at a rate, and sends the others elsewhere.
///
/// A token bucket keeps the rate, as in RatedUnqueue.
///
/// # Example
/// ```click
/// r :: RatedSplitter(100);
/// RatedSource(RATE 1000, LIMIT 1000, STOP true) -> r;
/// r[0] -> Discard;
/// r[1] -> Discard;
/// ```
///
/// # See also
/// BandwidthRatedSplitter, RatedUnqueue, Shaper
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h", live)]
#[outputs("packets within the rate", "the others")]
pub struct RatedSplitter {
    #[delegate(configured = set_burst)]
    bucket: RateBucket<false>,
    /// The bucket holds that number of packets; not together with BURST_DURATION.
    #[arg]
    burst_size: Option<u32>,
}

impl RatedSplitter {
    fn set_burst(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.bucket.set_burst(args, self.burst_size)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// Packets that passed and did not, of 10000 a second for three seconds.
    fn split(splitter: &str, length: u64) -> (u64, u64) {
        let config = format!(
            "RatedSource(RATE 10000, LENGTH {length}) -> r :: {splitter};
             r[0] -> a :: Counter -> Discard; r[1] -> b :: Counter -> Discard;"
        );
        let mut rig = Rig::new(&config);
        rig.advance(3 * SECOND);
        let mut count = |name: &str| rig.read(name).parse().unwrap();
        (count("a.count"), count("b.count"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn the_rate_is_held(rate in 1u64..5_000, length in 64u64..1500) {
            let (passed, others) = split(&format!("RatedSplitter({rate})"), 64);
            let expected = 3 * rate + rate / 50;
            prop_assert!(passed.abs_diff(expected) <= 2 + expected / 100, "{passed}");
            prop_assert!((passed + others).abs_diff(30_000) <= 100);
            let bandwidth = rate * length;
            let (passed, _) = split(&format!("BandwidthRatedSplitter({bandwidth})"), length);
            prop_assert!(passed.abs_diff(expected) <= 3 + expected / 100, "{passed}");
        }
    }

    #[test]
    fn the_others_are_dropped_without_output_1() {
        let mut rig = Rig::new("i :: Inject -> r :: RatedSplitter(1) -> c :: Collect;");
        for _ in 0..3 {
            rig.push("i", &[1]);
        }
        assert_eq!(rig.data("c").len(), 1);
        assert_eq!(rig.outstanding(), 0);
        rig.write("r.rate", "7");
        rig.assert_handlers(&[("r.rate", "7"), ("r.config", "7")]);
    }
}
