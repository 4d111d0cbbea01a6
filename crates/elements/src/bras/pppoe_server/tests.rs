//! A concentrator among hosts that speak PPPoE and PPP in bytes.

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};

use crate::bras::control::{Control, code as control, protocol};
use crate::bras::frame::{DISCOVERY, ETHER, HEADERS, Header, SESSION, code, tag};
use crate::testing::*;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ANN: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const BOB: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

/// A concentrator, with arguments.
fn rig(arguments: &str) -> Rig {
    Rig::new(&config(arguments))
}

fn config(arguments: &str) -> String {
    format!(
        "b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/29, AUTH pap, RADIUS r, {arguments});
         r :: RADIUSClient(10.0.0.1, SERVERS 10.0.0.9 10.0.0.8, SECRET sesame);
         i :: Inject -> kind :: Classifier(12/8863, 12/8864);
         kind[0] -> [0] b -> out :: Collect;
         kind[1] -> d :: PPPoEDecap(b) -> up :: Collect;
         d[1] -> [1] b;
         o :: Inject -> e :: PPPoEEncap(b) -> down :: Collect;
         e[1] -> lost :: Collect;
         a :: Inject -> MarkIPHeader -> r -> asked :: Collect;"
    )
}

const USERS: &str = "USERS \"ann secret\nbob hidden 100.64.0.6\ncid third\"";

fn frame(from: [u8; 6], to: [u8; 6], kind: EtherType, header: Header, payload: &[u8]) -> Vec<u8> {
    let ether = EthernetHeader {
        destination: EtherAddress(to),
        source: EtherAddress(from),
        ethertype: kind,
    };
    [&ether.to_bytes()[..], &header.to_bytes(), payload].concat()
}

fn discovery(from: [u8; 6], to: [u8; 6], code: u8, session: u16, tags: &[(u16, &[u8])]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|(kind, value)| {
        let length = (value.len() as u16).to_be_bytes();
        [&kind.to_be_bytes()[..], &length, value].concat()
    });
    let payload: Vec<u8> = tags.collect();
    let header = Header {
        code,
        session,
        length: payload.len() as u16,
    };
    frame(from, to, DISCOVERY, header, &payload)
}

fn session(from: [u8; 6], session: u16, protocol: u16, packet: &[u8]) -> Vec<u8> {
    let header = Header {
        code: 0,
        session,
        length: packet.len() as u16 + 2,
    };
    let payload = [&protocol.to_be_bytes()[..], packet].concat();
    // Padding, as of a short frame.
    let mut frame = frame(from, OWN, SESSION, header, &payload);
    frame.resize(frame.len().max(60), 0xee);
    frame
}

/// A discovery frame's code, session and tags.
fn said(frame: &[u8]) -> (u8, u16, Vec<(u16, Vec<u8>)>) {
    let (header, mut rest) = Header::parse(&frame[ETHER..]).unwrap();
    let mut tags = Vec::new();
    while let Some((&[a, b, c, d], tail)) = rest.split_first_chunk() {
        let (value, tail) = tail.split_at(u16::from_be_bytes([c, d]).into());
        tags.push((u16::from_be_bytes([a, b]), value.to_vec()));
        rest = tail;
    }
    (header.code, header.session, tags)
}

fn is_discovery(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0x63]
}

/// The cookie of an offer to a host.
fn cookie(rig: &mut Rig, host: [u8; 6]) -> Vec<u8> {
    let padi = discovery(host, [0xff; 6], code::PADI, 0, &[(tag::SERVICE_NAME, b"")]);
    rig.push("i", &padi);
    let mut offers = rig.data("out");
    offers.retain(|frame| is_discovery(frame) && frame[..6] == host);
    let (said, _, tags) = said(offers.last().expect("there is an offer"));
    assert_eq!(said, code::PADO);
    let found = tags.into_iter().find(|(kind, _)| *kind == tag::AC_COOKIE);
    found.unwrap().1
}

