//! Clients' messages and the server's replies, as frames.

use super::leases::{Client, Leases, State};
use super::message::Identity;
use super::subnet::Plan;
use crate::testing::*;

const CONFIG: &str = "i :: Inject -> MarkIPHeader(14)
    -> s :: DHCPServer(10.0.0.1, 02:00:00:00:00:01, 10.0.0.0/24 10.0.0.10-10.0.0.13 10.0.0.1,
        10.9.0.0/16 10.9.0.10-10.9.0.11, 02:00:00:00:00:77 10.0.0.7,
        DNS 10.0.0.1 9.9.9.9, DOMAIN example.org, MTU 1400, LEASE 1000)
    -> c :: Collect;";

const ALL: Ipv4Addr = Ipv4Addr::BROADCAST;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A client's message.
#[derive(Clone)]
struct Message {
    kind: u8,
    client: u8,
    own: [u8; 4],
    relay: [u8; 4],
    flags: u8,
    options: Vec<(u8, Vec<u8>)>,
}

fn message(kind: u8, client: u8) -> Message {
    Message {
        kind,
        client,
        own: [0; 4],
        relay: [0; 4],
        flags: 0,
        options: Vec::new(),
    }
}

impl Message {
    fn with(mut self, option: u8, data: &[u8]) -> Message {
        self.options.push((option, data.to_vec()));
        self
    }

    fn own(mut self, own: [u8; 4]) -> Message {
        self.own = own;
        self
    }

    fn relay(mut self, relay: [u8; 4]) -> Message {
        self.relay = relay;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![1, 1, 6, 0, 1, 2, 3, 4, 0, 0, self.flags, 0];
        bytes.extend([self.own, [0; 4], [0; 4], self.relay].concat());
        bytes.extend([2, 0, 0, 0, 0, self.client]);
        bytes.resize(236, 0);
        bytes.extend([99, 130, 83, 99, 53, 1, self.kind]);
        for (option, data) in &self.options {
            bytes.extend([*option, data.len() as u8]);
            bytes.extend(data);
        }
        bytes.push(255);
        bytes
    }
}

/// A reply, as far as tests look at it.
#[derive(Debug, PartialEq)]
struct Reply {
    kind: u8,
    yours: Ipv4Addr,
    to: (EtherAddress, Ipv4Addr, u16),
    options: Vec<(u8, Vec<u8>)>,
    message: Vec<u8>,
}

impl Reply {
    fn read(frame: &[u8]) -> Reply {
        let ether = EthernetFrame::new_checked(frame).unwrap();
        assert_eq!(ether.source().0, [2, 0, 0, 0, 0, 1]);
        let ip = Ipv4Packet::new_checked(ether.payload()).unwrap();
        assert!(ip.verify_checksum() && ip.source() == SERVER);
        let udp = UdpPacket::new_checked(ip.payload()).unwrap();
        let pseudo = pseudo_header_v4(SERVER, ip.destination(), 17, udp.length());
        assert!(udp.verify_checksum(pseudo) && udp.source() == 67);
        let message = udp.payload().to_vec();
        assert!((300..=548).contains(&message.len()));
        assert_eq!(message[..8], [2, 1, 6, 0, 1, 2, 3, 4]);
        let (mut options, mut rest) = (Vec::new(), &message[240..]);
        while rest[0] != 255 {
            let end = 2 + usize::from(rest[1]);
            options.push((rest[0], rest[2..end].to_vec()));
            rest = &rest[end..];
        }
        assert_eq!(options[0].0, 53);
        Reply {
            kind: options[0].1[0],
            yours: Ipv4Addr::new(message[16], message[17], message[18], message[19]),
            to: (ether.destination(), ip.destination(), udp.destination()),
            options,
            message,
        }
    }

    fn option(&self, option: u8) -> Option<&[u8]> {
        let mut options = self.options.iter();
        options
            .find(|(code, _)| *code == option)
            .map(|(_, data)| &data[..])
    }
}

