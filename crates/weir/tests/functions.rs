//! The functions on real traffic: each as a guest between hosts in namespaces of their own.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{LIMIT, path, until, within};
use gateway::{Gateway, bound, command, connect, give6, is_cut_off, ping, reaches, received};
use weir::lab::{Namespace, Runner};

#[path = "functions/balancer.rs"]
mod balancer;
#[path = "functions/bras.rs"]
mod bras;
#[path = "functions/cache.rs"]
mod cache;
#[path = "functions/cgnat.rs"]
mod cgnat;
mod common;
#[path = "functions/ddos.rs"]
mod ddos;
#[path = "functions/dpi.rs"]
mod dpi;
#[path = "common/gateway.rs"]
mod gateway;
#[path = "functions/limits.rs"]
mod limits;
#[path = "functions/memory.rs"]
mod memory;
#[path = "functions/nat64.rs"]
mod nat64;
#[path = "functions/responder.rs"]
mod responder;
#[path = "functions/shaper.rs"]
mod shaper;

fn number(gateway: &Gateway, function: &str, handler: &str) -> u64 {
    let said = gateway.weir(&["read", function, handler]);
    said.trim().parse().unwrap()
}

#[test]
fn the_wire_passes_frames() {
    let mut gateway = Gateway::new();
    let a = gateway.host("a", "10.0.0.1/24", None);
    let b = gateway.host("b", "10.0.0.2/24", None);
    let _running = gateway.function("wire", &[]);
    assert!(reaches(&a, "10.0.0.2"));
    connect(&a, "10.0.0.2:80", &b, "0.0.0.0:80").unwrap();
    assert!(number(&gateway, "wire", "there.byte_count") > 300_000);
    assert!(number(&gateway, "wire", "back.byte_count") > 300_000);
}

#[test]
fn functions_run_as_processes() {
    let mut gateway = Gateway::new();
    let a = gateway.host("left", "10.0.0.1/24", None);
    let b = gateway.host("right", "10.0.0.2/24", None);
    let links = ["--link", "a=dev:left", "--link", "b=dev:right"];
    let _running = gateway.function_process("wire", &links);
    assert!(reaches(&a, "10.0.0.2"));
    connect(&a, "10.0.0.2:80", &b, "0.0.0.0:80").unwrap();
    // A gateway, whose interfaces have the configuration's names, and addresses of its own.
    let mut gateway = Gateway::new();
    let inside = gateway.host("inside", "192.168.1.10/24", Some("192.168.1.1"));
    let outside = gateway.host("outside", "198.51.100.1/24", None);
    let forward = "forwards=tcp 8080 192.168.1.10 80";
    let _running = gateway.function_process("nat44", &["-p", forward, "ports=2000-65535"]);
    assert!(reaches(&inside, "198.51.100.1"));
    let (client, _) = connect(&inside, "198.51.100.1:443", &outside, "0.0.0.0:443").unwrap();
    assert_eq!(client.to_string(), "198.51.100.2");
    assert!(connect(&outside, "198.51.100.2:8080", &inside, "0.0.0.0:80").is_some());
}

#[test]
fn mistakes_of_functions_as_processes_are_told() {
    let gateway = Gateway::new();
    for (words, expected) in [
        (
            "click router -p net1_ip=10.1",
            "net1_ip=10.1: write an IPv4 address, as in 10.0.0.1",
        ),
        ("click wire --link a=tap:x", "write --link a=dev:INTERFACE"),
        ("click ruoter", "did you mean "),
        ("click wire --link a=dev:nowhere", "No such device"),
    ] {
        let weir = gateway.namespace.command(env!("CARGO_BIN_EXE_weir"), words);
        let output = Runner::default().output(weir, LIMIT).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
    }
}

#[test]
fn the_mirror_sends_frames_back() {
    let mut gateway = Gateway::new();
    let host = gateway.host("port", "10.0.0.1/24", None);
    let _running = gateway.function("mirror", &[]);
    command(
        &host,
        "ip",
        "neighbor add 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0",
    );
    // A datagram to another host comes back, as the host's own interface sees.
    let before = received(&host);
    let socket = bound(&host, "0.0.0.0:0");
    for _ in 0..20 {
        socket.send_to(&[7; 100], "10.0.0.2:9").unwrap();
    }
    until("nothing comes back", || received(&host) >= before + 20);
    assert!(number(&gateway, "mirror", "mirrored.count") >= 20);
}

