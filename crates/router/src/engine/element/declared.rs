//! The declared part of an element: its arguments and handlers.
//!
//! `#[derive(Element)]` writes [`Class`] from the struct's fields and from the methods in a
//! `#[handlers]` block; `#[derive(Component)]` does the same for a struct whose arguments and
//! handlers several elements have in common, and which they hold in a `#[flatten]` field.

use alloc::borrow::Cow;
use core::any::Any;
use core::net::{Ipv4Addr, Ipv6Addr};

use click::config;
use packet::wire::EtherAddress;

use super::manual::{HandlerDoc, Page};
use super::{Class, Element};
use crate::args::read::Read;
use crate::args::{Args, Failed, NoElements, Parser, Timestamp, unparse};
use crate::engine::Cx;
use crate::handler::{FailureKind, HandlerError, HandlerList};
use crate::prelude::*;

/// An element of any class, as the engine holds it.
pub trait DynElement: Element + Component {
    /// Takes the arguments. Other elements may not be configured yet.
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed>;

    /// Whether [`configure`](DynElement::configure) may be called again while packets flow: then
    /// the `config` handler can be written.
    fn can_live_reconfigure(&self) -> bool;

    /// Takes over the state of `old`, the element of this name and class in the router that this
    /// one replaces.
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn DynElement);
}

impl<C: Class> DynElement for C {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !C::DEPRECATED.is_empty() {
            args.warning(C::DEPRECATED);
        }
        let read = self.arguments(args.read());
        if C::RAW {
            read.consume()?;
        } else {
            read.complete()?;
        }
        self.configured(cx, args)
    }

    fn can_live_reconfigure(&self) -> bool {
        C::LIVE
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn DynElement) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<C>() {
            Class::take_state(self, cx, old);
        }
    }
}

/// A struct with arguments and handlers; derived.
pub trait Component {
    /// Adds the arguments to a pass over an element's configuration.
    fn arguments<'a, 'n, 't>(&'t mut self, read: Read<'a, 'n, 't>) -> Read<'a, 'n, 't>;

    /// Lists the handlers.
    fn list_handlers(&self, list: &mut HandlerList);

    /// Reads a handler.
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError>;

    /// Writes a handler.
    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError>;

    /// Adds the arguments and handlers to a manual page.
    fn document(page: &mut Page)
    where
        Self: Sized;
}

/// The handlers that are methods; written by `#[handlers]`.
pub trait Methods {
    /// Their documentation.
    const DOCS: &'static [HandlerDoc];

    /// Lists them.
    fn list_methods(&self, list: &mut HandlerList);

    /// Reads one.
    fn read_method(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError>;

    /// Writes one.
    fn write_method(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError>;
}

/// Implemented once for each struct: by its `#[handlers]` block, or by its derive macro if the
/// struct does not say `handlers`. A block that the struct does not mention is an error so.
pub trait HandlersDeclared {}

/// Handlers that depend on the configuration: one for each output, say.
pub trait DynamicHandlers {
    /// Lists them.
    fn list_dynamic(&self, list: &mut HandlerList);

    /// Reads one.
    fn read_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        let _ = (cx, name, parameter);
        Err(HandlerError::Unknown)
    }

    /// Writes one.
    fn write_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let _ = (cx, name, value);
        Err(HandlerError::Unknown)
    }
}

/// What a method that is a read handler may return.
pub trait Reading {
    /// The text.
    fn reading(self) -> Result<String, HandlerError>;
}

impl<T: Shown> Reading for T {
    fn reading(self) -> Result<String, HandlerError> {
        Ok(self.shown())
    }
}

impl<T: Shown, E: Into<HandlerError>> Reading for Result<T, E> {
    fn reading(self) -> Result<String, HandlerError> {
        self.map(|value| value.shown()).map_err(Into::into)
    }
}

/// [`Reading::reading`], for derived code.
pub fn reading(value: impl Reading) -> Result<String, HandlerError> {
    value.reading()
}

/// What a method that is a write handler may return.
pub trait Outcome {
    /// Whether it went well.
    fn outcome(self) -> Result<(), HandlerError>;
}

impl Outcome for () {
    fn outcome(self) -> Result<(), HandlerError> {
        Ok(())
    }
}

impl<E: Into<HandlerError>> Outcome for Result<(), E> {
    fn outcome(self) -> Result<(), HandlerError> {
        self.map_err(Into::into)
    }
}

