//! The handlers that `-h` and `-x` name.

use std::io::{self, Write};

use click::Diagnostics;
use router::args::{Context, Elements};
use router::{ElementId, HandlerFlags, Router};

use crate::host::chatter_all;

/// Reads the handlers and prints their values, with headings if there are several. Returns whether
/// all reads succeeded.
pub fn print(router: &mut Router, handlers: &[String]) -> io::Result<bool> {
    let headings = handlers.len() > 1;
    let mut ok = true;
    for handler in handlers {
        let Some((pattern, name)) = handler.split_once('.') else {
            ok &= print_one(router, None, handler, headings)?;
            continue;
        };
        match matching(router, pattern, name) {
            Ok((elements, several)) => {
                for element in elements {
                    ok &= print_one(router, Some(element), name, headings || several)?;
                }
            }
            Err(message) => {
                complain(&message);
                ok = false;
            }
        }
    }
    Ok(ok)
}

/// Reports an error that has no place.
pub fn complain(text: &str) {
    let mut diagnostics = Diagnostics::new();
    diagnostics.error_here(text);
    chatter_all(&diagnostics);
}

/// The elements that `pattern` stands for: a name, a pattern of names, or a class. The second
/// value says whether it may be several.
fn matching(
    router: &mut Router,
    pattern: &str,
    handler: &str,
) -> Result<(Vec<ElementId>, bool), String> {
    if let Some(id) = router.find(pattern) {
        return Ok((vec![id], false));
    }
    let is_pattern = pattern.contains(['?', '*', '[']);
    let graph = router.graph();
    let all = 0..graph.elements.len();
    let found: Vec<ElementId> = all
        .filter(|&i| match is_pattern {
            true => glob(graph.elements[i].name.as_bytes(), pattern.as_bytes()),
            false => graph.is_a(i, pattern),
        })
        .map(ElementId::new)
        .collect();
    if found.is_empty() {
        let matching = if is_pattern { " matching" } else { "" };
        return Err(format!("no element{matching} ‘{pattern}’"));
    }
    let mut readable = |id: &ElementId| {
        let flags = router.handler(Some(*id), handler);
        flags.is_some_and(|f| f.has(HandlerFlags::READ) && !f.has(HandlerFlags::PRIVATE))
    };
    Ok((found.into_iter().filter(|id| readable(id)).collect(), true))
}

fn full_name(router: &Router, element: Option<ElementId>, name: &str) -> String {
    match element {
        Some(id) => format!("{}.{name}", router.graph().info(id).name),
        None => name.to_string(),
    }
}

fn print_one(
    router: &mut Router,
    element: Option<ElementId>,
    name: &str,
    heading: bool,
) -> io::Result<bool> {
    let full = full_name(router, element, name);
    let visible = |flags: &HandlerFlags| !flags.has(HandlerFlags::PRIVATE);
    let flags = match router.handler(element, name).filter(visible) {
        None => {
            complain(&format!("no ‘{full}’ handler"));
            return Ok(false);
        }
        Some(flags) if !flags.has(HandlerFlags::READ) => {
            complain(&format!("‘{full}’ is a write handler"));
            return Ok(false);
        }
        Some(flags) => flags,
    };
    let mut out = io::stdout().lock();
    if heading {
        writeln!(out, "{full}:")?;
    }
    let mut text = router.read(element, name, "").unwrap_or_default();
    if !flags.has(HandlerFlags::RAW) && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    out.write_all(&click::text::encode(&text))?;
    if heading {
        writeln!(out)?;
    }
    out.flush()?;
    Ok(true)
}

/// The exit code that a handler's value stands for: an integer as it is, true as 0, false as 1.
pub fn exit_code(router: &mut Router, handler: &str) -> Result<i32, String> {
    let value = read_call(router, handler)?;
    let value = click::config::uncomment(&value);
    let context = Context::blank();
    if let Ok(code) = context.parse::<i32>(&value) {
        return Ok(code);
    }
    match context.parse::<bool>(&value) {
        Ok(truth) => Ok(!truth as i32),
        Err(_) => Err("exit handler value should be integer".into()),
    }
}

