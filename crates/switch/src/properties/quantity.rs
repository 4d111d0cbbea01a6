//! Common code of value types that are written as one word.

use std::fmt::Display;
use std::str::FromStr;

/// What a text must be that is none of a type's values, as the end of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

impl Invalid {
    pub(super) fn new(must: impl Into<String>) -> Invalid {
        Invalid(must.into())
    }
}

/// A type whose values are written as one word.
pub trait Quantity: Display + FromStr<Err = Invalid> + Clone + PartialEq {
    /// What the word must be, as a sentence without its full stop.
    const MUST: &'static str;
    /// The unit, if it is a number.
    const UNIT: Option<&'static str> = None;
    /// The least and the most, if it is a number in messages and files.
    const NUMBER: Option<[u64; 2]> = None;
    /// The words, if they can be listed.
    const CHOICES: &'static [&'static str] = &[];
}

/// A type of whole numbers within limits: its documentation, name, default and what it must be.
macro_rules! bounded {
    ($(#[$meta:meta])* $Type:ident, $least:literal..=$most:literal, $must:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "u16", into = "u16")]
        pub struct $Type(u16);

        impl $crate::properties::quantity::Quantity for $Type {
            const MUST: &'static str = $must;
            const NUMBER: Option<[u64; 2]> = Some([$least, $most]);
        }

        impl TryFrom<u16> for $Type {
            type Error = Invalid;

            fn try_from(number: u16) -> Result<Self, Invalid> {
                match number {
                    $least..=$most => Ok($Type(number)),
                    _ => Err(Invalid::new($must)),
                }
            }
        }

        impl From<$Type> for u16 {
            fn from(value: $Type) -> u16 {
                value.0
            }
        }

        impl std::str::FromStr for $Type {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                // A text that is no number is refused as 0 is.
                $Type::try_from(text.parse().unwrap_or(0))
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(super) use bounded;

/// Quantities that are texts in messages and files, and shown in errors as they are written; what
/// their texts must be, and their unit.
macro_rules! as_text {
    ($($Type:ty: $must:literal $(, $unit:literal)?;)*) => { $(
        impl $crate::properties::quantity::Quantity for $Type {
            const MUST: &'static str = $must;
            $( const UNIT: Option<&'static str> = Some($unit); )?
        }

        impl TryFrom<String> for $Type {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                text.parse()
            }
        }

        impl From<$Type> for String {
            fn from(value: $Type) -> String {
                value.to_string()
            }
        }

        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )* };
}
pub(super) use as_text;
