use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Verdict};

/// Marks where packets' link-level header is.
///
/// # Arguments
/// - `OFFSET` (integer, 0): bytes from the start of the data to the header.
/// - `LENGTH` (integer, 0): bytes of the header; if more than 0, the network header is marked behind
///   it.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkMACHeader(0, 14) -> StripToNetworkHeader -> Discard;
/// ```
///
/// # See also
/// MarkIPHeader, StripToNetworkHeader
#[derive(Default)]
pub struct MarkMACHeader {
    offset: u32,
    length: u32,
}

impl Class for MarkMACHeader {
    const NAME: &'static str = "MarkMACHeader";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for MarkMACHeader {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.read()
            .positional_or("OFFSET", &mut self.offset, 0)
            .positional_or("LENGTH", &mut self.length, 0)
            .complete()
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
}

impl Element for MarkMACHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        // A place that the packet's buffer does not have is not marked.
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
    use crate::testing::Rig;

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
        assert_eq!((packets[0].mac_offset(), packets[0].network_offset()), (Some(0), None));
        let packets = rig.collected("c");
        assert_eq!((packets[0].mac_header(), packets[0].network_header()), (None, None));
        rig.write("m.config", "1");
        rig.push("j", &[1, 2]);
        assert_eq!(rig.collected("b")[0].mac_header(), Some(&[2][..]));
    }
}
