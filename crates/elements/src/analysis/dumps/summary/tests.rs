//! The table holds together, what is written is read as the same, and no bytes make it panic.

use std::io::Cursor;

use super::fields::ALL;
use super::{Defaults, Next, Reader, Selection, Writer, find, ip_options, tcp_options};
use crate::testing::*;

fn all_names() -> Vec<&'static str> {
    let fields = ALL.iter().flat_map(|group| group.iter());
    fields.map(|field| field.name).collect()
}

/// Everything that can be in a binary dump.
fn binary_names() -> String {
    let names = all_names();
    let text: Vec<&str> = names
        .into_iter()
        .filter(|name| *name != "payload")
        .collect();
    text.join(" ")
}

fn reader(file: &[u8], checksums: bool) -> Reader {
    let defaults = Defaults {
        protocol: 6,
        checksums,
    };
    let mut reader = Reader::new("F", defaults);
    let _ = reader.open(Box::new(Cursor::new(file.to_vec())));
    reader
}

/// All packets of a file, as long as they are no more than 1000.
fn packets(file: &[u8], checksums: bool) -> Vec<Packet> {
    let mut reader = reader(file, checksums);
    let mut pool = Pool::heap(1 << 12);
    let mut packets = Vec::new();
    while packets.len() < 1000 {
        let mut packet = pool.empty().expect("the pool has room");
        match reader.next(Context::blank(), &mut packet) {
            Next::Packet => packets.push(packet),
            Next::Nothing => {}
            Next::End => break,
        }
    }
    packets
}

/// What is written of packets, header included.
fn written(packets: &mut [Packet], fields: &str, binary: bool) -> Vec<u8> {
    let (selection, errors) = Selection::parse(fields, binary);
    assert!(errors.is_empty(), "{errors:?}");
    let (banner, data) = selection.header();
    let writer = Writer {
        selection,
        bad_packets: true,
        careful_truncation: true,
        extra_length: true,
        ..Writer::default()
    };
    let mut out = (banner + &data).into_bytes();
    for packet in packets {
        writer.add(packet, Context::blank(), &mut out);
    }
    out
}

fn lines(file: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(file);
    let said = |line: &&str| line.starts_with("!IPS") || line.starts_with("!bad");
    let lines = text.lines().filter(|line| !said(line));
    lines.map(String::from).collect()
}

