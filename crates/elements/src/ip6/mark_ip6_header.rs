use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Verdict};

/// Marks where the IPv6 header is, without a check.
///
/// The header is taken to be 40 bytes long: extension headers count for what follows it. Of packets
/// that end before the header starts, no header is marked. Where packets come from strangers, use
/// CheckIP6Header.
///
/// # Arguments
/// - `OFFSET` (integer, 0): where the header starts, in bytes from the packet's start.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIP6Header(14) -> IP6Print -> Discard;
/// ```
///
/// # See also
/// CheckIP6Header, MarkIPHeader
#[derive(Default)]
pub struct MarkIP6Header {
    offset: u32,
}

impl Class for MarkIP6Header {
    const NAME: &'static str = "MarkIP6Header";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for MarkIP6Header {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.positional("OFFSET", &mut self.offset).complete()
    }
}

impl Element for MarkIP6Header {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let offset = self.offset as usize;
        if offset < packet.len() {
            packet.set_network_header(offset, 40);
        } else {
            packet.clear_network_header();
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn the_header_is_marked_unchecked() {
        let mut rig = Rig::new("i :: Inject -> MarkIP6Header(2) -> c :: Collect;");
        rig.push("i", &[0; 60]);
        rig.push_with("i", &[0, 0], |packet| packet.set_network_header(0, 2));
        let packets = rig.collected("c");
        assert_eq!(packets[0].network_offset(), Some(2));
        assert_eq!(packets[0].transport_offset(), Some(42));
        assert_eq!(packets[1].network_offset(), None);
    }
}
