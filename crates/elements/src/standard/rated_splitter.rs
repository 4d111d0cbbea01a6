use alloc::string::String;

use packet::Batch;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList};

use super::bucket::Bucket;

macro_rules! splitter {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            bucket: Bucket<$bytes>,
        }

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/1-2";
            const PROCESSING: &'static str = "h";
        }

        impl Declared for $name {
            fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.bucket.configure(args)
            }

            fn can_live_reconfigure(&self) -> bool {
                true
            }

            fn handlers(&self, list: &mut HandlerList) {
                list.read_write("rate").add("config", HandlerFlags::CALM);
            }

            fn read(
                &mut self,
                _cx: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                match name {
                    "rate" => Ok(self.bucket.rate()),
                    _ => Err(HandlerError::Unknown),
                }
            }

            fn write(
                &mut self,
                cx: &mut Cx<'_>,
                name: &str,
                value: &str,
            ) -> Result<(), HandlerError> {
                match name {
                    "rate" => self.bucket.write_rate(cx, value),
                    _ => Err(HandlerError::Unknown),
                }
            }
        }

        impl Element for $name {
            fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), Failed> {
                self.bucket.started = true;
                Ok(())
            }

            #[inline]
            fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
                self.bucket.fill(cx.steady());
                batch.filter(
                    &mut (&mut self.bucket, cx),
                    |(bucket, _), packet| {
                        let passes = bucket.allows();
                        if passes {
                            bucket.take(packet);
                        }
                        (!passes).then_some(())
                    },
                    |(_, cx), packet, ()| cx.emit(1, packet),
                );
                0
            }
        }
    };
}

splitter! {
    /// Lets packets pass at a rate, and sends the others elsewhere.
    ///
    /// The rate is kept by a token bucket that starts full, as RatedUnqueue's.
    ///
    /// # Arguments
    /// - `RATE` (integer): packets a second.
    /// - `BURST_DURATION` (time, 20ms): the bucket holds what comes in within that time.
    /// - `BURST_SIZE` (integer): the bucket holds so many packets; not together with
    ///   BURST_DURATION.
    ///
    /// # Ports
    /// One push input. Output 0 is push: packets within the rate. Output 1, optional, is push: the
    /// others, which are dropped if it is not connected.
    ///
    /// # Handlers
    /// - `rate` (read, write): the argument.
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
    RatedSplitter, false
}

splitter! {
    /// Lets packets pass at a bandwidth, and sends the others elsewhere.
    ///
    /// As RatedSplitter, but its token bucket counts bytes, as BandwidthRatedUnqueue's does.
    ///
    /// # Arguments
    /// - `RATE` (bandwidth): bytes a second, or with a unit as in `10Mbps`.
    /// - `BURST_DURATION` (time, 20ms): the bucket holds what comes in within that time.
    /// - `BURST_BYTES` (integer): the bucket holds so many bytes; not together with
    ///   BURST_DURATION.
    ///
    /// # Ports
    /// One push input. Output 0 is push: packets within the bandwidth. Output 1, optional, is push:
    /// the others, which are dropped if it is not connected.
    ///
    /// # Handlers
    /// - `rate` (read, write): the argument.
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
    BandwidthRatedSplitter, true
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;

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
        assert_eq!((rig.read("r.rate"), rig.read("r.config")), ("7".into(), "7".into()));
    }
}
