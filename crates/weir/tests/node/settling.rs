//! Settled flows: the kernel passes on what a guest has decided.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;
use weir::lab::{Namespace, Runner};

use crate::common::{Host, LIMIT, ip, until};

/// A process in a namespace that is told what to do, a line at a time, and answers each line by one.
struct Told {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Told {
    fn start(namespace: &Namespace, program: &str) -> Told {
        let mut command = namespace.command("python3", "-c");
        command.arg(program).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        Told {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim_end().into()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Echoes datagrams with the address that they came from and their time to live, and the bytes of TCP connections.
const SERVER: &str = "
import socket, threading
def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, 12, 1) # IP_RECVTTL
    s.bind(('', 7000))
    while True:
        data, control, _, of = s.recvmsg(2000, 100)
        ttl = int.from_bytes(control[0][2], 'little')
        s.sendto(f'{data.decode()} {of[0]} {ttl}'.encode(), of)
def bytes():
    l = socket.create_server(('', 7000))
    while True:
        s, _ = l.accept()
        def echo(s=s):
            while data := s.recv(1 << 16):
                s.sendall(data)
            s.close()
        threading.Thread(target=echo, daemon=True).start()
threading.Thread(target=datagrams, daemon=True).start()
threading.Thread(target=bytes, daemon=True).start()
while True:
    input(); print('ready', flush=True)
";

/// `N`: sends N datagrams of one flow, each when the one before was answered or given up; says how many were answered
/// and all different rests of the answers. `tcp N`: sends N bytes and says whether they came back.
const CLIENT: &str = "
import socket, sys, threading
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 7000))
def datagrams(n):
    answered, rests = 0, set()
    lost = 0
    for i in range(n):
        s.settimeout(0.02 if lost > 3 else 0.3)
        s.send(str(i).encode())
        try:
            while True:
                number, rest = s.recv(2000).decode().split(' ', 1)
                if int(number) == i: break
            answered += 1; lost = 0
            rests.add(rest)
        except (TimeoutError, ConnectionError):
            lost += 1
    return f'{answered} {sorted(rests)}'
def flows(n, each):
    answered = 0
    for first in range(10000, 10000 + n, 500):
        some = []
        for port in range(first, first + 500):
            f = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            f.bind(('', port))
            f.connect((sys.argv[1], 7000))
            f.settimeout(1)
            some.append(f)
        for i in range(each):
            for part in range(0, 500, 50):
                for f in some[part:part + 50]: f.send(str(i).encode())
                for f in some[part:part + 50]:
                    answered += f.recv(100).decode().startswith(f'{i} ')
        for f in some: f.close()
    return str(answered)
def transfer(n):
    t = socket.create_connection((sys.argv[1], 7000), 5)
    data = bytes(i * 7 % 251 for i in range(1 << 16)) * (n >> 16)
    threading.Thread(target=lambda: (t.sendall(data), t.shutdown(socket.SHUT_WR)), daemon=True).start()
    back = bytearray()
    while part := t.recv(1 << 20):
        back += part
    return str(back == data)
for line in sys.stdin:
    what = line.split()
    if what[0] == 'tcp': print(transfer(int(what[1])), flush=True)
    elif what[0] == 'flows': print(flows(int(what[1]), int(what[2])), flush=True)
    else: print(datagrams(int(what[0])), flush=True)
";

/// Two namespaces, each with an interface of the host, and VNICs `a` and `b` on those.
struct Rig {
    host: Host,
    client: Told,
    server: Told,
    namespaces: Vec<Namespace>,
}

impl Rig {
    fn new(config: &str, addresses: [&str; 2], routes: [&str; 2], to: &str) -> Rig {
        Rig::with(config, addresses, routes, to, "on")
    }

