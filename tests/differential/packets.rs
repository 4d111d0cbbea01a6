//! Random packets: few addresses and ports, so that rules, routes and mappings meet them, and
//! every way in which a header can be wrong.

use crate::case::Stamped;
use crate::random::Random;

/// Addresses that the families' arguments name, too.
pub const ADDRESSES: &str = "10.0.0.1|10.0.0.2|10.0.0.3|10.0.1.4|10.1.0.5|18.26.4.9|192.168.0.1|\
    127.0.0.1|224.0.0.5|255.255.255.255|0.0.0.0";
pub const PORTS: [u16; 9] = [0, 1, 7, 53, 80, 1024, 4000, 50000, 65535];

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

pub fn address(random: &mut Random) -> &'static str {
    random.one(ADDRESSES)
}

pub fn octets(address: &str) -> [u8; 4] {
    let mut octets = address.split('.').map(|octet| octet.parse().unwrap_or(0));
    std::array::from_fn(|_| octets.next().unwrap_or(0))
}

/// The Internet checksum of bytes (RFC 1071).
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    (!(sum as u16)).to_be_bytes()
}

/// An IPv4 packet before its lengths and checksums are known.
#[derive(Clone)]
pub struct Ip {
    pub source: [u8; 4],
    pub destination: [u8; 4],
    pub protocol: u8,
    pub id: u16,
    pub ttl: u8,
    pub tos: u8,
    /// Flags and offset, as in the header.
    pub fragment: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Ip {
    pub fn random(random: &mut Random) -> Ip {
        let protocol = *random.pick(&[TCP, TCP, TCP, UDP, UDP, UDP, ICMP, ICMP, 4, 41, 255]);
        let mut ip = Ip::new(random, protocol);
        if random.chance(10) {
            ip.options = options(random);
        }
        if random.chance(10) {
            ip.fragment = *random.pick(&[0x2000, 0x2001, 1, 100, 0x1FFF, 0x4000, 0x8000, 0x6000]);
        }
        ip
    }

    /// A whole packet with the payload of its protocol.
    pub fn new(random: &mut Random, protocol: u8) -> Ip {
        let source = octets(address(random));
        let destination = octets(address(random));
        let mut ip = Ip {
            source,
            destination,
            protocol,
            id: random.below(4) as u16,
            ttl: *random.pick(&[64, 64, 64, 255, 2, 1, 0]),
            tos: *random.pick(&[0, 0, 0, 1, 2, 3, 0xB8, 0xFF]),
            fragment: *random.pick(&[0, 0, 0x4000]),
            options: Vec::new(),
            payload: Vec::new(),
        };
        ip.payload = match protocol {
            TCP => tcp(random),
            UDP => udp(random),
            ICMP => icmp(random, &ip),
            _ => random.bytes(0..=24),
        };
        ip.seal(random);
        ip
    }

    /// Sets the checksum of a TCP or UDP payload.
    pub fn seal(&mut self, random: &mut Random) {
        let at = match self.protocol {
            TCP => 16,
            UDP => 6,
            _ => return,
        };
        if self.payload.len() < at + 2 || random.chance(10) {
            return;
        }
        self.payload[at..at + 2].fill(0);
        let mut covered = [self.source, self.destination].concat();
        covered.extend([0, self.protocol]);
        covered.extend((self.payload.len() as u16).to_be_bytes());
        covered.extend(&self.payload);
        let sum = checksum(&covered);
        self.payload[at..at + 2].copy_from_slice(&sum);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, self.tos];
        bytes.extend(((header + self.payload.len()) as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.source.iter().chain(&self.destination));
        bytes.extend(&self.options);
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum);
        bytes.extend(&self.payload);
        bytes
    }
}

/// IP options, padded to words. Checksums behind a source route with no hop to go differ on purpose.
fn options(random: &mut Random) -> Vec<u8> {
    let mut options = Vec::new();
    for _ in 0..random.within(1..=3) {
        let address = octets(address(random));
        match random.below(7) {
            0 => options.push(1),
            1 => options.extend([7, 7, *random.pick(&[4, 8, 5]), 0, 0, 0, 0]),
            2 => options.extend([&[131, 7, 4], &address[..]].concat()),
            3 => options.extend([&[137, 7, 4], &address[..]].concat()),
            4 => options.extend([68, 8, 5, *random.pick(&[0, 1, 3, 0xF0]), 0, 0, 0, 0]),
            5 => options.extend([148, 4, 0, 0]),
            _ => options.extend([random.byte(), random.byte() % 8]),
        }
    }
    options.truncate(40);
    options.resize(options.len().next_multiple_of(4), 0);
    options
}

fn ports(random: &mut Random) -> Vec<u8> {
    let ports = [*random.pick(&PORTS), *random.pick(&PORTS)];
    ports.iter().flat_map(|port| port.to_be_bytes()).collect()
}

