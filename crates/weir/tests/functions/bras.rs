//! The BRAS between subscribers and a server: with a client of PPPoE in user space where the kernel has no
//! PPP, and Debian's pppd and pppoe where it has; with FreeRADIUS.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use weir::lab::{Namespace, Runner, Service};

use crate::common::until;
use crate::gateway::{Gateway, Running, command, connect, is_cut_off, reaches};

const USERS: &str = "# name secret address\nann secret\nbob hidden 100.64.0.7\n";

/// A BRAS with a host of subscribers and a server outside.
struct Access {
    gateway: Gateway,
    subscriber: Namespace,
    outside: Namespace,
    _running: Running,
}

/// A BRAS with users of its own.
fn access(arguments: &[&str]) -> Access {
    let mut gateway = Gateway::new();
    let subscriber = Namespace::new(&Runner::default()).unwrap();
    gateway.join("subscribers", &subscriber, "eth0");
    let outside = gateway.host("outside", "203.0.113.1/24", None);
    command(&outside, "ip", "route add 100.64.0.0/22 via 203.0.113.2");
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("users");
    std::fs::write(&file, USERS).unwrap();
    let users = format!("users={}", file.display());
    let running = gateway.function("bras", &[&["-p", &users], arguments].concat());
    assert!(reaches(&outside, "203.0.113.2"));
    Access {
        gateway,
        subscriber,
        outside,
        _running: running,
    }
}

impl Access {
    fn read(&self, handler: &str) -> String {
        let said = self.gateway.weir(&["read", "bras", handler]);
        said.trim().to_string()
    }

    /// The words of the only session's line.
    fn session(&self) -> Vec<String> {
        let lines = self.read("bras.sessions");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        lines.split(' ').map(String::from).collect()
    }
}

