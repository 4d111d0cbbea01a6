//! A rule's options, between its parentheses.

use super::{Content, Flow, Rule, Threshold, ThresholdKind};
use crate::prelude::*;

/// Most bytes of a content.
const CONTENT_MAX: usize = 1024;
/// Most contents of a rule.
const CONTENTS_MAX: usize = 32;

/// The options of a text, each with its value: split at the semicolons that are neither quoted nor
/// escaped.
pub fn split(text: &str) -> Result<Vec<(&str, Option<&str>)>, String> {
    let (mut options, mut quoted, mut escaped, mut start) = (Vec::new(), false, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => {
                let option = text[start..at].trim();
                start = at + 1;
                if option.is_empty() {
                    return Err("there is an empty option before a ‘;’".into());
                }
                options.push(match option.split_once(':') {
                    Some((name, value)) => (name.trim(), Some(value.trim())),
                    None => (option, None),
                });
            }
            _ => {}
        }
    }
    let rest = text[start..].trim();
    match rest.is_empty() {
        true => Ok(options),
        false => Err(format!("‘{rest}’ lacks its ‘;’")),
    }
}

/// A quoted text, without its quotes and escapes.
fn unquote(value: &str) -> Result<String, String> {
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|_| value.len() >= 2)
        .ok_or_else(|| format!("‘{value}’ must stand in quotes"))?;
    let mut text = String::new();
    let mut escaped = false;
    for character in inner.chars() {
        match character {
            '\\' if !escaped => escaped = true,
            _ => {
                text.push(character);
                escaped = false;
            }
        }
    }
    Ok(text)
}

/// The bytes of a content: text, with bytes in hexadecimal between bars.
fn bytes(value: &str) -> Result<Vec<u8>, String> {
    let text = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|_| value.len() >= 2)
        .ok_or_else(|| format!("‘{value}’ must stand in quotes"))?;
    let mut bytes = Vec::new();
    let mut escaped = false;
    // Digits of a byte in hexadecimal, while between bars.
    let mut digits: Option<Option<u8>> = None;
    for byte in text.bytes() {
        if let Some(high) = &mut digits {
            match (byte, high.is_some()) {
                (b'|', false) => digits = None,
                (b' ', false) => {}
                _ => {
                    let digit = char::from(byte).to_digit(16);
                    let digit = digit.ok_or_else(|| {
                        format!("‘{text}’: between bars stand pairs of hexadecimal digits")
                    })? as u8;
                    match high.take() {
                        Some(high) => bytes.push(high << 4 | digit),
                        None => *high = Some(digit),
                    }
                }
            }
            continue;
        }
        match byte {
            b'\\' if !escaped => escaped = true,
            b'|' if !escaped => digits = Some(None),
            _ => {
                bytes.push(byte);
                escaped = false;
            }
        }
    }
    if digits.is_some() {
        return Err(format!("‘{text}’ lacks its second bar"));
    }
    match bytes.len() {
        1..=CONTENT_MAX => Ok(bytes),
        0 => Err("a content is empty".into()),
        _ => Err(format!("a content has more than {CONTENT_MAX} bytes")),
    }
}

fn number<T: core::str::FromStr>(name: &str, value: Option<&str>) -> Result<T, String> {
    let value = value.unwrap_or_default();
    value
        .parse()
        .map_err(|_| format!("{name} needs a number, not ‘{value}’"))
}

/// The content that an option is about: the last one.
fn last<'r>(rule: &'r mut Rule, name: &str) -> Result<&'r mut Content, String> {
    rule.contents
        .last_mut()
        .ok_or_else(|| format!("{name} needs a content before it"))
}

fn threshold(value: &str) -> Result<Threshold, String> {
    let (mut kind, mut by_source, mut count, mut seconds) = (None, None, None, None);
    for part in value.split(',') {
        let mut words = part.split_whitespace();
        let (name, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        match (name, value) {
            ("type", "limit") => kind = Some(ThresholdKind::Limit),
            ("type", "threshold") => kind = Some(ThresholdKind::Threshold),
            ("type", "both") => kind = Some(ThresholdKind::Both),
            ("track", "by_src") => by_source = Some(true),
            ("track", "by_dst") => by_source = Some(false),
            ("count", value) => count = value.parse().ok().filter(|count| *count > 0),
            ("seconds", value) => seconds = value.parse().ok().filter(|seconds| *seconds > 0),
            _ => return Err(format!("‘{}’ is no part of a threshold", part.trim())),
        }
    }
    let all = kind.zip(by_source).zip(count.zip(seconds));
    let ((kind, by_source), (count, seconds)) = all.ok_or(
        "a threshold is as: type limit, track by_src, count 1, seconds 60; the types are limit, threshold \
         and both",
    )?;
    Ok(Threshold {
        kind,
        by_source,
        count,
        seconds,
    })
}

fn flow(flow: &mut Flow, value: &str) -> Result<(), String> {
    for word in value.split(',').map(str::trim) {
        match word {
            "established" => flow.established = Some(true),
            "not_established" => flow.established = Some(false),
            "stateless" => flow.established = None,
            "to_server" | "from_client" => flow.to_server = Some(true),
            "to_client" | "from_server" => flow.to_server = Some(false),
            _ => {
                return Err(format!(
                    "flow: ‘{word}’ is not known: there are established, not_established, stateless, to_server, \
                     to_client, from_server and from_client"
                ));
            }
        }
    }
    Ok(())
}

/// Takes an option into a rule.
pub fn take(rule: &mut Rule, name: &str, value: Option<&str>) -> Result<(), String> {
    let needed = || value.ok_or_else(|| format!("{name} needs a value"));
    match name {
        "msg" => rule.message = unquote(needed()?)?,
        "sid" => rule.sid = number(name, value)?,
        "gid" => rule.gid = number(name, value)?,
        "rev" => rule.revision = number(name, value)?,
        "priority" => rule.priority = number(name, value)?,
        "classtype" => rule.class = needed()?.into(),
        "reference" | "metadata" => {
            needed()?;
        }
        "flow" => flow(&mut rule.flow, needed()?)?,
        "threshold" => rule.threshold = Some(threshold(needed()?)?),
        "content" => {
            let value = needed()?;
            let (negated, value) = match value.strip_prefix('!') {
                Some(rest) => (true, rest.trim_start()),
                None => (false, value),
            };
            if rule.contents.len() == CONTENTS_MAX {
                return Err(format!("there are more than {CONTENTS_MAX} contents"));
            }
            rule.contents.push(Content {
                bytes: bytes(value)?,
                negated,
                ..Content::default()
            });
        }
        "nocase" => last(rule, name)?.nocase = true,
        "fast_pattern" => {
            let content = last(rule, name)?;
            if content.negated {
                return Err("fast_pattern cannot be about a negated content".into());
            }
            content.fast = true;
        }
        "offset" => last(rule, name)?.offset = Some(number(name, value)?),
        "depth" => last(rule, name)?.depth = Some(number(name, value)?),
        "distance" => last(rule, name)?.distance = Some(number(name, value)?),
        "within" => last(rule, name)?.within = Some(number(name, value)?),
        "startswith" => {
            let content = last(rule, name)?;
            content.offset = Some(0);
            content.depth = Some(content.bytes.len() as u32);
        }
        "pcre" => {
            return Err("pcre is not supported: write contents, or leave the rule out".into());
        }
        _ => {
            return Err(format!(
                "the option ‘{name}’ is not supported: the documentation of FlowIDS lists the options"
            ));
        }
    }
    Ok(())
}