/// What a concentrator confirms to a host with a right cookie: the session's number.
fn request(rig: &mut Rig, host: [u8; 6]) -> u16 {
    let cookie = cookie(rig, host);
    let tags = [(tag::SERVICE_NAME, &b""[..]), (tag::AC_COOKIE, &cookie)];
    rig.push("i", &discovery(host, OWN, code::PADR, 0, &tags));
    let frames = rig.data("out");
    let answers = frames.iter().filter(|frame| frame[..6] == host);
    let answers: Vec<_> = answers.map(|frame| said(frame)).collect();
    let pads = answers.iter().find(|(code, ..)| *code == code::PADS);
    pads.unwrap().1
}

/// Lets a host of a session speak with a concentrator for a while, as a user by PAP. `asked` answers
/// requests of RADIUS.
fn speak(rig: &mut Rig, host: [u8; 6], number: u16, user: &str, mut asked: impl FnMut(&mut Rig)) {
    let (mut own, mut proven, mut wish) = (0, false, [0; 4]);
    let send = |rig: &mut Rig, protocol, code, id, data: &[u8]| {
        let mut packet = Vec::new();
        Control { code, id, data }.write(&mut packet);
        rig.push("i", &session(host, number, protocol, &packet));
    };
    for _ in 0..30 {
        rig.advance(SECOND / 10);
        for frame in rig.data("out") {
            if frame[..6] != host || is_discovery(&frame) {
                continue;
            }
            let protocol = u16::from_be_bytes([frame[20], frame[21]]);
            let packet = Control::parse(&frame[HEADERS..]).unwrap();
            match (protocol, packet.code) {
                (protocol::LCP | protocol::IPCP, control::CONFIGURE_REQUEST) => {
                    send(
                        rig,
                        protocol,
                        control::CONFIGURE_ACK,
                        packet.id,
                        packet.data,
                    );
                    own += 1;
                    let data = match protocol {
                        protocol::LCP => Vec::new(),
                        _ => [&[3, 6][..], &wish].concat(),
                    };
                    send(rig, protocol, control::CONFIGURE_REQUEST, own, &data);
                }
                (protocol::IPCP, control::CONFIGURE_NAK) => {
                    wish.copy_from_slice(&packet.data[2..6]);
                    own += 1;
                    let data = [&[3, 6][..], &wish].concat();
                    send(rig, protocol, control::CONFIGURE_REQUEST, own, &data);
                }
                (protocol::LCP, control::CONFIGURE_ACK) if !proven => {
                    proven = true;
                    let (name, secret) = user.split_once(' ').unwrap();
                    let lengths = [name.len() as u8, secret.len() as u8];
                    let data = [
                        &lengths[..1],
                        name.as_bytes(),
                        &lengths[1..],
                        secret.as_bytes(),
                    ];
                    send(rig, protocol::PAP, 1, 1, &data.concat());
                }
                (protocol::LCP, control::TERMINATE_REQUEST) => {
                    send(rig, protocol, control::TERMINATE_ACK, packet.id, &[]);
                }
                (protocol::LCP, control::ECHO_REQUEST) => {
                    send(rig, protocol, control::ECHO_REPLY, packet.id, &[0, 0, 0, 9]);
                }
                _ => {}
            }
        }
        asked(rig);
    }
}

/// A session that is up, of a user whom the concentrator knows.
fn connect(rig: &mut Rig, host: [u8; 6], user: &str) -> u16 {
    let number = request(rig, host);
    speak(rig, host, number, user, |_| {});
    number
}

/// A session's address, user and state.
fn shown(rig: &mut Rig, number: u16) -> (String, String, String) {
    let table = rig.read("b.sessions");
    let line = table
        .lines()
        .find(|line| line.starts_with(&format!("{number} ")));
    let words: Vec<_> = line.expect("the session is there").split(' ').collect();
    (words[3].into(), words[2].into(), words[4].into())
}

