//! Which argument goes to which parameter.
//!
//! The rules are Click's. An argument `KEYWORD value` (a word of letters,
//! digits and `_.:?!` followed by a space and more) may be taken by the
//! parameter of that name; if several have the keyword, the last one counts.
//! Parameters that can be positional take the leading arguments in order. An
//! argument that looks like a keyword is taken by position only for a mandatory
//! parameter not given by keyword. Positional arguments end at the first
//! argument taken by keyword. An empty positional argument leaves its parameter
//! as it was.

use core::ops::BitOr;

use super::{Args, Argument, Failed, Parser, prefixed};
use crate::prelude::*;

/// How a parameter may be given; combined with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Optional, by keyword only.
    pub const KEYWORD: Flags = Flags(0);
    /// Must be given.
    pub const MANDATORY: Flags = Flags(1);
    /// May be given by position.
    pub const POSITIONAL: Flags = Flags(2);
    /// Draws a warning when given.
    pub const DEPRECATED: Flags = Flags(4);
    /// Of several, takes the first instead of the last.
    pub const FIRST_MATCH: Flags = Flags(8);

    const MANDATORY_POSITIONAL: Flags = Flags(3);

    /// Whether all of `other`'s flags are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The state of one argument during a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Not taken; its first `n` bytes are a keyword (0: it has none).
    Free(usize),
    /// Taken as the next positional argument.
    ByPosition,
    /// Taken by its keyword.
    ByKeyword,
}

/// One pass over an element's arguments.
///
/// Parameters are filled when the pass ends well, with
/// [`complete`](Self::complete) or [`consume`](Self::consume), and then all at once: an element
/// that refuses its new arguments keeps the old ones whole.
#[must_use = "nothing is stored before `complete` or `consume`"]
pub struct Read<'a, 'n, 't> {
    args: &'a mut Args<'n>,
    uses: Vec<Use>,
    stores: Vec<Box<dyn FnOnce() + 't>>,
    ok: bool,
}

impl<'a, 'n, 't> Read<'a, 'n, 't> {
    pub(super) fn new(args: &'a mut Args<'n>) -> Self {
        let uses = args.conf.iter().map(|a| Use::Free(keyword_len(a)));
        Self {
            uses: uses.collect(),
            args,
            stores: Vec::new(),
            ok: true,
        }
    }

