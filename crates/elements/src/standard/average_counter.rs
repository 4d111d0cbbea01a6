use crate::prelude::*;

/// Counts packets and bytes, and divides them by the time they took.
///
/// The time is that between the first packet and the last, to a millisecond.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100, STOP true) -> AverageCounter -> Discard;
/// ```
///
/// # See also
/// Counter
#[derive(Element)]
#[element(
    ports = "1/1",
    segments,
    handlers,
    alias("AverageCounterMP", "AverageCounterIMP")
)]
pub struct AverageCounter {
    /// Packets within this time of the first, and the time itself, do not count.
    #[arg(positional, default = 0, kind = "seconds")]
    ignore: u32,
    /// Whether `link_count` and `link_rate` count the frame check sequence.
    #[arg(positional, default = true)]
    link_fcs: bool,
    /// Packets since the last reset.
    #[handler(read)]
    count: u64,
    /// Bytes since the last reset.
    #[handler(read, name = "byte_count")]
    bytes: u64,
    /// When the first and the last packet came, in milliseconds.
    span: Option<(u64, u64)>,
}

impl AverageCounter {
    /// IGNORE in milliseconds.
    #[inline]
    fn ignored(&self) -> u64 {
        u64::from(self.ignore) * 1000
    }

    fn per_second(&self, count: u64) -> String {
        let (first, last) = self.span.unwrap_or_default();
        let milliseconds = (last - first).saturating_sub(self.ignored()).max(1);
        unparse::real(count as f64 * 1000.0 / milliseconds as f64)
    }
}

#[handlers]
impl AverageCounter {
    /// Packets a second.
    #[read]
    fn rate(&self) -> String {
        self.per_second(self.count)
    }

    /// Bytes a second.
    #[read]
    fn byte_rate(&self) -> String {
        self.per_second(self.bytes)
    }

    /// Bits since the last reset.
    #[read]
    fn bit_count(&self) -> u64 {
        8 * self.bytes
    }

    /// Bits a second.
    #[read]
    fn bit_rate(&self) -> String {
        self.per_second(self.bit_count())
    }

    /// Bits since the last reset, with what Ethernet adds to each frame: preamble, gap, and with
    /// LINK_FCS the frame check sequence.
    #[read]
    fn link_count(&self) -> u64 {
        8 * (self.bytes + self.count * if self.link_fcs { 24 } else { 20 })
    }

    /// The same, a second.
    #[read]
    fn link_rate(&self) -> String {
        self.per_second(self.link_count())
    }

    /// Starts over.
    #[write(button)]
    fn reset(&mut self) {
        (self.count, self.bytes, self.span) = (0, 0, None);
    }
}

impl Element for AverageCounter {
    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let now = cx.steady().0 / 1_000_000;
        let (first, last) = self.span.get_or_insert((now, now));
        *last = now;
        if now.saturating_sub(*first) >= self.ignored() {
            let (packets, bytes) = batch.tally();
            self.count += packets;
            self.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_rate_is_that_between_the_first_packet_and_the_last() {
        let mut rig = Rig::new("i :: Inject -> a :: AverageCounter -> c :: Collect;");
        assert_eq!(rig.read("a.rate"), "0");
        for _ in 0..3 {
            rig.push("i", &[0; 10]);
            rig.advance(SECOND / 2);
        }
        rig.assert_handlers(&[("a.count", "3"), ("a.byte_count", "30")]);
        rig.assert_handlers(&[("a.rate", "3"), ("a.byte_rate", "30")]);
        rig.write("a.reset", "");
        rig.push("i", &[0]);
        assert_eq!(rig.read("a.rate"), "1000");
    }

    #[test]
    fn bits_count_as_on_the_link() {
        for (arguments, bits) in [("", 2 * 84 * 8), ("LINK_FCS false", 2 * 80 * 8)] {
            let config = [
                "i :: Inject -> a :: AverageCounterMP(",
                arguments,
                ") -> Discard;",
            ];
            let mut rig = Rig::new(&config.concat());
            rig.push("i", &[0; 60]);
            rig.advance(SECOND);
            rig.push("i", &[0; 60]);
            let read = ["bit_count", "bit_rate", "link_count", "link_rate"]
                .map(|name| rig.read(&["a.", name].concat()));
            let expected = [960, 960, bits, bits].map(|bits: u32| bits.to_string());
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn the_first_seconds_can_be_ignored() {
        let mut rig = Rig::new("i :: Inject -> a :: AverageCounter(IGNORE 1) -> c :: Collect;");
        for _ in 0..5 {
            rig.push("i", &[0]);
            rig.advance(SECOND / 2);
        }
        rig.assert_handlers(&[("a.count", "3"), ("a.rate", "3")]);
    }
}
