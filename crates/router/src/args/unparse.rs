//! Values as Click's handlers print them. [`EtherAddress`](super::EtherAddress),
//! [`Ipv4Prefix`](super::Ipv4Prefix), [`Ipv6Prefix`](super::Ipv6Prefix) and
//! [`Timestamp`] print themselves.

use core::net::Ipv6Addr;

use super::{Bandwidth, Timestamp};
use crate::prelude::*;

/// `true` or `false`.
pub fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// A fixed-point number with `bits` bits of fraction, in about the fewest
/// decimal digits that read back as `value`; bits beyond the 28th are dropped.
/// After Knuth's `print_scaled`, in 32-bit arithmetic as Click has it, so that
/// the digits are the same. Beyond 20 bits that arithmetic may round the last
/// digit to a neighbour's.
pub fn real2(value: u64, bits: u32) -> String {
    let dropped = bits.saturating_sub(28);
    let (value, bits) = (value.unbounded_shr(dropped), bits - dropped);
    let one = 1u32 << bits;
    let mut text = (value >> bits).to_string();
    let mut rest = value as u32 & (one - 1);
    if rest == 0 {
        return text;
    }
    text.push('.');
    rest = rest * 10 + 5;
    let mut slack = 10u32;
    let mut rounder = 5;
    while rounder < one >> 1 {
        rounder *= 10;
    }
    loop {
        if slack > one {
            rest = rest.wrapping_add((one >> 1).wrapping_sub(rounder));
        }
        let digit = (rest >> bits).min(9) as u8;
        text.push(char::from(b'0' + digit));
        rest = (rest & (one - 1)) * 10;
        slack = slack.wrapping_mul(10);
        if rest <= slack {
            return text;
        }
    }
}

/// A number with `digits` decimal digits (at most 9) of fraction, without
/// zeros at its end.
pub fn real10(value: u64, digits: u32) -> String {
    let digits = digits.min(9);
    let one = 10u64.pow(digits);
    let (integer, fraction) = (value / one, value % one);
    if fraction == 0 {
        return integer.to_string();
    }
    let width = digits as usize;
    let text = format!("{integer}.{fraction:0width$}");
    text.trim_end_matches('0').to_string()
}

/// A floating-point number in at most 12 significant digits, as C's `%.12g` prints it.
pub fn real(value: f64) -> String {
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{text}");
    }
    let scientific = format!("{value:.11e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if !(-4..12).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let mantissa = trimmed(mantissa);
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let places = (11 - exponent).max(0) as usize;
    trimmed(&format!("{value:.places$}"))
}

/// `500ms`, or `1.5s` from one second up.
pub fn milliseconds(value: u32) -> String {
    match value {
        1..1000 => format!("{value}ms"),
        _ => real10(value.into(), 3) + "s",
    }
}

/// `500us`, or `0.0015s` from one millisecond up.
pub fn microseconds(value: u32) -> String {
    match value {
        1..1000 => format!("{value}us"),
        _ => real10(value.into(), 6) + "s",
    }
}

/// A span of time: `20ms`, `15us`, `7ns` below one second, else `1.500000s`.
pub fn interval(value: Timestamp) -> String {
    match value.0 {
        n @ 0..1_000_000_000 if n % 1_000_000 == 0 => format!("{}ms", n / 1_000_000),
        n @ 0..1_000_000_000 if n % 1_000 == 0 => format!("{}us", n / 1_000),
        n @ 0..1_000_000_000 => format!("{n}ns"),
        _ => format!("{value}s"),
    }
}

/// In bits per second with a prefix, or from 512 MiB/s up in MBps.
pub fn bandwidth(value: Bandwidth) -> String {
    let bytes = value.0;
    match bytes {
        0x2000_0000.. => real10(bytes, 6) + "MBps",
        125_000_000.. => real10(bytes * 8, 9) + "Gbps",
        125_000.. => real10(bytes * 8, 6) + "Mbps",
        _ => real10(bytes * 8, 3) + "kbps",
    }
}

/// An IPv6 address after RFC 5952, and with dotted quads where the first 96
/// bits are zero or `::ffff`.
pub fn ip6(address: Ipv6Addr) -> String {
    match address.to_bits() {
        0 => "::".to_string(),
        bits if bits >> 32 == 0 => {
            format!("::{}", core::net::Ipv4Addr::from_bits(bits as u32))
        }
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Argument, Context, DecimalFixedPoint, FixedPoint, Parser};
    use proptest::prelude::*;

    #[test]
    fn as_click_prints() {
        assert_eq!(boolean(true), "true");
        assert_eq!(real10(1_500, 3), "1.5");
        assert_eq!(real10(7, 9), "0.000000007");
        assert_eq!(milliseconds(0), "0s");
        assert_eq!(milliseconds(20), "20ms");
        assert_eq!(microseconds(1_500), "0.0015s");
        assert_eq!(interval(Timestamp(0)), "0ms");
        assert_eq!(interval(Timestamp(15_000)), "15us");
        assert_eq!(interval(Timestamp(1_500_000_000)), "1.500000s");
        assert_eq!(bandwidth(Bandwidth(125)), "1kbps");
        assert_eq!(bandwidth(Bandwidth(125_000)), "1Mbps");
        assert_eq!(bandwidth(Bandwidth(125_000_000)), "1Gbps");
        assert_eq!(bandwidth(Bandwidth(1_000_000_000)), "1000MBps");
        assert_eq!(ip6("::1".parse().unwrap()), "::0.0.0.1");
        assert_eq!(ip6("2001:db8::1".parse().unwrap()), "2001:db8::1");
    }

    #[test]
    fn reals_print_as_c_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (5.0, "5"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.333333333333"),
            (1e20, "1e+20"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (123_456_789_012.0, "123456789012"),
            (999_999_999_999.9, "1e+12"),
            (2f64.powi(70), "1.18059162072e+21"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(real(value), text);
        }
    }

    proptest! {
        #[test]
        fn real10_reads_back(value: u32, digits in 0u32..=9) {
            let text = real10(value.into(), digits);
            let back = DecimalFixedPoint { digits }.parse(&text, &Context::blank());
            prop_assert_eq!(back, Ok(value));
        }

        #[test]
        fn real2_reads_back(value: u32, bits in 0u32..=20) {
            let text = real2(value.into(), bits);
            let back = FixedPoint { bits }.parse(&text, &Context::blank());
            prop_assert_eq!(back, Ok(value), "{}", text);
        }

        #[test]
        fn bandwidth_reads_back(value: u64) {
            let value = Bandwidth(value >> 4);
            let back = Bandwidth::parse(&bandwidth(value), &Context::blank());
            prop_assert_eq!(back, Ok(value));
        }

        #[test]
        fn times_read_back(value in 0i64..) {
            let context = Context::blank();
            let value = Timestamp(value);
            prop_assert_eq!(context.parse(&alloc::format!("{value}")), Ok(value));
            prop_assert_eq!(context.parse(&interval(value)), Ok(value));
        }
    }
}
