//! Quantities with units: times and bandwidths.

use core::time::Duration;

use super::decimal::{Decimal, TooLarge, out_of_range};
use super::read::is_space;
use super::{Argument, Context, Invalid, Parser};

/// A unit: one of it is `factor` times ten to the `power` of the base unit.
struct Unit {
    suffix: &'static str,
    factor: u32,
    power: i32,
}

const fn unit(suffix: &'static str, factor: u32, power: i32) -> Unit {
    Unit {
        suffix,
        factor,
        power,
    }
}

const SECONDS: &[Unit] = &[
    unit("s", 1, 0),
    unit("sec", 1, 0),
    unit("m", 60, 0),
    unit("min", 60, 0),
    unit("h", 3600, 0),
    unit("hr", 3600, 0),
    unit("d", 86400, 0),
    unit("day", 86400, 0),
];
const SECOND_PREFIXES: &[(char, i32)] = &[('m', -3), ('u', -6), ('n', -9)];

const BYTES_PER_SECOND: &[Unit] = &[
    unit("baud", 125, -3),
    unit("bps", 125, -3),
    unit("b/s", 125, -3),
    unit("Bps", 1, 0),
    unit("B/s", 1, 0),
];
const BANDWIDTH_PREFIXES: &[(char, i32)] = &[('k', 3), ('K', 3), ('M', 6), ('G', 9)];

/// Splits the unit off `text`: the number's text, and what the unit multiplies
/// it by. With `None`, there is no unit.
fn split_unit<'a>(
    text: &'a str,
    units: &[Unit],
    prefixes: &[(char, i32)],
) -> (&'a str, Option<(u32, i32)>) {
    for unit in units {
        let Some(number) = text.strip_suffix(unit.suffix) else {
            continue;
        };
        let prefixed = prefixes.iter().find(|(c, _)| number.ends_with(*c));
        let (number, power) = match prefixed {
            Some((_, power)) => (&number[..number.len() - 1], *power),
            None => (number, 0),
        };
        let number = number.trim_end_matches(is_space);
        return (number, Some((unit.factor, unit.power + power)));
    }
    (text, None)
}

pub(super) fn split_seconds(text: &str) -> (&str, u32, i32) {
    let (number, unit) = split_unit(text, SECONDS, SECOND_PREFIXES);
    let (factor, power) = unit.unwrap_or((1, 0));
    (number, factor, power)
}

/// `number` times `factor`, rounded to an integer.
fn rounded_product(number: &Decimal, factor: u32) -> Result<u64, TooLarge> {
    let (integer, fraction) = number.binary()?;
    let value = (u128::from(integer) << 32 | u128::from(fraction)) * u128::from(factor);
    u64::try_from((value + (1 << 31)) >> 32).map_err(|_| TooLarge)
}

/// A time in seconds with `digits` decimal digits of fraction kept, into `u32`:
/// `SecondsArg(3)` gives milliseconds. Units are s, sec, m, min, h, hr, d and
/// day, with the prefixes m, u and n: `1.5s`, `20 ms`, `2min`. A bare number is
/// in seconds.
#[derive(Clone, Copy, Debug)]
pub struct SecondsArg(pub u32);

impl Parser<u32> for SecondsArg {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<u32, Invalid> {
        u32::try_from(seconds(text, self.0)?).map_err(|_| out_of_range())
    }
}

/// A time in seconds, in units of `digits` decimal digits of fraction.
fn seconds(text: &str, digits: u32) -> Result<u64, Invalid> {
    let (number, factor, power) = split_seconds(text);
    let number = Decimal::scan(number, false, power + digits as i32).ok_or(Invalid::PARSE)?;
    rounded_product(&number, factor).map_err(|TooLarge| out_of_range())
}

/// A time in seconds as a floating-point number, with units as [`SecondsArg`].
#[derive(Clone, Copy, Debug)]
pub struct FractionalSeconds;

impl Parser<f64> for FractionalSeconds {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<f64, Invalid> {
        let (number, factor, power) = split_seconds(text);
        let value = f64::parse(number, context)? * f64::from(factor);
        Ok((power..0).fold(value, |value, _| value / 10.0))
    }
}

macro_rules! times {
    ($($(#[$doc:meta])* $name:ident($digits:literal, $duration:path);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Argument for $name {
            const KIND: &'static str = "time";

            fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
                SecondsArg($digits).parse(text, context).map($name)
            }
        }

        impl From<$name> for Duration {
            fn from(time: $name) -> Duration {
                $duration(time.0.into())
            }
        }
    )*};
}