    fn with(config: &str, addresses: [&str; 2], routes: [&str; 2], to: &str, settle: &str) -> Rig {
        let host = Host::new();
        let runner = Runner::default();
        let mut namespaces = Vec::new();
        for (i, vnic) in ["a", "b"].into_iter().enumerate() {
            let far = Namespace::new(&runner).unwrap();
            let near = format!("{}{vnic}", host.prefix);
            far.connect(&runner, &near, addresses[i], None).unwrap();
            if to.contains(':') {
                let set = far.command("sysctl", "-qw net.ipv6.conf.eth0.disable_ipv6=0");
                runner.run(set, LIMIT).unwrap();
                let address = format!("addr add 2001:db8:{}::2/64 dev eth0 nodad", i + 1);
                runner.run(far.command("ip", &address), LIMIT).unwrap();
            }
            for arguments in routes[i].split(';').filter(|it| !it.is_empty()) {
                let command = far.command("ip", arguments);
                runner.run(command, LIMIT).unwrap();
            }
            host.ok(&format!("link attach {near} --mode packet"));
            host.ok(&format!(
                "vnic create -l {near} -m 02:00:00:00:00:0{} -p settle={settle} {vnic}",
                i + 1
            ));
            namespaces.push(far);
        }
        // A configuration, or the rest of the command for a function.
        let create = match config.strip_prefix("create f ") {
            Some(function) => function.into(),
            None => format!("{} --link a=a --link b=b", host.config("f.click", config)),
        };
        host.ok(&format!("create f {create}"));
        let family = |program: &str| match to.contains(':') {
            true => program
                .replace("AF_INET", "AF_INET6")
                .replace("IPPROTO_IP, 12", "IPPROTO_IPV6, 51")
                .replace(
                    "('', 7000))\n    while True:\n        s, _",
                    "('', 7000), family=socket.AF_INET6)\n    while True:\n        s, _",
                ),
            false => program.into(),
        };
        let client = family(CLIENT).replace("sys.argv[1]", &format!("'{to}'"));
        let mut rig = Rig {
            client: Told::start(&namespaces[0], &client),
            server: Told::start(&namespaces[1], &family(SERVER)),
            host,
            namespaces,
        };
        assert_eq!(rig.server.ask(""), "ready");
        rig
    }

    /// Sends datagrams, and returns how many were answered, and how many packets the guest saw meanwhile.
    fn send(&mut self, n: u32) -> (u32, u64) {
        let before = self.seen();
        let answered = self.client.ask(&n.to_string());
        let answered = answered.split(' ').next().unwrap().parse().unwrap();
        (answered, self.seen() - before)
    }

    /// Packets that came to the guest on the way there.
    fn seen(&self) -> u64 {
        self.read("x.packets")
    }

    fn read(&self, handler: &str) -> u64 {
        let value = self.host.ok(&format!("read f {handler}"));
        value.trim().parse().unwrap()
    }

    /// The flows of which the guest said that they are settled.
    fn listed(&self) -> Vec<Value> {
        let flows = self.host.json("flow show --settled");
        flows.as_array().unwrap().clone()
    }

    /// Bytes that came in by a VNIC.
    fn bytes(&self, vnic: &str) -> u64 {
        let stats = self.host.json(&format!("vnic stat {vnic}"));
        stats[0]["rx-bytes"].as_u64().unwrap()
    }