/// Reads `ELEMENT.HANDLER [PARAMETER]`.
fn read_call(router: &mut Router, call: &str) -> Result<String, String> {
    let (name, parameter) = click::config::shift_space(call);
    let (element, handler) = match name.split_once('.') {
        Some(("", handler)) => (None, handler),
        Some((element, handler)) => match router.find(element) {
            Some(id) => (Some(id), handler),
            None => return Err(format!("no element named ‘{element}’")),
        },
        None => (None, name),
    };
    let full = full_name(router, element, handler);
    let flags = router.handler(element, handler);
    let Some(flags) = flags.filter(|flags| flags.has(HandlerFlags::READ)) else {
        return Err(format!("no ‘{full}’ read handler"));
    };
    if !parameter.is_empty() && !flags.has(HandlerFlags::PARAMETER) {
        return Err(format!("read handler ‘{full}’ does not take parameters"));
    }
    match router.read(element, handler, parameter) {
        Ok(text) => Ok(text),
        Err(router::HandlerError::Failed(failure)) => Err(failure.text),
        Err(router::HandlerError::Unknown) => Err(format!("no ‘{full}’ read handler")),
    }
}

/// Whether `name` matches a shell pattern of `*`, `?`, `[…]`, `[^…]` and `\`.
fn glob(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut rest) = (0, pattern);
    // Where the last star may take one more byte.
    let mut back: Option<(usize, &[u8])> = None;
    loop {
        if let Some(after) = rest.strip_prefix(b"*") {
            back = Some((at, after));
            rest = after;
            continue;
        }
        if rest.is_empty() && at == name.len() {
            return true;
        }
        match name.get(at).and_then(|byte| one(*byte, rest)) {
            Some(after) => {
                at += 1;
                rest = after;
            }
            None => match back {
                Some((from, after)) if from < name.len() => {
                    at = from + 1;
                    rest = after;
                    back = Some((at, after));
                }
                _ => return false,
            },
        }
    }
}

/// The rest of `pattern` if its first item matches `byte`.
fn one(byte: u8, pattern: &[u8]) -> Option<&[u8]> {
    let (first, rest) = pattern.split_first()?;
    match first {
        b'?' => return Some(rest),
        b'[' => {
            let (negated, set) = match rest.strip_prefix(b"^") {
                Some(set) => (true, set),
                None => (false, rest),
            };
            // A closing bracket right at the start is one of the set.
            let end = set.iter().skip(1).position(|b| *b == b']');
            if let Some(end) = end.map(|end| end + 1) {
                let found = set[..end].contains(&byte);
                return (found != negated).then_some(&set[end + 1..]);
            }
        }
        b'\\' if !rest.is_empty() => {
            let (escaped, rest) = rest.split_first()?;
            return (*escaped == byte).then_some(rest);
        }
        _ => {}
    }
    (*first == byte).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let yes = [
            ("abc", "abc"),
            ("abc", "a*"),
            ("abc", "*c"),
            ("abc", "a?c"),
            ("abc", "[ab]b*"),
            ("abc", "[^x]bc"),
            ("a*c", "a\\*c"),
            ("aXbXc", "a*X*c"),
            ("", "*"),
            ("a[", "a["),
        ];
        for (name, pattern) in yes {
            assert!(
                glob(name.as_bytes(), pattern.as_bytes()),
                "{name} {pattern}"
            );
        }
        let no = [
            ("abc", "ab"),
            ("abc", "b*"),
            ("abc", "a[^b]c"),
            ("abc", "a\\*c"),
            ("", "?"),
        ];
        for (name, pattern) in no {
            assert!(
                !glob(name.as_bytes(), pattern.as_bytes()),
                "{name} {pattern}"
            );
        }
    }
}
