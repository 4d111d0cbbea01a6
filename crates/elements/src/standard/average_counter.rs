use alloc::string::{String, ToString};

use packet::Batch;
use router::args::{Args, Failed, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Steady};

/// Counts packets and bytes, and divides them by the time they took.
///
/// The time is that between the first packet and the last, to a millisecond.
///
/// # Arguments
/// - `IGNORE` (seconds, 0): packets within so many seconds of the first do not count, nor does
///   that time.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `count`, `byte_count` (read): packets and bytes since the last reset.
/// - `rate`, `byte_rate` (read): packets and bytes a second.
/// - `reset` (write): starts over.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 100, STOP true) -> AverageCounter -> Discard;
/// ```
///
/// # See also
/// Counter
#[derive(Default)]
pub struct AverageCounter {
    count: u64,
    bytes: u64,
    /// When the first and the last packet came, in milliseconds.
    span: Option<(u64, u64)>,
    ignore: u64,
}

impl Class for AverageCounter {
    const NAME: &'static str = "AverageCounter";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl AverageCounter {
    #[inline]
    fn see(&mut self, now: Steady, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        let now = now.0 / 1_000_000;
        let (first, last) = self.span.get_or_insert((now, now));
        *last = now;
        if now.saturating_sub(*first) >= self.ignore {
            let (packets, bytes) = batch.tally();
            self.count += packets;
            self.bytes += bytes;
        }
    }

    fn rate(&self, count: u64) -> String {
        let (first, last) = self.span.unwrap_or_default();
        let milliseconds = (last - first).saturating_sub(self.ignore).max(1);
        unparse::real(count as f64 * 1000.0 / milliseconds as f64)
    }
}

impl Declared for AverageCounter {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut seconds = 0u32;
        args.positional("IGNORE", &mut seconds).complete()?;
        self.ignore = u64::from(seconds) * 1000;
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("count").read("byte_count");
        list.read("rate").read("byte_rate").button("reset");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            "rate" => Ok(self.rate(self.count)),
            "byte_rate" => Ok(self.rate(self.bytes)),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        if name != "reset" {
            return Err(HandlerError::Unknown);
        }
        (self.count, self.bytes, self.span) = (0, 0, None);
        Ok(())
    }
}

impl Element for AverageCounter {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.see(cx.steady(), batch);
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        self.see(cx.steady(), batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_rate_is_that_between_the_first_packet_and_the_last() {
        let mut rig = Rig::new("i :: Inject -> a :: AverageCounter -> c :: Collect;");
        assert_eq!(rig.read("a.rate"), "0");
        for _ in 0..3 {
            rig.push("i", &[0; 10]);
            rig.advance(SECOND / 2);
        }
        assert_eq!((rig.read("a.count"), rig.read("a.byte_count")), ("3".into(), "30".into()));
        assert_eq!((rig.read("a.rate"), rig.read("a.byte_rate")), ("3".into(), "30".into()));
        rig.write("a.reset", "");
        rig.push("i", &[0]);
        assert_eq!(rig.read("a.rate"), "1000");
    }

    #[test]
    fn the_first_seconds_can_be_ignored() {
        let mut rig = Rig::new("i :: Inject -> a :: AverageCounter(IGNORE 1) -> c :: Collect;");
        for _ in 0..5 {
            rig.push("i", &[0]);
            rig.advance(SECOND / 2);
        }
        assert_eq!((rig.read("a.count"), rig.read("a.rate")), ("3".into(), "3".into()));
    }
}
