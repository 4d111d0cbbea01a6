//! A monitor and an exporter behind a tracker.

use std::vec::Vec;

use crate::testing::*;

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;

fn rig(arguments: &str, format: &str) -> Rig {
    Rig::new(&std::format!(
        "i :: Inject -> MarkIPHeader -> t :: ConnectionTracker(64) -> m :: FlowMonitor({arguments}) -> Discard;
         j :: Inject -> MarkIPHeader -> [1] t [1] -> [1] m [1] -> Discard;
         x :: FlowExporter(m, {format}, DOMAIN 7) -> c :: Collect;"
    ))
}

/// A segment with a sequence number, timestamps and data.
fn segment(back: bool, flags: u8, sequence: u32, stamps: (u32, u32), data: usize) -> Vec<u8> {
    let (from, to) = match back {
        false => ((A, 1000), (B, 80)),
        true => ((B, 80), (A, 1000)),
    };
    let mut options = std::vec![1, 1, 8, 10];
    options.extend(stamps.0.to_be_bytes());
    options.extend(stamps.1.to_be_bytes());
    options.resize(12 + data, 7);
    let mut packet = tcp(from, to, flags, &options);
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[32] = 0x80;
    complete_tcp(&mut packet);
    packet
}

#[test]
fn round_trips_and_retransmissions_are_measured() {
    let mut rig = rig("", "ipfix");
    rig.push("i", &segment(false, SYN, 100, (1, 0), 0));
    rig.pause(20 * MS);
    rig.push("j", &segment(true, SYN | ACK, 500, (50, 1), 0));
    rig.pause(3 * MS);
    rig.push("i", &segment(false, ACK, 101, (2, 50), 0));
    // Data, lost behind the monitor, and sent again; the answer takes 30 ms.
    rig.push("i", &segment(false, ACK, 101, (3, 50), 10));
    rig.pause(30 * MS);
    rig.push("i", &segment(false, ACK, 101, (4, 50), 10));
    rig.push("j", &segment(true, ACK, 501, (60, 2), 0));
    // A keep-alive.
    rig.push("i", &segment(false, ACK, 110, (5, 60), 1));
    let quality = rig.read("m.quality");
    assert_eq!(
        quality,
        "(1.0.0.1, 1000, 2.0.0.2, 80) 20000 21250 20000 2 0 3000 2625 0 2 1\n"
    );
    rig.assert_handlers(&[("m.retransmitted", "1"), ("m.open", "1"), ("m.count", "7")]);
    assert_contains(
        &rig.read("m.flows"),
        "6 (1.0.0.1, 1000, 2.0.0.2, 80) 5 281 2 104 0\n",
    );
    assert_eq!(rig.read("m.top"), "1.0.0.1 281 0\n2.0.0.2 104 0\n");
}

fn word(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(data[at..at + 4].try_into().unwrap())
}

fn long(data: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(data[at..at + 8].try_into().unwrap())
}