#[test]
fn offers_keep_no_state_and_bear_marks() {
    let mut rig = rig("NAME bras1, SERVICES isp tv, RATE 100000");
    let ask = |service: &[u8]| {
        let tags = [
            (tag::HOST_UNIQ, &b"mark"[..]),
            (tag::SERVICE_NAME, service),
            (tag::RELAY_SESSION_ID, b"relay"),
        ];
        discovery(ANN, [0xff; 6], code::PADI, 0, &tags)
    };
    rig.push("i", &ask(b"isp"));
    rig.push("i", &ask(b"other"));
    let frames = rig.data("out");
    assert_eq!((frames.len(), &frames[0][..6]), (1, &ANN[..]));
    let (code, number, tags) = said(&frames[0]);
    assert_eq!((code, number), (code::PADO, 0));
    for (kind, value) in [
        (tag::AC_NAME, &b"bras1"[..]),
        (tag::SERVICE_NAME, b"isp"),
        (tag::SERVICE_NAME, b"tv"),
        (tag::HOST_UNIQ, b"mark"),
        (tag::RELAY_SESSION_ID, b"relay"),
    ] {
        assert!(tags.contains(&(kind, value.to_vec())), "{kind:#x} {tags:?}");
    }
    for _ in 0..2000 {
        rig.push("i", &ask(b""));
    }
    assert_eq!(rig.data("out").len(), 2000);
    assert_eq!(rig.read("b.count"), "0");
}

#[test]
fn sessions_need_a_right_cookie() {
    let mut rig = rig(USERS);
    let right = cookie(&mut rig, ANN);
    let mut ask = |host, cookie: &[u8], wait| {
        rig.advance(wait);
        let tags = [(tag::SERVICE_NAME, &b""[..]), (tag::AC_COOKIE, cookie)];
        rig.push("i", &discovery(host, OWN, code::PADR, 0, &tags));
        rig.read("b.count")
    };
    assert_eq!(ask(ANN, &[], 0), "0");
    assert_eq!(ask(ANN, &[0; 16], 0), "0");
    // It is another host's.
    assert_eq!(ask(BOB, &right, 0), "0");
    // It is right for a minute, and not for long.
    assert_eq!(ask(ANN, &right, 60 * SECOND), "1");
    assert_eq!(ask(ANN, &right, 100 * SECOND), "0");
    assert_eq!(rig.read("b.invalid"), "4");
}

#[test]
fn a_subscriber_s_packets_pass_and_count() {
    let mut rig = rig(USERS);
    let number = connect(&mut rig, ANN, "ann secret");
    let (address, user, state) = shown(&mut rig, number);
    assert_eq!((&user[..], &state[..]), ("ann", "up"));
    let address: Ipv4Addr = address.parse().unwrap();
    let from = |source, host| {
        session(
            host,
            number,
            protocol::IPV4,
            &udp((source, 1), (SERVER, 2), b"hi"),
        )
    };
    rig.push("i", &from(address, ANN));
    // Without header and padding.
    assert_eq!(rig.data("up"), [udp((address, 1), (SERVER, 2), b"hi")]);
    rig.push("i", &from(GATEWAY, ANN));
    rig.push("i", &from(address, BOB));
    assert_eq!(rig.data("up").len(), 0);
    rig.assert_handlers(&[("b.spoofed", "1"), ("b.strangers", "1")]);
    let back = udp((SERVER, 2), (address, 1), b"there");
    rig.push("o", &back);
    rig.push("o", &udp((SERVER, 2), (A, 1), b"nobody"));
    let frames = rig.data("down");
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0][..12], [ANN, OWN].concat());
    assert_eq!(
        frames[0][14..20],
        [0x11, 0, 0, number as u8, 0, back.len() as u8 + 2]
    );
    assert_eq!(frames[0][20..], [&[0, 0x21][..], &back].concat());
    assert_eq!(
        (rig.data("lost").len(), &rig.read("b.unreachable")[..]),
        (1, "1")
    );
    let page = rig
        .router
        .read(rig.router.find("b"), "session", &number.to_string());
    let page = page.unwrap();
    for line in [
        "in_packets 1",
        "in_bytes 30",
        "out_bytes 33",
        "spoofed 1",
        "host 02:00:00:00:00:0a",
    ] {
        assert!(page.lines().any(|it| it == line), "{page}");
    }
    // The end, by the host.
    let free: u32 = rig.read("b.free_addresses").parse().unwrap();
    rig.push("i", &discovery(BOB, OWN, code::PADT, number, &[]));
    assert_eq!(rig.read("b.count"), "1");
    rig.push("i", &discovery(ANN, OWN, code::PADT, number, &[]));
    assert_eq!(rig.read("b.count"), "0");
    assert_eq!(rig.read("b.free_addresses"), (free + 1).to_string());
    rig.push("o", &back);
    rig.push("i", &from(address, ANN));
    assert_eq!((rig.data("down").len(), rig.data("up").len()), (0, 0));
}

