use crate::testing::*;
use crate::userlevel::testing::TempFile;

fn mark(packet: &mut Packet) {
    packet.set_network_header(0, 20);
    packet.set_timestamp(996_033_261_451_094_000);
}

/// The lines of what was printed, those about the file left out.
fn printed(rig: &mut Rig) -> Vec<String> {
    let text = rig.printed().concat();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("!IPS") && !line.starts_with("!data"));
    lines.map(String::from).collect()
}

fn dump(fields: &str, options: &str) -> Rig {
    Rig::new(&format!(
        "i :: Inject -> ToIPSummaryDump(-, FIELDS {fields}{options}) -> c :: Collect;"
    ))
}

#[test]
fn lines_have_the_fields_asked_for() {
    let mut rig = dump(
        "timestamp src sport dst dport proto len payload payload_len",
        "",
    );
    rig.push_with("i", &udp((A, 10), (B, 20), b"hi\n"), mark);
    rig.push_with("i", &tcp((A, 10), (B, 20), 2, b""), mark);
    rig.push_with("i", &ping(A, B, b"x"), mark);
    rig.push("i", &[1, 2, 3]);
    assert_eq!(
        rig.printed().concat().lines().collect::<Vec<_>>(),
        [
            "!IPSummaryDump 1.3",
            "!data timestamp ip_src sport ip_dst dport ip_proto ip_len payload payload_len",
            "996033261.451094 1.0.0.1 10 2.0.0.2 20 U 31 \"hi\\n\" 3",
            "996033261.451094 1.0.0.1 10 2.0.0.2 20 T 40 \"\" 0",
            "996033261.451094 1.0.0.1 - 2.0.0.2 - I 29 \"\\<08 00 E6 FC 00 01 00 02 78>\" 9"
                .replace(
                    "\\<08 00 E6 FC 00 01 00 02 78>",
                    &quoted(&ping(A, B, b"x")[20..])
                )
                .as_str(),
            "0.000000 - - - - - 3 \"\\001\\002\\003\" 3"
                .replace("\\001\\002\\003", &quoted(&[1, 2, 3]))
                .as_str(),
        ]
    );
    assert_eq!(rig.data("c").len(), 4);
}

fn quoted(bytes: &[u8]) -> String {
    let quoted = click::config::quote(bytes);
    quoted[1..quoted.len() - 1].to_string()
}

#[test]
fn digests_and_link_fields_are_written() {
    let mut rig = dump(
        "payload_md5 payload_md5_hex eth_src eth_dst eth_type ip_capture_len",
        "",
    );
    let frame = ether(
        [1; 6],
        [0, 10, 0x95, 0xa6, 0xd9, 0xbc],
        0x800,
        &udp((A, 1), (B, 2), b"hi there\n"),
    );
    rig.push_with("i", &frame, |packet| {
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
    });
    assert_eq!(
        printed(&mut rig),
        [
            "sy@Uze03MHB84qQruJ_zma 12f6bb1941df66b8f138a446d4e8670c 00-0A-95-A6-D9-BC \
          01-01-01-01-01-01 0800 37"
        ]
    );
}

#[test]
fn bad_packets_are_told() {
    let mut rig = dump("sport tcp_seq", ", BAD_PACKETS true");
    let segment = tcp((A, 10), (B, 20), 2, b"");
    let mut version = segment.clone();
    version[0] = 0x65;
    let mut offset = segment.clone();
    offset[32] = 0x40;
    let mut fragment = segment.clone();
    fragment[7] = 1;
    for bad in [
        &version[..],
        &offset,
        &fragment,
        &segment[..22],
        &segment[..3],
    ] {
        rig.push_with("i", bad, mark);
    }
    rig.push_with("i", &segment[..22], |packet| {
        mark(packet);
        packet.set_anno(EXTRA_LENGTH, 18);
    });
    rig.push("i", &segment);
    assert_eq!(
        printed(&mut rig),
        [
            "!bad IP version 6",
            "- -",
            "!bad TCP header length 4",
            "10 -",
            "!bad fragmented TCP/UDP header",
            "- -",
            "!bad truncated IP missing 18",
            "10 -",
            "!bad truncated IP header",
            "- -",
            "!bad truncated TCP header",
            "10 -",
            "!bad no IP header",
            "- -",
        ]
    );
}

#[test]
fn lengths_count_what_is_not_there() {
    let packet = udp((A, 1), (B, 2), &[0; 100]);
    let with_extra = |packet: &mut Packet| {
        mark(packet);
        packet.set_anno(EXTRA_LENGTH, 5);
    };
    let mut rig = dump("ip_len payload_len wire_len", "");
    rig.push_with("i", &packet[..28], |packet| {
        mark(packet);
        packet.set_anno(EXTRA_LENGTH, 100);
    });
    rig.push("i", &packet[..28]);
    rig.push_with("i", &[&packet[..], &[0; 6]].concat(), with_extra);
    assert_eq!(printed(&mut rig), ["128 100 28", "28 28 28", "128 100 134"]);
}

