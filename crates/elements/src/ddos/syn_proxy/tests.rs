//! The proxy between a client and a server that are made of single segments.

use core::ops::{Deref, DerefMut};

use crate::testing::*;

const CONFIG: &str = "p :: SYNProxy(4, TCP 100);
    c :: Inject -> MarkIPHeader -> [0] p [0] -> servers :: Collect;
    s :: Inject -> MarkIPHeader -> [1] p [1] -> clients :: Collect;";

/// A proxy, between sides that speak a version of IP. Segments are IPv4's here: what the proxy gets and sends of IPv6 is
/// translated.
struct Proxy {
    rig: Rig,
    is_ip6: bool,
}

impl Proxy {
    fn new(is_ip6: bool) -> Proxy {
        Proxy::with(is_ip6, CONFIG)
    }

    fn with(is_ip6: bool, config: &str) -> Proxy {
        let rig = Rig::new(&Proxy::config(is_ip6, config));
        Proxy { rig, is_ip6 }
    }

    fn config(is_ip6: bool, config: &str) -> String {
        match is_ip6 {
            true => config.replace("MarkIPHeader", "MarkIP6Header"),
            false => config.into(),
        }
    }

    /// One over IPv4, and one over IPv6.
    fn both() -> [Proxy; 2] {
        [false, true].map(Proxy::new)
    }

    fn bytes(&self, seg: &Seg) -> Vec<u8> {
        match self.is_ip6 {
            true => ip6::from_v4(&seg.bytes()),
            false => seg.bytes(),
        }
    }

    /// A frame of a segment.
    fn frame(&self, seg: &Seg) -> Vec<u8> {
        let kind = if self.is_ip6 { 0x86dd } else { 0x0800 };
        ether([2; 6], [1; 6], kind, &self.bytes(seg))
    }

    /// The option that says the largest segment of servers.
    fn largest(&self) -> [u8; 4] {
        let [a, b] = if self.is_ip6 { 1440u16 } else { 1460 }.to_be_bytes();
        [2, 4, a, b]
    }
}

impl Deref for Proxy {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl DerefMut for Proxy {
    fn deref_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

const CLIENT: (Ipv4Addr, u16) = (A, 4000);
const SERVER: (Ipv4Addr, u16) = (B, 80);

/// A segment with its numbers and options.
#[derive(Clone, Debug, PartialEq)]
struct Seg {
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    flags: u8,
    numbers: (u32, u32),
    window: u16,
    options: Vec<u8>,
    data: Vec<u8>,
}

fn seg(back: bool, flags: u8, numbers: (u32, u32)) -> Seg {
    let (from, to) = match back {
        true => (SERVER, CLIENT),
        false => (CLIENT, SERVER),
    };
    Seg {
        from,
        to,
        flags,
        numbers,
        window: 1000,
        options: Vec::new(),
        data: Vec::new(),
    }
}

impl Seg {
    fn options(mut self, options: &[u8]) -> Seg {
        self.options = options.to_vec();
        self
    }

    fn data(mut self, data: &[u8]) -> Seg {
        self.data = data.to_vec();
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let behind = [&self.options[..], &self.data].concat();
        let mut packet = tcp(self.from, self.to, self.flags, &behind);
        packet[24..28].copy_from_slice(&self.numbers.0.to_be_bytes());
        packet[28..32].copy_from_slice(&self.numbers.1.to_be_bytes());
        packet[32] = ((20 + self.options.len()) << 2) as u8;
        packet[34..36].copy_from_slice(&self.window.to_be_bytes());
        complete_tcp(&mut packet);
        packet
    }

