//! A balancer over IPv6, behind a connection tracker.

use std::collections::HashSet;
use std::vec::Vec;

use proptest::prelude::*;

use crate::testing::ip6::{addr, icmp, packet, tcp, udp, upper_checksum};
use crate::testing::*;

const SERVICE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, 0x10);
const CLIENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 7);
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A balancer; packets come from clients by `c` and from servers by `s`, and leave by `there`, `back` and
/// `refused`.
fn config(tracker: &str, arguments: &str) -> String {
    std::format!(
        "t :: ConnectionTracker({tracker}); b :: FlowIPLoadBalancer({arguments});
         c :: Inject -> CheckIP6Header -> [0] t [0] -> [0] b [0] -> there :: Collect;
         s :: Inject -> CheckIP6Header -> [1] t [1] -> [1] b [1] -> back :: Collect;
         b[2] -> TCPReset -> refused :: Collect;"
    )
}

fn rig(arguments: &str) -> Rig {
    Rig::new(&config("64", arguments))
}

fn server(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number)
}

/// An address of a packet.
fn address(packet: &[u8], at: usize) -> Ipv6Addr {
    Ipv6Addr::from_octets(packet[at..at + 16].try_into().unwrap())
}

/// Source and destination of a packet without extensions, whose checksum is right.
fn checked_ends(packet: &[u8]) -> [(Ipv6Addr, u16); 2] {
    let (from, to) = (address(packet, 8), address(packet, 24));
    assert_eq!(upper_checksum(packet[6], from, to, &packet[40..]), 0);
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    [(from, port(40)), (to, port(42))]
}

/// Where a client's segment goes.
fn to(rig: &mut Rig, port: u16, flags: u8) -> Option<(Ipv6Addr, u16)> {
    rig.push("c", &tcp((CLIENT, port), (SERVICE, 80), flags, b"data"));
    let packets = rig.collected("there");
    let packet = packets.first()?;
    let [from, to] = checked_ends(packet.data());
    assert_eq!((from, packet.dst_ip6()), ((CLIENT, port), to.0));
    Some(to)
}

#[test]
fn connections_are_translated_there_and_back() {
    let mut rig = rig("[fd00::1]:8080, 10.0.0.1");
    assert_eq!(to(&mut rig, 1000, SYN), Some((server(1), 8080)));
    rig.push("s", &tcp((server(1), 8080), (CLIENT, 1000), SYN | ACK, &[]));
    let back = rig.collected("back").remove(0);
    let ends = checked_ends(back.data());
    assert_eq!(ends, [(SERVICE, 80), (CLIENT, 1000)]);
    assert_eq!(back.dst_ip6(), CLIENT);
    // What is of no connection passes in neither direction.
    rig.push("s", &tcp((server(1), 8080), (CLIENT, 1001), ACK, &[]));
    rig.push("s", &tcp((server(1), 80), (CLIENT, 1000), SYN, &[]));
    rig.push("c", &tcp((CLIENT, 7), (SERVICE, 80), ACK, &[]));
    assert!(rig.data("back").is_empty() && rig.data("there").is_empty());
    let servers = rig.read("b.servers");
    assert_eq!(servers, "[fd00::1]:8080 up 1 1 1 1\n10.0.0.1 up 1 0 0 0\n");
    let table = rig.read("t.table");
    assert_contains(&table, "(fd00::1, 8080, 2001:db8:c::7, 1000)");
}

#[test]
fn datagrams_and_pings_are_translated() {
    let mut rig = rig("fd00::1");
    rig.push("c", &udp((CLIENT, 9), (SERVICE, 53), b"question"));
    let there = rig.data("there").remove(0);
    assert_eq!(checked_ends(&there), [(CLIENT, 9), (server(1), 53)]);
    rig.push("s", &udp((server(1), 53), (CLIENT, 9), b"answer"));
    let back = rig.data("back").remove(0);
    assert_eq!(checked_ends(&back), [(SERVICE, 53), (CLIENT, 9)]);
    // Behind an extension header, too.
    let plain = udp((CLIENT, 9), (SERVICE, 53), b"question");
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let upper = [&options[..], &plain[40..]].concat();
    rig.push("c", &packet(60, CLIENT, SERVICE, &upper));
    let there = rig.data("there").remove(0);
    assert_eq!(
        (address(&there, 24), &there[40..48]),
        (server(1), &options[..])
    );
    assert_eq!(upper_checksum(17, CLIENT, server(1), &there[48..]), 0);
    rig.push("c", &icmp(CLIENT, SERVICE, (128, 0, [0, 5, 0, 1]), b"ping"));
    let there = rig.data("there").remove(0);
    assert_eq!(checked_ends(&there)[1].0, server(1));
    rig.push(
        "s",
        &icmp(server(1), CLIENT, (129, 0, [0, 5, 0, 1]), b"ping"),
    );
    let back = rig.data("back").remove(0);
    assert_eq!(checked_ends(&back)[0].0, SERVICE);
    assert_eq!(back, icmp(SERVICE, CLIENT, (129, 0, [0, 5, 0, 1]), b"ping"));
}

