use packet::Packet;
use router::{Class, Cx, Declared, Element, Verdict};

/// Takes the IP header off packets, and whatever stands in front of it.
///
/// The header is where it is marked, and the mark stays. For IP in IP, a CheckIPHeader or
/// MarkIPHeader behind this element finds the inner header. Packets without a marked header pass
/// unchanged.
///
/// # Arguments
/// None.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> StripIPHeader -> CheckIPHeader -> Discard;
/// ```
///
/// # See also
/// UnstripIPHeader, CheckIPHeader, MarkIPHeader, Strip
#[derive(Default)]
pub struct StripIPHeader;

impl Class for StripIPHeader {
    const NAME: &'static str = "StripIPHeader";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for StripIPHeader {}

impl Element for StripIPHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(Ok(offset)) = packet.transport_offset().map(usize::try_from) {
            packet.pull(offset);
        }
        Verdict::Forward
    }
}

/// Puts an IP header that was stripped back in front of packets.
///
/// The header is where it is marked, before the packet's data. Packets that have their header, or
/// have none marked, pass unchanged.
///
/// # Arguments
/// None.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> StripIPHeader -> UnstripIPHeader -> Discard;
/// ```
///
/// # See also
/// StripIPHeader, CheckIPHeader, MarkIPHeader, Unstrip
#[derive(Default)]
pub struct UnstripIPHeader;

impl Class for UnstripIPHeader {
    const NAME: &'static str = "UnstripIPHeader";
    const PORTS: &'static str = "1/1";
}

impl Declared for UnstripIPHeader {}

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
    use core::net::Ipv4Addr;

    use crate::testing::{Rig, ether, udp};

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
