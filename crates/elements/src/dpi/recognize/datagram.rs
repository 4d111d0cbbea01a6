//! The datagrams of a UDP flow.

use super::super::http;
use super::{Guess, ber_message, contains, dns, found, is_stun};
use crate::dpi::protocol::Protocol;
use crate::dpi::reader::Reader;

/// Whether a datagram is one of a protocol.
type Test = fn(&[u8]) -> bool;

/// The protocols that one datagram tells, but for QUIC. Those with a mark of their own come first.
const KNOWN: &[(Test, Protocol)] = &[
    (is_stun, Protocol::Stun),
    (is_dhcp, Protocol::Dhcp),
    (is_dtls, Protocol::Dtls),
    (is_wireguard, Protocol::WireGuard),
    (is_ike, Protocol::Ike),
    (is_bittorrent, Protocol::BitTorrent),
    (is_snmp, Protocol::Snmp),
    (is_tftp, Protocol::Tftp),
    (is_openvpn, Protocol::OpenVpn),
    (is_radius, Protocol::Radius),
    (is_syslog, Protocol::Syslog),
    (is_rtcp, Protocol::Rtp),
];

/// Looks at a datagram between these ports, of whatever side.
pub fn datagram(data: &[u8], ports: (u16, u16)) -> Guess {
    if let Some((_, protocol)) = KNOWN.iter().find(|(is_it, _)| is_it(data)) {
        return found(*protocol);
    }
    if let Some(found) = dns(data) {
        return Guess::Found(found);
    }
    if is_ntp(data, ports) {
        return found(Protocol::Ntp);
    }
    // A datagram is a whole message.
    match http::request(data).or(http::answer(data)) {
        Guess::Found(found) => Guess::Found(found),
        _ => Guess::None,
    }
}

/// The stream and number of a datagram that may be RTP's (RFC 3550): two in a row tell.
pub fn rtp(data: &[u8]) -> Option<(u32, u16)> {
    let [first, kind, high, low, _, _, _, _, a, b, c, d] = *data.first_chunk()?;
    // Audio and video, static and dynamic (RFC 3551), and not RTCP (RFC 5761).
    let is_right = first >> 6 == 2 && matches!(kind & 0x7f, 0..=34 | 96..=127);
    is_right.then(|| {
        (
            u32::from_be_bytes([a, b, c, d]),
            u16::from_be_bytes([high, low]),
        )
    })
}

/// Sender and receiver reports and the like.
fn is_rtcp(data: &[u8]) -> bool {
    let mut rest = Reader(data);
    let Some(mut length) = rest
        .number(4)
        .filter(|header| header >> 30 == 2 && matches!(header >> 16 & 0xff, 200..=204))
    else {
        return false;
    };
    // The packets of a compound one fill the datagram.
    loop {
        if length >> 30 != 2 || rest.bytes(4 * (length & 0xffff) as usize).is_none() {
            return false;
        }
        if rest.0.is_empty() {
            return true;
        }
        let Some(next) = rest.number(4) else {
            return false;
        };
        length = next;
    }
}

/// DHCP (RFC 2131): its cookie.
fn is_dhcp(data: &[u8]) -> bool {
    data.get(236..240) == Some(&[99, 130, 83, 99]) && matches!(data[0], 1 | 2)
}

/// A handshake record of DTLS (RFC 6347).
fn is_dtls(data: &[u8]) -> bool {
    matches!(data, [22, 0xfe, 0xfd | 0xff, 0, 0, ..]) && data.len() >= 25
}

/// WireGuard's messages; transport data of a whole number of blocks.
fn is_wireguard(data: &[u8]) -> bool {
    match (data, data.len()) {
        ([1, 0, 0, 0, ..], 148) | ([2, 0, 0, 0, ..], 92) | ([3, 0, 0, 0, ..], 64) => true,
        ([4, 0, 0, 0, ..], length) => length >= 32 && length.is_multiple_of(16),
        _ => false,
    }
}

/// ISAKMP (RFC 7296), and the same behind the marker of port 4500 (RFC 3948).
fn is_ike(data: &[u8]) -> bool {
    let data = data.strip_prefix(&[0; 4]).unwrap_or(data);
    let length = Reader(data.get(24..).unwrap_or_default()).number(4);
    length == Some(data.len() as u64) && matches!(data[17], 0x10 | 0x20) && data[..8] != [0; 8]
}

/// Messages of its hash table, and the first one of uTP (BEP 5 and 29).
fn is_bittorrent(data: &[u8]) -> bool {
    let is_table = [&b"d1:ad2:id20:"[..], b"d1:rd2:id20:", b"d2:ip"]
        .iter()
        .any(|start| data.starts_with(start))
        && contains(data, b"1:y1:");
    let is_syn = match data.first_chunk::<20>() {
        Some([0x41, 0 | 2, _, _, rest @ ..]) => rest[4..8] == [0; 4] && rest[12..] == [0, 1, 0, 0],
        _ => false,
    };
    is_table || is_syn
}

/// SNMP, version 1, 2c or 3.
fn is_snmp(data: &[u8]) -> bool {
    ber_message(data).is_some_and(|(version, rest)| {
        // A community in text, or the header of version 3.
        let next = rest.0.first();
        matches!((version, next), (0 | 1, Some(0x04)) | (3, Some(0x30)))
    })
}