#[test]
fn errors_are_about_what_their_receiver_sent() {
    let mut rig = rig("[fd00::1]:8080");
    let unreachable = (1, 4, [0; 4]);
    let sent = udp((CLIENT, 1000), (SERVICE, 53), b"question");
    rig.push("c", &sent);
    let translated = rig.data("there").remove(0);
    // From the server itself, which clients do not know, and from a router before it.
    for (from, shown) in [(server(1), SERVICE), (server(9), server(9))] {
        rig.push("s", &icmp(from, CLIENT, unreachable, &translated));
        let back = rig.collected("back").remove(0);
        assert_eq!(back.data(), icmp(shown, CLIENT, unreachable, &sent));
        assert_eq!(back.dst_ip6(), CLIENT);
    }
    // About an answer: from the client, and from a router on the way.
    let answer = udp((server(1), 8080), (CLIENT, 1000), b"answer");
    rig.push("s", &answer);
    let translated = rig.data("back").remove(0);
    for from in [CLIENT, addr("2001:db8:5::1")] {
        rig.push("c", &icmp(from, SERVICE, unreachable, &translated));
        let there = rig.collected("there").remove(0);
        assert_eq!(there.data(), icmp(from, server(1), unreachable, &answer));
        assert_eq!(there.dst_ip6(), server(1));
    }
}

#[test]
fn each_version_has_servers_of_its_own() {
    let mut rig = rig("10.0.0.1, fd00::1, fd00::2, fd00::3");
    let found: HashSet<_> = (1..60).map(|port| to(&mut rig, port, SYN)).collect();
    let expected: HashSet<_> = (1..4).map(|number| Some((server(number), 80))).collect();
    assert_eq!(found, expected);
    for number in 1..4 {
        rig.write("b.drain", &server(number).to_string());
    }
    assert_eq!(to(&mut rig, 100, SYN), None);
    let reset = rig.data("refused").remove(0);
    assert_eq!(checked_ends(&reset), [(SERVICE, 80), (CLIENT, 100)]);
    assert_eq!(reset[53], 0x14);
    // The first server of IPv6 may come later.
    let mut rig = self::rig("10.0.0.1");
    assert_eq!(to(&mut rig, 1, SYN), None);
    rig.write("b.add", "[fd00::7]:81 2");
    assert_eq!(to(&mut rig, 2, SYN), Some((server(7), 81)));
    let address = "write ADDRESS[:PORT] [WEIGHT]";
    for (wrong, said) in [
        ("[fd00::7]:0", "a port is a number"),
        ("[fd00::7]:70000", "a port is a number"),
        ("[10.0.0.1]", address),
        ("fd00::7:x", address),
        ("[fd00::7", address),
        ("[fd00::7]80", address),
        ("fe80::1%3", address),
        ("fe80::1", "no server has this address"),
        ("::", "no server has this address"),
        ("[ff02::1]:80", "no server has this address"),
        ("::ffff:10.0.0.1", "no server has this address"),
    ] {
        let error = rig.try_write("b.add", wrong).unwrap_err();
        assert_contains(&std::format!("{error:?}"), said);
    }
}

#[test]
fn clients_that_only_wait_are_told_too() {
    let mut rig = rig("fd00::1");
    to(&mut rig, 1, SYN);
    rig.push("s", &tcp((server(1), 80), (CLIENT, 1), SYN | ACK, &[]));
    to(&mut rig, 1, ACK);
    rig.data("back");
    rig.write("b.remove", "fd00::1");
    rig.advance(10 * MS);
    let reset = rig.data("back").remove(0);
    assert_eq!(checked_ends(&reset), [(SERVICE, 80), (CLIENT, 1)]);
    assert_eq!((&reset[44..48], reset[53]), (&[0, 0, 0, 2][..], 4));
}

#[test]
fn in_direct_mode_packets_stay_as_they_are() {
    let mut rig = Rig::new(
        "t :: ConnectionTracker(64); b :: FlowIPLoadBalancer(fd00::1, MODE direct);
         c :: Inject -> MarkIP6Header -> [0] t [0] -> [0] b [0] -> there :: Collect;
         Idle -> [1] t [1] -> [1] b [1] -> Discard; b[2] -> Discard;",
    );
    for flags in [SYN, ACK] {
        let sent = tcp((CLIENT, 5), (SERVICE, 80), flags, b"data");
        rig.push("c", &sent);
        let packet = rig.collected("there").remove(0);
        assert_eq!((packet.data(), packet.dst_ip6()), (&sent[..], server(1)));
    }
}

