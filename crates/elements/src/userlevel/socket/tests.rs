//! Sockets on the loopback of a network namespace of each test's own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use crate::testing::*;

fn within(test: &str, work: impl FnOnce() + Send) {
    let namespace = Namespace::new(test);
    namespace.ip("link set lo up");
    namespace.within(work);
}

/// All bytes that come out within two seconds, until `done`.
fn collect(rig: &mut Rig, done: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    run_until(rig, |rig| {
        all.extend(rig.data("c"));
        done(&all)
    });
    all
}

#[test]
fn its_task_has_handlers_even_if_packets_are_pushed() {
    within("socket-handlers", || {
        for config in [
            "Idle -> s :: Socket(UDP, 127.0.0.1, 4001) -> Discard;",
            "i :: Inject -> s :: Socket(UDP, 127.0.0.1, 4001, CLIENT true);",
            "i :: Inject -> s :: McastSocket(233.252.0.0, 4321, 127.0.0.1) -> Discard;",
        ] {
            let mut rig = Rig::new(config);
            rig.run();
            // Which it has only if it pulls.
            assert_eq!(rig.read("s.tickets"), "-1", "{config}");
            assert_eq!(rig.read("s.scheduled"), "false", "{config}");
        }
    });
}

fn said(rig: &mut Rig, text: &str) {
    let printed = rig.printed();
    assert!(
        printed.iter().any(|line| line.contains(text)),
        "{text}: {printed:?}"
    );
}

#[test]
fn a_tcp_server_has_one_client_after_the_other() {
    within("tcp-server", || {
        let config = "i :: Inject -> s :: Socket(TCP, 127.0.0.1, 4000, VERBOSE true)
            -> c :: Collect;";
        let mut rig = Rig::new(config);
        said(
            &mut rig,
            "s :: Socket: listening for connections on 127.0.0.1:4000 (",
        );
        let mut first = TcpStream::connect("127.0.0.1:4000").unwrap();
        let mut second = TcpStream::connect("127.0.0.1:4000").unwrap();
        first.write_all(b"one").unwrap();
        second.write_all(b"two").unwrap();
        assert_eq!(collect(&mut rig, |all| !all.is_empty()).concat(), b"one");
        said(&mut rig, "s :: Socket: opened connection ");
        rig.push("i", b"answer");
        let mut heard = [0; 6];
        first.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"answer");
        drop(first);
        assert_eq!(collect(&mut rig, |all| !all.is_empty()).concat(), b"two");
        said(&mut rig, "s :: Socket: closed connection ");
        // With nobody there, packets are dropped.
        drop(second);
        run_until(&mut rig, |rig| !rig.printed().is_empty());
        rig.push("i", b"nobody");
        assert_eq!(rig.outstanding(), 0);
    });
}

#[test]
fn a_tcp_client_sends_all_it_pulls() {
    within("tcp-client", || {
        let listener = TcpListener::bind("127.0.0.1:4000").unwrap();
        // More than the socket's queues hold.
        let config = "i :: Inject -> Queue(5000) -> s :: Socket(TCP, 127.0.0.1, 4000,
                127.0.0.1, 4001, CLIENT true, SNDBUF 8192) -> c :: Collect;";
        let mut rig = Rig::new(config);
        let (mut stream, from) = listener.accept().unwrap();
        assert_eq!(from.port(), 4001);
        let packets: Vec<Vec<u8>> = (0..4000u16).map(vec_of).collect();
        rig.push_all("i", &packets);
        stream.set_nonblocking(true).unwrap();
        let mut heard = Vec::new();
        let whole = packets.concat();
        run_until(&mut rig, |_| {
            let mut room = [0; 60_000];
            if let Ok(count) = stream.read(&mut room) {
                heard.extend_from_slice(&room[..count]);
            }
            heard.len() == whole.len()
        });
        assert!(heard == whole, "{} of {}", heard.len(), whole.len());
        stream.write_all(b"back").unwrap();
        assert_eq!(collect(&mut rig, |all| !all.is_empty()).concat(), b"back");
    });
}

fn vec_of(n: u16) -> Vec<u8> {
    n.to_be_bytes().repeat(500)
}

#[test]
fn udp_goes_both_ways() {
    within("udp", || {
        let plain = UdpSocket::bind("127.0.0.1:5000").unwrap();
        plain
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        // A server answers the last sender.
        let config = "i :: Inject -> Socket(UDP, 127.0.0.1, 5001, SNAPLEN 100) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", b"nobody yet");
        plain.send_to(&[7; 150], "127.0.0.1:5001").unwrap();
        let mut packets = Vec::new();
        run_until(&mut rig, |rig| {
            packets.extend(rig.collected("c"));
            !packets.is_empty()
        });
        assert_eq!(
            (packets[0].data(), packets[0].anno(EXTRA_LENGTH)),
            (&[7; 100][..], 50)
        );
        assert_ne!(packets[0].timestamp(), 0);
        rig.push("i", b"answer");
        let mut room = [0; 100];
        assert_eq!(plain.recv(&mut room).unwrap(), 6);
        // An empty datagram does not end it.
        plain.send_to(&[], "127.0.0.1:5001").unwrap();
        plain.send_to(b"more", "127.0.0.1:5001").unwrap();
        assert_eq!(collect(&mut rig, |all| all.len() == 2), [&b""[..], b"more"]);
        // A client without address goes by the annotation.
        let mut rig = Rig::new("i :: Inject -> Queue -> Socket(UDP, 0.0.0.0, 5000);");
        rig.push_with("i", b"by annotation", |packet| {
            packet.set_dst_ip([127, 0, 0, 1].into())
        });
        rig.run();
        assert_eq!(plain.recv(&mut room).unwrap(), 13);
    });
}

