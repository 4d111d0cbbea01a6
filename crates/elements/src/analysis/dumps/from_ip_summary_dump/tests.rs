use crate::testing::*;
use crate::userlevel::testing::TempFile;

/// A router that reads `text`, and has run.
fn read(text: &str, options: &str) -> Rig {
    let data = click::config::quote(text.as_bytes());
    let config = format!("f :: FromIPSummaryDump(DATA {data}{options}) -> c :: Collect;");
    let mut rig = Rig::new(&config);
    rig.run();
    rig
}

#[test]
fn a_line_makes_a_packet() {
    let mut rig = read(
        "!data timestamp src sport dst dport proto ip_len tcp_flags tcp_opt\n\
         1.5 1.0.0.1 10 2.0.0.2 20 T 100 SA mss1400\n\
         # a remark\n\n\
         2.5 - - - - U - - -\n",
        ", CHECKSUM true",
    );
    let packets = rig.collected("c");
    assert_eq!(packets.len(), 2);
    let (first, second) = (&packets[0], &packets[1]);
    assert_eq!(first.timestamp(), 1_500_000_000);
    assert_eq!(first.len(), 100);
    assert_eq!(first.dst_ip().to_string(), "2.0.0.2");
    let ip = Ipv4Packet::new_checked(first.network_header().unwrap()).unwrap();
    assert_eq!(
        (ip.ttl(), ip.total_len(), checksum(&first.data()[..20])),
        (100, 100, 0)
    );
    let tcp = TcpPacket::new_checked(first.transport_header().unwrap()).unwrap();
    assert_eq!((tcp.source(), tcp.destination()), (10, 20));
    assert_eq!(tcp.header_len(), 24);
    assert_eq!(second.data()[..10], [0x45, 0, 0, 28, 0, 0, 0, 0, 100, 17]);
    assert_eq!((second.len(), second.data()[25]), (28, 8));
    assert_eq!(rig.printed(), Vec::<String>::new());
    assert_eq!(rig.read("f.filename"), "<data>");
    rig.assert_handlers(&[("f.filepos", "142"), ("f.filesize", "-")]);
}

#[test]
fn packets_are_sent_several_times() {
    let lines = "!data src\n1.0.0.1\n!data dst\n2.0.0.2\n";
    for (times, expected) in [("", 2), (", TIMES 1", 2), (", TIMES 3", 6)] {
        let mut rig = read(lines, times);
        let packets = rig.collected("c");
        assert_eq!(packets.len(), expected, "{times}");
        for pair in packets.chunks(2) {
            assert_eq!(pair[0].data()[12..20], [1, 0, 0, 1, 0, 0, 0, 0]);
            assert_eq!(pair[1].data()[12..20], [0, 0, 0, 0, 2, 0, 0, 2]);
        }
        assert_eq!(rig.printed(), Vec::<String>::new());
    }
    let data = click::config::quote(lines.as_bytes());
    let config = format!(
        "f :: FromIPSummaryDump(DATA {data}, TIMES 0) -> k :: Counter(COUNT_CALL 100 stop)
            -> Discard;"
    );
    let mut rig = Rig::new(&config);
    rig.run();
    assert!(rig.read("k.count").parse::<u32>().unwrap() >= 100);
    // Without packets, there is an end.
    assert!(read("!data src\n", ", TIMES 0").collected("c").is_empty());
}

#[test]
fn an_empty_payload_has_headers() {
    let mut rig = read("!data payload\n\"\"\n", "");
    assert_eq!(rig.collected("c")[0].len(), 40);
}

#[test]
fn what_is_missing_of_a_packet_is_in_its_annotation() {
    let mut rig = read(
        "!data src ip_len payload\n1.0.0.1 100 \"hi\"\n1.0.0.1 30 -",
        ", PROTO 17",
    );
    let packets = rig.collected("c");
    let lengths = packets.iter().map(|p| (p.len(), p.anno(EXTRA_LENGTH)));
    // The IP header has options, as much as it can, so that the payload ends the packet.
    assert_eq!(lengths.collect::<Vec<_>>(), [(70, 30), (28, 2)]);
    let header = packets[0].network_header_len();
    assert_eq!(packets[0].data()[header + 8..], *b"hi");
}

