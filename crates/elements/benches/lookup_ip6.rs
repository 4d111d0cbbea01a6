//! Time per look-up and per change of the IPv6 routing table with 10, 1000 and 200 000 routes,
//! beside what maintained crates for longest-prefix match do.
//!
//! `cargo bench -p elements --bench lookup_ip6`
//!
//! Prefix lengths follow the Internet's routing tables (half are /48); next hops are 64. Half of the
//! addresses are random within random routes, half are random among global unicast addresses.

use std::collections::HashSet;
use std::hint::black_box;
use std::net::Ipv6Addr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use elements::ip6::route_table::{Hop, RouteTable};
use fastrand::Rng;
use ip_network_table_deps_treebitmap::IpLookupTable;
use ipnet::Ipv6Net;
use prefix_trie::PrefixMap;
use router::args::Ipv6Prefix;

const ADDRESSES: usize = 1 << 18;
const BATCH: usize = 64;

/// A global unicast address, in clusters as registries give them out.
fn address(random: &mut Rng) -> u128 {
    const REGISTRIES: [u128; 6] = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00];
    let registry = REGISTRIES[random.usize(..6)] << 112;
    let member = random.u128(..1 << 13) << 99;
    registry | member | random.u128(..1 << 99)
}

fn length(random: &mut Rng) -> u8 {
    match random.u8(..100) {
        0..50 => 48,
        50..75 => random.u8(32..45),
        75..90 => random.u8(29..33),
        90..95 => random.u8(20..29),
        _ => random.u8(49..65),
    }
}

fn routes(count: usize, random: &mut Rng) -> Vec<(Ipv6Prefix, Hop)> {
    let mut seen = HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        let prefix = Ipv6Prefix {
            address: Ipv6Addr::from_bits(address(random)),
            length: length(random),
        };
        let address = prefix.network();
        if seen.insert((address, prefix.length)) {
            let hop = random.u32(..64);
            let gateway = Ipv6Addr::from_bits((0xfe80 << 112) | (u128::from(hop) + 1));
            let port = hop % 8;
            routes.push((Ipv6Prefix { address, ..prefix }, Hop { gateway, port }));
        }
    }
    routes
}

fn addresses(routes: &[(Ipv6Prefix, Hop)], random: &mut Rng) -> Vec<u128> {
    (0..ADDRESSES)
        .map(|i| {
            let address = address(random);
            if i % 2 == 0 {
                return address;
            }
            let (prefix, _) = routes[random.usize(..routes.len())];
            prefix.address.to_bits() | address & !prefix.mask().to_bits()
        })
        .collect()
}

fn lookup(criterion: &mut Criterion) {
    for count in [10, 1000, 200_000] {
        let mut random = Rng::with_seed(count as u64);
        let routes = routes(count, &mut random);
        let addresses = addresses(&routes, &mut random);
        let mut table = RouteTable::default();
        table
            .add_all(routes.iter().copied())
            .expect("there is room");

        let mut group = criterion.benchmark_group(format!("routes/{count}"));
        group
            .sample_size(15)
            .throughput(Throughput::Elements(ADDRESSES as u64));
        let mut found = [Hop::NOWHERE; BATCH];
        group.bench_function("batches", |bencher| {
            bencher.iter(|| {
                for chunk in addresses.chunks(BATCH) {
                    table.find_all(black_box(chunk), &mut found);
                    black_box(&found);
                }
            });
        });
        group.bench_function("single", |bencher| {
            bencher.iter(|| {
                for address in &addresses {
                    black_box(table.find(black_box(*address)));
                }
            });
        });

        let mut bitmap = IpLookupTable::new();
        let mut trie = PrefixMap::new();
        for (prefix, hop) in &routes {
            bitmap.insert(prefix.address, prefix.length.into(), *hop);
            let net = Ipv6Net::new(prefix.address, prefix.length).expect("a prefix");
            trie.insert(net, *hop);
        }
        group.bench_function("treebitmap", |bencher| {
            bencher.iter(|| {
                for address in &addresses {
                    let address = Ipv6Addr::from_bits(black_box(*address));
                    black_box(bitmap.longest_match(address));
                }
            });
        });
        group.bench_function("prefix-trie", |bencher| {
            bencher.iter(|| {
                for address in &addresses {
                    let net = Ipv6Net::from(Ipv6Addr::from_bits(black_box(*address)));
                    black_box(trie.get_lpm(&net));
                }
            });
        });
        let changes = &routes[..count.min(1000)];
        group.throughput(Throughput::Elements(2 * changes.len() as u64));
        group.bench_function("removing and adding", |bencher| {
            bencher.iter(|| {
                for (prefix, hop) in changes {
                    table.remove(*prefix).unwrap();
                    table.add(*prefix, *hop).expect("there is room");
                }
            });
        });
        group.finish();
    }
}

criterion_group!(benches, lookup);
criterion_main!(benches);