    /// Frames that came in by a VNIC.
    fn counted(&self, vnic: &str) -> u64 {
        let stats = self.host.json(&format!("vnic stat {vnic}"));
        stats[0]["rx-frames"].as_u64().unwrap()
    }
}

const BRIDGE: &str =
    "FromNetfront(a) -> c :: Counter -> s :: Switch -> x :: SettleFlows -> ToNetfront(b);
FromNetfront(b) -> SettleFlows -> ToNetfront(a);";

fn bridge() -> Rig {
    let addresses = ["10.97.0.1/24", "10.97.0.2/24"];
    Rig::new(BRIDGE, addresses, ["", ""], "10.97.0.2")
}

#[test]
fn the_kernel_passes_settled_flows_on_and_they_are_counted() {
    let mut rig = bridge();
    // The first packets of the flow, and then one in a second.
    let (answered, seen) = rig.send(500);
    assert_eq!(answered, 500);
    assert!((4..50).contains(&seen), "the guest saw {seen}");
    until("the others are counted", || rig.counted("b") >= 500);
    // Whole, in both directions, with segments as the hosts make them.
    let seen = rig.seen();
    assert_eq!(rig.client.ask("tcp 50000000"), "True");
    let seen = rig.seen() - seen;
    assert!(seen < 5000, "the guest saw {seen} of 35 000 segments");
    until("the bytes are counted", || rig.counted("a") >= 35_000);
}

#[test]
fn the_guest_counts_what_was_passed_on() {
    let mut rig = bridge();
    assert_eq!(rig.send(500).0, 500);
    // With a packet that comes a second later than the last one that came to the guest.
    until("the guest has counted all", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(rig.send(1).0, 1);
        let (counted, passed) = (rig.read("c.count"), rig.counted("a"));
        assert!(counted <= passed, "{counted} of {passed}");
        counted == passed && passed > 500
    });
    assert!(rig.seen() < 100);
    // Its last packets, which went by the kernel, are counted with those that go to the guest again.
    assert_eq!(rig.send(50).0, 50);
    rig.host.ok("vnic set-prop -p settle=off b");
    let (answered, seen) = rig.send(1);
    assert!(answered == 1 && seen > 0, "the guest saw {seen}");
    // The length of those passed on is told as an average of whole bytes.
    until("all frames are counted there, too", || {
        rig.read("c.count") == rig.counted("a")
            && rig.bytes("a").abs_diff(rig.read("c.byte_count")) < 50
    });
}

#[test]
fn settled_flows_are_listed_and_so_is_why_one_is_not() {
    let mut rig = bridge();
    assert_eq!(rig.send(100).0, 100);
    let flows = rig.listed();
    let text = |flow: &Value, field: &str| flow[field].as_str().unwrap_or("-").to_string();
    let there = flows.iter().find(|it| text(it, "vnic") == "a");
    let there = there.expect("the flow is listed");
    let link = |end: &str| format!("{}{end}", rig.host.prefix);
    assert_eq!(
        [
            "link",
            "to-link",
            "to-vnic",
            "transport",
            "destination",
            "reason"
        ]
        .map(|it| text(there, it)),
        [&link("a"), &link("b"), "b", "udp", "10.97.0.2:7000", "-"].map(String::from)
    );
    assert!((50..100).contains(&there["packets"].as_u64().unwrap()));
    assert!(
        flows
            .iter()
            .any(|it| text(it, "source") == "10.97.0.2:7000")
    );
    let of_a = rig.host.json("flow show --settled -l a");
    assert_eq!(of_a.as_array().unwrap().len(), flows.len());
    rig.host.ok("vnic set-prop -p maxbw=1G a");
    rig.send(100);
    until("the list says why not", || {
        let limit = |it: &Value| text(it, "reason").contains("a limit");
        rig.send(10);
        !rig.listed().is_empty() && rig.listed().iter().all(limit)
    });
    let shown = rig.host.ok("flow show --settled");
    assert!(shown.contains("a limit, share, priority"), "{shown}");
    rig.host
        .refuses("flow show --settled -l nobody", "no link or VNIC");
}

#[test]
fn ten_thousand_flows_come_and_go() {
    let mut rig = bridge();
    // Each sends 8 datagrams, which are answered; 500 flows at a time.
    assert_eq!(rig.client.ask("flows 10000 8"), "80000");
    let seen = rig.seen();
    assert!((40_000..70_000).contains(&seen), "the guest saw {seen}");
    until("all are counted", || rig.counted("b") >= 80_000);
    assert!(rig.counted("b") < 80_020, "{}", rig.counted("b"));
    until("all are over", || rig.listed().is_empty());
    // A new one is settled as the first was.
    let (answered, seen) = rig.send(200);
    assert!(answered == 200 && seen < 50, "the guest saw {seen}");
}

/// Sends `raw N`: N frames of four flows to the guest's address, most of them as usual, and says when all are sent.
const CRAFTED: &str = "
import random, socket, struct, sys, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
def folded(data):
    data += bytes(len(data) % 2)
    s = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while s >> 16: s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff
