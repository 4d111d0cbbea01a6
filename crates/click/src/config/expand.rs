//! Substitution of variables in configuration strings.

use super::quote;
use super::scan::{at_comment, is_variable_byte, skip_comment_space, skip_while, slice};
use crate::text::encode;
use alloc::string::String;

/// How a variable was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// `$name`, and also `$?`, `$#` and `$$`.
    Plain,
    /// `${…}`.
    Braces,
    /// `$(…)`.
    Parentheses,
}

/// A variable in a text.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'a> {
    /// What stands after the `$`, without braces or parentheses, variables in
    /// it substituted.
    pub name: &'a str,
    /// How it was written.
    pub kind: ReferenceKind,
    /// How many expansions this one is inside of.
    pub depth: u32,
}

/// What variables stand for. Closures are lookups.
pub trait Lookup {
    /// The text to put in place of `reference`; `None` leaves it as it is. The
    /// text is not expanded again: a lookup that wants that calls
    /// [`expand_with`] with `reference.depth + 1` and `fuel`.
    fn lookup(&mut self, reference: &Reference<'_>, fuel: &mut Fuel) -> Option<String>;
}

impl<F: FnMut(&Reference<'_>) -> Option<String>> Lookup for F {
    fn lookup(&mut self, reference: &Reference<'_>, _: &mut Fuel) -> Option<String> {
        self(reference)
    }
}

/// Whether substituted text is quoted. Inside double quotes it always is, so
/// that it stays inside; inside single quotes nothing is substituted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Outside quotes, text is put in as it is.
    Bare,
    /// Outside quotes, text is put in as a double-quoted string.
    Quoted,
}

/// The cost that an expansion may still have, in bytes read and written (each
/// variable counts for [`Fuel::REFERENCE`] more). Variables that refer to
/// variables could otherwise take any amount of memory and time.
#[derive(Clone, Copy, Debug)]
pub struct Fuel {
    left: usize,
    exhausted: bool,
}

impl Fuel {
    /// What using a variable costs besides its text.
    pub const REFERENCE: usize = 64;

    /// Fuel for one configuration string: 4 MiB.
    pub const DEFAULT: Fuel = Fuel {
        left: 1 << 22,
        exhausted: false,
    };

    /// Fuel for `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Fuel {
            left: bytes,
            exhausted: false,
        }
    }

    /// Whether something was left undone for lack of fuel.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    fn burn(&mut self, bytes: usize) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                *self = Fuel {
                    left: 0,
                    exhausted: true,
                }
            }
        }
        !self.exhausted
    }
}

/// An expansion ran out of [`Fuel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("variables expand to more than 4 MiB of text; look for variables that refer to each other")]
pub struct TooLong;

/// How deep expansions may nest; variables deeper inside stay as they are.
const MAX_DEPTH: u32 = 10;

/// Substitutes the variables of `text`.
pub fn expand(text: &str, style: Style, lookup: &mut impl Lookup) -> Result<String, TooLong> {
    let mut fuel = Fuel::DEFAULT;
    let result = expand_with(text, style, lookup, 0, &mut fuel);
    if fuel.exhausted {
        Err(TooLong)
    } else {
        Ok(result)
    }
}

/// [`expand`] from within a [`Lookup`]. Out of fuel, the result is of no use.
pub fn expand_with(
    text: &str,
    style: Style,
    lookup: &mut impl Lookup,
    depth: u32,
    fuel: &mut Fuel,
) -> String {
    if !fuel.burn(text.len() + Fuel::REFERENCE) || depth > MAX_DEPTH || !text.contains('$') {
        return text.into();
    }
    Expansion {
        text,
        style,
        lookup,
        depth,
        fuel,
        output: String::new(),
        copied: 0,
    }
    .run()
}

/// A reference found after a `$`: its end, its name as written, and whether the
/// name has variables in it.
struct Found<'a> {
    kind: ReferenceKind,
    name: &'a str,
    end: usize,
    nested: bool,
}

struct Expansion<'a, L: Lookup> {
    text: &'a str,
    style: Style,
    lookup: &'a mut L,
    depth: u32,
    fuel: &'a mut Fuel,
    output: String,
    /// `text` is in `output` up to here.
    copied: usize,
}

impl<L: Lookup> Expansion<'_, L> {
    fn run(mut self) -> String {
        let bytes = self.text.as_bytes();
        let mut quote = None;
        let mut at = 0;
        while at < bytes.len() && !self.fuel.exhausted {
            match bytes[at] {
                b'\\' if quote == Some(b'"') => at += 1,
                byte @ (b'"' | b'\'') if quote.is_none() => quote = Some(byte),
                byte @ (b'"' | b'\'') if quote == Some(byte) => quote = None,
                b'/' if quote.is_none() && at_comment(bytes, at) => {
                    at = skip_comment_space(bytes, at);
                    continue;
                }
                b'$' if quote != Some(b'\'') => match find(self.text, at) {
                    Search::Found(found) => {
                        self.substitute(at, &found, quote == Some(b'"'));
                        at = found.end;
                        continue;
                    }
                    Search::Unclosed => break,
                    Search::Nothing => {}
                },
                _ => {}
            }
            at += 1;
        }
        self.copy_to(bytes.len());
        self.output
    }

    fn copy_to(&mut self, end: usize) {
        self.output.push_str(slice(self.text, self.copied, end));
        self.copied = end;
    }

    /// Deals with the reference at `at`.
    fn substitute(&mut self, at: usize, found: &Found<'_>, quoted: bool) {
        let expanded;
        let mut name = found.name;
        if found.nested {
            expanded = expand_with(name, Style::Bare, self.lookup, self.depth + 1, self.fuel);
            name = &expanded;
        }
        let reference = Reference {
            name,
            kind: found.kind,
            depth: self.depth,
        };
        let value = self.lookup.lookup(&reference, self.fuel);
        self.fuel
            .burn(name.len() + value.as_ref().map_or(0, String::len));
        let Some(value) = value else {
            if found.nested {
                self.copy_to(at + 2);
                self.output.push_str(name);
                self.copied = found.end - 1;
            }
            return;
        };
        self.copy_to(at);
        self.copied = found.end;
        if quoted {
            let value = quote(&encode(&value));
            self.output.push_str(&value[1..value.len() - 1]);
        } else if self.style == Style::Quoted {
            self.output.push_str(&quote(&encode(&value)));
        } else {
            self.output.push_str(&value);
        }
    }
}

