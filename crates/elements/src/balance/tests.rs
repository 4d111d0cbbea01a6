//! A balancer behind a connection tracker.

use std::collections::HashMap;
use std::vec::Vec;

use crate::testing::*;

const SERVICE: (Ipv4Addr, u16) = (Ipv4Addr::new(203, 0, 113, 10), 80);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A balancer; packets come from clients by `c` and from servers by `s`, and leave by `there`, `back` and
/// `refused`, checked.
fn config(tracker: &str, arguments: &str) -> String {
    std::format!(
        "t :: ConnectionTracker({tracker}); b :: FlowIPLoadBalancer({arguments});
         c :: Inject -> MarkIPHeader -> [0] t [0] -> [0] b [0] -> CheckIPHeader -> k :: IPClassifier(tcp, -);
         k[0] -> CheckTCPHeader -> there :: Collect; k[1] -> there;
         s :: Inject -> MarkIPHeader -> [1] t [1] -> [1] b [1] -> CheckIPHeader -> l :: IPClassifier(tcp, icmp, -);
         l[0] -> CheckTCPHeader -> back :: Collect; l[1] -> CheckICMPHeader -> back; l[2] -> back;
         b[2] -> TCPReset -> CheckIPHeader -> CheckTCPHeader -> refused :: Collect;"
    )
}

fn rig(arguments: &str) -> Rig {
    Rig::new(&config("64", arguments))
}

/// Destination address and port.
fn destination(packet: &[u8]) -> (Ipv4Addr, u16) {
    let address: [u8; 4] = packet[16..20].try_into().unwrap();
    let port = u16::from_be_bytes([packet[22], packet[23]]);
    (Ipv4Addr::from(address), port)
}

/// Where a client's segment goes.
fn to(rig: &mut Rig, port: u16, flags: u8) -> Option<(Ipv4Addr, u16)> {
    rig.push("c", &tcp((CLIENT, port), SERVICE, flags, b"data"));
    rig.data("there").first().map(|packet| destination(packet))
}

