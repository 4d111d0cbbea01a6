//! Flows: the addresses, the protocol and the ports of an IP packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::port::offload::{ETHERNET, VLAN};
use crate::port::{Frame, HEAD};

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TYPE_VLAN: u16 = 0x8100;
const TYPE_SERVICE_VLAN: u16 = 0x88a8;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// One direction of a flow. Protocols without ports have 0 for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flow {
    /// Where its packets come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// The IP protocol number.
    pub protocol: u8,
    /// Port at the source.
    #[serde(default)]
    pub source_port: u16,
    /// Port at the destination.
    #[serde(default)]
    pub destination_port: u16,
}

impl Flow {
    /// The flow of a frame. Frames that are not IP have none, and neither have fragments, whose
    /// ports only the first has, nor frames whose head does not show the ports.
    pub fn of(frame: &Frame) -> Option<Flow> {
        FlowWords::of(frame).map(FlowWords::flow)
    }

    /// The other direction.
    pub fn reversed(self) -> Flow {
        Flow {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }
}

/// A flow as words, for tables: source, destination, and ports, protocol and version.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowWords([u64; 5]);

impl FlowWords {
    #[inline]
    pub fn of(frame: &Frame) -> Option<FlowWords> {
        let head = frame.head();
        let len = frame.len().min(HEAD);
        let mut at = ETHERNET - 2;
        let mut kind = short(head, at);
        while at < ETHERNET + VLAN && matches!(kind, TYPE_VLAN | TYPE_SERVICE_VLAN) {
            at += VLAN;
            kind = short(head, at);
        }
        let ip = at + 2;
        match kind {
            TYPE_IPV4 => {
                let header = usize::from(head[ip] & 15) * 4;
                let fragment = short(head, ip + 6) & 0x3fff != 0;
                if head[ip] >> 4 != 4 || header < 20 || ip + header > len || fragment {
                    return None;
                }
                let protocol = head[ip + 9];
                let ports = ports(&head[..len], ip + header, protocol)?;
                let address = |at: usize| u64::from(long(head, ip + at));
                Some(FlowWords([
                    0,
                    address(12),
                    0,
                    address(16),
                    rest(4, protocol, ports),
                ]))
            }
            TYPE_IPV6 => {
                if head[ip] >> 4 != 6 || ip + 40 > len {
                    return None;
                }
                let protocol = head[ip + 6];
                let ports = ports(&head[..len], ip + 40, protocol)?;
                let word = |at: usize| {
                    let at = ip + at;
                    u64::from(long(head, at)) << 32 | u64::from(long(head, at + 4))
                };
                Some(FlowWords([
                    word(8),
                    word(16),
                    word(24),
                    word(32),
                    rest(6, protocol, ports),
                ]))
            }
            _ => None,
        }
    }

    pub fn of_flow(flow: Flow) -> Option<FlowWords> {
        let ports = u32::from(flow.source_port) << 16 | u32::from(flow.destination_port);
        match (flow.source, flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let words = [source, destination].map(|address| u64::from(u32::from(address)));
                Some(FlowWords([
                    0,
                    words[0],
                    0,
                    words[1],
                    rest(4, flow.protocol, ports),
                ]))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let halves = |address: Ipv6Addr| {
                    let bits = u128::from(address);
                    [(bits >> 64) as u64, bits as u64]
                };
                let ([a, b], [c, d]) = (halves(source), halves(destination));
                Some(FlowWords([a, b, c, d, rest(6, flow.protocol, ports)]))
            }
            _ => None,
        }
    }

    #[inline]
    pub fn reversed(self) -> FlowWords {
        let [a, b, c, d, rest] = self.0;
        let ports = (rest as u32).rotate_left(16);
        FlowWords([c, d, a, b, rest & !0xffff_ffff | u64::from(ports)])
    }

    pub fn flow(self) -> Flow {
        let [a, b, c, d, rest] = self.0;
        let address = |high: u64, low: u64| match rest >> 40 {
            4 => IpAddr::V4(Ipv4Addr::from(low as u32)),
            _ => IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))),
        };
        Flow {
            source: address(a, b),
            destination: address(c, d),
            protocol: (rest >> 32) as u8,
            source_port: (rest >> 16) as u16,
            destination_port: rest as u16,
        }
    }
}

fn rest(version: u64, protocol: u8, ports: u32) -> u64 {
    version << 40 | u64::from(protocol) << 32 | u64::from(ports)
}

/// Whether packets of an IP protocol have ports.
#[inline]
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP | UDP_LITE)
}

/// Both ports; 0 for protocols that have none, nothing where they should be and are not.
#[inline]
fn ports(head: &[u8], at: usize, protocol: u8) -> Option<u32> {
    if !has_ports(protocol) {
        return Some(0);
    }
    let ports = head.get(at..at + 4)?;
    Some(u32::from_be_bytes([ports[0], ports[1], ports[2], ports[3]]))
}

#[inline(always)]
fn short(head: &[u8; HEAD], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
fn long(head: &[u8; HEAD], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}