def frame(r, number, flow, odd):
    tcp = flow % 2
    kind = r.choice(['options', 'fragment', 'last', 'ttl', 'trailer', 'sum', 'ipsum', 'short', 'flags', 'none', 'tos', 'mac']) if odd else ''
    data = r.randbytes(r.choice([0, 1, 18, 100, 1001, 1400]))
    source, to = socket.inet_aton('10.98.1.2'), socket.inet_aton('10.98.2.2')
    if tcp:
        flags = r.choice([1, 2, 4, 0x12, 0x11]) if kind == 'flags' else r.choice([0x10, 0x18])
        head = struct.pack('!HHIIBBHHH', 4000 + flow, 80, number, 7, 0x50, flags, 5000, 0, 0)
    else:
        head = struct.pack('!HHHH', 4000 + flow, 80, 8 + len(data), 0)
    pseudo = source + to + struct.pack('!BBH', 0, 6 if tcp else 17, len(head + data))
    s = folded(pseudo + head + data)
    if kind == 'sum': s ^= 0x1234
    if kind == 'none' and not tcp: s = 0
    at = 16 if tcp else 6
    head = head[:at] + struct.pack('!H', s) + head[at + 2:]
    options = bytes([1] * 4) if kind == 'options' else b''
    fragment = {'fragment': 0x2000, 'last': 0x0010}.get(kind, 0x4000)
    length = 20 + len(options + head + data) + (9 if kind == 'short' else 0)
    ttl = r.choice([0, 1, 2]) if kind == 'ttl' else 64
    ip = struct.pack('!BBHHHBBH4s4s', 0x45 + len(options) // 4, 0x20 if kind == 'tos' else 0, length, number, fragment, ttl, 6 if tcp else 17, 0, source, to) + options
    s = folded(ip) ^ (1 if kind == 'ipsum' else 0)
    ip = ip[:10] + struct.pack('!H', s) + ip[12:]
    trailer = bytes(30) if kind == 'trailer' else b''
    macs = '02000000000102000000000a' if kind != 'mac' else '02000000000102000000000c'
    return bytes.fromhex(macs) + bytes([8, 0]) + ip + head + data + trailer
for line in sys.stdin:
    r = random.Random(int(line))
    for number in range(1, 1001):
        # First, each flow is settled.
        out.send(frame(r, number, number % 4, number > 100 and r.random() < 0.3))
        if number % 10 == 0: time.sleep(0.004)
    time.sleep(0.2)
    print('sent', flush=True)
";

/// Keeps the IPv4 packets that come to an interface, and says which: a line with all, in hexadecimal.
const KEPT: &str = "
import socket, sys, threading, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
s.bind(('eth0', 0x800))
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24) # SO_RCVBUFFORCE
frames = []
def keep():
    while True:
        frame, of = s.recvfrom(2000)
        if of[2] != 4: frames.append(frame.hex())
threading.Thread(target=keep, daemon=True).start()
for line in sys.stdin:
    last = -1
    while frames and last != len(frames):
        last = len(frames)
        time.sleep(1)
    print(' '.join(frames), flush=True)
    frames.clear()
";

/// What comes out of the guest of such frames, in the order of their numbers, and how many the guest saw.
fn crafted(settle: &str) -> (Vec<String>, u64) {
    let config = "rw :: IPRewriter(pattern 10.98.2.1 - - - 0 1, drop);
x :: SettleFlows;
FromNetfront(a) -> Strip(14) -> CheckIPHeader -> [0]rw;
rw[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:0c) -> x -> ToNetfront(b);
FromNetfront(b) -> Strip(14) -> CheckIPHeader -> [1]rw; rw[1] -> Discard;";
    let addresses = ["10.98.1.2/24", "10.98.2.2/24"];
    let routes = ["route add default via 10.98.1.1", ""];
    let rig = Rig::with(config, addresses, routes, "10.98.2.2", settle);
    let [near, far] = &rig.namespaces[..] else {
        panic!("there are two namespaces");
    };
    let mut sender = Told::start(near, CRAFTED);
    let mut receiver = Told::start(far, KEPT);
    assert_eq!(receiver.ask(""), "");
    assert_eq!(sender.ask("7"), "sent");
    let came = receiver.ask("");
    let mut came: Vec<String> = came.split(' ').map(String::from).collect();
    // By the number in the IP header: which of two flows is first does not matter.
    came.sort_by_key(|frame| frame[36..40].to_string());
    (came, rig.seen())
}

