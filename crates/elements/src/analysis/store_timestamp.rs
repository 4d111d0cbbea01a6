use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Verdict};

/// Where in a packet the largest offset may be.
const OFFSET_MAX: u32 = 1 << 16;
/// Bytes of a timestamp in a packet.
const LENGTH: usize = 8;

/// Stores packets' timestamps in their data.
///
/// A timestamp takes 8 bytes: nanoseconds since 1970, in the byte order of the machine. A packet
/// that is too short is made longer by zeros; one for which there is no memory is dropped.
///
/// # Arguments
/// - `OFFSET` (integer): where, in bytes from the start of the data; up to 65536.
/// - `TAIL` (boolean, false): whether the timestamp goes behind the data. One of the two is to be
///   given.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> StoreTimestamp(TAIL true) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// SetTimestamp, StoreUDPTimeSeqRecord
#[derive(Default)]
pub struct StoreTimestamp {
    /// `None`: behind the data.
    offset: Option<u32>,
}

impl Class for StoreTimestamp {
    const NAME: &'static str = "StoreTimestamp";
    const PORTS: &'static str = "1/1";
}

impl Declared for StoreTimestamp {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut offset, mut tail) = (-1i32, false);
        args.positional("OFFSET", &mut offset)
            .keyword("TAIL", &mut tail)
            .complete()?;
        self.offset = u32::try_from(offset).ok();
        if self.offset.is_some() == tail {
            return Err(args.fail("supply exactly one of 'OFFSET' and 'TAIL'"));
        }
        if self.offset.is_some_and(|offset| offset > OFFSET_MAX) {
            return Err(args.fail(format_args!("OFFSET: out of range, bound {OFFSET_MAX}")));
        }
        Ok(())
    }
}

impl Element for StoreTimestamp {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let now = packet.len();
        let offset = self.offset.map_or(now, |offset| offset as usize);
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
    use alloc::format;

    use crate::testing::Rig;

    #[test]
    fn timestamps_are_stored_where_they_are_wanted() {
        let stored = |args: &str, data: &[u8]| {
            let mut rig = Rig::new(&format!("i :: Inject -> StoreTimestamp({args}) -> c :: Collect;"));
            rig.push_with("i", data, |packet| packet.set_timestamp(0x0102_0304));
            rig.data("c").concat()
        };
        let time = 0x0102_0304i64.to_ne_bytes();
        assert_eq!(stored("TAIL true", &[9, 9]), [&[9, 9][..], &time].concat());
        assert_eq!(stored("1", &[9; 10]), [&[9][..], &time, &[9]].concat());
        assert_eq!(stored("3", &[9; 2]), [&[9, 9, 0][..], &time].concat());
        for args in ["", "1, TAIL true", "-1"] {
            let errors = Rig::errors(&format!("Idle -> StoreTimestamp({args}) -> Discard;"));
            assert!(errors.contains("supply exactly one of 'OFFSET' and 'TAIL'"), "{errors}");
        }
    }
}
