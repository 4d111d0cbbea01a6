use super::rate_bucket::RateBucket;
use crate::prelude::*;

/// Lets packets pass at a bandwidth, and sends the others elsewhere.
///
/// As RatedSplitter, but its token bucket counts bytes, as BandwidthRatedUnqueue's does.
///
/// # Example
/// ```click
/// r :: BandwidthRatedSplitter(100kbps);
/// RatedSource(RATE 1000, LIMIT 1000, STOP true) -> r;
/// r[0] -> Discard;
/// r[1] -> Discard;
/// ```
///
/// # See also
/// RatedSplitter, BandwidthRatedUnqueue, BandwidthShaper
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h", live)]
#[outputs("packets within the bandwidth", "the others")]
pub struct BandwidthRatedSplitter {
    #[delegate(configured = set_burst)]
    bucket: RateBucket<true>,
    /// The bucket holds that number of bytes; not together with BURST_DURATION.
    #[arg]
    burst_bytes: Option<u32>,
}

impl BandwidthRatedSplitter {
    fn set_burst(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.bucket.set_burst(args, self.burst_bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn bytes_count() {
        // The bucket holds 128 KiB more than 20 ms of the bandwidth.
        let config = "i :: Inject -> r :: BandwidthRatedSplitter(8kbps) -> a :: Collect;
            r[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        for _ in 0..3 {
            rig.push("i", &[0; 15]);
        }
        assert_eq!((rig.collected("a").len(), rig.collected("b").len()), (2, 1));
        rig.assert_handlers(&[("r.rate", "8kbps"), ("r.config", "8kbps")]);
        rig.write("r.config", "1000");
        assert_eq!(rig.read("r.config"), "8kbps");
        rig.write("r.config", "1000, BURST_BYTES 5");
        rig.write("r.rate", "2000");
        assert_eq!(rig.read("r.config"), "2000, BURST_BYTES 5");
        let errors = Rig::errors("Idle -> BandwidthRatedSplitter(1, BURST_SIZE 1) -> Discard;");
        assert!(errors.contains("BURST_SIZE: unknown argument"), "{errors}");
    }
}
