//! The language: compounds, overloads, variables, quotes, connections.

use crate::case::Case;
use crate::random::Random;

pub fn make(random: &mut Random, size: usize) -> Case {
    let mut case = Case {
        quit: true,
        ..Case::default()
    };
    let size = size.min(6);
    for name in ["Aa", "Bb", "Cc"].iter().take(random.below(4)) {
        case.config.push(compound(random, name, size));
    }
    if random.chance(40) {
        let mut value = argument(random);
        if value.trim().is_empty() || value.trim_start().starts_with(',') {
            // Click leaves a variable without a value as it stands.
            value = "7".into();
        }
        case.config
            .push(format!("define({} {value});", random.one("$x|$y|$x 1, $z")));
    }
    for _ in 0..random.within(1..=size) {
        case.config.push(statement(random, size));
    }
    case.handlers.push("flatconfig".into());
    if random.chance(30) {
        case.handlers.push(
            random
                .one("list|a.config|b.config|*.ports|a.class|e.handlers|config")
                .into(),
        );
    }
    case
}

fn class(random: &mut Random) -> String {
    match random.below(24) {
        0..6 => random.one("Aa|Bb|Cc|Aa|Bb").into(),
        6..12 => random.one("Null|Idle|Discard|Counter|Null").into(),
        12..16 => {
            let class = random.one("Paint|Queue|Message|Switch|Tee|Strip|Aa|Bb|Cc");
            format!("{class}({})", argument(random))
        }
        16..18 => random
            .one("Tee(2)|Queue|Unqueue|InfiniteSource(LIMIT 0)|Switch|Null()")
            .into(),
        18 => {
            let inner = statement(random, 1);
            format!("{{ {inner} input -> Null -> output }}")
        }
        19 => format!(
            "{{ $v | input -> Paint($v) -> output }}({})",
            argument(random)
        ),
        20 => "Bogus".into(),
        21 => random
            .one("$x|Aa($x)|Paint($x)|Aa({})|Bb(1, 2)|Aa(x y, z)")
            .into(),
        _ => random.one("Null|Counter").into(),
    }
}

fn name(random: &mut Random) -> &'static str {
    random.one("a|b|c|e|f|a|b|c|a1|_x|a/b|input|output")
}

fn argument(random: &mut Random) -> String {
    let words = random.list(0..=3, |random| match random.below(8) {
        0..3 => random.one("1|2|0x3|foo|KEY 1").to_string(),
        3 => random.one("\"a, b\"|'a $x'|\"a $x\"|\\<61 62>|\"\\\\\"|'\\'|\"a\\$b\"|\"(\"|\")\"|\"//\"|/* c */|\"'\"|'\"'").to_string(),
        4 => random.one("$x|$y|${x}|${x:-7}|${y:-$x}|${x:-}|$x$y|\\$x|$|$z|${v-2}|${x").to_string(),
        5 => random.one(",|, |,,|  ").to_string(),
        6 => random.one("(a, b)|[a]|{a}|a/b|a::b|a->b|#1|\\,|;").to_string(),
        _ => random.one("1|2").to_string(),
    });
    words.join(random.one(" | ||\n"))
}

/// What stands in a row of connections.
fn hop(random: &mut Random) -> String {
    let ports = |random: &mut Random| match random.below(10) {
        0 => "[0]".to_string(),
        1 => format!("[{}]", random.below(3)),
        2 => random.one("[0,1]|[1,0]|[x]|[-1]|[]").to_string(),
        _ => String::new(),
    };
    let (before, after) = (ports(random), ports(random));
    let middle = match random.below(10) {
        0..4 => name(random).to_string(),
        4..6 => class(random),
        6..8 => format!("{} :: {}", name(random), class(random)),
        8 => format!("({} -> {})", name(random), class(random)),
        _ => format!("({}, {})", name(random), class(random)),
    };
    format!("{before} {middle} {after}").trim().to_string()
}

fn statement(random: &mut Random, size: usize) -> String {
    match random.below(14) {
        0..4 => format!("{} :: {};", name(random), class(random)),
        4 => format!("{}, {} :: {};", name(random), name(random), class(random)),
        5 => format!("require({});", random.one("library nowhere.click|")),
        6 if size > 1 => compound(random, "Aa", size - 1),
        7 => format!(
            "elementclass {} {};",
            random.one("Bb|Cc|Dd"),
            random.one("Aa|Null|Bb|Bogus|Queue")
        ),
        8 => random
            .one(";|/* comment */|# 5 \"other.click\"|#line 7|a :: ;|-> a;|a -> ;|a => b;|}|)|a b;")
            .into(),
        _ => {
            let hops = random.list(2..=size.clamp(2, 4), hop);
            format!("{};", hops.join(random.one(" -> | -> | -> | -> |->| => ")))
        }
    }
}

/// A compound class, rarely with several overloads.
fn compound(random: &mut Random, name: &str, size: usize) -> String {
    let body = |random: &mut Random| {
        let parameters =
            random.one("|||$x ||$x, $y ||$x, K $y ||K $x ||$x, __REST__ $y ||A $x, B $y ||$v |||");
        let parameters = parameters.trim_end_matches('|');
        let bar = if parameters.is_empty() { "" } else { "| " };
        let inner = random.list(0..=size.min(2), |random| {
            statement(random, size.saturating_sub(1))
        });
        let way = match random.below(8) {
            0 => String::new(),
            1 => "input -> Tee -> output; input[1] -> Null -> [1]output;".into(),
            2 => format!("input -> p :: Paint({}) -> output;", argument(random)),
            3 => "input => output;".into(),
            4 => "input [0] => q :: Queue, u :: Unqueue -> output;".into(),
            _ => format!("input -> {} -> output;", class(random)),
        };
        format!("{parameters}{bar}{} {way}", inner.join(" "))
    };
    let mut bodies = vec![body(random)];
    for _ in 0..*random.pick(&[0, 0, 0, 1, 2]) {
        bodies.push(body(random));
    }
    // In Click, the class's own name means the second overload from the third on.
    let text = bodies.join(" || ").replace(name, "Null");
    format!("elementclass {name} {{ {text} }}")
}
