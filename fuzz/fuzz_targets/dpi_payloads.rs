//! Any segments of both sides of TCP flows, and any datagrams, through a FlowDPI: none panics, all
//! packets pass or are counted as conflicts, and each flow that had packets is of one protocol at its end.
//!
//! `cargo +nightly fuzz run dpi_payloads`

#![no_main]

use elements::testing::{A, B, Rig, complete_tcp, tcp, udp};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = r#"
i :: Inject -> MarkIPHeader -> t :: ConnectionTracker(16, LOOSE true)
    -> d :: FlowDPI("dscp 1 name example.com
        paint 2 protocol tls,quic,http", APPLICATIONS "a example.com
        b www.example.com", WINDOW 512, STREAMS 2, TOP 2) -> c :: Collect;
j :: Inject -> MarkIPHeader -> [1] t [1] -> [1] d [1] -> e :: Collect;
"#;

fuzz_target!(|data: &[u8]| {
    let mut rig = Rig::new(CONFIG);
    let (mut rest, mut sent) = (data, 0);
    while let [kind, high, low, length, tail @ ..] = rest {
        // Long enough for an Initial packet of QUIC.
        let (payload, tail) = tail.split_at((8 * usize::from(*length)).min(tail.len()));
        rest = tail;
        let port = 1 + u16::from(kind >> 4) % 3;
        let (from, to) = match kind & 1 {
            0 => ((A, port), (B, 2)),
            _ => ((B, 2), (A, port)),
        };
        let packet = match kind & 2 {
            0 => udp(from, to, payload),
            _ => {
                let mut packet = tcp(from, to, 16, payload);
                let sequence = 2 + u32::from(u16::from_be_bytes([*high, *low])) % 1200;
                packet[24..28].copy_from_slice(&sequence.to_be_bytes());
                complete_tcp(&mut packet);
                packet
            }
        };
        rig.push(if kind & 1 == 0 { "i" } else { "j" }, &packet);
        sent += 1;
    }
    let conflicts: usize = rig.read("d.conflicts").parse().unwrap();
    assert_eq!(rig.data("c").len() + rig.data("e").len() + conflicts, sent);
    rig.write("t.clear", "");
    let protocols = rig.read("d.protocols");
    let packets = protocols
        .lines()
        .map(|line| line.split(' ').nth(2).unwrap());
    let packets = packets.map(|count| count.parse::<usize>().unwrap());
    assert_eq!(packets.sum::<usize>(), sent);
});
