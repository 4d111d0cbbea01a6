//! Router advertisements, which give a session's host its prefix (RFC 4861, section 4.2; RFC 4862).

use crate::prelude::*;

/// Seconds for which the concentrator is a router after an advertisement.
const LIFETIME: u16 = 1800;
/// Seconds between two advertisements.
pub const INTERVAL: u32 = 600;
/// Seconds for which an address is valid after an advertisement, and for which it is preferred.
const VALID: [u32; 2] = [7200, 3600];

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Length of an advertisement with an option for the MTU and one for a prefix.
const ADVERTISEMENT: usize = 16 + 8 + 32;
/// Length of the IPv6 header.
const HEADER: usize = 40;

/// The address of local scope with an interface identifier.
fn local(id: [u8; 8]) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(u64::from_be_bytes(id)))
}

/// A packet that gives all hosts of a session a prefix of 64 bits, from the concentrator's interface
/// identifier.
pub fn advertisement(own: [u8; 8], prefix: u64, mtu: u16) -> [u8; HEADER + ADVERTISEMENT] {
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: ADVERTISEMENT as u16,
        next_header: IpProtocol::ICMPV6,
        hop_limit: 255,
        source: local(own),
        destination: Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
    };
    let mut bytes = [0; HEADER + ADVERTISEMENT];
    let (front, message) = bytes.split_at_mut(HEADER);
    front.copy_from_slice(&header.to_bytes());
    message[0] = ROUTER_ADVERTISEMENT;
    message[4] = 64;
    message[6..8].copy_from_slice(&LIFETIME.to_be_bytes());
    // The MTU: type 5, 8 bytes.
    message[16..18].copy_from_slice(&[5, 1]);
    message[20..24].copy_from_slice(&u32::from(mtu).to_be_bytes());
    // The prefix: type 3, 32 bytes; hosts make addresses of it, and it is not on the link.
    message[24..28].copy_from_slice(&[3, 4, 64, 0x40]);
    for (place, time) in message[28..36].chunks_exact_mut(4).zip(VALID) {
        place.copy_from_slice(&time.to_be_bytes());
    }
    message[40..48].copy_from_slice(&prefix.to_be_bytes());
    let pseudo = Ipv6Packet::new_unchecked(&front[..]);
    let pseudo = pseudo.pseudo_header(IpProtocol::ICMPV6, ADVERTISEMENT as u32);
    Icmpv6Packet::new_unchecked(message).fill_checksum(pseudo);
    bytes
}

/// Whether a packet asks for an advertisement.
pub fn is_solicitation(packet: &[u8]) -> bool {
    let Ok(ip) = Ipv6Packet::new_checked(packet) else {
        return false;
    };
    let Ok(icmp) = Icmpv6Packet::new_checked(ip.payload()) else {
        return false;
    };
    let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, ip.payload().len() as u32);
    ip.next_header() == IpProtocol::ICMPV6
        && ip.hop_limit() == 255
        && icmp.icmp_type().0 == ROUTER_SOLICITATION
        && icmp.verify_checksum(pseudo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertisement_is_a_right_packet() {
        let prefix = 0x2001_0db8_0000_0007;
        let bytes = advertisement([2, 0, 0, 0, 0, 0, 0, 1], prefix, 1480);
        let ip = Ipv6Packet::new_checked(&bytes[..]).unwrap();
        assert_eq!(ip.source().to_string(), "fe80::200:0:0:1");
        let icmp = Icmpv6Packet::new_checked(ip.payload()).unwrap();
        let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, ip.payload().len() as u32);
        assert!(icmp.verify_checksum(pseudo));
        assert_eq!(
            ip.payload()[40..56],
            [&prefix.to_be_bytes()[..], &[0; 8]].concat()
        );
        assert!(!is_solicitation(&bytes));
    }

    #[test]
    fn solicitations_are_known() {
        let mut bytes = advertisement([0; 8], 0, 1500);
        bytes[HEADER] = ROUTER_SOLICITATION;
        assert!(!is_solicitation(&bytes), "its checksum is wrong");
        let (front, message) = bytes.split_at_mut(HEADER);
        let ip = Ipv6Packet::new_unchecked(&front[..]);
        let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, ADVERTISEMENT as u32);
        Icmpv6Packet::new_unchecked(message).fill_checksum(pseudo);
        assert!(is_solicitation(&bytes));
        bytes[7] = 254;
        assert!(!is_solicitation(&bytes));
    }
}
