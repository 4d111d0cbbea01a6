use alloc::string::{String, ToString};

use packet::Batch;
use router::args::{Args, Argument, Bandwidth, Context, Failed, Invalid, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList};

use crate::gap_rate::GapRate;
use crate::values;

/// What Shaper and BandwidthShaper share. Events are packets, or bytes if `BYTES`.
#[derive(Default)]
struct Shape<const BYTES: bool> {
    gaps: GapRate,
}

impl<const BYTES: bool> Shape<BYTES> {
    fn parse_rate(text: &str, context: &Context<'_>) -> Result<u64, Invalid> {
        match BYTES {
            true => Bandwidth::parse(text, context).map(|bandwidth| bandwidth.0),
            false => u32::parse(text, context).map(u64::from),
        }
    }

    fn configure(&mut self, cx: &Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut rate = 0;
        args.mandatory_positional_with("RATE", Self::parse_rate, &mut rate)
            .complete()?;
        self.gaps.set_rate(rate, cx.steady());
        Ok(())
    }

    /// Pulls for `port`: packets within the rate for output 0, others for output 1.
    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        let allowed = self.gaps.allowed(cx.steady());
        if port == 1 {
            if allowed == 0 {
                cx.pull(0, batch, most);
            }
        } else if !BYTES {
            if allowed > 0 {
                cx.pull(0, batch, (most as u64).min(allowed) as usize);
                self.gaps.count(batch.len() as u64);
            }
        } else {
            self.pull_bytes(cx, batch, most, allowed);
        }
    }

    /// Pulls one packet after the other while less than `allowed` bytes were pulled.
    fn pull_bytes(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize, allowed: u64) {
        let mut bytes = 0;
        while bytes < allowed && batch.len() < most {
            let Some(packet) = cx.pull_one(0) else {
                break;
            };
            bytes += packet.wire_len() as u64;
            if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
                break;
            }
        }
        self.gaps.count(bytes);
    }

    fn handlers(list: &mut HandlerList) {
        list.read_write("rate").write("reset");
        list.add("config", HandlerFlags::CALM);
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "rate" | "config" if BYTES => Ok(unparse::bandwidth(Bandwidth(self.gaps.rate()))),
            "rate" | "config" => Ok(self.gaps.rate().to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "rate" => {
                let mut rate = 0;
                values::argument_with(cx, 0, "RATE", value, Self::parse_rate, &mut rate)?;
                self.gaps.set_rate(rate, cx.steady());
            }
            "reset" => self.gaps.reset(),
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

macro_rules! shaper {
    ($(#[$doc:meta])* $name:ident, $ports:literal, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name(Shape<$bytes>);

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = $ports;
            const PROCESSING: &'static str = "l";
            const SEGMENTS: bool = $bytes;
        }

        impl Declared for $name {
            fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.0.configure(cx, args)
            }

            fn can_live_reconfigure(&self) -> bool {
                true
            }

            fn handlers(&self, list: &mut HandlerList) {
                Shape::<$bytes>::handlers(list);
            }

            fn read(
                &mut self,
                _cx: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                self.0.read(name)
            }

            fn write(
                &mut self,
                cx: &mut Cx<'_>,
                name: &str,
                value: &str,
            ) -> Result<(), HandlerError> {
                self.0.write(cx, name, value)
            }
        }

        impl Element for $name {
            #[inline]
            fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
                self.0.pull(cx, port, batch, most);
            }
        }
    };
}

shaper! {
    /// Lets packets be pulled at a rate at most.
    ///
    /// Packets that are pulled often enough leave evenly spaced. What was missed within a second
    /// may be caught up on.
    ///
    /// # Arguments
    /// - `RATE` (integer): packets a second.
    ///
    /// # Ports
    /// One pull input. From output 0, packets can be pulled at the rate. From output 1, optional,
    /// packets can be pulled while output 0 gives none.
    ///
    /// # Handlers
    /// - `rate` (read, write): the argument.
    /// - `reset` (write): forgets what was missed.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource -> Shaper(1000) -> Counter(COUNT_CALL 100 stop) -> Discard;
    /// ```
    ///
    /// # See also
    /// BandwidthShaper, RatedUnqueue, DelayShaper
    Shaper, "1/1-2", false
}

shaper! {
    /// Lets packets be pulled at a bandwidth at most.
    ///
    /// A packet can be pulled when those before it have had their time at that bandwidth. What was
    /// missed within a second may be caught up on.
    ///
    /// # Arguments
    /// - `RATE` (bandwidth): bytes a second, or with a unit as in `10Mbps`.
    ///
    /// # Ports
    /// One pull input, one pull output.
    ///
    /// # Handlers
    /// - `rate` (read, write): the argument.
    /// - `reset` (write): forgets what was missed.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource -> BandwidthShaper(1Mbps) -> Counter(COUNT_CALL 100 stop) -> Discard;
    /// ```
    ///
    /// # See also
    /// Shaper, BandwidthRatedUnqueue
    BandwidthShaper, "1/1", true
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;

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
        let mut rig = Rig::new("InfiniteSource -> s :: BandwidthShaper(8kbps) -> p :: Puller;");
        assert_eq!(rig.read("s.rate"), "8kbps");
        rig.write("s.rate", "1Mbps");
        assert_eq!(rig.read("s.config"), "1Mbps");
        assert!(rig.try_write("s.rate", "fast").is_err());
    }
}
