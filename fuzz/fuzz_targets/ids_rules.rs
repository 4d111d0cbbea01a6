//! Any text as rules of an IDS: it is read without a panic, and a mistake is told with a line that the text
//! has.
//!
//! `cargo +nightly fuzz run ids_rules`

#![no_main]

use elements::ids::rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match rules::parse(text, &rules::Set::default()) {
        Ok(found) => assert!(found.len() <= rules::RULES_MAX),
        Err((line, why)) => {
            assert!((1..=text.lines().count()).contains(&line) && !why.is_empty());
        }
    }
});
