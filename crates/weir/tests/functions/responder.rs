//! The responder between Debian's DHCP client (udhcpc of busybox) and dig.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process};
use weir::lab::{Namespace, Runner};

use crate::common::{LIMIT, until};
use crate::gateway::{Gateway, Running, command, ping, reaches};

const ZONE: &str = "$ORIGIN office.test.
$TTL 120
@      SOA ns root (1 1h 10m 1d 60)
@      NS  ns
@      MX  10 mail
ns     A   10.0.0.1
www    A   10.0.0.80
www    A   10.0.0.81
www    AAAA 2001:db8::80
mail   CNAME www
note   TXT \"two words\" \"and more\"
$ORIGIN 0.0.10.in-addr.arpa.
@      SOA ns.office.test. root.office.test. 1 1h 10m 1d 60
80     PTR www.office.test.
";

/// What udhcpc calls: it keeps what the server said, and sets the address.
const SCRIPT: &str = "#!/bin/sh
env >\"$FOLDER/$1\"
[ \"$1\" = bound ] && ip addr replace \"$ip/$mask\" dev \"$interface\"
exit 0
";

/// A responder, and a host on its network.
struct Office {
    gateway: Gateway,
    host: Namespace,
    _running: Running,
}

impl Office {
    fn new(arguments: &[&str]) -> Office {
        let mut gateway = Gateway::new();
        let host = Namespace::new(&Runner::default()).unwrap();
        gateway.join("port", &host, "eth0");
        std::fs::create_dir_all(&gateway.run).unwrap();
        let zone = gateway.run.join("office.zone");
        std::fs::write(&zone, ZONE).unwrap();
        let script = gateway.run.join("script");
        std::fs::write(&script, SCRIPT).unwrap();
        let runner = Runner::default();
        let mut mode = std::process::Command::new("chmod");
        mode.arg("+x").arg(&script);
        runner.run(mode, LIMIT).unwrap();
        let records = format!("records={}", zone.display());
        let running = gateway.function("responder", &[&["-p", &records], arguments].concat());
        Office {
            gateway,
            host,
            _running: running,
        }
    }

    /// Runs udhcpc with further options; whether it got a lease.
    fn dhcp(&self, options: &str) -> bool {
        let folder = self.gateway.run.display();
        let words = format!("udhcpc -i eth0 -f -n -q -t 5 -T 1 -s {folder}/script {options}");
        let mut client = self.host.command("busybox", &words);
        client.env("FOLDER", &self.gateway.run);
        Runner::default()
            .output(client, LIMIT)
            .unwrap()
            .status
            .success()
    }

    /// What the server said when the client was `bound`, or in another state.
    fn said(&self, state: &str) -> HashMap<String, String> {
        let text = std::fs::read_to_string(self.gateway.run.join(state)).unwrap();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    fn dig(&self, words: &str) -> String {
        command(
            &self.host,
            "dig",
            &format!("+tries=2 +time=2 +ignore {words}"),
        )
    }

    fn read(&self, handler: &str) -> String {
        self.gateway
            .weir(&["read", "responder", handler])
            .trim()
            .into()
    }
}

#[test]
fn a_dhcp_client_gets_an_address() {
    let office = Office::new(&[
        "-p",
        "router=10.0.0.254",
        "-p",
        "dns=10.0.0.1 9.9.9.9",
        "-p",
        "domain=office.test",
        "-p",
        "mtu=1400",
        "-p",
        "lease=10",
    ]);
    assert!(office.dhcp(""));
    let said = office.said("bound");
    for (name, value) in [
        ("ip", "10.0.0.100"),
        ("mask", "24"),
        ("router", "10.0.0.254"),
        ("dns", "10.0.0.1 9.9.9.9"),
        ("domain", "office.test"),
        ("mtu", "1400"),
        ("lease", "10"),
        ("serverid", "10.0.0.1"),
    ] {
        assert_eq!(
            said.get(name).map(String::as_str),
            Some(value),
            "{name}: {said:?}"
        );
    }
    let leases = office.read("dhcp.leases");
    assert!(
        leases.starts_with("10.0.0.100 ") && leases.contains(" leased "),
        "{leases}"
    );
    // With it, the host reaches the responder; by IPv6 too.
    assert!(reaches(&office.host, "10.0.0.1"));
    let said = ping(&office.host, "-c 1 -W 2 -s 4000 10.0.0.1");
    assert!(said.contains("100% packet loss"), "{said}");
    command(
        &office.host,
        "sysctl",
        "-qw net.ipv6.conf.eth0.disable_ipv6=0",
    );
    command(&office.host, "ip", "addr add 2001:db8::7/64 dev eth0 nodad");
    assert!(reaches(&office.host, "2001:db8::1"));
    // The same client again, another one, and the address that one asks for.
    assert!(office.dhcp(""));
    assert_eq!(office.said("bound")["ip"], "10.0.0.100");
    assert!(office.dhcp("-x 0x3d:01020304"));
    assert_eq!(office.said("bound")["ip"], "10.0.0.101");
    assert!(office.dhcp("-x 0x3d:0a0b -r 10.0.0.150"));
    assert_eq!(office.said("bound")["ip"], "10.0.0.150");
    // All end.
    until("leases go on", || office.read("dhcp.count") == "0");
    assert_eq!(office.read("dhcp.invalid"), "0");
}

#[test]
fn a_dhcp_client_renews_its_lease_and_gives_it_back() {
    let office = Office::new(&["-p", "lease=10"]);
    let folder = office.gateway.run.display();
    let words = format!("udhcpc -i eth0 -f -R -s {folder}/script");
    let mut client = office.host.command("busybox", &words);
    let mut client = client.env("FOLDER", &office.gateway.run).spawn().unwrap();
    let renewed = std::panic::catch_unwind(|| {
        until("no address", || office.gateway.run.join("bound").exists());
        until("no renewal", || office.gateway.run.join("renew").exists());
    });
    let count = office.read("dhcp.count");
    kill_process(Pid::from_child(&client), Signal::TERM).unwrap();
    client.wait().unwrap();
    renewed.unwrap();
    assert_eq!(office.said("renew")["ip"], office.said("bound")["ip"]);
    // It renews its lease every 5 s until it is told to end.
    assert!(office.read("dhcp.acks").parse::<u32>().unwrap() >= 2);
    assert_eq!(count, "1");
    until("no release", || office.read("dhcp.releases") == "1");
    assert_eq!(office.read("dhcp.count"), "0");
}

#[test]
fn a_reservation_and_a_full_pool() {
    let mut gateway = Gateway::new();
    let host = Namespace::new(&Runner::default()).unwrap();
    gateway.join("port", &host, "eth0");
    let link = command(&host, "ip", "-br link show eth0");
    let mac = link.split_whitespace().nth(2).unwrap();
    drop(gateway);
    // One address for others, which another client has.
    let reservation = format!("reservations={mac} 10.0.0.7");
    let office = Office::new(&["-p", "pool=10.0.0.100-10.0.0.100", "-p", &reservation]);
    assert!(office.dhcp("-x 0x3d:01"));
    assert_eq!(office.said("bound")["ip"], "10.0.0.100");
    assert!(!office.dhcp("-x 0x3d:02"));
    assert_ne!(office.read("dhcp.exhausted"), "0");
    command(&office.host, "ip", &format!("link set eth0 address {mac}"));
    assert!(office.dhcp(""));
    assert_eq!(office.said("bound")["ip"], "10.0.0.7");
}

#[test]
fn names_are_resolved() {
    let office = Office::new(&["-p", "dhcp=drop"]);
    command(&office.host, "ip", "addr add 10.0.0.50/24 dev eth0");
    assert!(reaches(&office.host, "10.0.0.1"));
    for (question, answer) in [
        ("www.office.test A", "10.0.0.80\n10.0.0.81\n"),
        ("WWW.Office.Test AAAA", "2001:db8::80\n"),
        (
            "mail.office.test A",
            "www.office.test.\n10.0.0.80\n10.0.0.81\n",
        ),
        ("office.test MX", "10 mail.office.test.\n"),
        ("office.test NS", "ns.office.test.\n"),
        ("note.office.test TXT", "\"two words\" \"and more\"\n"),
        ("-x 10.0.0.80", "www.office.test.\n"),
    ] {
        assert_eq!(
            office.dig(&format!("@10.0.0.1 +short {question}")),
            answer,
            "{question}"
        );
    }
    for (question, expected) in [
        (
            "nowhere.office.test",
            &[
                "status: NXDOMAIN",
                "flags: qr aa rd;",
                "SOA\tns.office.test.",
            ][..],
        ),
        (
            "www.office.test TXT",
            &["status: NOERROR", "ANSWER: 0, AUTHORITY: 1"],
        ),
        (
            "example.org",
            &["status: REFUSED", "recursion requested but not available"],
        ),
        ("www.office.test A", &["EDNS: version: 0", "udp: 1232"]),
        ("+edns=1 +noednsneg www.office.test A", &["status: BADVERS"]),
        ("+opcode=2 www.office.test A", &["status: NOTIMP"]),
    ] {
        let said = office.dig(&format!("@10.0.0.1 {question}"));
        for part in expected {
            assert!(said.contains(part), "{question}: {said}");
        }
    }
    command(
        &office.host,
        "sysctl",
        "-qw net.ipv6.conf.eth0.disable_ipv6=0",
    );
    command(&office.host, "ip", "addr add 2001:db8::7/64 dev eth0 nodad");
    assert!(reaches(&office.host, "2001:db8::1"));
    let said = office.dig("@2001:db8::1 +short note.office.test TXT");
    assert_eq!(said, "\"two words\" \"and more\"\n");
    // Many records, as far as they fit.
    let many: String = (0..60)
        .map(|n| format!("many.office.test. A 10.1.0.{n}\n"))
        .collect();
    let zone = format!("office.test. SOA a. b. 1 1 1 1 1\n{many}");
    office
        .gateway
        .weir(&["write", "responder", "dns.records", &zone]);
    for (options, cut) in [
        ("+noedns", true),
        ("+bufsize=512", true),
        ("+bufsize=1232", false),
    ] {
        let said = office.dig(&format!("@10.0.0.1 {options} many.office.test"));
        assert_eq!(said.contains("flags: qr aa tc rd;"), cut, "{said}");
        assert_eq!(said.contains("ANSWER: 60"), !cut, "{said}");
    }
    assert_eq!(office.read("dns.truncated"), "2");
    assert_eq!(
        (office.read("dns.malformed"), office.read("dns.drops")),
        ("0".into(), "0".into())
    );
    // DHCP is off.
    assert!(!office.dhcp(""));
}

#[test]
fn wrong_records_are_told_with_their_line() {
    let gateway = Gateway::new();
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("bad.zone");
    std::fs::write(&file, "a. SOA a. a. 1 1 1 1 1\nwww.a. A 10.0.0\n").unwrap();
    let file = file.display();
    let words = format!("check responder -p records={file}");
    let output = Runner::default()
        .output(
            gateway
                .namespace
                .command(env!("CARGO_BIN_EXE_weir"), &words),
            LIMIT,
        )
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("weir: {file}:2: ‘10.0.0’ is no IPv4 address, as in 10.0.0.80\n");
    assert_eq!(said, expected);
}