fn server(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

#[test]
fn connections_are_translated_there_and_back() {
    let mut rig = rig("10.0.0.1:8080");
    assert_eq!(to(&mut rig, 1000, SYN), Some((server(1), 8080)));
    rig.push("s", &tcp((server(1), 8080), (CLIENT, 1000), SYN | ACK, &[]));
    let back = rig.data("back").remove(0);
    assert_eq!(back[12..16], SERVICE.0.octets());
    assert_eq!((destination(&back), back[21]), ((CLIENT, 1000), 80));
    // What is of no connection passes in neither direction.
    rig.push("s", &tcp((server(1), 8080), (CLIENT, 1001), ACK, &[]));
    rig.push("s", &tcp((server(1), 99), (CLIENT, 9), SYN, &[]));
    rig.push("c", &tcp((CLIENT, 7), SERVICE, ACK, &[]));
    assert!(rig.data("back").is_empty() && rig.data("there").is_empty());
    assert_eq!(rig.read("b.servers"), "10.0.0.1:8080 up 1 1 1 1\n");
}

#[test]
fn a_server_s_errors_come_from_the_service() {
    let mut rig = rig("10.0.0.1");
    let sent = udp((CLIENT, 1000), (SERVICE.0, 53), b"question");
    rig.push("c", &sent);
    let translated = rig.data("there").remove(0);
    for (from, shown) in [(server(1), SERVICE.0), (server(9), server(9))] {
        let mut error = ping(from, CLIENT, &translated);
        error[20..22].copy_from_slice(&[3, 3]);
        error[22..28].fill(0);
        let sum = checksum(&error[20..]);
        error[22..24].copy_from_slice(&sum.to_be_bytes());
        rig.push("s", &error);
        let back = rig.data("back").remove(0);
        assert_eq!(back[12..16], shown.octets());
        assert_eq!(back[28..], sent[..]);
    }
}

#[test]
fn connections_stay_where_they_are_while_servers_come_and_go() {
    let mut rig = rig("10.0.0.1, 10.0.0.2, 10.0.0.3");
    let before: HashMap<u16, _> = (1..60)
        .map(|port| (port, to(&mut rig, port, SYN)))
        .collect();
    let of = |number| {
        before
            .values()
            .filter(move |to| **to == Some((server(number), 80)))
    };
    assert!((1..4).all(|number| of(number).count() > 8));
    rig.write("b.add", "10.0.0.4");
    rig.write("b.drain", "10.0.0.2");
    for (port, server) in &before {
        assert_eq!(to(&mut rig, *port, SYN), *server);
    }
    rig.write("b.remove", "10.0.0.1");
    for (port, at) in &before {
        let now = to(&mut rig, *port, SYN);
        match at.unwrap().0 == server(1) {
            true => {
                assert_eq!(now, None);
                // The client learns it at once.
                let reset = rig.data("refused").remove(0);
                assert_eq!((destination(&reset), reset[33]), ((CLIENT, *port), 0x14));
            }
            false => assert_eq!(now, *at),
        }
    }
    let lost = of(1).count();
    assert_eq!(rig.read("b.lost"), lost.to_string());
    // New ones go to the other two.
    for port in 100..104 {
        let now = to(&mut rig, port, SYN).unwrap().0;
        assert!(now == server(3) || now == server(4));
    }
    rig.write("b.drain", "10.0.0.3");
    rig.write("b.drain", "10.0.0.4");
    assert_eq!(to(&mut rig, 200, SYN), None);
    assert_eq!(rig.data("refused")[0][33], 0x14);
    rig.write("b.add", "10.0.0.3 5");
    assert_eq!(to(&mut rig, 200, SYN), Some((server(3), 80)));
    assert!(rig.read("b.servers").contains("10.0.0.3 up 5 "));
}

/// A segment of the server 1 for a client's port.
fn from_server(port: u16, flags: u8, data: &[u8]) -> Vec<u8> {
    tcp((server(1), 80), (CLIENT, port), flags, data)
}

#[test]
fn clients_that_only_wait_are_told_too() {
    let mut rig = Rig::new(&config("256", "10.0.0.1"));
    for port in 1..200u16 {
        to(&mut rig, port, SYN);
        rig.push("s", &from_server(port, SYN | ACK, &[]));
        to(&mut rig, port, ACK);
        rig.data("back");
    }
    // One datagram's flow, too.
    let question = udp((CLIENT, 9), (SERVICE.0, 53), b"question");
    rig.push("c", &question);
    assert_eq!(rig.data("there").len(), 1);
    rig.write("b.remove", "10.0.0.1");
    // What the server goes on to send ends nothing before.
    rig.push("s", &from_server(1, ACK, b"data"));
    rig.advance(10 * MS);
    let resets = rig.data("back");
    assert_eq!(resets.len(), 199);
    for (port, reset) in (1..).zip(&resets) {
        assert_eq!((destination(reset), reset[33]), ((CLIENT, port), 4));
        // The number that the client acknowledged last.
        assert_eq!(reset[24..28], [0, 0, 0, 2]);
    }
    // The server may live.
    let resets = rig.data("there");
    assert_eq!(resets.len(), 199);
    for (port, reset) in (1..).zip(&resets) {
        assert_eq!(destination(reset), (server(1), 80));
        assert_eq!(reset[20..22], u16::to_be_bytes(port));
        assert_eq!((reset[33], &reset[24..28]), (4, &[0, 0, 0, 2][..]));
    }
    assert_eq!(rig.read("b.servers"), "");
    // A client that takes another number for the next is told by its answer.
    assert_eq!(to(&mut rig, 7, ACK), None);
    assert_eq!(rig.data("refused").remove(0)[33], 4);
    // The others end some time later, and so make room.
    assert_eq!(rig.read("t.count"), "199");
    rig.advance(6 * SECOND);
    assert_eq!(rig.read("t.count"), "0");
    // The next datagram starts a new connection.
    rig.write("b.add", "10.0.0.2");
    rig.push("c", &question);
    assert_eq!(destination(&rig.data("there")[0]), (server(2), 53));
}

#[test]
fn mistakes_are_told() {
    let mut rig = rig("10.0.0.1");
    for (handler, value, said) in [
        (
            "b.add",
            "10.0.0",
            "‘10.0.0’ is no server: write ADDRESS[:PORT] [WEIGHT]",
        ),
        ("b.add", "10.0.0.1 257", "a weight is a number up to 256"),
        ("b.add", "10.0.0.1:0", "a port is a number from 1 to 65535"),
        ("b.add", "10.0.0.1:x", "a port is a number from 1 to 65535"),
        ("b.add", "10.0.0.1 1 1", "write ADDRESS[:PORT] [WEIGHT]"),
        ("b.add", "127.0.0.1", "no server has this address"),
        ("b.add", "224.0.0.1:80", "no server has this address"),
        ("b.drain", "10.0.0.2", "there is no server 10.0.0.2"),
        ("b.remove", "10.0.0.1:80", "there is no server 10.0.0.1:80"),
    ] {
        let error = rig.try_write(handler, value).unwrap_err();
        assert_contains(&std::format!("{error:?}"), said);
    }
    for number in 1..512u32 {
        rig.write(
            "b.add",
            &Ipv4Addr::from_bits(0x0b00_0000 + number).to_string(),
        );
    }
    let error = rig.try_write("b.add", "12.0.0.0").unwrap_err();
    assert_contains(&std::format!("{error:?}"), "512 servers, the most");
    Rig::refuses(
        &config("64", "10.0.0.1 x"),
        "a weight is a number up to 256",
    );
    let direct = config("64", "10.0.0.1:80, MODE direct");
    Rig::refuses(&direct, "in the mode direct, packets keep their port");
    Rig::refuses(&config("64", "10.0.0.1, MODE some"), "write nat or direct");
}

#[test]
fn clients_stick_to_a_server() {
    let mut rig = rig("10.0.0.1, 10.0.0.2, 10.0.0.3, STICKY source");
    let first = to(&mut rig, 1, SYN);
    assert!((2..20).all(|port| to(&mut rig, port, SYN) == first));
}

#[test]
fn in_direct_mode_packets_stay_as_they_are() {
    let mut rig = Rig::new(
        "t :: ConnectionTracker(64); b :: FlowIPLoadBalancer(10.0.0.1, 10.0.0.2, MODE direct);
         c :: Inject -> MarkIPHeader -> [0] t [0] -> [0] b [0] -> there :: Collect;
         Idle -> [1] t [1] -> [1] b [1] -> back :: Collect; b[2] -> Discard;",
    );
    for flags in [SYN, ACK, ACK] {
        let sent = tcp((CLIENT, 5), SERVICE, flags, b"data");
        rig.push("c", &sent);
        let packet = rig.collected("there").remove(0);
        assert_eq!(packet.data(), sent);
        assert!([server(1), server(2)].contains(&packet.dst_ip()));
    }
    let table = rig.read("t.table");
    assert!(table.starts_with("6 established "), "{table}");
    // The client of a server that is gone is told, with the number that it acknowledged last.
    rig.write("b.remove", "10.0.0.1");
    rig.write("b.remove", "10.0.0.2");
    rig.advance(10 * MS);
    let resets = rig.data("back");
    assert_eq!(resets.len(), 1);
    assert_eq!(destination(&resets[0]), (CLIENT, 5));
    assert_eq!((resets[0][33], &resets[0][24..28]), (4, &[0, 0, 0, 2][..]));
}

#[test]
fn connections_go_on_after_a_restart() {
    let servers = "10.0.0.1, 10.0.0.2, 10.0.0.3";
    let mut before = rig(servers);
    let at: Vec<_> = (1..50)
        .map(|port| to(&mut before, port, SYN).unwrap())
        .collect();
    let mut after = Rig::new(&config("64, LOOSE true", servers));
    for (port, server) in (1..50).zip(&at) {
        // The server's segment comes first, and is lost.
        let segment = tcp(*server, (CLIENT, port), ACK, b"more");
        after.push("s", &segment);
        assert!(after.data("back").is_empty());
        assert_eq!(to(&mut after, port, ACK), Some(*server));
        after.push("s", &segment);
        assert_eq!(after.data("back").len(), 1);
    }
    assert_eq!(after.read("t.count"), "49");
}

#[test]
fn connections_outlive_a_hotswap() {
    let mut rig = rig("10.0.0.1, 10.0.0.2");
    let before: Vec<_> = (1..20).map(|port| to(&mut rig, port, SYN)).collect();
    for tracker in ["64", "128"] {
        // One server more, one less, and another order of declarations.
        let changed = config(tracker, "10.0.0.3, 10.0.0.2");
        let (first, second) = changed.split_once(';').unwrap();
        let (second, rest) = second.split_once(';').unwrap();
        rig.swap(&std::format!("{second}; {first}; {rest}"));
        assert_eq!(rig.read("t.count"), "19");
        assert!(rig.read("b.servers").contains("10.0.0.1 removed 1 "));
    }
    for (port, at) in (1..20).zip(&before) {
        let now = to(&mut rig, port, SYN);
        assert_eq!(now, at.filter(|to| to.0 == server(2)));
    }
    // A smaller table has the connections that it has room for.
    rig.swap(&config("5", "10.0.0.2"));
    let count: usize = rig.read("t.count").parse().unwrap();
    assert!(count <= 5);
    rig.advance(10_000 * SECOND);
    assert_eq!(rig.read("t.count"), "0");
    assert!(rig.read("b.servers").starts_with("10.0.0.2 up 1 0 "));
}

/// A balancer whose servers are checked; `answer` gets what servers send.
fn checked(arguments: &str) -> Rig {
    Rig::new(&std::format!(
        "t :: ConnectionTracker(64); b :: FlowIPLoadBalancer(10.0.0.1:80);
         c :: Inject -> MarkIPHeader -> [0] t [0] -> [0] b [0] -> there :: Collect;
         Idle -> [1] t [1] -> [1] b [1] -> Discard; b[2] -> TCPReset -> refused :: Collect;
         answer :: Inject -> CheckIPHeader -> h :: HealthCheck(b, 10.0.0.254, {arguments}) -> checks :: Collect;"
    ))
}

/// A server's segment that answers one, with so many bytes.
fn answer(segment: &[u8], flags: u8, data: &[u8]) -> Vec<u8> {
    let number = |at: usize| u32::from_be_bytes(segment[at..at + 4].try_into().unwrap());
    let ports = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let payload = segment.len() as u32 - 40 + u32::from(segment[33] & SYN != 0);
    let from: [u8; 4] = segment[16..20].try_into().unwrap();
    let mut packet = tcp(
        (from.into(), ports(22)),
        (Ipv4Addr::new(10, 0, 0, 254), ports(20)),
        flags,
        data,
    );
    let sequence = if number(28) == 0 { 5000 } else { number(28) };
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&(number(24) + payload).to_be_bytes());
    complete_tcp(&mut packet);
    packet
}