    /// An optional argument, by position or keyword.
    pub fn positional<T: Argument + 't>(self, keyword: &str, slot: &'t mut T) -> Self {
        self.arg(keyword, Flags::POSITIONAL, T::parse, slot)
    }

    /// A mandatory argument, by position or keyword.
    pub fn mandatory_positional<T: Argument + 't>(self, keyword: &str, slot: &'t mut T) -> Self {
        self.arg(keyword, Flags::MANDATORY_POSITIONAL, T::parse, slot)
    }

    /// An optional argument, by keyword only.
    pub fn keyword<T: Argument + 't>(self, keyword: &str, slot: &'t mut T) -> Self {
        self.arg(keyword, Flags::KEYWORD, T::parse, slot)
    }

    /// As [`positional`](Self::positional), in a given notation.
    pub fn positional_with<T: 't>(
        self,
        keyword: &str,
        parser: impl Parser<T>,
        slot: &'t mut T,
    ) -> Self {
        self.arg(keyword, Flags::POSITIONAL, parser, slot)
    }

    /// As [`mandatory_positional`](Self::mandatory_positional), in a given notation.
    pub fn mandatory_positional_with<T: 't>(
        self,
        keyword: &str,
        parser: impl Parser<T>,
        slot: &'t mut T,
    ) -> Self {
        self.arg(keyword, Flags::MANDATORY_POSITIONAL, parser, slot)
    }

    /// Any argument: the general form of the methods above.
    pub fn arg<T: 't>(
        mut self,
        keyword: &str,
        flags: Flags,
        parser: impl Parser<T>,
        slot: &'t mut T,
    ) -> Self {
        if let Some(text) = self.find(keyword, flags)
            && let Some(value) = self.parse(keyword, &parser, &text)
        {
            self.stores.push(Box::new(move || *slot = value));
        }
        self
    }

    /// As [`arg`](Self::arg); the parameter is set to `default` when not given, and loses its
    /// former value.
    pub fn arg_or<T: 't>(
        mut self,
        keyword: &str,
        flags: Flags,
        parser: impl Parser<T>,
        slot: &'t mut T,
        default: T,
    ) -> Self {
        let value = match self.find(keyword, flags) {
            Some(text) => self.parse(keyword, &parser, &text),
            None => Some(default),
        };
        if let Some(value) = value {
            self.stores.push(Box::new(move || *slot = value));
        }
        self
    }

    /// As [`arg_or`](Self::arg_or); without its keyword, the argument may be given if no parameter
    /// so far took it, there is no other such argument, and it is a `T`.
    pub fn alone_or<T: 't>(
        mut self,
        keyword: &str,
        flags: Flags,
        parser: impl Parser<T>,
        slot: &'t mut T,
        default: T,
    ) -> Self {
        let by_keyword = self.find(keyword, flags);
        let mut free = (0..self.uses.len()).filter(|i| matches!(self.uses[*i], Use::Free(_)));
        let alone = free.next().filter(|_| free.next().is_none());
        let context = self.args.context();
        let parsed = alone.and_then(|i| parser.parse(&self.args.conf[i], &context).ok());
        let value = match (parsed, by_keyword) {
            (Some(value), _) => {
                self.uses[alone.unwrap_or(0)] = Use::ByPosition;
                Some(value)
            }
            (None, Some(text)) => self.parse(keyword, &parser, &text),
            (None, None) => Some(default),
        };
        if let Some(value) = value {
            self.stores.push(Box::new(move || *slot = value));
        }
        self
    }

    /// Every argument with this keyword, in order, in place of what `slot` held.
    pub fn all<T: Argument + 't>(self, keyword: &str, slot: &'t mut Vec<T>) -> Self {
        self.all_with(keyword, Flags::KEYWORD, T::parse, slot)
    }

    /// Every argument that matches, in order, in place of what `slot` held. With
    /// [`Flags::POSITIONAL`] that is also the rest of the positional ones.
    pub fn all_with<T: 't>(
        mut self,
        keyword: &str,
        flags: Flags,
        parser: impl Parser<T>,
        slot: &'t mut Vec<T>,
    ) -> Self {
        let mut flags = flags | Flags::FIRST_MATCH;
        let mut values = Vec::new();
        while let Some(text) = self.find(keyword, flags) {
            values.extend(self.parse(keyword, &parser, &text));
            flags = Flags(flags.0 & !Flags::MANDATORY.0);
        }
        self.stores.push(Box::new(move || *slot = values));
        self
    }

    /// Takes all the arguments not taken so far, as they stand.
    pub fn rest(mut self, slot: &'t mut Vec<String>) -> Self {
        let mut rest = Vec::new();
        for (text, used) in self.args.conf.iter().zip(&mut self.uses) {
            if let Use::Free(_) = used {
                rest.push(text.clone());
                *used = Use::ByPosition;
            }
        }
        self.stores.push(Box::new(move || *slot = rest));
        self
    }

    /// Ends the pass: every argument must have been taken.
    pub fn complete(mut self) -> Result<(), Failed> {
        let mut too_many = false;
        for (text, used) in self.args.conf.iter().zip(&self.uses) {
            match *used {
                Use::Free(0) => too_many = true,
                Use::Free(len) => self.args.error(prefixed(&text[..len], "unknown argument")),
                Use::ByPosition | Use::ByKeyword => continue,
            }
            self.ok = false;
        }
        if too_many {
            self.args.error("too many arguments");
        }
        self.execute()
    }

    /// Ends the pass, leaving in the [`Args`] the arguments not taken.
    pub fn consume(self) -> Result<(), Failed> {
        let mut used = self.uses.iter();
        let free = |u: Option<&Use>| matches!(u, Some(Use::Free(_)));
        self.args.conf.retain(|_| free(used.next()));
        self.execute()
    }

    /// Ends the pass, leaving all the arguments in the [`Args`].
    fn execute(self) -> Result<(), Failed> {
        if !self.ok {
            return Err(Failed);
        }
        self.args.stored |= !self.stores.is_empty();
        for store in self.stores {
            store();
        }
        Ok(())
    }

    /// The text for a parameter. None if there is none, or an empty one.
    fn find(&mut self, keyword: &str, flags: Flags) -> Option<String> {
        let first_match = flags.has(Flags::FIRST_MATCH);
        let next = self.next_positional();
        let mut got = self.find_keyword(keyword, first_match);

        if flags.has(Flags::POSITIONAL)
            && let Some(position) = next
            && let Use::Free(len) = self.uses[position]
            && (len == 0 || (got.is_none() && flags.has(Flags::MANDATORY)))
            && got.is_none_or(|(by_keyword, _)| !first_match || position < by_keyword)
        {
            self.uses[position] = Use::ByPosition;
            if let Some((by_keyword, _)) = got.filter(|_| first_match) {
                self.uses[by_keyword] = Use::Free(keyword.len());
            }
            // Of two without first-match, the later one counts, though both are taken.
            if first_match || got.is_none_or(|(by_keyword, _)| by_keyword < position) {
                got = Some((position, 0));
            }
        }

        let Some((index, skip)) = got else {
            if flags.has(Flags::MANDATORY) {
                self.args
                    .error(prefixed(keyword, "required argument missing"));
                self.ok = false;
            }
            return None;
        };
        if flags.has(Flags::DEPRECATED) {
            self.args.warning_in(keyword, "argument deprecated");
        }
        let text = &self.args.conf[index];
        let text = if skip > 0 {
            text[skip..].trim_start_matches(is_space)
        } else {
            text
        };
        (!text.is_empty()).then(|| text.into())
    }

    /// The argument that is next by position, unless keyword arguments began.
    fn next_positional(&self) -> Option<usize> {
        let next = self.uses.iter().position(|&u| u != Use::ByPosition)?;
        (self.uses[next] != Use::ByKeyword).then_some(next)
    }

    /// Takes the arguments that have `keyword`; gives the one that counts, with
    /// the keyword's length.
    fn find_keyword(&mut self, keyword: &str, first_match: bool) -> Option<(usize, usize)> {
        let mut got = None;
        for (i, used) in self.uses.iter_mut().enumerate() {
            if *used == Use::Free(keyword.len()) && self.args.conf[i].starts_with(keyword) {
                *used = Use::ByKeyword;
                got = Some((i, keyword.len()));
                if first_match {
                    break;
                }
            }
        }
        got
    }

    fn parse<T>(&mut self, keyword: &str, parser: &impl Parser<T>, text: &str) -> Option<T> {
        match parser.parse(text, &self.args.context()) {
            Ok(value) => Some(value),
            Err(invalid) => {
                self.args.invalid(keyword, &invalid);
                self.ok = false;
                None
            }
        }
    }
}

/// White space as C's `isspace` has it.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// Length of the keyword that `text` begins with; 0 if it has none, or nothing
/// follows it.
fn keyword_len(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return 0;
    }
    let len = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || "_:.?!".contains(c)))
        .unwrap_or(text.len());
    let value = text[len..].trim_start_matches(is_space);
    if value.is_empty() || value.len() == text.len() - len {
        0
    } else {
        len
    }
}
