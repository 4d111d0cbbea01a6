//! Patterns of file names.

use packet::wire::ports;

use crate::prelude::*;

/// Widest that a part of a name is made.
const WIDTH_MAX: usize = 64;

/// The name that a pattern makes for the flow of a packet, which is IPv4.
///
/// # Errors
/// What is wrong with the pattern.
pub fn expand(pattern: &str, packet: &Packet) -> Result<String, String> {
    let mut name = String::new();
    let mut rest = pattern;
    while let Some((plain, after)) = rest.split_once('%') {
        name.push_str(plain);
        rest = after;
        let zeros = rest.starts_with('0');
        let width = number(&mut rest);
        let precision = match rest.strip_prefix('.') {
            Some(after) => {
                rest = after;
                Some(number(&mut rest).unwrap_or(0))
            }
            None => None,
        };
        let mut letters = rest.chars();
        let letter = letters.next().ok_or("bad filename pattern")?;
        rest = letters.as_str();
        let part = part(letter, precision, packet)
            .ok_or_else(|| format!("bad filename pattern `%{letter}'"))?;
        let fill = if zeros { "0" } else { "_" };
        let missing = width.unwrap_or(0).min(WIDTH_MAX).saturating_sub(part.len());
        name.push_str(&fill.repeat(missing));
        name.push_str(&part);
    }
    name.push_str(rest);
    Ok(name)
}

/// Takes the digits at the front.
fn number(rest: &mut &str) -> Option<usize> {
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits.parse().ok()
}

fn part(letter: char, precision: Option<usize>, packet: &Packet) -> Option<String> {
    let ip = packet.network_header().unwrap_or_default();
    let address = |at: usize| {
        let octets = *ip
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .unwrap_or(&[0; 4]);
        match precision {
            Some(byte @ 0..=3) => octets[byte].to_string(),
            _ => core::net::Ipv4Addr::from_octets(octets).to_string(),
        }
    };
    let port = |second: bool| {
        let (from, to) = packet.transport_header().and_then(ports).unwrap_or((0, 0));
        if second { to } else { from }.to_string()
    };
    let aggregate = packet.anno(AGGREGATE);
    let aggregate = match precision {
        Some(byte @ 0..=3) => aggregate >> ((3 - byte) * 8) & 0xff,
        Some(half @ 4..=5) => aggregate >> ((5 - half) * 16) & 0xffff,
        _ => aggregate,
    };
    Some(match letter {
        'n' => aggregate.to_string(),
        'x' => format!("{aggregate:x}"),
        'X' => format!("{aggregate:X}"),
        's' => address(12),
        'd' => address(16),
        'S' => port(false),
        'D' => port(true),
        'p' => match ip.get(9) {
            Some(6) => "T".to_string(),
            _ => "U".to_string(),
        },
        '%' => "%".to_string(),
        _ => return None,
    })
}
