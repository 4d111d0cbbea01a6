use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::lookup::Flow;
use crate::lookup::frames::{ethernet, long, mac, packet};
use crate::port::HEAD;

const HERE: u8 = 9;
/// Longer than a test takes.
const IDLE: Nanos = 1000;

/// The connection of a client, by one of its ports.
fn flow(client: u8, port: u16) -> Flow {
    let address = |host| IpAddr::from([10, 0, 0, host]);
    Flow {
        source: address(client),
        destination: address(HERE),
        protocol: TCP,
        source_port: port,
        destination_port: 80,
    }
}

/// A segment of a flow in its direction.
fn segment(flow: Flow, flags: u8, vlan: Option<u16>) -> Frame {
    let frame = packet(mac(HERE), mac(1), flow, vlan);
    let mut head = *frame.head();
    head[14 + vlan.map_or(0, |_| 4) + 33] = flags;
    long(&head, 60)
}

fn to(connections: &mut Connections, flow: Flow, flags: u8) -> Way {
    connections.way(&segment(flow, flags, None), None, 0)
}

fn from(connections: &mut Connections, port: PortIndex, flow: Flow, flags: u8) {
    connections.see(port, &[segment(flow.reversed(), flags, None)], 0);
}

fn with(ports: &[PortIndex]) -> Connections {
    let mut connections = Connections::default();
    ports
        .iter()
        .for_each(|&port| connections.add(port, false, 0));
    connections
}

