//! Flows behind a tracker.

use std::string::String;
use std::vec::Vec;

use crate::dpi::hello::tests::{client_hello, in_records};
use crate::dpi::quic::tests::{crypto_frame, initial};
use crate::testing::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

fn config(policy: &str, arguments: &str) -> String {
    std::format!(
        "i :: Inject -> MarkIPHeader -> t :: ConnectionTracker(64)
             -> d :: FlowDPI(\"{policy}\"{arguments}) -> c :: Collect;
         j :: Inject -> MarkIPHeader -> [1] t [1] -> [1] d [1] -> s :: Collect; d[2] -> o :: Collect;"
    )
}

fn rig(policy: &str, arguments: &str) -> Rig {
    Rig::new(&config(policy, arguments))
}

/// A segment from the client, or from the server, whose data stand at a position of its stream.
fn segment(port: u16, reply: bool, position: u32, data: &[u8]) -> Vec<u8> {
    let (from, to) = ((A, port), (B, 443));
    let mut packet = match reply {
        false => tcp(from, to, ACK, data),
        true => tcp(to, from, ACK, data),
    };
    packet[24..28].copy_from_slice(&(101 + position).to_be_bytes());
    complete_tcp(&mut packet);
    packet
}

fn open(rig: &mut Rig, port: u16) {
    for (name, from, to, flags) in [
        ("i", (A, port), (B, 443), SYN),
        ("j", (B, 443), (A, port), SYN | ACK),
    ] {
        let mut syn = tcp(from, to, flags, &[]);
        syn[24..28].copy_from_slice(&100u32.to_be_bytes());
        complete_tcp(&mut syn);
        rig.push(name, &syn);
    }
    rig.push("i", &segment(port, false, 0, &[]));
}

fn hello(server: &str) -> Vec<u8> {
    in_records(&client_hello(server, "h2", 0), 2000)
}

#[test]
fn flows_are_told_and_counted() {
    let mut rig = rig("", ", APPLICATIONS \"web example.com\"");
    open(&mut rig, 1);
    rig.push("i", &segment(1, false, 0, &hello("www.example.com")));
    open(&mut rig, 2);
    rig.push("j", &segment(2, true, 0, b"SSH-2.0-x\r\n"));
    rig.push("i", &ping(A, B, b"x"));
    rig.push("i", &udp((A, 9), (B, 9), b"hello"));
    assert_eq!(
        rig.read("d.protocols"),
        "icmp 1 1 29\nssh 1 4 171\ntls 1 4 289\n"
    );
    assert_eq!(rig.read("d.applications"), "web 1 4 289\n");
    assert_eq!(rig.read("d.names"), "www.example.com 1 0\n");
    let flows = rig.read("d.flows");
    assert_contains(&flows, " tls web www.example.com h2 4 289\n");
    assert_contains(&flows, " ssh - - - 4 171\n");
    assert_contains(&flows, " unknown - - - 1 33\n");
    // At its end, a flow that was not told is counted too.
    rig.write("t.clear", "");
    assert_contains(&rig.read("d.protocols"), "unknown 1 1 33\n");
    assert_eq!(rig.read("d.flows"), "");
    rig.write("d.reset", "");
    rig.assert_handlers(&[("d.protocols", ""), ("d.names", "")]);
}

#[test]
fn flows_over_ipv6_are_told() {
    let config = config("", "").replace("MarkIPHeader", "MarkIP6Header");
    let mut rig = Rig::new(&config);
    let mut push = |name: &str, packet: Vec<u8>| rig.push(name, &ip6::from_v4(&packet));
    for (name, from, to, flags) in [
        ("i", (A, 1), (B, 443), SYN),
        ("j", (B, 443), (A, 1), SYN | ACK),
    ] {
        let mut syn = tcp(from, to, flags, &[]);
        syn[24..28].copy_from_slice(&100u32.to_be_bytes());
        push(name, syn);
    }
    let hello = hello("www.example.com");
    let (first, rest) = hello.split_at(100);
    push("i", segment(1, false, 100, rest));
    push("i", segment(1, false, 0, first));
    assert_eq!(rig.read("d.names"), "www.example.com 1 0\n");
    assert_contains(
        &rig.read("d.flows"),
        "6 (2001:db8::100:1, 1, 2001:db8::200:2, 443) tls - www.example.com h2 4 ",
    );
    // With the IPv6 headers.
    let bytes = 4 * 60 + hello.len();
    assert_contains(&rig.read("d.protocols"), &std::format!("tls 1 4 {bytes}\n"));
}

#[test]
fn a_blocked_name_is_dropped_from_its_hello_on() {
    let mut rig = rig("drop name bad.example", "");
    for (port, server, passes) in [(1, "www.bad.example", 0), (2, "notbad.example", 2)] {
        open(&mut rig, port);
        rig.data("c");
        rig.data("s");
        rig.push("i", &segment(port, false, 0, &hello(server)));
        rig.push("i", &segment(port, false, 600, b"more"));
        assert_eq!(rig.data("c").len(), passes, "{server}");
        rig.push("j", &segment(port, true, 0, b"answer"));
        assert_eq!(rig.data("s").len(), passes / 2, "{server}");
    }
    rig.assert_handlers(&[("d.drops", "3"), ("d.hits", "1 drop name bad.example\n")]);
}

#[test]
fn rules_mark_and_send_elsewhere() {
    let policy = "dscp 46 protocol dns\npaint 7 protocol icmp\noutput 2 protocol ntp";
    let mut rig = rig(policy, "");
    let query =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01";
    rig.push("i", &udp((A, 5), (B, 53), query));
    let sent = rig.data("c");
    assert_eq!(sent[0][1], 46 << 2);
    assert_eq!(checksum(&sent[0][..20]), 0);
    rig.push("i", &ping(A, B, b"x"));
    assert_eq!(rig.collected("c")[0].paint(), 7);
    let mut ntp = std::vec![0x23];
    ntp.resize(48, 0);
    rig.push("i", &udp((A, 123), (B, 123), &ntp));
    assert_eq!(rig.data("o").len(), 1);
    // Other rules are for flows that come.
    rig.write("d.policy", "drop protocol dns");
    rig.push("i", &udp((A, 5), (B, 53), query));
    rig.push("i", &udp((A, 6), (B, 53), query));
    assert_eq!(rig.data("c").len(), 1);
}

#[test]
fn a_hello_in_two_datagrams_of_quic_is_put_together() {
    let message = client_hello("quic.example", "h3", 1200);
    let mut rig = rig("drop name quic.example", "");
    let (first, second) = message.split_at(1000);
    let id = [1, 2, 3, 4, 5, 6, 7, 8];
    // The server's name is in the second part.
    for (number, offset, part) in [(0, 0, first), (1, 1000, second)] {
        let packet = initial(1, &id, number, &crypto_frame(offset, part), 1162);
        rig.push("i", &udp((A, 5), (B, 443), &packet));
    }
    assert_contains(&rig.read("d.flows"), " quic - quic.example h3 ");
    assert_eq!((rig.data("c").len(), rig.read("d.drops")), (1, "1".into()));
    // Of a server that talks first, or a version that is not known, no name.
    rig.push(
        "i",
        &udp((A, 6), (B, 443), b"\xc0\xff\x00\x00\x1d\x01a\x01b"),
    );
    assert_contains(&rig.read("d.flows"), " quic - - - ");
}

#[test]
fn two_datagrams_in_a_row_are_rtp() {
    let mut rig = rig("", "");
    let packet = |number: u8| {
        [
            &[0x80, 0x60, 0, number],
            &[1, 2, 3, 4, 9, 9, 9, 9][..],
            &[7; 160],
        ]
        .concat()
    };
    rig.push("j", &udp((B, 4000), (A, 4000), &packet(1)));
    assert_eq!(rig.read("d.protocols"), "");
    rig.push("j", &udp((B, 4000), (A, 4000), &packet(2)));
    assert_contains(&rig.read("d.protocols"), "rtp 1 2 ");
}

/// Opens a connection whose numbers are right.
fn open_rightly(rig: &mut Rig, port: u16) {
    for (name, from, to, flags, numbers) in [
        ("i", (A, port), (B, 443), SYN, [100u32, 0]),
        ("j", (B, 443), (A, port), SYN | ACK, [6, 101]),
        ("i", (A, port), (B, 443), ACK, [101, 7]),
    ] {
        let mut packet = tcp(from, to, flags, &[]);
        for (place, number) in packet[24..32].chunks_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        complete_tcp(&mut packet);
        rig.push(name, &packet);
    }
    rig.data("c");
}

/// The same segment with another acknowledgment.
fn acknowledging(mut packet: Vec<u8>, acknowledgment: u32) -> Vec<u8> {
    packet[28..32].copy_from_slice(&acknowledgment.to_be_bytes());
    complete_tcp(&mut packet);
    packet
}

#[test]
fn what_the_server_does_not_take_hides_nothing() {
    let (good, bad) = (hello("good.example"), hello("bad.example"));
    let mut damaged = acknowledging(segment(1, false, 0, &good), 7);
    damaged[36] ^= 1;
    let mut syn = tcp((A, 1), (B, 443), SYN, &[]);
    syn[24..28].copy_from_slice(&5000u32.to_be_bytes());
    complete_tcp(&mut syn);
    for decoy in [
        damaged,
        syn,
        acknowledging(segment(1, false, 1 << 30, b"x"), 7),
        acknowledging(segment(1, false, 70_000, b"x"), 7),
        acknowledging(segment(1, false, 8300, b"x"), 7),
        acknowledging(segment(1, false, u32::MAX - 200_000, b"x"), 7),
        // The server sent nothing yet that this acknowledges.
        acknowledging(segment(1, false, 0, &good), 1000),
    ] {
        let mut rig = rig("drop name bad.example", "");
        open_rightly(&mut rig, 1);
        rig.push("i", &decoy);
        assert_eq!(rig.data("c").len(), 1, "{decoy:?}");
        rig.push("i", &acknowledging(segment(1, false, 0, &bad), 7));
        assert_eq!(rig.data("c").len(), 0, "{decoy:?}");
        assert_eq!(rig.read("d.drops"), "1", "{decoy:?}");
    }
}

#[test]
fn a_second_copy_that_differs_is_dropped() {
    let (good, bad) = (hello("good.example"), hello("evil.example"));
    for (first, at) in [(&good[20..], 20), (&good[..good.len() - 1], 0)] {
        let mut rig = rig("drop name evil.example", "");
        open_rightly(&mut rig, 1);
        rig.push("i", &acknowledging(segment(1, false, at, first), 7));
        rig.push("i", &acknowledging(segment(1, false, 0, &bad), 7));
        assert_eq!(rig.data("c").len(), 1, "{at}");
        assert_eq!(rig.read("d.conflicts"), "1", "{at}");
        // The same bytes again are right.
        rig.push("i", &acknowledging(segment(1, false, 0, &good), 7));
        assert_eq!(rig.data("c").len(), 1, "{at}");
        rig.assert_handlers(&[("d.names", "good.example 1 0\n"), ("d.conflicts", "1")]);
    }
    // A ninth piece would not be known.
    let mut rig = rig("", "");
    open_rightly(&mut rig, 1);
    for at in (1..10).rev() {
        rig.push("i", &acknowledging(segment(1, false, 10 * at, b"x"), 7));
    }
    assert_eq!(rig.data("c").len(), 8);
}

#[test]
fn a_request_with_two_hosts_is_all_that_may_be_dropped() {
    let request = b"GET / HTTP/1.1\r\nHost: good.example\r\nHost: bad.example\r\n\r\n";
    for (policy, passes) in [
        ("drop name bad.example", 0),
        ("pass name good.example\ndrop protocol http", 0),
        ("pass protocol http", 1),
    ] {
        let mut rig = rig(policy, "");
        open_rightly(&mut rig, 1);
        rig.push("i", &acknowledging(segment(1, false, 0, request), 7));
        assert_eq!(rig.data("c").len(), passes, "{policy}");
    }
}

#[test]
fn streams_have_a_limit_beyond_which_the_first_segment_decides() {
    let mut rig = rig("", ", STREAMS 1");
    let hello = hello("www.example.com");
    for port in [1, 2] {
        open(&mut rig, port);
        rig.push("i", &segment(port, false, 0, &hello[..50]));
    }
    assert_eq!(rig.read("d.unassembled"), "1");
    for port in [1, 2] {
        rig.push("i", &segment(port, false, 50, &hello[50..]));
    }
    let flows = rig.read("d.flows");
    assert_contains(&flows, " tls - www.example.com h2 ");
    assert_contains(&flows, " tls - - - ");
    // What is decided needs no stream.
    open(&mut rig, 3);
    rig.push("i", &segment(3, false, 0, &hello[..50]));
    rig.push("i", &segment(3, false, 50, &hello[50..]));
    rig.assert_handlers(&[("d.unassembled", "1"), ("d.names", "www.example.com 2 0\n")]);
}

#[test]
fn what_tells_nothing_is_unknown_after_a_while() {
    let mut rig = rig("drop protocol unknown", "");
    open(&mut rig, 1);
    rig.push("i", &segment(1, false, 0, b"0123456789abcdefghij"));
    rig.push("j", &segment(1, true, 0, b"0123456789abcdefghij"));
    assert_contains(&rig.read("d.protocols"), "unknown 1 ");
    open(&mut rig, 2);
    for at in 0..16 {
        rig.push("i", &segment(2, false, 20 * at, b"0123456789abcdefghij"));
    }
    assert_contains(&rig.read("d.protocols"), "unknown 2 ");
    for _ in 0..8 {
        rig.push("i", &udp((A, 5), (B, 5), b"hello"));
    }
    assert_contains(&rig.read("d.protocols"), "unknown 3 ");
    // The last bytes of a window decide with what is known.
    open(&mut rig, 3);
    rig.push("i", &segment(3, false, 0, b"GET / HTTP/1.1\r\nX: "));
    for at in 0..50 {
        rig.push("i", &segment(3, false, 19 + 100 * at, &[b'x'; 100]));
    }
    assert_contains(&rig.read("d.protocols"), "http 1 ");
}

#[test]
fn what_is_decided_outlives_a_hotswap() {
    let mut rig = rig("drop name bad.example", "");
    open(&mut rig, 1);
    rig.push("i", &segment(1, false, 0, &hello("bad.example")));
    rig.swap(&config("pass", ", APPLICATIONS \"worst bad.example\""));
    rig.data("c");
    rig.push("i", &segment(1, false, 600, b"more"));
    assert_eq!(rig.data("c").len(), 0);
    assert_contains(&rig.read("d.flows"), " tls worst bad.example h2 ");
    assert_contains(&rig.read("d.protocols"), "tls 1 5 ");
}

#[test]
fn mistakes_are_named() {
    for (policy, arguments, reason) in [
        ("pass\ndrop it", "", "POLICY: line 2: 'it' is no condition"),
        (
            "drop application web",
            "",
            "POLICY: line 1: there is no application 'web'",
        ),
        ("output 3", "", "there is no output 3: the last is 2"),
        (
            "",
            ", APPLICATIONS web",
            "APPLICATIONS: line 1: the application 'web' lacks a domain",
        ),
        ("", ", WINDOW 100", "WINDOW must be from 512 to 65536"),
        ("", ", TOP 0", "TOP must be from 1 to 65536"),
    ] {
        Rig::refuses(&config(policy, arguments), reason);
    }
    let mut rig = rig("pass application web", ", APPLICATIONS \"web a.example\"");
    let wrong = rig.try_write("d.domains", "mail b.example").unwrap_err();
    assert_contains(
        &std::format!("{wrong:?}"),
        "no application ‘web’, which the policy names",
    );
    let wrong = rig.try_write("d.policy", "pass\npermit").unwrap_err();
    assert_contains(&std::format!("{wrong:?}"), "line 2: ‘permit’ is no action");
    rig.assert_handlers(&[
        ("d.policy", "pass application web"),
        ("d.domains", "web a.example"),
    ]);
    rig.write("d.domains", "web b.example");
}

proptest! {
    /// However a hello is cut into segments, the name is found.
    #[test]
    fn a_name_is_found_however_it_is_cut(
        record in 20usize..2000,
        cuts in prop::collection::vec(1usize..200, 1..12),
        swaps in prop::collection::vec((0usize..40, 0usize..4), 0..6),
    ) {
        let stream = in_records(&client_hello("www.example.com", "h2", 300), record);
        let (mut segments, mut from) = (Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            let to = (from + cut).min(stream.len());
            segments.push((from as u32, &stream[from..to]));
            from = to;
            if from == stream.len() || segments.len() > 100 {
                break;
            }
        }
        segments.push((from as u32, &stream[from..]));
        for (at, by) in swaps {
            let (a, b) = (at.min(segments.len() - 1), (at + by).min(segments.len() - 1));
            segments.swap(a, b);
        }
        let mut rig = rig("", "");
        open(&mut rig, 1);
        for (position, data) in segments {
            rig.push("i", &segment(1, false, position, data));
        }
        prop_assert_eq!(rig.read("d.names"), "www.example.com 1 0\n");
    }
}
