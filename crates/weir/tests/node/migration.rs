//! Guests that go on at another node, with their state and under traffic.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use weir::lab::{Namespace, Runner};

use crate::common::{Authority, Host, LIMIT, Stream, alive, kill, path, pings, until, within};

/// A NAT gateway between the networks, as `weir create` is told.
const NAT: &str = "nat44 --link inside=in0 --link outside=out0";
/// The server's address.
const SERVER: &str = "198.51.100.1";
/// Port of the nodes.
const PORT: u16 = 6640;

/// Two hosts, each in a network namespace with three interfaces: `m0`, over which the nodes speak, `in0` and `out0`.
/// Each of the three is on a bridge of its own; a client is on that of the inner ones, a server on that of the outer.
struct Net {
    hosts: [Host; 2],
    client: Namespace,
    server: Namespace,
    _folder: Folder,
    spaces: [Namespace; 3],
}

/// A folder that is removed.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(namespace: &Namespace, arguments: &str) {
    let command = namespace.command("ip", arguments);
    Runner::default().run(command, LIMIT).unwrap();
}

impl Net {
    fn new(tag: &str) -> Net {
        let make = || Namespace::new(&Runner::default()).unwrap();
        let [core, a, b, client, server] = std::array::from_fn(|_| make());
        for bridge in ["m", "in", "out"] {
            run(&core, &format!("link add br-{bridge} type bridge"));
            run(&core, &format!("link set br-{bridge} up"));
        }
        let connect = |namespace: &Namespace, name: &str, bridge: &str, port: &str| {
            let pid = namespace.pid();
            run(
                &core,
                &format!("link add {port} type veth peer name {name} netns {pid}"),
            );
            run(&core, &format!("link set {port} master br-{bridge} up"));
            run(namespace, &format!("link set {name} up"));
        };
        for (number, host) in [(1, &a), (2, &b)] {
            for bridge in ["m", "in", "out"] {
                connect(
                    host,
                    &format!("{bridge}0"),
                    bridge,
                    &format!("{bridge}{number}"),
                );
            }
            run(host, &format!("addr add 10.99.0.{number}/24 dev m0"));
        }
        connect(&client, "eth0", "in", "client");
        run(&client, "addr add 192.168.1.10/24 dev eth0");
        run(&client, "route add default via 192.168.1.1");
        connect(&server, "eth0", "out", "server");
        run(&server, "addr add 198.51.100.1/24 dev eth0");

        let folder = std::env::temp_dir().join(format!("weir-move-{}-{tag}", std::process::id()));
        let authority = Authority::new(&folder);
        std::fs::write(
            folder.join("node.toml"),
            "[roles]\na = 'peer'\nb = 'peer'\n",
        )
        .unwrap();
        let host = |name: &str, number: u8, namespace: &Namespace| {
            let files = authority.sign(name, &[&format!("10.99.0.{number}")]);
            let options = format!(
                "--listen 10.99.0.{number}:{PORT} --tls-cert {} --tls-key {} --tls-client-ca {} --config {}",
                files.cert.display(),
                files.key.display(),
                files.ca.display(),
                folder.join("node.toml").display()
            );
            let options: Vec<_> = options.split(' ').collect();
            let host = Host::inside(Some(namespace), &options);
            host.ok("link attach in0");
            host.ok("link attach out0");
            host
        };
        let hosts = [host("a", 1, &a), host("b", 2, &b)];
        Net {
            hosts,
            client,
            server,
            _folder: Folder(folder),
            spaces: [core, a, b],
        }
    }

    /// Migrates a guest to the other host, and returns the outcome.
    fn migrate(&self, from: usize, guest: &str) -> serde_json::Value {
        let to = format!("10.99.0.{}:{PORT}", 2 - from);
        let went = self.hosts[from].json(&format!("migrate {guest} {to}"));
        println!("{guest} from {from}: {went}");
        assert!(!self.hosts[from].ok("ls -p -o guest").contains(guest));
        self.hosts[1 - from].shows(&format!("ls -p -o state {guest}"), "running\n");
        went
    }
}