#[test]
fn lines_say_what_the_packets_after_them_are_like() {
    let mut rig = read(
        "!data link dport\n!flowid 1.0.0.1 10 2.0.0.2 20 U\n!aggregate 7\n> -\n< 99\n!proto T\n> -",
        "",
    );
    let packets = rig.collected("c");
    let ends: Vec<_> = packets
        .iter()
        .map(|p| {
            let ip = Ipv4Packet::new_quoted(p.data()).unwrap();
            let port = |at: usize| u16::from_be_bytes([p.data()[at], p.data()[at + 1]]);
            let ends = format!(
                "{}:{} {}:{}",
                ip.source(),
                port(20),
                ip.destination(),
                port(22)
            );
            (ends, ip.protocol().0, p.anno(AGGREGATE))
        })
        .collect();
    assert_eq!(
        ends,
        [
            ("1.0.0.1:10 2.0.0.2:20".into(), 17, 7),
            ("2.0.0.2:20 1.0.0.1:99".into(), 17, 7),
            ("1.0.0.1:10 2.0.0.2:20".into(), 6, 7),
        ]
    );
}

#[test]
fn nonsense_is_told_once() {
    let mut rig = read(
        "!data zork payload_md5 src\nbad - x\nworse\n- - 1.0.0.1\n!proto 1 2\n!flowid x",
        "",
    );
    assert_eq!(rig.collected("c").len(), 1);
    assert_eq!(
        rig.printed(),
        [
            "<data>:1: warning: unknown content type 'zork'",
            "<data>:1: warning: unknown content type 'payload_md5'",
            "<data>:2: packet parse error",
            "<data>:5: bad !proto",
            "<data>:6: bad !flowid specification",
        ]
    );
    let mut rig = read("1.0.0.1", "");
    let lines = rig.printed();
    assert!(
        lines
            .concat()
            .contains("missing banner line; is this an IP summary dump?"),
        "{lines:?}"
    );
    assert_eq!(lines.last().unwrap(), "<data>:1: no '!data' provided");
    let mut rig = read("!IPSummaryDump 2.7\n!data src\n1.0.0.1", "");
    assert_contains(
        &rig.printed().concat(),
        "unexpected IPSummaryDump version 2.7",
    );
}

