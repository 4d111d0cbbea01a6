//! Which parameters an error is about: an element names its arguments, and users know parameters.

use super::Declaration;

/// The parameters that an error of a configuration's element is about, in a sentence; `None` if its
/// arguments are of none. `line`: where the element stands, from 1; without it, all elements count that
/// have an argument which the error names.
pub fn explain(text: &str, line: Option<u32>, error: &str) -> Option<String> {
    let parameters = Declaration::of(text).parameters;
    let scope = match line {
        Some(line) => {
            let lines = text.split_inclusive('\n').take(line as usize - 1);
            let rest = &text[lines.map(str::len).sum()..];
            rest.split(';').next().unwrap_or_default()
        }
        None => text,
    };
    let mut fed: Vec<(&str, Vec<&str>)> = Vec::new();
    for (at, _) in scope.match_indices('$') {
        let name = scope[at + 1..].split(|c| !is_word(c)).next();
        let Some(parameter) = parameters.iter().find(|it| Some(it.name) == name) else {
            continue;
        };
        let before = scope[..at].trim_end();
        let argument = before.rsplit(|c| !is_word(c)).next().unwrap_or_default();
        let is_keyword = argument.starts_with(|c: char| c.is_ascii_uppercase());
        let argument = if is_keyword { argument } else { "" };
        match fed.iter_mut().find(|(other, _)| *other == argument) {
            Some((_, names)) if names.contains(&parameter.name) => {}
            Some((_, names)) => names.push(parameter.name),
            None => fed.push((argument, vec![parameter.name])),
        }
    }
    let quoted = |names: &[&str], word| {
        let names: Vec<_> = names.iter().map(|name| format!("‘{name}’")).collect();
        names.join(word)
    };
    let words: Vec<_> = error.split(|c| !is_word(c)).collect();
    let named = fed.iter().filter(|(argument, _)| words.contains(argument));
    let named: Vec<_> = named
        .filter(|(argument, _)| !argument.is_empty())
        .map(|(argument, names)| format!("{argument} is the parameter {}", quoted(names, " or ")))
        .collect();
    if !named.is_empty() {
        return Some(named.join(", "));
    }
    let mut all: Vec<&str> = Vec::new();
    for name in fed.iter().flat_map(|(_, names)| names) {
        if !all.contains(name) {
            all.push(name);
        }
    }
    match all.len() {
        0 => None,
        _ if line.is_none() => None,
        1 => Some(format!("it comes of the parameter {}", quoted(&all, ""))),
        _ => Some(format!("it comes of the parameters {}", quoted(&all, ", "))),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
