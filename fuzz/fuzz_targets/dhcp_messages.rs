//! Any messages to a DHCPServer: none panics, each reply is whole, and an address has one client.
//!
//! `cargo +nightly fuzz run dhcp_messages`

#![no_main]

use elements::testing::{B, Rig, ether, udp};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = "
i :: Inject -> MarkIPHeader(14)
    -> s :: DHCPServer(2.0.0.2, 02:00:00:00:00:01, 2.0.0.0/24 2.0.0.10-2.0.0.12 2.0.0.2,
        2.1.0.0/24 2.1.0.10-2.1.0.11, 02:00:00:00:00:07 2.0.0.7, DNS 2.0.0.2, DOMAIN example, LEASE 20)
    -> c :: Collect;
";

const COOKIE: [u8; 4] = [99, 130, 83, 99];

fuzz_target!(|data: &[u8]| {
    let mut rig = Rig::new(CONFIG);
    let mut rest = data;
    // A client, its own address, its relay, and options.
    while let [client, own, relay, seconds, length, tail @ ..] = rest {
        let (options, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let mut message = vec![0; 236];
        message[..3].copy_from_slice(&[1, 1, 6]);
        message[12..16].copy_from_slice(&[2, own >> 7, 0, own & 15]);
        if relay & 1 == 1 {
            message[24..28].copy_from_slice(&[2, relay >> 7, 0, 1]);
        }
        message[28..34].copy_from_slice(&[2, 0, 0, 0, 0, client & 7]);
        message.extend(COOKIE);
        message.extend(options);
        let to = if relay & 2 == 2 { B } else { [255; 4].into() };
        let packet = udp(([0; 4].into(), 68), (to, 67), &message);
        rig.push("i", &ether([255; 6], [2, 0, 0, 0, 0, 9], 0x0800, &packet));
        for reply in rig.data("c") {
            assert!((342..=590).contains(&reply.len()));
            assert_eq!((reply[42], &reply[278..282]), (2, &COOKIE[..]));
        }
        rig.advance(u64::from(*seconds % 16) * 1_000_000_000);
    }
    let leases = rig.read("s.leases");
    let mut addresses: Vec<_> = leases.lines().map(|line| line.split(' ').next()).collect();
    addresses.dedup();
    assert_eq!(addresses.len(), leases.lines().count());
    assert_eq!(rig.outstanding(), 0);
});