    fn read(packet: &[u8]) -> Seg {
        if packet[0] >> 4 == 6 {
            return Seg::read(&ip6::to_v4(packet));
        }
        let ip = Ipv4Packet::new_checked(packet).unwrap();
        assert!(ip.verify_checksum());
        let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
        assert!(tcp.verify_checksum(ip.pseudo_header()));
        Seg {
            from: (ip.source(), tcp.source()),
            to: (ip.destination(), tcp.destination()),
            flags: tcp.flags().to_bits() as u8,
            numbers: (tcp.sequence().0, tcp.acknowledgment().0),
            window: tcp.window(),
            options: tcp.option_bytes().to_vec(),
            data: tcp.payload().to_vec(),
        }
    }

    /// The timestamps, if there are any.
    fn stamps(&self) -> Option<(u32, u32)> {
        let mut options = TcpOptions::new(&self.options).flatten();
        options.find_map(|option| match option {
            TcpOption::Timestamps { value, echo } => Some((value, echo)),
            _ => None,
        })
    }
}

/// What leaves to servers and to clients after a segment of one side.
fn say(rig: &mut Proxy, side: &str, seg: &Seg) -> (Vec<Seg>, Vec<Seg>) {
    let bytes = rig.bytes(seg);
    rig.push(side, &bytes);
    let mut out = |name| {
        rig.data(name)
            .iter()
            .map(|packet| Seg::read(packet))
            .collect()
    };
    (out("servers"), out("clients"))
}

fn one(segs: Vec<Seg>) -> Seg {
    assert_eq!(segs.len(), 1, "{segs:?}");
    segs.into_iter().next().unwrap()
}

fn stamps(value: u32, echo: u32) -> Vec<u8> {
    [
        &[1, 1, 8, 10][..],
        &value.to_be_bytes(),
        &echo.to_be_bytes(),
    ]
    .concat()
}

/// A client's SYN: size 1400, SACK, timestamps, scale 6.
fn syn(isn: u32) -> Seg {
    let options = [
        &[2, 4, 5, 0x78, 4, 2, 8, 10][..],
        &[0, 0, 3, 232, 0, 0, 0, 0, 1, 3, 3, 6],
    ]
    .concat();
    seg(false, SYN, (isn, 0)).options(&options)
}

const SERVER_ISN: u32 = 5000;

/// Opens a connection; returns the cookie and the timestamp that the client knows.
fn open_from(rig: &mut Proxy, isn: u32) -> (u32, u32) {
    let (none, answer) = say(rig, "c", &syn(isn));
    assert!(none.is_empty());
    let answer = one(answer);
    assert_eq!(
        (answer.flags, answer.numbers.1, answer.window),
        (SYN | ACK, isn + 1, 0)
    );
    let (cookie, (stamp, echo)) = (answer.numbers.0, answer.stamps().unwrap());
    assert_eq!(echo, 1000);
    let ack = seg(false, ACK, (isn + 1, cookie.wrapping_add(1))).options(&stamps(1001, stamp));
    let (asked, none) = say(rig, "c", &ack);
    assert!(none.is_empty());
    let asked = one(asked);
    assert_eq!(
        (asked.flags, asked.numbers, asked.window),
        (SYN, (isn, 0), 64000)
    );
    let options = [
        &[2, 4, 5, 0x78, 1, 1, 4, 2][..],
        &stamps(1001, 0),
        &[1, 3, 3, 6],
    ]
    .concat();
    assert_eq!(asked.options, options);
    let options = [
        &rig.largest()[..],
        &[1, 1, 4, 2],
        &stamps(77, 1001),
        &[1, 3, 3, 9],
    ]
    .concat();
    let answer = seg(true, SYN | ACK, (SERVER_ISN, isn + 1)).options(&options);
    let (confirmed, update) = say(rig, "s", &answer);
    let (confirmed, update) = (one(confirmed), one(update));
    assert_eq!(
        (confirmed.flags, confirmed.numbers),
        (ACK, (isn + 1, SERVER_ISN + 1))
    );
    assert_eq!(
        (confirmed.stamps(), confirmed.from),
        (Some((1001, 77)), CLIENT)
    );
    assert_eq!(
        (update.flags, update.numbers),
        (ACK, (cookie.wrapping_add(1), isn + 1))
    );
    assert_eq!(
        (update.stamps(), update.window),
        (Some((stamp, 1001)), 1000 >> 7)
    );
    (cookie, stamp)
}

/// The same, from the number 100.
fn open(rig: &mut Proxy) -> (u32, u32) {
    open_from(rig, 100)
}

#[test]
fn a_connection_is_opened_when_its_client_answers() {
    for mut rig in Proxy::both() {
        let (cookie, stamp) = open(&mut rig);
        let next = cookie.wrapping_add(1);
        // The server's scale is 9, the client knows 7; the numbers are those of the cookie.
        let sack = [
            &stamps(1010, stamp.wrapping_add(5))[..],
            &[1, 1, 5, 10],
            &next.to_be_bytes(),
            &next.wrapping_add(9).to_be_bytes(),
        ]
        .concat();
        let data = seg(false, ACK, (101, next)).options(&sack).data(b"GET");
        let passed = one(say(&mut rig, "c", &data).0);
        assert_eq!(
            (passed.numbers, passed.stamps()),
            ((101, SERVER_ISN + 1), Some((1010, 82)))
        );
        assert_eq!(passed.data, b"GET");
        assert_eq!(passed.options[16..20], (SERVER_ISN + 1).to_be_bytes());
        assert_eq!(passed.options[20..24], (SERVER_ISN + 10).to_be_bytes());
        assert_eq!(passed.window, 1000);
        let data = seg(true, ACK, (SERVER_ISN + 1, 104))
            .options(&stamps(90, 1010))
            .data(b"page");
        let passed = one(say(&mut rig, "s", &data).1);
        assert_eq!((passed.numbers, passed.window), ((next, 104), 4000));
        assert_eq!(passed.stamps(), Some((stamp.wrapping_add(13), 1010)));
        rig.assert_handlers(&[
            ("p.cookies", "1"),
            ("p.opened", "1"),
            ("p.count", "1"),
            ("p.invalid", "0"),
        ]);
        assert_contains(&rig.read("p.table"), "established");
        // The server's answer comes again: the acknowledgment was lost.
        let answer = seg(true, SYN | ACK, (SERVER_ISN, 101)).options(&stamps(95, 1001));
        let (confirmed, none) = say(&mut rig, "s", &answer);
        assert!(none.is_empty());
        assert_eq!(one(confirmed).numbers, (101, SERVER_ISN + 1));
        // Both close.
        say(&mut rig, "c", &seg(false, FIN | ACK, (104, next)));
        say(&mut rig, "s", &seg(true, FIN | ACK, (SERVER_ISN + 5, 105)));
        assert_contains(&rig.read("p.table"), "closed");
        // The same ports again, before the old connection is gone.
        open_from(&mut rig, 70_000);
        rig.assert_handlers(&[("p.count", "1"), ("p.opened", "2")]);
    }
}

#[test]
fn a_client_that_only_asks_leaves_nothing() {
    for mut rig in Proxy::both() {
        for port in 0..1000 {
            let flood = Seg {
                from: (A, port),
                ..seg(false, SYN, (port.into(), 0))
            };
            let (none, answer) = say(&mut rig, "c", &flood);
            assert!(none.is_empty());
            let answer = one(answer);
            // Without timestamps neither scale nor SACK.
            assert_eq!(answer.options, rig.largest());
        }
        // Neither do guesses.
        for guess in 0..1000u32 {
            let ack = seg(false, ACK, (guess, guess.wrapping_mul(0x9e37_79b9)));
            assert_eq!(say(&mut rig, "c", &ack), (vec![], vec![]));
        }
        for flags in [RST, SYN | ACK, FIN | ACK] {
            assert_eq!(
                say(&mut rig, "c", &seg(false, flags, (1, 2))),
                (vec![], vec![])
            );
            assert_eq!(
                say(&mut rig, "s", &seg(true, flags, (1, 2))),
                (vec![], vec![])
            );
        }
        rig.assert_handlers(&[
            ("p.count", "0"),
            ("p.cookies", "1000"),
            ("p.invalid", "1006"),
        ]);
        assert_eq!(rig.outstanding(), 0);
    }
}

#[test]
fn nobody_has_the_address_of_a_group() {
    let mut rig = Proxy::new(false);
    for address in [
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::UNSPECIFIED,
    ] {
        let mut from = seg(false, SYN, (1, 0));
        from.from.0 = address;
        assert_eq!(say(&mut rig, "c", &from), (vec![], vec![]));
    }
    rig.assert_handlers(&[("p.cookies", "0"), ("p.invalid", "3")]);
    let mut rig = Proxy::new(true);
    let [own, group, none] = ["2001:db8::1", "ff02::1", "::"].map(ip6::addr);
    for (from, to) in [(own, group), (group, own), (none, own)] {
        rig.push("c", &ip6::tcp((from, 1), (to, 80), SYN, &[]));
    }
    rig.assert_handlers(&[("p.cookies", "0"), ("p.invalid", "3")]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn a_cookie_ends() {
    for mut rig in Proxy::both() {
        let cookie = |rig: &mut Proxy| one(say(rig, "c", &seg(false, SYN, (100, 0))).1).numbers.0;
        let old = cookie(&mut rig);
        for _ in 0..121 {
            rig.advance(SECOND);
        }
        let ack = |cookie: u32| seg(false, ACK, (101, cookie.wrapping_add(1)));
        assert_eq!(say(&mut rig, "c", &ack(old)), (vec![], vec![]));
        let new = cookie(&mut rig);
        assert_eq!(one(say(&mut rig, "c", &ack(new)).0).flags, SYN);
    }
}

/// A client without options that has answered.
fn answered(rig: &mut Proxy) -> u32 {
    let cookie = one(say(rig, "c", &seg(false, SYN, (100, 0))).1).numbers.0;
    let ack = seg(false, ACK, (101, cookie.wrapping_add(1)));
    let asked = one(say(rig, "c", &ack).0);
    let [a, b] = if rig.is_ip6 { 1220u16 } else { 536 }.to_be_bytes();
    assert_eq!((asked.flags, &asked.options[..]), (SYN, &[2, 4, a, b][..]));
    cookie
}

#[test]
fn a_server_may_refuse_or_be_late() {
    for mut rig in Proxy::both() {
        let cookie = answered(&mut rig);
        // The client probes the window: the SYN is sent again.
        let probe = seg(false, ACK, (100, cookie.wrapping_add(1)));
        assert_eq!(one(say(&mut rig, "c", &probe).0).flags, SYN);
        // The server has a former connection.
        let old = seg(true, ACK, (7, 9999));
        let reset = one(say(&mut rig, "s", &old).0);
        assert_eq!((reset.flags, reset.numbers.0), (RST, 9999));
        // A reset that answers something else, and one that answers the SYN.
        assert_eq!(
            say(&mut rig, "s", &seg(true, RST | ACK, (0, 55))),
            (vec![], vec![])
        );
        let reset = one(say(&mut rig, "s", &seg(true, RST | ACK, (0, 101))).1);
        assert_eq!(
            (reset.flags, reset.numbers),
            (RST | ACK, (cookie.wrapping_add(1), 101))
        );
        rig.assert_handlers(&[("p.refused", "1")]);
        assert_contains(&rig.read("p.table"), "reset");
        rig.advance(20 * SECOND);
        rig.assert_handlers(&[("p.count", "0")]);
    }
}

#[test]
fn a_lost_syn_is_sent_again_and_its_client_reset_in_the_end() {
    for is_ip6 in [false, true] {
        let mut rig = Proxy::with(is_ip6, &CONFIG.replace("MarkIPHeader", "MarkIPHeader(14)"));
        let frame = rig.frame(&syn(100));
        rig.push("c", &frame);
        let answer = rig.data("clients").pop().unwrap();
        let answer = Seg::read(&answer[14..]);
        let (cookie, (stamp, _)) = (answer.numbers.0, answer.stamps().unwrap());
        let ack = seg(false, ACK, (101, cookie.wrapping_add(1))).options(&stamps(1001, stamp));
        let frame = rig.frame(&ack);
        rig.push("c", &frame);
        let asked = rig.data("servers").pop().unwrap();
        let mut times = Vec::new();
        for second in 1..=62 {
            rig.advance(SECOND);
            for again in rig.data("servers") {
                assert_eq!(again, asked);
                times.push(second);
            }
        }
        // A timer may be a tick early or late.
        assert_eq!(times.len(), 5, "{times:?}");
        assert!(
            times.windows(2).all(|it| it[1] - it[0] >= it[0]),
            "{times:?}"
        );
        assert!(rig.data("clients").is_empty());
        rig.advance(3 * SECOND);
        let reset = rig.data("clients").pop().unwrap();
        assert_eq!(reset[..12], [[1; 6], [2; 6]].concat());
        let reset = Seg::read(&reset[14..]);
        assert_eq!(
            (reset.flags, reset.numbers, reset.to),
            (RST | ACK, (cookie.wrapping_add(1), 101), CLIENT)
        );
        rig.advance(100 * SECOND);
        rig.assert_handlers(&[("p.unanswered", "1"), ("p.count", "0")]);
        assert_eq!(rig.data("servers").len() + rig.data("clients").len(), 0);
    }
}

#[test]
fn what_is_answered_is_not_asked_again() {
    for mut rig in Proxy::both() {
        open(&mut rig);
        rig.advance(99 * SECOND);
        assert_eq!(rig.data("servers").len() + rig.data("clients").len(), 0);
    }
}

#[test]
fn forged_segments_end_no_connection() {
    for mut rig in Proxy::both() {
        let (cookie, _) = open(&mut rig);
        for number in (0..64u32).map(|it| it.wrapping_mul(0x1234_5679) ^ 0x4000_0000) {
            for flags in [RST, RST | ACK, FIN | ACK, ACK] {
                say(&mut rig, "c", &seg(false, flags, (number, number)));
                say(&mut rig, "s", &seg(true, flags, (number, number)));
            }
        }
        assert_contains(&rig.read("p.table"), "established");
        let next = cookie.wrapping_add(1);
        say(
            &mut rig,
            "s",
            &seg(true, ACK, (SERVER_ISN + 1, 101)).data(b"page"),
        );
        let acked = cookie.wrapping_add(5);
        say(&mut rig, "c", &seg(false, ACK, (101, acked)));
        // The number before is not the next.
        say(&mut rig, "s", &seg(true, RST, (SERVER_ISN + 1, 0)));
        assert_contains(&rig.read("p.table"), "established");
        say(&mut rig, "c", &seg(false, FIN | ACK, (101, next)));
        assert_contains(&rig.read("p.table"), "fin");
        say(&mut rig, "s", &seg(true, RST, (SERVER_ISN + 5, 0)));
        assert_contains(&rig.read("p.table"), "reset");
    }
}

#[test]
fn a_server_without_timestamps_is_told_off() {
    for mut rig in Proxy::both() {
        let answer = one(say(&mut rig, "c", &syn(100)).1);
        let (cookie, (stamp, _)) = (answer.numbers.0, answer.stamps().unwrap());
        let ack = seg(false, ACK, (101, cookie.wrapping_add(1))).options(&stamps(1001, stamp));
        say(&mut rig, "c", &ack);
        let answer = seg(true, SYN | ACK, (SERVER_ISN, 101)).options(&[2, 4, 5, 180]);
        let (end, refusal) = say(&mut rig, "s", &answer);
        assert_eq!((one(end).flags, one(refusal).flags), (RST, RST | ACK));
        rig.assert_handlers(&[("p.mismatches", "1")]);
    }
}

#[test]
fn connections_of_servers_pass_and_sides_are_kept() {
    let mut rig = Proxy::new(false);
    let own = |flags, numbers| Seg {
        from: (B, 5000),
        to: (A, 25),
        ..seg(true, flags, numbers)
    };
    let theirs = |flags, numbers| Seg {
        from: (A, 25),
        to: (B, 5000),
        ..seg(false, flags, numbers)
    };
    assert_eq!(
        one(say(&mut rig, "s", &own(SYN, (1, 0))).1),
        own(SYN, (1, 0))
    );
    let answer = theirs(SYN | ACK, (7, 2));
    assert_eq!(one(say(&mut rig, "c", &answer).0), answer);
    assert_eq!(
        one(say(&mut rig, "s", &own(ACK, (2, 8))).1),
        own(ACK, (2, 8))
    );
    rig.assert_handlers(&[("p.passed", "1"), ("p.cookies", "0")]);
    // Not from the other side.
    assert_eq!(say(&mut rig, "c", &own(ACK, (2, 8))), (vec![], vec![]));
    assert_eq!(say(&mut rig, "s", &theirs(ACK, (8, 2))), (vec![], vec![]));
    // What is not TCP passes.
    rig.push("c", &udp(CLIENT, SERVER, b"x"));
    rig.push("s", &ping(B, A, b"x"));
    assert_eq!(
        (rig.data("servers").len(), rig.data("clients").len()),
        (1, 1)
    );
    // Fragments of TCP do not.
    let mut fragment = seg(false, SYN, (1, 0)).bytes();
    fragment[7] = 5;
    fragment[10..12].fill(0);
    let sum = checksum(&fragment[..20]);
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    rig.push("c", &fragment);
    rig.assert_handlers(&[("p.fragments", "1"), ("p.invalid", "2")]);
}

#[test]
fn an_error_is_about_what_the_server_sent() {
    let mut rig = Proxy::new(false);
    let (cookie, _) = open(&mut rig);
    let data = seg(true, ACK, (SERVER_ISN + 1, 101))
        .options(&stamps(90, 1010))
        .data(b"page");
    rig.push("s", &data.bytes());
    let seen = rig.data("clients").pop().unwrap();
    let mut icmp = vec![3, 4, 0, 0, 0, 0, 5, 0];
    icmp.extend(&seen[..28]);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut error = ping(Ipv4Addr::new(9, 9, 9, 9), B, &icmp[8..]);
    error.splice(20..28, icmp[..8].iter().copied());
    rig.push("c", &error);
    let error = rig.data("servers").pop().unwrap();
    assert_eq!(checksum(&error[20..]), 0);
    assert_eq!(seen[24..28], cookie.wrapping_add(1).to_be_bytes());
    assert_eq!(error[52..56], (SERVER_ISN + 1).to_be_bytes());
}

#[test]
fn an_error_over_ip6_is_about_what_the_server_sent() {
    let mut rig = Proxy::new(true);
    let (cookie, _) = open(&mut rig);
    let data = seg(true, ACK, (SERVER_ISN + 1, 101))
        .options(&stamps(90, 1010))
        .data(b"page");
    let bytes = rig.bytes(&data);
    rig.push("s", &bytes);
    let seen = rig.data("clients").pop().unwrap();
    assert_eq!(seen[44..48], cookie.wrapping_add(1).to_be_bytes());
    let [router, server] = ["2001:db8:9::9", "2001:db8::2"].map(ip6::addr);
    let too_big = ip6::icmp(router, server, (2, 0, [0, 0, 5, 0]), &seen[..60]);
    rig.push("c", &too_big);
    let error = rig.data("servers").pop().unwrap();
    assert_eq!(ip6::upper_checksum(58, router, server, &error[40..]), 0);
    assert_eq!(error[92..96], (SERVER_ISN + 1).to_be_bytes());
}

#[test]
fn what_is_not_tcp_passes_over_ip6() {
    let mut rig = Proxy::new(true);
    let [client, server, all] = ["2001:db8::1", "2001:db8::2", "ff02::1:ff00:2"].map(ip6::addr);
    let solicitation = ip6::icmp(client, all, (135, 0, [0; 4]), &server.octets());
    let ping = ip6::icmp(client, server, (128, 0, [0, 1, 0, 1]), b"x");
    let datagram = ip6::udp((client, 1), (server, 53), b"x");
    let part = |next: u8, offset: u16, payload: &[u8]| {
        let header = [
            &[next, 0][..],
            &offset.to_be_bytes(),
            &[0, 0, 0, 1],
            payload,
        ]
        .concat();
        ip6::packet(44, client, server, &header)
    };
    for packet in [
        solicitation,
        ping,
        datagram,
        part(17, 1, &[7; 40]),
        part(17, 801, &[7; 8]),
    ] {
        rig.push("c", &packet);
        assert_eq!(rig.data("servers"), [packet]);
    }
    for packet in [part(6, 1, &[7; 40]), part(6, 801, &[7; 8])] {
        rig.push("c", &packet);
    }
    rig.assert_handlers(&[("p.fragments", "2"), ("p.invalid", "0")]);
    // Cut short, or with a header that is.
    rig.push("c", &ip6::packet(6, client, server, &[7; 12]));
    rig.push("c", &ip6::packet(60, client, server, &[6, 9]));
    rig.assert_handlers(&[("p.invalid", "2")]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn answers_have_no_extension_headers() {
    let mut rig = Proxy::new(true);
    let with_options = |seg: &Seg| {
        let packet = ip6::from_v4(&seg.bytes());
        let payload = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &packet[40..]].concat();
        let [from, to] =
            [8, 24].map(|at| Ipv6Addr::from_octets(*packet[at..].first_chunk::<16>().unwrap()));
        let mut packet = ip6::packet(60, from, to, &payload);
        // A flow label.
        packet[2..4].copy_from_slice(&[0xab, 0xcd]);
        packet
    };
    rig.push("c", &with_options(&syn(100)));
    let answer = rig.data("clients").pop().unwrap();
    assert_eq!((answer[6], &answer[1..4]), (6, &[0; 3][..]));
    let answer = Seg::read(&answer);
    let (cookie, (stamp, _)) = (answer.numbers.0, answer.stamps().unwrap());
    assert_eq!(
        (answer.flags, answer.from, answer.to),
        (SYN | ACK, SERVER, CLIENT)
    );
    let ack = seg(false, ACK, (101, cookie.wrapping_add(1))).options(&stamps(1001, stamp));
    rig.push("c", &with_options(&ack));
    let asked = rig.data("servers").pop().unwrap();
    assert_eq!((asked[6], &asked[2..4]), (6, &[0xab, 0xcd][..]));
    assert_eq!(Seg::read(&asked).flags, SYN);
    let answer = seg(true, SYN | ACK, (SERVER_ISN, 101)).options(&stamps(77, 1001));
    rig.push("s", &with_options(&answer));
    assert_eq!(rig.data("servers").len() + rig.data("clients").len(), 2);
    // Segments of an open connection keep theirs.
    let data = seg(false, ACK, (101, cookie.wrapping_add(1)))
        .options(&stamps(1002, stamp))
        .data(b"GET");
    rig.push("c", &with_options(&data));
    let passed = rig.data("servers").pop().unwrap();
    assert_eq!(passed[6], 60);
    let [client, server] = ["2001:db8::100:1", "2001:db8::200:2"].map(ip6::addr);
    assert_eq!(ip6::upper_checksum(6, client, server, &passed[48..]), 0);
    assert_eq!(passed[52..56], 101u32.to_be_bytes());
    assert_eq!(passed[56..60], (SERVER_ISN + 1).to_be_bytes());
}

#[test]
fn a_full_table_keeps_what_is_established() {
    for mut rig in Proxy::both() {
        open(&mut rig);
        let mut begin = |port: u16| {
            let from = |flags, numbers| Seg {
                from: (A, port),
                ..seg(false, flags, numbers)
            };
            let cookie = one(say(&mut rig, "c", &from(SYN, (1, 0))).1).numbers.0;
            say(&mut rig, "c", &from(ACK, (2, cookie.wrapping_add(1))))
                .0
                .len()
        };
        let begun: usize = (1..20).map(&mut begin).sum();
        assert_eq!(begun, 19);
        rig.assert_handlers(&[("p.count", "4"), ("p.evicted", "16")]);
        assert_contains(&rig.read("p.table"), "established");
    }
}

#[test]
fn connections_outlive_a_hotswap() {
    for mut rig in Proxy::both() {
        let (cookie, _) = open(&mut rig);
        let late = one(say(
            &mut rig,
            "c",
            &Seg {
                from: (A, 9),
                ..seg(false, SYN, (7, 0))
            },
        )
        .1);
        let config = CONFIG.replace("TCP 100", "TCP 200");
        let config = Proxy::config(rig.is_ip6, &config);
        rig.swap(&config);
        let data = seg(false, ACK, (101, cookie.wrapping_add(1))).data(b"GET");
        assert_eq!(
            one(say(&mut rig, "c", &data).0).numbers,
            (101, SERVER_ISN + 1)
        );
        let ack = Seg {
            from: (A, 9),
            ..seg(false, ACK, (8, late.numbers.0.wrapping_add(1)))
        };
        assert_eq!(one(say(&mut rig, "c", &ack).0).flags, SYN);
        rig.assert_handlers(&[("p.opened", "2")]);
    }
}

#[test]
fn ethernet_addresses_are_exchanged_in_answers() {
    let mut rig = Proxy::with(false, &CONFIG.replace("MarkIPHeader", "MarkIPHeader(14)"));
    let frame = ether([2; 6], [1; 6], 0x0800, &syn(100).bytes());
    // Padded, as short frames are.
    rig.push("c", &[&frame[..], &[0; 6]].concat());
    let answer = rig.data("clients").pop().unwrap();
    assert_eq!(answer[..12], [[1; 6], [2; 6]].concat());
    assert_eq!(Seg::read(&answer[14..]).flags, SYN | ACK);
}

#[test]
fn wrong_arguments_are_told() {
    for (arguments, why) in [
        ("0", "CAPACITY must be from 1"),
        ("5, MSS 100", "MSS must be at least 536"),
        ("5, SCALE 15", "SCALE from 0 to 14"),
    ] {
        let config =
            format!("Idle -> p :: SYNProxy({arguments}) -> Discard; Idle -> [1] p [1] -> Discard;");
        Rig::refuses(&config, why);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Any segments and any options: none panics, all that leaves has right checksums, and nothing leaks.
    #[test]
    fn no_segment_is_too_odd(
        segments in prop::collection::vec(
            (any::<bool>(), 0u8..64, any::<(u32, u32)>(), prop::collection::vec(any::<u8>(), 0..11), 0usize..3),
            0..60,
        ),
        is_ip6: bool,
    ) {
        let mut rig = Proxy::new(is_ip6);
        let (cookie, stamp) = open(&mut rig);
        for (back, flags, mut numbers, mut options, near) in segments {
            options.resize(4 * options.len().min(10), 1);
            if near > 0 && !back {
                numbers = (100 + numbers.0 % 3, cookie.wrapping_add(numbers.1 % 3));
            }
            if near > 1 {
                options = stamps(numbers.0, stamp);
            }
            let segment = seg(back, flags, numbers).options(&options);
            say(&mut rig, if back { "s" } else { "c" }, &segment);
        }
        prop_assert_eq!(rig.outstanding(), 0);
    }
}
