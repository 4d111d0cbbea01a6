use alloc::string::{String, ToString};

use packet::Packet;
use packet::anno::FIRST_TIMESTAMP;
use router::args::{Args, Failed, Timestamp, TimestampArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// Adds a time to packets' timestamps.
///
/// Timestamps of 0, which are not set, stay so unless `ALL` is true.
///
/// # Arguments
/// - `TIME` (time, 0): what to add, in seconds; may be negative.
/// - `FIRST` (boolean, false): whether to change the first timestamp annotation instead.
/// - `ALL` (boolean, false): whether to change timestamps of 0 too.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `time` (read, write): TIME.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> AdjustTimestamp(-3600) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// SetTimestamp, SetTimestampDelta
#[derive(Default)]
pub struct AdjustTimestamp {
    time: Timestamp,
    first: bool,
    all: bool,
}

impl Class for AdjustTimestamp {
    const NAME: &'static str = "AdjustTimestamp";
    const PORTS: &'static str = "1/1";
}

impl Declared for AdjustTimestamp {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.positional_with("TIME", TimestampArg { signed: true }, &mut self.time)
            .keyword("FIRST", &mut self.first)
            .keyword("ALL", &mut self.all)
            .complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("time");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "time" => Ok(self.time.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "time" => {
                let parser = TimestampArg { signed: true };
                let time = cx.names().parse_with(parser, value.trim());
                self.time = time.map_err(|_| "expected time")?;
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for AdjustTimestamp {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let now = match self.first {
            true => packet.anno_u64(FIRST_TIMESTAMP) as i64,
            false => packet.timestamp(),
        };
        if now != 0 || self.all {
            let adjusted = now.saturating_add(self.time.0);
            match self.first {
                true => packet.set_anno_u64(FIRST_TIMESTAMP, adjusted as u64),
                false => packet.set_timestamp(adjusted),
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use packet::anno::FIRST_TIMESTAMP;

    use crate::testing::Rig;

    #[test]
    fn timestamps_that_are_set_are_adjusted() {
        let mut rig = Rig::new(
            "i :: Inject -> a :: AdjustTimestamp(-1.5) -> b :: AdjustTimestamp(+0.5, ALL true)
               -> AdjustTimestamp(2, FIRST true) -> c :: Collect;",
        );
        rig.push_with("i", &[1], |packet| {
            packet.set_timestamp(10_000_000_000);
            packet.set_anno_u64(FIRST_TIMESTAMP, 7);
        });
        rig.push("i", &[2]);
        assert_eq!(rig.read("a.time"), "-1.500000");
        rig.write("a.time", "1");
        assert!(rig.try_write("a.time", "x").is_err());
        rig.push_with("i", &[3], |packet| packet.set_timestamp(i64::MAX));
        let packets = rig.collected("c");
        let times: Vec<_> = packets.iter().map(|p| p.timestamp()).collect();
        assert_eq!(times, [9_000_000_000, 500_000_000, i64::MAX]);
        assert_eq!(packets[0].anno_u64(FIRST_TIMESTAMP), 2_000_000_007);
        assert_eq!(packets[1].anno_u64(FIRST_TIMESTAMP), 0);
    }

    use alloc::vec::Vec;
}
