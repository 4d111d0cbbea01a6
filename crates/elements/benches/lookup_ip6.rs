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
use std::time::Instant;

use elements::ip6::route_table::{Hop, RouteTable};
use ip_network_table_deps_treebitmap::IpLookupTable;
use ipnet::Ipv6Net;
use prefix_trie::PrefixMap;
use router::args::Ipv6Prefix;

const ADDRESSES: usize = 1 << 18;
const BATCH: usize = 64;

/// A small random number generator (xorshift64*), so that runs are alike.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A global unicast address, in clusters as registries give them out.
    fn address(&mut self) -> u128 {
        const REGISTRIES: [u128; 6] = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00];
        let registry = REGISTRIES[self.below(6) as usize] << 112;
        let member = u128::from(self.below(1 << 13)) << 99;
        registry | member | u128::from(self.next()) << 35 | u128::from(self.next() >> 29)
    }

    fn length(&mut self) -> u8 {
        match self.below(100) {
            0..50 => 48,
            50..75 => 32 + self.below(13) as u8,
            75..90 => 29 + self.below(4) as u8,
            90..95 => 20 + self.below(9) as u8,
            _ => 49 + self.below(16) as u8,
        }
    }
}

fn routes(count: usize, random: &mut Random) -> Vec<(Ipv6Prefix, Hop)> {
    let mut seen = HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        let prefix = Ipv6Prefix {
            address: Ipv6Addr::from_bits(random.address()),
            length: random.length(),
        };
        let address = prefix.network();
        if seen.insert((address, prefix.length)) {
            let hop = random.below(64) as u32;
            let gateway = Ipv6Addr::from_bits((0xfe80 << 112) | (u128::from(hop) + 1));
            let port = hop % 8;
            routes.push((Ipv6Prefix { address, ..prefix }, Hop { gateway, port }));
        }
    }
    routes
}

fn addresses(routes: &[(Ipv6Prefix, Hop)], random: &mut Random) -> Vec<u128> {
    (0..ADDRESSES)
        .map(|i| {
            let address = random.address();
            if i % 2 == 0 {
                return address;
            }
            let (prefix, _) = routes[random.below(routes.len() as u64) as usize];
            prefix.address.to_bits() | address & !prefix.mask().to_bits()
        })
        .collect()
}

/// Nanoseconds of `work` for each of `count` things; the best of nine runs, for others use the
/// machine too.
fn time(count: usize, mut work: impl FnMut()) -> f64 {
    let best = (0..9).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    best.min().unwrap_or_default().as_secs_f64() * 1e9 / count as f64
}

fn main() {
    println!("   routes |  batch ns  single ns | treebitmap  prefix-trie | change ns");
    for count in [10, 1000, 200_000] {
        let mut random = Random(count as u64);
        let routes = routes(count, &mut random);
        let addresses = addresses(&routes, &mut random);
        let mut table = RouteTable::default();
        table
            .add_all(routes.iter().copied())
            .expect("there is room");

        let mut found = [Hop::NOWHERE; BATCH];
        let batch = time(ADDRESSES, || {
            for chunk in addresses.chunks(BATCH) {
                table.find_all(black_box(chunk), &mut found);
                black_box(&found);
            }
        });
        let single = time(ADDRESSES, || {
            for address in &addresses {
                black_box(table.find(black_box(*address)));
            }
        });
        let changes = &routes[..count.min(1000)];
        let change = time(2 * changes.len(), || {
            for (prefix, hop) in changes {
                table.remove(*prefix);
                table.add(*prefix, *hop).expect("there is room");
            }
        });

        let mut bitmap = IpLookupTable::new();
        let mut trie = PrefixMap::new();
        for (prefix, hop) in &routes {
            bitmap.insert(prefix.address, prefix.length.into(), *hop);
            let net = Ipv6Net::new(prefix.address, prefix.length).expect("a prefix");
            trie.insert(net, *hop);
        }
        let treebitmap = time(ADDRESSES, || {
            for address in &addresses {
                let address = Ipv6Addr::from_bits(black_box(*address));
                black_box(bitmap.longest_match(address));
            }
        });
        let prefix_trie = time(ADDRESSES, || {
            for address in &addresses {
                let net = Ipv6Net::from(Ipv6Addr::from_bits(black_box(*address)));
                black_box(trie.get_lpm(&net));
            }
        });
        println!(
            "{count:>9} | {batch:>9.1}  {single:>9.1} | {treebitmap:>10.1}  {prefix_trie:>11.1} | {change:>9.0}"
        );
    }
}
