//! The defence between curl and nginx, while another guest floods it.

use weir::lab::{Namespace, Runner, Service};

use crate::common::{LIMIT, until};
use crate::gateway::{Gateway, Running, command, connect, give6, ping, plug, reaches};

const PAGE: usize = 2 << 20;
/// What the flood has as sources; the client is not among them.
const FLOOD: &str = "198.18.0.0/16";
/// The same over IPv6.
const FLOOD6: &str = "2001:db8:5::/112";
const SERVER6: &str = "2001:db8::2";

/// A street with a client on one side of the defence, and a server with nginx on the other.
struct Street {
    gateway: Gateway,
    street: Namespace,
    client: Namespace,
    server: Namespace,
    page: Vec<u8>,
    _web: Service,
    _running: Running,
}

impl Street {
    fn new(arguments: &[&str]) -> Street {
        let mut gateway = Gateway::new();
        let street = gateway.switch("outside");
        let client = Namespace::new(&Runner::default()).unwrap();
        plug(&street, "client", &client, "eth0", "10.0.0.1/24");
        give6(&client, "2001:db8::1/64");
        let server = gateway.host("inside", "10.0.0.2/24", None);
        give6(&server, "2001:db8::2/64");
        std::fs::create_dir_all(&gateway.run).unwrap();
        let page: Vec<u8> = (0..PAGE).map(|at| (at * 7 / 5) as u8).collect();
        std::fs::write(gateway.run.join("page"), &page).unwrap();
        let folder = gateway.run.display();
        let file = gateway.run.join("nginx.conf");
        let text = format!(
            "daemon off; master_process off; user root; pid {folder}/nginx.pid;
             error_log {folder}/nginx.log;
             events {{}}
             http {{ access_log off; server {{ listen 80; listen [::]:80 ipv6only=on; location / {{ root {folder}; }} }} }}"
        );
        std::fs::write(&file, text).unwrap();
        let web = server
            .service("nginx", &format!("-c {}", file.display()))
            .unwrap();
        // What the server sees of the flood, and of the client.
        for rule in [
            "add table inet t",
            "add chain inet t in { type filter hook prerouting priority 0 ; }",
            &format!("add rule inet t in ip saddr {FLOOD} counter"),
            "add rule inet t in ip saddr 10.0.0.1 tcp flags syn / syn,ack counter",
            &format!("add rule inet t in ip6 saddr {FLOOD6} counter"),
            "add rule inet t in ip6 saddr 2001:db8::1 tcp flags syn / syn,ack counter",
        ] {
            command(&server, "nft", rule);
        }
        let running = gateway.function("ddos", arguments);
        assert!(reaches(&client, "10.0.0.2"));
        Street {
            gateway,
            street,
            client,
            server,
            page,
            _web: web,
            _running: running,
        }
    }

    /// Whether curl gets the page, whole.
    fn fetch(&self) -> bool {
        self.fetch_from("10.0.0.2")
    }

    fn fetch_from(&self, server: &str) -> bool {
        let file = self.gateway.run.join("fetched");
        let words = format!("-g -s -m 20 -o {} http://{server}/page", file.display());
        let curl = self.client.command("curl", &words);
        let output = Runner::default().output(curl, LIMIT).unwrap();
        output.status.success() && std::fs::read(&file).unwrap() == self.page
    }

    /// Packets of the flood, and SYNs of the client, that the server saw; and those over IPv6.
    fn seen(&self) -> [u64; 4] {
        let said = command(&self.server, "nft", "list chain inet t in");
        let counts = said
            .lines()
            .filter_map(|line| line.split_once("counter packets "));
        let counts = counts.map(|(_, rest)| rest.split(' ').next().unwrap().parse().unwrap());
        counts.collect::<Vec<_>>().try_into().unwrap()
    }

    fn number(&self, handler: &str) -> u64 {
        let said = self.gateway.weir(&["read", "ddos", handler]);
        said.trim().parse().unwrap()
    }