#[test]
fn wrong_users_are_turned_away_and_others_terminated() {
    let mut rig = rig(USERS);
    let number = request(&mut rig, ANN);
    speak(&mut rig, ANN, number, "ann wrong", |_| {});
    rig.assert_handlers(&[("b.count", "0"), ("b.refused", "1"), ("b.accepted", "0")]);
    let number = connect(&mut rig, BOB, "bob hidden");
    assert_eq!(shown(&mut rig, number).0, "100.64.0.6");
    // An address that a user always has is no other's.
    // Neither those of the prefix's ends, nor the concentrator's own, nor bob's.
    assert_eq!(rig.read("b.free_addresses"), "4");
    let error = rig.try_write("b.terminate", "77").unwrap_err();
    assert_contains(&format!("{error:?}"), "no session ‘77’");
    rig.write("b.terminate", &number.to_string());
    assert_eq!(shown(&mut rig, number).2, "ending");
    speak(&mut rig, BOB, number, "bob hidden", |_| {});
    assert_eq!(rig.read("b.count"), "0");
}

#[test]
fn silent_hosts_end_and_so_do_those_that_never_prove_themselves() {
    let mut rig = rig(&format!("{USERS}, ECHO 5, ECHO_FAILURES 2, SETUP 20"));
    connect(&mut rig, ANN, "ann secret");
    request(&mut rig, BOB);
    rig.advance(15 * SECOND);
    assert_eq!(rig.read("b.silent"), "0");
    rig.advance(13 * SECOND);
    rig.assert_handlers(&[("b.silent", "1"), ("b.count", "0")]);
    let ends = rig
        .data("out")
        .into_iter()
        .filter(|frame| is_discovery(frame));
    let ends: Vec<_> = ends.map(|frame| said(&frame).0).collect();
    assert_eq!(ends, [code::PADT; 2]);
}

#[test]
fn a_new_session_takes_the_place_of_one_that_nobody_proved() {
    let mut rig = rig(&format!("{USERS}, CAPACITY 2"));
    let first = request(&mut rig, ANN);
    rig.advance(SECOND);
    let known = connect(&mut rig, BOB, "bob hidden");
    let third = request(&mut rig, [2, 0, 0, 0, 0, 0xc]);
    assert_eq!((third, &rig.read("b.full")[..]), (first, "1"));
    speak(&mut rig, [2, 0, 0, 0, 0, 0xc], third, "cid third", |_| {});
    // All are proven: there is no offer, and no session for those that had one.
    let padi = discovery(ANN, [0xff; 6], code::PADI, 0, &[(tag::SERVICE_NAME, b"")]);
    rig.push("i", &padi);
    assert!(rig.data("out").is_empty());
    assert_eq!(shown(&mut rig, known).2, "up");
    assert_eq!(shown(&mut rig, third).2, "up");
}

#[test]
fn a_host_that_comes_again_ends_its_session() {
    let mut rig = rig(USERS);
    let first = connect(&mut rig, ANN, "ann secret");
    let second = request(&mut rig, ANN);
    assert_ne!(first, second);
    assert_eq!(rig.read("b.count"), "1");
    // Its answer was lost: it gets the same again.
    assert_eq!(request(&mut rig, ANN), second);
    // With the address of another, it ends that.
    let bob = connect(&mut rig, BOB, "bob hidden");
    speak(&mut rig, ANN, second, "bob hidden", |_| {});
    assert_eq!(shown(&mut rig, second).0, "100.64.0.6");
    assert!(!rig.read("b.sessions").contains(&format!("\n{bob} ")));
}

#[test]
fn no_more_sessions_begin_than_the_rate_allows() {
    let mut rig = rig("RATE 3");
    for host in 0..10 {
        let padi = discovery(
            [2, 0, 0, 0, 1, host],
            [0xff; 6],
            code::PADI,
            0,
            &[(tag::SERVICE_NAME, b"")],
        );
        rig.push("i", &padi);
    }
    assert_eq!(
        (rig.data("out").len(), &rig.read("b.over_rate")[..]),
        (3, "7")
    );
}

