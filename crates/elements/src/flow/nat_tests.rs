//! A NAT behind a connection tracker.

use proptest::prelude::*;
use std::vec::Vec;

use crate::testing::*;

const SECOND: u64 = 1_000_000_000;
const A: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 10);
const B: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 11);
const NAT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const OTHER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 6);
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A NAT; packets come from inside by `i` and from outside by `o`, and leave by `out` and `in`, checked.
fn config(arguments: &str) -> String {
    std::format!(
        "t :: ConnectionTracker(64); n :: FlowIPNAT(198.51.100.2{arguments});
         i :: Inject -> MarkIPHeader -> [0] t [0] -> [0] n [0] -> CheckIPHeader -> check :: IPClassifier(tcp, udp, icmp, -);
         check[0] -> CheckTCPHeader -> out :: Collect; check[1] -> CheckUDPHeader -> out;
         check[2] -> CheckICMPHeader -> out; check[3] -> out;
         o :: Inject -> MarkIPHeader -> [1] t [1] -> [1] n [1] -> CheckIPHeader -> checked :: IPClassifier(tcp, udp, icmp, -);
         checked[0] -> CheckTCPHeader -> in :: Collect; checked[1] -> CheckUDPHeader -> in;
         checked[2] -> CheckICMPHeader -> in; checked[3] -> in;"
    )
}

fn nat(arguments: &str) -> Rig {
    Rig::new(&config(arguments))
}

type Ends = ((Ipv4Addr, u16), (Ipv4Addr, u16));

/// Source and destination of a packet with ports.
fn ends(packet: &[u8]) -> Ends {
    let address = |at: usize| Ipv4Addr::from_octets(packet[at..at + 4].try_into().unwrap());
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    ((address(12), port(20)), (address(16), port(22)))
}

#[track_caller]
fn one(rig: &mut Rig, name: &str) -> Vec<u8> {
    let mut packets = rig.data(name);
    assert_eq!(packets.len(), 1, "packets at {name}");
    packets.remove(0)
}

#[test]
fn a_connection_is_translated_there_and_back() {
    let mut rig = nat("");
    type End = (Ipv4Addr, u16);
    let kinds: [fn(End, End) -> Vec<u8>; 2] = [
        |from, to| tcp(from, to, SYN, b"data"),
        |from, to| udp(from, to, b"data"),
    ];
    for kind in kinds {
        rig.push("i", &kind((A, 1000), (PEER, 80)));
        let (source, destination) = ends(&one(&mut rig, "out"));
        assert_eq!((source.0, destination), (NAT, (PEER, 80)));
        rig.push("o", &kind((PEER, 80), source));
        let back = rig.data("in");
        // A SYN that answers a SYN is one too.
        assert_eq!(ends(&back[0]), ((PEER, 80), (A, 1000)));
        assert_eq!(back[0][24..].len(), kind((A, 1), (A, 1))[24..].len());
    }
    assert_eq!(rig.read("n.count"), "2");
}

#[test]
fn a_port_stands_for_a_host_s_port_whatever_the_destination() {
    let mut rig = nat("");
    let mut port = |to| {
        rig.push("i", &udp((A, 1000), to, &[]));
        ends(&one(&mut rig, "out")).0.1
    };
    let first = port((PEER, 53));
    assert_eq!((port((OTHER, 53)), port((PEER, 54))), (first, first));
    rig.push("i", &udp((B, 1000), (PEER, 53), &[]));
    assert_ne!(ends(&one(&mut rig, "out")).0.1, first);
    // Others may not use it, unless that is wished for.
    rig.push("o", &udp((OTHER, 99), (NAT, first), &[]));
    assert_eq!(rig.data("in").len(), 0);
    let mut rig = nat(", FILTERING independent");
    rig.push("i", &udp((A, 1000), (PEER, 53), &[]));
    let port = ends(&one(&mut rig, "out")).0.1;
    rig.push("o", &udp((OTHER, 99), (NAT, port), &[]));
    assert_eq!(ends(&one(&mut rig, "in")), ((OTHER, 99), (A, 1000)));
}

