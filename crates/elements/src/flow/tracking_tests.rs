//! A connection tracker, and the firewall behind it.

use proptest::prelude::*;
use std::vec::Vec;

use crate::testing::*;

const SECOND: u64 = 1_000_000_000;
const A: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const B: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn there(flags: u8) -> Vec<u8> {
    tcp((A, 1000), (B, 80), flags, &[])
}

fn back(flags: u8) -> Vec<u8> {
    tcp((B, 80), (A, 1000), flags, &[])
}

fn datagram(port: u16) -> Vec<u8> {
    udp((A, port), (B, 53), &[0; 8])
}

fn answer(port: u16) -> Vec<u8> {
    udp((B, 53), (A, port), &[0; 8])
}

/// A tracker with `arguments`, by whose input 0 packets from A come, and by input 1 those from B.
fn tracker(arguments: &str) -> Rig {
    Rig::new(&std::format!(
        "i :: Inject -> MarkIPHeader -> t :: ConnectionTracker({arguments}) -> n :: FlowCounter -> c :: Collect;
         j :: Inject -> MarkIPHeader -> [1] t [1] -> m :: FlowCounter -> d :: Collect;"
    ))
}

fn handshake(rig: &mut Rig) {
    rig.push("i", &there(SYN));
    rig.push("j", &back(SYN | ACK));
    rig.push("i", &there(ACK));
}

#[test]
fn both_directions_have_one_number() {
    let mut rig = tracker("CAPACITY 8");
    handshake(&mut rig);
    rig.push("i", &datagram(7));
    rig.push("j", &answer(7));
    rig.push("i", &ping(A, B, &[]));
    let marks = |rig: &mut Rig, name: &str| -> Vec<_> {
        let packets = rig.collected(name);
        let marks = packets.iter();
        marks.map(|p| (p.flow().unwrap(), p.is_reply())).collect()
    };
    assert_eq!(
        marks(&mut rig, "c"),
        [(0, false), (0, false), (1, false), (2, false)]
    );
    assert_eq!(marks(&mut rig, "d"), [(0, true), (1, true)]);
    assert_eq!(rig.read("t.count"), "3");
    let table = rig.read("t.table");
    assert_contains(
        &table,
        "6 established (10.1.0.2, 1000, 10.2.0.2, 80) (10.2.0.2, 80, 10.1.0.2, 1000) 7440",
    );
    assert_contains(&table, "17 replied");
    assert_contains(&table, "1 new");
    rig.write("t.clear", "");
    assert_eq!(
        (rig.read("t.count"), rig.read("n.open")),
        ("0".into(), "0".into())
    );
}

#[test]
fn errors_belong_to_the_connection_that_they_are_about() {
    let mut rig = Rig::new(
        "i :: Inject -> MarkIPHeader -> t :: ConnectionTracker(8) -> copy :: Tee -> Discard;
         copy[1] -> ICMPError(10.9.0.1, unreachable, port) -> CheckIPHeader -> [1] t [1] -> d :: Collect;",
    );
    for packet in [datagram(7), ping(A, B, &[]), there(SYN)] {
        rig.push("i", &packet);
        let error = rig.collected("d").pop().expect("the error is related");
        assert!(error.is_reply() && error.is_related());
    }
    assert_eq!(rig.read("t.count"), "3");
}

#[test]
fn what_belongs_to_no_connection_is_dropped() {
    let mut rig = tracker("CAPACITY 8");
    let mut fragment = datagram(1);
    fragment[6] = 0x20;
    let mut reply = ping(A, B, &[]);
    reply[20] = 0;
    let mut stray = ping(A, B, &[0; 40]);
    stray[20] = 3;
    let mut short = datagram(1);
    short.truncate(25);
    for packet in [
        there(ACK),
        there(SYN | FIN),
        there(SYN | ACK),
        there(0),
        there(RST),
        fragment,
        reply,
        stray,
        short,
    ] {
        rig.push("i", &packet);
    }
    assert_eq!(rig.data("c").len(), 0);
    assert_eq!(
        (
            rig.read("t.invalid"),
            rig.read("t.fragments"),
            rig.read("t.count")
        ),
        ("8".into(), "1".into(), "0".into())
    );
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn connections_end_when_their_time_is_up() {
    let mut rig = tracker("CAPACITY 8, TCP 20, TCP_CLOSING 5, TCP_CLOSED 5, UDP_OPENING 3, UDP 9");
    handshake(&mut rig);
    rig.push("i", &datagram(1));
    rig.push("i", &datagram(2));
    rig.push("j", &answer(2));
    rig.advance(4 * SECOND);
    assert_eq!(rig.read("t.count"), "2", "without a reply it ended");
    rig.advance(6 * SECOND);
    assert_eq!(rig.read("t.count"), "1");
    rig.push("i", &there(FIN | ACK));
    rig.push("j", &back(FIN | ACK));
    rig.advance(6 * SECOND);
    assert_eq!(
        (rig.read("t.count"), rig.read("n.open")),
        ("0".into(), "0".into())
    );
    rig.push("j", &back(ACK));
    assert_eq!(rig.read("t.invalid"), "1");
}

/// A segment with other numbers.
fn numbered(mut packet: Vec<u8>, sequence: u32, acknowledgment: u32) -> Vec<u8> {
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&acknowledgment.to_be_bytes());
    complete_tcp(&mut packet);
    packet
}