fn tcp(random: &mut Random) -> Vec<u8> {
    let mut bytes = ports(random);
    bytes.extend((random.below(4) as u32 * 1000).to_be_bytes());
    bytes.extend((random.below(4) as u32 * 1000).to_be_bytes());
    let options: &[u8] = random.pick::<&[u8]>(&[
        &[],
        &[],
        &[2, 4, 5, 0xB4],
        &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        &[4, 2, 3, 3, 7, 1, 0, 0],
        &[1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 0, 12],
        &[2, 200, 1, 1],
    ]);
    let flags = *random.pick(&[0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0x00, 0xFF]);
    bytes.extend([
        (5 + options.len() / 4) as u8 * 16,
        flags,
        0x10,
        0,
        0,
        0,
        0,
        0,
    ]);
    bytes.extend(options);
    bytes.extend(random.bytes(0..=12));
    bytes
}

fn udp(random: &mut Random) -> Vec<u8> {
    let mut bytes = ports(random);
    let payload = random.bytes(0..=16);
    let length = 8 + payload.len() as u16;
    let length = *random.pick(&[length, length, length, length, length, 0, 7, length + 4]);
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn icmp(random: &mut Random, outer: &Ip) -> Vec<u8> {
    let kind = *random.pick(&[8, 8, 0, 0, 3, 11, 5, 12, 4, 13, 255]);
    let mut bytes = vec![kind, random.below(5) as u8, 0, 0];
    bytes.extend([0, random.below(3) as u8, 0, random.below(3) as u8]);
    if matches!(kind, 3 | 4 | 5 | 11 | 12) {
        let mut inner = outer.clone();
        (inner.source, inner.destination) = (outer.destination, octets(address(random)));
        inner.protocol = *random.pick(&[TCP, UDP, ICMP]);
        inner.payload = match inner.protocol {
            TCP => tcp(random),
            UDP => udp(random),
            _ => vec![8, 0, 0, 0, 0, 1, 0, 1],
        };
        let inner = inner.bytes();
        let keep = *random.pick(&[28, 28, 60, 24, 10]);
        bytes.extend(&inner[..inner.len().min(keep)]);
    } else {
        bytes.extend(random.bytes(0..=12));
    }
    let sum = checksum(&bytes);
    if random.chance(90) {
        bytes[2..4].copy_from_slice(&sum);
    }
    bytes
}

/// An IPv4 packet; some are short, long, or damaged.
pub fn ip(random: &mut Random) -> Vec<u8> {
    let mut bytes = Ip::random(random).bytes();
    match random.below(20) {
        0 => bytes.truncate(random.below(bytes.len() + 1).max(1)),
        1 => bytes.extend(random.bytes(1..=8)),
        2 => {
            let at = random.below(bytes.len());
            bytes[at] = random.byte();
        }
        _ => (),
    }
    bytes
}

/// An Ethernet frame around `payload`.
pub fn frame(random: &mut Random, kind: u16, payload: &[u8]) -> Vec<u8> {
    let station = |random: &mut Random| match random.below(8) {
        0 => [0xFF; 6],
        1 => [1, 0, 0x5E, 0, 0, 1],
        n => [0, 0, 0xC0, 0, 0, (n % 3) as u8],
    };
    let mut bytes = station(random).to_vec();
    bytes.extend(station(random));
    bytes.extend(kind.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// An Ethernet frame of any kind.
pub fn ethernet(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => {
            let mut arp = vec![0, 1, 8, 0, 6, 4, 0, random.within(1..=2) as u8];
            arp.extend([0, 0, 0xC0, 0, 0, 1]);
            arp.extend(octets(address(random)));
            arp.extend([0; 6]);
            arp.extend(octets(address(random)));
            frame(random, 0x0806, &arp)
        }
        1 => {
            let mut tagged = vec![random.byte(), random.below(4) as u8, 8, 0];
            tagged.extend(ip(random));
            frame(random, 0x8100, &tagged)
        }
        2 => {
            let bytes = random.bytes(0..=30);
            let kind = *random.pick(&[0x86DD, 0x0100, 0x05DC, 0xFFFF]);
            frame(random, kind, &bytes)
        }
        3 => random.bytes(14..=30),
        _ => {
            let packet = ip(random);
            frame(random, 0x0800, &packet)
        }
    }
}

/// Packets one after the other, at times that grow.
pub fn stamped(
    random: &mut Random,
    count: usize,
    mut packet: impl FnMut(&mut Random) -> Vec<u8>,
) -> Vec<Stamped> {
    let mut time = 1_000_000;
    let mut one = |random: &mut Random| {
        time += *random.pick(&[0, 1, 1000, 400_000, 1_000_000, 40_000_000]);
        Stamped {
            time,
            data: packet(random),
        }
    };
    (0..count).map(|_| one(random)).collect()
}
