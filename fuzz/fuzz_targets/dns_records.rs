//! Any text as a DNSResponder's records: it is read without a panic, and a mistake is told with a line that the
//! text has.
//!
//! `cargo +nightly fuzz run dns_records`

#![no_main]

use elements::app::dns_responder::table;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some((line, why)) = table::check(text) {
        assert!((1..=text.lines().count()).contains(&line) && !why.is_empty());
    }
});
