use crate::testing::*;

/// What is printed of `packet`.
fn printed(args: &str, packet: &[u8]) -> String {
    let mut rig = Rig::new(&format!(
        "i :: Inject -> MarkIPHeader -> IPPrint({args}) -> c :: Collect;"
    ));
    rig.push_with("i", packet, |packet| {
        packet.set_timestamp(1_500_000_000);
        packet.set_paint(3);
        packet.set_anno(AGGREGATE, 77);
    });
    assert_eq!(rig.data("c"), [packet]);
    rig.printed().join("\n")
}

fn bare(packet: &[u8]) -> String {
    printed("TIMESTAMP false", packet)
}

#[test]
fn labels_and_annotations_go_first() {
    let packet = udp((A, 5), (B, 6), &[1]);
    let text = "1.0.0.1.5 > 2.0.0.2.6: udp 9";
    assert_eq!(printed("", &packet), format!("1.500000: {text}"));
    assert_eq!(
        printed("x, PAINT true, AGGREGATE true", &packet),
        format!("x: 1.500000: #77.3: {text}")
    );
}

#[test]
fn fields_of_the_ip_header_can_be_shown() {
    let mut packet = udp((A, 5), (B, 6), &[1]);
    (packet[1], packet[5]) = (16, 9);
    let fields = "TIMESTAMP false, ID true, TTL true, TOS true, LENGTH true";
    assert_eq!(
        printed(fields, &packet),
        "id 9 ttl 64 tos 16 length 29 1.0.0.1.5 > 2.0.0.2.6: udp 9"
    );
}

#[test]
fn tcp_shows_flags_sequence_and_window() {
    let line = |flags, payload: &[u8]| bare(&tcp((A, 5), (B, 6), flags, payload));
    assert_eq!(
        line(0x10, &[0; 3]),
        "1.0.0.1.5 > 2.0.0.2.6: . 1:4(3,43,43) ack 2 win 8192"
    );
    assert_eq!(
        line(0x03, &[]),
        "1.0.0.1.5 > 2.0.0.2.6: SF 1:3(2,40,40) win 8192"
    );
    assert_eq!(
        line(0x0c, &[]),
        "1.0.0.1.5 > 2.0.0.2.6: RP 1:1(0,40,40) win 8192"
    );
}

#[test]
fn icmp_shows_types_by_name() {
    let with = |kind, code| {
        let mut packet = ping(A, B, &[0; 4]);
        (packet[20], packet[21]) = (kind, code);
        bare(&packet)
    };
    assert_eq!(with(8, 0), "1.0.0.1 > 2.0.0.2: icmp echo (1, 2)");
    assert_eq!(with(0, 0), "1.0.0.1 > 2.0.0.2: icmp echo-reply (1, 2)");
    assert_eq!(
        with(11, 1),
        "1.0.0.1 > 2.0.0.2: icmp timeexceeded reassembly"
    );
    assert_eq!(with(99, 0), "1.0.0.1 > 2.0.0.2: icmp type 99");
    assert_eq!(with(99, 7), "1.0.0.1 > 2.0.0.2: icmp type 99 code 7");
    assert_eq!(
        with(3, 1),
        "1.0.0.1 > 2.0.0.2: icmp unreachable host truncated-icmp"
    );
    let little = printed("TIMESTAMP false, SWAP false", &ping(A, B, &[]));
    assert_eq!(little, "1.0.0.1 > 2.0.0.2: icmp echo (256, 512)");
}

#[test]
fn unreachables_show_what_is() {
    let with = |code, quoted: &[u8]| {
        let mut packet = ping(A, B, quoted);
        (packet[20], packet[21]) = (3, code);
        bare(&packet).replace("1.0.0.1 > 2.0.0.2: icmp ", "")
    };
    let quoted = udp((B, 7), (A, 53), &[]);
    assert_eq!(with(0, &quoted), "1.0.0.1 unreachable net");
    assert_eq!(with(2, &quoted), "1.0.0.1 unreachable protocol udp");
    assert_eq!(with(3, &quoted), "1.0.0.1 unreachable port udp/53");
    assert_eq!(
        with(3, &quoted[..23]),
        "1.0.0.1 unreachable port udptruncated-icmp"
    );
    assert_eq!(with(4, &quoted), "1.0.0.1 unreachable needfrag (mtu 2)");
    assert_eq!(with(99, &quoted), "1.0.0.1 unreachable code 99");
    let mut other = quoted.clone();
    other[9] = 200;
    assert_eq!(with(2, &other), "1.0.0.1 unreachable protocol 200");
    assert_eq!(with(3, &other), "1.0.0.1 unreachable port protocol 200/53");
}

#[test]
fn fragments_say_so() {
    let mut packet = udp((A, 5), (B, 6), &[1]);
    packet[5] = 9;
    packet[6] = 0x20;
    assert_eq!(bare(&packet), "1.0.0.1.5 > 2.0.0.2.6: udp 9 (frag 9:9@0+)");
    (packet[6], packet[7]) = (0, 3);
    assert_eq!(bare(&packet), "1.0.0.1 > 2.0.0.2: udp (frag 9:9@24)");
    packet[9] = 6;
    assert_eq!(bare(&packet), "1.0.0.1 > 2.0.0.2: tcp (frag 9:9@24)");
    packet[9] = 1;
    assert_eq!(bare(&packet), "1.0.0.1 > 2.0.0.2: icmp (frag 9:9@24)");
    packet[9] = 47;
    assert_eq!(
        bare(&packet),
        "1.0.0.1 > 2.0.0.2: ip-proto-47 (frag 9:9@24)"
    );
}