fn frame(message: &[u8], to: Ipv4Addr) -> Vec<u8> {
    let from = (Ipv4Addr::UNSPECIFIED, 68);
    ether(
        [255; 6],
        [2, 0, 0, 0, 0, 99],
        0x0800,
        &udp(from, (to, 67), message),
    )
}

fn say(rig: &mut Rig, message: &Message, to: Ipv4Addr) -> Option<Reply> {
    rig.push("i", &frame(&message.bytes(), to));
    rig.data("c").pop().map(|frame| Reply::read(&frame))
}

/// A client's address after it asked for one.
fn lease(rig: &mut Rig, client: u8) -> Option<Ipv4Addr> {
    let offer = say(rig, &message(1, client), ALL)?;
    assert_eq!(offer.kind, 2);
    let request = message(3, client)
        .with(54, &SERVER.octets())
        .with(50, &offer.yours.octets());
    let reply = say(rig, &request, ALL)?;
    assert_eq!((reply.kind, reply.yours), (5, offer.yours));
    Some(reply.yours)
}

const DISCOVER: u8 = 1;
const REQUEST: u8 = 3;
const DECLINE: u8 = 4;
const ACK: u8 = 5;
const NAK: u8 = 6;
const RELEASE: u8 = 7;
const INFORM: u8 = 8;

#[test]
fn a_client_gets_an_address_and_what_goes_with_it() {
    let mut rig = Rig::new(CONFIG);
    let offer = say(&mut rig, &message(DISCOVER, 5), ALL).unwrap();
    let address = Ipv4Addr::new(10, 0, 0, 10);
    assert_eq!((offer.kind, offer.yours), (2, address));
    assert_eq!(offer.to, (EtherAddress([2, 0, 0, 0, 0, 5]), address, 68));
    for (option, data) in [
        (54, &[10, 0, 0, 1][..]),
        (51, &[0, 0, 3, 232]),
        (58, &[0, 0, 1, 244]),
        (59, &[0, 0, 3, 107]),
        (1, &[255, 255, 255, 0]),
        (3, &[10, 0, 0, 1]),
        (6, &[10, 0, 0, 1, 9, 9, 9, 9]),
        (15, b"example.org"),
        (26, &[5, 120]),
        (28, &[10, 0, 0, 255]),
    ] {
        assert_eq!(offer.option(option), Some(data), "{option}");
    }
    assert_eq!(lease(&mut rig, 5), Some(address));
    assert_contains(
        &rig.read("s.leases"),
        "10.0.0.10 02-00-00-00-00-05 leased 1000",
    );
    // Again, it has the same; another has another; a client that takes no unicast hears all.
    assert_eq!(lease(&mut rig, 5), Some(address));
    assert_eq!(lease(&mut rig, 6), Some(Ipv4Addr::new(10, 0, 0, 11)));
    let mut deaf = message(DISCOVER, 8);
    deaf.flags = 0x80;
    assert_eq!(
        say(&mut rig, &deaf, ALL).unwrap().to,
        (EtherAddress::BROADCAST, ALL, 68)
    );
    // The reserved one, which no one else gets.
    assert_eq!(lease(&mut rig, 0x77), Some(Ipv4Addr::new(10, 0, 0, 7)));
    let wish = message(DISCOVER, 9).with(50, &[10, 0, 0, 7]);
    assert_eq!(
        say(&mut rig, &wish, ALL).unwrap().yours,
        Ipv4Addr::new(10, 0, 0, 13)
    );
    rig.assert_handlers(&[("s.count", "3"), ("s.acks", "4"), ("s.naks", "0")]);
}