#[test]
fn a_server_without_answer_goes_down_and_comes_back() {
    let mut rig = checked("http, PATH /up, INTERVAL 1s, TIMEOUT 300ms");
    assert_eq!(to(&mut rig, 1, SYN), Some((server(1), 80)));
    rig.advance(2 * SECOND + SECOND / 2);
    assert_eq!(rig.read("h.failures"), "3");
    // Each is tried three times.
    assert_eq!(rig.data("checks").len(), 9);
    assert_contains(
        &rig.printed().join("\n"),
        "h: 10.0.0.1:80 is down: no answer in time",
    );
    assert_eq!(to(&mut rig, 1, ACK), None);
    assert_eq!(to(&mut rig, 2, SYN), None);
    for (round, pause) in [(0, SECOND / 2 + MS), (1, SECOND)] {
        assert_eq!(rig.read("h.successes"), round.to_string());
        rig.advance(pause);
        let syn = rig.data("checks").remove(0);
        assert_eq!(syn[33], SYN);
        rig.push("answer", &answer(&syn, SYN | ACK, &[]));
        let request = rig.data("checks").remove(0);
        let text = String::from_utf8(request[40..].to_vec()).unwrap();
        assert!(
            text.starts_with("GET /up HTTP/1.1\r\nHost: 10.0.0.1\r\n"),
            "{text}"
        );
        rig.push("answer", &answer(&request, ACK, b"HTTP/1.1 200 OK\r\n\r\n"));
        let reset = rig.data("checks").remove(0);
        assert_eq!(reset[33] & 4, 4);
    }
    assert_contains(&rig.printed().join("\n"), "h: 10.0.0.1:80 is healthy");
    assert_eq!(to(&mut rig, 3, SYN), Some((server(1), 80)));
    assert_eq!(rig.read("h.table"), "10.0.0.1:80 healthy answered\n");
}

