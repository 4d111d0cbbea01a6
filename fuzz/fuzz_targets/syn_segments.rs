//! Any segments of both sides through a SYNProxy, with the numbers of its cookies or without: none panics, and what leaves
//! has right checksums.
//!
//! `cargo +nightly fuzz run syn_segments`

#![no_main]

use elements::testing::{A, B, Rig, checksum, complete_tcp, tcp};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = "
p :: SYNProxy(2);
c :: Inject -> MarkIPHeader -> [0] p [0] -> servers :: Collect;
s :: Inject -> MarkIPHeader -> [1] p [1] -> clients :: Collect;
";

fn number(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
}

fuzz_target!(|data: &[u8]| {
    let mut rig = Rig::new(CONFIG);
    // The last number and clock that the client got of the server, and the server of the client.
    let mut known = [[0u32; 2]; 2];
    let mut rest = data;
    while let [kind, flags, sequence, length, header, tail @ ..] = rest {
        let (behind, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let back = kind & 1 == 1;
        let (from, to) = if back {
            ((B, 80), (A, 1))
        } else {
            ((A, 1), (B, 80))
        };
        let [next, clock] = known[usize::from(back)];
        // Options of timestamps that echo the other's clock, before what the data say.
        let stamps = match kind & 2 {
            0 => vec![],
            _ => [&[1, 1, 8, 10, 0, 0, 0, 9][..], &clock.to_be_bytes()].concat(),
        };
        let mut packet = tcp(from, to, *flags, &[&stamps[..], behind].concat());
        packet[24..28].copy_from_slice(&u32::from(*sequence).to_be_bytes());
        packet[28..32].copy_from_slice(&next.to_be_bytes());
        packet[32] = ((5 + stamps.len() / 4) as u8).max(header & 15) << 4;
        complete_tcp(&mut packet);
        rig.push(if back { "s" } else { "c" }, &packet);
        for (side, name) in ["clients", "servers"].into_iter().enumerate() {
            for out in rig.data(name) {
                assert_eq!(checksum(&out[..20]), 0);
                let pseudo = [
                    &out[12..20],
                    &[0, 6],
                    &(out.len() as u16 - 20).to_be_bytes(),
                ]
                .concat();
                assert_eq!(checksum(&[&pseudo[..], &out[20..]].concat()), 0);
                known[side][0] = number(&out, 24).wrapping_add(1);
                if out.len() >= 56 {
                    known[side][1] = number(&out, 48);
                }
            }
        }
    }
    assert_eq!(rig.outstanding(), 0);
});
