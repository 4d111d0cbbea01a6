//! IPReassembler and IPFragmenter.
//!
//! Which packets an IPReassembler gives up, and what their headers say, is left out: both differ on
//! purpose. So are first fragments with options that come after others, whose options overwrite data
//! in Click, and identifiers that IPFragmenter picks at random for packets that forbid fragments.

use super::print_outputs;
use crate::case::Case;
use crate::packets::{self, Ip};
use crate::random::Random;

pub fn make(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    let mut datagrams = random.list(1..=size.min(4), datagram);
    // Two may have one number: Click mixes up headers of different lengths.
    if let Some((first, others)) = datagrams.split_first_mut() {
        for other in others {
            other.options.clone_from(&first.options);
        }
    }
    let mut pieces = Vec::new();
    for (id, datagram) in datagrams.iter().enumerate() {
        pieces.extend(cut(random, datagram, id as u16));
    }
    for _ in 0..random.below(pieces.len() + 1) {
        let (a, b) = (random.below(pieces.len()), random.below(pieces.len()));
        pieces.swap(a, b);
    }
    if datagrams
        .iter()
        .any(|datagram| !datagram.options.is_empty())
    {
        pieces.sort_by_key(|piece| u16::from_be_bytes([piece[6], piece[7]]) & 0x1fff != 0);
    }
    let mut pieces = pieces.into_iter();
    let forbidden = datagrams.iter().any(|datagram| datagram.fragment != 0);
    let fragmenter = fragmenter(random, forbidden);
    let element = match random.below(3) {
        0 => format!("f :: {fragmenter};"),
        1 => "f :: IPReassembler;".to_string(),
        _ => format!("a :: IPReassembler; a -> f :: {fragmenter}; a[1] -> d;"),
    };
    let first = if element.starts_with("a") { "a" } else { "f" };
    case.config.push(element);
    case.config.push(format!(
        "FromDump(packets.pcap, STOP true) -> CheckIPHeader -> {first};"
    ));
    if case.config[0].starts_with("f :: IPReassembler") {
        case.config.extend(print_outputs("f", 1));
        case.config.push("f[1] -> d;".to_string());
    } else {
        case.config.extend(print_outputs("f", 2));
    }
    let count = pieces.len();
    case.packets = packets::stamped(random, count, |_| pieces.next().expect("there are as many"));
    for handler in ["dropped", "fragments"].iter().filter(|_| first == "f") {
        if case.config[0].contains("IPFragmenter") {
            case.handlers.push(format!("f.{handler}"));
        }
    }
    case
}

fn fragmenter(random: &mut Random, forbidden: bool) -> String {
    let mtu = *random.pick(&[28, 40, 44, 56, 68, 100, 7, 0]);
    let rest = match forbidden {
        true => random.one("||, true|, HEADROOM 40|, VERBOSE true"),
        false => random.one("||, true|, HONOR_DF false|, HEADROOM 40|, VERBOSE true"),
    };
    format!("IPFragmenter({mtu}{rest})")
}

fn datagram(random: &mut Random) -> Ip {
    let mut ip = Ip::new(random, 17);
    ip.source = packets::octets(random.one("10.0.0.1|10.0.0.2"));
    ip.destination = packets::octets("18.26.4.9");
    ip.fragment = *random.pick(&[0, 0, 0x4000]);
    let length = random.within(0..=100);
    ip.payload = (0..length as u8).collect();
    if random.chance(20) {
        ip.options = random
            .pick(&[
                vec![7, 7, 4, 0, 0, 0, 0, 0],
                vec![131, 7, 4, 10, 0, 0, 2, 0],
                vec![1, 1, 1, 0],
            ])
            .clone();
    }
    ip
}

/// The packet whole, or fragments of it: in order or not, some twice, some missing, some wrong.
fn cut(random: &mut Random, whole: &Ip, id: u16) -> Vec<Vec<u8>> {
    let mut whole = whole.clone();
    whole.id = id % 3;
    if random.chance(30) {
        return vec![whole.bytes()];
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < whole.payload.len() || at == 0 {
        let step = 8 * random.within(1..=5);
        let end = (at + step).min(whole.payload.len());
        let mut piece = whole.clone();
        let more = if end < whole.payload.len() { 0x2000 } else { 0 };
        piece.fragment = more | (at / 8) as u16;
        piece.payload = whole.payload[at..end].to_vec();
        match random.below(24) {
            0 => piece.fragment ^= 0x2000,
            1 => piece.fragment = more | random.below(12) as u16,
            2 => piece.payload.extend([0xEE; 8]),
            3 => piece.payload.truncate(piece.payload.len() / 2),
            4 => piece.payload.extend([0xEE; 3]),
            _ => (),
        }
        for _ in 0..*random.pick(&[1, 1, 1, 1, 1, 1, 2, 0]) {
            pieces.push(piece.bytes());
        }
        at += step;
    }
    pieces
}
