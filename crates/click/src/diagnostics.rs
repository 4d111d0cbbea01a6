//! Errors, warnings and messages about a configuration, collected and printed
//! in the form Click's error handlers give them.
//!
//! Write quotation marks in texts as `‘` and `’`. They are printed as `'`
//! unless the reader's terminal shows Unicode ([`Quotes::Curly`]), as Click
//! does it.

use crate::Location;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Write};
use core::ops::{Deref, DerefMut};

/// How grave an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The configuration can't be used.
    Error,
    /// The configuration can be used, though perhaps not as meant.
    Warning,
    /// Information.
    Message,
}

/// How quotation marks are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quotes {
    /// `'both'`: what Click prints to anything but a UTF-8 terminal.
    #[default]
    Ascii,
    /// `‘open’ and closed`.
    Curly,
}

impl Quotes {
    /// `text`, which has curly quotes, as it is printed.
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        if self == Quotes::Curly || !text.contains(['‘', '’']) {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(text.replace(['‘', '’'], "'"))
        }
    }
}

/// One diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    severity: Severity,
    location: Location,
    lead: String,
    text: String,
    heading: bool,
}

impl Entry {
    /// How grave it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Where it is; unknown when neither the report nor a context said.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Its text, with curly quotes, without location, indentation or `warning:
    /// `.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is the heading of a context (“While configuring …:”), put
    /// before the first entry made inside that context.
    pub fn is_heading(&self) -> bool {
        self.heading
    }

    /// Writes the entry as Click prints it, each line ended by a newline.
    pub fn render(&self, out: &mut impl Write, quotes: Quotes) -> fmt::Result {
        let text = self.text.strip_suffix('\n').unwrap_or(&self.text);
        let mark = match self.severity {
            Severity::Warning if !self.heading => "warning: ",
            _ => "",
        };
        let place = self.location.to_string();
        let place = place.trim_ascii_end();
        let place = place.strip_suffix(':').unwrap_or(place);
        let colon = if place.is_empty() { "" } else { ": " };
        for line in text.split('\n') {
            let (lead, line) = (quotes.apply(&self.lead), quotes.apply(line));
            writeln!(out, "{place}{colon}{lead}{mark}{line}")?;
        }
        Ok(())
    }
}

impl Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quotes = if f.alternate() {
            Quotes::Curly
        } else {
            Quotes::Ascii
        };
        self.render(f, quotes)
    }
}

/// What surrounds the reports made while it is pushed: a heading printed before
/// the first report, a location for reports without one, a prefix for each
/// line.
#[derive(Clone, Debug, Default)]
pub struct Context {
    heading: String,
    /// The heading names its place itself.
    is_placed: bool,
    location: Location,
    lead: Cow<'static, str>,
    printed: bool,
}

impl Context {
    /// Prints `heading` before the first report and indents the reports by two
    /// spaces: `While configuring ‘q :: Queue’:`.
    pub fn heading(heading: impl Display) -> Self {
        Context {
            heading: heading.to_string(),
            lead: Cow::Borrowed("  "),
            ..Context::default()
        }
    }

    /// As [`heading`](Self::heading), of one that names its place itself.
    pub fn placed_heading(heading: impl Display) -> Self {
        Context {
            is_placed: true,
            ..Context::heading(heading)
        }
    }

    /// Gives reports (and inner headings) without a place this place.
    pub fn location(location: &Location) -> Self {
        Context {
            location: location.clone(),
            ..Context::default()
        }
    }

    /// Puts `lead` before each line.
    pub fn prefix(lead: impl Display) -> Self {
        Context {
            lead: Cow::Owned(lead.to_string()),
            ..Context::default()
        }
    }

    /// This context, at a place.
    #[must_use]
    pub fn at(mut self, location: &Location) -> Self {
        self.location = location.clone();
        self
    }
}

