use crate::prelude::*;

/// Marks the link-level header of packets.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkMACHeader(0, 14) -> StripToNetworkHeader -> Discard;
/// ```
///
/// # See also
/// MarkIPHeader, StripToNetworkHeader
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct MarkMACHeader {
    /// Bytes from the start of the data to the header.
    #[arg(positional, default = 0)]
    offset: u32,
    /// Bytes of the header; if more than 0, the network header is marked after it.
    #[arg(positional, default = 0)]
    length: u32,
}

impl Element for MarkMACHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        // An offset that the packet's buffer does not have is not marked.
        packet.set_mac_header(self.offset as usize);
        if self.length > 0 {
            let network = u64::from(self.offset) + u64::from(self.length);
            packet.set_network_header(network as usize, 0);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn headers_are_marked() {
        let config = "i :: Inject -> MarkMACHeader(2, 3) -> a :: Collect;
            j :: Inject -> m :: MarkMACHeader -> b :: Collect;
            k :: Inject -> MarkMACHeader(4294967295, 4294967295) -> c :: Collect;";
        let mut rig = Rig::new(config);
        for name in ["i", "j", "k"] {
            rig.push(name, &[1, 2, 3, 4, 5, 6]);
        }
        let packets = rig.collected("a");
        assert_eq!(packets[0].mac_header(), Some(&[3, 4, 5, 6][..]));
        assert_eq!(packets[0].network_header(), Some(&[6][..]));
        assert_eq!(packets[0].network_header_len(), 0);
        let packets = rig.collected("b");
        assert_eq!(
            (packets[0].mac_offset(), packets[0].network_offset()),
            (Some(0), None)
        );
        let packets = rig.collected("c");
        assert_eq!(
            (packets[0].mac_header(), packets[0].network_header()),
            (None, None)
        );
        rig.write("m.config", "1");
        rig.push("j", &[1, 2]);
        assert_eq!(rig.collected("b")[0].mac_header(), Some(&[2][..]));
    }
}