#[test]
fn a_line_that_counts_several_makes_several_packets() {
    let text = "!data count timestamp first_timestamp src proto ip_len\n3 5 1 1.0.0.1 U 300";
    let mut rig = read(text, ", MULTIPACKET true");
    let packets = rig.collected("c");
    let seen: Vec<_> = packets
        .iter()
        .map(|p| {
            let ip = Ipv4Packet::new_quoted(p.data()).unwrap();
            let seconds = p.timestamp() / 1_000_000_000;
            (
                seconds,
                p.len(),
                p.anno(EXTRA_LENGTH),
                ip.total_len(),
                p.data()[25],
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (1, 28, 72, 100, 80),
            (3, 28, 72, 100, 80),
            (5, 28, 72, 100, 80)
        ]
    );
    let mut rig = read("!data count src\n4 1.0.0.1", ", MULTIPACKET true");
    let packets = rig.collected("c");
    let lengths: Vec<_> = packets
        .iter()
        .map(|p| (p.len(), p.anno(EXTRA_LENGTH)))
        .collect();
    assert_eq!(lengths, [(40, 0); 4]);
    drop(packets);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn packets_keep_their_distances_in_time_if_asked() {
    let config = "f :: FromIPSummaryDump(DATA \"!data timestamp\n10\n11\n13\", TIMING true) -> c :: Collect;";
    let mut rig = Rig::new(config);
    rig.run();
    assert_eq!(rig.collected("c").len(), 1);
    rig.advance(999_000_000);
    assert_eq!(rig.collected("c").len(), 0);
    rig.advance(2_000_000);
    assert_eq!(rig.collected("c").len(), 1);
    rig.advance(2_000_000_000);
    assert_eq!(rig.collected("c").len(), 1);
}

#[test]
fn it_is_pulled_from_and_says_when_it_is_empty() {
    let config = "f :: FromIPSummaryDump(DATA \"!data src\n1.0.0.1\n1.0.0.2\", STOP true)
        -> u :: Unqueue -> c :: Collect;";
    let mut rig = Rig::new(config);
    rig.run();
    assert_eq!(rig.data("c").len(), 2);
    assert_eq!(rig.read("u.scheduled"), "false");
    assert_eq!(rig.router.run(1), router::Status::Stopped);
}

#[test]
fn handlers_tell_and_set_what_they_say() {
    let file = TempFile::new("summary_handlers");
    file.write(b"!data src\n1.0.0.1\n");
    let mut rig = Rig::new(&format!(
        "f :: FromIPSummaryDump({file}, ACTIVE false, SAMPLE 0.5) -> c :: Collect;"
    ));
    rig.run();
    assert_eq!(rig.collected("c").len(), 0);
    assert_eq!(rig.read("f.active"), "false");
    rig.assert_handlers(&[("f.filesize", "18"), ("f.filepos", "0")]);
    rig.assert_handlers(&[("f.sampling_prob", "0.5"), ("f.encap", "IP")]);
    assert!(rig.try_write("f.active", "x").is_err());
    rig.write("f.active", "true");
    rig.run();
    assert_eq!(rig.read("f.active"), "true");
    rig.write("f.stop", "");
    assert_eq!(rig.read("f.active"), "false");
}

#[test]
fn files_may_be_missing_only_if_allowed() {
    let file = TempFile::new("summary_empty");
    file.write(b"");
    for name in [String::from("/nowhere/x"), format!("{file}")] {
        let mut rig = Rig::new(&format!(
            "f :: FromIPSummaryDump({name}, ALLOW_NONEXISTENT true) -> c :: Collect;"
        ));
        rig.run();
        assert_eq!(rig.printed(), Vec::<String>::new());
        assert_eq!(rig.read("f.scheduled"), "false");
    }
    let error = |args: &str, text: &str| {
        Rig::refuses(&format!("FromIPSummaryDump({args}) -> Discard;"), text);
    };
    error("/nowhere/x", "/nowhere/x: No such file or directory");
    error(&format!("{file}"), &format!("\n{file}:0:   empty file"));
    error("", "FILENAME: required argument missing");
    error("x, DATA y", "FILENAME and DATA conflict");
    error("DATA x, FLOWID 1.2.3.4", "bad !flowid specification");
}

#[test]
fn a_burst_is_sent_at_a_time() {
    let config = "FromIPSummaryDump(DATA \"!data ip_src\n1.0.0.1\n1.0.0.2\n1.0.0.3\", BURST 2)
        -> c :: Collect;";
    let mut rig = Rig::new(config);
    rig.step();
    assert_eq!(rig.collected("c").len(), 2);
    rig.run();
    assert_eq!(rig.collected("c").len(), 1);
}

#[test]
fn checksums_count_on_the_end_of_a_source_route() {
    let mut rig = read(
        "!data src dst proto ip_opt udp_len payload\n\
         1.0.0.1 2.0.0.2 U lsrr{9.9.9.9^3.0.0.3} - \"hi\"\n\
         1.0.0.1 2.0.0.2 U lsrr{9.9.9.9,3.0.0.3} - \"hi\"\n",
        ", CHECKSUM true",
    );
    // The first has a hop to go, the other's destination is the last.
    for (packet, destination) in rig.collected("c").iter().zip([[3, 0, 0, 3], [2, 0, 0, 2]]) {
        let datagram = packet.transport_header().unwrap();
        let pseudo = [&[1, 0, 0, 1][..], &destination, &[0, 17, 0, 10], datagram].concat();
        assert_eq!((datagram.len(), checksum(&pseudo)), (10, 0));
    }
    assert!(rig.printed().is_empty());
}

#[test]
fn the_options_of_the_last_field_of_options_hold() {
    let mut rig = read("!data tcp_opt tcp_ntopt\nsackok wscale3\n", "");
    let packet = &rig.collected("c")[0];
    assert_eq!(packet.data()[40..], [4, 2, 0, 0]);
}

#[test]
fn a_checksum_counts_addresses_behind_the_end_of_a_short_header() {
    let mut rig = read("!data ip_hl ip_dst\n5 127.0.0.1\n", ", CHECKSUM true");
    let packet = &rig.collected("c")[0];
    assert_eq!(packet.data()[0], 0x42);
    assert_eq!(packet.data()[36..38], [0x30, 0xe4]);
}

#[test]
fn a_link_header_alone_is_followed_by_an_empty_header() {
    let mut rig = read("!data eth_src\n0:1:2:3:4:5\n", "");
    let packet = &rig.collected("c")[0];
    assert_eq!((packet.len(), packet.network_offset()), (14, Some(14)));
}