    /// Starts a flood of `to` by the function `generator`, for at most 20 s.
    fn flood(&self, to: &str, arguments: &[&str]) -> (Gateway, Running) {
        let mut flooder = Gateway::new();
        flooder.join("port", &self.street, "flood");
        command(&self.street, "ip", "link set flood master br0");
        let link = command(&self.server, "ip", "-br link show eth0");
        let ether = format!("to_ether={}", link.split_whitespace().nth(2).unwrap());
        let common = [
            "-p",
            &ether,
            "-p",
            &format!("to={to}"),
            "-p",
            "to_port=80",
            "-p",
            "count=400000",
            "-p",
            "seconds=20",
        ];
        let running = flooder.function("generator", &[&common, arguments].concat());
        (flooder, running)
    }
}

/// The pages of a client, while the server is flooded with SYNs of made-up sources.
fn flood_of_syns(sources: &str, server: &str, url: &str) -> [u64; 4] {
    // Those over IPv6 are of one network, which counts as one.
    let street = Street::new(&["-p", "syn_rate=100000"]);
    assert!(street.fetch_from(url));
    let from = format!("from={sources}");
    let kind = ["-p", "protocol=tcp", "-p", "syn=true", "-p", "rate=20k"];
    let sources = ["-p", &from, "-p", "flows=65536"];
    let _flood = street.flood(server, &[&kind[..], &sources].concat());
    until("no flood", || street.number("proxy.cookies") > 10_000);
    let fetched = (0..20).filter(|_| street.fetch_from(url)).count();
    assert_eq!(fetched, 20);
    let cookies = street.number("proxy.cookies");
    until("the flood ended", || {
        street.number("proxy.cookies") > cookies
    });
    assert_eq!(street.number("proxy.opened"), 21);
    assert!(street.number("proxy.count") <= 21);
    assert_eq!(street.number("syns.drops"), 0);
    street.seen()
}

// A connection for each page, and nothing of the flood, of which nothing is kept. A server that answers late gets a
// SYN twice.

#[test]
fn a_flood_of_syns_harms_no_client() {
    let [flood, syns, ..] = flood_of_syns(FLOOD, "10.0.0.2", "10.0.0.2");
    assert_eq!(flood, 0);
    assert!((21..42).contains(&syns), "{syns}");
}

#[test]
fn a_flood_of_syns_over_ip6_harms_no_client() {
    let [_, _, flood, syns] = flood_of_syns(FLOOD6, SERVER6, "[2001:db8::2]");
    assert_eq!(flood, 0);
    assert!((21..42).contains(&syns), "{syns}");
}

#[test]
fn sources_have_limits() {
    let street = Street::new(&["-p", "udp_rate=50", "-p", "icmp_rate=5", "-p", "syn_rate=5"]);
    // 125 packets a second from each of 8 sources.
    let rate = ["-p", "rate=1000"];
    let sources = ["-p", "from=198.18.0.0/29", "-p", "flows=8"];
    let _flood = street.flood("10.0.0.2", &[&rate[..], &sources].concat());
    until("no flood", || street.number("udp.drops") > 500);
    let (passed, dropped) = (street.number("udp.count"), street.number("udp.drops"));
    assert!(passed > 0 && passed < dropped * 2, "{passed} {dropped}");
    assert!(street.fetch());
    // A client that floods is limited, and others are not.
    let said = ping(&street.client, "-c 40 -i 0.01 -W 1 10.0.0.2");
    assert!(street.number("icmp.drops") > 20, "{said}");
    command(&street.client, "ip", "addr add 10.0.0.3/24 dev eth0");
    let said = ping(&street.client, "-c 1 -W 2 -I 10.0.0.3 10.0.0.2");
    assert!(said.contains(" 0% packet loss"), "{said}");
    let level = street.number("icmp.level 10.0.0.3");
    assert!(level <= 1, "{level}");
    // Over IPv6, a network is a source.
    assert!(street.fetch_from("[2001:db8::2]"));
    let before = street.number("icmp.drops");
    let said = ping(&street.client, "-c 40 -i 0.01 -W 1 2001:db8::2");
    assert!(street.number("icmp.drops") > before + 20, "{said}");
    command(
        &street.client,
        "ip",
        "addr add 2001:db8:9::1/64 dev eth0 nodad",
    );
    command(&street.server, "ip", "route add 2001:db8:9::/64 dev eth0");
    let said = ping(&street.client, "-c 1 -W 2 -I 2001:db8:9::1 2001:db8::2");
    assert!(said.contains(" 0% packet loss"), "{said}");
    let level = street.number("icmp.level 2001:db8:9::ffff");
    assert!(level <= 1, "{level}");
}