#[test]
fn fields_go_by_several_names() {
    let name = |text| find(text).map(|field| field.name);
    for (text, found) in [
        ("ip_src", Some("ip_src")),
        ("src", Some("ip_src")),
        ("ip src", Some("ip_src")),
        ("len", Some("ip_len")),
        ("length", Some("ip_len")),
        ("ts", Some("timestamp")),
        ("tcp seq", Some("tcp_seq")),
        ("ether_dst", Some("eth_dst")),
        ("src_", None),
        ("", None),
        ("zork", None),
    ] {
        assert_eq!(name(text), found, "{text}");
    }
    let mut names = all_names();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn ip_options_are_printed_as_they_are_read() {
    let printed = |text: &str| {
        let options = ip_options::parse(text.as_bytes())?;
        let mut out = Vec::new();
        ip_options::print(&options, &mut out);
        Some(String::from_utf8(out).unwrap())
    };
    for (text, out) in [
        (".", "."),
        ("nop;nop;eol", "."),
        (
            "ssrr{128.4.45.60,128.4.49.61^1.1.1.1,2.2.2.2}",
            "ssrr{128.4.45.60,128.4.49.61^1.1.1.1,2.2.2.2}",
        ),
        ("lsrr{1.0.0.1,^2.0.0.2}", "lsrr{1.0.0.1^2.0.0.2}"),
        ("rr{2.3.4.5}+3", "rr{2.3.4.5}+3"),
        ("rr{}+1", "rr{}+1"),
        (
            "ts{1.0.0.1=!8320,1.0.0.2=8321}++5",
            "ts.ip{1.0.0.1=!8320,1.0.0.2=8321^}++5",
        ),
        (
            "ts.3{1.0.0.1=1,^1.0.0.3,1.0.0.4=?}+1",
            "ts.preip{1.0.0.1=1^1.0.0.3,1.0.0.4,0.0.0.0}",
        ),
        ("ts{1,10000,!45^0,0};rr{}+1", "ts{1,10000,!45}+2;rr{}+1"),
        ("98;99=0:5:10", "?"),
        ("99=0:5:10", "99=0:5:10"),
    ] {
        assert_eq!(printed(text).as_deref(), Some(out), "{text}");
    }
    for wrong in [
        "rr{1.2.3}",
        "rr{1.2.3.4",
        "ts{}x",
        "ts.16{}",
        "256",
        "99=256",
        "x",
        "rr{}+20",
        "ts.ip{1.2.3.4}",
    ] {
        assert_eq!(printed(wrong), None, "{wrong}");
    }
}

#[test]
fn tcp_options_are_printed_as_they_are_read() {
    let printed = |text: &str, which| {
        let options = tcp_options::parse(text.as_bytes(), which)?;
        let mut out = Vec::new();
        tcp_options::print(&options, which, &mut out);
        Some(String::from_utf8(out).unwrap())
    };
    use tcp_options::Which::{All, NoTimestamp, Sack};
    for (text, which, out) in [
        (
            "mss1400;nop;wscale10;sackok;ts1:2",
            All,
            Some("mss1400;wscale10;sackok;ts1:2"),
        ),
        ("ts669063908:38382731", All, Some("ts669063908:38382731")),
        ("sack1-2,sack3:4", Sack, Some("sack1-2;sack3-4")),
        (
            "sack1-2;sack3-4;sack5-6;sack7-8",
            All,
            Some("sack1-2;sack3-4;sack5-6;sack7-8"),
        ),
        ("99=0:5:10", NoTimestamp, Some("99=0:5:10")),
        ("mss65536", All, None),
        ("wscale256", All, None),
        ("ts1", All, None),
        ("ts1:2", NoTimestamp, None),
        ("mss5", Sack, None),
        ("sack1-", All, None),
        ("nop", All, Some(".")),
        ("mss5;nop", NoTimestamp, None),
        ("eol", Sack, None),
        ("5=0:0:0:1:0:0:0:2", Sack, None),
        ("8=0:0:0:1:0:0:0:2", NoTimestamp, Some(".")),
    ] {
        assert_eq!(printed(text, which).as_deref(), out, "{text}");
    }
    // Blocks with commas between them share an option.
    for (text, length) in [("sack1-2,sack3-4", 18), ("sack1-2;sack3-4", 20)] {
        assert_eq!(
            tcp_options::parse(text.as_bytes(), All).map(|o| o.len()),
            Some(length)
        );
    }
    let mut out = Vec::new();
    tcp_options::print(&[2, 3, 1, 1], All, &mut out);
    assert_eq!(out, b"?");
}

#[test]
fn a_dump_of_a_dump_is_the_same() {
    let fields = "timestamp count direction aggregate eth_src eth_dst eth_type ip_src ip_dst \
        ip_tos ip_ecn ip_ttl ip_fragoff ip_id ip_proto ip_hl ip_len ip_opt sport dport tcp_seq \
        tcp_ack tcp_off tcp_flags tcp_window tcp_urp tcp_opt udp_len icmp_type icmp_code \
        icmp_flowid icmp_seq payload_len";
    let own = "10.5 1 < 7 00-0A-95-A6-D9-BC 00-0A-95-A6-D9-BD 0800 1.2.3.4 5.6.7.8 \
        1 ect1 9 0! 77 T 24 100 rr{} 10 20 30 40 32 SA 50 60 mss1460;sackok - - - - - 44
11.000000001 3 > 8 - - 0800 1.2.3.4 5.6.7.8 0 no 64 8+ 78 U 20 100 . - - - - - - - - - - - - - - 80
12.000000 1 2 0 - - 0800 1.2.3.4 5.6.7.8 0 no 64 0 78 U 20 36 . 53 54 - - - - - - - 16 - - - - 8
13.000000 1 > 0 - - 0800 1.2.3.4 5.6.7.8 0 no 64 0 78 I 20 28 . - - - - - - - - - - 8 0 9 10 8";
    let file = std::format!("!data {fields}\n{own}\n");
    let first = written(&mut packets(file.as_bytes(), false), fields, false);
    let text = lines(&first);
    assert_eq!(text.len(), 5, "{text:?}");
    assert_eq!(
        text[1],
        "10.500000 1 < 7 00-0A-95-A6-D9-BC 00-0A-95-A6-D9-BD 0800 1.2.3.4 5.6.7.8 1 ect1 9 0! 77 \
         T 24 100 rr{} 10 20 30 40 32 SA 50 60 mss1460;sackok - - - - - 44"
    );
    assert_eq!(
        text[3],
        "12.000000 1 2 0 00-00-00-00-00-00 00-00-00-00-00-00 0800 1.2.3.4 5.6.7.8 0 no 64 0 78 U \
         20 36 . 53 54 - - - - - - - 16 - - - - 8"
    );
    assert!(text[4].ends_with("- 8 0 9 10 8"), "{}", text[4]);
    for checksums in [false, true] {
        let again = written(&mut packets(&first, checksums), fields, false);
        assert_eq!(lines(&again), text);
    }
    // Through a binary dump too, where times are in microseconds.
    let mut from = packets(&first, false);
    from[1].set_timestamp(11_000_000_000);
    let text = lines(&written(&mut from, fields, false));
    let names = fields.replace("timestamp", "ntimestamp");
    for fields in [fields, &names] {
        let binary = written(&mut from, fields, true);
        let mut back = packets(&binary, false);
        // Packet counts and the like are read as they are; only what was missing is zero now.
        let again = lines(&written(
            &mut back,
            "timestamp ip_src ip_len ip_opt tcp_opt",
            false,
        ));
        let wanted = written(&mut from, "timestamp ip_src ip_len ip_opt tcp_opt", false);
        assert_eq!(again, lines(&wanted), "{fields}");
    }
    assert_eq!(text.len(), 5);
}

/// A packet of any bytes with marks anywhere.
fn any_packet() -> impl Strategy<Value = Packet> {
    let ip = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..120),
        // More like IP.
        (
            proptest::collection::vec(any::<u8>(), 4..120),
            5u8..16,
            0usize..3
        )
            .prop_map(|(mut bytes, words, protocol)| {
                bytes[0] = 0x40 | words;
                bytes[2] = 0;
                if let Some(place) = bytes.get_mut(9) {
                    *place = [1, 6, 17][protocol];
                }
                if let Some(place) = bytes.get_mut(6..8) {
                    place[0] &= 0xc0;
                    place[1] &= 1;
                }
                bytes
            }),
    ];
    let marks = (0usize..40, 0usize..70, 0usize..40, any::<bool>(), 0u32..200);
    (ip, marks, 0usize..30).prop_map(|(bytes, (network, header, mac, has_mac, extra), strip)| {
        let mut pool = Pool::heap(1);
        let mut packet = pool.copy(&bytes).expect("the pool has room");
        packet.set_network_header(network % 3 * (network % 20), header);
        if has_mac {
            packet.set_mac_header(mac);
        }
        packet.set_anno(EXTRA_LENGTH, extra);
        packet.set_anno(EXTRA_PACKETS, extra % 3);
        packet.pull(strip % 3 * 7);
        packet
    })
}