/// A collection of diagnostics.
///
/// At most [`Diagnostics::LIMIT`] entries are kept; past that they are only
/// counted, and the rendering says how many are missing.
///
/// ```
/// use click::{Context, Diagnostics, Location};
/// let at = Location::new("config", 1);
/// let mut diagnostics = Diagnostics::new();
/// {
///     let mut inside =
///         diagnostics.within(Context::heading("While configuring ‘q :: Queue’:").at(&at));
///     inside.error_here("CAPACITY: invalid number");
/// }
/// assert_eq!(diagnostics.errors(), 1);
/// assert_eq!(
///     diagnostics.to_string(),
///     "config:1: While configuring 'q :: Queue':\nconfig:1:   CAPACITY: invalid number\n"
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    entries: Vec<Entry>,
    contexts: Vec<Context>,
    errors: usize,
    warnings: usize,
    dropped: usize,
}

impl Diagnostics {
    /// The most entries kept.
    pub const LIMIT: usize = 1000;

    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports an error at a place. An unknown place means that of the
    /// surrounding context.
    pub fn error(&mut self, location: &Location, text: impl Display) {
        self.report(Severity::Error, location, text);
    }

    /// Reports a warning at a place.
    pub fn warning(&mut self, location: &Location, text: impl Display) {
        self.report(Severity::Warning, location, text);
    }

    /// Reports a message at a place.
    pub fn message(&mut self, location: &Location, text: impl Display) {
        self.report(Severity::Message, location, text);
    }

    /// Reports an error at the place of the surrounding context.
    pub fn error_here(&mut self, text: impl Display) {
        self.report(Severity::Error, &Location::unknown(), text);
    }

    /// Reports a warning at the place of the surrounding context.
    pub fn warning_here(&mut self, text: impl Display) {
        self.report(Severity::Warning, &Location::unknown(), text);
    }

    /// Reports a message at the place of the surrounding context.
    pub fn message_here(&mut self, text: impl Display) {
        self.report(Severity::Message, &Location::unknown(), text);
    }

    /// Reports `text` (one or more lines) at `location` in the present
    /// contexts.
    pub fn report(&mut self, severity: Severity, location: &Location, text: impl Display) {
        match severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Message => {}
        }
        if self.entries.len() >= Self::LIMIT {
            self.dropped += 1;
            return;
        }
        let location = self.place(location, self.contexts.len());
        for depth in 0..self.contexts.len() {
            self.announce(depth, severity, &location);
        }
        let lead = self.contexts.iter().map(|c| &*c.lead).collect();
        self.entries.push(Entry {
            severity,
            location,
            lead,
            text: text.to_string(),
            heading: false,
        });
    }

    /// Prints the heading of the context at `depth` unless that was done.
    fn announce(&mut self, depth: usize, severity: Severity, location: &Location) {
        let context = &mut self.contexts[depth];
        if core::mem::replace(&mut context.printed, true) || context.heading.is_empty() {
            return;
        }
        let entry = Entry {
            severity,
            location: if context.is_placed || context.location.is_known() {
                context.location.clone()
            } else {
                location.clone()
            },
            text: context.heading.clone(),
            lead: self.contexts[..depth].iter().map(|c| &*c.lead).collect(),
            heading: true,
        };
        self.entries.push(entry);
    }

    /// `location`, or that of the innermost of the first `depth` contexts that
    /// has one.
    fn place(&self, location: &Location, depth: usize) -> Location {
        let contexts = self.contexts[..depth].iter().rev().map(|c| &c.location);
        core::iter::once(location)
            .chain(contexts)
            .find(|place| place.is_known())
            .cloned()
            .unwrap_or_default()
    }

    /// Surrounds the reports that follow with a context.
    pub fn push(&mut self, context: Context) {
        self.contexts.push(context);
    }

    /// Ends the innermost context.
    pub fn pop(&mut self) {
        self.contexts.pop();
    }

    /// Surrounds the reports made through the returned guard with a context.
    pub fn within(&mut self, context: Context) -> Within<'_> {
        self.push(context);
        Within(self)
    }

    /// The number of errors reported.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// The number of warnings reported.
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the entries out, for printing them as they come. The counts stay.
    pub fn drain(&mut self) -> Vec<Entry> {
        self.dropped = 0;
        core::mem::take(&mut self.entries)
    }

    /// Writes all entries as Click prints them.
    pub fn render(&self, out: &mut impl Write, quotes: Quotes) -> fmt::Result {
        for entry in &self.entries {
            entry.render(out, quotes)?;
        }
        match self.dropped {
            0 => Ok(()),
            1 => writeln!(out, "1 more diagnostic is not shown"),
            n => writeln!(out, "{n} more diagnostics are not shown"),
        }
    }
}

