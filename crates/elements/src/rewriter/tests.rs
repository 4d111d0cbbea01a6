//! Rewriters at work: whole elements, packet by packet, in simulated time.

use crate::testing::*;

/// A rewriter `rw` with two inputs and outputs around `config`, and its packets checked.
fn rig(config: &str) -> Rig {
    Rig::new(&format!(
        "rw :: {config};
         i0 :: Inject -> CheckIPHeader -> [0] rw [0] -> CheckIPHeader -> o0 :: Collect;
         i1 :: Inject -> CheckIPHeader -> [1] rw [1] -> CheckIPHeader -> o1 :: Collect;"
    ))
}

/// Flags of a TCP packet in a script: none, or FIN, SYN, RST.
fn flags(word: &str) -> u8 {
    word.chars().fold(0, |flags, c| match c {
        'F' => flags | 1,
        'S' => flags | 2,
        'R' => flags | 4,
        _ => flags,
    })
}

/// Sends the packets of a script one by one and says what came out, as `OUTPUT SRC PORT DST PORT`
/// or `-`. A line is `TIME INPUT PROTOCOL[FLAGS] SRC PORT DST PORT [PAYLOAD] [=> WHAT COMES OUT]`.
fn play(rig: &mut Rig, script: &str) -> Vec<String> {
    let mut now = 0.0;
    let mut seen = Vec::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (line, expected) = match line.split_once(" => ") {
            Some((line, expected)) => (line, Some(expected)),
            None => (line, None),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let time: f64 = words[0].parse().unwrap();
        rig.advance(((time - now) * 1e9) as u64);
        now = time;
        let end = |at: usize| -> (Ipv4Addr, u16) {
            (words[at].parse().unwrap(), words[at + 1].parse().unwrap())
        };
        let payload = words.get(7).unwrap_or(&"").as_bytes();
        let packet = match words[2].strip_prefix('T') {
            Some(letters) => tcp(end(3), end(5), flags(letters), payload),
            None => udp(end(3), end(5), payload),
        };
        rig.push(&format!("i{}", words[1]), &packet);
        let mut out = "-".to_string();
        for output in 0..2 {
            for packet in rig.data(&format!("o{output}")) {
                assert_intact(&packet);
                out = format!("{output} {}", ends(&packet));
            }
        }
        assert_eq!(expected.unwrap_or(&out), out, "{line}");
        seen.push(out);
    }
    seen
}

fn ends(packet: &[u8]) -> String {
    let address =
        |at: usize| Ipv4Addr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    format!("{} {} {} {}", address(12), port(20), address(16), port(22))
}

/// Both checksums of a packet are right.
fn assert_intact(packet: &[u8]) {
    assert_eq!(checksum(&packet[..20]), 0, "the IP checksum");
    if packet[9] == 17 && packet[26..28] == [0, 0] {
        return;
    }
    let mut pseudo = packet[12..20].to_vec();
    pseudo.extend([0, packet[9]]);
    pseudo.extend((packet.len() as u16 - 20).to_be_bytes());
    pseudo.extend(&packet[20..]);
    assert_eq!(checksum(&pseudo), 0, "the transport checksum");
}

#[test]
fn flows_get_ports_and_replies_come_back() {
    for class in ["IPRewriter", "TCPRewriter", "UDPRewriter"] {
        let mut rig = rig(&format!(
            "{class}(pattern 1.0.0.1 1024-1026# - - 0 1, drop)"
        ));
        play(
            &mut rig,
            "0 0 T 18.26.4.44 1 10.0.0.4 1 => 0 1.0.0.1 1024 10.0.0.4 1
             0 0 T 18.26.4.44 2 10.0.0.8 2 => 0 1.0.0.1 1025 10.0.0.8 2
             0 0 T 18.26.4.44 3 10.0.0.4 3 => 0 1.0.0.1 1026 10.0.0.4 3
             0 0 T 18.26.4.44 4 10.0.0.8 2 => 0 1.0.0.1 1024 10.0.0.8 2
             0 0 T 18.26.4.44 5 10.0.0.8 2 => 0 1.0.0.1 1026 10.0.0.8 2
             # No port is left towards this destination.
             0 0 T 18.26.4.44 6 10.0.0.8 2 => -
             0 0 T 18.26.4.44 1 10.0.0.4 1 again => 0 1.0.0.1 1024 10.0.0.4 1
             1 1 T 10.0.0.4 1 1.0.0.1 1024 => 1 10.0.0.4 1 18.26.4.44 1
             1 1 T 10.0.0.8 2 1.0.0.1 1024 with_data => 1 10.0.0.8 2 18.26.4.44 4
             1 1 T 10.0.0.8 2 1.0.0.1 1026 => 1 10.0.0.8 2 18.26.4.44 5
             1 1 T 10.0.0.8 3 1.0.0.1 1026 => -
             # A known flow is rewritten whichever input it comes by.
             1 1 T 18.26.4.44 1 10.0.0.4 1 => 0 1.0.0.1 1024 10.0.0.4 1",
        );
        assert_eq!(rig.read("rw.mapping_failures"), "1");
        assert_eq!(rig.read("rw.table_size"), "5");
        assert_eq!(
            rig.read("rw.patterns"),
            "1.0.0.1 1024-1026 - - [5]\n<drop>\n"
        );
        assert_eq!(rig.read("rw.pattern1"), "<drop>\n");
    }
}

