//! IP options as text: `ssrr{1.0.0.1^1.0.0.2};ts{1,2}+3;99=0:5`.

use std::io::Write;

use super::scan::Scan;
use crate::prelude::*;

/// Most bytes of options in a header, of IP as of TCP.
pub const OPTIONS_MAX: usize = 40;

const EOL: u8 = 0;
const NOP: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;

/// The bit of a timestamp that says it is not in milliseconds since midnight.
const NONSTANDARD: u32 = 0x8000_0000;

/// Writes options: `.` for none, `?` if they cannot be read.
pub fn print(options: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = options;
    while let [kind, ..] = *rest {
        match kind {
            EOL => break,
            NOP => rest = &rest[1..],
            _ => {
                let Some((option, after)) = split(rest) else {
                    out.truncate(start);
                    out.push(b'?');
                    return;
                };
                if out.len() > start {
                    out.push(b';');
                }
                print_one(option, out);
                rest = after;
            }
        }
    }
    if out.len() == start {
        out.push(b'.');
    }
}

/// An option that is as long as it says, with its pointer in place, and what follows it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let &[kind, length, ..] = bytes else {
        return None;
    };
    let (option, rest) = bytes.split_at_checked(length.into())?;
    let sound = match kind {
        RECORD_ROUTE | LOOSE_ROUTE | STRICT_ROUTE => option.get(2).is_some_and(|p| *p >= 4),
        TIMESTAMP => option.len() >= 4 && option[2] >= 5,
        _ => option.len() >= 2,
    };
    sound.then_some((option, rest))
}

fn print_one(option: &[u8], out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match option[0] {
        RECORD_ROUTE => print_route("rr", option, out),
        LOOSE_ROUTE => print_route("lsrr", option, out),
        STRICT_ROUTE => print_route("ssrr", option, out),
        TIMESTAMP => print_timestamps(option, out),
        _ => print_unknown(option, out),
    };
}

/// Writes an option by its numbers.
pub fn print_unknown(option: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    write!(out, "{}", option.first().unwrap_or(&0))?;
    for (i, byte) in option.iter().skip(2).enumerate() {
        write!(out, "{}{byte}", if i == 0 { '=' } else { ':' })?;
    }
    Ok(())
}

fn address(bytes: &[u8]) -> Ipv4Addr {
    Ipv4Addr::from(*bytes.first_chunk().unwrap_or(&[0; 4]))
}

fn print_route(name: &str, option: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    let records = option[0] == RECORD_ROUTE;
    let pointer = usize::from(option[2]) - 1;
    let mut at = 3;
    let mut separator = "";
    write!(out, "{name}{{")?;
    while at + 4 <= option.len() {
        if at == pointer {
            if records {
                break;
            }
            separator = "^";
        }
        write!(out, "{separator}{}", address(&option[at..]))?;
        separator = ",";
        at += 4;
    }
    if at == option.len() && at == pointer && !records {
        out.push(b'^');
    }
    out.push(b'}');
    if at + 4 <= option.len() {
        write!(out, "+{}", (option.len() - at) / 4)?;
    }
    Ok(())
}

fn print_timestamps(option: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    let pointer = usize::from(option[2]) - 1;
    let (flag, overflow) = (option[3] & 0xf, option[3] >> 4);
    let has_address = matches!(flag, 1..=3);
    let size = if has_address { 8 } else { 4 };
    match flag {
        0 => write!(out, "ts{{")?,
        1 => write!(out, "ts.ip{{")?,
        3 => write!(out, "ts.preip{{")?,
        _ => write!(out, "ts.{flag}{{")?,
    }
    let mut at = 4;
    let mut separator = "";
    while at + size <= option.len() {
        if at == pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        out.extend(separator.bytes());
        let mut value = at;
        if has_address {
            write!(out, "{}", address(&option[at..]))?;
            value += 4;
        }
        // A prespecified address that was not reached yet has no time.
        if flag != 3 || at < pointer {
            let time = address(&option[value..]).to_bits();
            let equals = if has_address { "=" } else { "" };
            let mark = if time & NONSTANDARD != 0 { "!" } else { "" };
            write!(out, "{equals}{mark}{}", time & !NONSTANDARD)?;
        }
        separator = ",";
        at += size;
    }
    if at == option.len() && at == pointer {
        out.push(b'^');
    }
    out.push(b'}');
    if at + size <= option.len() {
        write!(out, "+{}", (option.len() - at) / size)?;
    }
    if overflow != 0 {
        write!(out, "++{overflow}")?;
    }
    Ok(())
}

/// Reads options. `None` if the text makes no sense, or if they are too long for a header.
pub fn parse(text: &[u8]) -> Option<Vec<u8>> {
    let mut options = Vec::new();
    if text.is_empty() || text == b"." {
        return Some(options);
    }
    let mut scan = Scan::new(text);
    loop {
        if scan.eat(b"rr{") {
            parse_route(RECORD_ROUTE, &mut scan, &mut options)?;
        } else if scan.eat(b"ssrr{") {
            parse_route(STRICT_ROUTE, &mut scan, &mut options)?;
        } else if scan.eat(b"lsrr{") {
            parse_route(LOOSE_ROUTE, &mut scan, &mut options)?;
        } else if scan.eat(b"ts") {
            parse_timestamps(&mut scan, &mut options)?;
        } else {
            parse_plain(&mut scan, &mut options)?;
        }
        match scan.next() {
            None => return fit(options),
            Some(b',' | b';') => {}
            Some(_) => return None,
        }
    }
}

