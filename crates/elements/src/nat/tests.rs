//! A carrier-grade NAT.

use std::collections::{HashMap, HashSet};
use std::vec::Vec;

use crate::testing::*;

const PEER: (Ipv4Addr, u16) = (Ipv4Addr::new(203, 0, 113, 5), 80);
const OTHER: (Ipv4Addr, u16) = (Ipv4Addr::new(203, 0, 113, 6), 99);
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

type End = (Ipv4Addr, u16);

fn config(arguments: &str) -> String {
    std::format!(
        "n :: CarrierGradeNAT({arguments});
         i :: Inject -> MarkIPHeader -> [0] n [0] -> CheckIPHeader -> k :: IPClassifier(tcp, udp, icmp, -);
         k[0] -> CheckTCPHeader -> out :: Collect; k[1] -> CheckUDPHeader -> out;
         k[2] -> CheckICMPHeader -> out; k[3] -> out;
         o :: Inject -> MarkIPHeader -> [1] n [1] -> CheckIPHeader -> l :: IPClassifier(tcp, udp, icmp, -);
         l[0] -> CheckTCPHeader -> in :: Collect; l[1] -> CheckUDPHeader -> in;
         l[2] -> CheckICMPHeader -> in; l[3] -> in; n[2] -> log :: Collect;"
    )
}

fn nat(arguments: &str) -> Rig {
    Rig::new(&config(arguments))
}

fn subscriber(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(100, 64, 0, number)
}

fn ends(packet: &[u8]) -> (End, End) {
    let address = |at: usize| Ipv4Addr::from_octets(packet[at..at + 4].try_into().unwrap());
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    ((address(12), port(20)), (address(16), port(22)))
}

/// The port outside that a packet from inside gets, and its destination.
fn out(rig: &mut Rig, packet: &[u8]) -> Option<(End, End)> {
    rig.push("i", packet);
    rig.data("out").first().map(|packet| ends(packet))
}

fn datagram(rig: &mut Rig, from: End) -> Option<End> {
    Some(out(rig, &udp(from, PEER, b"data"))?.0)
}

/// Where a packet from outside goes.
fn back(rig: &mut Rig, packet: &[u8]) -> Option<End> {
    rig.push("o", packet);
    rig.data("in").first().map(|packet| ends(packet).1)
}

#[test]
fn mapping_and_filtering_do_not_depend_on_the_other_end() {
    let mut rig = nat("198.51.100.4-198.51.100.7");
    let host = (subscriber(1), 5000);
    let outside = datagram(&mut rig, host).unwrap();
    assert_eq!(
        out(&mut rig, &udp(host, OTHER, &[])).unwrap(),
        (outside, OTHER)
    );
    assert_eq!(back(&mut rig, &udp(OTHER, outside, b"anyone")), Some(host));
    // Its other ports, and protocols, have the same address.
    let of_tcp = out(&mut rig, &tcp(host, PEER, SYN, &[])).unwrap().0;
    assert_eq!(of_tcp.0, outside.0);
    assert_eq!(
        back(&mut rig, &tcp(PEER, of_tcp, SYN | ACK, &[])),
        Some(host)
    );
    assert_eq!(back(&mut rig, &tcp(OTHER, of_tcp, SYN, &[])), Some(host));
    // Nothing begins by an answer, or from outside.
    assert_eq!(
        out(&mut rig, &tcp((subscriber(2), 1), PEER, ACK, &[])),
        None
    );
    assert_eq!(back(&mut rig, &udp(PEER, (outside.0, 1023), &[])), None);
    assert_eq!(rig.read("n.count"), "2");
}

#[test]
fn subscribers_reach_each_other_by_their_ports_outside() {
    let mut rig = nat("198.51.100.4");
    let (a, b) = ((subscriber(1), 1), (subscriber(2), 2));
    let of_b = datagram(&mut rig, b).unwrap();
    rig.push("i", &udp(a, of_b, b"hello"));
    let arrived = rig.data("in").remove(0);
    assert_eq!(ends(&arrived).1, b);
    assert_eq!(arrived[28..], *b"hello");
    let of_a = ends(&arrived).0;
    rig.push("i", &udp(b, of_a, b"hello"));
    assert_eq!(ends(&rig.data("in")[0]), (of_b, a));
}

#[test]
fn pings_and_errors_are_translated() {
    let mut rig = nat("198.51.100.4");
    let sent = ping(subscriber(1), PEER.0, b"data");
    rig.push("i", &sent);
    let echo = rig.data("out").remove(0);
    let outside = ends(&echo).0.0;
    let mut reply = echo.clone();
    reply.copy_within(12..16, 16);
    reply[12..16].copy_from_slice(&PEER.0.octets());
    reply[20..24].fill(0);
    let sum = checksum(&reply[20..]);
    reply[22..24].copy_from_slice(&sum.to_be_bytes());
    rig.push("o", &reply);
    assert_eq!(rig.data("in")[0][24..], sent[24..]);
    // A ping from outside is for nobody.
    rig.push("o", &ping(PEER.0, outside, b"data"));
    assert!(rig.data("in").is_empty());
    let host = (subscriber(1), 7);
    for sent in [
        sent,
        udp(host, PEER, b"data"),
        tcp(host, PEER, SYN, b"data"),
    ] {
        rig.push("i", &sent);
        let translated = rig.data("out").remove(0);
        let mut error = ping(OTHER.0, outside, &translated);
        error[20..22].copy_from_slice(&[3, 1]);
        error[22..28].fill(0);
        let sum = checksum(&error[20..]);
        error[22..24].copy_from_slice(&sum.to_be_bytes());
        rig.push("o", &error);
        let error = rig.data("in").remove(0);
        assert_eq!(error[16..20], subscriber(1).octets());
        assert_eq!(error[28..], sent[..]);
    }
}