fn behind(way: Way) -> PortIndex {
    match way {
        Way::Behind(port) => port,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_connection_has_a_port_of_its_own() {
    let mut it = with(&[1, 2]);
    let (a, b, c) = (flow(1, 1000), flow(1, 1001), flow(2, 1000));
    let first = behind(to(&mut it, a, SYN));
    // A SYN that is sent again begins no other; explicit congestion notification has more flags.
    assert_eq!(to(&mut it, a, SYN | 0xc0), Way::Behind(first));
    let second = behind(to(&mut it, b, SYN | 0xc0));
    assert_ne!(first, second);
    assert_eq!(to(&mut it, c, SYN), Way::Nowhere(Reason::NoGuest));
    assert_eq!(to(&mut it, a, ACK), Way::Behind(first));
    assert_eq!(to(&mut it, b, ACK), Way::Behind(second));
    // Segments of no connection that began here, fragments among them.
    for flags in [0, ACK, SYN | ACK, FIN | ACK, RST, SYN | RST] {
        assert_eq!(to(&mut it, c, flags), Way::Nowhere(Reason::NotAwaited));
    }
    let mut head = *segment(a, ACK, None).head();
    head[20] = 0x20;
    assert_eq!(
        it.way(&long(&head, 60), None, 0),
        Way::Nowhere(Reason::NotAwaited)
    );
    // When one port has no guest any more, it is for another.
    it.set_running(first, true, 0);
    it.set_running(first, false, 0);
    assert_eq!(to(&mut it, a, ACK), Way::Nowhere(Reason::NotAwaited));
    assert_eq!(to(&mut it, c, SYN), Way::Behind(first));
    it.remove(first);
    assert_eq!(to(&mut it, c, ACK), Way::Nowhere(Reason::NotAwaited));
    assert_eq!(to(&mut it, c, SYN), Way::Nowhere(Reason::NoGuest));
}

#[test]
fn a_connection_is_over_after_two_fins_or_a_reset() {
    let mut it = with(&[1, 2]);
    let (a, b) = (flow(1, 1000), flow(1, 1001));
    let (first, second) = (behind(to(&mut it, a, SYN)), behind(to(&mut it, b, SYN)));
    for port in [first, second] {
        it.set_running(port, true, 0);
    }
    from(&mut it, first, a, FIN | ACK);
    from(&mut it, first, a, FIN | ACK);
    // The other's FIN, and a reset of another connection, say nothing of it.
    to(&mut it, b, FIN | ACK);
    from(&mut it, first, b, RST);
    assert!(it.over(100, 0, IDLE).is_empty());
    assert_eq!(
        it.way(&segment(a, FIN | ACK, None), None, 50),
        Way::Behind(first)
    );
    assert_eq!(it.over(100, 50, IDLE), [first]);
    assert!(it.over(99, 50, IDLE).is_empty());
    // What comes late still gets there.
    assert_eq!(to(&mut it, a, ACK), Way::Behind(first));
    from(&mut it, second, b, RST);
    assert_eq!(it.over(100, 0, IDLE).len(), 2);
    // The same addresses and ports begin another, if there is a guest for it.
    assert_eq!(to(&mut it, a, SYN), Way::Nowhere(Reason::NoGuest));
    it.set_running(second, false, 0);
    assert_eq!(to(&mut it, a, SYN), Way::Behind(second));
    it.set_running(first, false, 0);
    assert_eq!(to(&mut it, a, ACK), Way::Behind(second));
}

#[test]
fn a_guest_that_was_there_before_tells_its_connection() {
    let mut it = Connections::default();
    it.add(4, true, 0);
    let a = flow(1, 1000);
    assert_eq!(to(&mut it, a, ACK), Way::Nowhere(Reason::NotAwaited));
    assert_eq!(to(&mut it, a, SYN), Way::Nowhere(Reason::NoGuest));
    from(&mut it, 4, a, ACK);
    assert_eq!(to(&mut it, a, ACK), Way::Behind(4));
    to(&mut it, a, RST);
    assert_eq!(it.over(1, 0, IDLE), [4]);
}

#[test]
fn a_guest_is_idle_when_its_connection_is() {
    let mut it = with(&[1]);
    let a = flow(1, 1000);
    to(&mut it, a, SYN);
    it.set_running(1, true, 10);
    // What all get counts for none.
    let answer = ethernet(mac(HERE), mac(1), 0x0806, &[0, 1, 8, 0, 6, 4, 0, 2]);
    assert_eq!(it.way(&answer, None, 50), Way::Several);
    assert!(it.over(59, 0, 50).is_empty());
    assert_eq!(it.over(60, 0, 50), [1]);
    it.way(&segment(a, ACK, None), None, 60);
    assert!(it.over(109, 0, 50).is_empty());
    it.see(1, &[segment(a.reversed(), ACK, None)], 70);
    assert!(it.over(119, 0, 50).is_empty());
    assert_eq!(it.over(120, 0, 50), [1]);
}

/// An ARP request for a host of 10.0.0.0/24, or an answer from it.
fn arp(operation: u8, host: u8) -> Frame {
    let (source, target) = match operation {
        1 => (HERE, host),
        _ => (host, HERE),
    };
    let mut payload = [0; 28];
    payload[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, operation]);
    payload[14..18].copy_from_slice(&[10, 0, 0, source]);
    payload[24..28].copy_from_slice(&[10, 0, 0, target]);
    ethernet(mac(HERE), mac(1), 0x0806, &payload)
}

#[test]
fn an_arp_answer_goes_to_those_that_asked() {
    let mut it = with(&[1, 2, 3, 4]);
    (1..=3).for_each(|port| it.set_running(port, true, 0));
    let takers = |it: &mut Connections, host| {
        assert_eq!(it.way(&arp(2, host), None, 0), Way::Several);
        let mut takers = it.takers().to_vec();
        takers.sort_unstable();
        takers
    };
    // Nobody did.
    assert_eq!(takers(&mut it, 1), [1, 2, 3]);
    it.see(1, &[arp(1, 1)], 0);
    it.see(2, &[arp(1, 1), arp(1, 1)], 0);
    it.see(3, &[arp(1, 2)], 0);
    assert_eq!(takers(&mut it, 1), [1, 2]);
    assert_eq!(takers(&mut it, 2), [3]);
    assert_eq!(takers(&mut it, 2), [1, 2, 3]);
    // One that asks for more than one address gets all answers, until it has another guest.
    it.see(1, &[arp(1, 1), arp(1, 2)], 0);
    it.see(2, &[arp(1, 2)], 0);
    assert_eq!(takers(&mut it, 2), [1, 2]);
    assert_eq!(takers(&mut it, 1), [1]);
    assert_eq!(takers(&mut it, 3), [1]);
    it.set_running(1, false, 0);
    assert_eq!(takers(&mut it, 1), [2, 3]);
    // A guest that asks for ever takes one place.
    let room = it.asking.capacity();
    for host in 0..=255 {
        it.see(2, &[arp(1, host)], 0);
        it.see(3, &[arp(1, 7)], 0);
    }
    assert_eq!((it.asking.len(), it.asking.capacity()), (2, room));
}

#[test]
fn only_frames_to_the_fronts_address_are_of_a_connection() {
    let mut it = with(&[1]);
    let here = Some(Mac(mac(HERE)));
    for other in [[0xff; 6], [1, 0, 94, 0, 0, 1], mac(8)] {
        let mut head = *segment(flow(1, 1000), SYN, None).head();
        head[..6].copy_from_slice(&other);
        assert_eq!(it.way(&long(&head, 60), here, 0), Way::Front);
    }
    let syn = segment(flow(1, 1000), SYN, None);
    assert_eq!(
        it.way(&long(syn.head(), 42), here, 0),
        Way::Nowhere(Reason::NotAwaited)
    );
    assert_eq!(it.way(&syn, here, 0), Way::Behind(1));
}

#[test]
fn what_belongs_to_no_connection_goes_to_the_front_or_to_all() {
    let mut it = with(&[1]);
    assert_eq!(it.way(&arp(1, 1), None, 0), Way::Front);
    assert_eq!(it.way(&arp(2, 1), None, 0), Way::Several);
    let icmp = |protocol: u8, kind: u8| {
        let six = protocol == ICMPV6;
        let address = |host: u16| match six {
            true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host]),
            false => IpAddr::from([10, 0, 0, host as u8]),
        };
        let flow = Flow {
            source: address(1),
            destination: address(9),
            protocol,
            source_port: 0,
            destination_port: 0,
        };
        let mut head = *packet(mac(HERE), mac(1), flow, None).head();
        head[if six { 54 } else { 34 }] = kind;
        long(&head, 64)
    };
    for (kind, way) in [(8, Way::Front), (3, Way::Several), (11, Way::Several)] {
        assert_eq!(it.way(&icmp(ICMP, kind), None, 0), way);
    }
    for (kind, way) in [
        (128, Way::Front),
        (2, Way::Several),
        (136, Way::Several),
        (135, Way::Front),
    ] {
        assert_eq!(it.way(&icmp(ICMPV6, kind), None, 0), way);
    }
    let udp = Flow {
        protocol: 17,
        ..flow(1, 1000)
    };
    assert_eq!(
        it.way(&packet(mac(HERE), mac(1), udp, None), None, 0),
        Way::Front
    );
    // Of a segment over IPv6 no flags are seen.
    let six = Flow {
        source: "fd00::1".parse().unwrap(),
        destination: "fd00::9".parse().unwrap(),
        ..flow(1, 1000)
    };
    let six = packet(mac(HERE), mac(1), six, None);
    assert_eq!(it.way(&long(six.head(), 74), None, 0), Way::Behind(1));
    it.set_running(1, false, 0);
    let tagged = segment(flow(1, 1000), SYN, Some(7));
    assert_eq!(it.way(&tagged, None, 0), Way::Behind(1));
}