/// Options that fit a header, padding in front left out where need be.
pub fn fit(mut options: Vec<u8>) -> Option<Vec<u8>> {
    while options.len() > OPTIONS_MAX && options.first() == Some(&NOP) {
        options.remove(0);
    }
    (options.len() <= OPTIONS_MAX).then_some(options)
}

/// Reads what options of IP and of TCP have in common: padding, and options by number.
pub fn parse_plain(scan: &mut Scan<'_>, options: &mut Vec<u8>) -> Option<()> {
    if scan.eat(b"nop") {
        options.push(NOP);
    } else if scan.eat(b"eol") {
        options.push(EOL);
    } else if scan.is_at_digit() {
        let start = options.len();
        options.push(scan.byte(0)?);
        if scan.eat_before_digit(b"=") {
            options.push(0);
            options.push(scan.byte(0)?);
            while scan.eat_before_digit(b":") {
                options.push(scan.byte(0)?);
            }
            set_length(options, start)?;
        }
    } else {
        return None;
    }
    Some(())
}

/// Writes the length of the option that starts at `start` into it.
pub fn set_length(options: &mut [u8], start: usize) -> Option<()> {
    let length = u8::try_from(options.len() - start).ok()?;
    *options.get_mut(start + 1)? = length;
    Some(())
}

/// One more than where in its option the next byte would stand: what a pointer counts.
fn place(options: &[u8], start: usize) -> usize {
    options.len() - start + 1
}

fn parse_route(kind: u8, scan: &mut Scan<'_>, options: &mut Vec<u8>) -> Option<()> {
    let start = options.len();
    options.extend([kind, 0, 0]);
    let mut pointer = None;
    loop {
        if pointer.is_none() && scan.eat(b"^") {
            pointer = Some(place(options, start));
        }
        if !scan.is_at_digit() {
            break;
        }
        options.extend(scan.address()?);
        scan.eat(b",");
    }
    if !scan.eat(b"}") {
        return None;
    }
    let pointer = pointer.unwrap_or(place(options, start));
    options[start + 2] = pointer.try_into().ok()?;
    if scan.eat_before_digit(b"+") {
        let room = scan.number(10)?;
        if room < 64 {
            options.resize(options.len() + 4 * room as usize, 0);
        }
    }
    set_length(options, start)
}

fn parse_timestamps(scan: &mut Scan<'_>, options: &mut Vec<u8>) -> Option<()> {
    let start = options.len();
    options.extend([TIMESTAMP, 0, 0, 0]);
    let mut flag = match () {
        () if scan.eat(b"{") => None,
        () if scan.eat(b".ip{") => Some(1),
        () if scan.eat(b".preip{") => Some(3),
        () if scan.eat_before_digit(b".") => {
            let flag = scan.byte(0).filter(|flag| *flag <= 15)?;
            scan.eat(b"{").then_some(Some(flag))?
        }
        () => return None,
    };
    // Without a flag, the entries say what they are: a dot shows addresses.
    let mut with_addresses = matches!(flag, Some(1 | 3));
    let mut pointer = None;
    loop {
        if pointer.is_none() && scan.eat(b"^") {
            pointer = Some(place(options, start));
        }
        if !scan.is_at_digit() && scan.peek() != Some(b'!') {
            break;
        }
        if flag.is_none() && !with_addresses {
            with_addresses = scan.is_at_address();
            flag = (!with_addresses).then_some(0);
        }
        if with_addresses {
            options.extend(scan.address()?);
            if pointer.is_some() && flag.is_none() {
                flag = Some(3);
            }
            if scan.eat(b"=?") || !scan.eat(b"=") {
                // Only an address that was not reached yet has no time.
                pointer?;
                options.extend([0; 4]);
                scan.eat(b",");
                continue;
            }
        }
        let mark = if scan.eat(b"!") { NONSTANDARD } else { 0 };
        if !scan.is_at_digit() {
            return None;
        }
        options.extend((scan.number(0)? | mark).to_be_bytes());
        scan.eat(b",");
    }
    if !scan.eat(b"}") {
        return None;
    }
    let flag = flag.unwrap_or(if with_addresses { 1 } else { 0 });
    let pointer = pointer.unwrap_or(place(options, start));
    options[start + 2] = pointer.try_into().ok()?;
    if scan.eat_before_digit(b"+") {
        let room = scan.number(0)?;
        let size = if matches!(flag, 1 | 3) { 8 } else { 4 };
        if room < 64 {
            options.resize(options.len() + size * room as usize, 0);
        }
    }
    if scan.eat_before_digit(b"++") {
        options[start + 3] = scan.byte(0).filter(|n| *n < 16)? << 4;
    }
    options[start + 3] |= flag;
    set_length(options, start)
}
