//! The options of `weir click` and its tools, parsed as by Click's own programs: long names may be
//! shortened, short ones joined with each other and with their values, and `--no-` negates an
//! option.

mod spec;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use click::Quotes;
use click::config::printable;
use click::text::decode;

use spec::Takes;

pub use spec::{DRIVER, FLATTEN, Name, Spec};

/// An argument of the command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// An option.
    Option {
        /// Which.
        name: Name,
        /// As it was written, `-p` or `--port`.
        shown: String,
        /// It was given with `--no-`.
        negated: bool,
        /// Its value.
        value: Value,
    },
    /// Something else.
    Plain(OsString),
}

/// An option's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None was given.
    None,
    /// A text.
    Text(OsString),
    /// An integer, with the text that it was written as.
    Int(i64, OsString),
    /// A number.
    Real(f64),
}

/// Reads a command line argument by argument.
pub struct Options {
    specs: &'static [Spec],
    arguments: std::vec::IntoIter<OsString>,
    /// The rest of a word of joined short options.
    bundle: Vec<u8>,
    /// After `--`.
    plain: bool,
    quotes: Quotes,
}

/// An error of an option: one or more lines, the first without the program's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOption(pub Vec<String>);

impl Options {
    /// Reads `arguments`, without the program's name, of a program that has the options in
    /// `specs`. Messages have `quotes`.
    pub fn new(specs: &'static [Spec], arguments: Vec<OsString>, quotes: Quotes) -> Options {
        Options {
            specs,
            arguments: arguments.into_iter(),
            bundle: Vec::new(),
            plain: false,
            quotes,
        }
    }

    /// The quotation marks that this process's locale can show.
    pub fn locale_quotes() -> Quotes {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL")
            .or_else(|| set("LC_CTYPE"))
            .or_else(|| set("LANG"));
        let utf8 = |locale: &String| ["UTF-8", "UTF8", "utf8"].iter().any(|s| locale.contains(s));
        match locale.is_some_and(|locale| utf8(&locale)) {
            true => Quotes::Curly,
            false => Quotes::Ascii,
        }
    }

    fn quote(&self, text: &str) -> String {
        match self.quotes {
            Quotes::Curly => format!("‘{text}’"),
            Quotes::Ascii => format!("'{text}'"),
        }
    }

    fn bad<T>(&self, text: String) -> Result<T, BadOption> {
        Err(BadOption(vec![text]))
    }

    fn short(&mut self) -> Result<Argument, BadOption> {
        let letter = self.bundle.remove(0);
        let shown = format!("-{}", letter as char);
        let Some(spec) = self.specs.iter().find(|s| s.short == letter) else {
            self.bundle.insert(0, letter);
            let (first, length) = match self.quotes {
                Quotes::Ascii => (printable(&[letter]), 1),
                Quotes::Curly => {
                    let rest = String::from_utf8_lossy(&self.bundle);
                    let first: String = rest.chars().take(1).collect();
                    let length = first.len().min(self.bundle.len());
                    (first, length)
                }
            };
            self.bundle.drain(..length);
            return self.bad(format!(
                "unrecognized option {}",
                self.quote(&format!("-{first}"))
            ));
        };
        let joined = match spec.takes {
            Takes::Nothing => None,
            _ if self.bundle.is_empty() => None,
            _ => {
                let mut rest = std::mem::take(&mut self.bundle);
                if rest[0] == b'=' {
                    rest.remove(0);
                }
                Some(rest)
            }
        };
        self.finish(spec, shown, false, joined)
    }

    fn long(&mut self, text: &[u8]) -> Result<Argument, BadOption> {
        let mut ambiguous = Vec::new();
        let mut found = find_long(self.specs, text, false, &mut ambiguous);
        let (mut name, mut negated) = (text, false);
        while found.is_none()
            && let Some(rest) = name.strip_prefix(b"no-")
        {
            (name, negated) = (rest, !negated);
            found = find_long(self.specs, name, negated, &mut ambiguous);
        }
        let shown = || decode(&[b"--", text].concat()).into_owned();
        let Some(spec) = found else {
            if ambiguous.is_empty() {
                return self.bad(format!("unrecognized option {}", self.quote(&shown())));
            }
            return Err(self.ambiguous(&shown(), &ambiguous));
        };
        let value = text.iter().position(|c| *c == b'=');
        let value = value.map(|at| text[at + 1..].to_vec());
        let no = if negated { "no-" } else { "" };
        self.finish(spec, format!("--{no}{}", spec.long), negated, value)
    }

    fn ambiguous(&self, shown: &str, specs: &[(&Spec, bool)]) -> BadOption {
        let mut text = "(Possibilities are".to_string();
        for (i, (spec, negated)) in specs.iter().enumerate() {
            text += match i {
                0 => " ",
                _ if i + 1 < specs.len() => ", ",
                1 => " and ",
                _ => ", and ",
            };
            let no = if *negated { "no-" } else { "" };
            text += &self.quote(&format!("--{no}{}", spec.long));
        }
        text += ".)";
        BadOption(vec![
            format!("option {} is ambiguous", self.quote(shown)),
            text,
        ])
    }

