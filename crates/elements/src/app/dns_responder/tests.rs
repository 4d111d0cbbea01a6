//! Queries and their answers, as packets.

use super::message::ANSWER_MAX;
use crate::testing::*;

const ZONE: &str = r#"$ORIGIN example.org.
@ SOA ns root 1 2 3 4 60
@ NS ns
@ MX 10 mail
www A 10.0.0.80
www AAAA 2001:db8::80
web CNAME www
out CNAME www.example.net.
long TXT aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1
gone CNAME nowhere
a.b A 10.0.0.1
"#;

fn rig(zone: &str) -> Rig {
    let zone = zone.replace('"', "\\\"");
    Rig::new(&format!(
        "i :: Inject -> MarkIPHeader -> d :: DNSResponder(\"{zone}\") -> c :: Collect;"
    ))
}

fn name(text: &str) -> Vec<u8> {
    super::name::parse(text, &[0]).unwrap()
}

fn query(text: &str, kind: u16, edns: Option<u16>) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, edns.is_some().into()];
    message.extend(name(text));
    message.extend([kind.to_be_bytes(), [0, 1]].concat());
    if let Some(size) = edns {
        message.extend([0, 0, 41]);
        message.extend(size.to_be_bytes());
        message.extend([0, 0, 0x80, 0, 0, 0]);
    }
    message
}

/// The answer to a message.
fn ask(rig: &mut Rig, message: &[u8]) -> Option<Vec<u8>> {
    rig.push("i", &udp((A, 4000), (B, 53), message));
    let answer = rig.data("c").pop()?;
    let ip = Ipv4Packet::new_checked(&answer[..]).unwrap();
    assert!(ip.verify_checksum());
    assert_eq!((ip.source(), ip.destination()), (B, A));
    let datagram = UdpPacket::new_checked(ip.payload()).unwrap();
    assert_eq!((datagram.source(), datagram.destination()), (53, 4000));
    let pseudo = pseudo_header_v4(B, A, 17, datagram.length());
    assert!(datagram.checksum() != 0 && datagram.verify_checksum(pseudo));
    assert_eq!(answer.len(), 28 + datagram.payload().len());
    Some(datagram.payload().to_vec())
}

/// Flags with the response code, and the counts of the answer, authority and additional sections.
fn head(answer: &[u8]) -> [u16; 4] {
    [2, 6, 8, 10].map(|at| u16::from_be_bytes([answer[at], answer[at + 1]]))
}

const AA: u16 = 0x8500;

#[test]
fn names_have_records() {
    let mut rig = rig(ZONE);
    let answer = ask(&mut rig, &query("WwW.example.org.", 1, None)).unwrap();
    assert_eq!(answer[..2], [0xab, 0xcd]);
    assert_eq!(head(&answer), [AA, 1, 0, 0]);
    // The question comes back letter by letter.
    assert_eq!(answer[12..29], name("WwW.example.org."));
    let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 10, 0, 0, 80];
    assert_eq!(answer[33..], record);
    let answer = ask(&mut rig, &query("example.org.", 15, None)).unwrap();
    assert_eq!(
        answer[answer.len() - 20..],
        [&[0, 10][..], &name("mail.example.org.")].concat()
    );
    // An alias with what it stands for, and one that leads elsewhere.
    let answer = ask(&mut rig, &query("web.example.org.", 28, None)).unwrap();
    assert_eq!(head(&answer), [AA, 2, 0, 0]);
    assert!(answer.ends_with(&"2001:db8::80".parse::<Ipv6Addr>().unwrap().octets()));
    let answer = ask(&mut rig, &query("out.example.org.", 1, None)).unwrap();
    assert_eq!(head(&answer), [AA, 1, 0, 0]);
    rig.assert_handlers(&[
        ("d.found", "4"),
        ("d.record_count", "10"),
        ("d.missing", "0"),
    ]);
}

