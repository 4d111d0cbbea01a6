//! Time per look-up and per added route of the IP routing table with 10, 1000, 100 000 and
//! 1 000 000 routes, beside what maintained crates for longest-prefix match do.
//!
//! `cargo bench -p elements --bench lookup`
//!
//! Prefix lengths follow the Internet's routing tables (six in ten are /24); next hops are 64.
//! Half of the addresses are random within random routes, half are random altogether.

use std::hint::black_box;
use std::net::Ipv4Addr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use elements::ip::route_table::{Found, Order, Route, RouteTable};
use fastrand::Rng;
use ip_network_table_deps_treebitmap::IpLookupTable;
use ipnet::Ipv4Net;
use prefix_trie::PrefixMap;
use router::args::Ipv4Prefix;

const ADDRESSES: usize = 1 << 20;
const BATCH: usize = 64;

fn length(random: &mut Rng) -> u8 {
    match random.u8(..100) {
        0..60 => 24,
        60..82 => random.u8(20..24),
        82..97 => random.u8(14..20),
        97..99 => random.u8(8..14),
        _ => random.u8(25..33),
    }
}

fn routes(count: usize, random: &mut Rng) -> Vec<Route> {
    let mut seen = std::collections::HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        // Unicast addresses, in clusters as registries give them out.
        let address = random.u32(0x0100_0000..0xe000_0000);
        let address = if random.u8(..4) > 0 {
            address & 0xff3f_ffff
        } else {
            address
        };
        let prefix = Ipv4Prefix::new(address.into(), length(random));
        let prefix = Ipv4Prefix {
            address: prefix.network(),
            ..prefix
        };
        if seen.insert((prefix.address, prefix.length())) {
            let hop = random.u32(..64);
            routes.push(Route {
                prefix,
                gateway: Ipv4Addr::from(0x0a00_0000 + hop),
                port: Some(hop % 8),
            });
        }
    }
    routes
}

fn addresses(routes: &[Route], random: &mut Rng) -> Vec<u32> {
    (0..ADDRESSES)
        .map(|i| {
            if i % 2 == 0 {
                return random.u32(..);
            }
            let route = routes[random.usize(..routes.len())];
            let inside = random.u32(..) & !route.prefix.mask.to_bits();
            route.prefix.address.to_bits() | inside
        })
        .collect()
}

fn table(routes: &[Route]) -> RouteTable {
    let mut table = RouteTable::new(Order::Latest);
    for route in routes {
        let _ = table.add(*route, false);
    }
    table
}

fn lookup(criterion: &mut Criterion) {
    for count in [10, 1000, 100_000, 1_000_000] {
        let mut random = Rng::with_seed(count as u64);
        let routes = routes(count, &mut random);
        let addresses = addresses(&routes, &mut random);
        let table_of_all = table(&routes);
        println!("{count} routes: {} KiB", table_of_all.memory() / 1024);

        let mut group = criterion.benchmark_group(format!("routes/{count}"));
        group
            .sample_size(15)
            .throughput(Throughput::Elements(ADDRESSES as u64));
        let mut found = Found::NOTHING;
        group.bench_function("batches", |bencher| {
            bencher.iter(|| {
                for chunk in addresses.as_chunks::<BATCH>().0 {
                    table_of_all.find_all(black_box(chunk), BATCH, &mut found);
                    black_box(&found);
                }
            });
        });
        group.bench_function("single", |bencher| {
            bencher.iter(|| {
                for address in &addresses {
                    black_box(table_of_all.find(black_box(*address)));
                }
            });
        });

        let mut bitmap = IpLookupTable::new();
        let mut trie = PrefixMap::new();
        for route in &routes {
            let hop = (route.gateway, route.port);
            let length = route.prefix.length().unwrap_or(32);
            bitmap.insert(route.prefix.address, length.into(), hop);
            let net = Ipv4Net::new(route.prefix.address, length).expect("a prefix");
            trie.insert(net, hop);
        }
        group.bench_function("treebitmap", |bencher| {
            bencher.iter(|| {
                for address in &addresses {
                    black_box(bitmap.longest_match(Ipv4Addr::from(black_box(*address))));
                }
            });
        });
        group.bench_function("prefix-trie", |bencher| {
            bencher.iter(|| {
                for address in &addresses {
                    let net = Ipv4Net::from(Ipv4Addr::from(black_box(*address)));
                    black_box(trie.get_lpm(&net));
                }
            });
        });
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function("adding", |bencher| {
            bencher.iter_with_large_drop(|| table(&routes));
        });
        group.finish();
    }
}

criterion_group!(benches, lookup);
criterion_main!(benches);