#[test]
fn settled_or_not_the_same_packets_come_out() {
    // A host that is busy loses frames either way. What one way does otherwise, it does each time.
    let same = (0..3).any(|_| {
        let (by_guest, all) = crafted("off");
        let (settled, seen) = crafted("on");
        assert!(by_guest.len() > 800, "{} came", by_guest.len());
        assert!(seen * 3 < all * 2, "the guest saw {seen} of {all}");
        let number = |frame: &String| frame[36..40].to_string();
        let numbers = |frames: &[String]| frames.iter().map(number).collect::<Vec<_>>();
        for one in &by_guest {
            let other = settled.iter().find(|other| number(other) == number(one));
            assert!(other.is_none_or(|other| other == one), "{one} {other:?}");
        }
        numbers(&by_guest) == numbers(&settled)
    });
    assert!(same, "other frames came out");
}

#[test]
fn what_changes_takes_settled_flows_back_at_once() {
    let mut rig = bridge();
    // A guest tells of a flow again after a moment.
    let settles = |rig: &mut Rig| {
        until("the flow is settled", || {
            let (answered, seen) = rig.send(100);
            assert_eq!(answered, 100);
            seen < 50
        });
    };
    settles(&mut rig);
    // No packet passes that is sent after the command has ended.
    rig.host.ok("write f s.switch -1");
    assert_eq!(rig.send(20).0, 0);
    rig.host.ok("write f s.switch 0");
    settles(&mut rig);
    let swap = |rig: &Rig, config: &str| {
        let swapped = rig.host.weir(&["write", "f", "hotconfig", config]).output();
        assert!(swapped.unwrap().status.success());
    };
    let closed = BRIDGE.replace(
        "x :: SettleFlows -> ToNetfront(b)",
        "x :: SettleFlows -> Discard",
    );
    swap(&rig, &closed);
    assert_eq!(rig.send(20).0, 0);
    swap(&rig, BRIDGE);
    settles(&mut rig);
    // What the kernel does not change goes to the guest.
    let marks = BRIDGE.replace(
        "s :: Switch",
        "MarkIPHeader(14) -> SetIPDSCP(10) -> s :: Switch",
    );
    swap(&rig, &marks);
    assert_eq!(rig.send(100), (100, 100));
    swap(&rig, BRIDGE);
    settles(&mut rig);
    // The outgoing interface has its say.
    let out = format!("{}b", rig.host.prefix);
    ip(&format!("link set {out} down"));
    assert_eq!(rig.client.ask("20"), "0 []");
    ip(&format!("link set {out} up"));
    until("packets pass again", || rig.send(1).0 == 1);
    settles(&mut rig);
    // A limit is a matter for the switch, which then sees all packets again.
    rig.host.ok("vnic set-prop -p maxbw=100M a");
    let (answered, seen) = rig.send(100);
    // With an ARP request, perhaps.
    assert!(answered == 100 && seen >= 100, "{answered} {seen}");
    rig.host.ok("vnic reset-prop -p maxbw a");
    settles(&mut rig);
    rig.host.ok("vnic set-prop -p settle=off b");
    assert_eq!(rig.send(100), (100, 100));
    rig.host.ok("vnic set-prop -p settle=on b");
    settles(&mut rig);
    rig.host
        .ok("flow add -l a -a transport=udp,local_port=7000 u");
    assert_eq!(rig.send(100), (100, 100));
    rig.host.ok("flow remove u");
    settles(&mut rig);
    rig.host.ok("pause f");
    let answered = rig.client.ask("20");
    assert!(answered.starts_with("0 "), "{answered}");
    rig.host.ok("resume f");
    settles(&mut rig);
    // Another switch takes over, and the guest settles flows with it.
    rig.host.lose_switch();
    until("packets pass again", || rig.send(1).0 == 1);
    settles(&mut rig);
    rig.host.ok("destroy f");
    let answered = rig.client.ask("20");
    assert!(answered.starts_with("0 "), "{answered}");
}

