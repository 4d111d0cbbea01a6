//! Integers: `10`, `-5`, `0x1F`, `017`, `0b101`, `1_000_000`.

use super::{Argument, Context, Invalid, Parser};

/// The integer types that arguments can have.
pub trait Integer: Copy + Sized {
    /// Least value.
    const MIN: i128;
    /// Greatest value.
    const MAX: i128;

    /// The value `x`, which is in range.
    fn from_i128(x: i128) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Integer for $t {
            const MIN: i128 = <$t>::MIN as i128;
            const MAX: i128 = <$t>::MAX as i128;

            fn from_i128(x: i128) -> Self {
                debug_assert!((<Self as Integer>::MIN..=<Self as Integer>::MAX).contains(&x));
                x as $t
            }
        }

        /// In base 10, or as the prefix `0x`, `0b` or `0` (octal) says. Underscores
        /// may separate digits.
        impl Argument for $t {
            const KIND: &'static str = "integer";

            fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
                Int::ANY.parse(text, context)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

/// An integer in a given base.
#[derive(Clone, Copy, Debug)]
pub struct Int {
    /// 2 to 36, or 0 to go by the text's prefix.
    pub base: u32,
}

impl Int {
    /// In the base the text's prefix says.
    pub const ANY: Int = Int { base: 0 };

    /// In base `base`, 2 to 36. Base 16 allows the prefix `0x`.
    pub const fn base(base: u32) -> Self {
        Int { base }
    }
}

/// An integer; values out of the type's range become the nearest one in it.
#[derive(Clone, Copy, Debug)]
pub struct Saturating;

/// An integer between two bounds, both included.
#[derive(Clone, Copy, Debug)]
pub struct Bounded(pub i64, pub i64);

impl<T: Integer> Parser<T> for Int {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<T, Invalid> {
        in_range(scan::<T>(text, self.base)?, T::MIN, T::MAX)
    }
}

impl<T: Integer> Parser<T> for Saturating {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<T, Invalid> {
        let value = scan::<T>(text, 0)?;
        Ok(T::from_i128(value.clamp(T::MIN, T::MAX)))
    }
}

impl<T: Integer> Parser<T> for Bounded {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<T, Invalid> {
        let value = scan::<T>(text, 0)?;
        let _: T = Int::ANY.parse(text, context)?;
        in_range(value, self.0.into(), self.1.into())
    }
}

fn in_range<T: Integer>(value: i128, min: i128, max: i128) -> Result<T, Invalid> {
    let bound = if value < min {
        min
    } else if value > max {
        max
    } else {
        return Ok(T::from_i128(value));
    };
    Err(Invalid::because(format!("out of range, bound {bound}")))
}

fn scan<T: Integer>(text: &str, base: u32) -> Result<i128, Invalid> {
    scan_integer(text, T::MIN < 0, base).ok_or(Invalid::because("invalid number"))
}

/// The integer that all of `text` stands for. Its magnitude saturates far
/// beyond 64 bits.
pub(super) fn scan_integer(text: &str, signed: bool, base: u32) -> Option<i128> {
    if matches!(base, 0 | 10)
        && let Some(number) = plain_decimal(text.as_bytes())
    {
        return Some(number.into());
    }
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' if signed => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = strip_base_prefix(digits, base);
    if !(2..=36).contains(&base) {
        return None;
    }

    let mut magnitude = 0i128;
    let mut after_digit = false;
    for c in digits.chars() {
        if c == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = c.to_digit(base)?;
        magnitude = magnitude
            .saturating_mul(base.into())
            .saturating_add(digit.into())
            .min(1 << 100);
        after_digit = true;
    }
    after_digit.then_some(if negative { -magnitude } else { magnitude })
}

/// The number that up to 18 decimal digits stand for, without a zero in front: most numbers are such.
#[inline]
pub fn plain_decimal(digits: &[u8]) -> Option<u64> {
    if matches!(digits, [] | [b'0', _, ..]) || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u64::from(byte - b'0'))
    })
}

