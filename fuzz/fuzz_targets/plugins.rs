//! Answers of a plugin's process, which a plugin may write itself: each is read or refused in a sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scheduler::plugins::message;

fuzz_target!(|data: &[u8]| {
    let Ok(answer) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(classes) = message::classes(answer) {
        for pattern in classes.iter().flat_map(|class| class.properties.values()) {
            let _ = pattern.accepts("True");
        }
    }
    let _ = message::accepted(answer);
    for (_, score) in message::scores(answer).into_iter().flatten().flatten() {
        assert!(score.is_finite());
    }
    if let Ok(Some((guest, hosts))) = message::balance(answer) {
        assert!(!guest.is_empty() && !hosts.is_empty());
    }
    if let Err(why) = message::accepted(answer) {
        assert!(why.chars().count() < 500 && !why.contains('\n'), "{why}");
    }
});
