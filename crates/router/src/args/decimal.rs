//! Decimal numbers with a fraction, held as integers: fixed point in bits or
//! in decimal digits.

use super::{Context, Invalid, Parser, unparse};
use crate::prelude::*;

/// A decimal number as written: sign, digits, and where the point is.
pub(super) struct Decimal {
    pub(super) negative: bool,
    digits: Vec<u8>,
    /// How many of the digits, or of the zeros after them, are before the point;
    /// negative if zeros come between the point and the first digit.
    point: i64,
}

/// A number too large for its type.
pub(super) struct TooLarge;

/// Exponents are clamped to this: no type reaches further.
const MAX_EXPONENT: i64 = 1 << 20;

impl Decimal {
    /// All of `text` as a number times ten to the `exponent`: digits with single
    /// underscores after digits, one point, and an exponent.
    pub(super) fn scan(text: &str, signed: bool, exponent: i32) -> Option<Decimal> {
        let bytes = text.as_bytes();
        let negative = signed && bytes.first() == Some(&b'-');
        let sign = negative || bytes.first() == Some(&b'+');
        let (mut digits, mut point) = (Vec::new(), None);
        let start = usize::from(sign);
        let mut end = start;
        let mut after_digit = false;
        while let Some(&c) = bytes.get(end) {
            match c {
                b'0'..=b'9' => digits.push(c - b'0'),
                b'_' if after_digit => {}
                b'.' if point.is_none() && (after_digit || end == start) => {
                    point = Some(digits.len());
                }
                _ => break,
            }
            after_digit = c.is_ascii_digit();
            end += 1;
        }
        if digits.is_empty() {
            return None;
        }
        let written = scan_exponent(&bytes[end..])?;
        let point = point.unwrap_or(digits.len()) as i64;
        let point = (point + i64::from(exponent)).saturating_add(written);
        Some(Decimal {
            negative,
            digits,
            point,
        })
    }

    fn digit(&self, at: i64) -> u8 {
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.digits.get(at)).copied().unwrap_or(0)
    }

    /// The part before the point.
    fn integer(&self) -> Result<u64, TooLarge> {
        let mut value = 0u64;
        for at in 0..self.point {
            let in_digits = at < self.digits.len() as i64;
            if !in_digits && value == 0 {
                break;
            }
            let digit = u64::from(self.digit(at));
            let next = value.checked_mul(10).and_then(|v| v.checked_add(digit));
            value = next.ok_or(TooLarge)?;
        }
        Ok(value)
    }

    /// Integer part and fraction in units of 2⁻³², rounded.
    pub(super) fn binary(&self) -> Result<(u64, u32), TooLarge> {
        let integer = self.integer()?;
        // From the last digit to the first, with one bit to spare. Digits that far
        // behind the point weigh less than that bit.
        let last = (self.digits.len() as i64).min(self.point.saturating_add(64));
        let first = self.point.min(last);
        let mut fraction = 0u64;
        for at in (first..last).rev() {
            fraction = (fraction + (u64::from(self.digit(at)) << 33)) / 10;
        }
        let fraction = (fraction + 1) >> 1;
        match u32::try_from(fraction) {
            Ok(fraction) => Ok((integer, fraction)),
            Err(_) => Ok((integer.checked_add(1).ok_or(TooLarge)?, 0)),
        }
    }

    /// Integer part and the first `places` decimal digits of the fraction,
    /// rounded by the digit after them. `places` is at most 9.
    pub(super) fn decimal(&self, places: u32) -> Result<(u64, u32), TooLarge> {
        let integer = self.integer()?;
        let mut fraction = 0u32;
        for place in 0..i64::from(places) {
            fraction = fraction * 10 + u32::from(self.digit(self.point + place));
        }
        if self.digit(self.point + i64::from(places)) >= 5 {
            fraction += 1;
        }
        if fraction == 10u32.pow(places) {
            Ok((integer.checked_add(1).ok_or(TooLarge)?, 0))
        } else {
            Ok((integer, fraction))
        }
    }
}

/// The value of `e±DIGITS`, clamped; 0 for nothing at all.
fn scan_exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [] => return Some(0),
        [b'e' | b'E', b'-', digits @ ..] => (true, digits),
        [b'e' | b'E', b'+', digits @ ..] | [b'e' | b'E', digits @ ..] => (false, digits),
        _ => return None,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(MAX_EXPONENT)
    });
    Some(if negative { -value } else { value })
}

/// A number with `bits` bits (0 to 32) of fraction: `1.5` with 8 bits is 384.
/// Into `u32`, or into `i32` with a sign.
#[derive(Clone, Copy, Debug)]
pub struct FixedPoint {
    /// Bits of fraction.
    pub bits: u32,
}

impl FixedPoint {
    /// The magnitude, or the nearest one there is.
    fn magnitude(self, number: &Decimal) -> Result<u32, TooLarge> {
        let (integer, fraction) = number.binary()?;
        let value = (u128::from(integer) << 32) | u128::from(fraction);
        let rounding = if self.bits < 32 {
            1 << (31 - self.bits)
        } else {
            0
        };
        u32::try_from((value + rounding) >> (32 - self.bits)).map_err(|_| TooLarge)
    }
}

impl Parser<u32> for FixedPoint {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<u32, Invalid> {
        let number = Decimal::scan(text, false, 0).ok_or(Invalid::PARSE)?;
        self.magnitude(&number).map_err(|TooLarge| {
            let bound = unparse::real2(u32::MAX.into(), self.bits);
            Invalid::because(format!("out of range, bound {bound}"))
        })
    }
}