fn strip_base_prefix(digits: &str, base: u32) -> (u32, &str) {
    let after = |prefix: [&str; 2]| {
        let rest = digits.strip_prefix(prefix[0]);
        rest.or_else(|| digits.strip_prefix(prefix[1]))
            .filter(|rest| !rest.is_empty())
    };
    let hex = || after(["0x", "0X"]).map(|rest| (16, rest));
    let binary = || after(["0b", "0B"]).map(|rest| (2, rest));
    match base {
        0 => hex().or_else(binary).unwrap_or_else(|| {
            let octal = digits.starts_with('0');
            (if octal { 8 } else { 10 }, digits)
        }),
        16 => hex().unwrap_or((16, digits)),
        _ => (base, digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<T: Argument>(text: &str) -> Result<T, alloc::string::String> {
        Context::blank()
            .parse(text)
            .map_err(|e: Invalid| alloc::string::ToString::to_string(&e))
    }

    fn message<T: Argument>(text: &str) -> alloc::string::String {
        parse::<T>(text).err().unwrap_or_default()
    }

    #[test]
    fn prefixes_and_underscores() {
        assert_eq!(parse("0xFFFFFFFE"), Ok(4_294_967_294u32));
        assert_eq!(parse("-0x10"), Ok(-16i32));
        assert_eq!(parse("+017"), Ok(15u32));
        assert_eq!(parse("0b101"), Ok(5u8));
        assert_eq!(parse("1_000_000"), Ok(1_000_000u32));
        assert_eq!(parse("-0"), Ok(0i32));
        for bad in [
            "", "aoeu", "1__0", "1_", "_1", "08", "0x", "0x_1", "1 ", " 1", "0b2", "-", "é",
        ] {
            assert_eq!(message::<i64>(bad), "invalid number", "{bad:?}");
        }
        assert_eq!(message::<u32>("-0"), "invalid number");
    }

    #[test]
    fn range_messages_name_the_bound() {
        assert_eq!(message::<u8>("256"), "out of range, bound 255");
        assert_eq!(message::<i8>("128"), "out of range, bound 127");
        assert_eq!(
            message::<u32>("42949672961939"),
            "out of range, bound 4294967295"
        );
        assert_eq!(
            message::<i32>("-2147483649"),
            "out of range, bound -2147483648"
        );
        assert_eq!(parse("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(
            message::<u64>("18446744073709551616"),
            "out of range, bound 18446744073709551615"
        );
        let huge = "9".repeat(200);
        assert_eq!(
            message::<i64>(&huge),
            "out of range, bound 9223372036854775807"
        );
    }

    #[test]
    fn explicit_bounds() {
        let context = Context::blank();
        let bounded =
            |lo, hi, text| -> Result<i32, Invalid> { Bounded(lo, hi).parse(text, &context) };
        assert_eq!(bounded(0, 10, "10"), Ok(10));
        let message = |lo, hi, text| alloc::format!("{}", bounded(lo, hi, text).unwrap_err());
        assert_eq!(message(0, 9, "10"), "out of range, bound 9");
        assert_eq!(message(-1, 9, "-10"), "out of range, bound -1");
        assert_eq!(
            message(0, 9, "99999999999"),
            "out of range, bound 2147483647"
        );
        let unsigned: Result<u32, _> = Bounded(-1000, -90).parse("0xFFFFFF00", &context);
        assert_eq!(
            alloc::format!("{}", unsigned.unwrap_err()),
            "out of range, bound -90"
        );
    }

    #[test]
    fn saturating_and_bases() {
        let context = Context::blank();
        assert_eq!(Saturating.parse("4294967296", &context), Ok(u32::MAX));
        assert_eq!(Saturating.parse("-2147483649", &context), Ok(i32::MIN));
        assert_eq!(Int::base(2).parse("101", &context), Ok(5u8));
        assert_eq!(Int::base(16).parse("0xfF", &context), Ok(255u8));
        assert_eq!(Int::base(10).parse("010", &context), Ok(10u8));
    }
}