#[test]
fn absent_names_and_types_come_with_the_zone() {
    let mut rig = rig(ZONE);
    for (text, kind, code, counts) in [
        ("nowhere.example.org.", 1, 3, [0, 1]),
        ("x.www.example.org.", 1, 3, [0, 1]),
        ("gone.example.org.", 1, 3, [1, 1]),
        ("www.example.org.", 16, 0, [0, 1]),
        ("b.example.org.", 1, 0, [0, 1]),
    ] {
        let answer = ask(&mut rig, &query(text, kind, None)).unwrap();
        assert_eq!(
            head(&answer),
            [AA | code, counts[0], counts[1], 0],
            "{text}"
        );
        // The SOA record: its owner is the end of the name, its time to live the minimum.
        let soa = answer
            .windows(10)
            .rposition(|it| it[2..] == [0, 6, 0, 1, 0, 0, 0, 60]);
        let soa = soa.unwrap();
        let owner = usize::from(answer[soa + 1]);
        assert_eq!(answer[owner..owner + 13], name("example.org."), "{text}");
    }
    for (message, code) in [
        (query("example.net.", 1, None), 0x8105),
        (query("org.", 1, None), 0x8105),
        (query("www.example.org.", 252, None), 0x8104),
    ] {
        assert_eq!(head(&ask(&mut rig, &message).unwrap()), [code, 0, 0, 0]);
    }
    let mut chaos = query("www.example.org.", 1, None);
    *chaos.last_mut().unwrap() = 3;
    assert_eq!(head(&ask(&mut rig, &chaos).unwrap())[0], 0x8105);
    let mut notify = query("www.example.org.", 1, None);
    notify[2] |= 4 << 3;
    assert_eq!(head(&ask(&mut rig, &notify).unwrap())[0], 0xa104);
    rig.assert_handlers(&[
        ("d.missing", "3"),
        ("d.nodata", "2"),
        ("d.refused", "3"),
        ("d.unsupported", "2"),
    ]);
    rig.write("d.reset", "");
    rig.assert_handlers(&[("d.missing", "0"), ("d.refused", "0")]);
}

#[test]
fn answers_are_as_long_as_the_client_takes() {
    let strings: String = (0..14)
        .map(|n| format!("many TXT {}{n:02}\n", "x".repeat(90)))
        .collect();
    let mut rig = rig(&format!("{ZONE}{strings}"));
    for (edns, cut, most) in [
        (None, true, 512),
        (Some(0), true, 512),
        (Some(700), true, 700),
        (Some(65535), true, ANSWER_MAX),
    ] {
        let answer = ask(&mut rig, &query("many.example.org.", 16, edns)).unwrap();
        let [flags, records, _, additional] = head(&answer);
        assert_eq!(flags & 0x200 != 0, cut);
        assert!(
            answer.len() <= most && answer.len() > most - 110,
            "{}",
            answer.len()
        );
        assert_eq!(additional, u16::from(edns.is_some()));
        let opt = 11 * usize::from(additional);
        assert_eq!(answer.len(), 12 + 22 + 105 * usize::from(records) + opt);
        if edns.is_some() {
            // The DO bit comes back.
            assert_eq!(
                answer[answer.len() - 11..],
                [0, 0, 41, 4, 208, 0, 0, 128, 0, 0, 0]
            );
        }
    }
    let answer = ask(&mut rig, &query("long.example.org.", 16, None)).unwrap();
    assert_eq!(head(&answer), [AA, 1, 0, 0]);
    rig.assert_handlers(&[("d.truncated", "4")]);
}

