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
    /// Where the header starts, in bytes from the packet's start.
    #[arg(positional, default = 0)]
    offset: u32,
}

impl Element for MarkIPHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let offset = self.offset as usize;
        match packet.data().get(offset) {
            Some(&first) => {
                let header_len = usize::from(first & 0x0f) * 4;
                packet.set_network_header(offset, header_len);
            }
            None => packet.clear_network_header(),
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
}
