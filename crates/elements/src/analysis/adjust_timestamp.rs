use crate::prelude::*;

/// Adds a time to packets' timestamps.
///
/// Timestamps of 0, which are not set, stay so unless `ALL` is true.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> AdjustTimestamp(-3600) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// SetTimestamp, SetTimestampDelta
#[derive(Element)]
#[element(ports = "1/1")]
pub struct AdjustTimestamp {
    /// The time to add, in seconds; may be negative.
    #[arg(
        positional,
        with = TimestampArg { signed: true },
        kind = "time",
        default_text = "0",
        read,
        write,
        error = "expected time"
    )]
    time: Timestamp,
    /// Whether to change the first timestamp annotation instead.
    #[arg]
    first: bool,
    /// Whether to change timestamps of 0 too.
    #[arg]
    all: bool,
}

impl Element for AdjustTimestamp {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let now = if self.first {
            packet.anno_u64(FIRST_TIMESTAMP) as i64
        } else {
            packet.timestamp()
        };
        if now != 0 || self.all {
            let adjusted = now.saturating_add(self.time.0);
            if self.first {
                packet.set_anno_u64(FIRST_TIMESTAMP, adjusted as u64)
            } else {
                packet.set_timestamp(adjusted)
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
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

    use crate::testing::*;
}
