//! The carrier-grade NAT between subscribers and a server, with a log server of syslog messages.

use std::io::Read;
use std::net::TcpStream;

use weir::lab::Namespace;

use crate::common::{LIMIT, path, until, within};
use crate::gateway::{Gateway, Running, bound, command, connect, ping, reaches};

/// A NAT with subscribers 100.64.0.10 and 100.64.0.11, which are one machine, and a server outside.
struct Carrier {
    gateway: Gateway,
    inside: Namespace,
    outside: Namespace,
    _running: Running,
}

fn carrier(arguments: &[&str]) -> Carrier {
    let mut gateway = Gateway::new();
    let inside = gateway.host("inside", "100.64.0.10/10", Some("100.64.0.1"));
    command(&inside, "ip", "addr add 100.64.0.11/10 dev eth0");
    let outside = gateway.host("outside", "203.0.113.1/24", None);
    command(&outside, "ip", "route add 198.51.100.0/24 via 203.0.113.2");
    let arguments = [
        &["-p", "pool=198.51.100.16/30", "-p", "block=64"],
        arguments,
    ]
    .concat();
    let running = gateway.function("cgnat", &arguments);
    assert!(reaches(&inside, "203.0.113.1"));
    Carrier {
        gateway,
        inside,
        outside,
        _running: running,
    }
}

impl Carrier {
    fn number(&self, handler: &str) -> usize {
        let said = self.gateway.weir(&["read", "cgnat", handler]);
        said.trim().parse().unwrap()
    }
}

#[test]
fn the_command_of_the_page_runs() {
    let function = node::function::find("cgnat".as_ref()).unwrap();
    let page = function.declaration().text;
    let mut commands = page.lines().map(str::trim);
    let line = commands.find(|line| line.starts_with("weir run cgnat "));
    // The interfaces have other names here.
    let (parameters, links) = line.unwrap().split_once(" --link ").unwrap();
    assert_eq!(links, "inside=dev:eth1 --link outside=dev:eth2");
    let parameters: Vec<_> = parameters.split(' ').skip(3).collect();
    let mut gateway = Gateway::new();
    let inside = gateway.host("inside", "100.64.0.10/16", Some("100.64.0.1"));
    let outside = gateway.host("outside", "203.0.113.1/24", None);
    command(&outside, "ip", "route add 198.51.100.0/24 via 203.0.113.2");
    let _running = gateway.function("cgnat", &parameters);
    assert!(reaches(&inside, "203.0.113.1"));
}

#[test]
fn subscribers_share_addresses_and_are_logged() {
    let log = "log_server=203.0.113.1";
    let nat = carrier(&["-p", log]);
    let (inside, outside) = (&nat.inside, &nat.outside);
    let logs = bound(outside, "0.0.0.0:514");
    let (client, _) = connect(inside, "203.0.113.1:80", outside, "0.0.0.0:80").unwrap();
    assert!(client.to_string().starts_with("198.51.100."), "{client}");
    // All may send to a port that a subscriber uses, other subscribers too.
    let subscriber = bound(inside, "100.64.0.11:5000");
    subscriber.send_to(b"out", "203.0.113.1:9").unwrap();
    let mut buffer = [0; 2000];
    let length = logs.recv(&mut buffer).unwrap();
    let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(message.starts_with("<134>1 20"), "{message}");
    assert!(
        message.contains("block-allocated - subscriber=100.64.0.11 address=198.51.100."),
        "{message}"
    );
    let mappings = nat.gateway.weir(&["read", "cgnat", "nat.mappings"]);
    let own = mappings
        .lines()
        .find(|line| line.starts_with("17 100.64.0.11 5000 "));
    let words: Vec<_> = own.unwrap().split(' ').collect();
    let end = format!("{}:{}", words[3], words[4]);
    for stranger in [
        bound(outside, "203.0.113.1:7777"),
        bound(inside, "100.64.0.10:7777"),
    ] {
        stranger.send_to(b"in", &end).unwrap();
        let (length, from) = subscriber.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"in");
        assert_ne!(from.ip().to_string(), "100.64.0.10");
    }
    let question = format!("nat.subscriber {} {}", words[3], words[4]);
    let owner = nat.gateway.weir(&["read", "cgnat", &question]);
    assert_eq!(owner.trim(), "100.64.0.11");
    // Errors about what was sent.
    let said = ping(inside, "-c 1 -W 2 -t 1 203.0.113.1");
    assert!(
        said.contains("From 100.64.0.1 icmp_seq=1 Time to live exceeded"),
        "{said}"
    );
    subscriber.connect("203.0.113.1:9").unwrap();
    subscriber.send(b"nobody listens").unwrap();
    let refused = subscriber.recv(&mut buffer).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_subscriber_s_flood_harms_no_other() {
    let nat = carrier(&["-p", "blocks=2", "-p", "rate=100000"]);
    let (inside, outside) = (&nat.inside, &nat.outside);
    let listener = within(path(outside).as_ref(), || {
        std::net::TcpListener::bind("0.0.0.0:80").unwrap()
    });
    let mut stream = within(path(inside).as_ref(), || {
        TcpStream::connect_timeout(&"203.0.113.1:80".parse().unwrap(), LIMIT).unwrap()
    });
    let (mut server, _) = listener.accept().unwrap();
    // Datagrams from 2000 ports of the other subscriber, which has two blocks of 64.
    for port in 10_000..12_000 {
        let socket = bound(inside, &format!("100.64.0.11:{port}"));
        let _ = socket.send_to(b"flood", "203.0.113.1:9");
    }
    until("no flood", || nat.number("nat.over_limit") > 100);
    std::io::Write::write_all(&mut server, b"still here").unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut got = [0; 10];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
    assert!(connect(inside, "203.0.113.1:81", outside, "0.0.0.0:81").is_some());
    let subscribers = nat.gateway.weir(&["read", "cgnat", "nat.subscribers"]);
    let flooded = subscribers
        .lines()
        .any(|line| line.starts_with("100.64.0.11 ") && line.contains(" 2 128 "));
    assert!(flooded, "{subscribers}");
}

#[test]
fn a_million_mappings_fit() {
    let nat = carrier(&[
        "-p",
        "mappings=1000000",
        "-p",
        "subscribers=16384",
        "--memory",
        "128M",
    ]);
    assert!(connect(&nat.inside, "203.0.113.1:80", &nat.outside, "0.0.0.0:80").is_some());
}