#[test]
fn pings_and_their_errors_are_translated() {
    let mut rig = nat("");
    for host in [A, B] {
        rig.push("i", &ping(host, PEER, b"data"));
        let mut echo = one(&mut rig, "out");
        assert_eq!(echo[12..16], NAT.octets());
        // The peer answers.
        echo.copy_within(12..16, 16);
        echo[12..16].copy_from_slice(&PEER.octets());
        echo[20] = 0;
        echo[22..24].fill(0);
        let sum = checksum(&echo[20..]);
        echo[22..24].copy_from_slice(&sum.to_be_bytes());
        rig.push("o", &echo);
        let reply = one(&mut rig, "in");
        assert_eq!(reply[16..20], host.octets());
        assert_eq!(reply[24..], ping(host, PEER, b"data")[24..]);
    }
    assert_eq!(rig.read("n.count"), "2");
}

/// The ICMP error that `from` would send about a packet.
fn error(from: Ipv4Addr, packet: &[u8]) -> Vec<u8> {
    let source = Ipv4Addr::from_octets(packet[12..16].try_into().unwrap());
    let mut error = ping(from, source, packet);
    error[20..22].copy_from_slice(&[3, 1]);
    error[22..28].fill(0);
    let sum = checksum(&error[20..]);
    error[22..24].copy_from_slice(&sum.to_be_bytes());
    error
}

#[test]
fn errors_are_about_the_packet_that_was_sent() {
    let router = Ipv4Addr::new(203, 0, 113, 1);
    let mut rig = nat("");
    for packet in [
        udp((A, 1000), (PEER, 80), b"data"),
        tcp((A, 1000), (PEER, 80), SYN, b"data"),
        ping(A, PEER, b"data"),
    ] {
        rig.push("i", &packet);
        let sent = one(&mut rig, "out");
        rig.push("o", &error(router, &sent));
        let error = one(&mut rig, "in");
        assert_eq!(error[12..20], [router.octets(), A.octets()].concat());
        assert_eq!(error[28..], packet[..]);
    }
    // One from inside hides where it is from.
    rig.push("i", &udp((B, 7), (PEER, 53), &[]));
    let source = ends(&one(&mut rig, "out")).0;
    let answer = udp((PEER, 53), source, b"answer");
    rig.push("o", &answer);
    let arrived = one(&mut rig, "in");
    rig.push("i", &error(A, &arrived)[..]);
    let mut about = error(B, &arrived);
    about[12..16].copy_from_slice(&B.octets());
    assert_eq!(rig.data("out").len(), 1);
    // An error's destination is where the packet in it came from.
    let said = {
        rig.push("i", &error(B, &arrived));
        one(&mut rig, "out")
    };
    assert_eq!(said[12..20], [NAT.octets(), PEER.octets()].concat());
    assert_eq!(said[28..], answer[..]);
}

#[test]
fn hosts_inside_reach_each_other_by_the_address() {
    let mut rig = nat(", tcp 8080 192.168.1.11 80");
    rig.push("i", &tcp((A, 1000), (NAT, 8080), SYN, &[]));
    let (source, destination) = ends(&one(&mut rig, "in"));
    assert_eq!((source.0, destination), (NAT, (B, 80)));
    rig.push("i", &tcp((B, 80), source, SYN | ACK, &[]));
    assert_eq!(ends(&one(&mut rig, "in")), ((NAT, 8080), (A, 1000)));
    assert_eq!(rig.data("out").len(), 0);
    rig.push("i", &tcp((A, 1000), (NAT, 8081), SYN, &[]));
    assert_eq!((rig.data("in").len(), rig.read("n.drops")), (0, "1".into()));
}

