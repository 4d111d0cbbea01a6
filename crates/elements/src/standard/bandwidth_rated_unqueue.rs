use super::rated_pull::RatedPull;
use crate::prelude::*;

/// Pulls packets at a bandwidth and pushes them on.
///
/// As RatedUnqueue, but its token bucket counts bytes. A packet is pulled while the bucket
/// holds 128 KiB, which it does besides what the arguments say.
///
/// # Example
/// ```click
/// InfiniteSource -> Queue -> BandwidthRatedUnqueue(1Mbps)
///   -> Counter(COUNT_CALL 100 stop) -> Discard;
/// ```
///
/// # See also
/// RatedUnqueue, BandwidthShaper
#[derive(Element)]
#[element(ports = "1/1", processing = "l/h", live)]
pub struct BandwidthRatedUnqueue {
    #[delegate(configured = set_burst)]
    rated: RatedPull<true>,
    /// The bucket holds that number of bytes; not together with BURST_DURATION.
    #[arg]
    burst_bytes: Option<u32>,
}

impl BandwidthRatedUnqueue {
    fn set_burst(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.rated.bucket.set_burst(args, self.burst_bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_bandwidth_is_shown_with_its_unit() {
        let mut rig = Rig::new("Idle -> u :: BandwidthRatedUnqueue(8Mbps) -> Discard;");
        assert_eq!(rig.read("u.rate"), "8Mbps");
        rig.write("u.rate", "1000");
        assert_eq!(rig.read("u.rate"), "8kbps");
    }
}