#[test]
fn leases_are_renewed_and_end() {
    let mut rig = Rig::new(CONFIG);
    let address = lease(&mut rig, 5).unwrap();
    let own = address.octets();
    rig.advance(600 * SECOND);
    let renewed = say(&mut rig, &message(REQUEST, 5).own(own), SERVER).unwrap();
    assert_eq!((renewed.kind, renewed.to.1), (ACK, address));
    assert_eq!(renewed.message[12..16], own);
    rig.advance(600 * SECOND);
    assert_eq!(rig.read("s.count"), "1");
    // A reboot: the address is confirmed, a wrong one refused, an unknown client left to others.
    let reboot = |client, own: [u8; 4]| message(REQUEST, client).with(50, &own);
    assert_eq!(say(&mut rig, &reboot(5, own), ALL).unwrap().kind, ACK);
    for (client, own) in [
        (5, [10, 0, 0, 12]),
        (5, [192, 168, 0, 1]),
        (6, [192, 168, 0, 1]),
    ] {
        let refusal = say(&mut rig, &reboot(client, own), ALL).unwrap();
        assert_eq!((refusal.kind, refusal.to.0), (NAK, EtherAddress::BROADCAST));
        assert_eq!(
            (refusal.yours, refusal.option(51)),
            (Ipv4Addr::UNSPECIFIED, None)
        );
    }
    assert_eq!(say(&mut rig, &reboot(6, [10, 0, 0, 12]), ALL), None);
    // Another's address; one that a server before this one leased.
    assert_eq!(
        say(&mut rig, &message(REQUEST, 6).own(own), SERVER)
            .unwrap()
            .kind,
        NAK
    );
    let learned = say(&mut rig, &message(REQUEST, 6).own([10, 0, 0, 13]), SERVER).unwrap();
    assert_eq!(learned.kind, ACK);
    rig.advance(1001 * SECOND);
    assert_eq!(
        (rig.read("s.count"), rig.read("s.leases")),
        ("0".into(), "".into())
    );
    // What a client had waits for it as long as others are free.
    assert_eq!(lease(&mut rig, 6), Some(Ipv4Addr::new(10, 0, 0, 13)));
}

#[test]
fn addresses_come_back_or_not() {
    let mut rig = Rig::new(CONFIG);
    let address = lease(&mut rig, 5).unwrap();
    // Not by another client.
    let release = |client| message(RELEASE, client).own(address.octets());
    assert_eq!(say(&mut rig, &release(6), SERVER), None);
    assert_eq!(rig.read("s.count"), "1");
    assert_eq!(say(&mut rig, &release(5), SERVER), None);
    assert_eq!(
        (rig.read("s.count"), rig.read("s.releases")),
        ("0".into(), "1".into())
    );
    assert_eq!(lease(&mut rig, 5), Some(address));
    let decline = message(DECLINE, 5)
        .with(50, &address.octets())
        .with(54, &SERVER.octets());
    assert_eq!(say(&mut rig, &decline, ALL), None);
    assert_contains(&rig.read("s.leases"), "10.0.0.10 - declined 600");
    let others: Vec<_> = (20..24).map(|client| lease(&mut rig, client)).collect();
    assert_eq!(others.iter().flatten().count(), 3);
    assert_eq!(
        (rig.read("s.exhausted"), rig.read("s.free")),
        ("1".into(), "3".into())
    );
    rig.advance(601 * SECOND);
    assert_eq!(lease(&mut rig, 30), Some(address));
    rig.write("s.revoke", "10.0.0.11");
    assert_eq!(lease(&mut rig, 31), Some(Ipv4Addr::new(10, 0, 0, 11)));
    let error = rig.try_write("s.revoke", "10.1.0.1").unwrap_err();
    assert_contains(&format!("{error:?}"), "10.1.0.1 is in no pool");
}

