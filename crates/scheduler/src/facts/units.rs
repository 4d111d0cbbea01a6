//! Amounts of memory, processors and rate. Each is read from a number or from text with a unit, and written as a
//! number, which is how plugins take it.

use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text or number that is no amount.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("‘{text}’ is not {must}")]
pub struct NoAmount {
    text: String,
    must: &'static str,
}

/// An amount of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory(pub u64);

/// A number of processors, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Processors(pub u64);

/// A rate, in bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// Units of a quantity: the suffixes of each, and how many of the smallest unit it is.
type Units = &'static [(&'static [&'static str], u64)];

/// A quantity: how it is read.
trait Quantity: Sized {
    /// What a value must be, as part of a sentence.
    const MUST: &'static str;
    /// Largest value, so that sums over a million guests cannot overflow.
    const MAX: u64;
    const UNITS: Units;
    /// What a number without a unit counts.
    const PLAIN: u64;

    fn from_smallest(amount: u64) -> Self;

    fn read(number: &str, scale: u64) -> Option<Self> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let pointed = number.contains('.') && fraction.is_empty();
        if whole.is_empty() || pointed || !digits(whole) || !digits(fraction) {
            return None;
        }
        let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
        let parts = 10_u128.checked_pow(fraction.len().try_into().ok()?)?;
        let amount = digits.checked_mul(scale.into())?;
        // Less than the smallest unit is no amount.
        let amount = (amount % parts == 0).then_some(amount / parts)?;
        let amount = u64::try_from(amount).ok()?;
        (amount <= Self::MAX).then(|| Self::from_smallest(amount))
    }

    fn parse(text: &str) -> Result<Self, NoAmount> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        let row = Self::UNITS.iter().find(|(names, _)| names.contains(&unit));
        let scale = match unit {
            "" => Some(Self::PLAIN),
            _ => row.map(|row| row.1),
        };
        let amount = scale.and_then(|scale| Self::read(number, scale));
        amount.ok_or_else(|| NoAmount {
            text: text.chars().take(40).collect(),
            must: Self::MUST,
        })
    }
}

impl Quantity for Memory {
    const MUST: &'static str =
        "an amount of memory: write bytes, or a number with K, M, G or T, up to 1024T";
    const MAX: u64 = 1 << 50;
    const UNITS: Units = &[
        (&["B"], 1),
        (&["K", "k", "KB", "KiB"], 1 << 10),
        (&["M", "MB", "MiB"], 1 << 20),
        (&["G", "GB", "GiB"], 1 << 30),
        (&["T", "TB", "TiB"], 1 << 40),
    ];
    const PLAIN: u64 = 1;

    fn from_smallest(amount: u64) -> Memory {
        Memory(amount)
    }
}

impl Quantity for Processors {
    const MUST: &'static str =
        "a number of processors: write 2, 1.5 or 250m (thousandths), up to 100000";
    const MAX: u64 = 100_000_000;
    const UNITS: Units = &[(&["m"], 1)];
    const PLAIN: u64 = 1000;

    fn from_smallest(amount: u64) -> Processors {
        Processors(amount)
    }
}

impl Quantity for Rate {
    const MUST: &'static str =
        "a rate: write bits a second, or a number with K, M, G or T, up to 100T";
    const MAX: u64 = 100_000_000_000_000;
    const UNITS: Units = &[
        (&["K", "k"], 1_000),
        (&["M"], 1_000_000),
        (&["G"], 1_000_000_000),
        (&["T"], 1_000_000_000_000),
    ];
    const PLAIN: u64 = 1;

    fn from_smallest(amount: u64) -> Rate {
        Rate(amount)
    }
}

/// Reads a quantity from whatever a format has it as.
struct Reader<Q>(std::marker::PhantomData<Q>);

impl<Q: Quantity> Visitor<'_> for Reader<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::MUST)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Q, E> {
        Q::parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Q, E> {
        Q::parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Q, E> {
        Q::parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Q, E> {
        Q::parse(text).map_err(E::custom)
    }
}

macro_rules! quantity {
    ($($name:ident),*) => {$(
        impl FromStr for $name {
            type Err = NoAmount;

            fn from_str(text: &str) -> Result<Self, NoAmount> {
                Quantity::parse(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Reader(std::marker::PhantomData))
            }
        }
    )*};
}

quantity!(Memory, Processors, Rate);

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl Serialize for Processors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1000 {
            0 => serializer.serialize_u64(self.0 / 1000),
            _ => serializer.serialize_f64(self.0 as f64 / 1000.0),
        }
    }
}

/// `amount` in the largest of `units` (with their names) that it has one of, with up to one decimal.
fn shown(f: &mut fmt::Formatter<'_>, amount: u64, units: &[(u64, &str)]) -> fmt::Result {
    let unit = units.iter().find(|(scale, _)| amount >= *scale);
    let Some((scale, name)) = unit else {
        return write!(f, "{amount}");
    };
    let tenths = (u128::from(amount) * 10 / u128::from(*scale)) as u64;
    match tenths % 10 {
        0 => write!(f, "{}{name}", tenths / 10),
        tenth => write!(f, "{}.{tenth}{name}", tenths / 10),
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1 << 40, "T"),
            (1 << 30, "G"),
            (1 << 20, "M"),
            (1 << 10, "K"),
        ];
        shown(f, self.0, &units)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1_000_000_000_000, "T"),
            (1_000_000_000, "G"),
            (1_000_000, "M"),
            (1_000, "K"),
        ];
        shown(f, self.0, &units)
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_from_numbers_and_text() {
        let memory = |text: &str| text.parse::<Memory>().map(|m| m.0).ok();
        assert_eq!(memory("4M"), Some(4 << 20));
        assert_eq!(memory("1.5G"), Some(3 << 29));
        assert_eq!(memory("17"), Some(17));
        let processors = |text: &str| text.parse::<Processors>().map(|p| p.0).ok();
        assert_eq!(processors("2"), Some(2000));
        assert_eq!(processors("1.25"), Some(1250));
        assert_eq!(processors("250m"), Some(250));
        let rate = |text: &str| text.parse::<Rate>().map(|r| r.0).ok();
        assert_eq!(rate("10G"), Some(10_000_000_000));
        for wrong in [
            "",
            "-1",
            "1.",
            ".5",
            "1X",
            "1e3",
            "G",
            "1 G",
            "99999999999999999999",
            "2000T",
        ] {
            assert_eq!(memory(wrong), None, "{wrong}");
            assert_eq!(rate(wrong), None, "{wrong}");
        }
        let error = "much".parse::<Processors>().unwrap_err().to_string();
        assert!(
            error.starts_with("‘much’ is not a number of processors: write"),
            "{error}"
        );
        assert_eq!(
            serde_json::from_str::<Processors>("0.5").unwrap(),
            Processors(500)
        );
        assert!(serde_json::from_str::<Processors>("-0.5").is_err());
    }

    proptest! {
        #[test]
        fn a_written_amount_is_read_as_itself(amount in 0..=Processors::MAX, bytes in 0..=Memory::MAX) {
            let text = serde_json::to_string(&Processors(amount)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Processors>(&text).unwrap(), Processors(amount));
            prop_assert_eq!(Processors(amount).to_string().parse(), Ok(Processors(amount)));
            let text = serde_json::to_string(&Memory(bytes)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), Memory(bytes));
        }
    }
}