#[test]
fn the_router_routes() {
    let mut gateway = Gateway::new();
    let a = gateway.host("net1", "10.1.0.2/24", Some("10.1.0.1"));
    let b = gateway.host("net2", "10.2.0.2/24", Some("10.2.0.1"));
    let _running = gateway.function("router", &["-p", "mtu=1400"]);
    for (host, address) in [
        (&a, "10.1.0.1"),
        (&a, "10.2.0.1"),
        (&a, "10.2.0.2"),
        (&b, "10.1.0.1"),
    ] {
        assert!(reaches(host, address), "{address}");
    }
    for (options, expected) in [
        ("-t 1 10.2.0.2", "Time to live exceeded"),
        ("10.9.0.1", "Destination Net Unreachable"),
        (
            "-s 1390 -M do 10.2.0.2",
            "Frag needed and DF set (mtu = 1400)",
        ),
    ] {
        let said = ping(&a, &format!("-c 1 -W 2 {options}"));
        assert!(said.contains(expected), "{said}");
    }
    let (client, _) = connect(&a, "10.2.0.2:80", &b, "0.0.0.0:80").unwrap();
    assert_eq!(client.to_string(), "10.1.0.2");
    // In fragments, put together by the host there, and by the router itself.
    for address in ["10.2.0.2", "10.1.0.1"] {
        let said = ping(&a, &format!("-c 2 -i 0.2 -W 2 -s 4000 {address}"));
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
    // A route by a neighbor on net2.
    command(&b, "ip", "addr add 10.9.0.1/32 dev lo");
    gateway.weir(&["write", "router", "routes.add", "10.9.0.0/16 10.2.0.2 2"]);
    assert!(reaches(&a, "10.9.0.1"));
    // A better way than by the router.
    gateway.weir(&["write", "router", "routes.add", "10.8.0.0/16 10.1.0.9 1"]);
    command(&a, "sysctl", "-qw net.ipv4.conf.all.accept_redirects=0");
    let said = ping(&a, "-c 1 -W 2 10.8.0.1");
    assert!(
        said.contains("Redirect Host(New nexthop: 10.1.0.9)"),
        "{said}"
    );
    assert!(number(&gateway, "router", "errors.count") >= 4);
}

#[test]
fn the_router_holds_100000_prefixes() {
    let mut gateway = Gateway::new();
    let a = gateway.host("net1", "10.1.0.2/24", Some("10.1.0.1"));
    let b = gateway.host("net2", "10.2.0.2/24", Some("10.2.0.1"));
    let _running = gateway.function("router", &["--memory", "64M"]);
    assert!(reaches(&a, "10.2.0.2"));
    let prefixes: Vec<u32> = (0..100_000).map(|n| 0x1400_0000 + 256 * n).collect();
    for part in prefixes.chunks(2500) {
        let add = |prefix: &u32| {
            let address = std::net::Ipv4Addr::from_bits(*prefix);
            format!("add {address}/24 10.2.0.2 2\n")
        };
        let commands: String = part.iter().map(add).collect();
        gateway.weir(&["write", "router", "routes.ctrl", commands.trim_end()]);
    }
    for address in ["20.0.0.1", "21.100.2.3", "21.134.159.254"] {
        command(&b, "ip", &format!("addr add {address}/32 dev lo"));
        assert!(reaches(&a, address), "{address}");
    }
    let said = ping(&a, "-c 1 -W 2 21.134.160.1");
    assert!(said.contains("Destination Net Unreachable"), "{said}");
}

/// A host with an IPv6 address and a default route.
fn host6(gateway: &mut Gateway, interface: &'static str, address: &str, route: &str) -> Namespace {
    let host = Namespace::new(&Runner::default()).unwrap();
    gateway.join(interface, &host, "eth0");
    give6(&host, address);
    command(&host, "ip", &format!("-6 route add default via {route}"));
    host
}

#[test]
fn the_ipv6_router_routes() {
    let mut gateway = Gateway::new();
    let a = host6(&mut gateway, "net1", "2001:db8:1::2/64", "2001:db8:1::1");
    let b = host6(&mut gateway, "net2", "2001:db8:2::2/64", "2001:db8:2::1");
    let _running = gateway.function("router6", &["-p", "mtu=1400"]);
    for (host, address) in [
        (&a, "2001:db8:1::1"),
        (&a, "2001:db8:2::1"),
        (&a, "2001:db8:2::2"),
        (&b, "2001:db8:1::2"),
    ] {
        assert!(reaches(host, address), "{address}");
    }
    for (options, expected) in [
        ("-t 1 2001:db8:2::2", "Time exceeded: Hop limit"),
        ("2001:db8:9::1", "Destination unreachable: No route"),
        ("-s 1390 -M do 2001:db8:2::2", "Packet too big"),
    ] {
        let said = ping(&a, &format!("-c 1 -W 2 {options}"));
        assert!(said.contains(expected), "{said}");
    }
    let (client, _) = connect(&a, "[2001:db8:2::2]:80", &b, "[::]:80").unwrap();
    assert_eq!(client.to_string(), "2001:db8:1::2");
    command(&b, "ip", "addr add 2001:db8:9::1/128 dev lo");
    let route = "2001:db8:9::/48 2001:db8:2::2 2";
    gateway.weir(&["write", "router6", "routes.add", route]);
    assert!(reaches(&a, "2001:db8:9::1"));
}

/// A firewall with rules from a file between two hosts.
fn firewall(rules: &str, arguments: &[&str]) -> (Gateway, Namespace, Namespace, gateway::Running) {
    let mut gateway = Gateway::new();
    let inside = gateway.host("inside", "10.1.0.2/24", Some("10.1.0.1"));
    let outside = gateway.host("outside", "10.2.0.2/24", Some("10.2.0.1"));
    let running = firewall_of(&gateway, rules, arguments);
    (gateway, inside, outside, running)
}

/// A firewall with rules from a file, in a gateway that has its hosts.
fn firewall_of(gateway: &Gateway, rules: &str, arguments: &[&str]) -> gateway::Running {
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("rules");
    std::fs::write(&file, rules).unwrap();
    let rules = format!("rules={}", file.display());
    gateway.function("firewall", &[&["-p", &rules], arguments].concat())
}

const RULES: &str = "allow from inside icmp type echo
allow from inside tcp dst port 80
allow from inside udp
reject from inside
allow from outside tcp dst port 22 and dst host 10.1.0.2
";

#[test]
fn the_firewall_allows_by_connection() {
    let (gateway, inside, outside, _running) = firewall(RULES, &[]);
    assert!(reaches(&inside, "10.2.0.2"));
    assert!(reaches(&inside, "10.1.0.1"));
    assert!(is_cut_off(&outside, "10.1.0.2"));
    assert!(connect(&inside, "10.2.0.2:80", &outside, "0.0.0.0:80").is_some());
    assert!(connect(&outside, "10.1.0.2:22", &inside, "0.0.0.0:22").is_some());
    assert_eq!(
        connect(&outside, "10.1.0.2:80", &inside, "0.0.0.0:80"),
        None
    );
    // A real server, asked by a real client.
    let dir = gateway.run.join("web");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("page"), "served").unwrap();
    let words = format!("-m http.server 80 --directory {}", dir.display());
    let _server = outside.service("python3", &words).unwrap();
    until("no page", || {
        let fetch = inside.command("curl", "-s -m 2 http://10.2.0.2/page");
        let output = Runner::default().output(fetch, LIMIT).unwrap();
        output.stdout == b"served"
    });
    // What is rejected is refused at once.
    let started = Instant::now();
    let refused = within(path(&inside).as_ref(), || {
        TcpStream::connect_timeout(&"10.2.0.2:443".parse().unwrap(), LIMIT)
    });
    assert!(refused.is_err() && started.elapsed() < Duration::from_secs(2));
    // Fragments, and errors about what was sent.
    let said = ping(&inside, "-c 1 -W 2 -t 1 10.2.0.2");
    let late = "From 10.1.0.1 icmp_seq=1 Time to live exceeded";
    assert!(said.contains(late), "{said}");
    let said = ping(&inside, "-c 2 -i 0.2 -W 2 -s 4000 10.2.0.2");
    assert!(said.contains(" 0% packet loss"), "{said}");
    let socket = bound(&inside, "0.0.0.0:0");
    socket.connect("10.2.0.2:9").unwrap();
    socket.send(b"nobody listens").unwrap();
    let refused = socket.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let hits = gateway.weir(&["read", "firewall", "rules.hits"]);
    for line in hits.lines() {
        assert!(!line.starts_with("0 "), "{hits}");
    }
    let table = gateway.weir(&["read", "firewall", "connections.table"]);
    assert!(table.contains("6 closed (10.1.0.2, "), "{table}");
}

