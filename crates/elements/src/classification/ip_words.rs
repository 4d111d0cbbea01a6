//! Words and numbers of the IP pattern language.

use super::names::Names;
use crate::prelude::*;

/// Splits pattern text into words: operators and brackets are words of their
/// own, everything else runs from space to space.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut words = Vec::with_capacity(text.len() / 4);
    let mut rest = text.trim_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let next = rest[first.len_utf8()..].chars().next();
        let length = match first {
            '&' | '|' if next == Some(first) => 2,
            '<' | '>' | '!' | '=' if next == Some('=') => 2,
            _ => match rest.find(|c| !is_word(c)) {
                Some(0) => first.len_utf8(),
                Some(end) => end,
                None => rest.len(),
            },
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start_matches(is_space);
    }
    words
}

/// C's `isspace`.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/' | '@' | '_' | ':')
}

/// Reads a whole word as an integer: decimal, or with the prefix `0x`, `0b`
/// or `0` hexadecimal, binary or octal; single underscores may stand between
/// digits.
pub(super) fn integer(word: &str) -> Option<i64> {
    let (negative, digits) = match word.as_bytes() {
        [b'-', ..] => (true, &word[1..]),
        [b'+', ..] => (false, &word[1..]),
        _ => (false, word),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, digits),
        _ => (10, digits),
    };
    let mut value: i64 = 0;
    let mut after_digit = false;
    for c in digits.chars() {
        if c == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = c.to_digit(base)?;
        value = value
            .saturating_mul(base.into())
            .saturating_add(digit.into());
        after_digit = true;
    }
    after_digit.then_some(if negative { -value } else { value })
}

/// Reads a word that must fit a signed 32-bit integer.
pub(super) fn int32(word: &str) -> Option<i32> {
    integer(word).and_then(|value| value.try_into().ok())
}

/// Reads a word that must fit an unsigned 32-bit integer.
pub(super) fn uint32(word: &str) -> Option<u32> {
    if word.starts_with('-') {
        return None;
    }
    integer(word).and_then(|value| value.try_into().ok())
}

/// Reads one to four dotted decimal bytes; the rest is zero. Returns how many
/// there were.
fn dotted(text: &str) -> Option<([u8; 4], usize)> {
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        let digits = part.bytes().all(|b| b.is_ascii_digit());
        if part.is_empty() || !digits || count == 4 {
            return None;
        }
        // Zeros in front are read as Click reads them: decimal all the same.
        let value = part.trim_start_matches('0');
        bytes[count] = if value.is_empty() {
            0
        } else {
            value.parse().ok()?
        };
        count += 1;
    }
    Some((bytes, count))
}

/// Reads an IP address or its name.
pub(super) fn ip_address(word: &str, names: &dyn Names) -> Option<[u8; 4]> {
    match dotted(word) {
        Some((bytes, 4)) => Some(bytes),
        _ => names.ip_address(word),
    }
}

/// Reads `address/length`, `address/mask` or a network's name. The address
/// may leave out trailing bytes that the mask does not cover.
pub(super) fn ip_prefix(word: &str, names: &dyn Names) -> Option<([u8; 4], [u8; 4])> {
    slashed(word, names).or_else(|| names.ip_prefix(word))
}

fn slashed(word: &str, names: &dyn Names) -> Option<([u8; 4], [u8; 4])> {
    let (address, suffix) = word.rsplit_once('/')?;
    if address.is_empty() || suffix.is_empty() {
        return None;
    }
    let (address, given) = match dotted(address) {
        Some(found) => found,
        None => (names.ip_address(address)?, 4),
    };
    let decimal = suffix.bytes().all(|b| b.is_ascii_digit());
    let mask = match suffix.parse::<u32>() {
        Ok(length) if decimal && length <= 32 => prefix_mask(length),
        _ => u32::from_be_bytes(ip_address(suffix, names)?),
    };
    if mask & !prefix_mask(8 * given as u32) != 0 {
        return None;
    }
    Some((address, mask.to_be_bytes()))
}

