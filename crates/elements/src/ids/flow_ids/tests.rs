//! The IDS behind a tracker.

use std::vec::Vec;

use crate::testing::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

fn rig(rules: &str, arguments: &str) -> Rig {
    let rules = rules
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('$', "\\$");
    Rig::new(&std::format!(
        "t :: ConnectionTracker(64);
         i :: Inject -> version :: Classifier(0/60%f0, -);
         version[0] -> MarkIP6Header -> t;
         version[1] -> MarkIPHeader -> t
             -> d :: FlowIDS(\"{rules}\"{arguments}) -> c :: Collect;
         j :: Inject -> back :: Classifier(0/60%f0, -);
         back[0] -> MarkIP6Header -> [1] t;
         back[1] -> MarkIPHeader -> [1] t [1] -> [1] d [1] -> Discard;"
    ))
}

/// A segment from the client whose data stand at a position of the stream.
fn segment(port: u16, position: u32, data: &[u8]) -> Vec<u8> {
    let mut packet = tcp((A, port), (B, 80), ACK, data);
    packet[24..28].copy_from_slice(&(101 + position).to_be_bytes());
    complete_tcp(&mut packet);
    packet
}

fn open(rig: &mut Rig, port: u16) {
    let mut syn = tcp((A, port), (B, 80), SYN, &[]);
    syn[24..28].copy_from_slice(&100u32.to_be_bytes());
    complete_tcp(&mut syn);
    rig.push("i", &syn);
    rig.push("j", &tcp((B, 80), (A, port), SYN | ACK, &[]));
    rig.push("i", &segment(port, 0, &[]));
}

const PASSWD: &str = "alert tcp any any -> any 80 (msg:\"passwd\"; flow:established,to_server; content:\"/etc/passwd\"; sid:1;)";

#[test]
fn contents_are_found_across_segments_in_any_order() {
    let mut rig = rig(PASSWD, "");
    open(&mut rig, 1);
    rig.push("i", &segment(1, 7, b"c/pa"));
    rig.push("i", &segment(1, 11, b"sswd HTTP"));
    assert_eq!(rig.read("d.count"), "0");
    rig.push("i", &segment(1, 0, b"GET /et"));
    rig.assert_handlers(&[
        ("d.count", "1"),
        ("d.hits", "1 1 passwd\n"),
        ("d.gaps", "0"),
    ]);
    // Once for the flow; again for another.
    rig.push("i", &segment(1, 30, b"/etc/passwd"));
    rig.push("i", &segment(1, 20, b"1234567890"));
    assert_eq!(rig.read("d.count"), "1");
    open(&mut rig, 2);
    rig.push("i", &segment(2, 0, b"/etc/passwd"));
    assert_eq!(rig.read("d.count"), "2");
    let alerts = rig.read("d.alerts");
    assert_contains(
        &alerts,
        "\"src_ip\":\"1.0.0.1\",\"src_port\":1,\"dest_ip\":\"2.0.0.2\",\"dest_port\":80,\"proto\":\"TCP\"",
    );
    assert_eq!(alerts.lines().count(), 2);
    assert_contains(&rig.printed().concat(), "\"signature\":\"passwd\"");
    assert_eq!(rig.outstanding(), rig.data("c").len());
    rig.write("t.clear", "");
    rig.write("d.reset", "");
    rig.assert_handlers(&[("d.count", "0"), ("d.alerts", "")]);
}

#[test]
fn contents_are_found_over_ipv6() {
    let rules = "alert tcp [2001:db8::1.0.0.1/128] any -> !2001:db8:1::/48 80 (msg:\"passwd\"; content:\"/etc/passwd\"; sid:1;)\n\
                 alert tcp 1.0.0.0/8 any -> any any (msg:\"old\"; content:\"passwd\"; sid:2;)\n\
                 alert udp any any -> any 53 (msg:\"name\"; content:\"name\"; sid:3;)\n\
                 alert icmpv6 any any -> any any (msg:\"six\"; content:\"ping\"; sid:4;)\n\
                 alert icmp any any -> any any (msg:\"both\"; content:\"ping\"; sid:5;)";
    let mut rig = rig(rules, "");
    let mut push = |name: &str, packet: Vec<u8>| {
        let marked = ip6::from_v4(&packet);
        rig.push(name, &marked);
    };
    let mut syn = tcp((A, 1), (B, 80), SYN, &[]);
    syn[24..28].copy_from_slice(&100u32.to_be_bytes());
    push("i", syn);
    push("j", tcp((B, 80), (A, 1), SYN | ACK, &[]));
    push("i", segment(1, 0, &[]));
    push("i", segment(1, 7, b"c/passwd HTTP"));
    push("i", segment(1, 0, b"GET /et"));
    push("i", udp((A, 5), (B, 53), b"a name"));
    let mut damaged = ip6::from_v4(&udp((A, 6), (B, 53), b"a name"));
    damaged[50] ^= 1;
    rig.push("i", &damaged);
    let (a, b) = (ip6::addr("2001:db8::a"), ip6::addr("2001:db8::b"));
    rig.push("i", &ip6::icmp(a, b, (128, 0, [0; 4]), b"a ping"));
    rig.push("i", &ping(A, B, b"a ping"));
    rig.assert_handlers(&[
        ("d.hits", "1 1 passwd\n1 3 name\n1 4 six\n2 5 both\n"),
        ("d.damaged", "1"),
    ]);
    let text = "\"src_ip\":\"2001:db8::100:1\",\"src_port\":1,\"dest_ip\":\"2001:db8::200:2\",\"dest_port\":80";
    assert_contains(&rig.read("d.alerts"), text);
}

#[test]
fn neither_copy_of_overlapping_bytes_is_hidden() {
    for (first, second) in [
        (b"/etc/passwd", b"/etc/harmle"),
        (b"/etc/harmle", b"/etc/passwd"),
    ] {
        let mut rig = rig(PASSWD, "");
        open(&mut rig, 1);
        rig.push("i", &segment(1, 4, first));
        rig.push("i", &segment(1, 4, second));
        rig.push("i", &segment(1, 0, b"GET "));
        assert_eq!(rig.read("d.count"), "1", "{first:?}");
    }
}

#[test]
fn what_the_server_does_not_take_hides_nothing() {
    let mut damaged = segment(1, 0, b"GET harmless");
    damaged[36] ^= 1;
    for decoy in [
        segment(1, 1 << 30, b"x"),
        segment(1, 70_000, b"x"),
        segment(1, 500, b"x"),
        damaged,
    ] {
        let mut rig = rig(PASSWD, ", WINDOW 64");
        open(&mut rig, 1);
        // The server is heard: it takes 8192 bytes.
        let mut answer = tcp((B, 80), (A, 1), ACK, &[]);
        answer[24..32].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 101]);
        complete_tcp(&mut answer);
        rig.push("j", &answer);
        rig.push("i", &decoy);
        rig.push("i", &segment(1, 0, b"GET /etc"));
        rig.push("i", &segment(1, 8, b"/passwd"));
        rig.assert_handlers(&[("d.count", "1"), ("d.gaps", "0")]);
    }
}