#[test]
fn the_firewall_allows_ipv6_by_connection() {
    const RULES: &str = "allow from inside icmp6 type echo
allow from inside tcp dst port 80
allow from inside udp dst net 2001:db8:2::/64
reject from inside
allow from outside tcp dst port 22 and dst host 2001:db8:1::2
";
    let mut gateway = Gateway::new();
    let inside = host6(&mut gateway, "inside", "2001:db8:1::2/64", "2001:db8:1::1");
    let outside = host6(&mut gateway, "outside", "2001:db8:2::2/64", "2001:db8:2::1");
    let _running = firewall_of(&gateway, RULES, &[]);
    assert!(reaches(&inside, "2001:db8:2::2"));
    assert!(reaches(&inside, "2001:db8:1::1"));
    assert!(is_cut_off(&outside, "2001:db8:1::2"));
    assert!(connect(&inside, "[2001:db8:2::2]:80", &outside, "[::]:80").is_some());
    assert!(connect(&outside, "[2001:db8:1::2]:22", &inside, "[::]:22").is_some());
    assert_eq!(
        connect(&outside, "[2001:db8:1::2]:80", &inside, "[::]:80"),
        None
    );
    // What is rejected is refused at once, as prohibited.
    let started = Instant::now();
    let refused = within(path(&inside).as_ref(), || {
        TcpStream::connect_timeout(&"[2001:db8:2::2]:443".parse().unwrap(), LIMIT)
    });
    let prohibited = std::io::ErrorKind::PermissionDenied;
    assert_eq!(refused.unwrap_err().kind(), prohibited);
    assert!(started.elapsed() < Duration::from_secs(2));
    // Errors about what was sent, from the firewall and from the other side.
    for (options, expected) in [
        (
            "-t 1 2001:db8:2::2",
            "From 2001:db8:1::1 icmp_seq=1 Time exceeded: Hop limit",
        ),
        ("2001:db8:9::1", "Destination unreachable: No route"),
    ] {
        let said = ping(&inside, &format!("-c 1 -W 2 {options}"));
        assert!(said.contains(expected), "{said}");
    }
    // Fragments.
    let said = ping(&inside, "-c 2 -i 0.2 -W 2 -s 4000 2001:db8:2::2");
    assert!(said.contains(" 0% packet loss"), "{said}");
    let socket = bound(&inside, "[::]:0");
    socket.connect("[2001:db8:2::2]:9").unwrap();
    socket.send(b"nobody listens").unwrap();
    let refused = socket.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let hits = gateway.weir(&["read", "firewall", "rules.hits"]);
    for line in hits.lines() {
        assert!(!line.starts_with("0 "), "{hits}");
    }
    let table = gateway.weir(&["read", "firewall", "connections.table"]);
    assert!(table.contains("6 closed (2001:db8:1::2, "), "{table}");
    // A source of the other side.
    command(&outside, "ip", "addr add 2001:db8:1::9/128 dev lo");
    ping(&outside, "-c 1 -W 1 -I 2001:db8:1::9 2001:db8:1::2");
    assert!(number(&gateway, "firewall", "outside_spoofed6.count") >= 1);
}