#[test]
fn a_source_is_given_again_when_its_flow_has_ended() {
    let mut rig = rig(
        "IPRewriter(pattern 1.0.0.1 7-8 - - 0 1, drop, REAP_INTERVAL 1,
        UDP_TIMEOUT 5, UDP_GUARANTEE 1)",
    );
    let seen = play(
        &mut rig,
        "0 0 U 9.0.0.1 7 10.0.0.4 1
         3 0 U 9.0.0.2 7 10.0.0.4 1
         3 0 U 9.0.0.3 7 10.0.0.4 1
         3 0 U 9.0.0.4 7 10.0.0.4 1
         3 0 U 9.0.0.4 7 10.0.0.5 1
         7 0 U 9.0.0.4 7 10.0.0.4 1
         7 0 U 9.0.0.3 7 10.0.0.4 1",
    );
    assert_eq!((seen[2].as_str(), seen[3].as_str()), ("-", "-"));
    assert_eq!(seen[4], "0 1.0.0.1 7 10.0.0.5 1");
    assert_eq!(seen[5], "0 1.0.0.1 7 10.0.0.4 1");
    assert_eq!(seen[6], "-");
    assert_eq!(rig.read("rw.mapping_failures"), "3");
}

/// The ports are Click 2.1's, where the C library is glibc.
#[test]
fn refused_flows_take_their_random_numbers() {
    let mut rig = Rig::new(
        "RandomSeed(1);
         rw :: IPRewriter(pattern 1.0.0.1 101-103? - - 0 0);
         i0 :: Inject -> CheckIPHeader -> rw -> o0 :: Collect; Idle -> o1 :: Collect;",
    );
    play(
        &mut rig,
        "0 0 U 9.0.0.1 7 10.0.0.4 1 => 0 1.0.0.1 103 10.0.0.4 1
         0 0 U 9.0.0.2 7 10.0.0.4 1 => 0 1.0.0.1 102 10.0.0.4 1
         0 0 U 9.0.0.3 7 10.0.0.4 1 => 0 1.0.0.1 101 10.0.0.4 1
         0 0 U 9.0.0.4 7 10.0.0.4 1 => -
         0 0 U 9.0.0.5 7 10.0.0.4 1 => -
         0 0 U 9.0.0.6 7 10.0.0.4 1 => -
         0 0 U 9.0.0.7 7 10.0.0.5 1 => 0 1.0.0.1 102 10.0.0.5 1
         0 0 U 9.0.0.7 7 10.0.0.6 1 => 0 1.0.0.1 103 10.0.0.6 1
         0 0 U 9.0.0.7 7 10.0.0.7 1 => 0 1.0.0.1 101 10.0.0.7 1
         0 0 U 9.0.0.7 7 10.0.0.8 1 => 0 1.0.0.1 102 10.0.0.8 1",
    );
}

#[test]
fn tcp_and_udp_flows_are_different_flows_of_ip_rewriter() {
    let mut rig = rig("IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)");
    play(
        &mut rig,
        "0 0 T 9.0.0.1 5 10.0.0.4 1 => 0 1.0.0.1 1024 10.0.0.4 1
         0 0 U 9.0.0.1 5 10.0.0.4 1 => 0 1.0.0.1 1025 10.0.0.4 1
         0 1 U 10.0.0.4 1 1.0.0.1 1024 => -
         0 1 U 10.0.0.4 1 1.0.0.1 1025 => 1 10.0.0.4 1 9.0.0.1 5
         0 1 T 10.0.0.4 1 1.0.0.1 1024 => 1 10.0.0.4 1 9.0.0.1 5",
    );
    let tcp_table = rig.read("rw.tcp_table");
    assert_eq!(
        tcp_table,
        "(9.0.0.1, 5, 10.0.0.4, 1) => (1.0.0.1, 1024, 10.0.0.4, 1) [*0 1] i0 exp300\n\
         (10.0.0.4, 1, 1.0.0.1, 1024) => (10.0.0.4, 1, 9.0.0.1, 5) [0 *1] i0 exp300\n"
    );
    assert_eq!(rig.read("rw.udp_table").lines().count(), 2);
    let id = rig.router.find("rw");
    let mut read = |flow| rig.router.read(id, "tcp_lookup", flow);
    let mut lookup = |flow| read(flow).unwrap();
    assert_eq!(lookup("9.0.0.1 5 10.0.0.4 1"), "1.0.0.1 1024 10.0.0.4 1");
    assert_eq!(lookup("10.0.0.4 1 1.0.0.1 1024"), "10.0.0.4 1 9.0.0.1 5");
    assert_eq!(lookup("10.0.0.4 1 1.0.0.1 1025"), "");
    let refused = read("host 5 10.0.0.4");
    let reason = "SADDR: parse error\nDPORT: required argument missing";
    assert_eq!(
        refused,
        Err(HandlerError::failed(router::FailureKind::Failed, reason))
    );
}

