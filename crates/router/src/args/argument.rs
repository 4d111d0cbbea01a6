//! What an argument's text can become, and what can be wrong with it.

use alloc::borrow::Cow;
use core::fmt;

use super::Context;

/// A type that an argument's text can be parsed into.
///
/// Where one type has several notations, a [`Parser`] tells them apart.
pub trait Argument: Sized {
    /// What manual pages call it: `integer`, `IP address`.
    const KIND: &'static str = "";

    /// Parses all of `text`.
    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid>;
}

/// A notation for values of type `T`.
///
/// Any `Fn(&str, &Context) -> Result<T, Invalid>` is one.
pub trait Parser<T> {
    /// Parses all of `text`.
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<T, Invalid>;
}

impl<T, F> Parser<T> for F
where
    F: Fn(&str, &Context<'_>) -> Result<T, Invalid>,
{
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<T, Invalid> {
        self(text, context)
    }
}

/// Present or not: stays `None` when the argument isn't given.
impl<T: Argument> Argument for Option<T> {
    const KIND: &'static str = T::KIND;

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        T::parse(text, context).map(Some)
    }
}

/// Why a text is no such argument: the lines to show after the keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    reason: Option<Cow<'static, str>>,
    parse_error: bool,
}

impl Invalid {
    /// The text does not parse, and there's no more to say: "parse error".
    pub const PARSE: Invalid = Invalid {
        reason: None,
        parse_error: true,
    };

    /// The text is wrong for `reason`.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Invalid {
            reason: Some(reason.into()),
            parse_error: false,
        }
    }

    /// As [`because`](Self::because), with Click's "parse error" on a line after it.
    pub fn unparsable(reason: impl Into<Cow<'static, str>>) -> Self {
        Invalid {
            reason: Some(reason.into()),
            parse_error: true,
        }
    }

    /// The lines to show, each to be prefixed with the keyword.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let parse_error = self.parse_error.then_some("parse error");
        self.reason.as_deref().into_iter().chain(parse_error)
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, line) in self.lines().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(line)?;
        }
        Ok(())
    }
}

impl core::error::Error for Invalid {}

/// `true`, `yes`, `t`, `y` or `1`; `false`, `no`, `f`, `n` or `0`.
impl Argument for bool {
    const KIND: &'static str = "boolean";

    fn parse(text: &str, _: &Context<'_>) -> Result<Self, Invalid> {
        match text {
            "true" | "yes" | "t" | "y" | "1" => Ok(true),
            "false" | "no" | "f" | "n" | "0" => Ok(false),
            _ => Err(Invalid::PARSE),
        }
    }
}
