//! Port numbers.

/// Reads a port number in Click's integer syntax: decimal, or with a prefix
/// `0x`, `0b` or `0` hexadecimal, binary or octal; a sign; underscores between
/// digits. `None` when it is no number or not from 0 to 2³¹ − 1.
pub fn parse_port(text: &str) -> Option<u32> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let mut value = 0u32;
    let mut after_digit = false;
    for c in digits.chars() {
        if c == '_' && core::mem::take(&mut after_digit) {
            continue;
        }
        value = value.checked_mul(base)?.checked_add(c.to_digit(base)?)?;
        after_digit = true;
    }
    let valid = after_digit && value <= i32::MAX as u32 && (!negative || value == 0);
    valid.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_click_integers() {
        for (text, value) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("0x1f", Some(31)),
            ("010", Some(8)),
            ("0b11", Some(3)),
            ("1_0", Some(10)),
            ("2147483647", Some(i32::MAX as u32)),
            ("2147483648", None),
            ("99999999999", None),
            ("08", None),
            ("0x", None),
            ("1_", None),
            ("_1", None),
            ("1__0", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(parse_port(text), value, "{text}");
        }
    }
}