#[test]
fn a_port_of_its_own_is_kept_if_nobody_has_it() {
    let mut rig = rig("UDPRewriter(pattern 1.0.0.2 1024-65534 - - 0 1, drop)");
    let seen = play(
        &mut rig,
        "0 0 U 10.0.0.1 1024 1.0.0.2 20
         0 0 U 10.0.0.2 1024 1.0.0.2 30
         0 0 U 10.0.0.3 1024 1.0.0.2 20
         0 0 U 10.0.0.3 7 1.0.0.2 20",
    );
    assert_eq!(seen[0], "0 1.0.0.2 1024 1.0.0.2 20");
    assert_eq!(seen[1], "0 1.0.0.2 1024 1.0.0.2 30");
    assert!(seen[2] != seen[0] && seen[2].starts_with("0 1.0.0.2 "));
    assert!(!seen[3].starts_with("0 1.0.0.2 7 "));
}

#[test]
fn other_inputs_do_what_they_say() {
    let mut rig = rig("IPRewriter(keep 0 1, pass 1)");
    play(
        &mut rig,
        "0 0 U 9.0.0.1 5 10.0.0.4 1 => 0 9.0.0.1 5 10.0.0.4 1
         0 1 U 10.0.0.4 1 9.0.0.1 5 => 1 10.0.0.4 1 9.0.0.1 5
         0 1 U 10.0.0.4 2 9.0.0.1 5 => 1 10.0.0.4 2 9.0.0.1 5",
    );
    assert_eq!(rig.read("rw.patterns"), "<keep> [1]\n<nochange>\n");
    let mut fragment = udp((Ipv4Addr::LOCALHOST, 1), (Ipv4Addr::LOCALHOST, 2), &[]);
    fragment[7] = 1;
    fragment[10..12].fill(0);
    let sum = checksum(&fragment[..20]).to_be_bytes();
    fragment[10..12].copy_from_slice(&sum);
    rig.push("i0", &fragment);
    rig.push("i1", &fragment);
    assert_eq!(rig.data("o0").len(), 0);
    assert_eq!(rig.data("o1"), [fragment]);
}

