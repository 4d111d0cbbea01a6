//! The handlers by which scripts calculate: numbers, truth values, words.

use core::cmp::Ordering;

use click::config;

use super::format::sprintf;
use super::words::{Words, parse};
use crate::prelude::*;
use router::args::Saturating;

/// Names of the handlers that [`calculate`] answers.
pub(super) const NAMES: &[&str] = &[
    "add", "sub", "min", "max", "mul", "div", "idiv", "avg", "count", "popcount", "gt_vec", "mod",
    "rem", "neg", "abs", "ceil", "floor", "round", "eq", "ne", "gt", "ge", "lt", "le", "not",
    "sprintf", "first", "random", "and", "or", "nand", "nor", "if", "in", "now", "readable",
    "writable", "length", "unquote", "htons", "htonl", "ntohs", "ntohl",
];

/// Those of FastClick, for scripts alone: `*.count` of all elements is to leave scripts out.
pub(super) const PRIVATE: &[&str] = &[
    "avg", "count", "popcount", "gt_vec", "ceil", "floor", "round",
];

/// An integer if it is written as one, else a floating-point number.
#[derive(Clone, Copy)]
enum Number {
    Integer(i64),
    Real(f64),
}

impl Number {
    fn parse(text: &str) -> Option<Number> {
        let context = Context::blank();
        match i64::parse(text, &context) {
            Ok(value) => Some(Number::Integer(value)),
            Err(_) => f64::parse(text, &context).ok().map(Number::Real),
        }
    }

    fn real(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    fn unparse(self) -> String {
        match self {
            Number::Integer(value) => value.to_string(),
            Number::Real(value) => unparse::real(value),
        }
    }
}

fn truth(value: bool) -> String {
    unparse::boolean(value).to_string()
}

/// Answers handler `name` for `text`; `own` says whether the script has a handler of a name, and
/// with which flags.
pub(super) fn calculate(
    cx: &mut Cx<'_>,
    name: &str,
    text: &str,
    own: impl Fn(&str) -> Option<HandlerFlags>,
) -> Result<String, String> {
    let mut words = Words(text);
    Ok(match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => arithmetic(name, words)?,
        "avg" => average(words)?,
        "count" | "popcount" | "gt_vec" => tally(name, words)?.to_string(),
        "mod" | "rem" => remainder(name, words)?,
        "neg" | "abs" | "ceil" | "floor" | "round" => match (name, Number::parse(text)) {
            (_, None) => return Err("expected one number".to_string()),
            ("ceil" | "floor" | "round", Some(Number::Integer(x))) => x.to_string(),
            ("ceil", Some(Number::Real(x))) => unparse::real(-floor(-x)),
            ("floor", Some(Number::Real(x))) => unparse::real(floor(x)),
            ("round", Some(Number::Real(x))) => unparse::real(round(x)),
            ("neg", Some(Number::Integer(x))) => x.wrapping_neg().to_string(),
            (_, Some(Number::Integer(x))) => x.wrapping_abs().to_string(),
            ("neg", Some(Number::Real(x))) => unparse::real(-x),
            (_, Some(Number::Real(x))) => unparse::real(if x < 0.0 { -x } else { x }),
        },
        "eq" | "ne" | "gt" | "ge" | "lt" | "le" => truth(compare(name, words)?),
        "not" => truth(!parse::<bool>(text)?),
        "sprintf" => sprintf(words)?,
        "first" => words.next().to_string(),
        "random" => random(cx, text)?.to_string(),
        "and" | "or" | "nand" | "nor" => truth(junction(name, words)?),
        "if" => {
            let condition = words.parse::<bool>()?;
            let (yes, no) = (words.next(), words.next());
            if condition { yes } else { no }.to_string()
        }
        "in" => {
            let wanted = config::unquote(words.next());
            truth(!wanted.is_empty() && words.any(|word| config::unquote(word) == wanted))
        }
        "now" => Timestamp(cx.wall()).to_string(),
        "readable" => truth(words.all(|word| has(cx, word, HandlerFlags::READ, &own))),
        "writable" => truth(words.all(|word| has(cx, word, HandlerFlags::WRITE, &own))),
        "length" => click::text::encode(text).len().to_string(),
        "unquote" => config::unquote_text(text),
        // Numbers go over the network in big-endian order.
        "htons" | "ntohs" => (saturated(text.trim())? as u16).to_be().to_string(),
        "htonl" | "ntohl" => (saturated(text.trim())? as u32).to_be().to_string(),
        _ => return Err("no such calculation".to_string()),
    })
}