#[test]
fn connections_outlive_a_hotswap() {
    let mut rig = rig("fd00::1, fd00::2");
    let before: Vec<_> = (1..20).map(|port| to(&mut rig, port, SYN)).collect();
    for tracker in ["64", "128"] {
        rig.swap(&config(tracker, "fd00::2, fd00::1"));
        for (port, at) in (1..20).zip(&before) {
            assert_eq!(to(&mut rig, port, SYN), *at);
            let (from, to) = (at.unwrap(), (CLIENT, port));
            rig.push("s", &tcp(from, to, SYN | ACK, &[]));
            let back = rig.data("back").remove(0);
            assert_eq!(checked_ends(&back), [(SERVICE, 80), to]);
        }
    }
}

/// A check's answer, with its headers' ends turned round.
fn turned(check: &[u8], upper: Vec<u8>) -> Vec<u8> {
    packet(check[6], address(check, 24), address(check, 8), &upper)
}

#[test]
fn servers_are_checked() {
    let config = |arguments: &str| {
        std::format!(
            "t :: ConnectionTracker(64); b :: FlowIPLoadBalancer([fd00::1]:80, 10.0.0.1:80);
             c :: Inject -> MarkIP6Header -> [0] t [0] -> [0] b [0] -> there :: Collect;
             Idle -> [1] t [1] -> [1] b [1] -> Discard; b[2] -> Discard;
             answer :: Inject -> MarkIP6Header -> h :: HealthCheck(b, 10.0.0.254, {arguments}, INTERVAL 1s, FALL 1)
             -> version :: Classifier(0/60%f0, -) -> checks :: Collect; version[1] -> Discard;"
        )
    };
    // By a page.
    let mut rig = Rig::new(&config("http, SOURCE6 fd00::fe"));
    rig.advance(MS);
    let syn = rig.data("checks").remove(0);
    let [from, to] = checked_ends(&syn);
    assert_eq!((from.0, to), (addr("fd00::fe"), (server(1), 80)));
    let mut answer = tcp(to, from, SYN | ACK, &[]);
    let next = u32::from_be_bytes(syn[44..48].try_into().unwrap()).wrapping_add(1);
    answer[48..52].copy_from_slice(&next.to_be_bytes());
    rig.push("answer", &answer);
    let request = rig.data("checks").remove(0);
    checked_ends(&request);
    let text = String::from_utf8_lossy(&request[60..]).into_owned();
    assert_contains(&text, "\r\nHost: [fd00::1]\r\n");
    // By its refusal.
    let mut refusal = tcp(to, from, 0x14, &[]);
    refusal[44..48].copy_from_slice(&2u32.to_be_bytes());
    rig.push("answer", &refusal);
    assert_contains(
        &rig.printed().join("\n"),
        "h: [fd00::1]:80 is down: connection refused",
    );
    // By a ping.
    let mut rig = Rig::new(&config("icmp, SOURCE6 fd00::fe"));
    rig.advance(MS);
    let ping = rig.data("checks").remove(0);
    assert_eq!(
        upper_checksum(58, addr("fd00::fe"), server(1), &ping[40..]),
        0
    );
    let mut answer = ping[40..].to_vec();
    answer[0] = 129;
    rig.push("answer", &turned(&ping, answer));
    rig.assert_handlers(&[("h.successes", "1")]);
    // Without an address to check from, not at all.
    let mut rig = Rig::new(&config("icmp"));
    rig.advance(3 * SECOND);
    assert!(rig.data("checks").is_empty());
    assert_contains(&rig.read("h.table"), "fd00::1 healthy not checked\n");
    rig.write("b.remove", "[fd00::1]:80");
    rig.advance(2 * SECOND);
    assert_eq!(rig.read("h.table"), "10.0.0.1 down no answer in time\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever a client or a server sends, what passes goes where its connection goes.
    #[test]
    fn hostile_packets_harm_nothing(
        packets in prop::collection::vec(
            (any::<bool>(), prop::sample::select(&[0u8, 6, 17, 43, 44, 58, 60][..]),
                prop::collection::vec(any::<u8>(), 0..120), any::<bool>()),
            1..40,
        ),
    ) {
        let mut rig = rig("fd00::1");
        to(&mut rig, 1, SYN);
        for (from_client, protocol, bytes, quotes) in packets {
            let (from, into) = match from_client {
                true => ((CLIENT, SERVICE), "c"),
                false => ((server(1), CLIENT), "s"),
            };
            let sent = match quotes {
                true => {
                    let quoted = packet(protocol, from.1, from.0, &bytes);
                    icmp(from.0, from.1, (1, 4, [0; 4]), &quoted)
                }
                false => packet(protocol, from.0, from.1, &bytes),
            };
            rig.push(into, &sent);
            for packet in rig.data("there") {
                prop_assert_eq!(address(&packet, 24), server(1));
            }
            for packet in rig.data("back") {
                prop_assert_eq!(address(&packet, 8), SERVICE);
            }
            rig.data("refused");
        }
    }
}