#[test]
fn refusals_and_pings_are_checks_too() {
    let mut rig = checked("tcp, INTERVAL 1s, FALL 1");
    rig.advance(MS);
    let syn = rig.data("checks").remove(0);
    rig.push("answer", &answer(&syn, 0x14, &[]));
    assert_contains(&rig.printed().join("\n"), "is down: connection refused");
    let mut rig = checked("icmp, INTERVAL 1s");
    rig.advance(MS);
    let mut echo = rig.data("checks").remove(0);
    let source: [u8; 4] = echo[12..16].try_into().unwrap();
    echo.copy_within(16..20, 12);
    echo[16..20].copy_from_slice(&source);
    echo[20] = 0;
    rig.push("answer", &echo);
    rig.assert_handlers(&[("h.successes", "1"), ("h.failures", "0")]);
}

#[test]
fn wrong_checks_are_refused() {
    let check = |arguments: &str| {
        std::format!(
            "b :: FlowIPLoadBalancer(10.0.0.1); i :: Idle -> t :: ConnectionTracker(8) -> b; Idle -> [1] t [1] -> [1] b; b[0], b[1], b[2] -> Discard; Idle -> HealthCheck(b, 1.0.0.1, {arguments}) -> Discard;"
        )
    };
    for (arguments, said) in [
        ("udp", "write tcp, http, icmp or none"),
        ("tcp, INTERVAL 50ms", "INTERVAL must be from 100ms to 1h"),
        (
            "tcp, TIMEOUT 3s",
            "TIMEOUT must not be longer than INTERVAL",
        ),
        ("http, PATH up", "PATH must begin with /"),
        ("tcp, FALL 0", "RISE and FALL must be from 1"),
    ] {
        Rig::refuses(&check(arguments), said);
    }
}
