//! TCP options as text: `mss1400;sackok;ts1:2`.

use std::io::Write;

use super::ip_options::{fit, parse_plain, print_unknown, set_length};
use super::scan::Scan;
use crate::prelude::*;

const EOL: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;

/// Which options a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    All,
    /// All but timestamps and padding.
    NoTimestamp,
    /// What concerns selective acknowledgements.
    Sack,
}

impl Which {
    fn has(self, kind: u8) -> bool {
        match self {
            Which::All => true,
            Which::NoTimestamp => kind != TIMESTAMP,
            Which::Sack => matches!(kind, SACK_PERMITTED | SACK),
        }
    }
}

/// The next option that is not padding, and what follows it.
enum Next<'o> {
    Option(&'o [u8], &'o [u8]),
    End,
    Bad,
}

fn next(mut options: &[u8]) -> Next<'_> {
    while let [NOP, rest @ ..] = options {
        options = rest;
    }
    match options {
        [] | [EOL, ..] => Next::End,
        [_, length, ..] => match options.split_at_checked((*length).into()) {
            Some((option, rest)) if is_sound(option) => Next::Option(option, rest),
            _ => Next::Bad,
        },
        [_] => Next::Bad,
    }
}

fn is_sound(option: &[u8]) -> bool {
    match (option.first(), option.len()) {
        (Some(&MSS), n) => n == 4,
        (Some(&WINDOW_SCALE), n) => n == 3,
        (Some(&SACK_PERMITTED), n) => n == 2,
        (Some(&SACK), n) => n % 8 == 2,
        (Some(&TIMESTAMP), n) => n == 10,
        (_, n) => n >= 2,
    }
}

/// Writes those of the options that `which` says: `.` for none, `?` if they cannot be read.
pub fn print(options: &[u8], which: Which, out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = options;
    loop {
        match next(rest) {
            Next::End => break,
            Next::Bad => {
                out.truncate(start);
                out.push(b'?');
                return;
            }
            Next::Option(option, after) => {
                if which.has(option[0]) {
                    // Writing to memory does not fail.
                    let _ = print_one(option, out, start);
                }
                rest = after;
            }
        }
    }
    if out.len() == start {
        out.push(b'.');
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().unwrap_or(&[0; 4]))
}

fn print_one(option: &[u8], out: &mut Vec<u8>, start: usize) -> std::io::Result<()> {
    let separate = |out: &mut Vec<u8>| {
        if out.len() > start {
            out.push(b';');
        }
    };
    if option[0] == SACK {
        for block in option[2..].chunks_exact(8) {
            separate(out);
            write!(out, "sack{}-{}", word(block), word(&block[4..]))?;
        }
        return Ok(());
    }
    separate(out);
    match *option {
        [MSS, _, high, low] => write!(out, "mss{}", u16::from_be_bytes([high, low])),
        [WINDOW_SCALE, _, scale] => write!(out, "wscale{scale}"),
        [SACK_PERMITTED, _] => write!(out, "sackok"),
        [TIMESTAMP, _, ref times @ ..] => {
            let echo = times.get(4..).unwrap_or_default();
            write!(out, "ts{}:{}", word(times), word(echo))
        }
        _ => print_unknown(option, out),
    }
}

/// Copies those of the options that `which` says.
pub fn copy(options: &[u8], which: Which, out: &mut Vec<u8>) {
    if which == Which::All {
        out.extend_from_slice(options);
        return;
    }
    let mut rest = options;
    while let Next::Option(option, after) = next(rest) {
        if which.has(option[0]) {
            out.extend_from_slice(option);
        }
        rest = after;
    }
}

/// Reads options. `None` if the text makes no sense, if they are too long for a header, or are
/// others than `which` says.
pub fn parse(text: &[u8], which: Which) -> Option<Vec<u8>> {
    let mut options = Vec::new();
    if text.is_empty() || text == b"." {
        return Some(options);
    }
    let mut scan = Scan::new(text);
    loop {
        let start = options.len();
        // An option in numbers may be any, except among those of SACK.
        let in_numbers = scan.is_at_digit();
        parse_one(&mut scan, &mut options)?;
        let kind = options.get(start..)?.iter().find(|kind| **kind != NOP);
        let has = match kind {
            _ if which == Which::All => true,
            _ if in_numbers => which != Which::Sack,
            // A NOP or an EOL that stands alone.
            None | Some(&EOL) => false,
            Some(kind) => which.has(*kind),
        };
        if !has {
            return None;
        }
        match scan.next() {
            None => return fit(options),
            Some(b',' | b';') => {}
            Some(_) => return None,
        }
    }
}

fn parse_one(scan: &mut Scan<'_>, options: &mut Vec<u8>) -> Option<()> {
    if scan.eat(b"mss") {
        let size: u16 = scan.number(0)?.try_into().ok()?;
        options.extend([MSS, 4]);
        options.extend(size.to_be_bytes());
    } else if scan.eat(b"wscale") {
        let scale = scan.byte(0)?;
        options.extend([WINDOW_SCALE, 3, scale]);
    } else if scan.eat(b"sackok") {
        options.extend([SACK_PERMITTED, 2]);
    } else if scan.eat(b"sack") {
        parse_sack(scan, options)?;
    } else if scan.eat(b"ts") {
        let [value, echo] = parse_pair(scan)?;
        if options.is_empty() {
            options.extend([NOP, NOP]);
        }
        options.extend([TIMESTAMP, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    } else {
        parse_plain(scan, options)?;
    }
    Some(())
}

/// Blocks with commas between them make one option.
fn parse_sack(scan: &mut Scan<'_>, options: &mut Vec<u8>) -> Option<()> {
    let start = options.len();
    options.extend([SACK, 0]);
    loop {
        for end in parse_pair(scan)? {
            options.extend(end.to_be_bytes());
        }
        if !scan.eat_before_digit(b",sack") {
            return set_length(options, start);
        }
    }
}

fn parse_pair(scan: &mut Scan<'_>) -> Option<[u32; 2]> {
    let first = scan.number(0)?;
    if !scan.eat(b":") && !scan.eat(b"-") {
        return None;
    }
    Some([first, scan.number(0)?])
}
