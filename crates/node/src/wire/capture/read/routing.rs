//! Routes and rules.

use std::net::IpAddr;

use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric,
    RouteProtocol, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleHeader, RuleMessage};
use switch::lookup::Mac;
use switch::netlink::KernelRoute;

use super::super::seen::SeenInterface;

/// The table of the host's own addresses (linux/rtnetlink.h: RT_TABLE_LOCAL).
const LOCAL: u32 = 255;

/// A static neighbour, as a phrase.
pub(super) fn neighbour(message: &NeighbourMessage, links: &[SeenInterface]) -> Option<String> {
    if message.header.state != NeighbourState::Permanent {
        return None;
    }
    let link = links
        .iter()
        .find(|link| link.index == message.header.ifindex)?;
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(it)) => {
                address = Some(IpAddr::from(*it));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(it)) => {
                address = Some(IpAddr::from(*it));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                mac = bytes.as_slice().try_into().ok().map(Mac);
            }
            _ => {}
        }
    }
    let (address, mac) = (address?, mac?);
    Some(format!(
        "the static neighbour {address} ({mac}) at ‘{}’",
        link.name
    ))
}

/// A rule of policy routing that is not one of the three that there always are, as a phrase.
pub(super) fn rule(message: &RuleMessage) -> Option<String> {
    let RuleHeader {
        src_len, dst_len, ..
    } = message.header;
    let (mut priority, mut table) = (0, u32::from(message.header.table));
    let mut words = String::new();
    let mut narrower = false;
    for attribute in &message.attributes {
        let word = match attribute {
            RuleAttribute::Priority(number) => {
                priority = *number;
                continue;
            }
            RuleAttribute::Table(number) => {
                table = *number;
                continue;
            }
            RuleAttribute::Source(from) => format!("from {from}/{src_len} "),
            RuleAttribute::Destination(to) => format!("to {to}/{dst_len} "),
            RuleAttribute::Iifname(name) => format!("iif {name} "),
            RuleAttribute::Oifname(name) => format!("oif {name} "),
            RuleAttribute::FwMark(mark) => format!("fwmark {mark:#x} "),
            _ => continue,
        };
        narrower = true;
        words += &word;
    }
    let usual = matches!((priority, table), (0, 255) | (32766, 254) | (32767, 253));
    if usual && !narrower {
        return None;
    }
    let does = match message.header.action {
        RuleAction::ToTable => format!("lookup {table}"),
        other => format!("{other:?}").to_lowercase(),
    };
    Some(format!("the rule {priority}, ‘{words}{does}’"))
}

/// A configured route: the kernel's own routes follow from the addresses. Routes that a wire cannot
/// have are added to `policies`, a phrase each.
pub(super) fn route(message: &RouteMessage, policies: &mut Vec<String>) -> Option<KernelRoute> {
    let header = &message.header;
    let nowhere = match header.kind {
        RouteType::Unicast => None,
        RouteType::BlackHole => Some("blackhole"),
        RouteType::Unreachable => Some("unreachable"),
        RouteType::Prohibit => Some("prohibit"),
        RouteType::Throw => Some("throw"),
        // Local, broadcast and multicast ones are the kernel's.
        _ => return None,
    };
    let table = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
    let table = table.unwrap_or(header.table.into());
    let own = matches!(header.protocol, RouteProtocol::Kernel | RouteProtocol::Ra);
    if own || table == LOCAL {
        return None;
    }
    let route = KernelRoute::of(message)?;
    let to = route.to;
    let other = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(format!("by {} gateways at once", hops.len())),
            RouteAttribute::Via(_) => Some("by a gateway of another protocol".into()),
            RouteAttribute::EncapType(_) => Some("with an encapsulation".into()),
            _ => None,
        });
    let policy = match (nowhere, other) {
        _ if table != u32::from(RouteHeader::RT_TABLE_MAIN) => {
            Some(format!("the route to {to} of table {table}"))
        }
        (Some(kind), _) => Some(format!("the {kind} route to {to}")),
        (None, Some(how)) => Some(format!("the route to {to} {how}")),
        (None, None) if header.tos > 0 => Some(format!("the route to {to} of tos {}", header.tos)),
        (None, None) if header.source_prefix_length > 0 => {
            Some(format!("the route to {to} of some sources only"))
        }
        (None, None) => None,
    };
    if policy.is_some() {
        policies.extend(policy);
        return None;
    }
    let mut left_out = |what: &str| policies.push(format!("the {what} of the route to {to}"));
    if header.flags.contains(RouteFlags::Onlink) {
        left_out("‘onlink’");
    }
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::PrefSource(RouteAddress::Inet(src)) => left_out(&format!("src {src}")),
            RouteAttribute::PrefSource(RouteAddress::Inet6(src)) => {
                left_out(&format!("src {src}"));
            }
            RouteAttribute::Metrics(metrics) => {
                for metric in metrics {
                    match metric {
                        RouteMetric::Mtu(mtu) => left_out(&format!("mtu {mtu}")),
                        RouteMetric::Lock(_) => {}
                        _ => left_out("tuning of TCP"),
                    }
                }
            }
            _ => {}
        }
    }
    Some(route)
}