#[test]
fn the_allow_list_and_the_servers_own_connections_pass() {
    let street = Street::new(&["-p", "allow=10.0.0.1", "-p", "icmp_rate=1"]);
    assert!(street.fetch());
    let said = ping(&street.client, "-c 20 -i 0.01 -W 1 10.0.0.2");
    assert!(said.contains(" 0% packet loss"), "{said}");
    assert_eq!(street.number("proxy.cookies"), 0);
    let street = Street::new(&[]);
    assert!(connect(&street.server, "10.0.0.1:25", &street.client, "0.0.0.0:25").is_some());
    assert!(
        connect(
            &street.server,
            "[2001:db8::1]:26",
            &street.client,
            "[::]:26"
        )
        .is_some()
    );
    assert_eq!(
        (
            street.number("proxy.passed"),
            street.number("proxy.cookies")
        ),
        (2, 0)
    );
}

#[test]
fn a_router_that_is_allowed_tells_servers_of_a_smaller_mtu() {
    let street = Street::new(&["-p", "allow=10.0.0.1"]);
    let far = Namespace::new(&Runner::default()).unwrap();
    let link = format!(
        "link add far0 mtu 1300 type veth peer name eth0 netns {}",
        far.pid()
    );
    command(&street.client, "ip", &link);
    command(&street.client, "ip", "addr add 10.7.0.1/24 dev far0");
    command(&street.client, "ip", "link set far0 up");
    command(&street.client, "sysctl", "-qw net.ipv4.ip_forward=1");
    // Its segments are told to be longer than the path takes.
    command(&far, "ip", "link set eth0 mtu 1500 up");
    command(&far, "ip", "addr add 10.7.0.2/24 dev eth0");
    command(&far, "ip", "route add default via 10.7.0.1");
    command(&street.server, "ip", "route add 10.7.0.0/24 via 10.0.0.1");
    let file = street.gateway.run.join("fetched");
    let words = format!("-s -m 20 -o {} http://10.0.0.2/page", file.display());
    let output = Runner::default().output(far.command("curl", &words), LIMIT);
    assert!(output.unwrap().status.success());
    assert_eq!(std::fs::read(&file).unwrap(), street.page);
    assert_eq!(street.number("proxy.opened"), 1);
    let route = command(&street.server, "ip", "route get 10.7.0.2");
    assert!(route.contains("mtu 1300"), "{route}");
}

#[test]
fn clients_and_servers_of_all_kinds_understand_each_other() {
    for (client, server, arguments) in [
        ("tcp_timestamps=0", "tcp_timestamps=1", &[][..]),
        (
            "tcp_sack=0",
            "tcp_sack=0",
            &["-p", "scale=2", "-p", "sack=false"],
        ),
        (
            "tcp_window_scaling=0",
            "tcp_timestamps=1",
            &["-p", "mss=1400"],
        ),
        (
            "tcp_timestamps=1",
            "tcp_window_scaling=0",
            &["-p", "scale=9"],
        ),
        (
            "tcp_timestamps=1",
            "tcp_timestamps=0",
            &["-p", "timestamps=false"],
        ),
    ] {
        let street = Street::new(arguments);
        command(&street.client, "sysctl", &format!("-qw net.ipv4.{client}"));
        command(&street.server, "sysctl", &format!("-qw net.ipv4.{server}"));
        assert!(street.fetch(), "{client} {server}");
        assert!(street.fetch_from("[2001:db8::2]"), "{client} {server}");
        // Data there and back, and a port that no one listens on.
        let there = connect(&street.client, "10.0.0.2:81", &street.server, "0.0.0.0:81");
        assert!(there.is_some(), "{client} {server}");
        let curl = street.client.command("curl", "-s -m 5 http://10.0.0.2:82/");
        let output = Runner::default().output(curl, LIMIT).unwrap();
        assert!(!output.status.success());
        until("no refusal", || street.number("proxy.refused") == 1);
        assert_eq!(street.number("proxy.mismatches"), 0);
    }
    // A server without the timestamps that clients were told.
    let street = Street::new(&[]);
    command(&street.server, "sysctl", "-qw net.ipv4.tcp_timestamps=0");
    assert!(!street.fetch());
    assert_ne!(street.number("proxy.mismatches"), 0);
}
