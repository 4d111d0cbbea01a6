//! The same rules for other firewalls.

use std::fmt::Write;
use std::net::Ipv4Addr;

use super::{Prefix, Rule};

fn is_any((_, length): Prefix) -> bool {
    length == 0
}

fn network((address, length): Prefix) -> String {
    format!("{}/{length}", Ipv4Addr::from(address))
}

fn protocol(rule: &Rule) -> &'static str {
    if rule.protocol == 6 { "tcp" } else { "udp" }
}

/// A table of nftables for a bridge: ARP passes, then the rules apply, and all else is dropped.
pub fn nftables(rules: &[Rule]) -> String {
    let mut text = String::from(
        "table bridge firewall {\n chain forward {\n  type filter hook forward priority 0; policy drop;\n  ether type arp accept\n",
    );
    for rule in rules {
        text += "  ";
        for (side, prefix) in [("saddr", rule.source), ("daddr", rule.destination)] {
            if !is_any(prefix) {
                let _ = write!(text, "ip {side} {} ", network(prefix));
            }
        }
        let kind = protocol(rule);
        let _ = match rule.ports {
            (0, u16::MAX) => write!(text, "ip protocol {kind}"),
            (low, high) if low == high => write!(text, "{kind} dport {low}"),
            (low, high) => write!(text, "{kind} dport {low}-{high}"),
        };
        text += if rule.allow { " accept\n" } else { " drop\n" };
    }
    text + " }\n}\n"
}

/// Flows of OpenFlow 1.0 for a switch with ports 1 and 2: ARP passes, then the rules apply, and all
/// else is dropped.
pub fn openflow(rules: &[Rule]) -> String {
    let mut text = String::from("priority=0,actions=drop\n");
    let mut add = |priority: usize, fields: &str, allow: bool| {
        for (from, to) in [(1, 2), (2, 1)] {
            let action = match allow {
                true => format!("output:{to}"),
                false => "drop".into(),
            };
            let _ = writeln!(
                text,
                "priority={priority},in_port={from},{fields},actions={action}"
            );
        }
    };
    add(60_000, "arp", true);
    for (i, rule) in rules.iter().enumerate() {
        let mut fields = String::from(protocol(rule));
        for (side, prefix) in [("nw_src", rule.source), ("nw_dst", rule.destination)] {
            if !is_any(prefix) {
                let _ = write!(fields, ",{side}={}", network(prefix));
            }
        }
        for (port, mask) in masks(rule.ports) {
            let ports = match mask {
                0 => String::new(),
                mask => format!(",tp_dst={port:#x}/{mask:#x}"),
            };
            add(50_000 - i, &format!("{fields}{ports}"), rule.allow);
        }
    }
    text
}

/// A range of ports as values and masks.
fn masks((low, high): (u16, u16)) -> Vec<(u16, u16)> {
    let (mut at, end) = (u32::from(low), u32::from(high) + 1);
    let mut masks = Vec::new();
    while at < end {
        // The largest block that begins here and does not go beyond the end.
        let mut size = 1u32 << at.trailing_zeros().min(16);
        while at + size > end {
            size /= 2;
        }
        masks.push((at as u16, (0x1_0000 - size) as u16));
        at += size;
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_become_masks_that_hold_just_them() {
        assert_eq!(masks((0, u16::MAX)), [(0, 0)]);
        assert_eq!(masks((443, 443)), [(443, 0xffff)]);
        for range in [(1024, u16::MAX), (5, 17), (1, 65_534)] {
            let masks = masks(range);
            for port in 0..=u16::MAX {
                let held = masks.iter().filter(|(value, mask)| port & mask == *value);
                let inside = (range.0..=range.1).contains(&port);
                assert_eq!(held.count(), usize::from(inside), "{port} in {range:?}");
            }
        }
    }

    #[test]
    fn rules_read_the_same_everywhere() {
        let rule = Rule::allow_tcp((0x0a08_0000, 24), (0x0a08_0000, 24));
        let text = nftables(&[rule]);
        assert!(text.contains("ip saddr 10.8.0.0/24 ip daddr 10.8.0.0/24 ip protocol tcp accept"));
        let text = openflow(&[rule]);
        assert!(text.contains(
            "priority=50000,in_port=2,tcp,nw_src=10.8.0.0/24,nw_dst=10.8.0.0/24,actions=output:1"
        ));
    }
}
