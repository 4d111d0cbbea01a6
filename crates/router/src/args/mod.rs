//! Typed parsing of element arguments.
//!
//! An element's `configure` reads like a table of its arguments:
//!
//! ```
//! # use router::args::{Args, Bandwidth, Failed, NameDatabase, NoElements};
//! struct Shaper { rate: Bandwidth, burst: u32 }
//! impl Shaper {
//!     fn configure(&mut self, args: &mut Args) -> Result<(), Failed> {
//!         args.read()
//!             .mandatory_positional("RATE", &mut self.rate)
//!             .keyword("BURST", &mut self.burst)
//!             .complete()
//!     }
//! }
//! # let mut names = NameDatabase::new();
//! # let mut args = Args::from_config("1Mbps, BURST 3", &mut names, &NoElements, "s");
//! # let mut shaper = Shaper { rate: Bandwidth(0), burst: 0 };
//! # assert_eq!(shaper.configure(&mut args), Ok(()));
//! # assert_eq!((shaper.rate, shaper.burst), (Bandwidth(125_000), 3));
//! ```
//!
//! Which argument a parameter takes, what counts as a keyword, and every
//! message follow Click (Click manual, "Configuration strings"; its
//! `click/args.hh`). Three layers:
//!
//! - [`Args`] and [`Read`] hand argument texts to parameters ([`read`]);
//! - [`Argument`] parses a text by the type it becomes, a [`Parser`] where one
//!   type has several notations;
//! - a [`Context`] tells them what names mean: the [`NameDatabase`]
//!   (AddressInfo, PortInfo and the built-in tables) and the router's
//!   [`Elements`].
//!
//! [`unparse`] holds the way back, for handlers.

mod anno;
mod argument;
mod context;
mod decimal;
mod digits;
mod element;
mod ether;
mod float;
mod int;
mod ip;
mod ip6;
mod names;
mod port;
pub mod read;
mod tables;
mod text;
mod timestamp;
mod units;
pub mod unparse;

use core::cell::RefCell;
use core::fmt::Display;

use click::Location;

use crate::prelude::*;

pub use anno::{AnnoArg, AnnoOf, Annotation};
pub use argument::{Argument, Invalid, Parser};
pub use context::{Context, Elements, Host, Interfaces, NoElements};
pub use decimal::{DecimalFixedPoint, FixedPoint};
pub use digits::Digits;
pub use element::{ElementOf, ElementRef, HandlerCall};
pub use int::{Bounded, Int, Integer, Saturating, plain_decimal};
pub use ip::{IpPrefixArg, Ipv4Prefix, parse_ipv4_literal};
pub use ip6::{Ip6PrefixArg, Ipv6Prefix};
pub use names::{Kind, NameDatabase, Value};
pub use packet::wire::{EtherAddress, IpProtocol};
pub use port::{NamedInt, Port, TcpPort, UdpPort};
pub use read::{Flags, Read};
#[cfg(feature = "std")]
pub use text::path;
pub use text::{Any, FilenameArg, KeywordArg, WordArg};
pub use timestamp::{Timestamp, TimestampArg};
pub use units::{
    Bandwidth, BandwidthArg, FractionalSeconds, Microseconds, Milliseconds, Nanoseconds, Rate,
    Seconds, SecondsArg,
};

/// The messages say why: an argument, or what an element made of it, is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Failed;

/// How much a [`Message`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something the user may want to know.
    Info,
    /// Suspicious, but the element works. Shown as `warning: TEXT`.
    Warning,
    /// The element can't be configured this way.
    Error,
}

/// One line to tell the user about an element's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How much it matters.
    pub severity: Severity,
    /// What of the arguments it is about, with a colon behind: shown before the severity.
    pub part: String,
    /// The line, without severity or place.
    pub text: String,
    /// Where the line is: in a file that an argument names, or unknown, which is the element's
    /// place. The place of a line about a part of an argument is blank, as in Click.
    pub location: Location,
    /// Whether it ended the configuration at once.
    pub ends: bool,
}

/// As it is shown.
impl Display for Message {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mark = match self.severity {
            Severity::Warning => "warning: ",
            Severity::Error | Severity::Info => "",
        };
        if !self.location.file().trim_ascii().is_empty() {
            write!(f, "{}: ", self.location)?;
        }
        write!(f, "{}{mark}{}", self.part, self.text)
    }
}

/// The arguments of one element, and all that is needed to make sense of them.
pub struct Args<'n> {
    /// The argument texts that no [`Read::consume`] took away.
    conf: Vec<String>,
    names: &'n mut NameDatabase,
    elements: &'n dyn Elements,
    element: String,
    messages: RefCell<Vec<Message>>,
    stored: bool,
    restores: bool,
}

impl<'n> Args<'n> {
    /// The arguments `conf` (as `click::config::split_args` gives them) of the
    /// element whose full name is `element`.
    pub fn new(
        conf: Vec<String>,
        names: &'n mut NameDatabase,
        elements: &'n dyn Elements,
        element: &str,
    ) -> Self {
        Self {
            conf,
            names,
            elements,
            element: element.to_string(),
            messages: RefCell::new(Vec::new()),
            stored: false,
            restores: false,
        }
    }

    /// The comma-separated arguments in `config`.
    pub fn from_config(
        config: &str,
        names: &'n mut NameDatabase,
        elements: &'n dyn Elements,
        element: &str,
    ) -> Self {
        Self::new(click::config::split_args(config), names, elements, element)
    }

    /// The space-separated words in `text` as arguments, as some handlers and
    /// some elements' single arguments have them.
    pub fn from_words(
        text: &str,
        names: &'n mut NameDatabase,
        elements: &'n dyn Elements,
        element: &str,
    ) -> Self {
        Self::new(click::config::split_space(text), names, elements, element)
    }

