use crate::prelude::*;

/// Removes the IP header of packets, and all bytes before it.
///
/// The header is where it is marked, and the mark stays. For IP in IP, a CheckIPHeader or
/// MarkIPHeader after this element finds the inner header. Packets without a marked header pass
/// unchanged.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> StripIPHeader -> CheckIPHeader -> Discard;
/// ```
///
/// # See also
/// UnstripIPHeader, CheckIPHeader, MarkIPHeader, Strip
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct StripIPHeader;

impl Element for StripIPHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(Ok(offset)) = packet.transport_offset().map(usize::try_from) {
            packet.pull(offset);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_header_goes_and_its_mark_stays() {
        let config = "i :: Inject -> CheckIPHeader(14) -> StripIPHeader -> c :: Collect;
            j :: Inject -> StripIPHeader -> c;";
        let mut rig = Rig::new(config);
        let address = Ipv4Addr::new(1, 2, 3, 4);
        let packet = udp((address, 1), (address, 2), &[5]);
        rig.push("i", &ether([1; 6], [2; 6], 0x0800, &packet));
        rig.push("j", &packet);
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), &packet[20..]);
        assert_eq!(packets[0].network_offset(), Some(-20));
        assert_eq!(packets[1].data(), packet);
    }
}