impl Display for Diagnostics {
    /// As [`Diagnostics::render`], with curly quotes when asked for the
    /// alternate form (`{:#}`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quotes = if f.alternate() {
            Quotes::Curly
        } else {
            Quotes::Ascii
        };
        self.render(f, quotes)
    }
}

/// [`Diagnostics`] inside a context; leaving scope ends the context.
#[derive(Debug)]
pub struct Within<'a>(&'a mut Diagnostics);

impl Deref for Within<'_> {
    type Target = Diagnostics;

    fn deref(&self) -> &Diagnostics {
        self.0
    }
}

impl DerefMut for Within<'_> {
    fn deref_mut(&mut self) -> &mut Diagnostics {
        self.0
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.0.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn at(line: u32) -> Location {
        Location::new("f", line)
    }

    #[test]
    fn prints_place_and_warning_on_every_line() {
        let mut d = Diagnostics::new();
        d.error(&at(1), "one\ntwo");
        d.warning(&at(2), "three\nfour\n");
        d.message_here("five");
        assert_eq!(
            d.to_string(),
            "f:1: one\nf:1: two\nf:2: warning: three\nf:2: warning: four\nfive\n"
        );
        assert_eq!((d.errors(), d.warnings()), (1, 1));
    }

    #[test]
    fn contexts_nest_and_announce_themselves_once() {
        let mut d = Diagnostics::new();
        d.push(Context::heading("Outer:").at(&at(1)));
        d.push(Context::heading("Inner:"));
        d.error(&at(2), "a");
        d.error_here("b");
        d.pop();
        d.warning_here("c");
        d.pop();
        d.error_here("d");
        assert_eq!(
            d.to_string(),
            "f:1: Outer:\nf:2:   Inner:\nf:2:     a\nf:1:     b\nf:1:   warning: c\nd\n"
        );
    }

    #[test]
    fn a_heading_that_names_its_place_is_not_put_at_that_of_its_first_report() {
        let mut d = Diagnostics::new();
        d.within(Context::placed_heading("f:1: Outer:"))
            .error(&Location::new("data", 0), "a");
        assert_eq!(d.to_string(), "f:1: Outer:\ndata:   a\n");
    }

    #[test]
    fn a_context_without_reports_prints_nothing() {
        let mut d = Diagnostics::new();
        drop(d.within(Context::heading("Silence:")));
        assert!(d.is_empty());
    }

    #[test]
    fn prefix_and_location_contexts() {
        let mut d = Diagnostics::new();
        d.within(Context::location(&at(7)))
            .within(Context::prefix("p: "))
            .error_here("x");
        assert_eq!(d.to_string(), "f:7: p: x\n");
    }

    #[test]
    fn quotes_follow_the_reader() {
        let mut d = Diagnostics::new();
        d.error_here("no ‘x’");
        assert_eq!(format!("{d}"), "no 'x'\n");
        assert_eq!(format!("{d:#}"), "no ‘x’\n");
    }

    #[test]
    fn keeps_a_bounded_number() {
        let mut d = Diagnostics::new();
        for i in 0..Diagnostics::LIMIT + 2 {
            d.error_here(i);
        }
        assert_eq!(d.errors(), Diagnostics::LIMIT + 2);
        assert!(
            d.to_string()
                .ends_with("999\n2 more diagnostics are not shown\n")
        );
    }
}