fn number(host: &Host, guest: &str, handler: &str) -> u64 {
    let value = host.ok(&format!("read {guest} {handler}"));
    value.trim().parse().unwrap()
}

/// Frames in the rings, and frames that come while the guest moves, are delivered, each once.
#[test]
fn a_guest_moves_between_nodes_under_traffic_and_loses_nothing() {
    for isolation in ["vm", "process"] {
        let net = Net::new(isolation);
        let [a, b] = &net.hosts;
        a.ok(&format!(
            "create nat {NAT} --isolation {isolation} --ring-slots 2048"
        ));
        pings(&net.client, SERVER);
        let mac = a.ok("vnic show -p -o mac nat.inside");
        let stream = Stream::start(path(&net.client), path(&net.server), SERVER);
        for from in [0, 1, 0] {
            net.migrate(from, "nat");
            std::thread::sleep(Duration::from_millis(100));
        }
        stream.loses_nothing();
        pings(&net.client, SERVER);
        assert_eq!(b.ok("vnic show -p -o mac nat.inside"), mac);
        assert_eq!((a.view().guests, a.view().vnics), (0, 0));
        let events = a.ok("events");
        assert!(
            events.contains("‘nat’ left") && events.contains("‘nat’ arrived"),
            "{events}"
        );
    }
}

