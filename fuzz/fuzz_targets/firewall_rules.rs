//! Any text as a firewall's rules: it is read without a panic, and a mistake is told with a line that the
//! text has.
//!
//! `cargo +nightly fuzz run firewall_rules`

#![no_main]

use elements::flow::rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match rules::parse(text) {
        Ok(found) => assert!(found.len() <= rules::RULES_MAX),
        Err((line, _)) => assert!((1..=text.lines().count()).contains(&line)),
    }
    if let Some((line, why)) = rules::check(text) {
        assert!((1..=text.lines().count()).contains(&line) && !why.is_empty());
    }
});
