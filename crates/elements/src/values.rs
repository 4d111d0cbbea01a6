//! Handlers that read and write one value of an element.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use click::config;
use router::args::{Args, Argument, Failed, NoElements, Parser};
use router::{Cx, HandlerError};

/// Reads `value` as a `T`; `expected` says what it should have been.
fn parse<T: Argument>(cx: &Cx<'_>, value: &str, expected: &str) -> Result<T, HandlerError> {
    let parsed = cx.names().parse(config::uncomment(value).as_str());
    parsed.map_err(|_| format!("expected {expected}").into())
}

/// Takes an IPv4 address that a handler was written.
pub fn ip(cx: &Cx<'_>, value: &str) -> Result<Ipv4Addr, HandlerError> {
    parse(cx, value, "IP address")
}

/// Takes a truth value that a handler was written.
pub fn boolean(cx: &Cx<'_>, value: &str) -> Result<bool, HandlerError> {
    parse(cx, value, "boolean")
}

/// Takes an argument anew, as if it had been in the configuration: puts it into `slot` and into
/// the configuration string, at `position` if it stands there without its `keyword`.
pub fn argument<T: Argument>(
    cx: &mut Cx<'_>,
    position: usize,
    keyword: &str,
    value: &str,
    slot: &mut T,
) -> Result<(), HandlerError> {
    argument_with(cx, position, keyword, value, T::parse, slot)
}

/// As [`argument`], in a given notation.
pub fn argument_with<T>(
    cx: &mut Cx<'_>,
    position: usize,
    keyword: &str,
    value: &str,
    parser: impl Parser<T>,
    slot: &mut T,
) -> Result<(), HandlerError> {
    *slot = parse_with(cx, keyword, value, parser)?;
    let value = config::uncomment(value);
    let text = with_argument(cx.config(cx.id()), position, keyword, &value);
    cx.set_config(text);
    Ok(())
}

/// Takes an argument anew in a given notation; errors name its `keyword`.
pub fn parse_with<T>(
    cx: &Cx<'_>,
    keyword: &str,
    value: &str,
    parser: impl Parser<T>,
) -> Result<T, HandlerError> {
    let parsed = cx.names().parse_with(parser, &config::uncomment(value));
    parsed.map_err(|invalid| {
        let lines: Vec<String> = invalid
            .lines()
            .map(|line| format!("{keyword}: {line}"))
            .collect();
        HandlerError::Failed(lines.join("\n"))
    })
}

/// Reads the words of `value` as arguments.
pub fn words(
    cx: &mut Cx<'_>,
    value: &str,
    read: impl FnOnce(&mut Args<'_>) -> Result<(), Failed>,
) -> Result<(), HandlerError> {
    let element = cx.name().to_string();
    let mut args = Args::from_words(value, cx.name_database(), &NoElements, &element);
    read(&mut args).map_err(|Failed| {
        let errors = args.take_errors();
        let lines: Vec<String> = errors.into_iter().map(|error| error.text).collect();
        HandlerError::Failed(lines.join("\n"))
    })
}

/// The configuration string `text` with one argument replaced or added.
fn with_argument(text: &str, position: usize, keyword: &str, value: &str) -> String {
    let mut args = config::split_args(text);
    let has_keyword = |arg: &String| {
        config::keyword(arg).is_some_and(|(k, rest)| k == keyword && !rest.is_empty())
    };
    let by_keyword = args.iter().any(has_keyword);
    args.retain(|arg| !has_keyword(arg));
    let at = args
        .get_mut(position)
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
        assert_eq!(with_argument("1, 2, 3", 1, "B", "x"), "1, x, 3");
        assert_eq!(with_argument("1, B 2, C 3", 1, "B", "x"), "1, C 3, B x");
        assert_eq!(with_argument("1", 1, "B", "x"), "1, B x");
        assert_eq!(with_argument("C 3, 1", 0, "B", "x"), "C 3, 1, B x");
    }
}
