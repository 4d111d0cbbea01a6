use crate::prelude::*;

/// Reports the first and the last timestamp of the packets that passed.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> r :: TimeRange -> Discard;
/// DriverManager(pause, print r.interval);
/// ```
///
/// # See also
/// TimeFilter, SetTimestampDelta
#[derive(Element)]
#[element(ports = "1/1", handlers)]
pub struct TimeRange {
    /// Whether timestamps are known to grow.
    #[arg]
    simple: bool,
    /// The earliest timestamp; 0 if there was none.
    #[handler(read)]
    first: Timestamp,
    /// The latest timestamp; 0 if there was none.
    #[handler(read)]
    last: Timestamp,
}

#[handlers]
impl TimeRange {
    /// Both, with a space between.
    #[read]
    fn range(&self) -> String {
        format!("{} {}", self.first, self.last)
    }

    /// Their difference.
    #[read]
    fn interval(&self) -> Timestamp {
        Timestamp(self.last.0.saturating_sub(self.first.0))
    }

    /// Forgets both.
    #[write(button)]
    fn reset(&mut self) {
        (self.first, self.last) = Default::default();
    }
}

impl Element for TimeRange {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let time = Timestamp(packet.timestamp());
        if self.first.0 == 0 {
            (self.first, self.last) = (time, time);
        } else if self.simple || self.last < time {
            self.last = time;
        } else if time < self.first {
            self.first = time;
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_range_holds_all_timestamps() {
        let mut rig =
            Rig::new("i :: Inject -> r :: TimeRange -> s :: TimeRange(SIMPLE true) -> Discard;");
        assert_eq!(rig.read("r.range"), "0.000000 0.000000");
        for seconds in [3, 9, 2, 4] {
            rig.push_with("i", &[0], |packet| {
                packet.set_timestamp(seconds * 1_000_000_000)
            });
        }
        assert_eq!(rig.read("r.range"), "2.000000 9.000000");
        assert_eq!(rig.read("r.interval"), "7.000000");
        assert_eq!(rig.read("s.first"), "3.000000");
        assert_eq!(rig.read("s.last"), "4.000000");
        rig.write("r.reset", "");
        assert_eq!(rig.read("r.interval"), "0.000000");
    }
}
