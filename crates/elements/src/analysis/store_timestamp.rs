use crate::prelude::*;

/// Where in a packet the largest offset may be.
const OFFSET_MAX: i32 = 1 << 16;
/// Bytes of a timestamp in a packet.
const LENGTH: usize = 8;

/// Stores packets' timestamps in their data.
///
/// A timestamp takes 8 bytes: nanoseconds since 1970, in the byte order of the machine. A packet
/// that is too short is extended by zeros; without memory for that, it is dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> StoreTimestamp(TAIL true) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// SetTimestamp, StoreUDPTimeSeqRecord
#[derive(Element)]
#[element(ports = "1/1")]
pub struct StoreTimestamp {
    /// Where the timestamp goes, in bytes from the start of the data; up to 65536. Either this or
    /// TAIL is given.
    #[arg(positional, default = -1, default_text = "")]
    offset: i32,
    /// Whether the timestamp goes after the data.
    #[arg]
    tail: bool,
}

impl Element for StoreTimestamp {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if (self.offset >= 0) == self.tail {
            return Err(args.fail("supply exactly one of 'OFFSET' and 'TAIL'"));
        }
        if self.offset > OFFSET_MAX {
            return Err(args.fail(format_args!("OFFSET: out of range, bound {OFFSET_MAX}")));
        }
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let now = packet.len();
        let offset = usize::try_from(self.offset).unwrap_or(now);
        let more = (offset + LENGTH).saturating_sub(now);
        if more > 0 {
            if !packet.put(more) {
                return Verdict::Drop;
            }
            packet.data_mut()[now..].fill(0);
        }
        let time = packet.timestamp().to_ne_bytes();
        if let Some(place) = packet.data_mut().get_mut(offset..offset + LENGTH) {
            place.copy_from_slice(&time);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn timestamps_are_stored_where_they_are_wanted() {
        let stored = |args: &str, data: &[u8]| {
            let mut rig = Rig::new(&format!(
                "i :: Inject -> StoreTimestamp({args}) -> c :: Collect;"
            ));
            rig.push_with("i", data, |packet| packet.set_timestamp(0x0102_0304));
            rig.data("c").concat()
        };
        let time = 0x0102_0304i64.to_ne_bytes();
        assert_eq!(stored("TAIL true", &[9, 9]), [&[9, 9][..], &time].concat());
        assert_eq!(stored("1", &[9; 10]), [&[9][..], &time, &[9]].concat());
        assert_eq!(stored("3", &[9; 2]), [&[9, 9, 0][..], &time].concat());
        for args in ["", "1, TAIL true", "-1"] {
            Rig::refuses(
                &format!("Idle -> StoreTimestamp({args}) -> Discard;"),
                "supply exactly one of 'OFFSET' and 'TAIL'",
            );
        }
    }
}
