//! Firewalls of any size, and traffic for them.
//!
//! Rules are what firewalls have: networks and hosts, a protocol, a port or a range of ports; the
//! last one denies all. Traffic is flows in random order, half of which match a rule; each flow is
//! a frame of 60 bytes. Every run makes the same.

use std::fmt::Write;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

/// A small random number generator (xorshift64*), so that runs are alike.
pub struct Random(u64);

impl Random {
    /// With a start of its own.
    pub fn new(seed: u64) -> Random {
        Random(0x9e37_79b9_7f4a_7c15 ^ seed << 1)
    }

    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(n)) >> 32) as u32
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

/// An address and how many of its bits count.
type Prefix = (u32, u32);

/// A rule, so that packets can be made to match it.
#[derive(Clone, Copy)]
pub struct Rule {
    allow: bool,
    source: Prefix,
    destination: Prefix,
    protocol: u8,
    /// Destination ports, from and to; any if they are all there are.
    ports: (u16, u16),
}

fn wild(length: u32) -> u32 {
    u32::MAX.checked_shr(length).unwrap_or(0)
}

fn prefix(random: &mut Random) -> Prefix {
    let length = random.pick(&[0, 8, 16, 24, 24, 24, 32, 32]);
    let network = random.pick(&[0x0a00_0000u32, 0xc0a8_0000, 0xac10_0000]);
    let address = network | (random.next() & 0x000f_ffff);
    (address & !wild(length), length)
}

/// `count` rules but for the last one, which denies all.
pub fn rules(count: usize, random: &mut Random) -> Vec<Rule> {
    let rule = |i: usize| {
        let (source, mut destination) = (prefix(random), prefix(random));
        if source.1 + destination.1 < 24 {
            destination = (0x0a00_0000 | (random.next() & 0xf_ffff), 32);
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

/// An IPFilter's arguments: what is denied leaves by output 1.
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

/// A frame of 60 bytes, of a flow that matches `rule`, or of any.
fn frame(rule: Option<&Rule>, random: &mut Random) -> [u8; 60] {
    let mut frame = [0; 60];
    let any = (0x0a00_0000, 8);
    let (source, destination, protocol, ports) = match rule {
        Some(rule) => (rule.source, rule.destination, rule.protocol, rule.ports),
        None => (any, any, random.pick(&[6, 17]), (0, u16::MAX)),
    };
    let mut inside =
        |(address, length): Prefix| (address | (random.next() & wild(length))).to_be_bytes();
    frame[5] = 2;
    frame[11] = 1;
    frame[12] = 8;
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    ip[3] = 46;
    ip[8] = 64;
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&inside(source));
    ip[16..20].copy_from_slice(&inside(destination));
    let port = ports.0 + random.below(u32::from(ports.1 - ports.0) + 1) as u16;
    ip[20..22].copy_from_slice(&(1024 + random.below(60_000) as u16).to_be_bytes());
    ip[22..24].copy_from_slice(&port.to_be_bytes());
    let words = ip[..20]
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Writes a capture of `count` packets of `flows` flows, in random order if there are more flows
/// than one.
///
/// # Errors
/// The file's.
pub fn traffic(
    path: &Path,
    rules: &[Rule],
    (count, flows): (usize, usize),
    random: &mut Random,
) -> io::Result<()> {
    let mut flow = |i: usize| {
        let rule = rules.get(random.below(rules.len() as u32) as usize);
        frame(rule.filter(|_| i.is_multiple_of(2)), random)
    };
    let flows: Vec<[u8; 60]> = (0..flows).map(&mut flow).collect();
    capture(path, (0..count).map(|i| flows[i % flows.len()]))
}

/// Ethernet frames of several types, for a tree of Classifiers.
///
/// # Errors
/// The file's.
pub fn ethernet(path: &Path, count: usize, random: &mut Random) -> io::Result<()> {
    let frames = (0..count).map(|_| {
        let mut frame = frame(None, random);
        let kind = random.pick(&[0x0800u16, 0x0800, 0x0800, 0x0806, 0x86dd, 0x8100]);
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        if kind == 0x0806 {
            frame[20..22].copy_from_slice(&random.pick(&[1u16, 2]).to_be_bytes());
        }
        frame
    });
    capture(path, frames)
}

/// A pcap file, as libpcap writes it: little-endian, microseconds, Ethernet.
fn capture(path: &Path, frames: impl Iterator<Item = [u8; 60]>) -> io::Result<()> {
    let mut bytes = Vec::new();
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    };
    words(&mut bytes, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for frame in frames {
        words(&mut bytes, &[1, 0, 60, 60]);
        bytes.extend_from_slice(&frame);
    }
    std::fs::write(path, bytes)
}
