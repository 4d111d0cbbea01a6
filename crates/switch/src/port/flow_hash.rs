//! The flow hash: spreads flows over lanes and queues, and keeps each flow in order.

use super::HEAD;
use super::offload::ETHERNET;

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const VLAN: [u8; 2] = [0x81, 0x00];
const SERVICE_VLAN: [u8; 2] = [0x88, 0xa8];
/// Length of an IPv6 header, in bytes.
const IPV6_HEADER: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// A hash that all frames of a flow have in common: of the addresses, the protocol and the ports of
/// an IP packet, as far as its first bytes have them; of the Ethernet addresses and the type of any
/// other frame. All fragments of packets between two hosts are one flow. The two directions of a
/// flow have different hashes.
#[inline]
pub fn flow_hash(head: &[u8; HEAD]) -> u32 {
    let mut at = ETHERNET - 2;
    while at < 20 && matches!(pair(head, at), VLAN | SERVICE_VLAN) {
        at += 4;
    }
    let kind = pair(head, at);
    let ip = at + 2;
    match kind {
        IPV4 => {
            let fragment = u16::from_be_bytes(pair(head, ip + 6)) & 0x3fff != 0;
            let protocol = head[ip + 9];
            let addresses = word(head, ip + 12);
            let header = usize::from(head[ip] & 15) * 4;
            let ports = ports(head, protocol, ip + header, fragment);
            finish(mix(mix(0, addresses), ports << 8 | u64::from(protocol)))
        }
        IPV6 => {
            let protocol = head[ip + 6];
            let addresses = [8, 16, 24, 32].map(|field| word(head, ip + field));
            let hash = addresses.into_iter().fold(0, mix);
            let ports = ports(head, protocol, ip + IPV6_HEADER, false);
            finish(mix(hash, ports << 8 | u64::from(protocol)))
        }
        _ => {
            let addresses = mix(word(head, 0), word(head, 4));
            finish(mix(addresses, u64::from(u16::from_be_bytes(kind))))
        }
    }
}

/// Both ports, or 0 if the packet has none that can be seen.
fn ports(head: &[u8; HEAD], protocol: u8, at: usize, fragment: bool) -> u64 {
    let known = matches!(protocol, TCP | UDP | SCTP) && !fragment;
    let ports = head.get(at..at + 4).filter(|_| known);
    ports.map_or(0, |ports| {
        u64::from(u32::from_ne_bytes([ports[0], ports[1], ports[2], ports[3]]))
    })
}

#[inline(always)]
fn pair(head: &[u8; HEAD], at: usize) -> [u8; 2] {
    [head[at], head[at + 1]]
}

#[inline(always)]
fn word(head: &[u8; HEAD], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// A 64-bit factor with its bits well spread: 2⁶⁴ over the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Folds the 128-bit product, so that each bit of both bears on all of the result.
#[inline(always)]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ FACTOR) * u128::from(FACTOR);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn finish(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet from port `from` to port `to`.
    fn udp(tagged: bool, v6: bool, from: u16, to: u16) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let mut at = 12;
        let mut put = |bytes: &[u8]| {
            head[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if tagged {
            put(&[0x81, 0, 0, 5]);
        }
        if v6 {
            put(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 30, 17, 64]);
            put(&[0xfd; 16]);
            put(&[0xfe; 16]);
        } else {
            put(&[8, 0, 0x45, 0, 0, 50, 1, 2, 0, 0, 64, 17, 0, 0]);
            put(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        put(&from.to_be_bytes());
        put(&to.to_be_bytes());
        head
    }

    #[test]
    fn flows_differ_by_each_port_and_nothing_behind_them_matters() {
        for (tagged, v6) in [(false, false), (true, false), (false, true), (true, true)] {
            let one = udp(tagged, v6, 1000, 2000);
            let mut same = one;
            same[HEAD - 1] ^= u8::from(!(tagged && v6));
            assert_eq!(flow_hash(&one), flow_hash(&same));
            assert_ne!(flow_hash(&one), flow_hash(&udp(tagged, v6, 1001, 2000)));
            assert_ne!(flow_hash(&one), flow_hash(&udp(tagged, v6, 1000, 2001)));
        }
    }

    #[test]
    fn fragments_of_a_packet_are_one_flow() {
        let mut first = udp(false, false, 1000, 2000);
        first[20] = 0x20;
        let mut second = udp(false, false, 0x1234, 0x5678);
        second[21] = 100;
        assert_eq!(flow_hash(&first), flow_hash(&second));
    }

    #[test]
    fn many_flows_are_spread_evenly() {
        let mut lanes = [0; 4];
        for port in 0..4000 {
            let hash = u64::from(flow_hash(&udp(false, false, 10_000 + port, 80)));
            lanes[((hash * 4) >> 32) as usize] += 1;
        }
        assert!(lanes.iter().all(|n| (900..1100).contains(n)), "{lanes:?}");
    }

    #[test]
    fn any_bytes_have_a_flow() {
        for first in 0..=255 {
            for kind in [[0x81, 0], [0x88, 0xa8], [8, 0], [0x86, 0xdd], [0, 0]] {
                let mut head = [first; HEAD];
                for at in (12..24).step_by(4) {
                    head[at..at + 2].copy_from_slice(&kind);
                }
                flow_hash(&head);
            }
        }
    }
}
