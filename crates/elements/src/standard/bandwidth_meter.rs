use super::metered::Metered;
use crate::prelude::*;

/// Sends all packets to an output that depends on the number of bytes a second.
///
/// As Meter, but the rate is of bytes.
///
/// # Example
/// ```click
/// m :: BandwidthMeter(20kBps, 1MBps);
/// RatedSource(RATE 1000, LIMIT 1000, STOP true) -> m;
/// m[0] -> Discard;
/// m[1] -> Discard;
/// m[2] -> Print(much) -> Discard;
/// ```
///
/// # See also
/// Meter, BandwidthRatedSplitter, BandwidthShaper
#[derive(Element)]
#[element(ports = "1/2-", processing = "h", segments)]
#[outputs(
    "packets while the rate is below the first argument",
    "below the second, and so on"
)]
pub struct BandwidthMeter {
    /// Bytes a second, or with a unit as in `10Mbps`; each more than the one before.
    #[arg(rest, name = "RATE", kind = "bandwidth, one or more times")]
    rates: Vec<String>,
    #[flatten]
    metered: Metered,
}

impl Element for BandwidthMeter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.metered.configured(cx, args, &self.rates)
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.metered.output(cx, batch.tally().1)
    }
}

#[cfg(test)]
mod tests {
    use crate::standard::meter::tests::{THREE, check_rates};
    use crate::testing::*;

    #[test]
    fn the_rate_decides() {
        check_rates("BandwidthMeter(100000, 400000)", 100);
    }

    #[test]
    fn rates_may_have_units() {
        let config = format!("Idle -> m :: BandwidthMeter(8Mbps, 100Gbps); {THREE}");
        assert_eq!(Rig::new(&config).read("m.meters"), "1000000 12500000000");
        let mut rig = Rig::new(&format!(
            "Idle -> m :: BandwidthMeter(1kbps, 1000); {THREE}"
        ));
        let printed = rig.printed().concat();
        assert_contains(&printed, "no units for bandwidth argument 2, assuming Bps");
    }

    #[test]
    fn a_rate_is_needed() {
        let errors = Rig::errors(&format!("Idle -> m :: BandwidthMeter; {THREE}"));
        let message = "too few arguments to BandwidthMeter(bandwidth, ...)";
        assert!(errors.contains(message), "{errors}");
    }
}
