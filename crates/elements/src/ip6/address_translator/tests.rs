use crate::testing::ip6::{addr, icmp, packet, tcp, udp};
use crate::testing::*;

fn rig(args: &str) -> Rig {
    Rig::new(&format!(
        "out :: Inject -> [0] at :: AddressTranslator({args}); at[0] -> o :: Collect;
        in :: Inject -> [1] at; at[1] -> i :: Collect;"
    ))
}

fn host(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, n)
}

fn mapped(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, n)
}

fn peer() -> Ipv6Addr {
    addr("2001:db8:9::9")
}

/// Packets of all kinds from one end to another.
fn packets(from: (Ipv6Addr, u16), to: (Ipv6Addr, u16), payload: &[u8]) -> Vec<Vec<u8>> {
    Vec::from([udp(from, to, payload), tcp(from, to, 0x10, payload)])
}

fn ping(kind: u8, from: Ipv6Addr, to: Ipv6Addr, ident: u16) -> Vec<u8> {
    let [a, b] = ident.to_be_bytes();
    icmp(from, to, (kind, 0, [a, b, 0, 7]), &[1, 2, 3])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn checksums_are_those_of_packets_made_anew(
        ports: (u16, u16), payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut rig = rig("1, false, 2001:db8:1::1 2001:db8:2::1, false");
        let (there, back) = ((host(1), ports.0), (peer(), ports.1));
        let out = (mapped(1), ports.0);
        rig.push_all("out", &packets(there, back, &payload));
        prop_assert_eq!(rig.data("o"), packets(out, back, &payload));
        rig.push_all("in", &packets(back, out, &payload));
        prop_assert_eq!(rig.data("i"), packets(back, there, &payload));
    }
}

#[test]
fn fixed_mappings_may_have_ports() {
    let mut rig = rig("2, true, 2001:db8:1::1 80 2001:db8:2::1 8080, \
        2001:db8:1::2 22 2001:db8:2::1 2022, false");
    let back = (peer(), 99);
    rig.push_all("in", &packets(back, (mapped(1), 8080), &[1]));
    assert_eq!(rig.data("i"), packets(back, (host(1), 80), &[1]));
    rig.push_all("out", &packets((host(2), 22), back, &[1]));
    assert_eq!(rig.data("o"), packets((mapped(1), 2022), back, &[1]));
    // No mapping, wrong direction.
    rig.push_all("out", &packets((host(2), 23), back, &[]));
    rig.push_all("in", &packets(back, (host(1), 80), &[]));
    assert!(rig.data("o").is_empty() && rig.data("i").is_empty());
    assert_eq!(rig.read("at.drops"), "4");
}

#[test]
fn addresses_are_given_out_in_order_and_again_when_idle() {
    let mut rig = rig("0, true, false, 0, 2001:db8:2::1, 2001:db8:2::2");
    let back = (peer(), 99);
    for (n, m) in [(5, 1), (6, 2), (5, 1)] {
        rig.push_all("out", &packets((host(n), 7), back, &[]));
        assert_eq!(rig.data("o"), packets((mapped(m), 7), back, &[]), "{n}");
        rig.push_all("in", &packets(back, (mapped(m), 8), &[]));
        assert_eq!(rig.data("i"), packets(back, (host(n), 8), &[]), "{n}");
    }
    rig.push("out", &udp((host(7), 7), back, &[]));
    assert!(rig.data("o").is_empty());
    rig.pause(299 * 1_000_000_000);
    // Host 5 goes on; host 6 does not.
    rig.push("out", &udp((host(5), 7), back, &[]));
    rig.pause(1_000_000_000);
    rig.data("o");
    rig.push("out", &udp((host(7), 7), back, &[]));
    assert_eq!(rig.data("o"), [udp((mapped(2), 7), back, &[])]);
    assert_eq!(rig.read("at.count"), "2");
    rig.push("out", &udp((host(6), 7), back, &[]));
    assert!(rig.data("o").is_empty());
}

#[test]
fn flows_share_an_address_by_ports() {
    let mut rig = rig("0, true, true, 0, 2001:db8:2::1 1300 1302");
    let (one, two) = ((peer(), 99), (peer(), 98));
    for (from, to, port) in [
        ((host(1), 7), one, 1300),
        ((host(2), 7), one, 1301),
        ((host(1), 7), two, 1302),
        ((host(2), 7), one, 1301),
    ] {
        rig.push("out", &udp(from, to, &[5]));
        assert_eq!(rig.data("o"), [udp((mapped(1), port), to, &[5])]);
        rig.push("in", &udp(to, (mapped(1), port), &[6]));
        assert_eq!(rig.data("i"), [udp(to, from, &[6])]);
    }
    rig.push("out", &udp((host(3), 7), one, &[]));
    assert_eq!(rig.printed(), ["AddressTranslator ran out of ports"]);
    // From another peer than the flow's, by another protocol, to another port or address.
    rig.push("in", &udp(two, (mapped(1), 1300), &[]));
    rig.push("in", &tcp(one, (mapped(1), 1300), 2, &[]));
    rig.push("in", &udp(one, (mapped(1), 1303), &[]));
    rig.push("in", &udp(one, (mapped(1), 1299), &[]));
    rig.push("in", &udp(one, (mapped(2), 1300), &[]));
    assert!(rig.data("i").is_empty());
}

