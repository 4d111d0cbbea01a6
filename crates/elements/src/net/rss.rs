//! The hash by which network interfaces spread flows over their queues (receive side scaling):
//! Toeplitz, with the key of Microsoft's specification ("Verifying the RSS Hash Calculation").

use crate::prelude::*;

const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Half bytes of the longest input: two IPv6 addresses and two ports.
const NIBBLES: usize = 72;

/// What each value of each half byte adds to the hash.
static TABLE: [[u32; 16]; NIBBLES] = table();

const fn table() -> [[u32; 16]; NIBBLES] {
    let mut table = [[0; 16]; NIBBLES];
    let mut at = 0;
    while at < NIBBLES {
        let mut value = 0;
        while value < 16 {
            let mut bit = 0;
            while bit < 4 {
                if value & (8 >> bit) != 0 {
                    table[at][value] ^= window(4 * at + bit);
                }
                bit += 1;
            }
            value += 1;
        }
        at += 1;
    }
    table
}

/// The 32 bits of the key from bit `start` on.
const fn window(start: usize) -> u32 {
    let (byte, shift) = (start / 8, start % 8);
    let mut word: u64 = 0;
    let mut i = 0;
    while i < 5 {
        word = word << 8 | KEY[byte + i] as u64;
        i += 1;
    }
    (word >> (8 - shift)) as u32
}

/// The hash of `input`, which begins at byte `at` of the whole.
fn toeplitz(at: usize, input: &[u8]) -> u32 {
    let rows = TABLE[2 * at..].chunks_exact(2);
    let pairs = input.iter().zip(rows);
    pairs.fold(0, |hash, (byte, rows)| {
        hash ^ rows[0][usize::from(byte >> 4)] ^ rows[1][usize::from(byte & 15)]
    })
}

/// The hash of a frame's flow: of its IP addresses, and of its ports if it is TCP or UDP and no
/// fragment. 0 for other frames.
pub fn hash(frame: &[u8]) -> u32 {
    of_ip(frame).unwrap_or(0)
}

fn of_ip(frame: &[u8]) -> Option<u32> {
    let (kind, at) = skip_tags(frame).ok()?;
    let header = frame.get(at..)?;
    let (addresses, transport) = match kind {
        EtherType::IPV4 => {
            let ip = Ipv4Packet::new_quoted(header).ok()?;
            let ported = has_ports(ip.protocol()) && !ip.is_fragment();
            let transport = header.get(ip.header_len()..).filter(|_| ported);
            (header.get(12..20)?, transport)
        }
        EtherType::IPV6 => {
            let ip = Ipv6Packet::new_quoted(header).ok()?;
            let transport = header.get(40..).filter(|_| has_ports(ip.next_header()));
            (header.get(8..40)?, transport)
        }
        _ => return None,
    };
    let ports = transport.and_then(|transport| transport.get(..4));
    let ports = ports.map_or(0, |ports| toeplitz(addresses.len(), ports));
    Some(toeplitz(0, addresses) ^ ports)
}

fn has_ports(protocol: IpProtocol) -> bool {
    matches!(protocol, IpProtocol::TCP | IpProtocol::UDP)
}

#[cfg(test)]
mod tests {
    use super::hash;
    use crate::testing::*;

    const SOURCE: [u8; 4] = [66, 9, 149, 187];
    const DESTINATION: [u8; 4] = [161, 142, 100, 80];

    fn frame(kind: u16, packet: &[u8]) -> std::vec::Vec<u8> {
        ether([2; 6], [4; 6], kind, packet)
    }

    #[test]
    fn hashes_are_those_of_the_specification() {
        let (from, to) = ((SOURCE.into(), 2794), (DESTINATION.into(), 1766));
        assert_eq!(hash(&frame(0x800, &tcp(from, to, 2, &[]))), 0x51cc_c178);
        assert_eq!(hash(&frame(0x800, &udp(from, to, &[]))), 0x51cc_c178);
        let ping = ping(SOURCE.into(), DESTINATION.into(), &[]);
        assert_eq!(hash(&frame(0x800, &ping)), 0x323e_8fc2);
        let mut six = std::vec![0x60, 0, 0, 0, 0, 4, 6, 64];
        six.extend(
            "3ffe:2501:200:1fff::7"
                .parse::<Ipv6Addr>()
                .unwrap()
                .octets(),
        );
        six.extend("3ffe:2501:200:3::1".parse::<Ipv6Addr>().unwrap().octets());
        six.extend([0x0a, 0xea, 0x06, 0xe6]);
        assert_eq!(hash(&frame(0x86dd, &six)), 0x4020_7d3d);
        six[6] = 58;
        assert_eq!(hash(&frame(0x86dd, &six)), 0x2cc1_8cd5);
    }

    #[test]
    fn fragments_have_the_hash_of_their_addresses() {
        let (from, to) = ((SOURCE.into(), 2794), (DESTINATION.into(), 1766));
        let mut packet = udp(from, to, &[0; 8]);
        packet[6] = 0x20;
        assert_eq!(hash(&frame(0x800, &packet)), 0x323e_8fc2);
    }

    #[test]
    fn tags_are_skipped_and_other_frames_have_none() {
        let packet = ping(SOURCE.into(), DESTINATION.into(), &[]);
        let tagged = [&[0, 7, 8, 0][..], &packet].concat();
        assert_eq!(hash(&frame(0x8100, &tagged)), 0x323e_8fc2);
        assert_eq!(hash(&frame(0x806, &packet)), 0);
        assert_eq!(hash(&frame(0x800, &packet[..19])), 0);
        assert_eq!(hash(&[]), 0);
    }
}
