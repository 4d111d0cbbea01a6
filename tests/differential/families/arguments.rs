//! The example of each element's page, with an argument changed.

use super::{PAGES, noise};
use crate::case::Case;
use crate::random::Random;
use std::sync::OnceLock;

/// Classes that open something outside the process, by a part of their name.
const OUTSIDE: [&str; 12] = [
    "Socket", "Device", "Host", "Tap", "Tun", "Dump", "Netfront", "Control", "Port", "Kernel",
    "Listen", "Raw",
];

/// Classes whose arguments differ on purpose, by a part of their name.
const DIFFERENT: [&str; 22] = [
    "IPsec",              // Weir has more arguments
    "StaticThreadSched",  // Weir has other limits
    "ScheduleInfo",       // Click goes on in spite of its error
    "AverageCounter",     // Weir has more arguments
    "QuitWatcher",        // Click takes an argument's keyword for an element
    "COUNT_CALL",         // Click's message names the handler alone
    "RandomBitErrors",    // Click's message lacks the argument's name
    "BandwidthRated",     // of two wrong arguments, Click names both
    "Burster",            // the same
    "VLANEncap",          // the same, the other way round
    "Message",            // Click fails after a warning
    "Meter",              // Click names another class
    "RatedSplitter",      // Click's `config` is the rate alone
    "Script",             // Click takes a number for an instruction
    "DriverManager",      // the same
    "IPRewriterPatterns", // Click takes a number for a pattern that is there
    "SourceIPHashMapper", // Weir warns of a server that has no packets
    "Unqueue2",           // Click's warning lacks the word
    "ForceUDP",           // Click refuses its own default with a keyword
    "IP6Encap",           // Click takes an empty address
    "RoundRobinSwitch",   // its argument is FastClick's
    "Suppressor",         // Click ignores arguments
];

/// Names of pages with their examples, in order.
fn examples() -> &'static [(String, String)] {
    static EXAMPLES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(PAGES).expect("docs/elements is there") {
            let path = entry.expect("docs/elements can be read").path();
            let name = path
                .file_stem()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            let text = std::fs::read_to_string(&path).expect("a page is text");
            let example = text
                .split("```click\n")
                .nth(1)
                .and_then(|rest| rest.split("```").next());
            let Some(example) = example else { continue };
            let mut left_out = OUTSIDE.iter().chain(&DIFFERENT);
            if !left_out.any(|part| example.contains(part)) {
                found.push((name.to_string(), example.to_string()));
            }
        }
        found.sort();
        found
    })
}

pub fn make(random: &mut Random, _: usize) -> Case {
    let (class, example) = random.pick(examples());
    let mut case = Case {
        quit: true,
        ..Case::default()
    };
    // Most examples name their class once; its arguments follow.
    let (before, rest) = match example.match_indices(class.as_str()).next() {
        Some((at, _)) => example.split_at(at + class.len()),
        None => ("", example.as_str()),
    };
    let (arguments, after) = match rest.strip_prefix('(') {
        Some(inside) => split_at_end(inside),
        None => ("", rest),
    };
    let mut arguments: Vec<String> = split(arguments);
    for _ in 0..random.within(1..=2) {
        change(random, class, &mut arguments);
    }
    let text = format!("{before}({}){after}", arguments.join(", "));
    case.config = text.lines().map(String::from).collect();
    if let Some((name, _)) = before.rsplit_once("::") {
        let mut name = name.split(|c: char| !c.is_alphanumeric() && c != '_');
        let name = name.rfind(|name| !name.is_empty());
        if let (Some(name), true) = (name, random.chance(30)) {
            case.handlers.push(format!("{name}.config"));
        }
    }
    case
}

/// The text before the bracket that ends the arguments, and the text behind it.
fn split_at_end(inside: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in inside.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return (&inside[..at], &inside[at + 1..]),
            ')' => depth -= 1,
            _ => (),
        }
    }
    (inside, "")
}

/// Arguments by the commas between them.
fn split(arguments: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let (mut depth, mut quote) = (0, None);
    for c in arguments.chars() {
        match (c, quote) {
            (',', None) if depth == 0 => {
                found.push(String::new());
                continue;
            }
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            _ => (),
        }
        found.last_mut().expect("it has one").push(c);
    }
    found
        .iter()
        .map(|text| text.trim().to_string())
        .filter(|text| !text.is_empty())
        .collect()
}

/// Keywords of the class's page.
fn keyword(random: &mut Random, class: &str) -> String {
    let page = std::fs::read_to_string(format!("{PAGES}/{class}.md")).unwrap_or_default();
    let words = page.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    let words: Vec<&str> = words.filter(|word| word.len() > 2).collect();
    match words.is_empty() {
        true => "BOGUS".into(),
        false => random.pick(&words).to_string(),
    }
}

fn value(random: &mut Random) -> String {
    random.one("0|1|2|-1|5|100|65535|65536|4294967295|4294967296|99999999999999999999|0x10|010|1.5|-0.5|1e3|true|false|yes|maybe|\
        10.0.0.1|10.0.0.0/8|1.2.3|::1|1:2:3:4:5:6|00-01-02-03-04-05|\"a b\"|foo|1s|10ms|1kbps|5MBps|10%|\\<00ff>|foo.bar|a b|1 2|||1-5|ip src|0.0.0.0|255.255.255.255|icmp|80|1Gbps").into()
}

fn change(random: &mut Random, class: &str, arguments: &mut Vec<String>) {
    let at = random.below(arguments.len() + 1);
    let is_there = at < arguments.len();
    match random.below(12) {
        0 if is_there => drop(arguments.remove(at)),
        1 if is_there => arguments.push(arguments[at].clone()),
        2..5 if is_there => {
            // A keyword keeps its place.
            let keyword = arguments[at]
                .split_once(' ')
                .map(|(keyword, _)| keyword.to_string());
            let keyword =
                keyword.filter(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
            let value = value(random);
            arguments[at] = match keyword {
                Some(keyword) => format!("{keyword} {value}"),
                None => value,
            };
        }
        5 if is_there => arguments[at] += random.one(" x| 1|1|,|\"|/|-"),
        6 => arguments.insert(at, noise(random)),
        7 => arguments.clear(),
        8 => arguments.insert(at, value(random)),
        _ => {
            let argument = format!("{} {}", keyword(random, class), value(random));
            arguments.insert(at, argument);
        }
    }
}