/// A NAT gateway keeps ten thousand flows, and TCP through it goes on.
#[test]
fn a_nat_gateway_moves_with_its_flows() {
    const FLOWS: u16 = 10_000;
    let net = Net::new("nat");
    let [a, b] = &net.hosts;
    // Bursts of a transfer that waited for the guest come all at once, and a datagram behind them has room.
    a.ok(&format!(
        "create nat {NAT} -p connections=20000 --memory 32M --ring-slots 2048"
    ));
    a.ok("vnic set-prop -p maxbw=2G nat.inside");
    pings(&net.client, SERVER);
    let inner = within(path(&net.client).as_ref(), || {
        UdpSocket::bind("0.0.0.0:4000").unwrap()
    });
    let answer = within(path(&net.server).as_ref(), || {
        UdpSocket::bind("0.0.0.0:20000").unwrap()
    });
    answer.set_read_timeout(Some(LIMIT)).unwrap();
    inner.send_to(b"hello", "198.51.100.1:20000").unwrap();
    let (_, outer) = answer.recv_from(&mut [0; 10]).unwrap();
    let flows = |host: &Host| number(host, "nat", "connections.count");
    until("flows are missing", || {
        for port in 1..=FLOWS {
            let _ = inner.send_to(b"x", (SERVER, port));
            if port % 100 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        flows(a) > FLOWS.into()
    });
    let before = flows(a);
    let transfer = net
        .server
        .service("python3", "-m http.server --directory /usr/bin 8000")
        .unwrap();
    until("no server", || {
        let curl = net
            .client
            .command("curl", "-sf -o /dev/null http://198.51.100.1:8000/");
        Runner::default().run(curl, LIMIT).is_ok()
    });
    let file = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let curl = format!("-sf --limit-rate 3M -o /dev/null http://198.51.100.1:8000/{name}");
    let mut curl = net.client.command("curl", &curl).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for from in [0, 1, 0] {
        net.migrate(from, "nat");
        let host = &net.hosts[1 - from];
        assert!(flows(host) >= before, "{} of {before}", flows(host));
        // The server reaches the client by the mapping that it had.
        answer.send_to(b"back", outer).unwrap();
        inner.set_read_timeout(Some(LIMIT)).unwrap();
        assert_eq!(inner.recv_from(&mut [0; 10]).unwrap().0, 4);
    }
    assert!(curl.wait().unwrap().success());
    drop(transfer);
    assert!(b.ok("vnic show --json nat.inside").contains("2G"));
}

/// After any failure, the guest goes on where it was, and nothing is left at the other node.
#[test]
fn a_guest_that_cannot_move_goes_on() {
    let mut net = Net::new("fails");
    let [a, b] = &net.hosts;
    let create = |host: &Host| host.ok(&format!("create nat {NAT}"));
    create(a);
    let there = format!("10.99.0.2:{PORT}");
    a.refuses("migrate none 10.99.0.2:6640", "no guest ‘none’");
    a.refuses("migrate nat 10.99.0.2:1", "10.99.0.2:1");
    a.refuses(
        "migrate nat nowhere",
        "‘nowhere’ is not a node: it is HOST:PORT",
    );
    a.refuses(
        "migrate nat 127.0.0.1",
        "‘127.0.0.1’ is not a node: it is HOST:PORT",
    );
    a.refuses("migrate nat 10.99.0.1:6640", "is this node itself");
    // One that takes the connection and says nothing, and one to which packets vanish.
    let space = &net.spaces[1];
    let mute = within(path(space).as_ref(), || {
        std::net::TcpListener::bind("10.99.0.1:7000").unwrap()
    });
    run(
        space,
        "neigh add 10.99.0.77 lladdr 02:00:00:00:00:77 dev m0 nud permanent",
    );
    for to in ["10.99.0.1:7000", "10.99.0.77:6640"] {
        let said = a.refusal(&format!("migrate nat {to}"));
        assert!(
            said.contains(&format!(
                "the node at {to} was silent for 5 s: look whether it runs"
            )),
            "{said}"
        );
    }
    drop(mute);
    a.refuses(
        &format!("migrate nat {there} --link c=in0"),
        "has no interface ‘c’",
    );
    a.refuses(
        &format!("migrate nat {there} --link inside=eth9"),
        "the node at 10.99.0.2:6640 refused: it has no link ‘eth9’ for interface ‘inside’",
    );
    create(b);
    a.refuses(
        &format!("migrate nat {there}"),
        // Which is not this one.
        "the node at 10.99.0.2:6640 refused: there is already a guest named ‘nat’",
    );
    b.ok("destroy nat");
    a.ok("stop nat");
    a.refuses(&format!("migrate nat {there}"), "does not run");
    a.ok("start nat");
    a.ok("pause nat");
    a.refuses(&format!("migrate nat {there}"), "stands still");
    a.ok("resume nat");
    let lone = Host::new();
    lone.ok("stub create lan");
    let idle = lone.config("idle.click", "Idle;");
    lone.ok(&format!("create idle {idle}"));
    lone.refuses(&format!("migrate idle {there}"), "has no certificate");
    drop(lone);
    // A node that says nothing is not waited for without end.
    let silent = b.node.as_ref().unwrap().id();
    kill("-STOP", silent);
    a.refuses(&format!("migrate nat {there}"), "was silent for 5 s");
    kill("-CONT", silent);
    a.shows("ls -p -o state nat", "running\n");
    until("something is left", || {
        (b.view().guests, b.view().vnics) == (0, 0)
    });

    // The other node is killed at some moment, comes back, and has not kept what was half here.
    for round in 0..12 {
        let pid = net.hosts[1].node.as_ref().unwrap().id();
        let words = ["migrate", "nat", &there];
        let mut command = net.hosts[0].weir(&words);
        let mut moving = command
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(25 * round));
        kill("-KILL", pid);
        let _ = net.hosts[1].node.take().unwrap().wait();
        // It is back before the one here stops asking it whether it keeps the guest.
        net.hosts[1].start();
        let moved = moving.wait().unwrap().success();
        let [a, b] = &net.hosts;
        let guests = [a.view().guests, b.view().guests];
        println!("round {round}: moved {moved}, {guests:?}");
        assert_eq!(guests, if moved { [0, 1] } else { [1, 0] }, "round {round}");
        pings(&net.client, SERVER);
        if moved {
            net.migrate(1, "nat");
        }
    }
    let pid: u32 = net.hosts[0].ok("ls -p -o pid nat").trim().parse().unwrap();
    assert!(alive(pid));
}