#[test]
fn an_offer_ends() {
    let mut rig = Rig::new(CONFIG);
    for client in 0..4 {
        say(&mut rig, &message(DISCOVER, client), ALL).unwrap();
    }
    assert_eq!(say(&mut rig, &message(DISCOVER, 4), ALL), None);
    // The first chose another server.
    let other = message(REQUEST, 0)
        .with(54, &[10, 0, 0, 2])
        .with(50, &[10, 0, 0, 10]);
    assert_eq!(say(&mut rig, &other, ALL), None);
    assert_eq!(lease(&mut rig, 4), Some(Ipv4Addr::new(10, 0, 0, 10)));
    rig.advance(62 * SECOND);
    assert_eq!(rig.read("s.free"), "6");
    assert_eq!(lease(&mut rig, 4), Some(Ipv4Addr::new(10, 0, 0, 10)));
}

#[test]
fn relays_are_answered_by_their_subnet() {
    let mut rig = Rig::new(CONFIG);
    let relay = [10, 9, 0, 1];
    let discover = message(DISCOVER, 5)
        .relay(relay)
        .with(82, b"\x01\x02ab")
        .with(61, b"\x00me");
    let offer = say(&mut rig, &discover, SERVER).unwrap();
    let address = Ipv4Addr::new(10, 9, 0, 10);
    assert_eq!(offer.yours, address);
    assert_eq!(
        offer.to,
        (EtherAddress([2, 0, 0, 0, 0, 99]), relay.into(), 67)
    );
    assert_eq!(offer.options.last().unwrap(), &(82, b"\x01\x02ab".to_vec()));
    assert_eq!(offer.option(61), Some(&b"\x00me"[..]));
    assert_eq!(
        (offer.option(1), offer.option(3)),
        (Some(&[255, 255, 0, 0][..]), None)
    );
    let wrong = message(REQUEST, 5).relay(relay).with(50, &[10, 0, 0, 10]);
    let refusal = say(&mut rig, &wrong, SERVER).unwrap();
    assert_eq!((refusal.kind, refusal.to.2), (NAK, 67));
    assert_eq!(refusal.message[10] & 0x80, 0x80);
    // Renewal by the client itself, through a router.
    let request = message(REQUEST, 5)
        .relay(relay)
        .with(54, &SERVER.octets())
        .with(50, &address.octets());
    let request = request.with(61, b"\x00me");
    assert_eq!(say(&mut rig, &request, SERVER).unwrap().kind, ACK);
    let renewal = message(REQUEST, 5)
        .own(address.octets())
        .with(61, b"\x00me");
    assert_eq!(say(&mut rig, &renewal, SERVER).unwrap().to.1, address);
    // By all, it is on another network now.
    assert_eq!(say(&mut rig, &renewal, ALL).unwrap().kind, NAK);
    assert_eq!(
        say(&mut rig, &message(DISCOVER, 5).relay([10, 8, 0, 1]), SERVER),
        None
    );
    assert_eq!(rig.read("s.foreign"), "1");
}

#[test]
fn parameters_alone_are_told_without_a_lease() {
    let mut rig = Rig::new(CONFIG);
    let reply = say(&mut rig, &message(INFORM, 5).own([10, 0, 0, 50]), SERVER).unwrap();
    assert_eq!(
        (reply.kind, reply.yours, reply.option(51)),
        (ACK, Ipv4Addr::UNSPECIFIED, None)
    );
    assert_eq!(reply.option(15), Some(&b"example.org"[..]));
    assert_eq!(rig.read("s.count"), "0");
}

#[test]
fn options_may_stand_in_other_fields() {
    let mut rig = Rig::new(CONFIG);
    let mut bytes = message(DISCOVER, 5).with(52, &[3]).bytes();
    bytes[108..115].copy_from_slice(&[50, 4, 10, 0, 0, 12, 255]);
    bytes[44..50].copy_from_slice(&[61, 2, 7, 7, 255, 0]);
    rig.push("i", &frame(&bytes, ALL));
    let offer = Reply::read(&rig.data("c")[0]);
    assert_eq!(offer.yours, Ipv4Addr::new(10, 0, 0, 12));
    assert_eq!(offer.option(61), Some(&[7, 7][..]));
}

