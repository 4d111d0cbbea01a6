use super::metered::Metered;
use crate::prelude::*;

/// Sends all packets to an output that depends on the number of packets a second.
///
/// The rate is an exponentially weighted moving average. While it is below the first of the
/// arguments, packets leave by output 0; from there to below the second, by output 1; and so on.
/// RatedSplitter passes some of the packets at a rate instead.
///
/// # Example
/// ```click
/// m :: Meter(10000Bps);
/// RatedSource(RATE 20000, LIMIT 1000, STOP true) -> m;
/// m[0] -> Discard;
/// m[1] -> Print(much) -> Discard;
/// ```
///
/// # See also
/// BandwidthMeter, RatedSplitter, Shaper, Block
#[derive(Element)]
#[element(ports = "1/2-", processing = "h")]
#[outputs(
    "packets while the rate is below the first argument",
    "below the second, and so on"
)]
pub struct Meter {
    /// Packets a second, each more than the one before. As in Click, they are written as bandwidths,
    /// and a number without a unit is a warning: `10000Bps` is 10000 packets a second.
    #[arg(rest, name = "RATE", kind = "bandwidth, one or more times")]
    rates: Vec<String>,
    #[flatten]
    metered: Metered,
}

impl Element for Meter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.metered.configured(cx, args, &self.rates)
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.metered.output(cx, batch.len() as u64)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use alloc::format;

    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;
    pub const THREE: &str = "m[0] -> a :: Counter -> Discard; m[1] -> b :: Counter -> Discard;
        m[2] -> c :: Counter -> Discard;";

    /// Sends packets of 100 bytes at several rates: a meter of 1000 and 4000 packets a second sends
    /// them by its outputs. `unit` is what a packet counts.
    pub fn check_rates(meter: &str, unit: u64) {
        for batch in [1, 64] {
            let config = format!("s :: RatedSource(LENGTH 100, RATE 500) -> m :: {meter}; {THREE}");
            let mut rig = Rig::with_batch(&config, batch);
            for (rate, output) in [(500, "a"), (2000, "b"), (8000, "c"), (2000, "b")] {
                rig.write("s.rate", &format!("{rate}"));
                // Until the average has settled.
                rig.advance(SECOND);
                for counter in ["a", "b", "c"] {
                    rig.write(&format!("{counter}.reset"), "");
                }
                rig.advance(SECOND);
                for counter in ["a", "b", "c"] {
                    let count: u64 = rig.read(&format!("{counter}.count")).parse().unwrap();
                    let expected = if counter == output { rate } else { 0 };
                    assert!(
                        count.abs_diff(expected) <= 20,
                        "{meter} {rate} {counter}: {count}"
                    );
                }
                let shown: f64 = rig.read("m.rate").parse().unwrap();
                let expected = (rate * unit) as f64;
                assert!((shown - expected).abs() < expected / 2.0, "{shown}");
            }
        }
    }

    #[test]
    fn the_rate_decides() {
        check_rates("Meter(1000, 4000)", 1);
    }

    #[test]
    fn handlers_show_the_rates() {
        let mut rig = Rig::new(&format!("Idle -> m :: Meter(1000, 64000); {THREE}"));
        rig.assert_handlers(&[("m.rate", "0"), ("m.meters", "1000 64000")]);
    }

    #[test]
    fn rates_without_units_are_warned_of() {
        let mut rig = Rig::new(&format!("Idle -> m :: Meter(1kBps, 64000); {THREE}"));
        assert_eq!(rig.read("m.meters"), "1000 64000");
        assert_eq!(
            rig.printed(),
            [
                "config:1: While configuring 'm :: Meter':",
                "  warning: no units for bandwidth argument 2, assuming Bps"
            ]
        );
    }

    #[test]
    fn wrong_rates_are_refused() {
        for (meter, message) in [
            (
                "Meter",
                "too few arguments to BandwidthMeter(bandwidth, ...)",
            ),
            ("Meter(1, x)", "argument 2 syntax error"),
            ("Meter(1, 1)", "rate 2 must be > rate 1"),
            (
                "Meter(1)",
                "need 2 arguments, one less than the number of output ports",
            ),
        ] {
            Rig::refuses(&format!("Idle -> m :: {meter}; {THREE}"), message);
        }
    }
}