#[test]
fn what_is_forwarded_gets_in() {
    let mut rig = nat(", tcp 8080 192.168.1.11 80, udp 53 192.168.1.11 53");
    rig.push("o", &tcp((PEER, 1000), (NAT, 8080), SYN, &[]));
    assert_eq!(ends(&one(&mut rig, "in")), ((PEER, 1000), (B, 80)));
    rig.push("i", &tcp((B, 80), (PEER, 1000), SYN | ACK, &[]));
    assert_eq!(ends(&one(&mut rig, "out")), ((NAT, 8080), (PEER, 1000)));
    rig.push("o", &udp((PEER, 1000), (NAT, 53), &[]));
    assert_eq!(ends(&one(&mut rig, "in")), ((PEER, 1000), (B, 53)));
    for packet in [
        tcp((PEER, 1000), (NAT, 80), SYN, &[]),
        udp((PEER, 1000), (NAT, 8080), &[]),
        ping(PEER, NAT, &[]),
    ] {
        rig.push("o", &packet);
    }
    assert_eq!((rig.data("in").len(), rig.read("n.drops")), (0, "3".into()));
    rig.advance(300 * SECOND);
    assert_eq!(
        rig.read("n.mappings"),
        "6 192.168.1.11 80 8080 1\n17 192.168.1.11 53 53 1\n"
    );
}

#[test]
fn ports_are_free_again_when_their_connections_end() {
    let mut rig = nat(", PORTS 2000-2002");
    for port in 1..=5 {
        rig.push("i", &udp((A, port), (PEER, 53), &[]));
    }
    let mut ports: Vec<_> = rig.data("out").iter().map(|it| ends(it).0.1).collect();
    ports.sort_unstable();
    assert_eq!(ports, [2000, 2001, 2002]);
    assert_eq!(
        (rig.read("n.exhausted"), rig.read("n.count")),
        ("2".into(), "3".into())
    );
    // One that is refused ends with the next batch.
    assert_eq!(rig.read("t.count"), "4");
    rig.advance(121 * SECOND);
    assert_eq!(
        (rig.read("n.count"), rig.read("t.count")),
        ("0".into(), "0".into())
    );
    rig.push("i", &udp((A, 9), (PEER, 53), &[]));
    assert_eq!(rig.data("out").len(), 1);
}

#[test]
fn a_protocol_without_ports_has_one_host_for_each_address() {
    let gre = |from: Ipv4Addr| {
        let mut packet = udp((from, 0), (PEER, 0), &[1; 16]);
        packet[9] = 47;
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let mut rig = nat("");
    rig.push("i", &gre(A));
    rig.push("i", &gre(B));
    let sent = one(&mut rig, "out");
    assert_eq!(sent[12..20], [NAT.octets(), PEER.octets()].concat());
    assert_eq!(sent[20..], gre(A)[20..]);
}

/// A segment with a sequence number.
fn says(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), seq: u32, text: &str) -> Vec<u8> {
    let mut packet = tcp(from, to, ACK, text.as_bytes());
    packet[24..28].copy_from_slice(&seq.to_be_bytes());
    complete_tcp(&mut packet);
    packet
}

/// A segment's sequence number and text.
fn said(packet: &[u8]) -> (u32, std::string::String) {
    let number = u32::from_be_bytes(packet[24..28].try_into().unwrap());
    (
        number,
        std::string::String::from_utf8_lossy(&packet[40..]).into_owned(),
    )
}