#[test]
fn long_identifiers_fit_and_are_told_apart() {
    let mut rig = Rig::new(CONFIG);
    let ids = [[7; 255], {
        let mut other = [7; 255];
        other[254] = 8;
        other
    }];
    let offers = ids.map(|id| {
        let discover = message(DISCOVER, 5).with(61, &id).with(82, &[1; 40]);
        say(&mut rig, &discover, ALL).unwrap()
    });
    assert_ne!(offers[0].yours, offers[1].yours);
    for offer in offers {
        assert!(offer.option(51).is_some() && offer.option(82).is_some());
    }
    // With as much from the relay, there is no room for what the client said.
    let discover = message(DISCOVER, 5).with(61, &ids[0]).with(82, &[1; 255]);
    let offer = say(&mut rig, &discover, ALL).unwrap();
    assert_eq!(offer.option(82).map(<[u8]>::len), Some(255));
    assert_eq!(offer.option(61), None);
}

#[test]
fn leases_outlive_a_hotswap() {
    let mut rig = Rig::new(CONFIG);
    let addresses = [5, 6].map(|client| lease(&mut rig, client).unwrap());
    rig.swap(
        &CONFIG
            .replace("10.0.0.10-", "10.0.0.11-")
            .replace("LEASE 1000", "LEASE 50"),
    );
    assert_contains(
        &rig.read("s.leases"),
        "10.0.0.11 02-00-00-00-00-06 leased 1000",
    );
    assert_eq!(rig.read("s.count"), "1");
    assert_eq!(rig.read("s.acks"), "2");
    assert_eq!(lease(&mut rig, 6), Some(addresses[1]));
    assert_ne!(lease(&mut rig, 5), Some(addresses[0]));
}

