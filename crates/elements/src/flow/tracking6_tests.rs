//! A connection tracker and a firewall with IPv6 packets.

use proptest::prelude::*;
use std::vec::Vec;

use crate::testing::ip6::{icmp, packet, tcp, udp};
use crate::testing::*;

const SECOND: u64 = 1_000_000_000;
const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);
const SYN: u8 = 2;
const ACK: u8 = 16;
/// An echo request, and its answer.
const ECHO: (u8, u8, [u8; 4]) = (128, 0, [0, 9, 0, 1]);
const ECHO_REPLY: (u8, u8, [u8; 4]) = (129, 0, [0, 9, 0, 1]);

fn tracker(arguments: &str) -> Rig {
    Rig::new(&tracker_config(arguments))
}

fn tracker_config(arguments: &str) -> String {
    std::format!(
        "i :: Inject -> MarkIP6Header -> t :: ConnectionTracker({arguments}) -> n :: FlowCounter -> c :: Collect;
         j :: Inject -> MarkIP6Header -> [1] t [1] -> m :: FlowCounter -> d :: Collect;"
    )
}

fn datagram(port: u16) -> Vec<u8> {
    udp((A, port), (B, 53), &[0; 8])
}

fn answer(port: u16) -> Vec<u8> {
    udp((B, 53), (A, port), &[0; 8])
}

fn marks(rig: &mut Rig, name: &str) -> Vec<(u32, bool, bool)> {
    let packets = rig.collected(name);
    let marks = packets.iter();
    marks
        .map(|p| (p.flow().unwrap(), p.is_reply(), p.is_related()))
        .collect()
}

#[test]
fn headers_that_hide_where_a_packet_goes_are_refused() {
    let plain = datagram(7);
    let routing = |left: u8, kind: u8| {
        let mut header = std::vec![17, 2, kind, left, 0, 0, 0, 0];
        header.extend(B.octets());
        packet(43, A, B, &[&header[..], &plain[40..]].concat())
    };
    let atomic = [44, 0, 0, 0, 0, 0, 0, 9];
    let inner = [17, 0, 0, 0, 0, 0, 0, 9];
    let nested = packet(44, A, B, &[&atomic[..], &inner[..], &plain[40..]].concat());
    let single = packet(44, A, B, &[&inner[..], &plain[40..]].concat());
    for (sent, passes) in [
        (routing(1, 0), 0),
        (routing(0, 0), 1),
        (routing(1, 4), 1),
        (nested, 0),
        (single, 1),
    ] {
        let mut rig = tracker("CAPACITY 8");
        rig.push("i", &sent);
        assert_eq!(rig.data("c").len(), passes, "{sent:?}");
        assert_eq!(rig.read("t.invalid"), (1 - passes).to_string());
    }
}

#[test]
fn both_directions_have_one_number() {
    let mut rig = tracker("CAPACITY 8");
    rig.push("i", &tcp((A, 1000), (B, 80), SYN, &[]));
    rig.push("j", &tcp((B, 80), (A, 1000), SYN | ACK, &[]));
    rig.push("i", &datagram(7));
    rig.push("j", &answer(7));
    rig.push("i", &icmp(A, B, ECHO, &[]));
    rig.push("j", &icmp(B, A, ECHO_REPLY, &[]));
    let forward = [0, 1, 2].map(|number| (number, false, false));
    assert_eq!(marks(&mut rig, "c"), forward);
    let replies = [0, 1, 2].map(|number| (number, true, false));
    assert_eq!(marks(&mut rig, "d"), replies);
    let table = rig.read("t.table");
    assert_contains(
        &table,
        "6 syn-received (2001:db8:1::2, 1000, 2001:db8:2::2, 80) (2001:db8:2::2, 80, 2001:db8:1::2, 1000) 240",
    );
    assert_contains(&table, "17 replied");
    assert_contains(&table, "58 replied (2001:db8:1::2, 9, 2001:db8:2::2, 0)");
    rig.advance(130 * SECOND);
    assert_eq!(rig.read("t.count"), "2", "the echo's time is up");
}

