//! Any messages to a DNSResponder: none panics, and each answer has its query's number, and is no longer than
//! the client takes.
//!
//! `cargo +nightly fuzz run dns_queries`

#![no_main]

use elements::testing::{A, B, Rig, udp};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = "
i :: Inject -> MarkIPHeader -> DNSResponder(\"$ORIGIN example.
@ SOA ns root 1 2 3 4 5
www A 10.0.0.1
web CNAME www
mail MX 1 web
long TXT aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\") -> c :: Collect;
";

fuzz_target!(|data: &[u8]| {
    let mut rig = Rig::new(CONFIG);
    let mut rest = data;
    while let [length, tail @ ..] = rest {
        let (message, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        rig.push("i", &udp((A, 4000), (B, 53), message));
        for answer in rig.data("c") {
            let answer = &answer[28..];
            assert!((12..=1232).contains(&answer.len()));
            assert_eq!(answer[..2], message[..2]);
            assert_eq!((message[2] & 0x80, answer[2] & 0x80), (0, 0x80));
        }
    }
    assert_eq!(rig.outstanding(), 0);
});
