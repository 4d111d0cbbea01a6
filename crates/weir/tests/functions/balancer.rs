//! The balancer between curl and wrk on one side and nginx on several servers on the other.

use std::process::{Child, Stdio};

use weir::lab::{Namespace, Runner, Service};

use crate::common::{LIMIT, until};
use crate::gateway::{Gateway, Running, command, give6, plug, reaches};

/// Servers 1 to 3, and what they serve; server 4 is started by the test that needs it.
const SERVERS: usize = 4;
const LARGE: usize = 3 << 20;

/// A balancer with clients on one switch, and servers on another, which have an interface on the first
/// too, for direct replies.
struct Farm {
    gateway: Gateway,
    clients: Namespace,
    /// The switch of servers.
    _rack: Namespace,
    servers: Vec<Namespace>,
    web: Vec<Option<Service>>,
    _running: Running,
}

impl Farm {
    fn new(direct: bool, arguments: &[&str]) -> Farm {
        let mut gateway = Gateway::new();
        let clients = gateway.switch("outside");
        let rack = gateway.switch("servers");
        command(&clients, "ip", "addr add 203.0.113.1/24 dev br0");
        command(&clients, "sysctl", "-qw net.ipv6.conf.br0.disable_ipv6=0");
        command(&clients, "ip", "addr add 2001:db8::1/64 dev br0 nodad");
        std::fs::create_dir_all(&gateway.run).unwrap();
        std::fs::write(gateway.run.join("large"), vec![b'x'; LARGE]).unwrap();
        let mut servers = Vec::new();
        for number in 1..=SERVERS {
            let server = Namespace::new(&Runner::default()).unwrap();
            let address = format!("10.0.0.{}/24", 10 + number);
            plug(&rack, &format!("s{number}"), &server, "eth0", &address);
            give6(&server, &format!("{}/64", address6(number)));
            if direct {
                for setting in ["arp_ignore=1", "arp_announce=2", "rp_filter=0"] {
                    command(
                        &server,
                        "sysctl",
                        &format!("-qw net.ipv4.conf.all.{setting}"),
                    );
                }
                let address = format!("203.0.113.{}/24", 20 + number);
                plug(&clients, &format!("d{number}"), &server, "eth1", &address);
                command(&server, "ip", "addr add 203.0.113.10/32 dev lo");
                let address = format!("addr add 2001:db8::{}/64 dev eth1 nodad", 20 + number);
                command(&server, "ip", &address);
                command(&server, "ip", "addr add 2001:db8::10/128 dev lo");
            } else {
                command(&server, "ip", "route add default via 10.0.0.1");
                command(&server, "ip", "route add default via 2001:db8:1::1");
            }
            servers.push(server);
        }
        let given = (1..=3).map(|number| format!("10.0.0.{},{}", 10 + number, address6(number)));
        let given = format!("servers={}", given.collect::<Vec<_>>().join(","));
        let arguments = [&["-p", &given, "-p", "check_interval=1"], arguments].concat();
        let running = gateway.function("balancer", &arguments);
        let mut farm = Farm {
            gateway,
            clients,
            _rack: rack,
            servers,
            web: (0..SERVERS).map(|_| None).collect(),
            _running: running,
        };
        for number in 1..=SERVERS {
            farm.serve(number);
        }
        assert!(reaches(&farm.clients, "203.0.113.10"));
        until("no page", || {
            farm.page().is_some() && farm.page6().is_some()
        });
        farm
    }

    /// Starts nginx on a server.
    fn serve(&mut self, number: usize) {
        let folder = self.gateway.run.display();
        let file = self.gateway.run.join(format!("nginx{number}.conf"));
        let text = format!(
            "daemon off; master_process off; user root; pid {folder}/nginx{number}.pid;
             error_log {folder}/nginx{number}.log;
             events {{}}
             http {{
                access_log off;
                server {{
                    listen 80;
                    listen [::]:80 ipv6only=on;
                    location = / {{ return 200 'server {number}'; }}
                    location = /large {{ root {folder}; limit_rate 400k; }}
                }}
             }}"
        );
        std::fs::write(&file, text).unwrap();
        let words = format!("-c {}", file.display());
        let server = &self.servers[number - 1];
        self.web[number - 1] = Some(server.service("nginx", &words).unwrap());
    }

    /// The number of the server that answers a client's new connection.
    fn page(&self) -> Option<usize> {
        self.page_of("203.0.113.10")
    }

    /// The same over IPv6.
    fn page6(&self) -> Option<usize> {
        self.page_of("[2001:db8::10]")
    }

    fn page_of(&self, service: &str) -> Option<usize> {
        let words = format!("-g -s -m 5 http://{service}/");
        let fetch = self.clients.command("curl", &words);
        let output = Runner::default().output(fetch, LIMIT).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.strip_prefix("server ")?.parse().ok()
    }