#[test]
fn copies_that_differ_are_counted() {
    let mut rig = rig(PASSWD, "");
    open(&mut rig, 1);
    rig.push("i", &segment(1, 4, b"same"));
    rig.push("i", &segment(1, 4, b"same"));
    assert_eq!(rig.read("d.conflicts"), "0");
    rig.push("i", &segment(1, 2, b"xxsafe"));
    assert_eq!(rig.read("d.conflicts"), "1");
}

proptest! {
    /// Contents that come in one segment or in several, one long after the other, are found as long as both are among
    /// the last bytes.
    #[test]
    fn contents_are_found_in_all_of_a_window(
        rules in prop::collection::vec("[ab]{1,10}, [ab]{1,10}", 1..7),
        segments in prop::collection::vec("[ab]{1,9}|[c]{1,30}|[abc]{1,60}", 1..20),
        replaced: prop::sample::Index,
    ) {
        let contents: Vec<_> = rules.iter().map(|rule| rule.split_once(", ").unwrap()).collect();
        let lines = (1..).zip(&contents).map(|(sid, (a, b))| {
            std::format!("alert tcp any any -> any any (content:\"{a}\"; content:\"{b}\"; sid:{sid};)\n")
        });
        let text: std::string::String = lines.collect();
        let mut rig = rig("alert tcp any any -> any any (content:\"none\"; sid:1;)", ", WINDOW 64");
        open(&mut rig, 1);
        let stream = segments.concat();
        let (mut expected, mut end) = (std::collections::BTreeSet::new(), 0usize);
        let replaced = replaced.index(segments.len());
        for (number, segment) in segments.iter().enumerate() {
            if number == replaced {
                rig.write("d.rules", &text);
            }
            rig.push("i", &self::segment(1, end as u32, segment.as_bytes()));
            let start = end.saturating_sub(64);
            end += segment.len();
            let window = &stream[start..end];
            let holds = |(_, (a, b)): &(usize, &(&str, &str))| window.contains(a) && window.contains(b);
            let found = (1..).zip(&contents).filter(holds).map(|(sid, _)| sid);
            expected.extend(found.filter(|_| number >= replaced));
        }
        prop_assert_eq!(rig.read("d.hits").lines().count(), expected.len());
        prop_assert_eq!(rig.read("d.count"), expected.len().to_string());
    }
}

