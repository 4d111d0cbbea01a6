//! ICMP errors: what one version's mean in the other.
//!
//! Types and codes follow Click, which follows RFC 2765, sections 3.3 and 4.2; codes that came
//! later follow RFC 7915, and so do MTUs.

use crate::prelude::*;

/// By how much a packet grows when IPv6's header takes IPv4's place.
const GROWTH: u16 = 20;
/// Every IPv6 link takes packets this long.
const V6_MTU_MIN: u32 = 1280;

/// Fields of the two headers that mean the same, by their places: IPv4's, IPv6's. The addresses'
/// first bytes stand for them.
const FIELDS: [(u8, u32); 6] = [(0, 0), (2, 4), (8, 7), (9, 6), (12, 8), (16, 24)];
/// Where the pointer points if the other version has no such field.
const NO_FIELD_V6: u32 = u32::MAX;
const NO_FIELD_V4: u8 = u8::MAX;

/// MTUs that links have (RFC 1191, section 7), for routers that do not tell theirs.
const PLATEAUS: [u16; 10] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68];

/// The message that an ICMP error becomes; `length` is that of the packet it is about.
pub fn to_v6(icmp: &Icmpv4Packet<&[u8]>, length: u16) -> Option<Icmpv6Header> {
    let (icmp_type, code, value) = match icmp.icmp_type() {
        Icmpv4Type::UNREACHABLE => unreachable_to_v6(icmp, length)?,
        Icmpv4Type::TIME_EXCEEDED => (Icmpv6Type::TIME_EXCEEDED, icmp.code(), 0),
        Icmpv4Type::PARAMETER_PROBLEM => {
            let known = FIELDS.iter().find(|(v4, _)| *v4 == icmp.pointer());
            let pointer = known.map_or(NO_FIELD_V6, |(_, v6)| *v6);
            (Icmpv6Type::PARAMETER_PROBLEM, 0, pointer)
        }
        _ => return None,
    };
    Some(Icmpv6Header {
        icmp_type,
        code,
        rest: value.to_be_bytes(),
    })
}

fn unreachable_to_v6(icmp: &Icmpv4Packet<&[u8]>, length: u16) -> Option<(Icmpv6Type, u8, u32)> {
    use Icmpv4Unreachable as Why;
    let code = match Why(icmp.code()) {
        // "Next header": the place of IPv6's field.
        Why::PROTOCOL => return Some((Icmpv6Type::PARAMETER_PROBLEM, 1, 6)),
        Why::FRAGMENTATION_NEEDED => {
            let mtu = u32::from(next_hop_mtu(icmp, length)) + u32::from(GROWTH);
            return Some((Icmpv6Type::PACKET_TOO_BIG, 0, mtu.max(V6_MTU_MIN)));
        }
        Why::PORT => 4,
        Why::SOURCE_ROUTE_FAILED => 2,
        Why::NETWORK_PROHIBITED
        | Why::HOST_PROHIBITED
        | Why::PROHIBITED
        | Why::PRECEDENCE_CUTOFF => 1,
        Why::PRECEDENCE_VIOLATION => return None,
        _ => 0,
    };
    Some((Icmpv6Type::UNREACHABLE, code, 0))
}

/// The next link's MTU, or the likeliest one where the router does not tell.
fn next_hop_mtu(icmp: &Icmpv4Packet<&[u8]>, length: u16) -> u16 {
    match icmp.next_hop_mtu() {
        0 => PLATEAUS.into_iter().find(|mtu| *mtu < length).unwrap_or(68),
        mtu => mtu,
    }
}

/// The message that an ICMPv6 error becomes.
pub fn to_v4(icmp: &Icmpv6Packet<&[u8]>) -> Option<Icmpv4Header> {
    let header = |icmp_type, code, rest| {
        Some(Icmpv4Header {
            icmp_type,
            code,
            rest,
        })
    };
    let unreachable = |why: Icmpv4Unreachable, rest| header(Icmpv4Type::UNREACHABLE, why.0, rest);
    match (icmp.icmp_type(), icmp.code()) {
        (Icmpv6Type::UNREACHABLE, code) => {
            let why = match code {
                1 => Icmpv4Unreachable::HOST_PROHIBITED,
                2 => Icmpv4Unreachable::SOURCE_ROUTE_FAILED,
                3 => Icmpv4Unreachable::HOST,
                4 => Icmpv4Unreachable::PORT,
                5 | 6 => Icmpv4Unreachable::HOST_PROHIBITED,
                _ => Icmpv4Unreachable::NETWORK,
            };
            unreachable(why, [0; 4])
        }
        (Icmpv6Type::PACKET_TOO_BIG, _) => {
            let mtu = u16::try_from(icmp.mtu()).unwrap_or(u16::MAX);
            let [high, low] = mtu.saturating_sub(GROWTH).to_be_bytes();
            unreachable(Icmpv4Unreachable::FRAGMENTATION_NEEDED, [0, 0, high, low])
        }
        (Icmpv6Type::TIME_EXCEEDED, code) => header(Icmpv4Type::TIME_EXCEEDED, code, [0; 4]),
        (Icmpv6Type::PARAMETER_PROBLEM, 0) => {
            let known = FIELDS.iter().find(|(_, v6)| *v6 == icmp.pointer());
            let pointer = known.map_or(NO_FIELD_V4, |(v4, _)| *v4);
            header(Icmpv4Type::PARAMETER_PROBLEM, 0, [pointer, 0, 0, 0])
        }
        (Icmpv6Type::PARAMETER_PROBLEM, 1) => unreachable(Icmpv4Unreachable::PROTOCOL, [0; 4]),
        (Icmpv6Type::PARAMETER_PROBLEM, 2) => {
            header(Icmpv4Type::PARAMETER_PROBLEM, 0, [NO_FIELD_V4, 0, 0, 0])
        }
        _ => None,
    }
}
