//! IPv6 packets for tests, with checksums computed the plain way.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::{checksum, complete_tcp};
use crate::prelude::*;

/// An address.
pub fn addr(text: &str) -> Ipv6Addr {
    text.parse().expect("an IPv6 address")
}

/// A packet of `payload` after `next`, hop limit 64.
pub fn packet(next: u8, from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

/// The checksum of an upper layer's bytes with the pseudo header; 0 if they hold a right one.
pub fn upper_checksum(protocol: u8, from: Ipv6Addr, to: Ipv6Addr, upper: &[u8]) -> u16 {
    let mut pseudo = Vec::new();
    pseudo.extend(from.octets());
    pseudo.extend(to.octets());
    pseudo.extend((upper.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    pseudo.extend(upper);
    checksum(&pseudo)
}

fn finish(protocol: u8, from: Ipv6Addr, to: Ipv6Addr, mut upper: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = upper_checksum(protocol, from, to, &upper);
    upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    packet(protocol, from, to, &upper)
}

/// A UDP packet.
pub fn udp(from: (Ipv6Addr, u16), to: (Ipv6Addr, u16), payload: &[u8]) -> Vec<u8> {
    let mut udp = Vec::new();
    udp.extend(from.1.to_be_bytes());
    udp.extend(to.1.to_be_bytes());
    udp.extend((8 + payload.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    finish(17, from.0, to.0, udp, 6)
}

/// A TCP segment.
pub fn tcp(from: (Ipv6Addr, u16), to: (Ipv6Addr, u16), flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(from.1.to_be_bytes());
    tcp.extend(to.1.to_be_bytes());
    tcp.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    tcp.extend(payload);
    finish(6, from.0, to.0, tcp, 16)
}

/// A TCP or UDP packet of IPv4, over IPv6: its addresses are the last bytes of `2001:db8::`'s.
pub fn from_v4(packet: &[u8]) -> Vec<u8> {
    let address = |at: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| u128::from(packet[at + i]));
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | a << 24 | b << 16 | c << 8 | d)
    };
    let (protocol, mut upper) = (packet[9], packet[20..].to_vec());
    let at = if protocol == 6 { 16 } else { 6 };
    upper[at..at + 2].fill(0);
    finish(protocol, address(12), address(16), upper, at)
}

/// The TCP packet of IPv4 of which [`from_v4`] made one of IPv6, whose checksum must be right.
pub fn to_v4(packet: &[u8]) -> Vec<u8> {
    let ip = Ipv6Packet::new_checked(packet).unwrap();
    let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
    assert_eq!(ip.next_header(), IpProtocol::TCP);
    let pseudo = ip.pseudo_header(IpProtocol::TCP, ip.payload().len() as u32);
    assert!(tcp.verify_checksum(pseudo));
    let address = |address: Ipv6Addr| Ipv4Addr::from_bits(address.to_bits() as u32);
    let ends = [address(ip.source()), address(ip.destination())];
    let [from, to] = ends.map(|address| (address, 0));
    let mut packet = super::tcp(from, to, 0, &ip.payload()[20..]);
    packet[20..].copy_from_slice(ip.payload());
    complete_tcp(&mut packet);
    packet
}

/// An ICMPv6 message of `kind`, `code` and the four bytes `rest`.
pub fn icmp(
    from: Ipv6Addr,
    to: Ipv6Addr,
    (kind, code, rest): (u8, u8, [u8; 4]),
    payload: &[u8],
) -> Vec<u8> {
    let mut icmp = std::vec![kind, code, 0, 0];
    icmp.extend(rest);
    icmp.extend(payload);
    finish(58, from, to, icmp, 2)
}
