use crate::prelude::*;

/// Marks where the IP header is, without a check.
///
/// The header's length is taken from its own length field. Nothing else is checked. A packet that
/// ends before the header starts gets no mark. For untrusted packets, use CheckIPHeader.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIPHeader(14) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// CheckIPHeader, CheckIPHeader2, StripIPHeader
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct MarkIPHeader {
    /// Where the header starts, in bytes from the packet's start; in front of it if negative.
    #[arg(positional, default = 0)]
    offset: i32,
}

/// Marks the header that starts at `offset`.
#[inline]
fn mark(packet: &mut Packet, offset: usize) {
    match packet.data().get(offset) {
        Some(&first) => {
            let header_len = usize::from(first & 0x0f) * 4;
            packet.set_network_header(offset, header_len);
        }
        None => packet.clear_network_header(),
    }
}

/// Calls `mark` with a header that starts that many bytes in front of the packet's data.
#[cold]
pub(crate) fn mark_in_front(
    packet: &mut Packet,
    bytes: u32,
    mark: impl FnOnce(&mut Packet, usize),
) {
    let bytes = bytes as usize;
    if packet.push(bytes) {
        mark(packet, 0);
        packet.pull(bytes);
    } else {
        packet.clear_network_header();
    }
}

impl Element for MarkIPHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match usize::try_from(self.offset) {
            Ok(offset) => mark(packet, offset),
            Err(_) => mark_in_front(packet, self.offset.unsigned_abs(), mark),
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_header_is_marked_unchecked() {
        let mut rig = Rig::new("i :: Inject -> MarkIPHeader(2) -> c :: Collect;");
        rig.push("i", &[0, 0, 0x9a, 0]);
        rig.push_with("i", &[0, 0], |packet| packet.set_network_header(0, 2));
        let packets = rig.collected("c");
        assert_eq!(packets[0].network_offset(), Some(2));
        assert_eq!(packets[0].network_header_len(), 40);
        assert_eq!(packets[1].network_offset(), None);
    }

    #[test]
    fn the_header_may_start_in_front_of_the_data() {
        let config = "i :: Inject -> Strip(2) -> MarkIPHeader(-1) -> Unstrip(2) -> c :: Collect;
            j :: Inject -> MarkIPHeader(-2147483648) -> d :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[0, 0x46, 0, 0]);
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), [0, 0x46, 0, 0]);
        assert_eq!(packets[0].network_offset(), Some(1));
        assert_eq!(packets[0].network_header_len(), 24);
        rig.push("j", &[0x45]);
        assert_eq!(rig.collected("d")[0].network_offset(), None);
    }
}