    /// Starts a fresh pass over the arguments that are left.
    pub fn read<'t>(&mut self) -> Read<'_, 'n, 't> {
        Read::new(self)
    }

    /// Takes the arguments left, each of which must have one of the keywords `names`, and a value
    /// without meaning here.
    pub fn ignore(&mut self, names: &[&str]) -> Result<(), Failed> {
        let mut ignored: Vec<Option<String>> = vec![None; names.len()];
        let slots = names.iter().zip(&mut ignored);
        let any = |text: &str, context: &Context<'_>| Any.parse(text, context).map(Some);
        slots
            .fold(self.read(), |read, (name, slot)| {
                read.arg(name, Flags::KEYWORD, any, slot)
            })
            .complete()
    }

    /// Takes no arguments at all: anything given is an error.
    pub fn none(&mut self) -> Result<(), Failed> {
        self.read().complete()
    }

    /// The argument texts left, for elements with a language of their own
    /// (Classifier, IPFilter).
    pub fn raw(&self) -> &[String] {
        &self.conf
    }

    /// Takes the argument texts left out of this object.
    pub fn take_raw(&mut self) -> Vec<String> {
        core::mem::take(&mut self.conf)
    }

    /// The element's full name, `a/b/x`.
    pub fn element(&self) -> &str {
        &self.element
    }

    /// What names mean where this element stands.
    pub fn context(&self) -> Context<'_> {
        Context {
            names: self.names,
            elements: self.elements,
            element: &self.element,
        }
    }

    /// The router's names, for elements that define some.
    pub fn names(&mut self) -> &mut NameDatabase {
        self.names
    }

    /// Defines `name` for the elements beside this one and inside them.
    pub fn define(&mut self, kind: Kind, name: &str, value: Value) {
        self.names.define(kind, name, value, &self.element);
    }

    /// Takes an entry of AddressInfo; see [`NameDatabase::define_addresses`].
    pub fn define_addresses(&mut self, entry: &str) {
        let errors = self
            .names
            .define_addresses(entry, self.elements, &self.element);
        errors.iter().for_each(|error| self.error(error));
    }

    /// Takes an entry of PortInfo; see [`NameDatabase::define_ports`].
    pub fn define_ports(&mut self, entry: &str) {
        if let Err(error) = self.names.define_ports(entry, &self.element) {
            self.error(error);
        }
    }

    /// Adds a message.
    pub fn message(&self, severity: Severity, text: impl Display) {
        self.message_at(&Location::unknown(), severity, text);
    }

    /// Adds a message about a place in a file that an argument names.
    pub fn message_at(&self, location: &Location, severity: Severity, text: impl Display) {
        self.messages.borrow_mut().push(Message {
            severity,
            part: String::new(),
            text: text.to_string(),
            location: location.clone(),
            ends: false,
        });
    }

    /// Adds an error about the part `part` of an argument: `input spec 0`.
    pub fn error_in(&self, part: impl Display, text: impl Display) {
        self.messages.borrow_mut().push(Message {
            severity: Severity::Error,
            part: format!("{part}: "),
            text: text.to_string(),
            location: Location::new(" ", 0),
            ends: false,
        });
    }

    /// Adds a warning about the part `part` of an argument: `pattern 0`.
    pub fn warning_in(&self, part: impl Display, text: impl Display) {
        self.messages.borrow_mut().push(Message {
            severity: Severity::Warning,
            part: format!("{part}: "),
            text: text.to_string(),
            location: Location::unknown(),
            ends: false,
        });
    }

    /// Adds an error. The element's `configure` should end in `Err(Failed)`.
    pub fn error(&self, text: impl Display) {
        self.message(Severity::Error, text);
    }

    /// Adds an error, for `return Err(args.fail("…"))`.
    pub fn fail(&self, text: impl Display) -> Failed {
        self.error(text);
        if let Some(message) = self.messages.borrow_mut().last_mut() {
            message.ends = true;
        }
        Failed
    }

    /// Ends a `configure` that went on after errors: fails if there were any.
    pub fn finish(&self) -> Result<(), Failed> {
        if self.error_count() > 0 {
            Err(Failed)
        } else {
            Ok(())
        }
    }

    /// Adds the error of the argument for `keyword`.
    pub fn invalid(&self, keyword: &str, invalid: &Invalid) {
        for line in invalid.lines() {
            self.error(prefixed(keyword, line));
        }
    }

    /// Adds a warning.
    pub fn warning(&self, text: impl Display) {
        self.message(Severity::Warning, text);
    }

    /// Everything there is to tell the user so far, in order.
    pub fn errors(&self) -> Vec<Message> {
        self.messages.borrow().clone()
    }

    /// How many of the messages are errors.
    pub fn error_count(&self) -> usize {
        let messages = self.messages.borrow();
        messages
            .iter()
            .filter(|m| m.severity == Severity::Error)
            .count()
    }

    /// Whether a pass stored values.
    pub fn stored(&self) -> bool {
        self.stored
    }

    /// Says that the element had these arguments before, and others were refused.
    pub fn restoring(mut self, restores: bool) -> Self {
        self.restores = restores;
        self
    }

    /// Whether the element had these arguments before, and others were refused: what depends on
    /// them, and did not change yet when they were refused, is to stay as it is.
    pub fn restores(&self) -> bool {
        self.restores
    }

    /// Moves the messages out.
    pub fn take_errors(&mut self) -> Vec<Message> {
        core::mem::take(self.messages.get_mut())
    }
}

fn prefixed(keyword: &str, line: &str) -> String {
    if keyword.is_empty() {
        line.to_string()
    } else {
        format!("{keyword}: {line}")
    }
}

#[cfg(test)]
mod tests;