enum Search<'a> {
    Found(Found<'a>),
    /// A brace or parenthesis is never closed.
    Unclosed,
    /// The `$` stands for itself.
    Nothing,
}

/// Looks at the text behind the `$` at `at`.
fn find(text: &str, at: usize) -> Search<'_> {
    let bytes = text.as_bytes();
    let start = at + 1;
    match bytes.get(start) {
        Some(b'{') => find_braces(text, start + 1),
        Some(b'(') => find_parentheses(text, start + 1),
        Some(&byte) if is_variable_byte(byte) => {
            let end = skip_while(bytes, start, is_variable_byte);
            plain(text, start, end)
        }
        Some(b'?' | b'#' | b'$') => plain(text, start, start + 1),
        _ => Search::Nothing,
    }
}

fn plain(text: &str, start: usize, end: usize) -> Search<'_> {
    Search::Found(Found {
        kind: ReferenceKind::Plain,
        name: slice(text, start, end),
        end,
        nested: false,
    })
}

fn find_braces(text: &str, start: usize) -> Search<'_> {
    let end = skip_while(text.as_bytes(), start, |b| b != b'}');
    if end == text.len() {
        return Search::Unclosed;
    }
    let name = slice(text, start, end);
    Search::Found(Found {
        kind: ReferenceKind::Braces,
        name,
        end: end + 1,
        nested: name.contains('$'),
    })
}

fn find_parentheses(text: &str, start: usize) -> Search<'_> {
    let bytes = text.as_bytes();
    let mut level = 1;
    let mut quote = None;
    let mut nested = false;
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'(' if quote.is_none() => level += 1,
            b')' if quote.is_none() => level -= 1,
            byte @ (b'"' | b'\'') if quote.is_none() => quote = Some(byte),
            byte @ (b'"' | b'\'') if quote == Some(byte) => quote = None,
            b'\\' if quote != Some(b'\'') => at += 1,
            b'$' if quote != Some(b'\'') => nested = true,
            _ => {}
        }
        at += 1;
        if level == 0 {
            return Search::Found(Found {
                kind: ReferenceKind::Parentheses,
                name: slice(text, start, at - 1),
                end: at,
                nested,
            });
        }
    }
    Search::Unclosed
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::format;
    use proptest::prelude::*;

    fn ab(reference: &Reference<'_>) -> Option<String> {
        match (reference.kind, reference.name) {
            (ReferenceKind::Parentheses, name) => Some(format!("<{name}>")),
            (_, "a") => Some("b".to_owned()),
            (_, "q") => Some("x \"y\"".to_owned()),
            (_, "?") => Some("0".to_owned()),
            _ => None,
        }
    }

    fn bare(text: &str) -> String {
        expand(text, Style::Bare, &mut ab).unwrap()
    }

    #[test]
    fn substitutes_each_kind() {
        assert_eq!(bare("$a ${a}$a. $aa $ $- $?"), "b bb. $aa $ $- 0");
        assert_eq!(bare("$(f (x) ')')y"), "<f (x) ')'>y");
        assert_eq!(bare("$(f $a)"), "<f b>");
        assert_eq!(bare("${x$a} ${x}"), "${xb} ${x}");
        assert_eq!(bare("$a ${a"), "b ${a");
        assert_eq!(bare("$a $(a"), "b $(a");
        assert_eq!(bare("é$aé"), "ébé");
    }

    #[test]
    fn minds_quotes_and_comments() {
        assert_eq!(bare("'$a' \"$a\" \"\\$a\""), "'$a' \"b\" \"\\$a\"");
        assert_eq!(bare("$q \"$q\""), "x \"y\" \"x \\\"y\\\"\"");
        assert_eq!(bare("$a // $a\n$a /* $a */ $a"), "b // $a\nb /* $a */ b");
        let quoted = expand("$q '$q' \"$q\"", Style::Quoted, &mut ab).unwrap();
        assert_eq!(quoted, "\"x \\\"y\\\"\" '$q' \"x \\\"y\\\"\"");
    }

    #[test]
    fn growth_is_bounded() {
        struct Doubling;
        impl Lookup for Doubling {
            fn lookup(&mut self, r: &Reference<'_>, fuel: &mut Fuel) -> Option<String> {
                let text = "$a".repeat(100);
                Some(expand_with(&text, Style::Bare, self, r.depth + 1, fuel))
            }
        }
        assert_eq!(expand("$a", Style::Bare, &mut Doubling), Err(TooLong));
    }

    proptest! {
        #[test]
        fn takes_anything(text in r#"([$(){}aq"'\\/* é]|\PC){0,40}"#) {
            bare(&text);
            let same = expand(&text, Style::Bare, &mut |_: &Reference<'_>| None).unwrap();
            if !text.contains("$(") && !text.contains("${") {
                prop_assert_eq!(same, text);
            }
        }
    }
}
