use super::crc32::{BYTES, Sum};
use crate::prelude::*;

/// Checks the CRC-32 at the end of packets and removes it; drops packets whose CRC is wrong.
///
/// The first packet that is dropped is reported.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> SetCRC32 -> RandomBitErrors(0.001) -> CheckCRC32 -> Discard;
/// ```
///
/// # See also
/// SetCRC32
#[derive(Element)]
#[element(ports = "1/1")]
pub struct CheckCRC32 {
    /// Packets dropped.
    #[handler(read)]
    drops: u64,
    sum: Sum,
}

impl CheckCRC32 {
    #[cold]
    fn drop(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Verdict {
        if self.drops == 0 {
            cx.chatter(format_args!("CRC32 failed, len {}", packet.len()));
        }
        self.drops += 1;
        Verdict::Drop
    }
}

impl Element for CheckCRC32 {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match packet.data().split_last_chunk::<BYTES>() {
            Some((data, sum)) if self.sum.of(data) == *sum => {
                packet.take(BYTES);
                Verdict::Forward
            }
            _ => self.drop(cx, packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_first_wrong_packet_is_reported() {
        let mut rig = Rig::new("i :: Inject -> CheckCRC32 -> c :: Collect;");
        for length in [3, 0, 60] {
            rig.push("i", &vec![0; length]);
        }
        let none: Vec<Vec<u8>> = Vec::new();
        assert_eq!(rig.data("c"), none);
        assert_eq!(rig.printed(), ["CRC32 failed, len 3"]);
        assert_eq!(rig.outstanding(), 0);
    }
}