    fn finish(
        &mut self,
        spec: &Spec,
        shown: String,
        negated: bool,
        mut value: Option<Vec<u8>>,
    ) -> Result<Argument, BadOption> {
        if negated || spec.takes == Takes::Nothing {
            if value.is_some() {
                let apostrophe = match self.quotes {
                    Quotes::Curly => '’',
                    Quotes::Ascii => '\'',
                };
                return self.bad(format!(
                    "{} can{apostrophe}t take an argument",
                    self.quote(&shown)
                ));
            }
        } else if value.is_none() && matches!(spec.takes, Takes::Text | Takes::Int) {
            match self.arguments.next() {
                Some(next) => value = Some(next.into_vec()),
                None => return self.bad(format!("{} requires an argument", self.quote(&shown))),
            }
        }
        let value = match value {
            None => Value::None,
            Some(text) => self.value(spec.takes, &shown, OsString::from_vec(text))?,
        };
        Ok(Argument::Option {
            name: spec.name,
            shown,
            negated,
            value,
        })
    }

    fn value(&self, takes: Takes, shown: &str, text: OsString) -> Result<Value, BadOption> {
        let words = decode(text.as_bytes());
        let expects = |what: &str| {
            let (shown, text) = (self.quote(shown), self.quote(&words));
            self.bad(format!("{shown} expects {what}, not {text}"))
        };
        match takes {
            Takes::Nothing | Takes::Text => Ok(Value::Text(text)),
            Takes::Int | Takes::OptionalInt => match integer(&words) {
                Some(value) => Ok(Value::Int(value, text.clone())),
                None => expects("an integer"),
            },
            Takes::OptionalReal => match words.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Value::Real(value)),
                _ => expects("a real number"),
            },
        }
    }
}

impl Iterator for Options {
    type Item = Result<Argument, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.bundle.is_empty() {
            return Some(self.short());
        }
        let argument = self.arguments.next()?;
        let text = argument.as_bytes();
        if self.plain || text == b"-" || !text.starts_with(b"-") {
            return Some(Ok(Argument::Plain(argument)));
        }
        if text == b"--" {
            self.plain = true;
            return self.next();
        }
        if let Some(long) = text.strip_prefix(b"--") {
            let long = long.to_vec();
            return Some(self.long(&long));
        }
        self.bundle = text[1..].to_vec();
        Some(self.short())
    }
}

/// The option that `text`, up to a `=`, is the name of, or the start of only one's name. What
/// else it may be goes to `ambiguous`.
fn find_long<'s>(
    specs: &'s [Spec],
    text: &[u8],
    negated: bool,
    ambiguous: &mut Vec<(&'s Spec, bool)>,
) -> Option<&'s Spec> {
    let end = text.iter().position(|c| *c == b'=').unwrap_or(text.len());
    let name = &text[..end];
    let specs = specs
        .iter()
        .filter(|s| !s.long.is_empty() && (s.negatable || !negated));
    let starts: Vec<&Spec> = specs
        .clone()
        .filter(|s| s.long.as_bytes().starts_with(name))
        .collect();
    match starts[..] {
        [] => {}
        [first, ref others @ ..] if others.iter().all(|s| s.name == first.name) => {
            return Some(first);
        }
        _ => {
            if let Some(whole) = starts.iter().find(|s| s.long.as_bytes() == name) {
                return Some(whole);
            }
            ambiguous.extend(starts.into_iter().map(|spec| (spec, negated)));
            return None;
        }
    }
    // Dashes within a name may be left out.
    let mut specs = specs.filter(|s| starts_without_dashes(s.long.as_bytes(), name));
    match (specs.next(), specs.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

fn starts_without_dashes(long: &[u8], mut name: &[u8]) -> bool {
    for letter in long {
        match name.split_first() {
            None => return true,
            Some((first, rest)) if first == letter => name = rest,
            Some(_) if *letter == b'-' => {}
            Some(_) => return false,
        }
    }
    name.is_empty()
}

/// An integer as C's strtol reads it in base 0.
fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let value = if let Some(hex) = lower.strip_prefix("0x") {
        i64::from_str_radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(digits, 8)
    } else if digits.starts_with(['+', '-']) {
        return None;
    } else {
        digits.parse()
    };
    value
        .ok()
        .map(|value| if negative { -value } else { value })
}

impl Value {
    /// The text.
    pub fn text(self) -> OsString {
        match self {
            Value::Text(text) | Value::Int(_, text) => text,
            Value::Real(value) => value.to_string().into(),
            Value::None => OsStr::new("").into(),
        }
    }
}