proptest! {
    /// Whatever comes, from any side: a port has one connection at most, a connection one port, and nothing is lost of
    /// either.
    #[test]
    fn ports_and_connections_stay_pairs(
        steps in prop::collection::vec((0u8..5, 1u16..5, 0u16..6, any::<u8>(), any::<[u8; HEAD]>()), 1..200),
    ) {
        let mut it = with(&[1, 2, 3]);
        for (now, (step, port, client, flags, noise)) in (0..).zip(steps) {
            let flow = flow(1, client);
            match step {
                0 => drop(it.way(&segment(flow, flags, None), None, now)),
                1 => it.see(port, &[segment(flow.reversed(), flags, None)], now),
                2 => it.set_running(port, flags & 1 != 0, 0),
                3 => drop(it.way(&long(&noise, usize::from(flags).max(14)), None, now)),
                _ => {
                    it.remove(port);
                    it.add(port, flags & 1 != 0, 0);
                }
            }
            for (flow, port) in &it.flows {
                let taken = it.ports[port].taken.as_ref();
                prop_assert!(taken.is_some_and(|taken| taken.flow == *flow));
            }
            for free in &it.free {
                prop_assert!(it.ports[free].taken.is_none());
                prop_assert_eq!(it.free.iter().filter(|other| *other == free).count(), 1);
            }
            let idle = |(port, behind): (&PortIndex, &Behind)| {
                !behind.runs && behind.taken.is_none() && !it.free.contains(port)
            };
            prop_assert!(!it.ports.iter().any(idle));
        }
    }
}
