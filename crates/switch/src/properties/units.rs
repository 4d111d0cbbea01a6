//! Quantities as users write them: rates, times, shares of loss, VLANs.
//!
//! Each is stored as an integer, so that output equals input. The form is the same on the command
//! line, in files and in messages: text with a unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::quantity::{Invalid, Quantity, as_text, bounded};

/// `text`, a decimal number, times `scale`; `None` if that is no integer or does not fit.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(scale);
    let part = match fraction {
        "" => 0,
        fraction => {
            let one = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(scale);
            (part % one == 0).then_some(part / one)?
        }
    };
    u64::try_from(whole + part).ok()
}

/// Writes `value / scale` without an exponent and without zeros at the end; `scale` is a power
/// of ten.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, scale: u64) -> fmt::Result {
    write!(f, "{}", value / scale)?;
    let rest = value % scale;
    if rest == 0 {
        return Ok(());
    }
    let digits = format!("{rest:0width$}", width = scale.ilog10() as usize);
    write!(f, ".{}", digits.trim_end_matches('0'))
}

/// Splits a quantity into its number and its unit.
fn number_and_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

/// A rate, in bits a second. What counts are a frame's bytes from the Ethernet header on, without
/// preamble, check sequence and gap; a frame that stands for several segments counts once, as long
/// as it is.
///
/// Written as dladm does: a number with the suffix `K`, `M` or `G` (thousands, millions and
/// thousands of millions); a number without a suffix is in megabits a second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// Highest rate that can be asked for: 400 Gb/s.
    pub const MAX: Bandwidth = Bandwidth(400_000_000_000);

    /// This many bits a second, if it is more than none and at most [`MAX`](Self::MAX).
    pub fn from_bits(bits: u64) -> Option<Bandwidth> {
        (1..=Self::MAX.0).contains(&bits).then_some(Bandwidth(bits))
    }

    /// Bits a second.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl FromStr for Bandwidth {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (number, unit) = number_and_unit(text);
        let scale = match unit {
            "K" | "k" => 1_000,
            "" | "M" | "m" => 1_000_000,
            "G" | "g" => 1_000_000_000,
            _ => 0,
        };
        let bits = (scale > 0).then(|| decimal(number, scale)).flatten();
        let rate = bits.and_then(Bandwidth::from_bits);
        rate.ok_or_else(|| Invalid::new(Self::MUST))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, suffix) = match self.0 {
            1_000_000_000.. => (1_000_000_000, 'G'),
            1_000_000.. => (1_000_000, 'M'),
            _ => (1_000, 'K'),
        };
        write_decimal(f, self.0, scale)?;
        write!(f, "{suffix}")
    }
}

/// A time, in microseconds; written with its unit: `250us`, `5ms`, `1.5s`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Micros(u32);

impl Micros {
    /// Longest time: 10 seconds.
    pub const MAX: Micros = Micros(10_000_000);

    /// This many microseconds, if at most [`MAX`](Self::MAX).
    pub fn new(micros: u32) -> Option<Micros> {
        (micros <= Self::MAX.0).then_some(Micros(micros))
    }

    /// The number of microseconds.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The same as the standard library has it.
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.0 as u64)
    }
}

impl FromStr for Micros {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (number, unit) = number_and_unit(text);
        let scale = match unit {
            "us" | "µs" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "" if number == "0" => 1,
            _ => 0,
        };
        let micros = (scale > 0).then(|| decimal(number, scale)).flatten();
        let micros = micros.and_then(|micros| u32::try_from(micros).ok());
        let time = micros.and_then(Micros::new);
        time.ok_or_else(|| Invalid::new(Self::MUST))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, suffix) = match self.0 {
            1_000_000.. => (1_000_000, "s"),
            1_000.. => (1_000, "ms"),
            _ => (1, "us"),
        };
        write_decimal(f, self.0.into(), scale)?;
        f.write_str(suffix)
    }
}

/// How many frames are lost, in thousand-millionths; written as a percentage: `0.1%`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Loss(u32);

impl Loss {
    /// All of them.
    pub const ALL: Loss = Loss(1_000_000_000);

    /// This many of a thousand million, if there are as many.
    pub fn new(of_a_billion: u32) -> Option<Loss> {
        (of_a_billion <= Self::ALL.0).then_some(Loss(of_a_billion))
    }

    /// How many of a thousand million.
    pub const fn of_a_billion(self) -> u32 {
        self.0
    }
}

impl FromStr for Loss {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // A bare 1 would be one in a hundred to some, and all to others.
        let percent = text.strip_suffix('%');
        let of_a_billion = percent.and_then(|percent| decimal(percent, 10_000_000));
        let of_a_billion = of_a_billion.and_then(|n| u32::try_from(n).ok());
        let loss = of_a_billion.and_then(Loss::new);
        loss.ok_or_else(|| Invalid::new(Self::MUST))
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0.into(), 10_000_000)?;
        f.write_str("%")
    }
}

bounded! {
    /// A VLAN's number, 1 to 4094 (IEEE 802.1Q, 9.6: 0 is "none" and 4095 is reserved).
    Vlan, 1..=4094, "a VLAN is a number from 1 to 4094"
}

impl Vlan {
    /// The number.
    pub const fn id(self) -> u16 {
        self.0
    }
}

as_text! {
    Bandwidth: "a rate is a number above 0 with K, M (if none is given) or G for bits a second, at most 400G",
        "bits a second";
    Micros: "a time is a number with us, ms or s, to the microsecond, at most 10s", "microseconds";
    Loss: "a loss is from 0% to 100%, with the sign and at most seven decimal places", "percent";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_read_as_dladm_reads_them() {
        let bits = |text: &str| text.parse::<Bandwidth>().map(Bandwidth::bits).ok();
        assert_eq!(bits("100"), Some(100_000_000));
        assert_eq!(bits("1.5G"), Some(1_500_000_000));
        assert_eq!(bits("12.144K"), Some(12_144));
        assert_eq!(bits("400G"), Some(400_000_000_000));
        for wrong in [
            "",
            "0",
            "0M",
            "-1",
            "401G",
            "1T",
            "1.0000000001G",
            "G",
            "1..2",
            "1e9",
        ] {
            assert_eq!(bits(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(
            bits in 1..=Bandwidth::MAX.0,
            micros in 0..=Micros::MAX.0,
            loss in 0..=Loss::ALL.0,
        ) {
            let bandwidth = Bandwidth(bits);
            prop_assert_eq!(bandwidth.to_string().parse(), Ok(bandwidth));
            let time = Micros(micros);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
            let loss = Loss(loss);
            prop_assert_eq!(loss.to_string().parse(), Ok(loss));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<Bandwidth>();
            let _ = text.parse::<Micros>();
            let _ = text.parse::<Loss>();
            let _ = text.parse::<Vlan>();
        }
    }
}
