use alloc::format;
use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{Args, Failed, Timestamp};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// Tells the first and the last timestamp of the packets that passed.
///
/// # Arguments
/// - `SIMPLE` (boolean, false): whether timestamps are known to grow.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `first`, `last` (read): the earliest and the latest timestamp; 0 if there was none.
/// - `range` (read): both, with a space between.
/// - `interval` (read): their difference.
/// - `reset` (write): forgets them.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> r :: TimeRange -> Discard;
/// DriverManager(pause, print r.interval);
/// ```
///
/// # See also
/// TimeFilter, SetTimestampDelta
#[derive(Default)]
pub struct TimeRange {
    first: i64,
    last: i64,
    simple: bool,
}

impl Class for TimeRange {
    const NAME: &'static str = "TimeRange";
    const PORTS: &'static str = "1/1";
}

impl Declared for TimeRange {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.keyword("SIMPLE", &mut self.simple).complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("first").read("last").read("range");
        list.read("interval").button("reset");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let (first, last) = (Timestamp(self.first), Timestamp(self.last));
        Ok(match name {
            "first" => first.to_string(),
            "last" => last.to_string(),
            "range" => format!("{first} {last}"),
            "interval" => Timestamp(self.last.saturating_sub(self.first)).to_string(),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        match name {
            "reset" => (self.first, self.last) = (0, 0),
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for TimeRange {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let time = packet.timestamp();
        if self.first == 0 {
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
    use crate::testing::Rig;

    #[test]
    fn the_range_holds_all_timestamps() {
        let mut rig = Rig::new("i :: Inject -> r :: TimeRange -> s :: TimeRange(SIMPLE true) -> Discard;");
        assert_eq!(rig.read("r.range"), "0.000000 0.000000");
        for seconds in [3, 9, 2, 4] {
            rig.push_with("i", &[0], |packet| packet.set_timestamp(seconds * 1_000_000_000));
        }
        assert_eq!(rig.read("r.range"), "2.000000 9.000000");
        assert_eq!(rig.read("r.interval"), "7.000000");
        assert_eq!(rig.read("s.first"), "3.000000");
        assert_eq!(rig.read("s.last"), "4.000000");
        rig.write("r.reset", "");
        assert_eq!(rig.read("r.interval"), "0.000000");
    }
}