#[test]
fn ended_idle_and_long_flows_are_exported_by_ipfix() {
    let mut rig = rig("IDLE 5s, ACTIVE 10s", "ipfix");
    rig.push("i", &udp((A, 7), (B, 53), &[0; 12]));
    rig.push("j", &udp((B, 53), (A, 7), &[0; 72]));
    rig.advance(4 * SECOND);
    assert!(rig.data("c").is_empty());
    rig.advance(3 * SECOND);
    let messages = rig.data("c");
    let [message] = &messages[..] else {
        panic!("{} messages", messages.len());
    };
    assert_eq!(word(message, 0), 10 << 16 | message.len() as u32);
    assert_eq!((word(message, 8), word(message, 12)), (0, 7));
    // The templates' 11 fields each, and then two records of 48 bytes.
    assert_eq!(message[16..24], [0, 2, 0, 100, 1, 0, 0, 11]);
    assert_eq!(message[68..80], [1, 1, 0, 11, 0, 27, 0, 16, 0, 28, 0, 16]);
    let data = &message[116..];
    assert_eq!(data[..4], [1, 0, 0, 100]);
    assert_eq!(data.len(), 100);
    let record = &data[4..52];
    assert_eq!(
        record[..16],
        [1, 0, 0, 1, 2, 0, 0, 2, 0, 7, 0, 53, 17, 0, 0, 1]
    );
    assert_eq!((long(record, 16), long(record, 24)), (40, 1));
    assert_eq!(long(record, 32), START as u64 / MS);
    assert_eq!(data[52..60], [2, 0, 0, 2, 1, 0, 0, 1]);
    assert_eq!(long(&data[52..], 16), 100);
    // A flow that goes on is told each 10 s, and the sum is right.
    for _ in 0..45 {
        rig.push("i", &udp((A, 8), (B, 53), &[0; 12]));
        rig.advance(SECOND / 2);
    }
    rig.advance(6 * SECOND);
    let messages = rig.data("c");
    let records: Vec<(u8, u64)> = messages.iter().map(|it| (it[35], long(it, 44))).collect();
    let reasons: Vec<u8> = records.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, [2, 2, 1]);
    assert_eq!(records.iter().map(|(_, packets)| packets).sum::<u64>(), 45);
    // Records are numbered.
    assert_eq!(word(&messages[0], 8), 2);
    rig.assert_handlers(&[("x.records", "5"), ("m.made", "5"), ("m.unexported", "0")]);
}

#[test]
fn flows_over_ipv6_have_a_template_of_their_own() {
    for (format, record_len) in [("ipfix", 72), ("netflow9", 62)] {
        let mut rig = Rig::new(&std::format!(
            "i :: Inject -> MarkIPHeader -> t :: ConnectionTracker(64) -> m :: FlowMonitor(IDLE 5s) -> Discard;
             j :: Inject -> MarkIP6Header -> [1] t [1] -> [1] m [1] -> Discard;
             x :: FlowExporter(m, {format}) -> c :: Collect;"
        ));
        let old = udp((A, 7), (B, 53), &[0; 12]);
        rig.push("i", &old);
        rig.push("j", &ip6::from_v4(&old));
        let ping = (128, 0, [0, 7, 0, 1]);
        rig.push(
            "j",
            &ip6::icmp(
                ip6::addr("2001:db8::1"),
                ip6::addr("2001:db8::2"),
                ping,
                &[],
            ),
        );
        assert_contains(
            &rig.read("m.flows"),
            "17 (2001:db8::100:1, 7, 2001:db8::200:2, 53) 1 60 0 0 0",
        );
        assert_eq!(
            rig.read("m.top"),
            "2001:db8::100:1 60 0\n2001:db8::1 48 0\n1.0.0.1 40 0\n"
        );
        rig.write("t.clear", "");
        rig.advance(SECOND);
        let messages = rig.data("c");
        let message = &messages[0];
        // Its sets: templates, IPv4, IPv6.
        let mut sets = Vec::new();
        let mut at = if format == "ipfix" { 16 } else { 20 };
        while at < message.len() {
            let [number, length] =
                [at, at + 2].map(|at| u16::from_be_bytes([message[at], message[at + 1]]));
            sets.push((number, usize::from(length), at));
            at += usize::from(length);
        }
        let numbers: Vec<u16> = sets.iter().map(|set| set.0).collect();
        assert_eq!(numbers[1..], [256, 257]);
        let (_, length, at) = sets[2];
        assert!((4 + 2 * record_len..4 + 2 * record_len + 4).contains(&length));
        let record = &message[at + 4..];
        assert_eq!(record[..4], [0x20, 1, 0x0d, 0xb8]);
        assert_eq!(record[12..16], [1, 0, 0, 1]);
        assert_eq!(record[28..37], [2, 0, 0, 2, 0, 7, 0, 53, 17]);
        // Of ICMPv6, the type.
        assert_eq!(record[record_len + 32..record_len + 37], [0, 0, 128, 0, 58]);
        assert_eq!(rig.read("x.records"), "3");
    }
}