#[test]
fn rules_are_replaced_under_a_connection() {
    let (gateway, inside, outside, _running) = firewall(RULES, &[]);
    assert!(reaches(&inside, "10.2.0.2"));
    let listener = within(path(&outside).as_ref(), || {
        std::net::TcpListener::bind("0.0.0.0:80").unwrap()
    });
    let mut stream = within(path(&inside).as_ref(), || {
        TcpStream::connect_timeout(&"10.2.0.2:80".parse().unwrap(), LIMIT).unwrap()
    });
    let (mut server, _) = listener.accept().unwrap();
    for stream in [&stream, &server] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
    }
    const BYTES: usize = 20 << 20;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let data = vec![7; 1 << 16];
            for _ in 0..BYTES >> 16 {
                std::io::Write::write_all(&mut server, &data).unwrap();
            }
        });
        // A thousand rules, and none that the connection's packets match, again and again.
        let rules: String = (1..=1000)
            .map(|port| format!("allow from inside tcp dst port {}\n", 10_000 + port))
            .collect();
        for _ in 0..5 {
            gateway.weir(&["write", "firewall", "rules.rules", &rules]);
            let mut part = vec![0; BYTES / 5];
            stream.read_exact(&mut part).unwrap();
        }
    });
    assert!(number(&gateway, "firewall", "rules.former") > 0);
    assert_eq!(
        connect(&inside, "10.2.0.2:80", &outside, "10.2.0.2:81"),
        None
    );
    assert!(connect(&inside, "10.2.0.2:10500", &outside, "0.0.0.0:10500").is_some());
    let mut write = gateway.namespace.command(env!("CARGO_BIN_EXE_weir"), "");
    write
        .args(["write", "firewall", "rules.rules", "allow\npermit"])
        .env("WEIR_RUN", &gateway.run);
    let output = Runner::default().output(write, LIMIT).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("line 2: "),
        "{said}"
    );
}

