//! What functions do not forward, what they say of it, and what goes on under a change.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::common::{path, within};
use super::gateway::{Gateway, bound, command, connect, ping, reaches};
use super::memory::write;
use super::{LIMIT, firewall, host6, nat44, number, until};

#[test]
fn closed_connections_make_room() {
    let (gateway, inside, outside, _running) =
        firewall("allow from inside\n", &["-p", "connections=20"]);
    assert!(reaches(&inside, "10.2.0.2"));
    for _ in 0..40 {
        assert!(connect(&inside, "10.2.0.2:80", &outside, "0.0.0.0:80").is_some());
    }
    assert!(number(&gateway, "firewall", "connections.evicted") >= 20);
    assert_eq!(number(&gateway, "firewall", "connections.drops"), 0);
}

#[test]
fn the_firewall_drops_sources_of_another_side() {
    for (spoofing, reach) in [("drop", false), ("allow", true)] {
        let spoofing = format!("spoofing={spoofing}");
        let (gateway, inside, outside, _running) = firewall(
            "allow from inside\n",
            &["-p", &spoofing, "-p", "routes=10.7.0.0/16 10.1.0.2 1"],
        );
        command(&inside, "ip", "addr add 10.7.0.1/32 dev lo");
        assert!(reaches(&inside, "10.2.0.2"));
        let said = ping(&inside, "-c 2 -i 0.2 -W 1 -I 10.7.0.1 10.2.0.2");
        assert_eq!(said.contains(" 0% packet loss"), reach, "{said}");
        assert!(number(&gateway, "firewall", "inside_spoofed.count") >= 2);
        command(&outside, "ip", "addr add 10.1.0.77/32 dev lo");
        ping(&outside, "-c 2 -i 0.2 -W 1 -I 10.1.0.77 10.1.0.2");
        assert!(number(&gateway, "firewall", "outside_spoofed.count") >= 2);
    }
}

#[test]
fn the_nat_keeps_broadcasts_and_groups_inside() {
    let nat = nat44(&[]);
    assert!(reaches(&nat.inside, "198.51.100.1"));
    let count = |handler: &str| number(&nat.gateway, "nat44", handler);
    let before = count("connections.opened");
    let socket = bound(&nat.inside, "0.0.0.0:0");
    socket.set_broadcast(true).unwrap();
    for address in ["192.168.1.255:9", "255.255.255.255:9"] {
        socket.send_to(b"to all", address).unwrap();
    }
    // To a group by its Ethernet group, and to a neighbor by the NAT's Ethernet address.
    socket.send_to(b"to some", "239.1.2.3:9").unwrap();
    command(
        &nat.inside,
        "ip",
        "route add 192.168.1.99/32 via 192.168.1.1",
    );
    socket.send_to(b"to one", "192.168.1.99:9").unwrap();
    until("they are not dropped", || {
        count("broadcasts.drops") + count("inside_dropped.count") >= 4
    });
    assert_eq!(count("connections.opened"), before);
}

#[test]
fn routers_tell_of_silent_neighbors() {
    let mut gateway = Gateway::new();
    let a = gateway.host("net1", "10.1.0.2/24", Some("10.1.0.1"));
    let _b = gateway.host("net2", "10.2.0.2/24", None);
    let _running = gateway.function("router", &[]);
    let said = ping(&a, "-c 7 -W 1 10.2.0.77");
    assert!(said.contains("Destination Host Unreachable"), "{said}");
    assert!(said.contains("From 10.1.0.1 "), "{said}");
    let mut gateway = Gateway::new();
    let a = host6(&mut gateway, "net1", "2001:db8:1::2/64", "2001:db8:1::1");
    let _b = host6(&mut gateway, "net2", "2001:db8:2::2/64", "2001:db8:2::1");
    let _running = gateway.function("router6", &[]);
    let said = ping(&a, "-c 7 -W 1 2001:db8:2::77");
    assert!(
        said.contains("Destination unreachable: Address unreachable"),
        "{said}"
    );
    // A link-local source goes nowhere.
    command(&a, "ip", "addr add fe80::77/64 dev eth0 nodad");
    ping(&a, "-c 2 -i 0.2 -W 1 -I fe80::77%eth0 2001:db8:2::2");
    assert!(number(&gateway, "router6", "net1/martians.count") >= 1);
}

#[test]
fn a_session_outlives_another_configuration_of_the_nat() {
    let nat = nat44(&[]);
    assert!(reaches(&nat.inside, "198.51.100.1"));
    let listener = within(path(&nat.outside).as_ref(), || {
        TcpListener::bind("0.0.0.0:80").unwrap()
    });
    let mut client = within(path(&nat.inside).as_ref(), || {
        TcpStream::connect_timeout(&"198.51.100.1:80".parse().unwrap(), LIMIT).unwrap()
    });
    let (mut server, _) = listener.accept().unwrap();
    let config = nat.gateway.weir(&["function", "nat44", "--config"]);
    let forward = "define($forwards tcp 8080 192.168.1.10 80);";
    let changed = config.replace("define($forwards );", forward);
    assert_ne!(config, changed);
    let output = write(&nat.gateway, "nat44", "hotconfig", &changed);
    assert!(output.status.success(), "{output:?}");
    client.write_all(b"still here").unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let mut got = [0; 10];
    server.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
    let (inside, outside) = (&nat.inside, &nat.outside);
    assert!(connect(outside, "198.51.100.2:8080", inside, "0.0.0.0:80").is_some());
}