/// If a node is killed while a guest leaves it, the next one resumes the guest only if it is not at the other node. Two
/// readers of a guest's memory would each miss pages that the other one took, and a guest that resumes at a copy's end
/// would run at both nodes.
#[test]
fn nothing_else_is_done_with_a_guest_that_leaves() {
    let net = Net::new("busy");
    let [a, b] = &net.hosts;
    a.ok(&format!("create nat {NAT}"));
    let node = b.node.as_ref().unwrap().id();
    kill("-STOP", node);
    let to = format!("10.99.0.2:{PORT}");
    let mut leaving = a.weir(&["migrate", "nat", &to]);
    let silent = std::process::Stdio::null;
    let leaving = leaving.stderr(silent()).stdout(silent()).spawn();
    let mut leaving = leaving.unwrap();
    let save = format!("save --keep nat {}", a.run().join("nat.saved").display());
    let refused = |command: &str| {
        let output = a.output(command);
        String::from_utf8_lossy(&output.stderr).contains("migrates to another node")
    };
    until("it does not leave", || refused(&save));
    for command in [
        &format!("migrate nat {to}"),
        "clone nat copy",
        "template nat",
        "rename nat tan",
        "pause nat",
        "stop nat",
        "restart nat",
        "set nat --restart never",
        "set nat --variable connections=1000",
    ] {
        assert!(refused(command), "{command}");
    }
    a.shows("ls -p -o guest,state", "nat:running\n");
    kill("-CONT", node);
    if !leaving.wait().unwrap().success() {
        a.shows("ls -p -o guest,state", "nat:running\n");
        net.migrate(0, "nat");
    }
    pings(&net.client, SERVER);
    b.ok("rename nat tan");
    // By a pattern, each by itself.
    let back = format!("10.99.0.1:{PORT}");
    b.refuses(&format!("migrate lb-* {back}"), "no guest matches ‘lb-*’");
    let idle = b.config("idle.click", "Idle -> c :: Counter -> Discard;");
    b.ok(&format!("create tab {idle}"));
    b.ok(&format!("create tac {idle}"));
    b.ok("pause tab");
    b.refuses(&format!("migrate ta* {back}"), "guest ‘tab’ stands still");
    b.shows("ls -p -o guest", "tab\n");
    a.shows("ls -p -o guest", "tac\ntan\n");
    b.ok("resume tab");
    let went = b.json(&format!("migrate ta* {back}"));
    assert_eq!(went.as_array().unwrap().len(), 1);
    a.ok("destroy *");
}

#[test]
fn a_node_that_is_killed_while_a_guest_leaves_has_it_or_not() {
    let mut net = Net::new("killed");
    net.hosts[0].ok(&format!("create nat {NAT}"));
    pings(&net.client, SERVER);
    let mut from = 0;
    for round in 0..14 {
        let to = format!("10.99.0.{}:{PORT}", 2 - from);
        let words = ["migrate", "nat", &to];
        let mut command = net.hosts[from].weir(&words);
        let silent = std::process::Stdio::null;
        let moving = command.stderr(silent()).stdout(silent()).spawn();
        let mut moving = moving.unwrap();
        std::thread::sleep(Duration::from_millis(15 * round));
        net.hosts[from].end("-KILL");
        let _ = moving.wait();
        net.hosts[from].start();
        let guests = || {
            let [a, b] = [0, 1].map(|host| net.hosts[host].ok("ls -p -o guest,state"));
            [a, b].map(|guests| guests.trim().to_string())
        };
        let start = std::time::Instant::now();
        let mut there = guests();
        let settled = |there: &[String; 2]| {
            there.contains(&String::new()) && there.contains(&"nat:running".to_string())
        };
        while !settled(&there) {
            assert!(start.elapsed() < LIMIT, "round {round}: {there:?}");
            std::thread::sleep(Duration::from_millis(20));
            there = guests();
        }
        println!("round {round}: {there:?}");
        pings(&net.client, SERVER);
        from = usize::from(there[0].is_empty());
    }
}