#[test]
fn unix_sockets_are_files_while_the_router_runs() {
    let (stream, datagram) = (TempFile::new("stream"), TempFile::new("datagram"));
    let config = format!(
        "i :: Inject -> Socket(UNIX, \"{stream}\", CLIENT false) -> c :: Collect;
         j :: Inject -> Socket(UNIX_DGRAM, \"{datagram}\", CLIENT false) -> d :: Collect;"
    );
    let mut rig = Rig::new(&config);
    let mut client = UnixStream::connect(stream.path()).unwrap();
    client.write_all(b"hello").unwrap();
    assert_eq!(collect(&mut rig, |all| !all.is_empty()).concat(), b"hello");
    let sender = UnixDatagram::unbound().unwrap();
    sender.send_to(b"datagram", datagram.path()).unwrap();
    let mut heard = Vec::new();
    run_until(&mut rig, |rig| {
        heard.extend(rig.data("d"));
        !heard.is_empty()
    });
    assert_eq!(heard.concat(), b"datagram");
    assert!(stream.path().exists());
    rig.end();
    assert!(!stream.path().exists() && !datagram.path().exists());
}

#[test]
fn tables_say_who_may_send() {
    within("socket-allow", || {
        let config = "allow :: RadixIPLookup(127.0.0.1 0); deny :: RadixIPLookup(0.0.0.0/0 0);
            Idle -> allow -> Discard; Idle -> deny -> Discard;
            Socket(UDP, 0.0.0.0, 5001, ALLOW allow, DENY deny, VERBOSE true) -> c :: Collect;
            s :: Socket(TCP, 0.0.0.0, 5002, DENY deny, VERBOSE true) -> c;";
        let mut rig = Rig::new(config);
        let other = UdpSocket::bind("127.0.0.2:5000").unwrap();
        other.send_to(b"denied", "127.0.0.1:5001").unwrap();
        let one = UdpSocket::bind("127.0.0.1:5000").unwrap();
        one.send_to(b"allowed", "127.0.0.1:5001").unwrap();
        assert_eq!(collect(&mut rig, |all| !all.is_empty()), [b"allowed"]);
        let mut lines: Vec<String> = rig.printed();
        let mut stream = TcpStream::connect("127.0.0.1:5002").unwrap();
        stream.set_nonblocking(true).unwrap();
        run_until(&mut rig, |_| matches!(stream.read(&mut [0; 9]), Ok(0)));
        lines.extend(rig.printed());
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(has("dropped datagram from 127.0.0.2:5000"), "{lines:?}");
        assert!(has("s :: Socket: denied connection "), "{lines:?}");
    });
}

/// As in Click, elements start in the order of their declarations.
#[test]
fn a_client_stands_behind_its_server() {
    within("socket-order", || {
        let file = TempFile::new("order");
        for kind in ["TCP, 127.0.0.1, 4000", &format!("UNIX, \"{file}\"")] {
            let server = format!("s :: Socket({kind}) -> c :: Collect;");
            let client = format!("i :: Inject -> Socket({kind}, CLIENT true);");
            Rig::refuses(&format!("{client} {server}"), "connect ");
            let mut rig = Rig::new(&format!("{server} {client}"));
            rig.push("i", b"hello");
            assert_eq!(collect(&mut rig, |all| !all.is_empty()), [b"hello"]);
            rig.end();
        }
    });
}

#[test]
fn what_cannot_be_is_said() {
    within("socket-errors", || {
        let error = |config: &str, text: &str| {
            Rig::refuses(config, text);
        };
        error(
            "Socket(SCTP, 1.1.1.1, 1) -> Discard;",
            "unknown socket type 'SCTP'",
        );
        error(
            "Idle -> Socket(TCP, 127.0.0.1, 4000);",
            "connect 127.0.0.1:4000: Connection refused; start the server first",
        );
        error(
            "a :: Socket(UDP, 127.0.0.1, 4000) -> Discard; Socket(UDP, 127.0.0.1, 4000) -> Discard;",
            "bind 127.0.0.1:4000: Address already in use; choose another",
        );
        error(
            "Socket(UDP, 1.1.1.1, 1, ALLOW d) -> d :: Discard;",
            "expected IPRouteTable",
        );
        error(
            &format!("Socket(UNIX, {}) -> Discard;", "x".repeat(108)),
            "' too long",
        );
        error(
            "Socket(UDP, 1.1.1.1, 1, HEADROOM 9000) -> Discard;",
            "HEADROOM must be at most",
        );
    });
}
