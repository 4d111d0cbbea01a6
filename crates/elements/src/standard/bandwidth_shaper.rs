use super::shape::RateShape;
use crate::prelude::*;

/// Lets packets be pulled at a bandwidth at most.
///
/// A packet can be pulled when the packets before it have used their time at that bandwidth. Up to
/// BURST_DURATION of unused time can be caught up: after a pause, that many bytes leave at once.
///
/// # Example
/// ```click
/// InfiniteSource -> BandwidthShaper(1Mbps) -> Counter(COUNT_CALL 100 stop) -> Discard;
/// ```
///
/// # See also
/// Shaper, BandwidthRatedUnqueue
#[derive(Element)]
#[element(ports = "1/1", processing = "l", live, segments)]
pub struct BandwidthShaper {
    #[delegate]
    shape: RateShape<true>,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_bandwidth_can_be_changed() {
        let mut rig = Rig::new("InfiniteSource -> s :: BandwidthShaper(8kbps) -> p :: Puller;");
        assert_eq!(rig.read("s.rate"), "8kbps");
        rig.write("s.rate", "1Mbps");
        assert_eq!(rig.read("s.config"), "1Mbps");
        assert!(rig.try_write("s.rate", "fast").is_err());
    }
}
