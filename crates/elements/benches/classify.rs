//! Time per packet of IPFilter programs over 1 to 10 000 firewall rules, and
//! what compiling them costs.
//!
//! `cargo bench -p elements --bench classify`; with `WEIR_SIMD` set to
//! `baseline`, `avx2` or `avx512`, packets are matched with no more than these
//! instructions. Numbers after it are rules, instead of the default ones.
//!
//! Rules are combinations of source and destination prefix, protocol and
//! destination port as they stand in firewalls. Packets are 64-byte frames of
//! 1024 flows in random order; every other flow is made to match a rule.

use elements::classification::{Headers, Program, ProtocolNames, ip_filter};
use simd::Level;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A small random number generator (xorshift64*), so that runs are alike.
struct Random(u64);

impl Random {
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

/// A rule's constraints, so that packets can be made to match it.
struct Rule {
    text: String,
    source: (u32, u32),
    destination: (u32, u32),
    protocol: u8,
    port: Option<u16>,
}

fn prefix(random: &mut Random) -> (u32, u32) {
    let length = random.pick(&[0, 8, 16, 24, 24, 24, 32, 32]);
    let network = random.pick(&[0x0a00_0000u32, 0xc0a8_0000, 0xac10_0000, 0x0000_0000]);
    let address = network | random.next() & 0x00ff_ffff;
    (address & !u32::MAX.checked_shr(length).unwrap_or(0), length)
}

fn clause(side: &str, (address, length): (u32, u32)) -> String {
    let [a, b, c, d] = address.to_be_bytes();
    match length {
        0 => String::new(),
        32 => format!("{side} host {a}.{b}.{c}.{d} && "),
        _ => format!("{side} net {a}.{b}.{c}.{d}/{length} && "),
    }
}

fn rules(count: usize, random: &mut Random) -> Vec<Rule> {
    (0..count)
        .map(|i| {
            let (source, mut destination) = (prefix(random), prefix(random));
            if source.1 + destination.1 < 24 {
                destination = (0x0a00_0000 | random.next() & 0xff_ffff, 32);
            }
            let protocol = random.pick(&[6u8, 6, 6, 17]);
            let port = random.pick(&[22u16, 25, 53, 80, 443, 993, 3306, 5432, 8080, 0]);
            let port = (port != 0).then_some(port);
            let mut text = String::from(if i % 3 == 0 { "deny " } else { "allow " });
            text += &clause("src", source);
            text += &clause("dst", destination);
            text += if protocol == 6 { "tcp" } else { "udp" };
            if let Some(port) = port {
                text += &format!(" && dst port {port}");
            }
            Rule {
                text,
                source,
                destination,
                protocol,
                port,
            }
        })
        .collect()
}

fn packet(rule: Option<&Rule>, random: &mut Random) -> [u8; 50] {
    let mut packet = [0u8; 50];
    let fill = |(address, length): (u32, u32), random: &mut Random| {
        address | random.next() & u32::MAX.checked_shr(length).unwrap_or(0)
    };
    let (mut source, mut destination) = (0xc0a8_0000 | random.next() & 0xffff, random.next());
    let (mut protocol, mut port) = (random.pick(&[6u8, 17]), random.next() as u16);
    if let Some(rule) = rule {
        source = fill(rule.source, random);
        destination = fill(rule.destination, random);
        protocol = rule.protocol;
        port = rule.port.unwrap_or(port);
    }
    packet[0] = 0x45;
    packet[3] = 50;
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&source.to_be_bytes());
    packet[16..20].copy_from_slice(&destination.to_be_bytes());
    packet[20..22].copy_from_slice(&(random.next() as u16 | 1024).to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet
}

/// Nanoseconds a packet in batches of 64, the best of many passes. A pass is
/// shorter than a scheduler's time slice, so that other load does not get into
/// all of them.
fn time(program: &mut Program, packets: &[[u8; 50]]) -> f64 {
    let mut best = Duration::MAX;
    const ROUNDS: usize = 10;
    for _ in 0..500 {
        let start = Instant::now();
        let mut sum = 0;
        for _ in 0..ROUNDS {
            for batch in packets.chunks(64) {
                let headers = black_box(batch).iter();
                let headers = headers.map(|packet| Headers::ip(&packet[..], 20));
                sum += program.classify_batch(headers).len();
            }
        }
        black_box(sum);
        best = best.min(start.elapsed());
    }
    best.as_secs_f64() * 1e9 / (ROUNDS * packets.len()) as f64
}

fn main() {
    let level = match std::env::var("WEIR_SIMD") {
        Ok(name) => Level::named(&name).expect("this machine has the level"),
        Err(_) => Level::detected(),
    };
    let given: Vec<usize> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    let default = vec![1, 10, 32, 64, 100, 250, 500, 1000, 4000, 10_000];
    println!("rules  form          ns/packet   Mpps  hits  compile µs  memory KiB");
    for count in if given.is_empty() { default } else { given } {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 + count as u64);
        let rules = rules(count, &mut random);
        let mut texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        texts.push("deny all");
        let mut compile = Duration::MAX;
        let mut compiled = None;
        for _ in 0..if count > 100 { 10 } else { 50 } {
            let start = Instant::now();
            compiled =
                Some(ip_filter(black_box(&texts), 1, &ProtocolNames).expect("rules compile"));
            compile = compile.min(start.elapsed());
        }
        let mut program = compiled.expect("compiled").program.at_level(level);
        let packets: Vec<[u8; 50]> = (0..1024)
            .map(|i| {
                let rule = &rules[random.below(count as u32) as usize];
                packet((i % 2 == 0).then_some(rule), &mut random)
            })
            .collect();
        let hits = packets
            .iter()
            .filter(|packet| program.classify(&Headers::ip(&packet[..], 20)).is_some())
            .count();
        let ns = time(&mut program, &packets);
        println!(
            "{count:5}  {:12} {ns:9.1} {:7.1} {hits:5} {:11.1} {:11.1}",
            format!("{:?}", program.form()),
            1000.0 / ns,
            compile.as_secs_f64() * 1e6,
            program.memory() as f64 / 1024.0
        );
    }
}