#[test]
fn a_flood_leaves_connections_alone() {
    let (gateway, inside, outside, _running) = firewall(RULES, &["-p", "connections=200"]);
    assert!(reaches(&inside, "10.2.0.2"));
    let listener = within(path(&outside).as_ref(), || {
        std::net::TcpListener::bind("0.0.0.0:80").unwrap()
    });
    let mut stream = within(path(&inside).as_ref(), || {
        TcpStream::connect_timeout(&"10.2.0.2:80".parse().unwrap(), LIMIT).unwrap()
    });
    let (mut server, _) = listener.accept().unwrap();
    // Datagrams to as many ports, none of which answers in time.
    command(&outside, "sysctl", "-qw net.ipv4.icmp_ratelimit=0");
    // Again while too few arrive: a busy machine loses most of a burst.
    let socket = bound(&inside, "0.0.0.0:0");
    until("no flood", || {
        for port in 1000..6000 {
            let _ = socket.send_to(b"flood", ("10.2.0.2", port));
        }
        number(&gateway, "firewall", "connections.evicted") > 1000
    });
    std::io::Write::write_all(&mut server, b"still here").unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut got = [0; 10];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
    assert!(reaches(&inside, "10.2.0.2"), "a new connection");
    assert!(number(&gateway, "firewall", "connections.count") <= 200);
}

/// A NAT between a host inside and one outside.
struct Natted {
    gateway: Gateway,
    inside: Namespace,
    outside: Namespace,
    _running: gateway::Running,
}

fn nat44(arguments: &[&str]) -> Natted {
    let mut gateway = Gateway::new();
    let inside = gateway.host("inside", "192.168.1.10/24", Some("192.168.1.1"));
    let outside = gateway.host("outside", "198.51.100.1/24", None);
    let running = gateway.function("nat44", arguments);
    Natted {
        gateway,
        inside,
        outside,
        _running: running,
    }
}

#[test]
fn the_nat_translates_connections_pings_and_errors() {
    let nat = nat44(&["-p", "forwards=tcp 8080 192.168.1.10 80"]);
    let (inside, outside) = (&nat.inside, &nat.outside);
    assert!(reaches(inside, "198.51.100.1"));
    assert!(reaches(inside, "192.168.1.1"));
    assert!(reaches(outside, "198.51.100.2"));
    let (client, _) = connect(inside, "198.51.100.1:443", outside, "0.0.0.0:443").unwrap();
    assert_eq!(client.to_string(), "198.51.100.2");
    // The forwarded port, and no other; also from inside, by the shared address.
    let (client, server) = connect(outside, "198.51.100.2:8080", inside, "0.0.0.0:80").unwrap();
    assert_eq!(client.to_string(), "198.51.100.1");
    assert_eq!(server.to_string(), "192.168.1.10");
    let (client, _) = connect(inside, "198.51.100.2:8080", inside, "0.0.0.0:80").unwrap();
    assert_eq!(client.to_string(), "198.51.100.2");
    assert_eq!(
        connect(outside, "198.51.100.2:80", inside, "0.0.0.0:80"),
        None
    );
    // Errors: of the NAT itself, and about translated packets.
    let said = ping(inside, "-c 1 -W 2 -t 1 198.51.100.1");
    assert!(
        said.contains("From 192.168.1.1 icmp_seq=1 Time to live exceeded"),
        "{said}"
    );
    let socket = bound(inside, "0.0.0.0:0");
    socket.connect("198.51.100.1:9").unwrap();
    socket.send(b"nobody listens").unwrap();
    let refused = socket.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    // Fragments.
    let said = ping(inside, "-c 2 -i 0.2 -W 2 -s 4000 198.51.100.1");
    assert!(said.contains(" 0% packet loss"), "{said}");
    let mappings = nat.gateway.weir(&["read", "nat44", "nat.mappings"]);
    assert!(mappings.contains("6 192.168.1.10 80 8080 "), "{mappings}");
}

