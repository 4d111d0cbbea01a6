//! Packets: protocols' usual ones, with some bytes changed, and what no protocol knows.

use std::net::{Ipv4Addr, Ipv6Addr};

use elements::testing::{checksum, ether, ip6, ping, tcp, udp};
use packet::{Packet, PacketType, Pool};

use crate::input::Input;

const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A packet's data, and what is said of it beside.
pub struct Model<'a> {
    pub data: Vec<u8>,
    flags: u8,
    marks: [u8; 4],
    annotations: &'a [u8],
}

/// An address of which others are likely to be heard, too.
fn address(choice: u8) -> Ipv4Addr {
    match choice & 7 {
        0 => [1, 0, 0, 1],
        1 => [10, 0, 0, 1],
        2 => [18, 26, 4, 24],
        3 => [2, 0, 0, choice >> 3],
        4 => [192, 168, 0, choice >> 3],
        5 => [255; 4],
        6 => [224, 0, 0, choice >> 3],
        _ => [choice; 4],
    }
    .into()
}

fn address6(choice: u8) -> Ipv6Addr {
    let last = u16::from(choice >> 2);
    match choice & 3 {
        0 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last),
        1 => Ipv6Addr::new(0x3ffe, 0x1ce1, 2, 0, 0x200, 0, 0, last),
        2 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, last),
        _ => address(choice >> 2).to_ipv6_compatible(),
    }
}

fn arp(operation: u8, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![0, 1, 8, 0, 6, 4, 0, operation];
    body.extend(THERE);
    body.extend(from.octets());
    body.extend(HERE);
    body.extend(to.octets());
    body
}

/// `packet`, an IPv4 packet, with `change` made to its header and the checksum made right.
fn with_header(mut packet: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut packet);
    packet[10..12].fill(0);
    let sum = checksum(&packet[..(packet[0] & 15) as usize * 4]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn fragment(packet: Vec<u8>, at: u8) -> Vec<u8> {
    with_header(packet, |packet| {
        packet[6..8]
            .copy_from_slice(&(u16::from(at & 0x7f) | u16::from(at >> 7) << 13).to_be_bytes());
    })
}

fn with_options(packet: Vec<u8>, options: &[u8]) -> Vec<u8> {
    with_header(packet, |packet| {
        let mut padded = options.to_vec();
        padded.resize(options.len().next_multiple_of(4), 0);
        packet[0] += (padded.len() / 4) as u8;
        let len = (packet.len() + padded.len()) as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet.splice(20..20, padded);
    })
}

/// An ICMP error about `packet`.
fn about(packet: &[u8], kind: u8, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut error = ping(from, to, packet);
    error[20] = kind;
    error[22..24].fill(0);
    let sum = checksum(&error[20..]);
    error[22..24].copy_from_slice(&sum.to_be_bytes());
    error
}

fn skeleton(input: &mut Input<'_>) -> (Vec<u8>, usize) {
    let kind = input.byte();
    if kind & 15 == 0 {
        return (input.string().to_vec(), 0);
    }
    if kind & 15 == 1 {
        let len = input.word() as usize;
        return (vec![kind; len], 14);
    }
    let (from, to) = (input.byte(), input.byte());
    let (from6, to6) = (address6(from), address6(to));
    let (from, to) = (address(from), address(to));
    let (ports, flags) = (input.byte(), input.byte());
    let from = (from, 1000 + u16::from(ports >> 4));
    let to = (to, [21, 53, 80, 1000][ports as usize & 3]);
    let payload = input.string();
    let packet = match kind & 15 {
        2 | 8 => udp(from, to, payload),
        3 | 9 => tcp(from, to, flags, payload),
        4 => ping(from.0, to.0, payload),
        5 => about(&udp(to, from, payload), flags, from.0, to.0),
        6 => with_options(udp(from, to, b"options"), &payload[..payload.len().min(40)]),
        7 => fragment(udp(from, to, payload), flags),
        10 => arp(flags & 3, from.0, to.0),
        11 => ip6::packet(17, from6, to6, payload),
        12 => ip6::packet(flags, from6, to6, payload),
        13 => about(&tcp(to, from, flags, payload), 3, from.0, to.0),
        _ => ip6::packet(
            58,
            from6,
            to6,
            &[&[135, 0, 0, 0, 0, 0, 0, 0], &to6.octets()[..], payload].concat(),
        ),
    };
    let type_ = match packet[0] >> 4 {
        6 => 0x86dd,
        4 => 0x0800,
        _ => 0x0806,
    };
    match kind >> 4 & 3 {
        0 => (packet, 0),
        1 => (ether(HERE, THERE, type_, &packet), 14),
        2 => (ether([0xff; 6], THERE, type_, &packet), 14),
        _ => {
            let tag = [&[flags, ports][..], &u16::to_be_bytes(type_), &packet].concat();
            (ether(HERE, THERE, 0x8100, &tag), 18)
        }
    }
}

impl<'a> Model<'a> {
    pub fn new(input: &mut Input<'a>) -> Model<'a> {
        let (mut data, network) = skeleton(input);
        let flags = input.byte();
        for _ in 0..flags & 3 {
            let (at, value) = (input.byte() as usize, input.byte());
            if let Some(byte) = data.get_mut(at) {
                *byte = value;
            }
        }
        let marks = match flags >> 2 & 3 {
            0 => [0; 4],
            1 => [1, 0, network as u8, 20],
            2 => [1, 0, network as u8, 40],
            _ => [input.byte(), input.byte(), input.byte(), input.byte()],
        };
        let annotations = match flags & 0x10 {
            0 => &[],
            _ => input.string(),
        };
        Model {
            data,
            flags,
            marks,
            annotations,
        }
    }

    /// A packet of the data; in memory of its own, where the sanitizer sees every byte beyond, if
    /// the flags say so.
    pub fn packet(&self, pool: &mut Pool) -> Option<Packet> {
        let mut packet = match self.flags & 0x20 {
            0 => pool.copy(&self.data)?,
            _ => {
                let room = self.flags as usize >> 6;
                let mut packet = Packet::large(room * 16, self.data.len(), room)?;
                packet.data_mut().copy_from_slice(&self.data);
                packet
            }
        };
        for (i, byte) in self.annotations.iter().enumerate() {
            let at = (self.marks[0] as usize + i) % packet.annotations().len();
            packet.annotations_mut()[at] = *byte;
        }
        let [what, mac, network, len] = self.marks;
        if what & 1 != 0 {
            packet.set_network_header(network as usize, len as usize);
        }
        if what & 2 != 0 {
            packet.set_mac_header(mac as usize);
        }
        if what & 4 != 0 {
            packet.pull(packet.len().min(mac as usize));
        }
        if what & 8 != 0 {
            packet.set_timestamp((i64::from(len) << (network & 63)).wrapping_sub(1));
        }
        packet.set_packet_type(match what >> 4 & 3 {
            0 => PacketType::Host,
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            _ => PacketType::OtherHost,
        });
        Some(packet)
    }
}