#[test]
fn forged_segments_end_no_connection() {
    let mut rig = tracker("CAPACITY 8");
    handshake(&mut rig);
    for number in (0..64u32).map(|it| it.wrapping_mul(0x1234_5679) ^ 0x4000_0000) {
        for flags in [RST, RST | ACK, FIN | ACK, SYN, SYN | ACK] {
            rig.push("i", &numbered(there(flags), number, number));
            rig.push("j", &numbered(back(flags), number, number));
        }
        // They move no window either.
        rig.push("i", &numbered(there(ACK), number, number));
        rig.push("j", &numbered(back(ACK), number, number));
    }
    assert_contains(&rig.read("t.table"), "6 established ");
    // They pass: their receivers know better.
    assert_eq!(rig.data("c").len(), 2 + 6 * 64);
    rig.push("i", &numbered(there(FIN | ACK), 2, 2));
    assert_contains(&rig.read("t.table"), "6 fin ");
    rig.push("j", &numbered(back(FIN | ACK), 2, 3));
    assert_contains(&rig.read("t.table"), "6 closed ");
}

#[test]
fn a_refusal_answers_the_syn() {
    let mut rig = tracker("CAPACITY 8");
    rig.push("i", &there(SYN));
    rig.push("j", &numbered(back(RST | ACK), 0, 77));
    assert_contains(&rig.read("t.table"), "6 syn-sent ");
    rig.push("j", &numbered(back(RST | ACK), 0, 2));
    assert_contains(&rig.read("t.table"), "6 reset ");
}

#[test]
fn a_closed_connection_can_begin_anew() {
    let mut rig = tracker("CAPACITY 8");
    handshake(&mut rig);
    rig.push("j", &numbered(back(RST), 2, 0));
    rig.push("i", &there(SYN));
    assert_eq!(
        (rig.read("t.opened"), rig.read("t.count")),
        ("2".into(), "1".into())
    );
    assert_contains(&rig.read("t.table"), "syn-sent");
}

#[test]
fn a_loose_tracker_picks_up_older_connections() {
    let mut rig = tracker("CAPACITY 2, LOOSE true");
    rig.push("i", &there(ACK));
    assert_contains(&rig.read("t.table"), "6 new ");
    rig.push("j", &back(ACK));
    assert_contains(&rig.read("t.table"), "6 established ");
    // Others are unconfirmed until they are answered, and make room for each other.
    for port in 1..10 {
        rig.push("i", &tcp((A, port), (B, 80), ACK, &[]));
    }
    rig.push("i", &there(ACK | FIN));
    rig.push("j", &back(ACK | FIN));
    rig.assert_handlers(&[("t.count", "2"), ("t.evicted", "8"), ("t.invalid", "0")]);
    assert_contains(&rig.read("t.table"), "6 closed ");
    // Nothing begins with a RST.
    rig.push("i", &tcp((A, 99), (B, 80), RST, &[]));
    assert_eq!(rig.read("t.invalid"), "1");
}