#[test]
fn an_active_transfer_of_a_client_inside_gets_in() {
    let mut rig = nat("");
    let (client, server) = ((A, 1000), (PEER, 21));
    let open = |rig: &mut Rig| {
        rig.push("i", &tcp(client, server, SYN, &[]));
        let outside = ends(&one(rig, "out")).0;
        rig.push("o", &tcp(server, outside, SYN | ACK, &[]));
        rig.push("i", &tcp(client, server, ACK, &[]));
        rig.data("in");
        rig.data("out");
    };
    for command in [
        "PORT 192,168,1,10,200,10\r\n",
        "EPRT |1|192.168.1.10|51210|\r\n",
    ] {
        open(&mut rig);
        // Sent twice, it is one announcement.
        let mut texts = Vec::new();
        for _ in 0..2 {
            rig.push("i", &says(client, server, 100, command));
            texts.push(said(&one(&mut rig, "out")));
        }
        assert_eq!(texts[0], texts[1]);
        let (number, text) = texts.pop().unwrap();
        assert_eq!(number, 100);
        let digits: Vec<u32> = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let port = match digits[..] {
            [198, 51, 100, 2, high, low] => high * 256 + low,
            [1, 198, 51, 100, 2, port] => port,
            _ => panic!("{text}"),
        };
        // What follows has other numbers.
        let next = 100 + command.len() as u32;
        rig.push("i", &says(client, server, next, "LIST\r\n"));
        let expected = (100 + text.len() as u32, "LIST\r\n".into());
        assert_eq!(said(&one(&mut rig, "out")), expected);
        // From the server, and from nobody else.
        rig.push("o", &tcp((OTHER, 20), (NAT, port as u16), SYN, &[]));
        assert_eq!(rig.data("in").len(), 0);
        rig.push("o", &tcp((PEER, 20), (NAT, port as u16), SYN, &[]));
        assert_eq!(ends(&one(&mut rig, "in")), ((PEER, 20), (A, 51210)));
        rig.write("t.clear", "");
        assert_eq!(rig.read("n.count"), "0");
    }
    // Another host's address is not announced for it.
    open(&mut rig);
    let stray = "PORT 192,168,1,11,200,10\r\n";
    rig.push("i", &says(client, server, 500, stray));
    assert_eq!(said(&one(&mut rig, "out")), (500, stray.into()));
}

#[test]
fn a_passive_transfer_of_a_server_inside_gets_in() {
    let mut rig = nat(", tcp 21 192.168.1.11 21");
    let (client, server) = ((PEER, 1000), (B, 21));
    rig.push("o", &tcp(client, (NAT, 21), SYN, &[]));
    rig.push("i", &tcp(server, client, SYN | ACK, &[]));
    rig.push("o", &tcp(client, (NAT, 21), ACK, &[]));
    rig.data("in");
    rig.data("out");
    for (seq, answer) in [
        (100, "227 Entering Passive Mode (192,168,1,11,200,10).\r\n"),
        (300, "229 Entering Extended Passive Mode (|||51210|)\r\n"),
    ] {
        rig.push("i", &says(server, client, seq, answer));
        let (_, text) = said(&one(&mut rig, "out"));
        let inner = text.split(['(', ')']).nth(1).unwrap();
        let digits: Vec<u16> = inner
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let port = match digits[..] {
            [198, 51, 100, 2, high, low] => high * 256 + low,
            [port] => port,
            _ => panic!("{text}"),
        };
        rig.push("o", &tcp((PEER, 1000 + seq as u16), (NAT, port), SYN, &[]));
        let expected = ((PEER, 1000 + seq as u16), (B, 51210));
        assert_eq!(ends(&one(&mut rig, "in")), expected);
    }
    // What is announced and does not come is forgotten.
    rig.push(
        "i",
        &says(server, client, 600, "229 Passive (|||51211|)\r\n"),
    );
    assert!(rig.read("n.mappings").contains(" 51211 "));
    rig.advance(61 * SECOND);
    assert!(!rig.read("n.mappings").contains(" 51211 "));
}

#[test]
fn mistakes_are_named() {
    for (arguments, said) in [
        (
            "1.2.3.4, tcp 80 10.0.0.1",
            "is no FORWARD: write PROTOCOL PORT ADDRESS PORT",
        ),
        ("1.2.3.4, icmp 80 10.0.0.1 80", "is no FORWARD"),
        (
            "1.2.3.4, PORTS 0-9",
            "PORTS: write a range of ports, as in 1024-65535",
        ),
        (
            "1.2.3.4, FILTERING no",
            "FILTERING: write dependent or independent",
        ),
        (
            "1.2.3.4, tcp 80 10.0.0.1 80, tcp 80 10.0.0.2 80",
            "two FORWARDs have the same port 80",
        ),
    ] {
        let config = std::format!(
            "t :: ConnectionTracker; n :: FlowIPNAT({arguments}); Idle -> t -> n -> Discard; Idle -> [1] t [1] -> [1] n [1] -> Discard;"
        );
        Rig::refuses(&config, said);
    }
}