/// A client in user space.
struct Client {
    child: Child,
    out: BufReader<ChildStdout>,
    commands: ChildStdin,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    fn new(host: &Namespace, arguments: &str) -> Client {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functions/pppoe_client.py");
        let mut command = host.command("python3", "");
        command.arg(script).args(arguments.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let commands = child.stdin.take().unwrap();
        Client {
            child,
            out,
            commands,
        }
    }

    /// The words of the next line that it says.
    fn says(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.split_whitespace().map(String::from).collect()
    }

    fn order(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }
}

#[test]
fn subscribers_come_in_by_chap_and_by_pap() {
    for (method, user, password, address) in [
        ("chap", "ann", "secret", None),
        ("pap", "bob", "hidden", Some("100.64.0.7")),
    ] {
        let bras = access(&[
            "-p",
            "name=bras1",
            "-p",
            "dns=9.9.9.9 1.1.1.1",
            "-p",
            "mtu=1400",
        ]);
        let (subscriber, outside) = (&bras.subscriber, &bras.outside);
        let options = format!("--method {method} --user {user} --password {password}");
        let mut client = Client::new(subscriber, &options);
        assert_eq!(client.says(), ["offer", "bras1"]);
        let up = client.says();
        assert_eq!(up[0], "up", "{up:?}");
        assert_eq!(up[2..], ["100.64.0.1", &up[3], "9.9.9.9", "1.1.1.1"]);
        assert!(address.is_none_or(|address| address == up[1]), "{up:?}");
        for address in ["100.64.0.1", "203.0.113.2", "203.0.113.1"] {
            assert!(reaches(subscriber, address), "{address}");
        }
        assert!(reaches(outside, &up[1]));
        // Packets that are too long for a session are told so, both ways.
        let (seen, _) = connect(subscriber, "203.0.113.1:80", outside, "0.0.0.0:80").unwrap();
        assert_eq!(seen.to_string(), up[1]);
        let fetched = fetch(subscriber, outside);
        assert_eq!(fetched, 300_000);
        let session = bras.session();
        assert_eq!(session[..1], up[3..4]);
        assert_eq!(session[2..5], [user, &up[1], "up"]);
        assert!(session[7].parse::<u64>().unwrap() > 300_000, "{session:?}");
        assert!(session[9].parse::<u64>().unwrap() > 600_000, "{session:?}");
        client.order("spoof 100.64.0.99");
        until("no spoofed packet is seen", || {
            bras.read("bras.spoofed") == "1"
        });
        assert_eq!(bras.read("bras.count"), "1");
        bras.gateway
            .weir(&["write", "bras", "bras.terminate", &up[3]]);
        assert_eq!(client.says(), ["down"]);
        assert_eq!(bras.read("bras.count"), "0");
        assert!(is_cut_off(outside, &up[1]));
    }
}

/// Bytes that curl fetches from a server outside.
fn fetch(subscriber: &Namespace, outside: &Namespace) -> usize {
    let folder = std::env::temp_dir().join(format!("weir-bras-{}", outside.pid()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("file"), vec![b'x'; 300_000]).unwrap();
    let serve = format!("-m http.server 8080 --directory {}", folder.display());
    let _server = outside.service("python3", &serve).unwrap();
    let mut fetched = String::new();
    until("the server does not listen", || {
        let curl = subscriber.command(
            "curl",
            "-s -m 5 -o /dev/null -w %{size_download} http://203.0.113.1:8080/file",
        );
        let output = Runner::default()
            .output(curl, Duration::from_secs(8))
            .unwrap();
        fetched = String::from_utf8_lossy(&output.stdout).into_owned();
        fetched.trim() != "0"
    });
    std::fs::remove_dir_all(&folder).unwrap();
    fetched.trim().parse().unwrap()
}

#[test]
fn subscribers_have_ipv6() {
    let bras = access(&["-p", "ip6=true", "-p", "mtu=1400"]);
    let (subscriber, outside) = (&bras.subscriber, &bras.outside);
    command(outside, "sysctl", "-qw net.ipv6.conf.eth0.disable_ipv6=0");
    command(outside, "ip", "addr add 2001:db8:1::1/64 dev eth0 nodad");
    command(
        outside,
        "ip",
        "-6 route add 2001:db8:100::/48 via 2001:db8:1::2",
    );
    let mut client = Client::new(subscriber, "--ipv6");
    assert_eq!(client.says()[0], "offer");
    let up = client.says();
    let ipv6 = client.says();
    assert!(ipv6[1].starts_with("2001:db8:100:"), "{up:?} {ipv6:?}");
    for address in ["2001:db8:1::2", "2001:db8:1::1", "203.0.113.1"] {
        assert!(reaches(subscriber, address), "{address}");
    }
    assert!(reaches(outside, &ipv6[1]));
    let (seen, _) = connect(subscriber, "[2001:db8:1::1]:80", outside, "[::]:80").unwrap();
    assert_eq!(seen.to_string(), ipv6[1]);
    // Another session's prefix, and none.
    let strange = ["2001:db8:100:9::1", "2001:db8:7::1"];
    for address in strange {
        command(
            subscriber,
            "ip",
            &format!("addr add {address}/128 dev ppp0 nodad"),
        );
        assert!(is_cut_off(
            subscriber,
            &format!("-I {address} 2001:db8:1::1")
        ));
    }
    assert!(bras.read("bras.spoofed").parse::<u32>().unwrap() >= 4);
    assert!(is_cut_off(outside, "2001:db8:100:9::1"));
}

#[test]
fn a_subscriber_ends_its_session_and_comes_again() {
    let bras = access(&["-p", "auth=chap"]);
    for _ in 0..3 {
        let mut client = Client::new(&bras.subscriber, "");
        assert_eq!(client.says()[0], "offer");
        assert_eq!(client.says()[0], "up");
        client.order("terminate");
        assert_eq!(client.says(), ["ended"]);
        until("the session is there", || bras.read("bras.count") == "0");
    }
    // One that vanishes: the next one takes its place.
    let mut first = Client::new(&bras.subscriber, "");
    first.says();
    let up = first.says();
    drop(first);
    let mut second = Client::new(&bras.subscriber, "");
    second.says();
    assert_ne!(second.says()[3], up[3]);
    assert_eq!(bras.read("bras.count"), "1");
    drop(second);
}

#[test]
fn ten_thousand_sessions_fit() {
    let sessions = ["-p", "sessions=10000", "-p", "pool=100.64.0.0/18"];
    let bras = access(&[&sessions[..], &["--memory", "32M"]].concat());
    let mut client = Client::new(&bras.subscriber, "");
    assert_eq!(client.says()[0], "offer");
    assert_eq!(client.says()[0], "up");
    assert_eq!(bras.read("bras.capacity"), "10000");
}

#[test]
fn strangers_are_turned_away() {
    let bras = access(&["-p", "auth=chap", "-p", "services=isp"]);
    let mut client = Client::new(&bras.subscriber, "--password wrong --service isp");
    assert_eq!(client.says()[0], "offer");
    assert_eq!(client.says()[..2], ["refused", "the"]);
    assert_eq!(client.says(), ["down"]);
    // CHAP alone is accepted.
    let mut client = Client::new(&bras.subscriber, "--method pap");
    assert_eq!(client.says()[0], "offer");
    assert_eq!(client.says(), ["down"]);
    let mut client = Client::new(&bras.subscriber, "--service other");
    assert_eq!(client.says(), ["silence"]);
    assert_eq!(bras.read("bras.accepted"), "0");
}

#[test]
fn a_wrong_file_of_users_is_told_with_its_line() {
    let mut gateway = Gateway::new();
    let _subscriber = gateway.host("subscribers", "10.9.0.1/24", None);
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("users");
    std::fs::write(&file, "ann secret\nbob\n").unwrap();
    let mut command = gateway
        .namespace
        .command(env!("CARGO_BIN_EXE_weir"), "run bras -p");
    command.arg(format!("users={}", file.display()));
    let output = Runner::default()
        .output(command, Duration::from_secs(20))
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("{}:2: the user ‘bob’ has no secret", file.display());
    assert!(said.contains(&expected), "{said}");
    let mut command = gateway
        .namespace
        .command(env!("CARGO_BIN_EXE_weir"), "run bras -p");
    command.arg(format!("radius_secret={}", file.display()));
    let output = Runner::default()
        .output(command, Duration::from_secs(20))
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("{}: write a line with a secret", file.display());
    assert!(said.contains(&expected), "{said}");
}

/// FreeRADIUS in a namespace, which knows some users, and keeps accounts in a file.
struct Radius {
    folder: PathBuf,
    _server: Service,
}

impl Drop for Radius {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const RADIUS_USERS: &str = "\
dan Cleartext-Password := \"pass\"
\tFramed-IP-Address = 100.64.1.44, Class = 0x77656972, Acct-Interim-Interval = 1
eve Cleartext-Password := \"pass\"
\tSession-Timeout = 3
";

impl Radius {
    fn new(host: &Namespace) -> Radius {
        let folder = std::env::temp_dir().join(format!("weir-radius-{}", host.pid()));
        std::fs::create_dir_all(folder.join("log")).unwrap();
        std::fs::write(folder.join("users"), RADIUS_USERS).unwrap();
        let config = include_str!("radiusd.conf").replace("FOLDER", folder.to_str().unwrap());
        std::fs::write(folder.join("radiusd.conf"), config).unwrap();
        let options = format!("-f -l stdout -d {}", folder.display());
        let server = host.service("freeradius", &options).unwrap();
        until("FreeRADIUS does not listen", || {
            command(host, "ss", "-lunH").contains(":1812 ")
        });
        Radius {
            folder,
            _server: server,
        }
    }

    /// The accounts that it got: each a status with its other lines.
    fn accounts(&self) -> String {
        std::fs::read_to_string(self.folder.join("log/detail")).unwrap_or_default()
    }
}

#[test]
fn freeradius_decides_and_gets_accounts() {
    let secret = std::env::temp_dir().join(format!("weir-secret-{}", std::process::id()));
    std::fs::write(&secret, "sesame\n").unwrap();
    let secret_of = format!("radius_secret={}", secret.display());
    // The first server is not there.
    let radius = "radius=203.0.113.9 203.0.113.1";
    let bras = access(&["-p", radius, "-p", &secret_of]);
    std::fs::remove_file(&secret).unwrap();
    let server = Radius::new(&bras.outside);
    for method in ["chap", "pap"] {
        let options = format!("--method {method} --user dan --password wrong");
        let mut client = Client::new(&bras.subscriber, &options);
        assert_eq!(client.says()[0], "offer");
        let said = client.says();
        assert_eq!(
            said[0],
            "refused",
            "{said:?} {}",
            bras.read("radius.servers")
        );
        drop(client);
        let options = format!("--method {method} --user dan --password pass");
        let mut client = Client::new(&bras.subscriber, &options);
        assert_eq!(client.says()[0], "offer");
        let up = client.says();
        assert_eq!(up[..2], ["up", "100.64.1.44"]);
        assert!(reaches(&bras.subscriber, "203.0.113.1"));
        let has_interim = || {
            server
                .accounts()
                .contains("Acct-Status-Type = Interim-Update")
        };
        until("there is no interim account", has_interim);
        client.order("terminate");
        assert_eq!(client.says(), ["ended"]);
        let has_stop = || server.accounts().contains("Acct-Status-Type = Stop");
        until("there is no last account", has_stop);
        let accounts = server.accounts();
        for line in [
            "Acct-Status-Type = Accounting-On",
            "Acct-Status-Type = Start",
            "User-Name = \"dan\"",
            "Framed-IP-Address = 100.64.1.44",
            "Acct-Terminate-Cause = User-Request",
            "Class = 0x77656972",
            "NAS-Identifier = \"weir\"",
        ] {
            assert!(accounts.contains(line), "{line}: {accounts}");
        }
        let stop = accounts.rsplit("Acct-Status-Type = Stop").next().unwrap();
        let packets = stop
            .lines()
            .find_map(|line| line.split_once("Acct-Input-Packets = "));
        assert!(packets.unwrap().1.parse::<u32>().unwrap() > 0, "{stop}");
        std::fs::write(
            server.folder.join("log/detail"),
            "Acct-Status-Type = Accounting-On\n",
        )
        .unwrap();
    }
    // A session that ends when its time is over.
    let mut client = Client::new(&bras.subscriber, "--user eve --password pass");
    assert_eq!(client.says()[0], "offer");
    assert_eq!(client.says()[0], "up");
    let start = Instant::now();
    assert_eq!(client.says(), ["down"]);
    assert!(start.elapsed() < Duration::from_secs(20));
    let is_over = || {
        server
            .accounts()
            .contains("Acct-Terminate-Cause = Session-Timeout")
    };
    until("there is no last account", is_over);
    assert_eq!(bras.read("radius.invalid"), "0");
    assert!(
        bras.read("radius.servers")
            .contains("203.0.113.1:1812:1813")
    );
}

/// Discovery by Debian's pppoe, which needs no PPP of the kernel.
#[test]
fn debian_s_pppoe_finds_the_concentrator() {
    let bras = access(&["-p", "name=bras1", "-p", "services=isp tv"]);
    let said = pppoe(&bras.subscriber, "-I eth0 -A -t 2");
    for line in [
        "Access-Concentrator: bras1",
        "Service-Name: isp",
        "Service-Name: tv",
    ] {
        assert!(said.contains(line), "{said}");
    }
    // A session of its own: its number and the concentrator's address, and its end.
    let said = pppoe(&bras.subscriber, "-I eth0 -d -t 2 -S isp -C bras1 -U");
    let session = said.trim();
    let number = session.split(':').next().unwrap();
    assert_eq!(bras.session()[0], number, "{said}");
    pppoe(&bras.subscriber, &format!("-I eth0 -k -e {session}"));
    until("the session is there", || bras.read("bras.count") == "0");
    assert_eq!(bras.read("bras.invalid"), "0");
}

fn pppoe(host: &Namespace, options: &str) -> String {
    let command = host.command("pppoe", options);
    let output = Runner::default()
        .output(command, Duration::from_secs(20))
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Debian's client, where the kernel has PPP; otherwise the client in user space shows that a session
/// of it comes up, and the test says so.
#[test]
fn debian_s_client_comes_in_where_the_kernel_has_ppp() {
    let bras = access(&[]);
    if !Path::new("/dev/ppp").exists() {
        eprintln!("there is no /dev/ppp: the client is that in user space, not pppd with pppoe");
        let mut client = Client::new(&bras.subscriber, "");
        assert_eq!(client.says()[0], "offer");
        assert_eq!(client.says()[0], "up");
        return;
    }
    eprintln!("the client is Debian's pppd with pppoe");
    let mut command = bras
        .subscriber
        .command("pppd", "nodetach noauth noipdefault");
    command.args(["pty", "pppoe -I eth0", "user", "ann", "password", "secret"]);
    command.args(["defaultroute", "mtu", "1492", "mru", "1492"]);
    let mut pppd = command.stdout(Stdio::piped()).spawn().unwrap();
    until("pppd is not up", || {
        bras.read("bras.sessions").contains(" up ")
    });
    assert!(reaches(&bras.subscriber, "203.0.113.1"));
    pppd.kill().unwrap();
    let mut said = String::new();
    pppd.stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    pppd.wait().unwrap();
}