/// [`Outcome::outcome`], for derived code.
pub fn outcome(value: impl Outcome) -> Result<(), HandlerError> {
    value.outcome()
}

/// A value as read handlers show it.
pub trait Shown {
    /// The text.
    fn shown(&self) -> String;
}

/// [`Shown::shown`], for derived code.
pub fn shown<T: Shown + ?Sized>(value: &T) -> String {
    value.shown()
}

macro_rules! shown_as_displayed {
    ($($type:ty),+) => {
        $(impl Shown for $type {
            fn shown(&self) -> String {
                self.to_string()
            }
        })+
    };
}

shown_as_displayed!(
    bool,
    char,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f32,
    f64,
    str,
    String,
    Cow<'_, str>,
    Ipv4Addr,
    EtherAddress,
    Timestamp
);

impl Shown for Ipv6Addr {
    fn shown(&self) -> String {
        unparse::ip6(*self)
    }
}

/// Nothing is shown of nothing.
impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or(String::new(), Shown::shown)
    }
}

impl<T: Shown + ?Sized> Shown for &T {
    fn shown(&self) -> String {
        (**self).shown()
    }
}

/// What a handler was written, as a `T`. Comments are left out. A value that is no `T` is refused
/// with `error`, or if that is empty with the reason, named after `keyword` unless that is empty.
pub fn parse_value<T>(
    cx: &Cx<'_>,
    keyword: &str,
    value: &str,
    parser: impl Parser<T>,
    error: &str,
) -> Result<T, HandlerError> {
    let parsed = cx
        .names()
        .parse_with(parser, config::uncomment(value).trim());
    parsed.map_err(|invalid| {
        if !error.is_empty() {
            return error.into();
        }
        let lines = invalid.lines().map(|line| match keyword {
            "" => line.to_string(),
            _ => format!("{keyword}: {line}"),
        });
        HandlerError::failed(FailureKind::Failed, lines.collect::<Vec<_>>().join("\n"))
    })
}

/// Reads the words of `value` as arguments.
pub fn parse_words(
    cx: &mut Cx<'_>,
    value: &str,
    read: impl FnOnce(&mut Args<'_>) -> Result<(), Failed>,
) -> Result<(), HandlerError> {
    let element = cx.name().to_string();
    let mut args = Args::from_words(value, cx.name_database(), &NoElements, &element);
    read(&mut args).map_err(|Failed| {
        let errors = args.take_errors();
        let lines: Vec<String> = errors.into_iter().map(|error| error.text).collect();
        HandlerError::failed(FailureKind::Failed, lines.join("\n"))
    })
}

/// Replaces an argument in what the `config` handler shows: at `position` if it stands there
/// without its keyword.
pub fn write_argument(cx: &mut Cx<'_>, keyword: &str, position: Option<usize>, value: &str) {
    let value = config::uncomment(value);
    let text = with_argument(cx.config(cx.id()), position, keyword, value.trim());
    cx.set_config(text);
}

/// The configuration string `text` with one argument replaced or added.
fn with_argument(text: &str, position: Option<usize>, keyword: &str, value: &str) -> String {
    let mut args = config::split_args(text);
    let has_keyword = |arg: &String| {
        config::keyword(arg).is_some_and(|(k, rest)| k == keyword && !rest.is_empty())
    };
    let by_keyword = args.iter().any(has_keyword);
    args.retain(|arg| !has_keyword(arg));
    let at = position
        .and_then(|position| args.get_mut(position))
        .filter(|arg| !by_keyword && config::keyword(arg).is_none_or(|(_, rest)| rest.is_empty()));
    match at {
        Some(arg) => *arg = value.into(),
        None => args.push(format!("{keyword} {value}")),
    }
    config::join_args(&args)
}

#[cfg(test)]
mod tests {
    use super::with_argument;

    #[test]
    fn arguments_are_replaced_where_they_stand() {
        assert_eq!(with_argument("1, 2, 3", Some(1), "B", "x"), "1, x, 3");
        assert_eq!(
            with_argument("1, B 2, C 3", Some(1), "B", "x"),
            "1, C 3, B x"
        );
        assert_eq!(with_argument("1", Some(1), "B", "x"), "1, B x");
        assert_eq!(with_argument("C 3, 1", Some(0), "B", "x"), "C 3, 1, B x");
        assert_eq!(with_argument("1", None, "B", "x"), "1, B x");
    }
}
