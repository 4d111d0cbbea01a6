//! Floating-point numbers, as C's `strtod` reads them.

use super::{Argument, Context, Invalid};

/// Decimal (`1.5e3`) or hexadecimal (`0x1.8p3`), `inf` and `nan`.
impl Argument for f64 {
    const KIND: &'static str = "number";

    fn parse(text: &str, _: &Context<'_>) -> Result<Self, Invalid> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let hex = unsigned
            .strip_prefix("0x")
            .or_else(|| unsigned.strip_prefix("0X"));
        let (value, exact_zero) = match hex {
            Some(hex) => {
                let magnitude = hexadecimal(hex).ok_or(Invalid::PARSE)?;
                let negative = text.starts_with('-');
                let zero = !hex
                    .split(['p', 'P'])
                    .any(|part| part.contains(is_nonzero_hex));
                (if negative { -magnitude } else { magnitude }, zero)
            }
            None => {
                let value = text.parse().map_err(|_| Invalid::PARSE)?;
                let mantissa = text.split(['e', 'E']).next().unwrap_or("");
                (value, !mantissa.contains(|c| matches!(c, '1'..='9')))
            }
        };
        let written_infinite = hex.is_none() && unsigned.starts_with(['i', 'I']);
        if value.is_infinite() && !written_infinite {
            Err(Invalid::because(format!("out of range, bound {value}")))
        } else if value == 0.0 && !exact_zero {
            Err(Invalid::because(format!("underflow, rounded to {value}")))
        } else {
            Ok(value)
        }
    }
}

fn is_nonzero_hex(c: char) -> bool {
    c.is_ascii_hexdigit() && c != '0'
}

/// The value of `HEX[.HEX][p±DIGITS]`. Bits beyond the 60th are dropped.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (mut value, mut scale) = (0u64, 0i32);
    let (mut seen_point, mut seen_digit) = (false, false);
    for c in mantissa.chars() {
        if c == '.' && !seen_point {
            seen_point = true;
            continue;
        }
        let digit = c.to_digit(16)?;
        seen_digit = true;
        let room = value >> 60 == 0;
        if room {
            value = value << 4 | u64::from(digit);
        }
        // A digit read after the point, or one dropped before it, moves the point.
        scale = scale.saturating_add(match (room, seen_point) {
            (true, true) => -4,
            (false, false) => 4,
            _ => 0,
        });
    }
    seen_digit.then(|| scale_by_power_of_two(value as f64, scale.saturating_add(exponent)))
}

fn scale_by_power_of_two(mut value: f64, exponent: i32) -> f64 {
    const STEP: i32 = 1000;
    let mut left = exponent.clamp(-4 * STEP, 4 * STEP);
    while left != 0 {
        let step = left.clamp(-STEP, STEP);
        // 2^step, built from its bits: exponents within ±1000 are normal numbers.
        value *= f64::from_bits(((1023 + step) as u64) << 52);
        left -= step;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn reads_what_strtod_reads() {
        let parse = |text| Context::blank().parse::<f64>(text);
        assert_eq!(parse("1.5e3"), Ok(1500.0));
        assert_eq!(parse("-.5"), Ok(-0.5));
        assert_eq!(parse("5."), Ok(5.0));
        assert_eq!(parse("0x1.8p3"), Ok(12.0));
        assert_eq!(parse("-0x10"), Ok(-16.0));
        assert_eq!(parse("inf"), Ok(f64::INFINITY));
        assert_eq!(parse("0e-400"), Ok(0.0));
        for bad in ["", " 1", "1 ", "x", "0x", "1e", "0x1p"] {
            assert_eq!(parse(bad), Err(Invalid::PARSE), "{bad:?}");
        }
        let message = |text| parse(text).unwrap_err().to_string();
        assert_eq!(message("1e400"), "out of range, bound inf");
        assert_eq!(message("-1e400"), "out of range, bound -inf");
        assert_eq!(message("1e-400"), "underflow, rounded to 0");
    }
}