#[test]
fn wrong_arguments_are_told() {
    for (arguments, why) in [
        ("", "write a subnet as PREFIX FIRST-LAST"),
        ("10.0.0.0/24 10.0.0.9", ""),
        (
            "10.0.0.0/24 10.0.0.9-10.0.0.3",
            "10.0.0.9-10.0.0.3': write a subnet",
        ),
        (
            "10.0.0.0/24 10.0.0.0-10.0.0.3",
            "the pool must be between 10.0.0.0 and 10.0.0.255",
        ),
        (
            "10.0.0.0/24 10.0.0.1-10.0.0.3",
            "the pool has the server's own address 10.0.0.1",
        ),
        (
            "10.0.0.0/24 10.0.0.2-10.0.0.3 10.0.0.3",
            "the pool has the router 10.0.0.3",
        ),
        (
            "10.0.0.0/24 10.0.0.2-10.0.0.3 10.1.0.3",
            "the router 10.1.0.3 is not in the subnet",
        ),
        (
            "10.0.0.0/24 10.0.0.2, 10.0.0.0/16 10.0.1.2",
            "it overlaps with the subnet 10.0.0.0",
        ),
        (
            "10.0.0.0/24 10.0.0.2, 1:1:1:1:1:1 10.2.0.1",
            "the address is in no subnet",
        ),
        (
            "10.0.0.0/24 10.0.0.2, 1:1:1:1:1:1 10.0.0.1",
            "no client can have this address",
        ),
        (
            "10.0.0.0/24 10.0.0.2, 10.0.0.1",
            "write a reservation as ETHER ADDRESS",
        ),
        (
            "10.0.0.0/24 10.0.0.2, 2:1:1:1:1:1 10.0.0.5, 2:1:1:1:1:1 10.0.0.6",
            "the address or client has a reservation already",
        ),
        ("10.0.0.0/8 10.0.0.2-10.1.0.200", "addresses are too many"),
        ("10.0.0.0/24 10.0.0.2, LEASE 5", "LEASE must be from 10"),
        ("10.0.0.0/24 10.0.0.2, MTU 50", "MTU must be at least 68"),
        (
            "10.0.0.0/24 10.0.0.2, DOMAIN \"a b\"",
            "DOMAIN must be a name",
        ),
        ("10.0.0.0/24 10.0.0.2, DOMAIN \"\"", ""),
    ] {
        let config = format!("Idle -> DHCPServer(10.0.0.1, 2:0:0:0:0:1, {arguments}) -> Discard;");
        match why {
            "" => drop(Rig::new(&config)),
            why => Rig::refuses(&config, why),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any message, and any byte of one changed, is answered in the right form or dropped.
    #[test]
    fn no_message_is_too_odd(
        at in 0usize..330,
        byte: u8,
        noise in prop::collection::vec(any::<u8>(), 0..120),
        cut in 0usize..330,
    ) {
        let mut rig = Rig::new(CONFIG);
        let mut bytes = message(DISCOVER, 5).with(61, b"client").with(82, b"relay").bytes();
        let length = bytes.len();
        bytes[at % length] = byte;
        let with_noise = [&bytes[..240], &noise].concat();
        for bytes in [&bytes[..], &bytes[..cut % length], &with_noise, &noise] {
            rig.push("i", &frame(bytes, ALL));
            for frame in rig.data("c") {
                let message = &frame[42..];
                prop_assert!((300..=548).contains(&message.len()));
                prop_assert_eq!((message[0], &message[236..241]), (2, &[99, 130, 83, 99, 53][..]));
            }
        }
        prop_assert_eq!(rig.outstanding(), 0);
    }

    /// Whatever clients do: no address has two clients, no client two addresses, and slots stay in
    /// their lists.
    #[test]
    fn an_address_has_one_client(
        steps in prop::collection::vec((0u8..12, 0u8..5, 0u64..30), 0..200),
    ) {
        let texts = ["10.0.0.0/24 10.0.0.10-10.0.0.15".to_string(), "2:0:0:0:0:1 10.0.0.12".to_string()];
        let plan = Plan::parse(&texts, SERVER, &Context::blank()).unwrap();
        let mut leases = Leases::new(&plan.subnets, &plan.reservations).unwrap();
        let mut now = 0;
        for (client, action, wait) in steps {
            now += wait;
            leases.advance(now);
            let client = Client {
                identity: Identity::numbered(client),
                hardware: EtherAddress([2, 0, 0, 0, 0, client]),
                subnet: 0,
            };
            let slot = leases.choose(&client, None);
            match (action, slot) {
                (0, Some(slot)) => leases.give(slot, client, State::Offered, now + 20),
                (1 | 2, Some(slot)) => leases.give(slot, client, State::Leased, now + 50),
                (3, Some(slot)) => leases.decline(slot, now + 90),
                (4, Some(slot)) => leases.free(slot),
                _ => {}
            }
            let mut clients = std::collections::HashSet::new();
            for (number, slot) in leases.slots().iter().enumerate() {
                if let Some(known) = slot.client {
                    prop_assert!(clients.insert(known.identity));
                    prop_assert_eq!(leases.of_client(&known), Some(number as u32));
                }
                prop_assert!(slot.state == State::Free || slot.until > now);
                let is_reserved = slot.address == Ipv4Addr::new(10, 0, 0, 12);
                let reserved_for = slot.client.map(|it| it.hardware.0[5]);
                prop_assert!(!is_reserved || reserved_for.is_none_or(|it| it == 1));
            }
        }
        leases.advance(now + 100);
        for slot in leases.slots() {
            prop_assert_eq!(slot.state, State::Free);
        }
        let got = (20..25).filter_map(|client| {
            let client = Client {
                identity: Identity::numbered(client),
                hardware: EtherAddress([2, 0, 0, 0, 0, client]),
                subnet: 0,
            };
            let slot = leases.choose(&client, None)?;
            leases.give(slot, client, State::Leased, now + 200);
            Some(slot)
        });
        prop_assert_eq!(got.count(), 5);
    }
}
