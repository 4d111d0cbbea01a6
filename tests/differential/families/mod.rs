//! The families of cases: each makes a case of a given size from random numbers.

mod analysis;
mod arguments;
mod classification;
mod fragments;
mod headers;
mod language;
mod mixes;
mod rewriters;
mod routes;
mod scheduling;
mod script;

use crate::case::Case;
use crate::random::Random;

/// The elements' pages.
pub const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/elements");

pub struct Family {
    pub name: &'static str,
    /// Makes a case. The size, from 1 on, bounds its lists.
    pub make: fn(&mut Random, usize) -> Case,
}

pub const FAMILIES: [Family; 11] = [
    Family {
        name: "analysis",
        make: analysis::make,
    },
    Family {
        name: "arguments",
        make: arguments::make,
    },
    Family {
        name: "classification",
        make: classification::make,
    },
    Family {
        name: "fragments",
        make: fragments::make,
    },
    Family {
        name: "headers",
        make: headers::make,
    },
    Family {
        name: "language",
        make: language::make,
    },
    Family {
        name: "mixes",
        make: mixes::make,
    },
    Family {
        name: "rewriters",
        make: rewriters::make,
    },
    Family {
        name: "routes",
        make: routes::make,
    },
    Family {
        name: "scheduling",
        make: scheduling::make,
    },
    Family {
        name: "script",
        make: script::make,
    },
];

/// Statements that print the packets of `count` outputs, each with its output's number.
fn print_outputs(element: &str, count: usize) -> Vec<String> {
    let print = |output| format!("{element}[{output}] -> Print({output}, -1) -> d;");
    let discard = "d :: Discard;".to_string();
    [discard].into_iter().chain((0..count).map(print)).collect()
}

/// Words in random order and number: what a parser refuses.
fn noise(random: &mut Random) -> String {
    let words = "1|-1|0x|foo|10.0.0.1|10.0.0.0/8|1.2.3|\"|''|\\<00>|$x|=|>|!|-|/|true|65536|4294967296|KEY 1|(|)|&&|::1";
    let words = random.list(0..=3, |random| random.one(words).to_string());
    words.join(" ")
}