#[test]
fn netflow_9_tells_times_since_the_start() {
    let mut rig = rig("IDLE 5s", "netflow9");
    rig.advance(3 * SECOND);
    rig.push("i", &segment(false, SYN, 1, (0, 0), 0));
    rig.push("j", &segment(true, SYN | ACK, 1, (0, 0), 0));
    rig.push("i", &segment(false, FIN | ACK, 2, (0, 0), 0));
    rig.write("t.clear", "");
    rig.advance(SECOND);
    let messages = rig.data("c");
    let message = &messages[0];
    assert_eq!(word(message, 0), 9 << 16 | 4);
    assert_eq!(word(message, 12), 0);
    let data = &message[20 + 92..];
    assert_eq!(data[..4], [1, 0, 0, 80]);
    assert_eq!(data.len(), 80);
    let record = &data[4..42];
    assert_eq!(record[12..14], [6, FIN | SYN | ACK]);
    assert_eq!((word(record, 30), word(record, 34)), (3000, 3000));
}

#[test]
fn senders_have_all_bytes_that_came_whenever_they_are_read() {
    let mut rig = rig("TOP 3", "ipfix");
    let large = udp((A, 7), (B, 53), &[0; 1372]);
    for _ in 0..100 {
        rig.push("i", &large);
    }
    rig.push("i", &udp((A, 8), (B, 53), &[0; 72]));
    rig.push("j", &udp((B, 53), (A, 7), &[0; 22]));
    for _ in 0..2 {
        assert_eq!(rig.read("m.top"), "1.0.0.1 140100 0\n2.0.0.2 50 0\n");
    }
    // Those of flows that ended stay.
    rig.push("i", &large);
    rig.write("t.clear", "");
    assert_eq!(rig.read("m.top"), "1.0.0.1 141500 0\n2.0.0.2 50 0\n");
    rig.push("i", &large);
    rig.write("m.reset_top", "");
    assert_eq!(rig.read("m.top"), "");
    rig.push("j", &large);
    assert_eq!(rig.read("m.top"), "1.0.0.1 1400 0\n");
}

#[test]
fn records_have_a_limit() {
    let mut rig = rig("RECORDS 3", "ipfix");
    for port in 0..8 {
        rig.push("i", &udp((A, port), (B, 53), &[0; 12]));
    }
    rig.write("t.clear", "");
    rig.assert_handlers(&[("m.made", "3"), ("m.unexported", "5"), ("m.open", "0")]);
    rig.advance(SECOND);
    assert_eq!(rig.read("x.records"), "3");
    for (arguments, part) in [
        ("TOP 0", "TOP must be"),
        ("IDLE 0.1s", "at least 1s"),
        ("RECORDS 0", "RECORDS must be"),
    ] {
        let config =
            std::format!("Idle -> ConnectionTracker -> FlowMonitor({arguments}) -> Discard;");
        Rig::refuses(&config, part);
    }
    Rig::refuses(
        "Idle -> FlowIPManager -> FlowMonitor -> Discard;",
        "tracks no connections",
    );
}

proptest! {
    #[test]
    fn any_segments_are_measured_without_a_panic(
        packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 20..60)), 1..40),
    ) {
        let mut rig = rig("", "ipfix");
        rig.push("i", &segment(false, SYN, 1, (0, 0), 0));
        rig.push("j", &segment(true, SYN | ACK, 1, (0, 0), 0));
        for (back, bytes) in packets {
            let mut packet = segment(back, ACK, 1, (0, 0), 28);
            let end = bytes.len().min(packet.len() - 24);
            packet[24..24 + end].copy_from_slice(&bytes[..end]);
            rig.push(if back { "j" } else { "i" }, &packet);
        }
        let _ = rig.read("m.quality");
    }
}
