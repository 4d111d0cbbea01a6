//! Time per look-up, time per change and memory of the IP routing table with 10, 1000, 100 000
//! and 1 000 000 routes, beside what maintained crates for longest-prefix match do.
//!
//! `cargo bench -p elements --bench lookup`
//!
//! Prefix lengths follow the Internet's routing tables (six in ten are /24); next hops are 64.
//! Half of the addresses are random within random routes, half are random altogether.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use elements::ip::route_table::{Found, Order, Route, RouteTable};
use ip_network_table_deps_treebitmap::IpLookupTable;
use ipnet::Ipv4Net;
use prefix_trie::PrefixMap;
use router::args::Ipv4Prefix;

const ADDRESSES: usize = 1 << 20;
const BATCH: usize = 64;

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

    fn length(&mut self) -> u8 {
        match self.below(100) {
            0..60 => 24,
            60..82 => 20 + self.below(4) as u8,
            82..97 => 14 + self.below(6) as u8,
            97..99 => 8 + self.below(6) as u8,
            _ => 25 + self.below(8) as u8,
        }
    }
}

fn routes(count: usize, random: &mut Random) -> Vec<Route> {
    let mut seen = std::collections::HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        // Unicast addresses, in clusters as registries give them out.
        let address = 0x0100_0000 + random.below(0xdf00_0000);
        let address = if random.below(4) > 0 {
            address & 0xff3f_ffff
        } else {
            address
        };
        let prefix = Ipv4Prefix::new(address.into(), random.length());
        let prefix = Ipv4Prefix {
            address: prefix.network(),
            ..prefix
        };
        if seen.insert((prefix.address, prefix.length())) {
            let hop = random.below(64);
            routes.push(Route {
                prefix,
                gateway: Ipv4Addr::from(0x0a00_0000 + hop),
                port: Some(hop % 8),
            });
        }
    }
    routes
}

fn addresses(routes: &[Route], random: &mut Random) -> Vec<u32> {
    (0..ADDRESSES)
        .map(|i| {
            if i % 2 == 0 {
                return random.next();
            }
            let route = routes[random.below(routes.len() as u32) as usize];
            let inside = random.next() & !route.prefix.mask.to_bits();
            route.prefix.address.to_bits() | inside
        })
        .collect()
}

/// Nanoseconds of `work` for each of `count` things; the best of fifteen runs, for others use the machine too.
fn time(count: usize, mut work: impl FnMut()) -> f64 {
    let best = (0..15).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    best.min().unwrap_or_default().as_secs_f64() * 1e9 / count as f64
}

fn main() {
    println!("   routes |  batch ns  single ns | treebitmap  prefix-trie | change ns | KiB");
    for count in [10, 1000, 100_000, 1_000_000] {
        let mut random = Random(count as u64);
        let routes = routes(count, &mut random);
        let addresses = addresses(&routes, &mut random);
        let mut table = RouteTable::new(Order::Latest);
        let start = Instant::now();
        for route in &routes {
            let _ = table.add(*route, false);
        }
        let built = start.elapsed().as_secs_f64() * 1e9 / count as f64;

        let mut found = Found::NOTHING;
        let batch = time(ADDRESSES, || {
            for chunk in addresses.as_chunks::<BATCH>().0 {
                table.find_all(black_box(chunk), BATCH, &mut found);
                black_box(&found);
            }
        });
        let single = time(ADDRESSES, || {
            for address in &addresses {
                black_box(table.find(black_box(*address)));
            }
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
        let treebitmap = time(ADDRESSES, || {
            for address in &addresses {
                black_box(bitmap.longest_match(Ipv4Addr::from(black_box(*address))));
            }
        });
        let prefix_trie = time(ADDRESSES, || {
            for address in &addresses {
                let net = Ipv4Net::from(Ipv4Addr::from(black_box(*address)));
                black_box(trie.get_lpm(&net));
            }
        });
        println!(
            "{count:>9} | {batch:>9.1}  {single:>9.1} | {treebitmap:>10.1}  {prefix_trie:>11.1} | {built:>9.0} | {}",
            table.memory() / 1024
        );
    }
}
