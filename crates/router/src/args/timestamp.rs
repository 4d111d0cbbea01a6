//! Points in time, and signed spans of it.

use core::fmt;

use super::decimal::Decimal;
use super::units::split_seconds;
use super::{Argument, Context, Digits, Invalid, Parser};
use crate::prelude::*;

const PER_SECOND: i64 = 1_000_000_000;

/// A time in nanoseconds, since 1970 or as a difference: ±292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// As Click prints it: seconds with six decimals, or nine where it takes them.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        text.put_time(*self);
        f.write_str(&text)
    }
}

/// A time that isn't negative, in seconds or with a unit (`1.5s`, `20ms`). Too
/// large ones become the largest there is.
impl Argument for Timestamp {
    const KIND: &'static str = "time";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        TimestampArg { signed: false }.parse(text, context)
    }
}

/// A [`Timestamp`], perhaps negative.
#[derive(Clone, Copy, Debug)]
pub struct TimestampArg {
    /// Whether it may be negative.
    pub signed: bool,
}

impl Parser<Timestamp> for TimestampArg {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<Timestamp, Invalid> {
        let (number, factor, power) = split_seconds(text);
        let number = Decimal::scan(number, self.signed, power).ok_or(Invalid::PARSE)?;
        let (seconds, nanos) = number.decimal(9).unwrap_or((u64::MAX, 0));
        let magnitude = i128::from(seconds) * i128::from(PER_SECOND) + i128::from(nanos);
        let magnitude = magnitude * i128::from(factor);
        let value = if number.negative {
            -magnitude
        } else {
            magnitude
        };
        Ok(Timestamp(
            value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_and_printed() {
        let parse = |text| {
            let parsed = TimestampArg { signed: true }.parse(text, &Context::blank());
            parsed.ok().map(|t| t.to_string())
        };
        for (text, printed) in [
            ("0", "0.000000"),
            ("1189383079.180265331", "1189383079.180265331"),
            ("-1.001", "-1.001000"),
            ("-0.5", "-0.500000"),
            ("20ms", "0.020000"),
            ("1.5 min", "90.000000"),
            ("99999999999h", "9223372036.854775807"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(printed), "{text}");
        }
        let unsigned = Context::blank().parse::<Timestamp>("-1");
        assert_eq!(unsigned, Err(Invalid::PARSE));
    }
}
