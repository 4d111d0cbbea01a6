//! Time per packet of IPFilter programs over 1 to 10 000 firewall rules, and
//! what compiling them costs.
//!
//! `cargo bench -p elements --bench classify`; with `WEIR_SIMD` set to
//! `baseline`, `avx2` or `avx512`, packets are matched with no more than these
//! instructions. An argument selects cases by a part of their name: `match/1000`.
//!
//! Rules are combinations of source and destination prefix, protocol and
//! destination port as they stand in firewalls. Packets are 64-byte frames of
//! 1024 flows in random order; every other flow is made to match a rule.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use elements::classification::{Headers, ProtocolNames, ip_filter};
use fastrand::Rng;
use simd::Level;

fn pick<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// A rule's constraints, so that packets can be made to match it.
struct Rule {
    text: String,
    source: (u32, u32),
    destination: (u32, u32),
    protocol: u8,
    port: Option<u16>,
}

fn prefix(random: &mut Rng) -> (u32, u32) {
    let length = pick(random, &[0, 8, 16, 24, 24, 24, 32, 32]);
    let network = pick(
        random,
        &[0x0a00_0000u32, 0xc0a8_0000, 0xac10_0000, 0x0000_0000],
    );
    let address = network | random.u32(..) & 0x00ff_ffff;
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

fn rules(count: usize, random: &mut Rng) -> Vec<Rule> {
    (0..count)
        .map(|i| {
            let (source, mut destination) = (prefix(random), prefix(random));
            if source.1 + destination.1 < 24 {
                destination = (0x0a00_0000 | random.u32(..) & 0xff_ffff, 32);
            }
            let protocol = pick(random, &[6u8, 6, 6, 17]);
            let port = pick(random, &[22u16, 25, 53, 80, 443, 993, 3306, 5432, 8080, 0]);
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

fn packet(rule: Option<&Rule>, random: &mut Rng) -> [u8; 50] {
    let mut packet = [0u8; 50];
    let fill = |(address, length): (u32, u32), random: &mut Rng| {
        address | random.u32(..) & u32::MAX.checked_shr(length).unwrap_or(0)
    };
    let (mut source, mut destination) = (0xc0a8_0000 | random.u32(..) & 0xffff, random.u32(..));
    let (mut protocol, mut port) = (pick(random, &[6u8, 17]), random.u16(..));
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
    packet[20..22].copy_from_slice(&(random.u16(..) | 1024).to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet
}

fn headers(packets: &[[u8; 50]]) -> impl ExactSizeIterator<Item = Headers<'_>> + Clone {
    packets.iter().map(|packet| Headers::ip(packet, 20))
}

fn classify(criterion: &mut Criterion) {
    let level = match std::env::var("WEIR_SIMD") {
        Ok(name) => Level::named(&name).expect("this machine has the level"),
        Err(_) => Level::detected(),
    };
    for count in [1, 10, 32, 64, 100, 250, 500, 1000, 4000, 10_000] {
        let mut random = Rng::with_seed(count as u64);
        let rules = rules(count, &mut random);
        let mut texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        texts.push("deny all");
        let compile = || ip_filter(black_box(&texts), 1, &ProtocolNames).expect("rules compile");
        let mut program = compile().program.at_level(level);
        let packets: Vec<[u8; 50]> = (0..1024)
            .map(|i| {
                let rule = &rules[random.usize(..count)];
                packet((i % 2 == 0).then_some(rule), &mut random)
            })
            .collect();
        let allowed = headers(&packets).filter(|headers| program.classify(headers).is_some());
        println!(
            "{count} rules: {:?}, {} KiB; {} of {} packets are allowed",
            program.form(),
            program.memory() / 1024,
            allowed.count(),
            packets.len()
        );
        let mut group = criterion.benchmark_group("match");
        group.throughput(Throughput::Elements(packets.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                for batch in packets.chunks(64) {
                    black_box(program.classify_batch(headers(black_box(batch))));
                }
            });
        });
        group.finish();
        criterion.bench_function(&format!("compile/{count}"), |bencher| bencher.iter(compile));
    }
}

criterion_group!(benches, classify);
criterion_main!(benches);