#[test]
fn streams_have_a_limit_beyond_which_segments_are_searched_one_by_one() {
    let mut rig = rig(PASSWD, ", STREAMS 1");
    open(&mut rig, 1);
    open(&mut rig, 2);
    rig.push("i", &segment(1, 0, b"GET "));
    rig.push("i", &segment(2, 0, b"GET /etc/pa"));
    rig.push("i", &segment(2, 11, b"sswd"));
    rig.assert_handlers(&[("d.count", "0"), ("d.unassembled", "2")]);
    rig.push("i", &segment(2, 15, b" /etc/passwd"));
    rig.assert_handlers(&[("d.count", "1"), ("d.unassembled", "3")]);
    // The end of a flow makes room.
    rig.write("t.clear", "");
    open(&mut rig, 3);
    rig.push("i", &segment(3, 0, b"GET /etc/pa"));
    rig.push("i", &segment(3, 11, b"sswd"));
    assert_eq!(rig.read("d.count"), "2");
}

#[test]
fn headers_flows_and_thresholds_decide() {
    let rules = "alert udp 1.0.0.0/8 any -> any [53,5353] (msg:\"dns\"; content:\"evil\"; nocase; \
            threshold:type limit, track by_src, count 2, seconds 60; sid:1;)
        alert udp $HOME_NET any -> any any (msg:\"home\"; content:\"evil\"; sid:2;)
        alert icmp any any -> any any (msg:\"ping\"; content:\"tunnel\"; sid:3;)
        alert udp any any -> any any (msg:\"back\"; flow:to_client; content:\"evil\"; sid:4;)";
    let mut rig = rig(rules, ", HOME_NET 2.0.0.0/8, PRINT false, ALERTS 3");
    for _ in 0..3 {
        rig.push("i", &udp((A, 7), (B, 53), b"an EVIL name"));
    }
    rig.push("i", &udp((A, 8), (B, 54), b"evil"));
    rig.push("j", &udp((B, 53), (A, 7), b"evil"));
    rig.push("i", &ping(A, B, b"a tunnel"));
    assert_eq!(
        rig.read("d.hits"),
        "3 1 dns\n1 2 home\n1 3 ping\n1 4 back\n"
    );
    rig.assert_handlers(&[
        ("d.count", "5"),
        ("d.suppressed", "1"),
        ("d.rule_count", "4"),
    ]);
    assert_eq!(rig.read("d.alerts").lines().count(), 3);
    assert_eq!(rig.printed(), Vec::<std::string::String>::new());
    let wrong = rig.try_write("d.rules", "alert ip any any -> any any (sid:1;)\nalert x");
    assert_contains(&std::format!("{:?}", wrong.unwrap_err()), "line 2");
    assert_eq!(rig.read("d.rule_count"), "4");
    rig.write(
        "d.rules",
        "alert udp any any -> any any (msg:\"all\"; sid:9;)",
    );
    rig.push("i", &udp((A, 8), (B, 54), b"x"));
    assert_eq!(rig.read("d.hits"), "1 9 all\n");
}

#[test]
fn ten_thousand_rules_are_searched_for_at_once() {
    let rules: std::string::String = (1..=10_000)
        .map(|sid| std::format!("alert tcp any any -> any any (msg:\"r{sid}\"; content:\"word{sid}!\"; sid:{sid};)\n"))
        .collect();
    let mut rig = rig(&rules, ", PRINT false");
    assert_eq!(rig.read("d.rule_count"), "10000");
    open(&mut rig, 1);
    rig.push("i", &segment(1, 0, b"some word77"));
    rig.push("i", &segment(1, 11, b"77! and word1! and word10001!"));
    assert_eq!(rig.read("d.hits"), "1 1 r1\n1 7777 r7777\n");
}

proptest! {
    /// Of a text in segments of any order, a pattern in it is found.
    #[test]
    fn a_pattern_is_found_however_it_is_cut(
        at in 0usize..150,
        cuts in prop::collection::vec(1usize..30, 1..12),
        swaps in prop::collection::vec((0usize..12, 0usize..12), 0..6),
    ) {
        let mut text = std::vec![b'x'; 180];
        text[at..at + 11].copy_from_slice(b"/etc/passwd");
        let mut segments = Vec::new();
        let mut from = 0;
        for cut in cuts.iter().cycle() {
            let to = (from + cut).min(text.len());
            segments.push((from as u32, &text[from..to]));
            from = to;
            if from == text.len() || segments.len() > 100 {
                break;
            }
        }
        segments.push((from as u32, &text[from..]));
        // Few come too early: more pieces than eight are a gap.
        for (a, b) in swaps {
            let (a, b) = (a.min(segments.len() - 1), b.min(segments.len() - 1));
            if a.abs_diff(b) < 4 {
                segments.swap(a, b);
            }
        }
        let mut rig = rig(PASSWD, ", PRINT false");
        open(&mut rig, 1);
        for (position, data) in segments {
            rig.push("i", &segment(1, position, data));
        }
        prop_assert_eq!(rig.read("d.count"), "1");
    }
}