#[test]
fn a_packet_that_stands_for_several_makes_several_lines() {
    let several = |packet: &mut Packet| {
        mark(packet);
        packet.set_timestamp(30);
        packet.set_anno(EXTRA_PACKETS, 2);
        packet.set_anno(EXTRA_LENGTH, 10);
        packet.set_anno_u64(FIRST_TIMESTAMP, 10);
    };
    let packet = [0; 10];
    let mut rig = dump("ntimestamp count", ", MULTIPACKET true");
    rig.push_with("i", &packet, several);
    assert_eq!(printed(&mut rig), ["0.000000030 3"]);
    let mut rig = dump("ntimestamp wire_len", ", MULTIPACKET true");
    rig.push_with("i", &packet, several);
    assert_eq!(
        printed(&mut rig),
        ["0.000000010 10", "0.000000020 10", "0.000000030 10"]
    );
}

#[test]
fn binary_dumps_are_written_to_files() {
    let file = TempFile::new("summary_binary");
    let mut rig = Rig::new(&format!(
        "i :: Inject -> t :: ToIPSummaryDump({file}, FIELDS src sport ip_opt timestamp, BINARY true, BAD_PACKETS true);"
    ));
    rig.push_with("i", &udp((A, 10), (B, 20), b""), mark);
    rig.write("t.flush", "");
    let head = b"!IPSummaryDump 1.3\n!data ip_src sport ip_opt timestamp\n!binary\n";
    let record = [
        0, 0, 0, 19, 1, 0, 0, 1, 0, 10, 0, 59, 94, 66, 237, 0, 6, 226, 22,
    ];
    assert_eq!(file.read(), [&head[..], &record].concat());
    rig.push("i", &[0]);
    rig.end();
    let bad = b"\x80\0\0\x16!bad no IP header\n";
    let end = file.read()[head.len() + record.len()..].to_vec();
    assert!(end.starts_with(bad), "{end:?}");
    assert_eq!(end.len(), bad.len() + 19);
}

#[test]
fn the_header_says_who_and_when() {
    let mut rig =
        Rig::new("Idle -> ToIPSummaryDump(-, VERBOSE true, BANNER \"a b\", FIELDS ntimestamp);");
    let text = rig.printed().concat();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["!IPSummaryDump 1.3", "!creator \"a b\""]);
    assert!(lines[2].starts_with("!host "), "{text}");
    assert!(
        lines[3].starts_with("!runtime 1000000000.000000 ("),
        "{text}"
    );
    assert_eq!(lines[4..], ["!data timestamp"]);
    let mut rig = Rig::new("Idle -> ToIPSummaryDump(-, HEADER false);");
    assert_eq!(rig.printed().len(), 0);
}

#[test]
fn dates_are_those_of_the_calendar() {
    use std::time::{Duration, SystemTime};
    let date = |seconds| super::date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
    assert_eq!(date(951_782_399), "Mon Feb 28 23:59:59 2000");
    assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
    assert_eq!(date(1_735_689_599), "Tue Dec 31 23:59:59 2024");
    assert_eq!(date(1_735_689_600), "Wed Jan  1 00:00:00 2025");
}

#[test]
fn a_payload_behind_a_header_that_is_cut_short_is_not_there() {
    for (words, payload) in [(5, "\"\""), (15, "-")] {
        let mut rig = dump("payload", "");
        let mut packet = tcp((A, 1), (B, 2), 0x10, &[]);
        packet[32] = words << 4;
        rig.push_with("i", &packet, mark);
        assert_eq!(printed(&mut rig), [payload]);
    }
}

#[test]
fn on_a_pull_input_it_pulls_of_itself() {
    let mut rig = Rig::new("i :: Inject -> Queue -> t :: ToIPSummaryDump(-) -> c :: Collect;");
    rig.push_all("i", &alloc::vec![alloc::vec![1; 60]; 100]);
    rig.run();
    assert_eq!(rig.data("c").len(), 100);
    assert_eq!(rig.read("t.scheduled"), "false");
}

#[test]
fn wrong_arguments_are_refused_in_clicks_words() {
    let error = |args: &str, text: &str| {
        Rig::refuses(&format!("Idle -> ToIPSummaryDump({args});"), text);
    };
    error("/nowhere/x", "/nowhere/x: No such file or directory");
    let none = "unknown content type 'zork'\n  no contents specified\n";
    error("-, FIELDS zork", none);
    error(
        "-, FIELDS payload, BINARY true",
        "cannot use field payload with BINARY",
    );
    error("", "FILENAME: required argument missing");
}

#[test]
fn the_thread_is_the_one_that_packets_come_from() {
    let mut rig = dump("thread paint", "");
    rig.push_with("i", &[1], |packet| packet.set_paint(3));
    assert_eq!(printed(&mut rig), ["0 3"]);
}

#[test]
fn distances_in_time_are_rounded() {
    assert_eq!(super::super::distance(18_861_924_000, 0, 65534), -287_819);
    assert_eq!(super::super::distance(0, 5, 2), 3);
}
