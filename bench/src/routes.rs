//! Routing tables of any size, and traffic for them.
//!
//! Prefix lengths are mixed as in the Internet's table: six of ten are /24, most others /16 to /23,
//! few are shorter (shares after the CIDR Report, rounded).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::traffic::{Flow, Random};

/// How many of a hundred prefixes have each length.
const MIX: [(u32, u32); 10] = [
    (24, 60),
    (23, 10),
    (22, 11),
    (21, 5),
    (20, 4),
    (19, 3),
    (18, 2),
    (17, 1),
    (16, 3),
    (12, 1),
];

/// Outputs of the routes.
pub const OUTPUTS: u32 = 4;

/// `count` different prefixes: address and length.
pub fn prefixes(count: usize, random: &mut Random) -> Vec<(u32, u32)> {
    let mut seen = BTreeSet::new();
    let mut prefixes = Vec::new();
    while prefixes.len() < count {
        let mut share = random.below(100);
        let length = MIX.iter().find_map(|(length, of)| match share < *of {
            true => Some(*length),
            false => {
                share -= of;
                None
            }
        });
        let length = length.unwrap_or(24);
        // 1.0.0.0 to 223.255.255.255.
        let address = (1 << 24) + random.below(223 << 24);
        let prefix = (address >> (32 - length) << (32 - length), length);
        if seen.insert(prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

/// The arguments of a route lookup element; addresses in no prefix leave by output 0.
pub fn table(prefixes: &[(u32, u32)]) -> String {
    let mut text = String::from("0.0.0.0/0 0");
    for (i, (address, length)) in prefixes.iter().enumerate() {
        let output = i as u32 % OUTPUTS;
        let _ = write!(text, ",\n{}/{length} {output}", Ipv4Addr::from(*address));
    }
    text
}

/// `count` flows to addresses in the prefixes.
pub fn flows<'r>(
    prefixes: &'r [(u32, u32)],
    count: usize,
    random: &'r mut Random,
) -> impl Iterator<Item = Flow> + 'r {
    (0..count).map(|_| {
        let (address, length) = random.pick(prefixes);
        Flow {
            source: 0x0a00_0001,
            destination: address | (random.word() & (u32::MAX >> length)),
            protocol: 17,
            ports: (4096, 53),
        }
    })
}