#[test]
fn malformed_queries_are_told_so() {
    let mut rig = rig(ZONE);
    let good = query("www.example.org.", 1, Some(1232));
    // A name that points at itself; two questions; none; cut anywhere; two OPT records; an OPT record with a name.
    let looped = [&good[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
    let mut two = good.clone();
    two[5] = 2;
    let mut none = good.clone();
    none[5] = 0;
    let mut opts = [&good[..], &good[33..]].concat();
    opts[11] = 2;
    let mut named = good.clone();
    named.splice(33..34, [1, b'a', 0]);
    for message in [looped, two, none, opts, named] {
        assert_eq!(ask(&mut rig, &message).unwrap()[2..4], [0x81, 1]);
    }
    for length in 12..good.len() {
        let answer = ask(&mut rig, &good[..length]).unwrap();
        assert_eq!(head(&answer), [0x8101, 0, 0, 0], "{length}");
    }
    for length in 0..12 {
        assert_eq!(ask(&mut rig, &good[..length]), None);
    }
    let mut answer = good.clone();
    answer[2] |= 0x80;
    assert_eq!(ask(&mut rig, &answer), None);
    // Version 1 of EDNS.
    let mut version = good.clone();
    version[33 + 6] = 1;
    let answer = ask(&mut rig, &version).unwrap();
    assert_eq!(head(&answer), [0x8100, 0, 0, 1]);
    assert_eq!(answer[answer.len() - 6], 1);
    // A wrong checksum.
    let mut packet = udp((A, 4000), (B, 53), &good);
    packet[26] ^= 1;
    rig.push("i", &packet);
    assert_eq!(rig.data("c").len(), 0);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn queries_come_by_ipv6_too() {
    let zone = ZONE.replace('"', "\\\"");
    let mut rig = Rig::new(&format!(
        "i :: Inject -> MarkIP6Header -> d :: DNSResponder(\"{zone}\") -> c :: Collect;"
    ));
    let (a, b) = (ip6::addr("2001:db8::a"), ip6::addr("2001:db8::b"));
    rig.push(
        "i",
        &ip6::udp((a, 4000), (b, 53), &query("www.example.org.", 1, None)),
    );
    let answer = rig.data("c").pop().unwrap();
    assert_eq!(
        (&answer[8..24], &answer[24..40]),
        (&b.octets()[..], &a.octets()[..])
    );
    assert_eq!(ip6::upper_checksum(17, b, a, &answer[40..]), 0);
    assert!(answer.ends_with(&[10, 0, 0, 80]));
}

#[test]
fn records_are_replaced_whole_or_not() {
    let mut rig = rig(ZONE);
    let error = rig.try_write("d.records", "a. A 10.0.0.1").unwrap_err();
    assert_contains(&format!("{error:?}"), "line 1: ‘a.’ is in no zone");
    assert_eq!(rig.read("d.records"), ZONE);
    rig.write("d.records", "a. SOA a. a. 1 1 1 1 1\na. A 10.0.0.1");
    assert_eq!(
        head(&ask(&mut rig, &query("a.", 1, None)).unwrap()),
        [AA, 1, 0, 0]
    );
    Rig::refuses(
        "Idle -> DNSResponder(\"a. B\") -> Discard",
        "RECORDS: line 1: 'B' is no type",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any message, and a query with any byte changed, gets an answer of the right form or none.
    #[test]
    fn no_message_is_too_odd(
        noise in prop::collection::vec(any::<u8>(), 0..80),
        at in 0usize..60,
        byte: u8,
        label in "[a-z]{1,8}",
    ) {
        let mut rig = rig(ZONE);
        let mut message = query(&format!("{label}.example.org."), 255, Some(600));
        let at = at % message.len();
        message[at] = byte;
        for message in [noise, message] {
            let Some(answer) = ask(&mut rig, &message) else {
                prop_assert!(message.len() < 12 || message[2] & 0x80 != 0);
                continue;
            };
            prop_assert!(answer.len() <= ANSWER_MAX);
            prop_assert_eq!(&answer[..2], &message[..2]);
            prop_assert!(answer[2] & 0x80 != 0);
        }
        prop_assert_eq!(rig.outstanding(), 0);
    }
}