#[test]
fn a_limit_is_shared_and_guarantees_are_honoured() {
    let mut rig = Rig::new(
        "rw1 :: IPRewriter(pattern 1.0.0.2 1024-65534# - - 0 0, MAPPING_CAPACITY rw2);
         rw2 :: IPRewriter(pattern 1.0.0.3 1024-65534# - - 0 0, MAPPING_CAPACITY 3);
         i0 :: Inject -> CheckIPHeader -> rw1 -> o0 :: Collect;
         i1 :: Inject -> CheckIPHeader -> rw2 -> o1 :: Collect;",
    );
    play(
        &mut rig,
        ".1 0 T 53.1.1.1 1 2.115.2.2 2 => 0 1.0.0.2 1024 2.115.2.2 2
         .3 1 T 53.1.1.1 1 2.115.2.2 2 => 1 1.0.0.3 1024 2.115.2.2 2
         .4 1 T 53.1.1.2 1 2.115.2.2 2 => 1 1.0.0.3 1025 2.115.2.2 2
         .5 1 T 53.1.1.3 1 2.115.2.2 2 => -
         .6 0 T 2.115.2.2 2 1.0.0.2 1024 => 0 2.115.2.2 2 53.1.1.1 1
         .7 1 T 2.115.2.2 2 1.0.0.3 1024 => 1 2.115.2.2 2 53.1.1.1 1
         .8 1 T 2.115.2.2 2 1.0.0.3 1025 => 1 2.115.2.2 2 53.1.1.2 1
         # The first flow's guarantee is over: it makes room.
         5.65 0 T 53.1.1.4 1 2.115.2.2 2 => 0 1.0.0.2 1025 2.115.2.2 2
         5.66 0 T 53.1.1.5 1 2.115.2.2 2 => -
         6.2 1 T 2.115.2.2 2 1.0.0.3 1024 => 1 2.115.2.2 2 53.1.1.1 1
         6.3 1 T 2.115.2.2 2 1.0.0.3 1025 => 1 2.115.2.2 2 53.1.1.2 1
         6.5 0 T 2.115.2.2 2 1.0.0.2 1025 => 0 2.115.2.2 2 53.1.1.4 1",
    );
    for rw in ["rw1", "rw2"] {
        assert_eq!(rig.read(&format!("{rw}.size")), "3");
        assert_eq!(rig.read(&format!("{rw}.capacity")), "3");
    }
    assert_eq!(rig.read("rw1.table_size"), "1");
    assert_eq!(rig.read("rw2.table_size"), "2");
    assert_eq!(rig.read("rw1.mapping_failures"), "1");
    assert_eq!(rig.read("rw2.mapping_failures"), "1");
}

/// Connections with data both ways, of TCP and UDP, in a table of 8.
#[test]
fn connections_live_longer_than_what_may_be_noise() {
    let mut rig = rig("IPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 8)");
    let mut script = String::new();
    for n in 1..=9 {
        script += &format!("0.{n} 0 T 1.0.0.{n} 1{n} 2.0.0.2 2{n} XXX\n");
    }
    for n in 1..=9 {
        script += &format!("1.{n} 1 T 2.0.0.2 2{n} 2.0.0.1 {} XXX\n", 1023 + n);
    }
    let seen = play(&mut rig, &script);
    assert!(
        seen.iter()
            .enumerate()
            .all(|(i, out)| (out == "-") == (i % 9 == 8))
    );
    // Their guarantees over, a new flow takes the oldest one's place.
    play_on(
        &mut rig,
        "7.0 0 U 1.0.0.10 20 2.0.0.2 30 XXX => 0 2.0.0.1 1033 2.0.0.2 30
         7.1 1 T 2.0.0.2 21 2.0.0.1 1024 XXX => -
         7.2 1 T 2.0.0.2 22 2.0.0.1 1025 XXX => 1 2.0.0.2 22 1.0.0.2 12
         7.3 1 T 2.0.0.2 23 2.0.0.1 1026 XXX => 1 2.0.0.2 23 1.0.0.3 13
         8.0 1 U 2.0.0.2 30 2.0.0.1 1033 XXX => 1 2.0.0.2 30 1.0.0.10 20
         14.0 0 T 1.0.0.11 21 2.0.0.2 31 XXX => 0 2.0.0.1 1034 2.0.0.2 31
         14.1 1 U 2.0.0.2 30 2.0.0.1 1033 XXX => -
         20.0 0 U 1.0.0.12 22 2.0.0.2 32 XXX => 0 2.0.0.1 1035 2.0.0.2 32
         20.1 1 T 2.0.0.2 31 2.0.0.1 1034 XXX => -
         20.2 1 U 2.0.0.2 32 2.0.0.1 1035 XXX => 1 2.0.0.2 32 1.0.0.12 22",
        2.0,
    );
}

/// Plays a script that goes on at `time`.
fn play_on(rig: &mut Rig, script: &str, time: f64) -> Vec<String> {
    let shifted: Vec<String> = script
        .lines()
        .map(|line| {
            let (at, rest) = line.trim().split_once(' ').unwrap();
            format!("{} {rest}", at.parse::<f64>().unwrap() - time)
        })
        .collect();
    play(rig, &shifted.join("\n"))
}

#[test]
fn without_guarantee_a_new_flow_may_be_the_one_to_go() {
    let mut rig = rig(
        "IPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 2, GUARANTEE 0)",
    );
    let seen = play(
        &mut rig,
        "1 0 T 1.0.0.1 11 2.0.0.2 21 XXX
         2 0 T 1.0.0.2 12 2.0.0.2 22 XXX
         3 1 T 2.0.0.2 21 2.0.0.1 1024 XXX
         4 1 T 2.0.0.2 22 2.0.0.1 1025 XXX
         5 0 T 1.0.0.3 13 2.0.0.2 23 XXX
         6 0 TR 1.0.0.2 12 2.0.0.2 22
         7 0 T 1.0.0.3 13 2.0.0.2 23 XXX
         8 1 T 2.0.0.2 22 2.0.0.1 1025
         9 1 T 2.0.0.2 21 2.0.0.1 1024",
    );
    assert_eq!(seen[4], "-", "both others have longer to live");
    assert_eq!(
        seen[6], "0 2.0.0.1 1027 2.0.0.2 23",
        "one of them was reset"
    );
    assert_eq!(seen[7], "-");
    assert_eq!(seen[8], "1 2.0.0.2 21 1.0.0.1 11");
    assert_eq!(rig.read("rw.mapping_failures"), "1");
}

#[test]
fn streams_of_datagrams_live_longer() {
    let mut rig = rig(
        "UDPRewriter(pattern 1.0.0.2 1024-65534# - - 0 1, drop, GUARANTEE 1,
        TIMEOUT 4, STREAMING_TIMEOUT 8, MAPPING_CAPACITY 2)",
    );
    let seen = play(
        &mut rig,
        ".1 0 U 53.1.1.1 1 2.115.2.2 2
         .2 1 U 2.115.2.2 2 1.0.0.2 1024
         .3 0 U 53.1.1.1 1 2.115.2.2 2
         .4 0 U 53.1.1.2 1 2.115.2.2 2
         3.5 0 U 53.1.1.3 1 2.115.2.2 2
         3.6 1 U 2.115.2.2 2 1.0.0.2 1024
         3.7 1 U 2.115.2.2 2 1.0.0.2 1025",
    );
    assert_eq!(seen[4], "0 1.0.0.2 1026 2.115.2.2 2");
    assert_eq!(seen[5], "1 2.115.2.2 2 53.1.1.1 1", "the stream stays");
    assert_eq!(seen[6], "-");
}

#[test]
fn flows_whose_time_is_up_are_reaped() {
    let mut rig = rig(
        "IPRewriter(pattern 1.0.0.2 1024-65534# - - 0 1, drop, REAP_INTERVAL 10,
        UDP_TIMEOUT 15, TCP_NODATA_TIMEOUT 30)",
    );
    let script = "0 0 U 53.1.1.1 1 2.115.2.2 2
                  0 0 T 53.1.1.1 1 2.115.2.2 2";
    play(&mut rig, script);
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(rig.read("rw.size"));
        rig.advance(11_000_000_000);
    }
    assert_eq!(sizes, ["2", "2", "1", "0"]);
}

#[test]
fn the_limit_can_be_lowered_and_the_table_cleared() {
    let mut rig = rig("IPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop, CAPACITY 10)");
    let script: String = (1..=10)
        .map(|n| format!("{n} 0 T 1.0.0.{n} 1 2.0.0.2 2\n"))
        .collect();
    play(&mut rig, &script);
    rig.write("rw.capacity", "7");
    assert_eq!(rig.read("rw.capacity"), "7");
    assert_eq!(rig.read("rw.size"), "7");
    let table = rig.read("rw.tcp_table");
    let oldest = (1..=4).map(|n| table.contains(&format!("(1.0.0.{n}, ")));
    assert!(oldest.eq([false, false, false, true]));
    rig.write("rw.clear", "");
    assert_eq!(rig.read("rw.size"), "0");
    assert_eq!(
        play_on(&mut rig, "11 1 T 2.0.0.2 2 2.0.0.1 1030", 10.0),
        ["-"]
    );
    rig.try_write("rw.capacity", "x").unwrap_err();
}