/// Answers the first request that was sent to the first server, and returns its attributes.
fn answer(rig: &mut Rig, code: u8, attributes: &[u8], secret: &[u8]) -> Option<Vec<(u8, Vec<u8>)>> {
    answer_as(SERVER, rig, code, attributes, secret)
}

/// The same as another server.
fn answer_as(
    server: Ipv4Addr,
    rig: &mut Rig,
    code: u8,
    attributes: &[u8],
    secret: &[u8],
) -> Option<Vec<(u8, Vec<u8>)>> {
    reply(server, rig, code, attributes, secret, true)
}

/// The same with or without a Message-Authenticator.
fn reply(
    server: Ipv4Addr,
    rig: &mut Rig,
    code: u8,
    attributes: &[u8],
    secret: &[u8],
    is_signed: bool,
) -> Option<Vec<(u8, Vec<u8>)>> {
    let packets = rig.data("asked");
    let packet = packets
        .iter()
        .find(|packet| packet[16..20] == server.octets())?;
    let (ip, message) = (&packet[..20], &packet[28..]);
    let mut bytes = vec![code, message[1], 0, 0];
    bytes.extend_from_slice(&message[4..20]);
    if is_signed {
        bytes.extend_from_slice(&[80, 18]);
        bytes.extend_from_slice(&[0; 16]);
    }
    bytes.extend_from_slice(attributes);
    bytes[3] = bytes.len() as u8;
    if is_signed {
        let mut mac = Hmac::<Md5>::new_from_slice(secret).unwrap();
        mac.update(&bytes);
        bytes[22..38].copy_from_slice(&mac.finalize().into_bytes());
    }
    let digest = Md5::new()
        .chain_update(&bytes)
        .chain_update(secret)
        .finalize();
    bytes[4..20].copy_from_slice(&digest);
    let address = |at: usize| Ipv4Addr::from_octets(ip[at..at + 4].try_into().unwrap());
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    rig.push(
        "a",
        &udp((address(16), port(22)), (address(12), port(20)), &bytes),
    );
    let (mut rest, mut found) = (&message[20..], Vec::new());
    while let Some((&[kind, length], _)) = rest.split_first_chunk() {
        found.push((kind, rest[2..length.into()].to_vec()));
        rest = &rest[length.into()..];
    }
    Some(found)
}

#[test]
fn radius_decides_and_gets_accounts() {
    let mut rig = rig(USERS);
    rig.advance(SECOND);
    // Accounting-On.
    let on = answer(&mut rig, 5, &[], b"sesame").unwrap();
    assert!(on.contains(&(40, vec![0, 0, 0, 7])));
    let number = request(&mut rig, ANN);
    let mut requests = Vec::new();
    speak(&mut rig, ANN, number, "dan pass", |rig| {
        let is_user = requests.is_empty();
        let attributes = [
            &[8, 6, 100, 64, 0, 5][..],
            &[25, 3, 9],
            &[27, 6, 0, 0, 0, 30],
        ]
        .concat();
        let said = match is_user {
            true => answer(rig, 2, &attributes, b"sesame"),
            false => answer(rig, 5, &[], b"sesame"),
        };
        requests.extend(said);
    });
    assert_eq!(shown(&mut rig, number).0, "100.64.0.5");
    let has = |request: &[(u8, Vec<u8>)], kind, value: &[u8]| {
        assert!(
            request.contains(&(kind, value.to_vec())),
            "{kind} {request:?}"
        );
    };
    has(&requests[0], 1, b"dan");
    has(&requests[0], 31, b"02-00-00-00-00-0A");
    has(&requests[1], 40, &[0, 0, 0, 1]);
    has(&requests[1], 8, &[100, 64, 0, 5]);
    has(&requests[1], 25, &[9]);
    rig.push(
        "i",
        &session(
            ANN,
            number,
            protocol::IPV4,
            &udp(([100, 64, 0, 5].into(), 1), (SERVER, 2), b"hi"),
        ),
    );
    // Its time is over.
    rig.advance(27 * SECOND);
    speak(&mut rig, ANN, number, "dan pass", |rig| {
        requests.extend(answer(rig, 5, &[], b"sesame"));
    });
    has(&requests[2], 40, &[0, 0, 0, 2]);
    has(&requests[2], 47, &[0, 0, 0, 1]);
    has(&requests[2], 42, &[0, 0, 0, 30]);
    has(&requests[2], 49, &[0, 0, 0, 5]);
    rig.assert_handlers(&[
        ("b.count", "0"),
        ("r.accepts", "1"),
        ("r.accounts", "3"),
        ("r.pending", "0"),
        ("r.invalid", "0"),
    ]);
}