/// An integer; one out of range becomes the nearest in it.
fn saturated(text: &str) -> Result<i32, String> {
    let value = Context::blank().parse_with(Saturating, text);
    value.map_err(|_| "syntax error".to_string())
}

fn arithmetic(name: &str, words: Words<'_>) -> Result<String, String> {
    let divides = matches!(name, "div" | "idiv");
    let neutral = if matches!(name, "add" | "sub") { 0 } else { 1 };
    let mut result = None;
    for word in words {
        let number = Number::parse(word).ok_or("expected list of numbers")?;
        let number = match number {
            Number::Integer(_) if divides => Number::Real(number.real()),
            number => number,
        };
        result = Some(match result {
            None => number,
            Some(result) => combine(name, result, number),
        });
    }
    let result = match result {
        None if divides => Number::Real(1.0),
        None => Number::Integer(neutral),
        Some(result) => result,
    };
    Ok(match (name, result) {
        // Out of range, the conversion gives the nearest integer there is.
        ("idiv", Number::Real(result)) => (result as i64).to_string(),
        (_, result) => result.unparse(),
    })
}

fn combine(name: &str, a: Number, b: Number) -> Number {
    if let (Number::Integer(a), Number::Integer(b)) = (a, b) {
        return Number::Integer(match name {
            "add" => a.wrapping_add(b),
            "sub" => a.wrapping_sub(b),
            "min" => a.min(b),
            "max" => a.max(b),
            _ => a.wrapping_mul(b),
        });
    }
    let (a, b) = (a.real(), b.real());
    Number::Real(match name {
        "add" => a + b,
        "sub" => a - b,
        "min" => a.min(b),
        "max" => a.max(b),
        "mul" => a * b,
        _ => a / b,
    })
}

/// The mean: an integer if all words are. Without words, the largest 32-bit integer.
fn average(words: Words<'_>) -> Result<String, String> {
    let (mut sum, mut count) = (Number::Integer(0), 0);
    for word in words {
        let number = Number::parse(word).ok_or("expected list of numbers")?;
        sum = combine("add", sum, number);
        count += 1;
    }
    Ok(match sum {
        _ if count == 0 => i32::MAX.to_string(),
        Number::Integer(sum) => (sum / count).to_string(),
        Number::Real(sum) => unparse::real(sum / count as f64),
    })
}

/// How many words there are, how many are not zero, or how many are above the first one.
fn tally(name: &str, words: Words<'_>) -> Result<usize, String> {
    /// Nearest to zero that counts as another number.
    const SMALLEST: f64 = 1e-5;
    let mut numbers = words.map(|word| Number::parse(word).ok_or("expected list of numbers"));
    let bound = match name {
        "gt_vec" => numbers.next().transpose()?,
        _ => None,
    };
    let mut count = 0;
    for number in numbers {
        let counts = match (name, number?, bound) {
            ("popcount", Number::Integer(x), _) => x != 0,
            ("popcount", Number::Real(x), _) => !(-SMALLEST..=SMALLEST).contains(&x),
            ("gt_vec", Number::Integer(x), Some(Number::Integer(bound))) => x > bound,
            ("gt_vec", x, Some(bound)) => x.real() > bound.real(),
            _ => true,
        };
        count += usize::from(counts);
    }
    Ok(count)
}

/// The greatest integer that is not above `x`. (A guest has no C library.)
fn floor(x: f64) -> f64 {
    /// From here on, every number is an integer.
    const WHOLE: f64 = (1u64 << 52) as f64;
    if !(-WHOLE..WHOLE).contains(&x) {
        return x;
    }
    let truncated = x as i64 as f64;
    if truncated > x {
        truncated - 1.0
    } else {
        truncated
    }
}

/// The nearest integer; of two, the one further from zero.
fn round(x: f64) -> f64 {
    let down = floor(x);
    match x - down {
        rest if rest > 0.5 || (rest == 0.5 && x > 0.0) => down + 1.0,
        _ => down,
    }
}

/// The two words that there must be.
fn two<'t>(words: &mut Words<'t>) -> Result<(&'t str, &'t str), String> {
    let (a, b) = (words.next(), words.next());
    if a.is_empty() || b.is_empty() || !words.0.is_empty() {
        return Err("expected two numbers".to_string());
    }
    Ok((a, b))
}

