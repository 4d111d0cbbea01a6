//! Any text as the policy, or the applications, of a FlowDPI: it is read without a panic, and a mistake is told
//! with a line that the text has.
//!
//! `cargo +nightly fuzz run dpi_texts`

#![no_main]

use elements::dpi::policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for wrong in [policy::check_policy(text), policy::check_applications(text)] {
        if let Some((line, why)) = wrong {
            assert!((1..=text.lines().count()).contains(&line) && !why.is_empty());
        }
    }
});