impl Parser<i32> for FixedPoint {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<i32, Invalid> {
        let number = Decimal::scan(text, true, 0).ok_or(Invalid::PARSE)?;
        signed(number.negative, self.magnitude(&number)).map_err(|bound| {
            let sign = if bound < 0 { "-" } else { "" };
            let bound = unparse::real2(bound.unsigned_abs().into(), self.bits);
            Invalid::because(format!("out of range, bound {sign}{bound}"))
        })
    }
}

/// A number with `digits` decimal digits (0 to 9) of fraction: `1.5` with 3
/// digits is 1500. Into `u32`, or into `i32` with a sign.
#[derive(Clone, Copy, Debug)]
pub struct DecimalFixedPoint {
    /// Decimal digits of fraction.
    pub digits: u32,
}

impl DecimalFixedPoint {
    fn magnitude(self, number: &Decimal) -> Result<u32, TooLarge> {
        let places = self.digits.min(9);
        let (integer, fraction) = number.decimal(places)?;
        let value = u128::from(integer) * 10u128.pow(places) + u128::from(fraction);
        u32::try_from(value).map_err(|_| TooLarge)
    }
}

impl Parser<u32> for DecimalFixedPoint {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<u32, Invalid> {
        let number = Decimal::scan(text, false, 0).ok_or(Invalid::PARSE)?;
        self.magnitude(&number).map_err(|TooLarge| out_of_range())
    }
}

impl Parser<i32> for DecimalFixedPoint {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<i32, Invalid> {
        let number = Decimal::scan(text, true, 0).ok_or(Invalid::PARSE)?;
        signed(number.negative, self.magnitude(&number)).map_err(|_| out_of_range())
    }
}

pub(super) fn out_of_range() -> Invalid {
    Invalid::because("out of range")
}

/// The signed value, or the bound it is beyond.
fn signed(negative: bool, magnitude: Result<u32, TooLarge>) -> Result<i32, i32> {
    let bound = if negative { i32::MIN } else { i32::MAX };
    match magnitude {
        Ok(m) if m <= bound.unsigned_abs() && negative => Ok(0i32.wrapping_sub_unsigned(m)),
        Ok(m) if m <= bound.unsigned_abs() => Ok(m as i32),
        _ => Err(bound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(bits: u32, text: &str) -> Result<u32, String> {
        let parsed = FixedPoint { bits }.parse(text, &Context::blank());
        parsed.map_err(|e: Invalid| e.to_string())
    }

    fn fixed_signed(bits: u32, text: &str) -> Result<i32, String> {
        let parsed = FixedPoint { bits }.parse(text, &Context::blank());
        parsed.map_err(|e: Invalid| e.to_string())
    }

    fn decimal(digits: u32, text: &str) -> Result<u32, String> {
        let parsed = DecimalFixedPoint { digits }.parse(text, &Context::blank());
        parsed.map_err(|e: Invalid| e.to_string())
    }

    #[test]
    fn fixed_point_rounds_to_the_nearest() {
        for (text, bits, back) in [
            ("0.418", 8, "0.418"),
            ("0.417", 8, "0.418"),
            ("0.416", 8, "0.414"),
            ("0.42", 8, "0.42"),
            ("0.3", 16, "0.3"),
            ("0.49", 16, "0.49"),
            ("0.4999", 16, "0.4999"),
            ("0.49999", 16, "0.49998"),
            ("0.499999", 16, "0.5"),
            ("0.999999", 16, "1"),
        ] {
            let value = fixed(bits, text).unwrap();
            assert_eq!(unparse::real2(value.into(), bits), back, "{text}");
        }
        assert_eq!(fixed_signed(1, "-0.5"), Ok(-1));
        assert_eq!(fixed(32, "0.5"), Ok(1 << 31));
        assert_eq!(fixed(0, "4294967295"), Ok(u32::MAX));
    }

    #[test]
    fn exponents_underscores_and_nonsense() {
        assert_eq!(decimal(3, "1.5e1"), Ok(15_000));
        assert_eq!(decimal(3, "1_500e-3"), Ok(1_500));
        assert_eq!(decimal(3, "125e-5"), Ok(1));
        assert_eq!(decimal(3, ".0005"), Ok(1));
        assert_eq!(decimal(3, "0.9996"), Ok(1_000));
        assert_eq!(decimal(3, "0e999999999999999999999"), Ok(0));
        assert_eq!(decimal(9, "1e-999999999999"), Ok(0));
        for bad in [
            "", ".", "-1", "1.2.3", "1e", "1e+", "1._5", "x", "1 ", "1e5x",
        ] {
            assert_eq!(decimal(3, bad), Err("parse error".into()), "{bad:?}");
        }
    }

    #[test]
    fn out_of_range_messages() {
        assert_eq!(decimal(3, "4294967.296"), Err("out of range".into()));
        assert_eq!(decimal(3, "4294967.295"), Ok(u32::MAX));
        assert_eq!(decimal(0, "1e30"), Err("out of range".into()));
        assert_eq!(
            fixed(16, "65536"),
            Err("out of range, bound 65535.99998".into())
        );
        assert_eq!(
            fixed_signed(16, "-40000"),
            Err("out of range, bound -32768".into())
        );
    }
}