#[test]
fn a_flood_of_one_subscriber_harms_no_other() {
    let arguments = "198.51.100.4, BLOCK 64, BLOCKS 2, SUBSCRIBERS 3, RATE 1000, CAPACITY 384";
    let mut rig = nat(arguments);
    let flood = |rig: &mut Rig| {
        let made = (1..1000).filter(|port| datagram(rig, (subscriber(1), *port)).is_some());
        made.count()
    };
    assert_eq!(flood(&mut rig), 128);
    // The other subscribers have all their ports, and its own mappings stay.
    for number in [2, 3] {
        let made =
            (1..=128).filter(|port| datagram(&mut rig, (subscriber(number), *port)).is_some());
        assert_eq!(made.count(), 128);
    }
    assert_eq!(flood(&mut rig), 128);
    assert_eq!(datagram(&mut rig, (subscriber(4), 1)), None);
    rig.assert_handlers(&[("n.count", "384"), ("n.full", "872"), ("n.strangers", "0")]);
    let mut rig = nat("198.51.100.4, RATE 10");
    assert_eq!(flood(&mut rig), 10);
    assert!(datagram(&mut rig, (subscriber(2), 1)).is_some());
    rig.advance(SECOND);
    assert_eq!(
        datagram(&mut rig, (subscriber(1), 999)).map(|end| end.1 >= 1024),
        Some(true)
    );
    assert_eq!(rig.read("n.over_rate"), "989");
}

/// What the NAT says of the subscriber that has a port.
fn owner(rig: &mut Rig, end: &str) -> String {
    let id = rig.router.find("n");
    rig.router.read(id, "subscriber", end).unwrap()
}

#[test]
fn blocks_are_logged_and_go_back() {
    let mut rig = nat("198.51.100.4, BLOCK 100, UDP 10");
    datagram(&mut rig, (subscriber(9), 1));
    let log = |rig: &mut Rig| -> Vec<String> {
        let packets = rig.data("log").into_iter();
        packets
            .map(|data| String::from_utf8(data).unwrap())
            .collect()
    };
    let allocated = log(&mut rig).remove(0);
    assert_contains(
        &allocated,
        "<134>1 2001-09-09T01:46:40.000Z - CarrierGradeNAT - block-allocated - subscriber=100.64.0.9 address=198.51.100.4 ports=",
    );
    let ports = allocated
        .split("ports=")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_string();
    let (first, last) = ports.split_once('-').unwrap();
    let (first, last): (u16, u16) = (first.parse().unwrap(), last.parse().unwrap());
    assert_eq!((last - first, (first - 1024) % 100), (99, 0));
    let ask = |rig: &mut Rig, port: u16| owner(rig, &std::format!("198.51.100.4 {port}"));
    assert_eq!(ask(&mut rig, last), "100.64.0.9");
    // Its mapping ends after 10 s, and the block goes back 120 s later.
    rig.advance(11 * SECOND);
    assert_eq!(rig.read("n.count"), "0");
    assert!(
        rig.read("n.subscribers")
            .contains("100.64.0.9 198.51.100.4 1 0 0")
    );
    rig.advance(130 * SECOND);
    let released = log(&mut rig).remove(0);
    assert_contains(&released, "block-released - subscriber=100.64.0.9");
    assert_contains(&released, &std::format!("ports={ports} "));
    assert_eq!(
        (rig.read("n.subscribers"), ask(&mut rig, last)),
        (String::new(), "none".into())
    );
    assert_eq!(rig.read("n.events").lines().count(), 2);
}

#[test]
fn deterministic_blocks_follow_from_addresses() {
    let mut rig = nat("198.51.100.4-198.51.100.5, DETERMINISTIC 100.64.0.0/26");
    // 64 subscribers of 2 addresses have 2016 ports each.
    for number in 0..64u8 {
        let outside = datagram(&mut rig, (subscriber(number), 9)).unwrap();
        let (address, block) = (number / 32, u16::from(number % 32));
        assert_eq!(outside.0, Ipv4Addr::new(198, 51, 100, 4 + address));
        assert_eq!((outside.1 - 1024) / 2016, block);
        let said = owner(&mut rig, &std::format!("{} {}", outside.0, outside.1));
        assert_eq!(said, subscriber(number).to_string());
    }
    assert!(rig.data("log").is_empty());
    assert_eq!(datagram(&mut rig, (subscriber(64), 9)), None);
    Rig::refuses(
        &config("198.51.100.4, DETERMINISTIC 100.64.0.0/16"),
        "would have 0 ports each, too few",
    );
}

