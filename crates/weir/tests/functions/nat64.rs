//! The NAT64 between an IPv6 host and an IPv4 server: curl and nginx, pings and errors.

use weir::lab::{Namespace, Runner};

use crate::common::{LIMIT, until};
use crate::gateway::{Gateway, bound, command, ping, reaches};

/// A host with IPv6 alone.
fn host6(gateway: &mut Gateway) -> Namespace {
    let host = Namespace::new(&Runner::default()).unwrap();
    gateway.join("inside", &host, "eth0");
    command(&host, "sysctl", "-qw net.ipv6.conf.eth0.disable_ipv6=0");
    command(&host, "ip", "addr add 2001:db8:1::2/64 dev eth0 nodad");
    command(&host, "ip", "-6 route add default via 2001:db8:1::1");
    host
}

#[test]
fn an_ipv6_host_reaches_ipv4_servers() {
    let mut gateway = Gateway::new();
    let inside = host6(&mut gateway);
    let outside = gateway.host("outside", "198.51.100.1/24", None);
    let _running = gateway.function("nat64", &[]);
    assert!(reaches(&inside, "2001:db8:1::1"));
    assert!(reaches(&inside, "64:ff9b::198.51.100.1"));
    assert!(reaches(&outside, "198.51.100.2"));
    // A page, and a file of many packets.
    std::fs::create_dir_all(&gateway.run).unwrap();
    let folder = gateway.run.display();
    let data: Vec<u8> = (0..1_000_000u32).map(|at| (at * 7 / 3) as u8).collect();
    std::fs::write(gateway.run.join("file"), &data).unwrap();
    let file = gateway.run.join("nginx.conf");
    let text = format!(
        "daemon off; master_process off; user root; pid {folder}/nginx.pid;
         error_log {folder}/nginx.log; events {{}}
         http {{ access_log off; server {{ listen 80; root {folder};
            location = / {{ return 200 'for $remote_addr'; }} }} }}"
    );
    std::fs::write(&file, text).unwrap();
    let words = format!("-c {}", file.display());
    let _server = outside.service("nginx", &words).unwrap();
    let got = gateway.run.join("got");
    let fetch = |page: &str| {
        let _ = std::fs::remove_file(&got);
        let got = got.display();
        let words = format!("-6 -s -m 20 -o {got} http://[64:ff9b::198.51.100.1]/{page}");
        let curl = inside.command("curl", &words);
        Runner::default().output(curl, LIMIT).unwrap();
        std::fs::read(gateway.run.join("got")).unwrap_or_default()
    };
    until("no page", || fetch("") == b"for 198.51.100.2");
    assert!(fetch("file") == data);
    // Errors of the NAT itself, and about translated packets.
    let said = ping(&inside, "-c 1 -W 2 -t 1 64:ff9b::198.51.100.1");
    assert!(said.contains("Time exceeded: Hop limit"), "{said}");
    let said = ping(&inside, "-c 1 -W 2 2001:db8:9::1");
    assert!(said.contains("Destination unreachable: No route"), "{said}");
    let socket = bound(&inside, "[::]:0");
    socket.connect("[64:ff9b::198.51.100.1]:9").unwrap();
    socket.send(b"nobody listens").unwrap();
    let refused = socket.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    // Fragments in both directions.
    let server = bound(&outside, "0.0.0.0:53");
    socket.connect("[64:ff9b::198.51.100.1]:53").unwrap();
    let question: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
    socket.send(&question).unwrap();
    let mut got = [0; 6000];
    let (length, from) = server.recv_from(&mut got).unwrap();
    assert_eq!(
        (&got[..length], from.ip().to_string()),
        (&question[..], "198.51.100.2".into())
    );
    server.send_to(&got[..length], from).unwrap();
    assert_eq!(socket.recv(&mut got).unwrap(), 5000);
    assert_eq!(got[..5000], question);
    // What nobody asked for does not get in.
    let before = gateway.weir(&["read", "nat64", "nat.drops"]);
    server.send_to(b"stray", "198.51.100.2:2000").unwrap();
    until("it got in", || {
        gateway.weir(&["read", "nat64", "nat.drops"]) != before
    });
    let hosts = gateway.weir(&["read", "nat64", "hosts.hosts"]);
    assert!(hosts.contains("2001:db8:1::2 100.64.0.0 "), "{hosts}");
}
