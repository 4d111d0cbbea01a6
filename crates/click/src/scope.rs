//! Variables of the language: what `define` and formal parameters bind.

use crate::config::{self, Fuel, Lookup, Reference, ReferenceKind, Style};
use crate::config::{parse_port, shift_space, skip_space};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;

/// Variables and those of the scopes around them. Values refer to variables
/// of their own scope and outer ones, and are expanded when they are used.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    values: BTreeMap<String, String>,
    depth: usize,
    parent: Option<Rc<Scope>>,
}

impl Scope {
    /// An empty scope inside `parent`.
    pub(crate) fn inside(parent: Option<Rc<Scope>>) -> Self {
        Scope {
            depth: parent.as_ref().map_or(0, |parent| parent.depth + 1),
            parent,
            ..Scope::default()
        }
    }

    /// The innermost of this scope and those around it that is less deep than
    /// `depth`.
    pub(crate) fn enclosing(self: &Rc<Self>, depth: usize) -> Option<Rc<Scope>> {
        let mut scope = Some(self);
        while let Some(inner) = scope.filter(|scope| scope.depth >= depth) {
            scope = inner.parent.as_ref();
        }
        scope.cloned()
    }

    /// Binds a name, over an earlier value of the same scope.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.values.insert(name.into(), value);
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut scope = Some(self);
        while let Some(inner) = scope {
            if let Some(value) = inner.values.get(name) {
                return Some(value);
            }
            scope = inner.parent.as_deref();
        }
        None
    }

    /// Substitutes the variables of a configuration string. Out of fuel, the
    /// result is of no use.
    pub(crate) fn expand(&self, text: &str, fuel: &mut Fuel) -> String {
        config::expand_with(text, Style::Bare, &mut &*self, 0, fuel)
    }
}

/// `${NAME}`, `${NAME[I]}` (word `I` of the value), `${NAME-DEFAULT}`.
struct Braces<'a> {
    name: &'a str,
    index: Option<u32>,
    default: Option<&'a str>,
}

fn parse_braces(text: &str) -> Braces<'_> {
    let bytes = text.as_bytes();
    let start = skip_space(bytes, 0);
    let is_name = |&b: &u8| b.is_ascii_alphanumeric() || b == b'_';
    let length = bytes[start..].iter().take_while(|b| is_name(b)).count();
    let name = &text[start..start + length];
    let mut at = skip_space(bytes, start + length);
    let mut index = None;
    if bytes.get(at) == Some(&b'[') {
        let digits = skip_space(bytes, at + 1);
        if let Some(close) = text[digits..].find(']') {
            index = parse_port(&text[digits..digits + close]);
            if index.is_some() {
                at = skip_space(bytes, digits + close + 1);
            }
        }
    }
    Braces {
        name,
        index,
        default: text[at..].strip_prefix('-'),
    }
}

impl Lookup for &Scope {
    fn lookup(&mut self, reference: &Reference<'_>, fuel: &mut Fuel) -> Option<String> {
        let braces = match reference.kind {
            ReferenceKind::Braces => parse_braces(reference.name),
            _ => Braces {
                name: reference.name,
                index: None,
                default: None,
            },
        };
        let text = self.get(braces.name).or(braces.default)?;
        let found = self.get(braces.name).is_some();
        let value = config::expand_with(text, Style::Bare, self, reference.depth + 1, fuel);
        match braces.index {
            Some(index) if found => Some(nth_word(&value, index)),
            _ => Some(value),
        }
    }
}

/// Word `index` of `text`, from 0; empty past the last.
fn nth_word(text: &str, index: u32) -> String {
    let (mut word, mut rest) = shift_space(text);
    for _ in 0..index {
        if rest.is_empty() {
            return String::new();
        }
        (word, rest) = shift_space(rest);
    }
    word.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(scope: &Scope, text: &str) -> String {
        let mut fuel = Fuel::DEFAULT;
        let text = scope.expand(text, &mut fuel);
        assert!(!fuel.is_exhausted());
        text
    }

    fn scope(parent: Option<Rc<Scope>>, variables: &[(&str, &str)]) -> Rc<Scope> {
        let mut scope = Scope::inside(parent);
        for (name, value) in variables {
            scope.set(name, (*value).into());
        }
        Rc::new(scope)
    }

    #[test]
    fn braces_index_and_default() {
        let s = scope(None, &[("a", "x y 'z w'"), ("n", "1"), ("e", "$n$n")]);
        for (text, value) in [
            ("${a}", "x y 'z w'"),
            ("${ a }", "x y 'z w'"),
            ("${a[0]}", "x"),
            ("${a[ 2]}", "'z w'"),
            ("${a[3]}", ""),
            ("${a[$n]}", "y"),
            ("${b-d}", "d"),
            ("${b-$n}", "1"),
            ("${b}", "${b}"),
            ("${a-d}", "x y 'z w'"),
            ("${a[0]-d}", "x"),
            ("$e", "11"),
            ("$(a)", "x y 'z w'"),
        ] {
            assert_eq!(expand(&s, text), value, "{text}");
        }
    }

    #[test]
    fn inner_scopes_hide_outer_ones() {
        let outer = scope(None, &[("a", "1"), ("b", "$a")]);
        let inner = scope(Some(outer.clone()), &[("a", "2")]);
        assert_eq!(expand(&inner, "$a $b"), "2 2");
        assert_eq!(expand(&inner.enclosing(1).unwrap(), "$a"), "1");
        assert!(inner.enclosing(0).is_none());
    }

    #[test]
    fn self_reference_ends() {
        let s = scope(None, &[("a", "$a")]);
        assert_eq!(expand(&s, "$a"), "$a");
        let s = scope(None, &[("a", "$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a")]);
        let mut fuel = Fuel::DEFAULT;
        s.expand("$a", &mut fuel);
        assert!(fuel.is_exhausted());
    }
}