#[test]
fn tcp_mappings_live_by_their_connections() {
    let mut rig = nat("198.51.100.4");
    let host = (subscriber(1), 5000);
    let outside = out(&mut rig, &tcp(host, PEER, SYN, &[])).unwrap().0;
    rig.advance(200 * SECOND);
    back(&mut rig, &tcp(PEER, outside, SYN | ACK, &[])).unwrap();
    // It is open: it lives for two hours.
    rig.advance(7000 * SECOND);
    assert_eq!(
        back(&mut rig, &tcp(PEER, outside, ACK, b"late")),
        Some(host)
    );
    out(&mut rig, &tcp(host, PEER, FIN | ACK, &[]));
    rig.advance(230 * SECOND);
    assert_eq!(rig.read("n.count"), "1");
    rig.advance(300 * SECOND);
    assert_eq!(rig.read("n.count"), "0");
    // Without an answer, and after a RST, four minutes.
    for flags in [SYN, RST] {
        out(&mut rig, &tcp(host, PEER, SYN, &[]));
        out(&mut rig, &tcp(host, PEER, flags, &[]));
        rig.advance(600 * SECOND);
        assert_eq!(rig.read("n.count"), "0");
    }
    // What comes from outside keeps no UDP mapping.
    let outside = datagram(&mut rig, host).unwrap();
    for _ in 0..4 {
        rig.advance(100 * SECOND);
        back(&mut rig, &udp(PEER, outside, &[]));
    }
    rig.advance(SECOND);
    assert_eq!(rig.read("n.count"), "0");
}

#[test]
fn mappings_outlive_a_hotswap() {
    let mut rig = nat("198.51.100.4");
    let outside = datagram(&mut rig, (subscriber(1), 1)).unwrap();
    rig.swap(&config("198.51.100.4, UDP 100"));
    assert_eq!(
        back(&mut rig, &udp(PEER, outside, &[])),
        Some((subscriber(1), 1))
    );
    rig.swap(&config("198.51.100.5"));
    assert_eq!(rig.read("n.count"), "0");
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, said) in [
        ("198.51.100", "write a prefix, as in 198.51.100.0/28"),
        ("198.51.100.1/28", "write a prefix"),
        ("198.51.100.9-198.51.100.4", "write a prefix"),
        ("10.0.0.0/16", "ADDRESSES must be from 1 to 1024"),
        ("10.0.0.1, BLOCK 8", "BLOCK must be from 16"),
        ("10.0.0.1, CAPACITY 0", "CAPACITY must be from 1"),
    ] {
        Rig::refuses(&config(arguments), said);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Whatever subscribers send, no two mappings share a port outside, a mapping stays the same while it
    /// is used, a subscriber has one address, and ports lead back to it.
    #[test]
    fn ports_are_nobody_else_s(
        steps in prop::collection::vec((1u8..6, 1u16..40, any::<bool>(), 0u64..40), 1..100),
    ) {
        let mut rig = nat("198.51.100.4-198.51.100.6, BLOCK 16, BLOCKS 2, SUBSCRIBERS 4, UDP 60, TCP_TRANSITORY 60, CAPACITY 100");
        let mut known: HashMap<(bool, End), (End, u64)> = HashMap::new();
        let mut now = 0;
        for (number, port, is_tcp, pause) in steps {
            rig.advance(pause * SECOND);
            now += pause;
            let host = (subscriber(number), port);
            let packet = if is_tcp { tcp(host, PEER, SYN, &[]) } else { udp(host, PEER, &[]) };
            let outside = out(&mut rig, &packet).map(|(from, _)| from);
            // One that may have ended, to the second, is not looked at.
            known.retain(|_, (_, last)| now - *last < 59);
            let before = known.get(&(is_tcp, host)).map(|(outside, _)| *outside);
            if before.is_some() {
                prop_assert_eq!(outside, before);
            }
            if let Some(outside) = outside {
                known.insert((is_tcp, host), (outside, now));
            }
            let ports: HashSet<_> = known.iter().map(|((is_tcp, _), (end, _))| (*is_tcp, *end)).collect();
            prop_assert_eq!(ports.len(), known.len());
            let mut addresses: HashMap<Ipv4Addr, Ipv4Addr> = HashMap::new();
            for ((_, host), (end, _)) in &known {
                prop_assert_eq!(*addresses.entry(host.0).or_insert(end.0), end.0);
            }
            // TCP's packets from outside keep a mapping: they are not tried.
            if let Some(outside) = outside.filter(|_| !is_tcp) {
                prop_assert_eq!(back(&mut rig, &udp(PEER, outside, &[])), Some(host));
            }
        }
        rig.advance(10_000 * SECOND);
        prop_assert_eq!(rig.read("n.count"), "0");
        prop_assert_eq!(rig.read("n.subscribers"), "");
    }
}