fn remainder(name: &str, mut words: Words<'_>) -> Result<String, String> {
    let (a, b) = two(&mut words)?;
    match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Integer(_)), Some(Number::Integer(0))) => Err("division by zero".to_string()),
        (Some(Number::Integer(a)), Some(Number::Integer(b))) => Ok(a.wrapping_rem(b).to_string()),
        (Some(a), Some(b)) if name == "rem" => Ok(unparse::real(modulus(a.real(), b.real()))),
        _ => Err("expected two numbers".to_string()),
    }
}

/// The remainder of `a / b`, with the sign of `a`, exactly: each step takes off as many times `b`
/// as a power of two allows. (The operator needs C's library, which a guest has not.)
fn modulus(a: f64, b: f64) -> f64 {
    let magnitude = |x: f64| if x < 0.0 { -x } else { x };
    let (mut rest, divisor) = (magnitude(a), magnitude(b));
    if !rest.is_finite() || divisor.is_nan() || divisor == 0.0 {
        return f64::NAN;
    }
    while rest >= divisor {
        let mut part = divisor;
        while part * 2.0 <= rest {
            part *= 2.0;
        }
        rest -= part;
    }
    if a < 0.0 { -rest } else { rest }
}

fn compare(name: &str, mut words: Words<'_>) -> Result<bool, String> {
    let (a, b) = two(&mut words)?;
    let ordering = match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Integer(a)), Some(Number::Integer(b))) => Some(a.cmp(&b)),
        (Some(a), Some(b)) => a.real().partial_cmp(&b.real()),
        _ => Some(config::unquote(a).cmp(&config::unquote(b))),
    };
    Ok(match name {
        "eq" => ordering == Some(Ordering::Equal),
        "ne" => ordering != Some(Ordering::Equal),
        "gt" => ordering == Some(Ordering::Greater),
        "ge" => ordering.is_some_and(Ordering::is_ge),
        "lt" => ordering == Some(Ordering::Less),
        _ => ordering.is_some_and(Ordering::is_le),
    })
}

/// Stops at the first word that decides.
fn junction(name: &str, words: Words<'_>) -> Result<bool, String> {
    let all = matches!(name, "and" | "nand");
    let mut value = all;
    for word in words {
        value = parse(word)?;
        if value != all {
            break;
        }
    }
    Ok(value != matches!(name, "nand" | "nor"))
}

/// A number up to 2³¹ − 1, below N, or from N1 to N2.
fn random(cx: &mut Cx<'_>, text: &str) -> Result<u32, String> {
    let (mut numbers, mut errors) = (Vec::new(), Vec::new());
    for (i, word) in Words(text).enumerate() {
        match Context::blank().parse::<u32>(word) {
            _ if i >= 2 => errors = vec!["too many arguments".to_string()],
            Ok(number) => numbers.push(number),
            Err(invalid) => errors.push(format!("N{}: {invalid}", i + 1)),
        }
    }
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    let (first, last) = match *numbers.as_slice() {
        [] => (0, i32::MAX as u32),
        [n] => (0, n.checked_sub(1).ok_or("bad N")?),
        [first, last, ..] => (first, last),
    };
    let span = last.checked_sub(first).ok_or("bad N")?;
    let random = cx.random();
    Ok(match span.checked_add(1) {
        Some(end) => first + random.below(end),
        None => random.next_u32(),
    })
}

/// Whether the handler that `word` names can be used as `flag` says.
fn has(
    cx: &Cx<'_>,
    word: &str,
    flag: HandlerFlags,
    own: &impl Fn(&str) -> Option<HandlerFlags>,
) -> bool {
    let Ok(call) = Call::parse(cx, word, |name| own(name).is_some()) else {
        return false;
    };
    let flags = match call.element {
        Some(id) if id == cx.id() => own(&call.handler),
        element => cx.handler(element, &call.handler),
    };
    flags.is_some_and(|flags| flags.has(flag))
}

/// A text's words, numbered from 1, as `$1`, `$2` and so on.
pub(super) fn word(text: &str, number: usize) -> &str {
    Words(text).nth(number.saturating_sub(1)).unwrap_or("")
}

/// How many words a text has.
pub(super) fn count(text: &str) -> String {
    format!("{}", Words(text).count())
}
