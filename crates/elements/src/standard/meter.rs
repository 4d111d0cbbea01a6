use alloc::string::String;
use alloc::vec::Vec;

use packet::Batch;
use router::args::{Args, Bandwidth, BandwidthArg, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

use crate::rate::{Level, Rate};

/// What Meter and BandwidthMeter share. Rates are of packets, or bytes if `BYTES`.
#[derive(Default)]
struct Metered<const BYTES: bool> {
    rate: Rate,
    /// The rates between outputs, from low to high.
    steps: Vec<Level>,
}

impl<const BYTES: bool> Metered<BYTES> {
    /// The rate that an argument stands for; whether it has a unit, if it needs one.
    fn parse(args: &Args<'_>, text: &str) -> Option<(u64, bool)> {
        if !BYTES {
            let rate = args.context().parse::<u64>(text).ok()?;
            return Some((rate, true));
        }
        let (Bandwidth(rate), has_unit) = args.context().parse_with(BandwidthArg, text).ok()?;
        Some((rate, has_unit))
    }

    fn configure(&mut self, cx: &Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let texts = args.take_raw();
        if texts.is_empty() {
            let usage = if BYTES { "BandwidthMeter(bandwidth, ...)" } else { "Meter(rate, ...)" };
            return Err(args.fail(format_args!("too few arguments to {usage}")));
        }
        let mut rates: Vec<u64> = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let Some((rate, has_unit)) = Self::parse(args, text) else {
                return Err(args.fail(format_args!("argument {} syntax error", i + 1)));
            };
            if rates.last().is_some_and(|last| rate <= *last) {
                return Err(args.fail(format_args!("rate {} must be > rate {i}", i + 1)));
            }
            if !has_unit {
                let n = i + 1;
                args.warning(format_args!("no units for bandwidth argument {n}, assuming Bps"));
            }
            rates.push(rate);
        }
        if rates.len() + 1 != cx.outputs() {
            return Err(args.fail(format_args!(
                "need {} arguments, one less than the number of output ports",
                cx.outputs().saturating_sub(1)
            )));
        }
        self.steps = rates.into_iter().map(Level::per_second).collect();
        Ok(())
    }

    /// Counts a batch; returns the output of its packets. The average changes at most once for
    /// packets that come together, before they count, so that they all go one way.
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, batch: &Batch) -> usize {
        let events = match BYTES {
            true => batch.iter().map(|packet| packet.wire_len() as u64).sum(),
            false => batch.len() as u64,
        };
        self.rate.update(cx.recent(), events);
        let level = self.rate.level();
        let above = self.steps.iter().position(|step| level < *step);
        above.unwrap_or(self.steps.len())
    }

    fn handlers(list: &mut HandlerList) {
        list.read("rate").read("meters");
    }

    fn read(&mut self, cx: &Cx<'_>, name: &str) -> Result<String, HandlerError> {
        match name {
            "rate" => {
                // The rate falls while nothing comes.
                self.rate.update(cx.steady(), 0);
                Ok(self.rate.unparse(1))
            }
            "meters" => {
                let steps = self.steps.iter().map(|step| step.unparse(1));
                Ok(steps.collect::<Vec<_>>().join(" "))
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

macro_rules! meter {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name(Metered<$bytes>);

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/2-";
            const PROCESSING: &'static str = "h";
            const SEGMENTS: bool = $bytes;
        }

        impl Declared for $name {
            fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.0.configure(cx, args)
            }

            fn handlers(&self, list: &mut HandlerList) {
                Metered::<$bytes>::handlers(list);
            }

            fn read(
                &mut self,
                cx: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                self.0.read(cx, name)
            }
        }

        impl Element for $name {
            #[inline]
            fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
                self.0.push(cx, batch)
            }
        }
    };
}

meter! {
    /// Sends all packets to an output that depends on how many there are a second.
    ///
    /// The rate is an exponentially weighted moving average. While it is below the first of the
    /// arguments, packets leave by output 0; from there to below the second, by output 1; and so on.
    /// To let a part of the packets pass at a rate, see RatedSplitter.
    ///
    /// # Arguments
    /// - `RATE` (integer; one or more times): packets a second, each more than the one before.
    ///
    /// # Ports
    /// One push input; push outputs, one more than there are arguments.
    ///
    /// # Handlers
    /// - `rate` (read): packets a second.
    /// - `meters` (read): the arguments, as they are compared with the rate.
    ///
    /// # Example
    /// ```click
    /// m :: Meter(10000);
    /// RatedSource(RATE 20000, LIMIT 1000, STOP true) -> m;
    /// m[0] -> Discard;
    /// m[1] -> Print(much) -> Discard;
    /// ```
    ///
    /// # See also
    /// BandwidthMeter, RatedSplitter, Shaper, Block
    Meter, false
}

meter! {
    /// Sends all packets to an output that depends on how many bytes there are a second.
    ///
    /// As Meter, but the rate is of bytes.
    ///
    /// # Arguments
    /// - `RATE` (bandwidth; one or more times): bytes a second, or with a unit as in `10Mbps`, each
    ///   more than the one before.
    ///
    /// # Ports
    /// One push input; push outputs, one more than there are arguments.
    ///
    /// # Handlers
    /// - `rate` (read): bytes a second.
    /// - `meters` (read): the arguments in bytes a second, as they are compared with the rate.
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
    BandwidthMeter, true
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;
    const THREE: &str = "m[0] -> a :: Counter -> Discard; m[1] -> b :: Counter -> Discard;
        m[2] -> c :: Counter -> Discard;";

    #[test]
    fn the_rate_decides() {
        for (class, unit) in [("Meter", 1), ("BandwidthMeter", 100)] {
            for batch in [1, 64] {
                let (low, high) = (1000 * unit, 4000 * unit);
                let config = format!(
                    "s :: RatedSource(LENGTH 100, RATE 500) -> m :: {class}({low}, {high}); {THREE}"
                );
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
                        assert!(count.abs_diff(expected) <= 20, "{class} {rate} {counter}: {count}");
                    }
                    let shown: f64 = rig.read("m.rate").parse().unwrap();
                    let expected = (rate * unit) as f64;
                    assert!((shown - expected).abs() < expected / 2.0, "{shown}");
                }
            }
        }
    }

    #[test]
    fn handlers_show_the_rates() {
        let mut rig = Rig::new(&format!("Idle -> m :: Meter(1000, 64000); {THREE}"));
        assert_eq!((rig.read("m.rate"), rig.read("m.meters")), ("0".into(), "1000 64000".into()));
        let config = format!("Idle -> m :: BandwidthMeter(8Mbps, 100Gbps); {THREE}");
        assert_eq!(Rig::new(&config).read("m.meters"), "1000000 12500000000");
    }

    #[test]
    fn wrong_rates_are_refused() {
        for (meter, message) in [
            ("Meter", "too few arguments to Meter(rate, ...)"),
            ("BandwidthMeter", "too few arguments to BandwidthMeter(bandwidth, ...)"),
            ("Meter(1, x)", "argument 2 syntax error"),
            ("Meter(1, 1)", "rate 2 must be > rate 1"),
            ("Meter(1)", "need 2 arguments, one less than the number of output ports"),
        ] {
            let errors = Rig::errors(&format!("Idle -> m :: {meter}; {THREE}"));
            assert!(errors.contains(message), "{errors}");
        }
        let mut rig = Rig::new(&format!("Idle -> m :: BandwidthMeter(1kbps, 1000); {THREE}"));
        let printed = rig.printed().concat();
        assert!(printed.contains("no units for bandwidth argument 2, assuming Bps"), "{printed}");
    }
}