#[test]
fn a_pattern_can_be_changed() {
    let mut rig = rig("IPRewriter(pattern 1.0.0.2 1024-65534# - - 0 1,
        pattern 1.0.0.3 1024-65534# - - 0 1)");
    let script = "0 0 T 53.1.1.1 1 2.115.2.2 2
                  0 1 T 53.1.1.2 1 2.115.2.2 2";
    let seen = play(&mut rig, script);
    assert_eq!(
        seen,
        ["0 1.0.0.2 1024 2.115.2.2 2", "0 1.0.0.3 1024 2.115.2.2 2"]
    );
    rig.write("rw.pattern0", "pattern 1.0.0.4 1024-65534# - - 0 1");
    assert_eq!(
        rig.read("rw.patterns"),
        "1.0.0.4 1024-65534 - -\n1.0.0.3 1024-65534 - - [1]\n"
    );
    let seen = play(&mut rig, script);
    assert_eq!(
        seen,
        ["0 1.0.0.4 1024 2.115.2.2 2", "0 1.0.0.3 1024 2.115.2.2 2"]
    );
    let refused = rig.try_write("rw.pattern0", "pattern 1.0.0.4 0 1");
    assert_eq!(
        refused,
        Err("input spec 0: no such pattern ‘1.0.0.4’".into())
    );
}

#[test]
fn flows_that_answer_themselves_are_flows() {
    let config = "(pattern 1.0.0.2 1024-65534# - - 0 1, drop, GUARANTEE 1, MAPPING_CAPACITY 3)";
    for class in ["IPRewriter", "UDPRewriter"] {
        let mut rig = rig(&format!("{class}{config}"));
        let seen = play(
            &mut rig,
            "1 0 T 1.0.0.2 1024 1.0.0.2 1024
             2 0 T 1.0.0.2 1 1.0.0.2 1024
             3 0 T 1.0.0.2 2 2.0.0.2 1024
             4 0 T 1.0.0.2 3 2.0.0.2 1024
             5 0 T 1.0.0.2 4 2.0.0.2 1024
             6 0 T 1.0.0.2 5 1.0.0.2 1024",
        );
        for (n, out) in seen.iter().enumerate() {
            assert!(
                out.starts_with(&format!("0 1.0.0.2 {} ", 1024 + n)),
                "{out}"
            );
        }
        assert_eq!(rig.read("rw.size"), "3");
    }
}

#[test]
fn a_flow_gives_way_to_one_that_takes_its_replies() {
    let mut rig = rig("IPRewriter(pattern 1.0.0.2 7 - - 0 1, drop)");
    let seen = play(
        &mut rig,
        "0 0 T 53.1.1.1 1 2.115.2.2 2
         0 0 T 53.1.1.2 1 2.115.2.2 2
         0 1 T 2.115.2.2 2 1.0.0.2 7",
    );
    assert_eq!(seen[2], "1 2.115.2.2 2 53.1.1.2 1");
    assert_eq!(rig.read("rw.size"), "1");
}

#[test]
fn replies_get_the_annotation_of_the_first_packet() {
    let mut rig = rig("IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop, REPLY_ANNO PAINT)");
    let (a, b): (Ipv4Addr, Ipv4Addr) = ([9, 0, 0, 1].into(), [10, 0, 0, 1].into());
    rig.push_with("i0", &udp((a, 1), (b, 2), &[]), |p| p.set_paint(3));
    rig.push_with("i0", &udp((a, 1), (b, 2), &[]), |p| p.set_paint(4));
    let forward = rig.collected("o0");
    assert_eq!((forward[0].paint(), forward[1].paint()), (3, 4));
    let reply = udp((b, 2), ([1, 0, 0, 1].into(), 1024), &[]);
    rig.push_with("i1", &reply, |p| p.set_paint(9));
    let replies = rig.collected("o1");
    assert_eq!((replies[0].paint(), replies[0].dst_ip()), (3, a));
}

#[test]
fn packets_get_the_number_of_their_flow() {
    for class in ["IPRewriter", "UDPRewriter"] {
        let input = "pattern 1.0.0.1 1024-65535# - - 0 1, drop";
        let mut rig = rig(&format!(
            "{class}({input}, SET_AGGREGATE true, MAPPING_CAPACITY 2)"
        ));
        let to = ([10, 0, 0, 1].into(), 2);
        let send = |rig: &mut Rig, ports: &[u16]| -> Vec<u32> {
            let packets = ports
                .iter()
                .map(|port| udp(([9, 0, 0, 1].into(), *port), to, &[]));
            rig.push_all("i0", &packets.collect::<Vec<_>>());
            let packets = rig.collected("o0");
            packets.iter().map(|p| p.anno(AGGREGATE)).collect()
        };
        assert_eq!(send(&mut rig, &[5, 6]), [0, 1]);
        assert_eq!(send(&mut rig, &[6, 6, 6, 5]), [1, 1, 1, 0]);
        let reply = udp(to, ([1, 0, 0, 1].into(), 1025), &[]);
        rig.push_with("i1", &reply, |p| p.set_anno(AGGREGATE, 77));
        assert_eq!(rig.collected("o1")[0].anno(AGGREGATE), 1, "{class}");
        // A number is not used again when its flow is gone.
        rig.pause(10_000_000_000);
        assert_eq!(send(&mut rig, &[7]), [2]);
    }
}

#[test]
fn no_udp_checksum_stays_no_udp_checksum() {
    let mut rig = rig("IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)");
    let mut packet = udp(([9, 0, 0, 1].into(), 1), ([9, 0, 0, 2].into(), 2), &[1, 2]);
    packet[26..28].fill(0);
    rig.push("i0", &packet);
    assert_eq!(rig.data("o0")[0][26..28], [0, 0]);
}

#[test]
fn named_patterns_are_shared() {
    let mut rig = Rig::new(
        "IPRewriterPatterns(one 1.0.0.1 1024-65535# - -, two 1.0.0.2 -);
         rw :: IPRewriter(pattern one 0 1, pattern one 1 0);
         i0 :: Inject -> CheckIPHeader -> [0] rw [0] -> o0 :: Collect;
         i1 :: Inject -> CheckIPHeader -> [1] rw [1] -> o1 :: Collect;",
    );
    play(
        &mut rig,
        "0 0 T 53.1.1.1 1 2.115.2.2 2 => 0 1.0.0.1 1024 2.115.2.2 2
         0 1 T 53.1.1.1 1 2.115.2.3 2 => 1 1.0.0.1 1025 2.115.2.3 2",
    );
}

#[test]
fn mistakes_are_named() {
    let complaint = |arguments: &str| {
        let config = format!(
            "rw :: IPRewriter({arguments}); i :: Idle -> rw -> d :: Discard; rw [1] -> d;
             IPRewriterPatterns(known 1.0.0.1 - - -);"
        );
        Rig::errors(&config)
    };
    for (arguments, message) in [
        ("", "need 1 arguments, one per input port"),
        ("drop 1", "input spec 0: syntax error, expected 'drop'"),
        (
            "pass x",
            "input spec 0: syntax error, expected 'nochange [OUTPUT]'",
        ),
        ("pass 2", "input spec 0: output port out of range"),
        ("keep 0", "input spec 0: bad forward port"),
        ("keep 0 x", "input spec 0: bad reply port"),
        ("keep 0 2", "input spec 0: output port out of range"),
        ("pattern 0 1", "input spec 0: syntax error"),
        ("pattern other 0 1", "input spec 0: no such pattern 'other'"),
        (
            "pattern 1.0.0.1 1x - - 0 1",
            "input spec 0: bad source port",
        ),
        ("nonsense", "input spec 0: unknown specification"),
        ("'a b' 0 1", "input spec 0: empty argument"),
        ("'keep' 0", "input spec 0: bad forward port"),
        ("i", "input spec 0: element is not an IPMapper"),
        ("drop, MAPPING_CAPACITY i", "bad MAPPING_CAPACITY"),
        ("drop, MAPPING_CAPACITY rw", "bad MAPPING_CAPACITY"),
        ("drop, TCP_TIMEOUT x", "TCP_TIMEOUT: parse error"),
    ] {
        let complaints = complaint(arguments);
        assert!(complaints.contains(message), "{arguments}: {complaints}");
    }
    let twice = Rig::errors("IPRewriterPatterns(a - 1 - -, a - 2 - -, b x -, c d);");
    assert!(twice.contains("no such pattern 'd'"), "{twice}");
    assert!(twice.contains("pattern 'a' already defined"), "{twice}");
    assert!(twice.contains("bad source address"), "{twice}");
}

/// The addresses of the packets that come out, of those sent between pairs of addresses.
fn addresses(rig: &mut Rig, pairs: &[(&str, &str)]) -> Vec<String> {
    let mut seen = Vec::new();
    for (from, to) in pairs {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        rig.push("i", &tcp((from, 9), (to, 10), 0x10, &[1, 2, 3]));
        let out = rig.data("o").pop();
        seen.push(out.map_or("-".to_string(), |packet| {
            assert_intact(&packet);
            let words = ends(&packet);
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!((words[1], words[3]), ("9", "10"));
            format!("{} {}", words[0], words[2])
        }));
    }
    seen
}

fn line(rewriter: &str) -> Rig {
    Rig::new(&format!(
        "i :: Inject -> CheckIPHeader -> rw :: {rewriter} -> CheckIPHeader -> o :: Collect;"
    ))
}

#[test]
fn hosts_get_addresses() {
    let mut rig = line("IPAddrRewriter(pattern 3.0.0.1-3.0.0.2# - 0 0)");
    let seen = addresses(
        &mut rig,
        &[
            ("1.0.0.1", "9.9.9.9"),
            ("1.0.0.2", "9.9.9.8"),
            ("1.0.0.1", "9.9.9.7"),
            ("1.0.0.3", "9.9.9.7"),
            ("9.9.9.6", "3.0.0.1"),
            ("9.9.9.6", "3.0.0.2"),
        ],
    );
    let expected = [
        "3.0.0.1 9.9.9.9",
        "3.0.0.2 9.9.9.8",
        "3.0.0.1 9.9.9.7",
        "-",
        "9.9.9.6 1.0.0.1",
        "9.9.9.6 1.0.0.2",
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        rig.read("rw.table"),
        "1.0.0.1 => 3.0.0.1 [*0 0] i0 exp7200\n3.0.0.1 => 1.0.0.1 [0 *0] i0 exp7200\n\
         1.0.0.2 => 3.0.0.2 [*0 0] i0 exp7200\n3.0.0.2 => 1.0.0.2 [0 *0] i0 exp7200\n"
    );
    assert_eq!(rig.read("rw.patterns"), "3.0.0.1-3.0.0.2 - [2]\n");
    // Whatever would change more than sources is refused, packet by packet.
    let mut rig = line("IPAddrRewriter(pattern - 9.0.0.1 0 0)");
    assert_eq!(addresses(&mut rig, &[("1.0.0.1", "9.9.9.9")]), ["-"]);
}

#[test]
fn pairs_of_hosts_get_addresses() {
    let mut rig = line("IPAddrPairRewriter(pattern 3.0.0.1-3.0.0.255# - 0 0)");
    let seen = addresses(
        &mut rig,
        &[
            ("1.0.0.1", "9.9.9.9"),
            ("1.0.0.2", "9.9.9.8"),
            ("1.0.0.1", "9.9.9.9"),
            ("1.0.0.1", "9.9.9.7"),
            ("9.9.9.6", "3.0.0.1"),
            ("9.9.9.7", "3.0.0.3"),
        ],
    );
    let expected = [
        "3.0.0.1 9.9.9.9",
        "3.0.0.2 9.9.9.8",
        "3.0.0.1 9.9.9.9",
        "3.0.0.3 9.9.9.7",
        "3.0.0.4 3.0.0.1",
        "9.9.9.7 1.0.0.1",
    ];
    assert_eq!(seen, expected);
    let table = rig.read("rw.table");
    assert!(table.starts_with("(1.0.0.1, 9.9.9.9) => (3.0.0.1, 9.9.9.9) [*0 0] i0 exp7200\n"));
}

/// A ping of a kind (8 request, 0 reply) with an identifier, sequence number 0 and `payload`.
fn echo(kind: u8, from: &str, to: &str, identifier: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = ping(from.parse().unwrap(), to.parse().unwrap(), payload);
    packet[20] = kind;
    packet[22..24].fill(0);
    packet[24..26].copy_from_slice(&identifier.to_be_bytes());
    packet[26..28].fill(0);
    let sum = checksum(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn pings_get_identifiers() {
    let mut rig = rig("ICMPPingRewriter(pattern 2.0.0.2 - 0-65535# 0 1, drop)");
    for payload in [&[][..], &[7]] {
        for (source, old, new) in [
            ("1.0.0.1", 10230, 0),
            ("1.0.0.2", 0, 1),
            ("1.0.0.1", 10230, 0),
        ] {
            rig.push("i0", &echo(8, source, "5.0.0.5", old, payload));
            assert_eq!(
                rig.data("o0"),
                [echo(8, "2.0.0.2", "5.0.0.5", new, payload)]
            );
            rig.push("i1", &echo(0, "5.0.0.5", "2.0.0.2", new, payload));
            assert_eq!(rig.data("o1"), [echo(0, "5.0.0.5", source, old, payload)]);
        }
    }
    // A reply that nobody asked for, and an error.
    rig.push("i0", &echo(0, "5.0.0.5", "2.0.0.2", 77, &[]));
    rig.push("i0", &echo(3, "5.0.0.5", "2.0.0.2", 0, &[]));
    assert_eq!(rig.data("o0").len(), 0);
    let table = rig.read("rw.table");
    assert!(table.contains("(1.0.0.2, 5.0.0.5, 0) => (2.0.0.2, 5.0.0.5, 1) [*0 1] i0 exp300"));
    assert!(table.contains("(5.0.0.5, 2.0.0.2, 1) => (5.0.0.5, 1.0.0.2, 0) [0 *1] i0 exp300"));
}

fn end() -> impl Strategy<Value = (Ipv4Addr, u16)> {
    (any::<[u8; 4]>(), any::<u16>()).prop_map(|(address, port)| (address.into(), port))
}

/// A packet of one of a few flows, or a reply to one, of some kind: UDP, without a checksum, with IP
/// options, a later fragment, TCP, one without ports.
fn packet_of(flow: u8, kind: u8, reply: bool) -> Vec<u8> {
    let here = (
        Ipv4Addr::new(10, 0, 0, 1 + flow / 2),
        5000 + u16::from(flow),
    );
    let (there, given) = (Ipv4Addr::new(2, 0, 0, 2), Ipv4Addr::new(1, 0, 0, 1));
    let (from, to) = match reply {
        false => (here, (there, 53)),
        true => ((there, 53), (given, 1024 + u16::from(flow))),
    };
    let mut packet = match kind {
        4 => tcp(from, to, 0x10, &[flow]),
        5 => ping(from.0, to.0, &[flow; 8]),
        _ => udp(from, to, &[flow, kind, 3]),
    };
    match kind {
        1 => packet[26..28].fill(0),
        2 => {
            packet.splice(20..20, [1; 4]);
            packet[0] = 0x46;
            packet[3] += 4;
        }
        3 => packet[7] = 1,
        _ => {}
    }
    let header = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..header]).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet
}

proptest! {
    /// Whatever flows there are, no two are rewritten to the same, checksums stay right, and each
    /// reply is brought back to exactly the packet that would have answered.
    #[test]
    fn flows_are_told_apart(
        flows in proptest::collection::hash_set((end(), end(), any::<bool>()), 1..40),
        payload in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut rig = rig("IPRewriter(pattern 1.0.0.1 1024-65535 2.0.0.2 - 0 1, drop)");
        let packet = |is_tcp, from, to| match is_tcp {
            true => tcp(from, to, 0x10, &payload),
            false => udp(from, to, &payload),
        };
        let mut seen = std::collections::HashSet::new();
        for (from, to, is_tcp) in flows {
            let wanted = !from.0.is_multicast() && !from.0.is_broadcast();
            rig.push("i0", &packet(is_tcp, from, to));
            let Some(out) = rig.data("o0").pop() else {
                prop_assert!(!wanted || from.0.octets()[0] >= 224 || from.0.octets()[0] == 0);
                continue;
            };
            assert_intact(&out);
            prop_assert!(seen.insert((is_tcp, ends(&out))));
            let port = u16::from_be_bytes([out[20], out[21]]);
            prop_assert_eq!(
                &out,
                &packet(is_tcp, ([1, 0, 0, 1].into(), port), ([2, 0, 0, 2].into(), to.1))
            );
            rig.push("i1", &packet(is_tcp, ([2, 0, 0, 2].into(), to.1), ([1, 0, 0, 1].into(), port)));
            prop_assert_eq!(rig.data("o1"), [packet(is_tcp, to, from)]);
        }
    }

    /// Batches with trains of datagrams, of known flows and of new ones, with others between them,
    /// fare as their packets do one by one.
    #[test]
    fn batches_are_rewritten_as_their_packets_are(
        class in 0usize..2,
        trains in proptest::collection::vec((0u8..3, 0u8..6, 0usize..2, 1usize..9), 1..12),
    ) {
        let class = ["IPRewriter", "UDPRewriter"][class];
        let config = format!(
            "{class}(pattern 1.0.0.1 1024-65535# - - 0 1, pass 1, REPLY_ANNO 47,
                UDP_TIMEOUT 300, UDP_STREAMING_TIMEOUT 100, UDP_GUARANTEE 0)"
        );
        let packets = trains.iter().flat_map(|&(flow, kind, input, count)| {
            core::iter::repeat_n((input, packet_of(flow, kind, input == 1)), count)
        });
        let (mut whole, mut single) = (rig(&config), rig(&config));
        for (input, batch) in packets.collect::<Vec<_>>().chunk_by(|a, b| a.0 == b.0).map(|run| {
            (run[0].0, run.iter().map(|(_, packet)| packet.clone()).collect::<Vec<_>>())
        }) {
            for rig in [&mut whole, &mut single] {
                rig.advance(1_000_000_000);
            }
            for batch in batch.chunks(64) {
                whole.push_all(&format!("i{input}"), batch);
            }
            for packet in &batch {
                single.push(&format!("i{input}"), packet);
            }
        }
        for output in ["o0", "o1"] {
            let (whole, single) = (whole.collected(output), single.collected(output));
            prop_assert_eq!(whole.len(), single.len());
            for (one, other) in whole.iter().zip(&single) {
                prop_assert_eq!(one.data(), other.data());
                prop_assert_eq!(one.annotations(), other.annotations());
            }
        }
        for table in ["table", "udp_table", "tcp_table"] {
            let shown = |rig: &mut Rig| rig.try_read(&format!("rw.{table}"));
            prop_assert_eq!(shown(&mut whole), shown(&mut single));
        }
    }

    /// No packet, however broken, does harm.
    #[test]
    fn any_packet_is_survived(
        packets in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..60), 0usize..40, 0usize..40, any::<bool>()),
            1..30,
        ),
        class in 0usize..6,
    ) {
        let class = [
            "IPRewriter(pattern 1.0.0.1 10-12 - - 0 0",
            "TCPRewriter(pattern 1.0.0.1 10-12 - - 0 0",
            "UDPRewriter(pattern 1.0.0.1 10-12 - - 0 0",
            "ICMPPingRewriter(pattern 1.0.0.1 10-12 - - 0 0",
            "IPAddrRewriter(pattern 1.0.0.1-1.0.0.3 - 0 0",
            "IPAddrPairRewriter(pattern 1.0.0.1-1.0.0.3 - 0 0",
        ][class];
        let mut rig = Rig::new(&format!(
            "rw :: {class}, REPLY_ANNO 47, CAPACITY 4);
             i :: Inject -> t :: Tee -> rw -> Discard; t [1] -> ICMPRewriter(rw) -> Discard;"
        ));
        for (mut data, at, length, plausible) in packets {
            if plausible && data.len() > 20 {
                data[0] = 0x45;
                data[6..8].fill(0);
                data[9] = [6, 17, 1][length % 3];
            }
            rig.push_with("i", &data, |packet| match plausible {
                true => packet.set_network_header(0, 20),
                false => packet.set_network_header(at, length),
            });
        }
        rig.push("i", &[]);
        prop_assert_eq!(rig.outstanding(), 0);
    }
}
