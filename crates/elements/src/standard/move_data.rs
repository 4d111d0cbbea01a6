use crate::prelude::*;

/// Copies bytes of a packet to another offset of the same packet.
///
/// Source and destination may overlap. A packet that is too short for the source does not change.
/// If memory for a longer packet lacks, the packet is dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MoveData(0, 6, 6) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// StoreData, Clipboard
#[derive(Element)]
#[element(ports = "1/1")]
pub struct MoveData {
    /// Offset that the bytes are copied to.
    #[arg(mandatory)]
    dst_offset: u32,
    /// Offset that the bytes are copied from.
    #[arg(mandatory)]
    src_offset: u32,
    /// Number of bytes.
    #[arg(mandatory)]
    length: u32,
    /// Whether a packet that is too short for the destination grows, with zeros before the
    /// destination. Otherwise the packet does not change.
    #[arg(default = true)]
    grow: bool,
}

impl Element for MoveData {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let (from, to) = (self.src_offset as usize, self.dst_offset as usize);
        let length = self.length as usize;
        let before = packet.len();
        if before < from + length {
            return Verdict::Forward;
        }
        let missing = (to + length).saturating_sub(before);
        if missing > 0 {
            if !self.grow {
                return Verdict::Forward;
            }
            if !packet.put(missing) {
                return Verdict::Drop;
            }
            packet.data_mut()[before..].fill(0);
        }
        packet.data_mut().copy_within(from..from + length, to);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn moved(arguments: &str, data: &[u8]) -> Vec<Vec<u8>> {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> MoveData({arguments}) -> c :: Collect;"
        ));
        rig.push("i", data);
        rig.data("c")
    }

    #[test]
    fn bytes_are_copied_within_a_packet() {
        assert_eq!(moved("2, 0, 2", b"ABCD"), [b"ABAB"]);
        assert_eq!(moved("0, 2, 2", b"ABCD"), [b"CDCD"]);
        assert_eq!(moved("1, 0, 3", b"ABCD"), [b"AABC"]);
        let keywords = "SRC_OFFSET 1, DST_OFFSET 0, LENGTH 1";
        assert_eq!(moved(keywords, b"ABCD"), [b"BBCD"]);
    }

    #[test]
    fn the_packet_grows_if_it_may() {
        assert_eq!(moved("4, 1, 2", b"ABAB"), [b"ABABBA"]);
        assert_eq!(moved("6, 1, 2", b"ABAB"), [b"ABAB\0\0BA"]);
        assert_eq!(moved("4, 1, 2, GROW false", b"ABAB"), [b"ABAB"]);
        assert!(moved("4294967295, 1, 2", b"ABAB").is_empty());
    }

    #[test]
    fn a_source_beyond_the_end_changes_nothing() {
        assert_eq!(moved("0, 60, 2", b"ABCD"), [b"ABCD"]);
        assert_eq!(moved("0, 3, 2", b"ABCD"), [b"ABCD"]);
    }
}