/// A text that has something of a dump.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        proptest::sample::select(all_names()).prop_map(|name| name.as_bytes().to_vec()),
        proptest::sample::select(std::vec![
            "!data",
            "!flowid",
            "!proto",
            "!aggregate",
            "!binary",
            "-",
            "1.2.3.4",
            "T",
            "\"a\\n\"",
            "rr{1.0.0.1}+3",
            "ts{1,2^3}",
            "ts.ip{1.2.3.4=1}+9",
            "mss5;sackok",
            "sack1-2",
            "ts1:2",
            "99=1:2",
            "255",
            "60",
            "4294967295",
            "65535",
            "18446744073709551615",
            "F",
            "f",
            "0+!",
            "SA",
            "00:00:00:00:00:01",
            "0800",
            "86dd",
            "echo",
            "#",
            "\n",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.join(&b' '))
}

proptest! {
    #[test]
    fn any_text_is_read(file in any_line(), checksums: bool) {
        let names = all_names().join(" ");
        let head = std::format!("!IPSummaryDump 1.3\n!data {names}\n").into_bytes();
        for file in [file.clone(), [head, file].concat()] {
            let mut read = packets(&file, checksums);
            written(&mut read, &names, false);
        }
    }

    #[test]
    fn any_records_are_read(records in proptest::collection::vec(any_line(), 0..4), checksums: bool) {
        let mut file = std::format!("!data {}\n!binary\n", binary_names()).into_bytes();
        for record in records {
            file.extend((record.len() as u32 + 4).to_be_bytes());
            file.extend(record);
        }
        let mut read = packets(&file, checksums);
        written(&mut read, &binary_names(), true);
    }

    #[test]
    fn any_packet_is_written(packet in any_packet()) {
        let mut packets = [packet];
        let text = written(&mut packets, &all_names().join(" "), false);
        let binary = written(&mut packets, &binary_names(), true);
        prop_assert!(text.ends_with(b"\n"));
        // What is written can be read.
        reader(&text, false);
        self::packets(&text, true);
        prop_assert!(self::packets(&binary, true).len() <= 1);
    }

    #[test]
    fn any_options_are_printed_so_that_they_can_be_read(options in proptest::collection::vec(any::<u8>(), 0..41)) {
        let mut text = Vec::new();
        tcp_options::print(&options, tcp_options::Which::All, &mut text);
        if text != b"?" {
            prop_assert!(tcp_options::parse(&text, tcp_options::Which::All).is_some() || options.len() > 36);
        }
        text.clear();
        ip_options::print(&options, &mut text);
        ip_options::parse(&text);
    }
}
