//! What is compared of two outcomes, and what is kept different on purpose.

use crate::case::Outcome;
use crate::families::PAGES;
use std::collections::BTreeSet;
use std::path::Path;

/// Why a case says nothing, if so.
pub fn left_out(click: &Outcome, weir: &Outcome) -> Option<&'static str> {
    let says = |text| click.error.contains(text);
    let unknown = ["unknown element class '", "undeclared element '"];
    let unknown = unknown
        .iter()
        .flat_map(|text| click.error.split(text).skip(1));
    let mut classes = unknown.filter_map(|rest| rest.split('\'').next());
    if classes.any(|class| Path::new(PAGES).join(format!("{class}.md")).exists()) {
        return Some("a class that Click lacks");
    }
    if [
        ": at most ",
        "must be at most",
        "and at most",
        "too large; max",
    ]
    .iter()
    .any(|text| weir.error.contains(text))
    {
        return Some("a bound of Weir");
    }
    if says("out of range, bound 2147483647") {
        return Some("a bound of Click that Weir lacks in part");
    }
    if says("_CALL: parse error") && !weir.error.contains("_CALL: ") {
        return Some("a handler that Weir looks for when the other arguments are right");
    }
    if says("; lowered to ") {
        return Some("a rate beyond Click's most");
    }
    if says("bad condition '$") {
        return Some("a text of a script that expands to nothing, which Click leaves as it stands");
    }
    if says("bad mem_used: have ") {
        return Some("Click's own account of memory does not come out");
    }
    if says("empty term near ''") {
        return Some("a pattern that ends in white space, behind which Click reads on");
    }
    if says(": bad chunk (") {
        return Some("Click has overwritten its list of fragments");
    }
    if click.status == "137" || click.status == "killed" {
        return Some("Click does not end, or fails an assertion");
    }
    None
}

/// A program's messages without what differs on purpose.
fn comparable(outcome: &Outcome) -> Outcome {
    // Click tells the line of a file within the context of an element.
    let first = "input.txt:0:   warning: ";
    let mut error = outcome.error.replace(first, "  warning: input.txt:0: ");
    // Weir quotes names with typographic signs while the router runs.
    error = error
        .replace("\\xe2\\x80\\x98", "'")
        .replace("\\xe2\\x80\\x99", "'");
    // A byte 0 ends what Click quotes.
    while let Some(at) = error.find("\\x00") {
        let end = error[at..].find(['\'', '\n']).unwrap_or(4);
        error.drain(at..at + end);
    }
    // Weir hints at the name that was meant.
    while let Some(at) = error.find("; did you mean ") {
        let length = error[at..]
            .find("'?")
            .map_or(error.len() - at, |end| end + 2);
        error.drain(at..at + length);
    }
    // Click tells of a copy that it makes, and of a Strip from a shorter packet.
    let notes = ["expensive Packet::", "Packet::pull ", "Packet::take "];
    let lines = error
        .lines()
        .filter(|line| !notes.iter().any(|note| line.starts_with(note)));
    let lines = first_of_each_name(lines.map(without_place));
    // What is left of a statement behind a syntax error differs.
    let has_syntax_error = error.contains(": syntax error");
    let lines = lines.take_while(|line| !has_syntax_error || !is_of_expansion(line));
    Outcome {
        error: blocks(lines).concat(),
        ..outcome.clone()
    }
}

/// The messages, with one on each name that is not known: Click repeats some.
fn first_of_each_name<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut names = BTreeSet::new();
    lines.filter(move |line| {
        let unknown = ["undeclared element '", "unknown element class '"];
        let name = unknown.iter().find_map(|text| line.split(text).nth(1));
        name.is_none_or(|name| names.insert(name))
    })
}

/// A message without its place, which Click takes from the end of the file if an expansion fails.
fn without_place(line: &str) -> &str {
    match line
        .split_once(".click:")
        .and_then(|(_, rest)| rest.split_once(": "))
    {
        Some((_, message)) if is_of_expansion(message) => message,
        _ => line,
    }
}

fn is_of_expansion(message: &str) -> bool {
    let texts = [
        "no match for '",
        "' has no ",
        "' input ",
        "' output ",
        "' used as ",
    ];
    texts.iter().any(|text| message.contains(text))
}

/// The messages, those on elements sorted: Click configures and initializes the elements of a
/// phase in an order that its sorting algorithm leaves.
fn blocks<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let is_sorted = |block: &str| {
        block.contains(": While configuring '") || block.contains(": While initializing '")
    };
    for line in lines {
        match blocks.last_mut() {
            Some(last) if line.starts_with(' ') => *last += &format!("{line}\n"),
            _ => blocks.push(format!("{line}\n")),
        }
    }
    for run in blocks.chunk_by_mut(|a, b| is_sorted(a) && is_sorted(b)) {
        run.sort();
    }
    blocks
}

/// The lines in which two outcomes differ, or nothing.
pub fn difference(click: &Outcome, weir: &Outcome) -> Option<String> {
    let (click, weir) = (&comparable(click), &comparable(weir));
    if click == weir {
        return None;
    }
    let mut text = String::new();
    let parts = [
        ("output", &click.output, &weir.output),
        ("error", &click.error, &weir.error),
        ("status", &click.status, &weir.status),
    ];
    for (name, click, weir) in parts {
        if click != weir {
            text += &format!("{name}:\n{}", lines(click, weir));
        }
    }
    Some(text)
}

/// The lines of either text, without the lines that both begin and end with.
fn lines(click: &str, weir: &str) -> String {
    let (mut click, mut weir): (Vec<&str>, Vec<&str>) =
        (click.lines().collect(), weir.lines().collect());
    while !click.is_empty() && click.first() == weir.first() {
        click.remove(0);
        weir.remove(0);
    }
    while !click.is_empty() && click.last() == weir.last() {
        click.pop();
        weir.pop();
    }
    let side = |sign: char, lines: Vec<&str>| -> String {
        lines
            .iter()
            .map(|line| format!("  {sign} {line}\n"))
            .collect()
    };
    side('-', click) + &side('+', weir)
}