#[test]
fn truncated_headers_say_so() {
    let udp = udp((A, 5), (B, 6), &[]);
    assert_eq!(bare(&udp[..19]), "truncated-ip");
    assert_eq!(bare(&udp[..23]), "1.0.0.1 > 2.0.0.2: truncated-udp");
    assert_eq!(bare(&udp[..27]), "1.0.0.1.5 > 2.0.0.2.6: truncated-udp");
    let tcp = tcp((A, 5), (B, 6), 0x10, &[]);
    assert_eq!(bare(&tcp[..23]), "1.0.0.1 > 2.0.0.2: truncated-tcp");
    assert_eq!(bare(&tcp[..33]), "1.0.0.1.5 > 2.0.0.2.6: truncated-tcp");
    assert_eq!(
        bare(&tcp[..35]),
        "1.0.0.1.5 > 2.0.0.2.6: . 1:1(0,35,40) ack 2truncated-tcp"
    );
    assert_eq!(
        bare(&ping(A, B, &[])[..21]),
        "1.0.0.1 > 2.0.0.2: truncated-icmp"
    );
    assert_eq!(
        bare(&ping(A, B, &[])[..27]),
        "1.0.0.1 > 2.0.0.2: icmp echo truncated-icmp"
    );
}

#[test]
fn bytes_can_be_shown() {
    let text = b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.\n";
    let packet = udp((A, 5), (B, 6), text);
    let head = "1.0.0.1.5 > 2.0.0.2.6: udp 78";
    assert_eq!(
        printed("TIMESTAMP false, PAYLOAD ascii", &packet),
        format!(
            "{head}\n  Random b ullshit  in a pac ket, at  least 64  bytes l\n  ong. Wel l, now i t is.."
        )
    );
    assert_eq!(
        printed("TIMESTAMP false, PAYLOAD hex, MAXLENGTH 26", &packet),
        format!("{head}\n  52616e64 6f6d2062 756c6c73 68697420 696e2061 20706163\n  6b65")
    );
    let hex = printed("TIMESTAMP false, CONTENTS yes, MAXLENGTH 4", &packet);
    assert_eq!(hex, format!("{head}\n  45000062"));
    let all = printed("TIMESTAMP false, CONTENTS ASCII, MAXLENGTH -1", &packet);
    assert!(all.contains("E..b...."), "{all}");
    let segment = tcp((A, 5), (B, 6), 0x10, b"text");
    let payload = printed("TIMESTAMP false, PAYLOAD ascii", &segment);
    assert!(payload.ends_with("\n  text"), "{payload}");
    let message = printed("TIMESTAMP false, PAYLOAD hex", &ping(A, B, &[])[..24]);
    assert!(message.ends_with("\n  0800f7fc"), "{message}");
}

#[test]
fn it_can_be_switched_off() {
    let config = "i :: Inject -> MarkIPHeader -> p :: IPPrint(ACTIVE false) -> Discard;";
    let mut rig = Rig::new(config);
    rig.push("i", &udp((A, 5), (B, 6), &[]));
    assert!(rig.printed().is_empty());
    rig.write("p.active", "true");
    rig.push("i", &udp((A, 5), (B, 6), &[]));
    assert_eq!(rig.printed().len(), 1);
}

#[test]
fn lines_can_go_to_a_file() {
    let path = std::env::temp_dir().join(format!("ip-print-{}", std::process::id()));
    let name = path.to_str().unwrap();
    let config = format!("i :: Inject -> MarkIPHeader -> IPPrint(OUTFILE {name}) -> Discard;");
    let mut rig = Rig::new(&config);
    rig.push("i", &udp((A, 5), (B, 6), &[]));
    assert!(rig.printed().is_empty());
    rig.router.end();
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(written, "0.000000: 1.0.0.1.5 > 2.0.0.2.6: udp 8\n");
    let errors = Rig::errors("Inject -> IPPrint(OUTFILE /nonesuch/file) -> Collect;");
    assert!(
        errors.contains("/nonesuch/file: No such file or directory\n"),
        "{errors}"
    );
}

#[test]
fn wrong_forms_are_refused() {
    for (args, error) in [
        (
            "CONTENTS zork",
            "bad contents value 'ZORK'; should be 'NONE', 'HEX', or 'ASCII'",
        ),
        (
            "PAYLOAD zork",
            "bad payload value 'zork'; should be 'false', 'hex', or 'ascii'",
        ),
        (
            "PAYLOAD hex, CONTENTS hex",
            "specify at most one of PAYLOAD and CONTENTS",
        ),
    ] {
        Rig::refuses(&format!("Inject -> IPPrint({args}) -> Collect;"), error);
    }
}

#[test]
fn garbage_is_survived() {
    let mut rig = Rig::new("i :: Inject -> MarkIPHeader -> IPPrint(PAYLOAD hex) -> Discard;");
    let mut byte = 1u8;
    for length in 0..200 {
        for protocol in [1, 6, 17, 50] {
            let mut packet: Vec<u8> = (0..length)
                .map(|_| {
                    byte = byte.wrapping_mul(77).wrapping_add(13);
                    byte
                })
                .collect();
            if let Some(place) = packet.get_mut(9) {
                *place = protocol;
            }
            rig.push("i", &packet);
        }
    }
    assert!(rig.printed().len() > 500);
}