#[test]
fn a_flood_of_new_connections_costs_no_established_one() {
    let mut rig = tracker("CAPACITY 4");
    handshake(&mut rig);
    for port in 0..1000 {
        rig.push("i", &datagram(port));
    }
    assert_eq!(
        (rig.read("t.count"), rig.read("t.evicted")),
        ("4".into(), "997".into())
    );
    rig.data("d");
    rig.push("j", &back(ACK));
    assert_eq!(rig.data("d").len(), 1);
    // One that is answered in time stays.
    rig.push("j", &answer(999));
    for port in 2000..2010 {
        rig.push("i", &datagram(port));
    }
    rig.data("d");
    rig.push("j", &answer(999));
    assert_eq!((rig.data("d").len(), rig.read("t.drops")), (1, "0".into()));
    // Confirmed connections make no room.
    for port in 3000..3010 {
        rig.push("i", &datagram(port));
        rig.push("j", &answer(port));
    }
    assert_eq!(rig.read("t.count"), "4");
    assert!(rig.read("t.drops").parse::<u32>().unwrap() > 0);
    assert!(
        rig.printed()
            .join("\n")
            .contains("all 4 connections are in use")
    );
}

const RULES: &str = "allow from inside tcp dst port 80
allow from inside udp # all of it
reject from inside icmp
deny from outside src 10.2.0.9
allow from outside icmp type echo";

/// A firewall between inside (`i`, `c`) and outside (`j`, `d`); `r` gets what is rejected.
fn firewall(rules: &str) -> Rig {
    Rig::new(&firewall_config(rules))
}