times! {
    /// A time in whole seconds. See [`SecondsArg`].
    Seconds(0, Duration::from_secs);
    /// A time in milliseconds; a bare number is in seconds. See [`SecondsArg`].
    Milliseconds(3, Duration::from_millis);
    /// A time in microseconds; a bare number is in seconds. See [`SecondsArg`].
    Microseconds(6, Duration::from_micros);
}

/// A time in nanoseconds, as long as [`Milliseconds`] can be; a bare number is in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanoseconds(pub u64);

impl Argument for Nanoseconds {
    const KIND: &'static str = "time";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        Milliseconds::parse(text, context)?;
        seconds(text, 9).map(Nanoseconds)
    }
}

/// A bandwidth in bytes per second. Units are bps, b/s and baud (bits), Bps and
/// B/s (bytes), with the prefixes k, K, M and G: `10Mbps`. A bare number is in
/// bytes per second.
///
/// Click's goes to 4 GB/s; this one further, for links of 100 Gb/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(pub u64);

impl Argument for Bandwidth {
    const KIND: &'static str = "bandwidth";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let (bandwidth, _has_unit) = BandwidthArg.parse(text, context)?;
        Ok(bandwidth)
    }
}

/// A [`Bandwidth`], and whether it is unambiguous: has a unit or is zero.
#[derive(Clone, Copy, Debug)]
pub struct BandwidthArg;

impl Parser<(Bandwidth, bool)> for BandwidthArg {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<(Bandwidth, bool), Invalid> {
        let (number, unit) = split_unit(text, BYTES_PER_SECOND, BANDWIDTH_PREFIXES);
        let (factor, power) = unit.unwrap_or((1, 0));
        let number = Decimal::scan(number, false, power).ok_or(Invalid::PARSE)?;
        let value = rounded_product(&number, factor).map_err(|TooLarge| out_of_range())?;
        Ok((Bandwidth(value), unit.is_some() || value == 0))
    }
}

/// A rate in packets per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u32);

impl Argument for Rate {
    const KIND: &'static str = "packets a second";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        u32::parse(text, context).map(Rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn seconds_round_to_their_digits() {
        let parse = |digits, text: &str| SecondsArg(digits).parse(text, &Context::blank());
        for (digits, text, value) in [
            (0, "3600", 3600),
            (0, "3600s", 3600),
            (0, "3.6e6 msec", 3600),
            (0, "60m", 3600),
            (0, "2min", 120),
            (0, "1 hr", 3600),
            (0, "1.99 hr", 7164),
            (0, "1day", 86400),
            (0, "1.99 s", 2),
            (1, "1.99 s", 20),
            (2, "1.99 s", 199),
            (0, "1ms", 0),
            (3, "1ms", 1),
            (3, "1.9ms", 2),
            (3, "99us", 0),
            (6, "1.9ms", 1900),
            (6, "1500ns", 2),
        ] {
            assert_eq!(parse(digits, text), Ok(value), "{text}");
        }
        for bad in ["", "s", "1foo", "-1s", "1 k", "1s "] {
            assert_eq!(parse(0, bad), Err(Invalid::PARSE), "{bad:?}");
        }
        let error = parse(3, "99999999999h").unwrap_err();
        assert_eq!(error.to_string(), "out of range");
        assert_eq!(
            FractionalSeconds.parse("3.6e6 msec", &Context::blank()),
            Ok(3600.0)
        );
    }

    #[test]
    fn nanoseconds_are_as_long_as_milliseconds() {
        let parse = |text| Nanoseconds::parse(text, &Context::blank());
        assert_eq!(parse("1.5us"), Ok(Nanoseconds(1_500)));
        assert_eq!(parse("4294967.295"), Ok(Nanoseconds(4_294_967_295_000_000)));
        assert_eq!(parse("4294967.296"), Err(out_of_range()));
        assert_eq!(parse("-1"), Err(Invalid::PARSE));
    }

    #[test]
    fn bandwidths_are_in_bytes() {
        let parse = |text| BandwidthArg.parse(text, &Context::blank());
        for (text, value, clear) in [
            ("8", 8, false),
            ("0", 0, true),
            ("8 baud", 1, true),
            ("8Kbps", 1000, true),
            ("8KBps", 8000, true),
            ("1.5Mb/s", 187_500, true),
            ("100Gbps", 12_500_000_000, true),
        ] {
            assert_eq!(parse(text), Ok((Bandwidth(value), clear)), "{text}");
        }
        for bad in ["", "bps", "1k", "10Gkbps", "-1bps"] {
            assert_eq!(parse(bad), Err(Invalid::PARSE), "{bad:?}");
        }
    }
}
