use crate::ip::mark_ip_header::mark_in_front;
use crate::prelude::*;

/// Marks where the IPv6 header is, without a check.
///
/// The header is assumed to be 40 bytes long: extension headers belong to the payload. A packet
/// that ends before the header starts gets no mark. For untrusted packets, use CheckIP6Header.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIP6Header(14) -> IP6Print -> Discard;
/// ```
///
/// # See also
/// CheckIP6Header, MarkIPHeader
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct MarkIP6Header {
    /// Where the header starts, in bytes from the packet's start; in front of it if negative.
    #[arg(positional, default = 0)]
    offset: i32,
}

/// Marks the header that starts at `offset`.
#[inline]
fn mark(packet: &mut Packet, offset: usize) {
    if offset < packet.len() {
        packet.set_network_header(offset, 40);
    } else {
        packet.clear_network_header();
    }
}

impl Element for MarkIP6Header {
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
        let mut rig = Rig::new("i :: Inject -> MarkIP6Header(2) -> c :: Collect;");
        rig.push("i", &[0; 60]);
        rig.push_with("i", &[0, 0], |packet| packet.set_network_header(0, 2));
        let packets = rig.collected("c");
        assert_eq!(packets[0].network_offset(), Some(2));
        assert_eq!(packets[0].transport_offset(), Some(42));
        assert_eq!(packets[1].network_offset(), None);
    }

    #[test]
    fn the_header_may_start_in_front_of_the_data() {
        let config = "i :: Inject -> Strip(3) -> MarkIP6Header(-2) -> Unstrip(3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[0; 60]);
        assert_eq!(rig.collected("c")[0].network_offset(), Some(1));
    }
}
