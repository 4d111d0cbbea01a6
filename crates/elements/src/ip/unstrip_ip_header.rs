use crate::prelude::*;

/// Restores a stripped IP header in front of packets.
///
/// The header is where it is marked, before the packet's data. Packets that have their header, or
/// have none marked, pass unchanged.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> StripIPHeader -> UnstripIPHeader -> Discard;
/// ```
///
/// # See also
/// StripIPHeader, CheckIPHeader, MarkIPHeader, Unstrip
#[derive(Element)]
#[element(ports = "1/1")]
pub struct UnstripIPHeader;

impl Element for UnstripIPHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let offset = packet.network_offset().unwrap_or(0);
        if offset < 0 {
            // The header stands in the headroom, so there is room.
            let _ = packet.push(offset.unsigned_abs());
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_header_comes_back() {
        let config = "i :: Inject -> CheckIPHeader(14) -> StripIPHeader -> UnstripIPHeader
            -> UnstripIPHeader -> c :: Collect; j :: Inject -> UnstripIPHeader -> c;";
        let mut rig = Rig::new(config);
        let address = Ipv4Addr::new(1, 2, 3, 4);
        let packet = udp((address, 1), (address, 2), &[5]);
        rig.push("i", &ether([1; 6], [2; 6], 0x0800, &packet));
        rig.push("j", &packet);
        assert_eq!(rig.data("c"), [&packet[..]; 2]);
    }
}