    /// The servers that answer so many connections.
    fn answering(&self, connections: usize) -> Vec<usize> {
        Farm::all(connections, || self.page())
    }

    /// The same over IPv6.
    fn answering6(&self, connections: usize) -> Vec<usize> {
        Farm::all(connections, || self.page6())
    }

    fn all(connections: usize, mut page: impl FnMut() -> Option<usize>) -> Vec<usize> {
        let mut numbers: Vec<_> = (0..connections).filter_map(|_| page()).collect();
        assert_eq!(numbers.len(), connections, "{numbers:?}");
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// What the balancer says of a server, by words.
    fn server(&self, number: usize) -> Vec<String> {
        self.line(&format!("10.0.0.{}", 10 + number))
    }

    /// What it says of the server's IPv6 address.
    fn server6(&self, number: usize) -> Vec<String> {
        self.line(&address6(number))
    }

    fn line(&self, server: &str) -> Vec<String> {
        let said = self.gateway.weir(&["read", "balancer", "balancer.servers"]);
        let begins = format!("{server} ");
        let line = said.lines().find(|line| line.starts_with(&begins));
        let line = line.unwrap_or_default();
        line.split(' ').map(String::from).collect()
    }

    /// Begins to fetch the large file; it takes some 7 s.
    fn fetch(&self) -> Child {
        self.fetch_of("203.0.113.10")
    }

    /// The same over IPv6.
    fn fetch6(&self) -> Child {
        self.fetch_of("[2001:db8::10]")
    }

    fn fetch_of(&self, service: &str) -> Child {
        // One that stands still for six seconds has failed.
        let words = format!(
            "-g -s -m 60 -y 6 -Y 1 -o /dev/null -w %{{size_download}} http://{service}/large"
        );
        let mut curl = self.clients.command("curl", &words);
        curl.stdout(Stdio::piped()).spawn().unwrap()
    }
}

/// A server's IPv6 address.
fn address6(number: usize) -> String {
    format!("2001:db8:1::{}", 10 + number)
}

/// Whether the whole file came.
fn is_whole(fetch: Child) -> bool {
    let output = fetch.wait_with_output().unwrap();
    output.status.success() && output.stdout == LARGE.to_string().as_bytes()
}

#[test]
fn the_balancer_distributes_connections_and_servers_come_and_go() {
    let farm = Farm::new(false, &[]);
    assert_eq!(farm.answering(40), [1, 2, 3]);
    assert!(reaches(&farm.servers[0], "10.0.0.1"));
    // Under load, no connection fails.
    let wrk = farm
        .clients
        .command("wrk", "-t 1 -c 30 -d 2 http://203.0.113.10/");
    let said = Runner::default().run(wrk, LIMIT).unwrap();
    let served = said.contains("requests in") && !said.contains("Socket errors");
    assert!(served && !said.contains("Non-2xx"), "{said}");
    // A server more, one drained, one removed; a download from the drained one goes on.
    farm.gateway
        .weir(&["write", "balancer", "connections.clear", ""]);
    let downloads: Vec<_> = (0..12).map(|_| farm.fetch()).collect();
    until("no downloads", || {
        let has = |number| farm.server(number)[3].parse::<u32>().unwrap() > 0;
        (1..=3).all(has)
    });
    farm.gateway
        .weir(&["write", "balancer", "balancer.add", "10.0.0.14"]);
    farm.gateway
        .weir(&["write", "balancer", "balancer.drain", "10.0.0.11"]);
    assert_eq!(farm.server(1)[1], "draining");
    assert_eq!(farm.answering(40), [2, 3, 4]);
    assert!(downloads.into_iter().all(is_whole));
    farm.gateway
        .weir(&["write", "balancer", "balancer.remove", "10.0.0.12"]);
    farm.gateway
        .weir(&["write", "balancer", "balancer.add", "10.0.0.11 3"]);
    assert_eq!(farm.answering(40), [1, 3, 4]);
}

#[test]
fn a_server_killed_under_load_loses_only_its_own_connections() {
    let mut farm = Farm::new(false, &["-p", "fall=2", "-p", "check=http"]);
    let count = |farm: &Farm, number: usize| farm.server(number)[2 + 1].parse::<usize>().unwrap();
    farm.gateway
        .weir(&["write", "balancer", "connections.clear", ""]);
    let downloads: Vec<_> = (0..24).map(|_| farm.fetch()).collect();
    until("no downloads", || {
        (1..=3).map(|number| count(&farm, number)).sum::<usize>() >= 24
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    let own = count(&farm, 2);
    assert!(own > 0);
    // The machine is gone at once, and says nothing more.
    command(&farm.servers[1], "ip", "link set eth0 down");
    until("the server is not missed", || farm.server(2)[1] == "down");
    assert_eq!(farm.answering(30), [1, 3]);
    let whole = downloads
        .into_iter()
        .map(is_whole)
        .filter(|whole| *whole)
        .count();
    assert_eq!(
        whole,
        24 - own,
        "{own} connections were those of the server"
    );
    let table = farm.gateway.weir(&["read", "balancer", "health.table"]);
    assert!(
        table.contains("10.0.0.12:80 down no answer in time"),
        "{table}"
    );
    // It comes back.
    command(&farm.servers[1], "ip", "link set eth0 up");
    command(&farm.servers[1], "ip", "route add default via 10.0.0.1");
    until("the server stays down", || farm.server(2)[1] == "up");
    assert_eq!(farm.answering(40), [1, 2, 3]);
    // One that refuses connections is down too.
    farm.web[2] = None;
    until("the server is not missed", || farm.server(3)[1] == "down");
    assert_eq!(farm.answering(30), [1, 2]);
}

#[test]
fn servers_reply_directly() {
    let farm = Farm::new(true, &["-p", "mode=direct", "-p", "fall=2"]);
    assert_eq!(farm.answering(40), [1, 2, 3]);
    // More than a packet, and none of it by the balancer.
    let downloads: Vec<_> = (0..4).map(|_| farm.fetch()).collect();
    assert!(downloads.into_iter().all(is_whole));
    let table = farm
        .gateway
        .weir(&["read", "balancer", "connections.table"]);
    assert!(table.contains("6 fin (203.0.113.1, "), "{table}");
    assert_eq!(farm.answering6(40), [1, 2, 3]);
    let downloads: Vec<_> = (0..4).map(|_| farm.fetch6()).collect();
    assert!(downloads.into_iter().all(is_whole));
    let table = farm
        .gateway
        .weir(&["read", "balancer", "connections.table"]);
    assert!(table.contains("6 fin (2001:db8::1, "), "{table}");
    // Clients of a server that is gone, and says nothing, are told.
    farm.gateway
        .weir(&["write", "balancer", "connections.clear", ""]);
    let downloads: Vec<_> = (0..12).map(|_| farm.fetch()).collect();
    let own = || farm.server(2)[3].parse::<usize>().unwrap();
    until("no downloads", || own() > 0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let lost = own();
    command(&farm.servers[1], "ip", "link set eth0 down");
    until("the server is not missed", || farm.server(2)[1] == "down");
    let ends = downloads
        .into_iter()
        .map(|mut fetch| fetch.wait().unwrap().code());
    // Curl's 56: the connection was reset.
    let (whole, reset): (Vec<_>, Vec<_>) = ends.partition(|code| *code == Some(0));
    assert_eq!((whole.len(), reset), (12 - lost, vec![Some(56); lost]));
}

#[test]
fn connections_over_ipv6_are_distributed_and_servers_are_checked() {
    let mut farm = Farm::new(false, &["-p", "fall=2", "-p", "check=http"]);
    assert_eq!(farm.answering6(40), [1, 2, 3]);
    assert!(reaches(&farm.clients, "2001:db8::10"));
    assert!(reaches(&farm.servers[0], "2001:db8:1::1"));
    // A page of many segments comes whole, beside others.
    let downloads: Vec<_> = (0..6).map(|_| farm.fetch6()).collect();
    farm.gateway
        .weir(&["write", "balancer", "balancer.drain", &address6(1)]);
    assert_eq!(farm.answering6(30), [2, 3]);
    assert!(downloads.into_iter().all(is_whole));
    // A client that only waits learns that its server is gone.
    farm.gateway
        .weir(&["write", "balancer", "connections.clear", ""]);
    let mut slow = farm.fetch6();
    until("no download", || {
        farm.server6(2)[3] != "0" || farm.server6(3)[3] != "0"
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    let number = if farm.server6(2)[3] != "0" { 2 } else { 3 };
    farm.gateway
        .weir(&["write", "balancer", "balancer.remove", &address6(number)]);
    let begun = std::time::Instant::now();
    assert!(!slow.wait().unwrap().success());
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
    farm.gateway
        .weir(&["write", "balancer", "balancer.add", &address6(number)]);
    // A server of both versions that refuses connections is down for both.
    farm.web[2] = None;
    until("the server is not missed", || {
        farm.server6(3)[1] == "down" && farm.server(3)[1] == "down"
    });
    assert_eq!(
        (farm.answering6(20), farm.answering(30)),
        (vec![2], vec![1, 2])
    );
    let table = farm.gateway.weir(&["read", "balancer", "health.table"]);
    let down = format!("[{}]:80 down connection refused", address6(3));
    assert!(table.contains(&down), "{table}");
    // Without a server, clients are told at once.
    farm.gateway
        .weir(&["write", "balancer", "balancer.remove", &address6(2)]);
    assert_eq!(farm.page6(), None);
    let fetch = "-g -s -S -m 5 http://[2001:db8::10]/";
    let fetch = farm.clients.command("curl", fetch);
    let output = Runner::default().output(fetch, LIMIT).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && !said.contains("timed out"),
        "{said}"
    );
}