/// A server of pyftpdlib, and a client of Python's own, that fetches a file in one of the modes.
const FTP_SERVER: &str = "
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_anonymous(sys.argv[1])
FTPServer(('0.0.0.0', 21), FTPHandler).serve_forever()
";
const FTP_CLIENT: &str = "
import ftplib, sys
ftp = ftplib.FTP(sys.argv[1], timeout=5)
ftp.login()
ftp.set_pasv(sys.argv[2] == 'passive')
if sys.argv[3] == 'extended':
    ftp.makeport = lambda: extended(ftp)
def extended(ftp):
    import socket
    sock = socket.create_server(('', 0), backlog=1)
    ftp.sendcmd('EPRT |1|%s|%d|' % (ftp.sock.getsockname()[0], sock.getsockname()[1]))
    sock.settimeout(5)
    return sock
if sys.argv[3] == 'extended' and sys.argv[2] == 'passive':
    ftp.makepasv = lambda: (sys.argv[1], ftplib.parse229(ftp.sendcmd('EPSV'), ftp.sock.getpeername())[1])
got = []
for _ in range(3):
    ftp.retrbinary('RETR file', got.append)
ftp.quit()
print(sum(map(len, got)))
";

/// The one that has Debian's pyftpdlib.
const DEBIAN_PYTHON: &str = "/usr/bin/python3";

#[test]
fn ftp_works_through_the_nat_in_all_modes() {
    let nat = nat44(&["-p", "forwards=tcp 21 192.168.1.10 21"]);
    assert!(reaches(&nat.inside, "198.51.100.1"));
    std::fs::create_dir_all(&nat.gateway.run).unwrap();
    let folder = nat.gateway.run.join("ftp");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("file"), [b'x'; 50_000]).unwrap();
    let (server, client) = (
        nat.gateway.run.join("server.py"),
        nat.gateway.run.join("client.py"),
    );
    std::fs::write(&server, FTP_SERVER).unwrap();
    std::fs::write(&client, FTP_CLIENT).unwrap();
    let words = format!("{} {}", server.display(), folder.display());
    for (host, from, address) in [
        (&nat.outside, &nat.inside, "198.51.100.1"),
        (&nat.inside, &nat.outside, "198.51.100.2"),
    ] {
        let _server = host.service(DEBIAN_PYTHON, &words).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        for mode in [
            "active plain",
            "active extended",
            "passive plain",
            "passive extended",
        ] {
            let words = format!("{} {address} {mode}", client.display());
            let output = Runner::default()
                .output(from.command(DEBIAN_PYTHON, &words), LIMIT)
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.stdout, b"150000\n", "{mode} {address}: {said}");
        }
    }
}

#[test]
fn wrong_parameters_are_told_in_a_sentence() {
    let gateway = Gateway::new();
    for (words, expected) in [
        (
            "run ruoter",
            "there is neither a file nor a function ‘ruoter’; did you mean ‘router’?: `weir function` lists the \
             functions",
        ),
        (
            "run router -p net1_ip=10.1",
            "net1_ip=10.1: write an IPv4 address, as in 10.0.0.1",
        ),
        (
            "check firewall -p rules=/no/file",
            "/no/file: No such file or directory (os error 2)",
        ),
        (
            "function fierwall",
            "there is no function ‘fierwall’; did you mean ‘firewall’?: `weir function` lists all",
        ),
    ] {
        let weir = gateway.namespace.command(env!("CARGO_BIN_EXE_weir"), words);
        let output = Runner::default().output(weir, LIMIT).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert_eq!(said.trim(), format!("weir: {expected}"));
    }
}