/// A request (RFC 1350).
fn is_tftp(data: &[u8]) -> bool {
    let [0, 1 | 2, rest @ ..] = data else {
        return false;
    };
    let mut words = rest.split(|byte| *byte == 0);
    let (Some(file), Some(mode)) = (words.next(), words.next()) else {
        return false;
    };
    let modes: [&[u8]; 2] = [b"octet", b"netascii"];
    !file.is_empty() && modes.iter().any(|known| mode.eq_ignore_ascii_case(known))
}

/// A client's hard reset, without packets to acknowledge, as its first packet; a tag may stand before.
pub fn is_openvpn(data: &[u8]) -> bool {
    matches!(data, [0x38 | 0x50, ..])
        && matches!(data.len(), 14 | 42 | 54 | 86)
        && data.ends_with(&[0; 5])
}

/// RADIUS (RFC 2865): attributes that fill the packet.
fn is_radius(data: &[u8]) -> bool {
    let [1..=5 | 11 | 12, _, high, low, ..] = data else {
        return false;
    };
    let mut rest = Reader(data);
    if usize::from(u16::from_be_bytes([*high, *low])) != data.len() || rest.bytes(20).is_none() {
        return false;
    }
    while !rest.0.is_empty() {
        let length = match rest.0 {
            [kind, length, ..] if *kind != 0 && *length >= 2 => usize::from(*length),
            _ => return false,
        };
        if rest.bytes(length).is_none() {
            return false;
        }
    }
    true
}

/// A priority in angle brackets (RFC 5424 and 3164).
fn is_syslog(data: &[u8]) -> bool {
    let Some(rest) = data.strip_prefix(b"<") else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..=3).contains(&digits)
        && rest.get(digits) == Some(&b'>')
        && rest
            .get(digits + 1)
            .is_some_and(|byte| byte.is_ascii_graphic())
}

/// NTP (RFC 5905): its messages say little, so its port must agree.
fn is_ntp(data: &[u8], ports: (u16, u16)) -> bool {
    let is_right = |first: &u8| matches!(first >> 3 & 7, 1..=4) && matches!(first & 7, 1..=7);
    (ports.0 == 123 || ports.1 == 123)
        && data.first().is_some_and(is_right)
        && (data.len() >= 48 || data.first().is_some_and(|first| first & 7 >= 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn name(data: &[u8], port: u16) -> &'static str {
        match datagram(data, (40_000, port)) {
            Guess::Found(found) => found.protocol.name(),
            _ => "none",
        }
    }

    fn padded(start: &[u8], length: usize) -> Vec<u8> {
        let mut data = start.to_vec();
        data.resize(length, 0);
        data
    }

    #[test]
    fn protocols_are_told_by_a_datagram() {
        let mut dhcp = padded(&[1, 1, 6, 0], 240);
        dhcp[236..].copy_from_slice(&[99, 130, 83, 99]);
        let mut ike = padded(&[7; 16], 28);
        ike[16..28].copy_from_slice(&[33, 0x20, 34, 8, 0, 0, 0, 0, 0, 0, 0, 28]);
        let natted = [&[0; 4][..], &ike].concat();
        for (data, port, expected) in [
            (&dhcp[..], 67, "dhcp"),
            (&ike, 500, "ike"),
            (&natted, 4500, "ike"),
            (&padded(&[1, 0, 0, 0, 9], 148), 51_820, "wireguard"),
            (&padded(&[0x23], 48), 123, "ntp"),
            (&padded(&[0x23], 48), 124, "none"),
            (
                b"\x00\x01\x00\x00\x21\x12\xa4\x42abcdefghijkl",
                3478,
                "stun",
            ),
            (
                b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe",
                6881,
                "bittorrent",
            ),
            (
                b"\x41\x00\x12\x34\x01\x02\x03\x04\x00\x00\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00",
                6881,
                "bittorrent",
            ),
            (b"\x30\x0d\x02\x01\x01\x04\x06public\xa0", 161, "none"),
            (b"\x30\x0d\x02\x01\x01\x04\x06public\xa0\x00", 161, "snmp"),
            (b"\x00\x01file\x00octet\x00", 69, "tftp"),
            (b"\x38abcdefgh\x00\x00\x00\x00\x00", 1194, "openvpn"),
            (
                b"\x01\x07\x00\x18abcdefghijklmnop\x01\x04ab",
                1812,
                "radius",
            ),
            (b"<34>Oct 11 22:14:15 host su: failed", 514, "syslog"),
            (b"\x80\xc8\x00\x01abcd\x81\xca\x00\x01efgh", 5005, "rtp"),
            (b"REGISTER sip:a.example SIP/2.0\r\n\r\n", 5060, "sip"),
            (
                b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\n\r\n",
                1900,
                "ssdp",
            ),
            (b"hello", 9, "none"),
            (b"", 9, "none"),
        ] {
            assert_eq!(name(data, port), expected, "{}", data.escape_ascii());
        }
    }

    #[test]
    fn a_query_tells_the_name() {
        let query =
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03WWW\x04test\x00\x00\x01\x00\x01";
        let Guess::Found(found) = datagram(query, (1, 2)) else {
            panic!("none");
        };
        assert_eq!(found.protocol, Protocol::Dns);
        assert_eq!(found.name.as_str(), "www.test");
    }

    proptest! {
        #[test]
        fn any_datagram_is_taken(data in prop::collection::vec(any::<u8>(), 0..300), first in prop::sample::select(std::vec![0u8, 1, 2, 4, 22, 0x30, 0x38, 0x41, 0x80, b'<', b'd'])) {
            datagram(&data, (1, 123));
            datagram(&[&[first][..], &data].concat(), (123, 1));
            rtp(&data);
        }
    }
}