#[test]
fn an_echo_has_its_identifier_for_a_port() {
    let mut rig = rig("0, true, true, 0, 2001:db8:2::1 1300 1302");
    rig.push("out", &ping(128, host(1), peer(), 77));
    assert_eq!(rig.data("o"), [ping(128, mapped(1), peer(), 1300)]);
    rig.push("in", &ping(129, peer(), mapped(1), 1300));
    assert_eq!(rig.data("i"), [ping(129, peer(), host(1), 77)]);
}

#[test]
fn packets_on_their_way_in_may_make_mappings() {
    let mut rig = rig("0, true, false, 1, 2001:db8:1::1");
    let back = (peer(), 99);
    rig.push("out", &udp((host(1), 7), back, &[]));
    rig.push("in", &udp(back, (mapped(9), 7), &[]));
    assert_eq!(rig.data("i"), [udp(back, (host(1), 7), &[])]);
    rig.push("out", &udp((host(1), 7), back, &[]));
    assert_eq!(rig.data("o"), [udp((mapped(9), 7), back, &[])]);
}

#[test]
fn errors_follow_the_flow_that_they_quote() {
    let mut rig = rig("0, true, true, 0, 2001:db8:2::1 1300 1302");
    let (own, back) = ((host(1), 7), (peer(), 99));
    let unreachable = (1, 4, [0; 4]);
    let router = addr("2001:db8:9::1");
    for (i, kind) in [udp, |a, b, c: &[u8]| tcp(a, b, 2, c)]
        .into_iter()
        .enumerate()
    {
        let out = (mapped(1), 1300 + i as u16);
        rig.push("out", &kind(own, back, &[3; 30]));
        rig.data("o");
        // From outside, about what went out.
        rig.push(
            "in",
            &icmp(router, out.0, unreachable, &kind(out, back, &[3; 30])),
        );
        let expected = icmp(router, own.0, unreachable, &kind(own, back, &[3; 30]));
        assert_eq!(rig.data("i"), [expected]);
        // From inside, about what came in.
        rig.push(
            "out",
            &icmp(own.0, back.0, unreachable, &kind(back, own, &[])),
        );
        let expected = icmp(out.0, back.0, unreachable, &kind(back, out, &[]));
        assert_eq!(rig.data("o"), [expected]);
    }
    // About a flow that is not known, or damaged.
    let unknown = icmp(
        router,
        mapped(1),
        unreachable,
        &udp((mapped(1), 1302), back, &[]),
    );
    let mut damaged = icmp(
        router,
        mapped(1),
        unreachable,
        &udp((mapped(1), 1300), back, &[]),
    );
    damaged[60] ^= 1;
    rig.push_all("in", &[unknown, damaged]);
    assert!(rig.data("i").is_empty());
}

#[test]
fn fragments_and_messages_without_ports_need_mappings_of_addresses() {
    let part = |from, offset: u8| {
        let udp = udp((from, 7), (peer(), 9), &[8; 8]);
        let at = if offset == 0 { 40 } else { 48 };
        packet(
            44,
            from,
            peer(),
            &[&[17, 0, 0, offset, 0, 0, 0, 1], &udp[at..]].concat(),
        )
    };
    let query = |from| icmp(from, peer(), (130, 0, [0; 4]), &[0; 16]);
    let all = |from| [part(from, 1), part(from, 8), query(from)];
    let mut addresses = rig("0, true, false, 0, 2001:db8:2::1");
    addresses.push_all("out", &all(host(1)));
    let data = addresses.data("o");
    assert_eq!(data[1..], all(mapped(1))[1..]);
    assert_eq!(data[0][8..24], mapped(1).octets());
    let mut ports = rig("0, true, true, 0, 2001:db8:2::1 1 9");
    ports.push_all("out", &all(host(1))[1..]);
    ports.push("out", &packet(47, host(1), peer(), &[0; 20]));
    ports.push("out", &[0x60; 39]);
    assert!(ports.data("o").is_empty());
    assert_eq!(ports.read("at.drops"), "4");
    assert_eq!(
        ports.printed(),
        [" discard the packet, protocol unrecognized"]
    );
}

#[test]
fn wrong_arguments_are_refused() {
    for (args, error) in [
        ("", "argument 0 should be : integer"),
        ("0", "argument 1 should be : bool"),
        (
            "1, 0, ::1, 0",
            "argument 2 should be : <IP6Address> <IP6Address>",
        ),
        (
            "1, 1, ::1 ::2, 0",
            "argument 2 should be : <IP6Address> <port> <IP6Address> <port>",
        ),
        (
            "0, 1, 0, 0, ::1, zork",
            "argument 5 should be : <IP6Address>",
        ),
        (
            "0, 1, 1, 0, ::1 5",
            "argument 4 should be : <IP6Address> <first port> <last port>",
        ),
        (
            "0, 1, 1, 0, ::1 5 4",
            "argument 4 should be : <IP6Address> <first port> <last port>",
        ),
    ] {
        let errors = Rig::errors(&format!(
            "Idle -> [0] at :: AddressTranslator({args}) -> Discard; Idle -> [1] at [1] -> Discard;"
        ));
        assert!(errors.contains(error), "{errors}");
    }
}