#[test]
fn answers_that_are_not_authentic_do_not_count() {
    let mut rig = rig(USERS);
    rig.advance(SECOND);
    answer(&mut rig, 5, &[], b"sesame");
    let number = request(&mut rig, ANN);
    speak(&mut rig, ANN, number, "dan pass", |rig| {
        answer(rig, 2, &[], b"other");
    });
    rig.assert_handlers(&[("r.accepts", "0"), ("b.accepted", "0"), ("r.pending", "1")]);
    assert_ne!(rig.read("r.invalid"), "0");
    // Nobody else is asked for ever: both servers are silent.
    speak(&mut rig, ANN, number, "dan pass", |_| {});
    rig.advance(10 * SECOND);
    rig.assert_handlers(&[
        ("r.unanswered", "1"),
        ("b.refused", "1"),
        ("r.pending", "0"),
    ]);
}

#[test]
fn answers_without_a_signature_count_if_they_may() {
    for (signed, counts) in [
        (
            "true",
            [("r.accepts", "0"), ("r.unsigned", "1"), ("r.invalid", "0")],
        ),
        (
            "false",
            [("r.accepts", "1"), ("r.unsigned", "0"), ("r.invalid", "0")],
        ),
    ] {
        let mut rig = Rig::new(
            &config(USERS).replace("SECRET sesame", &format!("SECRET sesame, SIGNED {signed}")),
        );
        rig.advance(SECOND);
        answer(&mut rig, 5, &[], b"sesame");
        let number = request(&mut rig, ANN);
        let mut is_answered = false;
        speak(&mut rig, ANN, number, "dan pass", |rig| {
            if !is_answered {
                is_answered = reply(SERVER, rig, 2, &[], b"sesame", false).is_some();
            }
        });
        rig.assert_handlers(&counts);
    }
}

#[test]
fn an_address_outside_the_pool_turns_its_user_away() {
    let mut rig = rig(USERS);
    rig.advance(SECOND);
    answer(&mut rig, 5, &[], b"sesame");
    let number = request(&mut rig, ANN);
    speak(&mut rig, ANN, number, "dan pass", |rig| {
        answer(rig, 2, &[8, 6, 10, 7, 7, 7], b"sesame");
    });
    rig.assert_handlers(&[("r.accepts", "1"), ("b.accepted", "0"), ("b.refused", "1")]);
}

#[test]
fn the_next_server_is_asked() {
    let mut rig = rig(USERS);
    rig.advance(SECOND);
    answer(&mut rig, 5, &[], b"sesame");
    let number = request(&mut rig, ANN);
    for _ in 0..4 {
        // The first is silent.
        speak(&mut rig, ANN, number, "dan pass", |rig| {
            let second = Ipv4Addr::new(10, 0, 0, 8);
            answer_as(second, rig, 2, &[], b"sesame");
        });
    }
    assert_eq!(rig.read("r.accepts"), "1");
    assert_contains(&rig.read("r.servers"), "10.0.0.8:1812:1813 1 0 *");
}

