use crate::prelude::*;

/// Replaces packets' timestamps by differences of time.
///
/// Timestamps of 0, which are not set, stay so.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> SetTimestampDelta -> ToIPSummaryDump(-, FIELDS timestamp);
/// ```
///
/// # See also
/// SetTimestamp, AdjustTimestamp, TimeFilter
#[derive(Element)]
#[element(ports = "1/1", handlers)]
pub struct SetTimestampDelta {
    /// The difference: `RANGE`, since the first timestamp that was seen; `NOW`, from the timestamp
    /// to the current time; `FIRST`, since the packet's first timestamp annotation.
    #[arg(name = "TYPE", with = WordArg, kind = "word", default = "RANGE".into(), default_text = "RANGE")]
    type_name: String,
    kind: Kind,
    first: i64,
    /// The present, as of the batch at work.
    now: i64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Range,
    Now,
    First,
}

#[handlers]
impl SetTimestampDelta {
    /// The first timestamp that was seen.
    #[read]
    fn first(&self) -> String {
        format!("{}\n", Timestamp(self.first))
    }

    /// Forgets the first timestamp.
    #[write(button)]
    fn reset(&mut self) {
        self.first = 0;
    }
}

impl Element for SetTimestampDelta {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.kind = match self.type_name.as_str() {
            "RANGE" => Kind::Range,
            "NOW" => Kind::Now,
            "FIRST" => Kind::First,
            _ => return Err(args.fail("bad TYPE")),
        };
        Ok(())
    }

    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.kind == Kind::Now {
            self.now = cx.wall();
        }
        filter(self, cx, batch);
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let time = packet.timestamp();
        if time != 0 {
            if self.first == 0 && self.kind == Kind::Range {
                self.first = time;
            }
            packet.set_timestamp(match self.kind {
                Kind::Range => time.saturating_sub(self.first),
                Kind::Now => self.now.saturating_sub(time),
                Kind::First => time.saturating_sub(packet.anno_u64(FIRST_TIMESTAMP) as i64),
            });
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn deltas(rig: &mut Rig, times: &[i64]) -> Vec<i64> {
        for time in times {
            rig.push_with("i", &[0], |packet| {
                packet.set_timestamp(*time);
                packet.set_anno_u64(FIRST_TIMESTAMP, 3);
            });
        }
        rig.collected("c").iter().map(|p| p.timestamp()).collect()
    }

    #[test]
    fn timestamps_become_differences() {
        let rig = |kind| {
            Rig::new(&format!(
                "i :: Inject -> d :: SetTimestampDelta({kind}) -> c :: Collect;"
            ))
        };
        let mut range = rig("");
        assert_eq!(deltas(&mut range, &[0, 10, 25, 7, 0]), [0, 0, 15, -3, 0]);
        assert_eq!(range.read("d.first"), "0.000000010\n");
        range.write("d.reset", "");
        assert_eq!(deltas(&mut range, &[5, 6]), [0, 1]);
        assert_eq!(deltas(&mut rig("TYPE FIRST"), &[0, 10, 1]), [0, 7, -2]);
        assert_eq!(deltas(&mut rig("TYPE NOW"), &[0, START - 9]), [0, 9]);
        Rig::refuses("Idle -> SetTimestampDelta(TYPE X) -> Discard;", "bad TYPE");
    }
}