proptest! {
    /// Whatever bytes come, nothing is lost or sent twice, and when all is over no mapping is left.
    #[test]
    fn hostile_packets_do_no_harm(
        packets in prop::collection::vec(
            (any::<bool>(), 0usize..7, prop::collection::vec((0usize..70, any::<u8>()), 0..5), 0usize..90),
            1..150,
        ),
    ) {
        let mut rig = Rig::new(
            "t :: ConnectionTracker(16, TCP 5, TCP_OPENING 5, TCP_CLOSING 5, TCP_CLOSED 5, UDP 5, UDP_OPENING 5, ICMP 5, OTHER 5); n :: FlowIPNAT(198.51.100.2, PORTS 2000-2007, FILTERING independent);
             i :: Inject -> MarkIPHeader -> [0] t [0] -> [0] n [0] -> out :: Collect;
             o :: Inject -> MarkIPHeader -> [1] t [1] -> [1] n [1] -> in :: Collect;",
        );
        let bases = [
            tcp((A, 1000), (PEER, 21), SYN, &[]),
            tcp((PEER, 21), (NAT, 2000), SYN | ACK, &[]),
            says((A, 1000), (PEER, 21), 5, "PORT 192,168,1,10,4,1\r\n"),
            udp((A, 1000), (NAT, 2001), &[0; 30]),
            udp((PEER, 53), (NAT, 2002), &[0; 30]),
            ping(A, PEER, &[0; 40]),
            error(PEER, &tcp((NAT, 2000), (PEER, 21), SYN, &[])),
        ];
        let total = packets.len();
        for (outside, base, changes, length) in packets {
            let mut packet = bases[base].clone();
            for (at, value) in changes {
                if let Some(byte) = packet.get_mut(at) {
                    *byte = value;
                }
            }
            if length < 60 {
                packet.truncate(length.max(1));
            }
            rig.push(["i", "o"][usize::from(outside)], &packet);
        }
        let number = |rig: &mut Rig, name: &str| rig.read(name).parse::<usize>().unwrap();
        let passed = rig.data("in").len() + rig.data("out").len();
        let dropped: usize = ["t.invalid", "t.fragments", "t.drops", "n.drops"]
            .iter()
            .map(|name| number(&mut rig, name))
            .sum();
        prop_assert_eq!(passed + dropped, total);
        prop_assert!(number(&mut rig, "n.count") <= 24);
        rig.advance(90 * SECOND);
        prop_assert_eq!((number(&mut rig, "t.count"), number(&mut rig, "n.count")), (0, 0));
        prop_assert_eq!(rig.outstanding(), 0);
    }
}

#[test]
fn connections_outlive_a_hotswap() {
    let mut rig = nat(", udp 7 192.168.1.11 70");
    let outside: Vec<_> = (1..20)
        .map(|port| {
            rig.push("i", &udp((A, port), (PEER, 53), &[]));
            ends(&one(&mut rig, "out")).0
        })
        .collect();
    rig.push("o", &udp((OTHER, 5), (NAT, 7), &[]));
    assert_eq!(ends(&one(&mut rig, "in")).1, (B, 70));
    // The forward is gone, and another one there; connections go on, also that by the forward.
    for other in [
        ", udp 8 192.168.1.11 80",
        ", FILTERING independent, udp 8 192.168.1.11 80",
    ] {
        rig.swap(&config(other));
        for (port, outside) in (1..20).zip(&outside) {
            rig.push("o", &udp((PEER, 53), *outside, &[]));
            assert_eq!(ends(&one(&mut rig, "in")).1, (A, port));
            // Its port stays for other destinations.
            rig.push("i", &udp((A, port), (OTHER, 53), &[]));
            assert_eq!(ends(&one(&mut rig, "out")).0, *outside);
        }
        rig.push("o", &udp((OTHER, 5), (NAT, 7), &[]));
        assert_eq!(ends(&one(&mut rig, "in")).1, (B, 70));
    }
    // New ports are taken from the range alone, and all come back.
    rig.advance(1000 * SECOND);
    assert_eq!(rig.read("n.count"), "1");
    rig.swap(&config(", PORTS 5000-6000"));
    assert_eq!(rig.read("n.count"), "0");
}
