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
    print(transfer(int(what[1])) if what[0] == 'tcp' else datagrams(int(what[0])), flush=True)
";

/// Two namespaces, each with an interface of the host, and VNICs `a` and `b` on those.
struct Rig {
    host: Host,
    client: Told,
    server: Told,
    _namespaces: Vec<Namespace>,
}

impl Rig {
    fn new(config: &str, addresses: [&str; 2], routes: [&str; 2], to: &str) -> Rig {
        let host = Host::new();
        let runner = Runner::default();
        let mut namespaces = Vec::new();
        for (i, vnic) in ["a", "b"].into_iter().enumerate() {
            let far = Namespace::new(&runner).unwrap();
            let near = format!("{}{vnic}", host.prefix);
            far.connect(&runner, &near, addresses[i], None).unwrap();
            for arguments in routes[i].split(';').filter(|it| !it.is_empty()) {
                let command = far.command("ip", arguments);
                runner.run(command, LIMIT).unwrap();
            }
            host.ok(&format!("link attach {near} --mode packet"));
            host.ok(&format!(
                "vnic create -l {near} -m 02:00:00:00:00:0{} -p settle=on {vnic}",
                i + 1
            ));
            namespaces.push(far);
        }
        let config = host.config("f.click", config);
        host.ok(&format!("create f {config} --link a=a --link b=b"));
        let client = CLIENT.replace("sys.argv[1]", &format!("'{to}'"));
        let mut rig = Rig {
            client: Told::start(&namespaces[0], &client),
            server: Told::start(&namespaces[1], SERVER),
            host,
            _namespaces: namespaces,
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

    fn seen(&self) -> u64 {
        self.host.ok("read f c.count").trim().parse().unwrap()
    }

    /// Frames that came in by a VNIC.
    fn counted(&self, vnic: &str) -> u64 {
        let stats = self.host.json(&format!("vnic stat {vnic}"));
        stats[0]["rx-frames"].as_u64().unwrap()
    }
}

const BRIDGE: &str =
    "FromNetfront(a) -> c :: Counter -> s :: Switch -> SettleFlows -> ToNetfront(b);
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
    let closed = BRIDGE.replace("SettleFlows -> ToNetfront(b)", "Discard");
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
    assert_eq!((answered, seen), (100, 100));
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
s :: SettleFlows; t :: SettleFlows;
FromNetfront(a) -> c :: Counter -> Strip(14) -> CheckIPHeader -> [0]rw;
rw[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:0b) -> s -> ToNetfront(b);
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
fn settle_is_a_property_that_is_on_or_off() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan -p settle=on g");
    let shown = host.json("vnic show g");
    assert_eq!(shown[0]["properties"]["settle"], Value::from("on"));
    host.refuses("vnic set-prop -p settle=maybe g", "settle is on or off");
}