#[test]
fn errors_belong_to_the_connection_that_they_are_about() {
    let mut rig = Rig::new(
        "i :: Inject -> CheckIP6Header -> t :: ConnectionTracker(8) -> copy :: Tee -> Discard;
         copy[1] -> ICMP6Error(2001:db8:9::1, 1, 4) -> CheckIP6Header -> [1] t [1] -> d :: Collect;",
    );
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let behind_options = [&options[..], &datagram(8)[40..]].concat();
    for packet in [
        datagram(7),
        icmp(A, B, ECHO, &[]),
        tcp((A, 1), (B, 80), SYN, &[]),
        packet(60, A, B, &behind_options),
    ] {
        rig.push("i", &packet);
        let error = rig.collected("d").pop().expect("the error is related");
        assert!(error.is_reply() && error.is_related());
    }
    assert_eq!(rig.read("t.count"), "4");
}

#[test]
fn what_belongs_to_no_connection_is_dropped() {
    let fragment = |offset: u8, more: u8| {
        let extension = [17, 0, 0, offset << 3 | more, 0, 0, 0, 9];
        packet(44, A, B, &[&extension[..], &datagram(1)[40..]].concat())
    };
    let solicitation = icmp(A, B, (135, 0, [0; 4]), &[0; 16]);
    let mut cut = datagram(1);
    cut.truncate(45);
    let beyond = packet(0, A, B, &[17, 9, 0, 0, 0, 0, 0, 0]);
    let mut rig = tracker("CAPACITY 8");
    for packet in [
        tcp((A, 1), (B, 80), ACK, &[]),
        tcp((A, 1), (B, 80), 0, &[]),
        icmp(A, B, ECHO_REPLY, &[]),
        icmp(A, B, (1, 4, [0; 4]), &datagram(3)),
        icmp(A, B, (1, 4, [0; 4]), &datagram(3)[..30]),
        solicitation,
        cut,
        beyond,
        fragment(0, 1),
        fragment(1, 0),
    ] {
        rig.push("i", &packet);
    }
    assert_eq!(rig.data("c").len(), 0);
    let read = ["t.invalid", "t.fragments", "t.count"].map(|name| rig.read(name));
    assert_eq!(read, ["8", "2", "0"]);
    // A fragment that is all there is (RFC 6946).
    rig.push("i", &fragment(0, 0));
    assert_eq!(rig.data("c").len(), 1);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn connections_outlive_a_hotswap_with_another_capacity() {
    let mut rig = tracker("CAPACITY 8");
    for port in 1..4 {
        rig.push("i", &datagram(port));
    }
    rig.swap(&tracker_config("CAPACITY 16"));
    rig.push("j", &answer(2));
    assert_eq!(marks(&mut rig, "d"), [(1, true, false)]);
    rig.swap(&tracker_config("CAPACITY 2"));
    assert_eq!(rig.read("t.count"), "2");
    rig.push("j", &answer(1));
    assert_eq!(marks(&mut rig, "d"), [(0, true, false)]);
}

/// A firewall between inside (`i`, `d`) and outside, for packets of both versions of IP.
fn firewall(rules: &str) -> Rig {
    Rig::new(&std::format!(
        "i :: Inject -> version :: Classifier(0/40%f0, 0/60%f0);
         version[0] -> MarkIPHeader -> t :: ConnectionTracker(64);
         version[1] -> MarkIP6Header -> t;
         t -> f :: FlowFirewall(\"{rules}\", SIDES inside) -> d :: Collect;"
    ))
}

#[test]
fn rules_are_about_both_versions_or_one() {
    use crate::testing::{ping, tcp as tcp4, udp as udp4};
    let (a, b) = (Ipv4Addr::new(10, 1, 0, 2), Ipv4Addr::new(10, 2, 0, 2));
    let options = [6, 0, 1, 4, 0, 0, 0, 0];
    let web = tcp((A, 5), (B, 80), SYN, &[]);
    let web_behind = packet(60, A, B, &[&options[..], &web[40..]].concat());
    let packets = [
        web,
        web_behind,
        udp((A, 5), (B, 53), &[1]),
        icmp(A, B, ECHO, &[]),
        packet(89, A, B, &[1; 20]),
        tcp4((a, 5), (b, 80), SYN, &[]),
        udp4((a, 5), (b, 53), &[1]),
        ping(a, b, &[]),
    ];
    for (rule, expected) in [
        ("all", "########"),
        ("tcp dst port 80", "##...#.."),
        ("udp or icmp", "..#...##"),
        ("udp or icmp6", "..##..#."),
        ("icmp6 type echo", "...#...."),
        ("icmp6 type echo-reply", "........"),
        ("icmp6 type echo or echo-reply", "...#...."),
        ("icmp type echo or echo-reply", ".......#"),
        ("icmp6[0] = 128", "...#...."),
        ("icmp type echo", ".......#"),
        ("vers 6", "#####..."),
        ("vers 4", ".....###"),
        ("proto 89", "....#..."),
        ("src host 2001:db8:1::2", "#####..."),
        ("dst host 2001:db8:1::2", "........"),
        ("host 2001:db8:2::2 and udp", "..#....."),
        (
            "src net 2001:db8::/32 and dst net 2001:db8:2::/64",
            "#####...",
        ),
        ("src net 2001:db8:2::/47", "........"),
        ("dst net 2001:db8:2::/47", "#####..."),
        ("src 2001:db8:1::2 or 10.1.0.2", "########"),
        ("src net ::/0", "#####..."),
        ("src net 0.0.0.0/0", ".....###"),
        ("src net 0.0.0.0/8", "........"),
        ("not src net 2001:db8::/32", ".....###"),
        ("not src net 10.0.0.0/8", "#####..."),
        ("src host != 2001:db8:1::2", ".....###"),
        ("ttl 64", "########"),
        ("ip len 49", "..#....."),
        ("tcp opt syn", "##...#.."),
    ] {
        let mut rig = firewall(&std::format!("allow {rule}"));
        let mut passes = |packet: &Vec<u8>| {
            rig.push("i", packet);
            if rig.data("d").is_empty() { '.' } else { '#' }
        };
        let shown: String = packets.iter().map(&mut passes).collect();
        assert_eq!(shown, expected, "{rule}");
    }
}

#[test]
fn mistakes_are_named() {
    let refused = |rule: &str, reason: &str| {
        Rig::refuses(
            &std::format!(
                "Idle -> t :: ConnectionTracker -> FlowFirewall(\"allow {rule}\") -> Discard;"
            ),
            reason,
        );
    };
    refused(
        "src net 2001:db8::/129",
        "line 1: '2001:db8::/129' is no prefix: write one as 10.0.0.0/8 or 2001:db8::/32",
    );
    refused("dst net 10.0.0.0/33", "'10.0.0.0/33' is no prefix");
    refused("src host 2001:db8:::1", "'2001:db8:::1' is no address");
    refused("src host 2001:db8::/32", "'src ip host': address missing");
    refused("src net 2001:db8::1", "'src ip net': address missing");
    refused(
        "icmp6 type ehco",
        "'ehco' is no type of ICMPv6: write a number, or echo, echo-reply",
    );
    refused("ip6", "'ip6' is no word of a pattern: write vers 6");
    refused(
        "tcp and icmpv6",
        "'icmpv6' is no word of a pattern: write icmp6",
    );
    // IPFilter is about IPv4.
    Rig::refuses(
        "Idle -> IPFilter(allow src host 2001:db8::1) -> Discard;",
        "",
    );
}

/// What a step of the test below sends.
fn step(kind: u8, back: bool, port: u16) -> [Vec<u8>; 2] {
    use crate::testing::{ping, tcp as tcp4, udp as udp4};
    let (a4, b4) = (Ipv4Addr::new(10, 1, 0, 2), Ipv4Addr::new(10, 2, 0, 2));
    let sides = |a, b| if back { (b, a) } else { (a, b) };
    let (from, to) = if back {
        ((B, 80), (A, port))
    } else {
        ((A, port), (B, 80))
    };
    let (from4, to4) = if back {
        ((b4, 80), (a4, port))
    } else {
        ((a4, port), (b4, 80))
    };
    match kind {
        0..8 => {
            let flags = [2, 18, 16, 17, 4, 20, 0, 3][usize::from(kind)];
            [tcp4(from4, to4, flags, &[]), tcp(from, to, flags, &[])]
        }
        8 => [udp4(from4, to4, &[0; 8]), udp(from, to, &[0; 8])],
        9 => {
            let (from, to) = if back { (B, A) } else { (A, B) };
            let (kind, kind4) = if back { (ECHO_REPLY, 0) } else { (ECHO, 8) };
            let (from4, to4) = sides(a4, b4);
            let mut echo = ping(from4, to4, &[]);
            echo[20] = kind4;
            [echo, icmp(from, to, kind, &[])]
        }
        _ => {
            // An error about a packet of the other side.
            let [quoted4, quoted] = step(8, !back, port);
            let (from, to) = if back { (B, A) } else { (A, B) };
            let (from4, to4) = sides(a4, b4);
            let mut error = ping(from4, to4, &quoted4);
            error[20] = 3;
            [error, icmp(from, to, (1, 4, [0; 4]), &quoted)]
        }
    }
}

proptest! {
    /// Packets over IPv6 have the fate and the number that they have over IPv4.
    #[test]
    fn a_tracker_treats_both_versions_alike(
        steps in prop::collection::vec((0u8..11, any::<bool>(), 1u16..4, 0u64..90), 1..80),
    ) {
        let [mut old, mut new] = ["MarkIPHeader", "MarkIP6Header"].map(|mark| {
            Rig::new(&std::format!(
                "i :: Inject -> {mark} -> t :: ConnectionTracker(4, UDP 90, UDP_OPENING 60) -> c :: Collect;
                 j :: Inject -> {mark} -> [1] t [1] -> d :: Collect;"
            ))
        });
        for (kind, back, port, wait) in steps {
            let [packet4, packet6] = step(kind, back, port);
            let (input, output) = if back { ("j", "d") } else { ("i", "c") };
            for (rig, packet) in [(&mut old, packet4), (&mut new, packet6)] {
                rig.advance(wait * SECOND / 10);
                rig.push(input, &packet);
            }
            prop_assert_eq!(marks(&mut old, output), marks(&mut new, output));
        }
        for name in ["t.count", "t.opened", "t.evicted", "t.drops", "t.invalid"] {
            prop_assert_eq!(old.read(name), new.read(name), "{}", name);
        }
    }

    /// Whatever bytes come, no packet is lost or sent twice.
    #[test]
    fn hostile_packets_do_no_harm(
        packets in prop::collection::vec(
            (0u8..11, any::<bool>(), prop::collection::vec((0usize..90, any::<u8>()), 0..6), 0usize..120),
            1..120,
        ),
    ) {
        let mut rig = firewall("deny src net 2001:db8:2::/48\nallow tcp or udp\nallow icmp6 type echo");
        let total = packets.len();
        for (kind, back, changes, length) in packets {
            let [_, mut packet] = step(kind, back, 7);
            for (at, value) in changes {
                if let Some(byte) = packet.get_mut(at) {
                    *byte = value;
                }
            }
            packet.truncate(length.max(1));
            // The version is what the classifier looks at.
            packet[0] |= 0x60;
            packet[0] &= 0x6f;
            rig.push("i", &packet);
        }
        let passed = rig.data("d").len();
        let dropped: usize = ["t.invalid", "t.fragments", "t.drops", "f.denied"]
            .iter()
            .map(|name| rig.read(name).parse::<usize>().unwrap())
            .sum();
        prop_assert_eq!(passed + dropped, total);
        prop_assert_eq!(rig.outstanding(), 0);
    }
}