fn prefix_mask(length: u32) -> u32 {
    !u32::MAX.checked_shr(length).unwrap_or(0)
}

/// Reads an IPv6 address or its name.
pub(super) fn ip6_address(word: &str, names: &dyn Names) -> Option<u128> {
    let bytes = match word.parse::<Ipv6Addr>() {
        Ok(address) => Some(address.octets()),
        Err(_) => names.ip6_address(word),
    };
    bytes.map(u128::from_be_bytes)
}

/// Reads `address/length` of IPv6, or a network's name: address and mask.
pub(super) fn ip6_prefix(word: &str, names: &dyn Names) -> Option<[u128; 2]> {
    let (address, length) = match word.rsplit_once('/') {
        Some((address, length)) => {
            let decimal = length.bytes().all(|byte| byte.is_ascii_digit());
            let length = length.parse().ok().filter(|_| decimal);
            (ip6_address(address, names)?, length?)
        }
        None => {
            let (address, length) = names.ip6_prefix(word)?;
            (u128::from_be_bytes(address), length)
        }
    };
    let mask = !u128::MAX.checked_shr(length.into()).unwrap_or(0);
    (length <= 128).then_some([address & mask, mask])
}

/// Reads an Ethernet address (six bytes in hexadecimal, joined by `:` or `-`)
/// or its name.
pub(super) fn ether_address(word: &str, names: &dyn Names) -> Option<[u8; 6]> {
    hexadecimal_bytes(word).or_else(|| names.ether_address(word))
}

fn hexadecimal_bytes(word: &str) -> Option<[u8; 6]> {
    let separator = word.chars().find(|c| matches!(c, ':' | '-'))?;
    let mut bytes = [0; 6];
    let mut count = 0;
    for part in word.split(separator) {
        let digits = part.bytes().all(|b| b.is_ascii_hexdigit());
        if !digits || !(1..=2).contains(&part.len()) || count == 6 {
            return None;
        }
        bytes[count] = u8::from_str_radix(part, 16).ok()?;
        count += 1;
    }
    (count == 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classification::ProtocolNames;

    #[test]
    fn words_split_at_operators() {
        assert_eq!(
            split(" ip[0:2]&0xff==3 &&(tcp)||!a>=1 "),
            [
                "ip", "[", "0:2", "]", "&", "0xff", "==", "3", "&&", "(", "tcp", ")", "||", "!",
                "a", ">=", "1"
            ]
        );
        assert_eq!(split("\u{e9}a"), ["\u{e9}", "a"]);
        assert!(split(" \t").is_empty());
    }

    #[test]
    fn integers_read_like_click() {
        assert_eq!(integer("0x1F"), Some(31));
        assert_eq!(integer("017"), Some(15));
        assert_eq!(integer("0b101"), Some(5));
        assert_eq!(integer("-1"), Some(-1));
        assert_eq!(integer("1_000"), Some(1000));
        for wrong in ["", "0x", "08", "1__0", "a", "1_", "--1"] {
            assert_eq!(integer(wrong), None, "{wrong}");
        }
        assert_eq!(int32("4294967295"), None);
    }

    #[test]
    fn prefixes_may_leave_out_bytes_that_the_mask_ignores() {
        let names = &ProtocolNames;
        assert_eq!(
            ip_prefix("10/8", names),
            Some(([10, 0, 0, 0], [255, 0, 0, 0]))
        );
        assert_eq!(ip_prefix("10/16", names), None);
        assert_eq!(
            ip_prefix("1.2.3.4/255.255.0.0", names),
            Some(([1, 2, 3, 4], [255, 255, 0, 0]))
        );
        assert_eq!(ip_prefix("1.2.3.4", names), None);
        assert_eq!(
            ether_address("0:1:2:a:B:ff", names),
            Some([0, 1, 2, 10, 11, 255])
        );
    }
}