fn firewall_config(rules: &str) -> String {
    std::format!(
        "i :: Inject -> MarkIPHeader -> t :: ConnectionTracker(64)
            -> f :: FlowFirewall(\"{rules}\", SIDES inside outside) -> d :: Collect;
         j :: Inject -> MarkIPHeader -> [1] t [1] -> [1] f [1] -> c :: Collect;
         f[2] -> r :: Collect;"
    )
}

#[test]
fn decisions_outlive_a_hotswap() {
    let mut rig = firewall(RULES);
    rig.push("i", &datagram(1));
    assert_eq!(rig.data("d").len(), 1);
    rig.swap(&firewall_config(RULES));
    rig.push("j", &answer(1));
    assert_eq!(rig.data("c").len(), 1);
    assert_eq!(
        (rig.read("f.former"), rig.read("t.opened")),
        ("0".into(), "1".into())
    );
    assert!(
        rig.read("f.hits")
            .lines()
            .any(|line| line.starts_with("1 2 "))
    );
    // Other rules are for new connections.
    rig.swap(&firewall_config("deny"));
    rig.push("j", &answer(1));
    rig.push("i", &datagram(2));
    assert_eq!((rig.data("d").len(), rig.data("c").len()), (0, 1));
    assert_eq!(rig.read("f.former"), "1");
}

#[test]
fn what_is_allowed_passes_with_its_replies() {
    let mut rig = firewall(RULES);
    handshake(&mut rig);
    rig.push("i", &datagram(1));
    rig.push("j", &answer(1));
    assert_eq!((rig.data("d").len(), rig.data("c").len()), (3, 2));
    // Nothing begins outside but pings.
    rig.push("j", &tcp((B, 80), (A, 2000), SYN, &[]));
    rig.push("j", &udp((B, 53), (A, 99), &[0; 8]));
    rig.push("j", &ping(B, A, &[]));
    assert_eq!(rig.data("c").len(), 1);
    rig.push("i", &ping(A, B, &[]));
    assert_eq!((rig.data("d").len(), rig.data("r").len()), (0, 1));
    assert_eq!(
        rig.read("f.hits"),
        "1 3 allow from inside tcp dst port 80\n1 2 allow from inside udp\n\
         1 1 reject from inside icmp\n0 0 deny from outside src 10.2.0.9\n\
         1 1 allow from outside icmp type echo\n"
    );
    assert_eq!(
        (rig.read("f.unmatched"), rig.read("f.denied")),
        ("2".into(), "3".into())
    );
    // Denied connections take no room.
    rig.push("i", &datagram(1));
    assert_eq!(rig.read("t.count"), "3");
}

#[test]
fn a_denied_connection_stays_denied_within_a_batch() {
    let mut rig = firewall("allow from inside tcp dst port 80 and opt ack");
    rig.push_all("i", &[there(SYN), there(SYN), there(SYN)]);
    assert_eq!((rig.data("d").len(), rig.read("f.denied")), (0, "3".into()));
    rig.push("i", &datagram(1));
    assert_eq!((rig.read("t.count"), rig.outstanding()), ("1".into(), 0));
    // Its number is another's now, which the rules allow or not by themselves.
    rig.write("f.rules", "allow from inside udp");
    rig.push("i", &datagram(2));
    assert_eq!(rig.data("d").len(), 1);
}

#[test]
fn rules_change_while_connections_go_on() {
    let mut rig = firewall(RULES);
    handshake(&mut rig);
    rig.write("f.rules", "deny\n");
    rig.push("i", &there(ACK));
    rig.push("j", &back(ACK));
    rig.push("i", &datagram(1));
    assert_eq!((rig.data("d").len(), rig.data("c").len()), (3, 2));
    assert_eq!(
        (rig.read("f.former"), rig.read("f.hits")),
        ("2".into(), "1 1 deny\n".into())
    );
    let error = rig
        .try_write("f.rules", "allow\nallow from nowhere\n")
        .unwrap_err();
    assert_eq!(
        error,
        HandlerError::failed(
            FailureKind::Invalid,
            "line 2: ‘nowhere’ is no side: write inside or outside"
        )
    );
    assert_eq!(rig.read("f.rules"), "deny\n");
    rig.write("f.reset", "");
    assert_eq!(rig.read("f.hits"), "0 0 deny\n");
}

#[test]
fn a_thousand_rules_decide_by_the_first_that_matches() {
    let mut rules = std::string::String::new();
    for port in 1..=1000 {
        let action = ["allow", "deny"][port % 2];
        rules += &std::format!("{action} from inside udp dst port {port}\n");
    }
    let mut rig = firewall("deny");
    rig.write("f.rules", &rules);
    for port in [1, 2, 500, 999, 1000, 1001] {
        rig.push("i", &udp((A, 9), (B, port), &[0; 8]));
    }
    let passed: Vec<_> = rig
        .data("d")
        .iter()
        .map(|data| u16::from_be_bytes([data[22], data[23]]))
        .collect();
    assert_eq!(passed, [2, 500, 1000]);
    assert_eq!(rig.read("f.unmatched"), "1");
}

#[test]
fn mistakes_are_named() {
    for (config, said) in [
        ("\"allow\nfoo\"", "RULES: line 2: 'foo' is no action"),
        (
            "\"allow\nallow tcp dst port\"",
            "RULES: line 2: 'dst port': value missing",
        ),
        ("\"allow from x\"", "RULES: line 1: 'x' is no side: write 0"),
        (
            "\"allow\", SIDES a b",
            "SIDES must name 1 sides, one for each input",
        ),
    ] {
        Rig::refuses(
            &std::format!("Idle -> ConnectionTracker -> FlowFirewall({config}) -> Discard;"),
            said,
        );
    }
    Rig::refuses(
        "Idle -> f :: FlowIPManager -> FlowFirewall(allow) -> Discard;",
        "'f' tracks no connections; put a ConnectionTracker in its place",
    );
    Rig::refuses(
        "Idle -> ConnectionTracker(0) -> Discard;",
        "CAPACITY must be from 1 to 4194304",
    );
}

proptest! {
    /// Whatever bytes come, no packet is lost or sent twice, and the table keeps to its limit.
    #[test]
    fn hostile_packets_do_no_harm(
        packets in prop::collection::vec(
            (any::<bool>(), 0usize..6, prop::collection::vec((0usize..64, any::<u8>()), 0..6), 0usize..70),
            1..120,
        ),
    ) {
        let mut rig = firewall(RULES);
        let bases = [there(SYN), back(SYN | ACK), datagram(1), answer(1), ping(A, B, &[0; 40]), {
            let mut error = ping(B, A, &datagram(1));
            error[20] = 3;
            error
        }];
        let total = packets.len();
        for (outside, base, changes, length) in packets {
            let mut packet = bases[base].clone();
            for (at, value) in changes {
                if let Some(byte) = packet.get_mut(at) {
                    *byte = value;
                }
            }
            packet.truncate(length.max(1));
            rig.push(["i", "j"][usize::from(outside)], &packet);
        }
        let number = |rig: &mut Rig, name: &str| rig.read(name).parse::<usize>().unwrap();
        let passed = rig.data("c").len() + rig.data("d").len();
        let rejected = rig.data("r").len();
        let dropped: usize = ["t.invalid", "t.fragments", "t.drops", "f.denied"]
            .iter()
            .map(|name| number(&mut rig, name))
            .sum();
        // What is rejected counts as denied, too.
        prop_assert_eq!(passed + dropped, total);
        prop_assert!(rejected <= dropped && number(&mut rig, "t.count") <= 64);
        prop_assert_eq!(rig.outstanding(), 0);
    }
}
