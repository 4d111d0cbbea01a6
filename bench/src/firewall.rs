//! Firewalls of any size, and traffic for them.
//!
//! Rules have networks and hosts, a protocol, a port or a range of ports; the last rule denies all.
//! Half of the traffic's flows match a rule.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::traffic::{Flow, Random};

pub mod peers;

/// An address and its prefix length.
type Prefix = (u32, u32);

/// A rule in parts, so that packets can be made to match it.
#[derive(Clone, Copy)]
pub struct Rule {
    allow: bool,
    source: Prefix,
    destination: Prefix,
    protocol: u8,
    /// Destination ports, from and to; any if they are all there are.
    ports: (u16, u16),
}

impl Rule {
    /// All TCP from one network to another passes.
    pub fn allow_tcp(source: (u32, u32), destination: (u32, u32)) -> Rule {
        Rule {
            allow: true,
            source,
            destination,
            protocol: 6,
            ports: (0, u16::MAX),
        }
    }

    fn matches(&self, flow: &Flow) -> bool {
        let inside = |(network, length), address: u32| address & !wild(length) == network;
        inside(self.source, flow.source)
            && inside(self.destination, flow.destination)
            && self.protocol == flow.protocol
            && (self.ports.0..=self.ports.1).contains(&flow.ports.1)
    }
}

fn wild(length: u32) -> u32 {
    u32::MAX.checked_shr(length).unwrap_or(0)
}

fn prefix(random: &mut Random) -> Prefix {
    let length = random.pick(&[0, 8, 16, 24, 24, 24, 32, 32]);
    let network = random.pick(&[0x0a00_0000u32, 0xc0a8_0000, 0xac10_0000]);
    let address = network | (random.word() & 0x000f_ffff);
    (address & !wild(length), length)
}

/// `count` rules without the last one, which denies all.
pub fn rules(count: usize, random: &mut Random) -> Vec<Rule> {
    let rule = |i: usize| {
        let (source, mut destination) = (prefix(random), prefix(random));
        if source.1 + destination.1 < 24 {
            destination = (0x0a00_0000 | (random.word() & 0xf_ffff), 32);
        }
        let port = random.pick(&[22u16, 25, 53, 80, 443, 993, 3306, 5432, 8080, 0, 1024]);
        Rule {
            allow: !i.is_multiple_of(3),
            source,
            destination,
            protocol: random.pick(&[6, 6, 6, 17]),
            ports: match port {
                0 => (0, u16::MAX),
                1024 => (1024, u16::MAX),
                port => (port, port),
            },
        }
    };
    (1..count).map(rule).collect()
}

fn clause(text: &mut String, side: &str, (address, length): Prefix) {
    let address = Ipv4Addr::from(address);
    let _ = match length {
        0 => Ok(()),
        32 => write!(text, " {side} host {address} &&"),
        _ => write!(text, " {side} net {address}/{length} &&"),
    };
}

/// An IPFilter's arguments: denied packets leave by output 1.
pub fn filter(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        text += if rule.allow { "0" } else { "1" };
        clause(&mut text, "src", rule.source);
        clause(&mut text, "dst", rule.destination);
        let protocol = if rule.protocol == 6 { "tcp" } else { "udp" };
        let _ = match rule.ports {
            (0, u16::MAX) => write!(text, " {protocol}"),
            (low, u16::MAX) => write!(text, " dst {protocol} port >= {low}"),
            (port, _) => write!(text, " dst {protocol} port {port}"),
        };
        text += ",\n";
    }
    text + "1 all"
}

/// An IPFilter's arguments: `count` rules of several primitives each.
pub fn filter_of_many_primitives(count: usize, random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 1..count {
        text += random.pick(&["0", "1", "allow", "deny"]);
        for side in ["src", "dst"] {
            clause(&mut text, side, prefix(random));
        }
        let protocol = random.pick(&["tcp", "udp"]);
        let low = 1 + random.below(60_000);
        let high = low + random.below(5000);
        let _ = match random.below(6) {
            0 => write!(
                text,
                " {protocol} && dst port >= {low} && dst port <= {high} && not src port {low}"
            ),
            1 => write!(
                text,
                " (dst {protocol} port {low} or dst {protocol} port {high} or dst udp port domain)"
            ),
            2 => write!(
                text,
                " tcp opt syn && not tcp opt ack && dst port {low} && src port > 1023"
            ),
            3 => write!(
                text,
                " (src port >= {low} && src port <= {high} or dst tcp port https) && ip ttl >= 2"
            ),
            4 => write!(
                text,
                " {protocol} && not (dst port {low} or src port {high}) && not ip frag"
            ),
            _ => write!(text, " icmp type echo && ip ttl > {} && ip tos 0", low % 60),
        };
        text += ",\n";
    }
    text + "1 all"
}

/// A flow that matches `rule`, or a random one.
fn flow(rule: Option<&Rule>, random: &mut Random) -> Flow {
    let any = (0x0a00_0000, 8);
    let (source, destination, protocol, ports) = match rule {
        Some(rule) => (rule.source, rule.destination, rule.protocol, rule.ports),
        None => (any, any, random.pick(&[6, 17]), (0, u16::MAX)),
    };
    let mut inside = |(address, length): Prefix| address | (random.word() & wild(length));
    let (source, destination) = (inside(source), inside(destination));
    let port = ports.0 + random.below(u32::from(ports.1 - ports.0) + 1) as u16;
    Flow {
        source,
        destination,
        protocol,
        ports: (1024 + random.below(60_000) as u16, port),
    }
}

/// Flows, of which every other one matches a rule.
pub fn flows(rules: &[Rule], count: usize, random: &mut Random) -> Vec<Flow> {
    let flow = |i: usize| {
        let rule = rules.get(random.below(rules.len() as u32) as usize);
        flow(rule.filter(|_| i.is_multiple_of(2)), random)
    };
    (0..count).map(flow).collect()
}

/// Flows that pass, each by one of the rules.
pub fn passing(rules: &[Rule], count: usize, random: &mut Random) -> Vec<Flow> {
    let candidates = std::iter::repeat_with(|| {
        let rule = rules.get(random.below(rules.len() as u32) as usize);
        flow(rule, random)
    });
    let passes = |flow: &Flow| {
        let rule = rules.iter().find(|rule| rule.matches(flow));
        rule.is_some_and(|rule| rule.allow)
    };
    candidates.filter(passes).take(count).collect()
}

/// Ethernet frames of several types, for a tree of Classifiers.
pub fn ethernet(count: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let frame = |_| {
        let mut frame = flow(None, random).frame(60);
        let kind = random.pick(&[0x0800u16, 0x0800, 0x0800, 0x0806, 0x86dd, 0x8100]);
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        if kind == 0x0806 {
            frame[20..22].copy_from_slice(&random.pick(&[1u16, 2]).to_be_bytes());
        }
        frame
    };
    (0..count).map(frame).collect()
}
