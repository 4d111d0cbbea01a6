//! Programs of Script: variables, arithmetic, jumps, handlers.
//!
//! Left out are the list of an element's handlers, whose order differs, `nand`, which Click computes
//! as `or`, `save` and `append`, whose files Click renames at each run, integers that are not there
//! (`idiv 1 0`), a text that expands to nothing, which Click leaves as it stands, and `$$`, the number
//! of the process.

use crate::case::Case;
use crate::random::Random;

pub fn make(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    case.config
        .push("Idle -> c :: Counter -> q :: Queue(5) -> Discard(ACTIVE false);".into());
    case.config.push("p :: Script(TYPE PASSIVE,".into());
    for _ in 0..random.below(size.min(4) + 1) {
        // Nothing in it fails: what a script returns after an error, Click puts in.
        let (variable, text) = (variable(random), text(random, 0));
        case.config.push(format!("set {variable} -{text},"));
    }
    case.config.push(format!("return -{});", text(random, 0)));
    case.config.push("s :: Script(".into());
    for _ in 0..random.within(1..=size) {
        case.config.push(format!("{},", statement(random)));
    }
    case.config.push("stop);".into());
    if random.chance(20) {
        case.handlers
            .push(random.one("s.x|s.y|s.vars|c.count|p.step|s.status").into());
    }
    case
}

fn variable(random: &mut Random) -> &'static str {
    random.one("x|y|z|w1")
}

fn statement(random: &mut Random) -> String {
    match random.below(26) {
        0..6 => format!(
            "{} {} {}",
            random.one("set|set|setq|init|initq|export|exportq"),
            variable(random),
            text(random, 3)
        ),
        6..12 => format!(
            "{} {}",
            random.one("print|print|print|printn|printq|printnq"),
            text(random, 3)
        ),
        12 => format!("{} {}", random.one("print|read|readq"), handler(random)),
        13 => format!("label {}", random.one("a|b|c")),
        14 => format!(
            "goto {} {}",
            random.one("a|b|c|end|exit|error|stop|nowhere"),
            condition(random)
        ),
        15 => format!("{} {}", random.one("write|writeq"), write(random)),
        16 => "print \"$?\"".into(),
        17 => format!("print \"[$({})]\"", function(random, 2)),
        18 => format!("printq -$({})", function(random, 2)),
        19 => format!("wait {}", random.one("0|0.1|1s|100ms|x|-1|")),
        20 => format!(
            "{} {}",
            random.one("return|returnq|error|errorq|end|exit"),
            text(random, 1)
        ),
        21 => random.one("loop|pause 0|bogus|type").into(),
        22 => "set x -$(p.run a b \"c d\")".into(),
        23 => format!(
            "print - $args $# $1 $2 ${{{}}}",
            random.one("x|y|1|x:-d|x-d")
        ),
        _ => format!("print \"${}\"", variable(random)),
    }
}

fn write(random: &mut Random) -> String {
    random.one("c.reset|c.count_call 5 c.reset|q.reset|q.capacity 3|q.capacity x|c.bogus 1|bogus.x|c.count 1|p.run 1 2|c.reset 1|x").to_string()
}

fn handler(random: &mut Random) -> &'static str {
    random.one("c.count|q.capacity|q.length|c.class|c.name|q.config|bogus.x|c.bogus|version|x|q.ports|classes_|@1.class|q.length 1")
}

fn condition(random: &mut Random) -> String {
    match random.below(3) {
        0 => random.one("true|false|0|1|x|$x|").to_string(),
        _ => format!("$({})", function(random, 2)),
    }
}

fn number(random: &mut Random) -> String {
    let known = "0|1|2|3|7|10|-1|-5|100|255|0x1F|010|1.5|-2.25|0.1|1e3|65536|4294967295|4294967296|2147483648|9223372036854775807|-9223372036854775808|18446744073709551615|x|";
    random.one(known).to_string()
}

/// A text with words, quotes, variables and handlers.
fn text(random: &mut Random, depth: usize) -> String {
    let words = random.list(0..=3, |random| match random.below(14) {
        0..3 => random.one("a|b|foo|1|hello").to_string(),
        3 => number(random),
        4 => random.one("\"a b\"|'a b'|\"$x\"|'$x'|\\<41 42>|\"a\\tb\"|\"\\n\"|\"\\\"\"|'\"'|\"\"|\\\\|\"$(add 1 2)\"|'$(add 1 2)'").to_string(),
        5..7 => format!("${}", variable(random)),
        7 => format!("${{{}}}", variable(random)),
        8 if depth > 0 => format!("$({})", handler(random)),
        9..12 if depth > 0 => format!("$({})", function(random, depth - 1)),
        12 => random.one("$|$(|${|$()|${}|$1|$0|$#|$x$y|$xy|${x}y|$x.y|$-").to_string(),
        _ => random.one(">|<|!|=|+|(|)|[|]|;|:").to_string(),
    });
    // There is a sign in front, so that the text does not expand to nothing.
    let mut text = words.join(random.one(" |  |"));
    while text.contains("$$") {
        text = text.replace("$$", "$");
    }
    match text.contains('$') {
        true => format!("-{text}"),
        false => text,
    }
}

/// An argument of a function.
fn argument(random: &mut Random, depth: usize) -> String {
    match random.below(6) {
        0 => format!("${}", variable(random)),
        1 if depth > 0 => format!("$({})", function(random, depth - 1)),
        2 => random.one("a|b|foo|\"a b\"|true|false|\"\"").to_string(),
        _ => number(random),
    }
}

fn function(random: &mut Random, depth: usize) -> String {
    let arguments = |random: &mut Random, count| {
        let arguments = random.list(count, |random| argument(random, depth));
        arguments.join(" ")
    };
    match random.below(12) {
        0 => {
            let numbers = random.list(0..=3, |random| random.one("1|2|3|7|100|-5|1.5|x"));
            format!("idiv {}", numbers.join(" "))
        }
        1..4 => format!(
            "{} {}",
            random.one("add|sub|mul|div|mod|rem|neg|abs|min|max|add|bogus"),
            arguments(random, 0..=3)
        ),
        4..6 => format!(
            "{} {}",
            random.one("eq|ne|lt|gt|le|ge"),
            arguments(random, 1..=3)
        ),
        6 => format!(
            "{} {}",
            random.one("not|and|or|nor|if"),
            arguments(random, 0..=3)
        ),
        7 => format!(
            "if {} {} {}",
            random.one("true|false|$x|1"),
            argument(random, depth),
            argument(random, depth)
        ),
        8 | 9 => {
            let flags = random.one("||||-|0|+| |#|05|-8|.2|8.3|*");
            let kind = random.one("d|d|u|x|X|o|s|s|i|c|%|f|ld|hd|lld|hhd|");
            format!(
                "sprintf \"%{flags}{kind}|%{}\" {}",
                random.one("d|s|x"),
                arguments(random, 1..=3)
            )
        }
        10 => format!(
            "{} {}",
            random.one("first|rest|length|unquote|in|htons|ntohs|htonl|ntohl|error|now|cat"),
            arguments(random, 0..=3)
        )
        .replace("now", "length"),
        _ => format!(
            "{} {}",
            random.one("first|rest|in|unquote|length"),
            arguments(random, 0..=4)
        ),
    }
}