#[test]
fn arguments_are_checked() {
    for (arguments, part) in [
        (
            "2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, USERS \"ann\"",
            "USERS: line 1: the user",
        ),
        (
            "2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, USERS \"ann a 100.64.4.1\"",
            "the address 100.64.4.1 of a user is outside POOL",
        ),
        ("2:0:0:0:0:1, 100.64.0.1, 224.0.0.0/22", "all of hosts"),
        ("2:0:0:0:0:1, 100.64.0.1, 10.0.0.0/8", "POOL must have"),
        ("1:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22", "ETHER must be"),
        (
            "2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, MTU 1500",
            "MTU must be from 576 to 1492",
        ),
        (
            "2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, CAPACITY 0",
            "CAPACITY must be from 1",
        ),
        (
            "2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, DNS 1.1.1.1 2.2.2.2 3.3.3.3",
            "at most two",
        ),
        (
            "2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, DNS x",
            "write addresses",
        ),
        (
            "2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, ECHO 0",
            "ECHO must be at least 1",
        ),
    ] {
        Rig::refuses(
            &format!("b :: PPPoEServer({arguments}); Idle -> [0] b; Idle -> [1] b; b -> Discard;"),
            part,
        );
    }
    for (arguments, part) in [
        ("10.0.0.1, SERVERS 10.0.0.9", "SECRET"),
        (
            "10.0.0.1, SERVERS 10.0.0.9:x, SECRET a",
            "at most 4 servers",
        ),
        (
            "10.0.0.1, SERVERS 10.0.0.9, SECRET a, PORT 65535, CAPACITY 600",
            "PORT must be",
        ),
    ] {
        Rig::refuses(
            &format!("Idle -> RADIUSClient({arguments}) -> Discard;"),
            part,
        );
    }
    // Nothing that a function leaves empty is wrong.
    Rig::new("b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, USERS \"\", SERVICES \"\", DNS \"\", RADIUS r);
        Idle -> [0] b; Idle -> [1] b; b -> Discard;
        Idle -> r :: RADIUSClient(10.0.0.1, SERVERS \"\", SECRET \"\") -> Discard;");
}

#[test]
fn sessions_go_on_in_a_hotswap() {
    let config =
        "b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/29, AUTH pap, USERS \"ann secret\");
        i :: Inject -> kind :: Classifier(12/8863, 12/8864);
        kind[0] -> [0] b -> out :: Collect;
        kind[1] -> d :: PPPoEDecap(b) -> up :: Collect;
        d[1] -> [1] b;";
    let mut rig = Rig::new(config);
    let number = connect(&mut rig, ANN, "ann secret");
    rig.swap(config);
    let (address, ..) = shown(&mut rig, number);
    let packet = udp((address.parse().unwrap(), 1), (SERVER, 2), b"hi");
    rig.push("i", &session(ANN, number, protocol::IPV4, &packet));
    assert_eq!(rig.data("up").len(), 1);
    // An address that became a user's own is not another's.
    assert_eq!(address, "100.64.0.2");
    rig.swap(&config.replace("ann secret", "bob b 100.64.0.3\nann secret"));
    let other = connect(&mut rig, BOB, "ann secret");
    assert_eq!(shown(&mut rig, other).0, "100.64.0.4");
    rig.push("i", &discovery(BOB, OWN, code::PADT, other, &[]));
    // Its host is still asked whether it is there.
    rig.advance(60 * SECOND);
    assert_eq!(rig.read("b.count"), "0");
}

proptest! {
    /// Frames with anything behind right headers do no harm.
    #[test]
    fn any_frame_is_survived(
        frames in proptest::collection::vec(
            (any::<bool>(), 0usize..7, 0u16..4, 0usize..7, proptest::collection::vec(0u8..20, 0..40)),
            0..40,
        ),
    ) {
        let mut rig = rig(USERS);
        connect(&mut rig, ANN, "ann secret");
        let codes = [0, code::PADI, code::PADR, code::PADT, code::PADO, code::PADS, 0x33];
        let protocols = [
            protocol::LCP, protocol::PAP, protocol::CHAP, protocol::IPCP, protocol::IPV6CP, protocol::IPV4, 0x8281,
        ];
        for (is_discovery, code, number, protocol, data) in frames {
            let header = Header { code: codes[code], session: number, length: data.len() as u16 };
            let frame = match is_discovery {
                true => frame(ANN, OWN, DISCOVERY, header, &data),
                false => session(ANN, number, protocols[protocol], &data),
            };
            rig.push("i", &frame);
            rig.advance(SECOND / 4);
        }
        rig.advance(200 * SECOND);
        prop_assert_eq!(rig.read("b.count"), "0");
        rig.data("out");
        rig.data("up");
        rig.data("asked");
        prop_assert_eq!(rig.end(), 0);
    }
}
