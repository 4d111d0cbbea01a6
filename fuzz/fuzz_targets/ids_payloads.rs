//! Any segments of one TCP flow, and any datagrams, through a FlowIDS: none panics, no packet is lost, and
//! the pattern is found where it stands in one segment.
//!
//! `cargo +nightly fuzz run ids_payloads`

#![no_main]

use elements::testing::{A, B, Rig, complete_tcp, tcp, udp};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = r#"
i :: Inject -> MarkIPHeader -> t :: ConnectionTracker(16)
    -> d :: FlowIDS("alert ip any any -> any any (content:\"needle\"; sid:1;)
        alert tcp any any -> any any (content:\"n\"; content:\"e\"; distance:-4; within:9; content:!\"x\"; sid:2;)
        alert udp any any <> any 53 (content:\"|00 01|\"; offset:2; depth:8; sid:3;)",
        WINDOW 64, STREAMS 2, ALERTS 4, PRINT false) -> c :: Collect;
"#;

const NEEDLE: &[u8] = b"needle";

fuzz_target!(|data: &[u8]| {
    let mut rig = Rig::new(CONFIG);
    rig.push("i", &tcp((A, 1), (B, 2), 2, &[]));
    rig.push("i", &tcp((A, 3), (B, 2), 2, &[]));
    let (mut rest, mut sent, mut has_needle) = (data, 2, false);
    while let [kind, high, low, length, tail @ ..] = rest {
        let (payload, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let packet = match kind % 3 {
            2 => udp((A, 1), (B, 53), payload),
            flow => {
                let mut packet = tcp((A, u16::from(1 + 2 * flow)), (B, 2), 16, payload);
                let sequence = 2 + u32::from(u16::from_be_bytes([*high, *low])) % 400;
                packet[24..28].copy_from_slice(&sequence.to_be_bytes());
                complete_tcp(&mut packet);
                packet
            }
        };
        has_needle |= payload.windows(NEEDLE.len()).any(|part| part == NEEDLE);
        rig.push("i", &packet);
        sent += 1;
    }
    // A tracker takes a client's segments before the server answers.
    let passed = rig.data("c").len();
    assert!(passed <= sent);
    let found = rig.read("d.hits").contains(" 1 ");
    assert!(found || !has_needle || passed < sent);
});