#[test]
fn translated_and_routed_packets_are_the_same_settled_or_not() {
    let config = "rw :: IPRewriter(pattern 10.98.2.1 - - - 0 1, drop);
x :: SettleFlows; t :: SettleFlows;
FromNetfront(a) -> Strip(14) -> CheckIPHeader -> [0]rw;
rw[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:0b) -> x -> ToNetfront(b);
FromNetfront(b) -> Strip(14) -> CheckIPHeader -> [1]rw;
rw[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:0a) -> t -> ToNetfront(a);";
    let routes = [
        "link set dev {} address 02:00:00:00:00:0a;\
         route add default via 10.98.1.1;\
         neigh add 10.98.1.1 lladdr 02:00:00:00:00:01 dev {}",
        "link set dev {} address 02:00:00:00:00:0b;\
         neigh add 10.98.2.1 lladdr 02:00:00:00:00:02 dev {}",
    ];
    let routes = routes.map(|it| it.replace("{}", "eth0"));
    let mut rig = Rig::new(
        config,
        ["10.98.1.2/24", "10.98.2.2/24"],
        [&routes[0], &routes[1]],
        "10.98.2.2",
    );
    let seen = rig.seen();
    // All answers say the same: the address and the time to live that the server saw.
    assert_eq!(rig.client.ask("300"), "300 ['10.98.2.1 63']");
    let seen = rig.seen() - seen;
    assert!(seen < 50, "the guest saw {seen}");
    // The receivers check the sums.
    assert_eq!(rig.client.ask("tcp 20000000"), "True");
    let seen = rig.seen();
    assert_eq!(rig.client.ask("tcp 20000000"), "True");
    let seen = rig.seen() - seen;
    assert!(seen < 2000, "the guest saw {seen} of 14 000 segments");
}

#[test]
fn functions_that_keep_state_settle_their_flows() {
    let networks = "-p inside_ip=10.98.1.1 -p inside_net=10.98.1.0/24 -p outside_ip=10.98.2.1 -p outside_net=10.98.2.0/24 \
        --memory 8M -p connections=1000 --link inside=a --link outside=b";
    let firewall = format!("firewall {networks}");
    let nat = format!("nat44 -p gateway=10.98.2.2 {networks}");
    let old = ("10.98.2.2", ["10.98.1.1", "10.98.2.1"]);
    let sixth = ("2001:db8:2::2", ["2001:db8:1::1", "2001:db8:2::1"]);
    for (function, sees, (server, gateways)) in [
        (&firewall, "10.98.1.2", old),
        (&nat, "10.98.2.1", old),
        (&firewall, "2001:db8:1::2", sixth),
    ] {
        let routes = gateways.map(|it| format!("route add default via {it}"));
        let mut rig = Rig::new(
            &format!("create f {function}"),
            ["10.98.1.2/24", "10.98.2.2/24"],
            [&routes[0], &routes[1]],
            server,
        );
        let answers = format!("300 ['{sees} 63']");
        assert_eq!(rig.client.ask("300"), answers, "{function}");
        until("both directions are settled", || {
            assert_eq!(rig.client.ask("300"), answers, "{function}");
            let packets = |flow: &Value| flow["packets"].as_u64().unwrap();
            rig.listed().len() == 2 && rig.listed().iter().all(|it| packets(it) > 200)
        });
        assert_eq!(rig.client.ask("tcp 20000000"), "True", "{function}");
        // Its ends are seen for what they are, whatever passed by in between.
        until("the connection is closed", || {
            let table = rig.host.ok("read f connections.table");
            let mut connections = table.lines().filter(|line| line.starts_with("6 "));
            connections.all(|line| line.starts_with("6 closed "))
        });
    }
}

#[test]
fn settle_is_a_property_that_is_on_or_off() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan -p settle=on g");
    let shown = host.json("vnic show g");
    assert_eq!(shown[0]["properties"]["settle"], Value::from("on"));
    host.refuses("vnic set-prop -p settle=maybe g", "settle is on or off");
}
