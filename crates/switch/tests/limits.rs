//! Limits, protection, flows, VLANs, delay and loss between real network stacks: namespaces behind
//! TAP devices and veth pairs. Needs root; run one after the other. What is timed here shares the
//! machine with others, so rates are held to what a wrong limit would not reach, not to per cents
//! (`benches/limits.rs` measures those).

mod common;

use common::{Host, iperf, unique, wait_for};
use switch::client::SwitchClient;
use switch::counters::Reason;
use switch::links::{HostLink, Tap};
use switch::process::Switch;
use switch::properties::{DomainProperties, PortProperties};
use switch::protocol::{FlowOn, PortId};

const TESTS: &[(&str, fn())] = &[
    ("a_limited_port_gets_its_rate_both_ways", a_limited_port),
    (
        "a_limit_holds_for_what_comes_from_an_uplink",
        from_an_uplink,
    ),
    ("a_limit_is_changed_and_taken_away_live", a_limit_is_changed),
    (
        "what_a_limit_held_back_goes_on_without_it",
        what_a_limit_held_back_goes_on_without_it,
    ),
    ("a_domain_has_a_speed", a_domain_has_a_speed),
    ("a_delay_adds_to_the_round_trip", a_delay),
    ("losses_are_as_many_as_asked_for", losses),
    ("spoofed_frames_are_dropped_and_counted", spoofed_frames),
    ("floods_are_limited", floods_are_limited),
    ("vlans_are_apart_and_trunks_bear_them_all", vlans),
    ("a_flow_is_limited_and_others_are_not", a_flow_is_limited),
    ("what_cannot_be_is_refused_in_a_sentence", refusals),
];

fn main() {
    if let Some(missing) = common::missing() {
        println!("skipped: {missing}");
        return;
    }
    common::run_all(TESTS);
}

fn properties(text: &str) -> PortProperties {
    text.parse().unwrap()
}

/// A host behind a TAP device in domain 0.
fn host(client: &SwitchClient, what: &str, number: u8, asked: &str) -> (Host, PortId) {
    let tap = unique(what);
    let link = HostLink::open(&Tap {
        name: &tap,
        mac: None,
        mtu: 1500,
        owner: None,
    })
    .unwrap();
    let port = client.attach_link(link, 0, properties(asked)).unwrap();
    let host = Host::new(what);
    host.take(&tap, 1, number);
    (host, port)
}

/// Lowest and average round trip of some pings, in milliseconds; `None` if none came back.
fn round_trips(from: &Host, options: &str, to: &str) -> Option<(f64, f64)> {
    let output = from.output(&format!("ping -q {options} {to}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text.split("min/avg/max/mdev = ").nth(1)?;
    let mut times = times.split('/').map(|time| time.parse().unwrap());
    Some((times.next()?, times.next()?))
}

fn received(from: &Host, options: &str, to: &str) -> u32 {
    let output = from.output(&format!("ping -q {options} {to}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let before = text.split(" received").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

fn a_limited_port() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (mut a, pa) = host(client, "a", 1, "maxbw=20M");
    let (mut b, pb) = host(client, "b", 2, "");
    b.serve("iperf3 -s", 5201);
    a.serve("iperf3 -s", 5201);
    let sent = iperf(&a, "10.9.1.2", "5M");
    let got = iperf(&b, "10.9.1.1", "5M");
    println!("  from it {sent:.1} Mb/s, to it {got:.1} Mb/s, of 20");
    for rate in [sent, got] {
        assert!((12.0..21.0).contains(&rate), "{rate} Mb/s");
    }
    // Those who send are held back: nothing is dropped by the limit.
    for port in [pa, pb] {
        assert_eq!(client.stats(port).dropped(Reason::OverLimit), 0);
    }
    // UDP at five times the rate: what arrives is the rate's.
    let report = a.run("iperf3 -J -u -c 10.9.1.2 -b 100M -t 2 -l 1400");
    let before = client.stats(pa);
    println!("  after UDP: {before:?}");
    assert!(report.contains("\"end\""), "{report}");
}

fn from_an_uplink() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (mut a, pa) = host(client, "a", 1, "maxbw=20M");
    let (b, link) = Host::with_veth("b", 1, 2);
    let uplink = HostLink::device(&link).unwrap();
    client.attach_link(uplink, 0, properties("")).unwrap();
    let (c, _) = host(client, "c", 3, "");
    a.serve("iperf3 -s", 5201);
    let rate = iperf(&b, "10.9.1.1", "5M");
    println!("  {rate:.1} Mb/s of 20, {:?}", client.stats(pa));
    assert!((10.0..21.0).contains(&rate), "{rate} Mb/s");
    // Who shares the uplink does not wait for the limited port.
    let mut flood = std::process::Command::new("ip")
        .args(["netns", "exec", &b.name])
        .args(["iperf3", "-u", "-c", "10.9.1.1", "-b", "200M", "-t", "3"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("frames are too many", || {
        client.stats(pa).dropped(Reason::OverLimit) > 0
    });
    let (_, average) = round_trips(&c, "-c 20 -i 0.05", "10.9.1.2").unwrap();
    println!("  beside a flood a ping takes {average} ms");
    assert!(average < 15.0, "{average} ms beside a flood for another");
    flood.kill().unwrap();
    flood.wait().unwrap();
}

fn a_limit_is_changed() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "maxbw=10M");
    let (mut b, _) = host(client, "b", 2, "");
    b.serve("iperf3 -s", 5201);
    let slow = iperf(&a, "10.9.1.2", "2M");
    client.set_properties(pa, properties("maxbw=60M")).unwrap();
    let faster = iperf(&a, "10.9.1.2", "10M");
    client.set_properties(pa, properties("")).unwrap();
    let free = iperf(&a, "10.9.1.2", "50M");
    println!("  {slow:.0}, {faster:.0}, {free:.0} Mb/s");
    assert!(slow < 10.5 && faster > 15.0 && faster < 62.0 && free > 70.0);
}

/// Packets that are sent at once, each 1042 bytes long.
const BURST: u64 = 40;

fn what_a_limit_held_back_goes_on_without_it() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "");
    let (_b, pb) = host(client, "b", 2, "");
    a.run("ping -q -c 1 -W 2 10.9.1.2");
    for then in ["", "maxbw=20M,cpus=0"] {
        client.set_properties(pa, properties("maxbw=20K")).unwrap();
        let before = client.stats(pb).frames_out;
        a.python(&format!(
            "
import socket
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range({BURST}): link.sendto(bytes(1000), ('10.9.1.2', 9))
"
        ));
        let passed = || client.stats(pb).frames_out - before;
        wait_for("the first pass", || passed() > 0);
        assert!(passed() < BURST / 2);
        client.set_properties(pa, properties(then)).unwrap();
        wait_for("all have come", || passed() >= BURST);
    }
}

fn a_domain_has_a_speed() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, _) = host(client, "a", 1, "");
    let (mut b, _) = host(client, "b", 2, "maxbw=5M");
    let (mut c, _) = host(client, "c", 3, "");
    let speed: DomainProperties = "speed=20M".parse().unwrap();
    client.set_domain(0, speed).unwrap();
    b.serve("iperf3 -s", 5201);
    c.serve("iperf3 -s", 5201);
    let own = iperf(&a, "10.9.1.2", "1M");
    let speed = iperf(&a, "10.9.1.3", "4M");
    println!("  {own:.1} and {speed:.1} Mb/s");
    assert!(own < 5.3 && speed > 8.0 && speed < 21.0);
}

fn a_delay() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "delay=20ms");
    let (mut b, pb) = host(client, "b", 2, "");
    a.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.2");
    let (low, _) = round_trips(&a, "-c 10 -i 0.05", "10.9.1.2").unwrap();
    println!("  {low} ms with 20 ms one way");
    assert!((20.0..60.0).contains(&low), "{low} ms");
    client
        .set_properties(pb, properties("delay=30ms,jitter=5ms"))
        .unwrap();
    let (low, average) = round_trips(&a, "-c 10 -i 0.05", "10.9.1.2").unwrap();
    println!("  {low} ms, {average} on average, with 30 ms the other way, give or take 5");
    assert!((45.0..90.0).contains(&low), "{low} ms");
    // A whole transfer fits on its way.
    b.serve("iperf3 -s", 5201);
    let rate = iperf(&a, "10.9.1.2", "5M");
    println!("  {rate:.0} Mb/s over the delay");
    for port in [pa, pb] {
        assert_eq!(client.stats(port).dropped(Reason::LineFull), 0);
    }
    client.set_properties(pa, properties("")).unwrap();
    client.set_properties(pb, properties("")).unwrap();
    let (low, _) = round_trips(&a, "-c 5 -i 0.05", "10.9.1.2").unwrap();
    assert!(low < 15.0, "{low} ms without any delay");
}

fn losses() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, _) = host(client, "a", 1, "");
    let (_b, pb) = host(client, "b", 2, "");
    a.run("ping -q -c 1 -W 2 10.9.1.2");
    client.set_properties(pb, properties("loss=30%")).unwrap();
    let got = received(&a, "-c 100 -i 0.01 -W 1", "10.9.1.2");
    println!("  {got} of 100 came back at 30%");
    assert!((45..95).contains(&got), "{got} of 100");
    let lost = client.stats(pb).dropped(Reason::Loss);
    assert!(lost as u32 >= 100 - got, "{lost} counted");
}

/// Sends an ARP reply that claims 10.9.1.77, and a packet from there.
const SPOOF: &str = "
import socket, fcntl, struct
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((NAME, 0))
mac = link.getsockname()[4]
other = bytes.fromhex('020000000077')
arp = lambda hw, ip: bytes([0,1,8,0,6,4,0,2]) + hw + bytes(ip) + bytes(6) + bytes([10,9,1,2])
link.send(b'\\xff'*6 + mac + b'\\x08\\x06' + arp(mac, [10,9,1,77]) + bytes(18))
link.send(b'\\xff'*6 + mac + b'\\x08\\x06' + arp(other, [10,9,1,1]) + bytes(18))
link.send(b'\\xff'*6 + other + b'\\x08\\x06' + arp(other, [10,9,1,1]) + bytes(18))
ip = bytes([0x45,0,0,28,0,0,0,0,64,17,0,0,10,9,1,77,10,9,1,2])
link.send(b'\\xff'*6 + mac + b'\\x08\\x00' + ip + bytes(26))
link.send(b'\\xff'*6 + mac + b'\\x88\\xb5' + bytes(46))
";

fn spoofed_frames() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let asked = "protection=mac-nospoof+ip-nospoof+restricted,\
                 allowed-ips=10.9.1.1+fd09:1::1+fe80::/10";
    let (a, pa) = host(client, "a", 1, asked);
    let (b, _) = host(client, "b", 2, "");
    a.run("ping -q -c 3 -i 0.05 -W 2 10.9.1.2");
    a.run("ping -6 -q -c 3 -i 0.05 -W 2 fd09:1::2");
    let before = client.stats(pa);
    println!("  {before:?}");
    for reason in [Reason::SpoofedMac, Reason::SpoofedIp, Reason::Restricted] {
        assert_eq!(
            before.dropped(reason),
            0,
            "{} for honest frames",
            reason.name()
        );
    }
    a.python(&SPOOF.replace("NAME", &format!("'{}'", unique("a"))));
    wait_for("spoofed frames are counted", || {
        let stats = client.stats(pa);
        stats.dropped(Reason::SpoofedIp) == 2
            && stats.dropped(Reason::SpoofedMac) == 2
            && stats.dropped(Reason::Restricted) == 1
    });
    let neighbours = b.run("ip neigh show");
    assert!(!neighbours.contains("10.9.1.77"), "{neighbours}");
    a.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.2");
}

fn floods_are_limited() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "flood-limit=20");
    let (_b, pb) = host(client, "b", 2, "");
    a.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.2");
    let before = client.stats(pb).frames_out;
    a.run("python3 -c \"\"");
    let name = unique("a");
    a.python(&format!(
        "
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('{name}', 0))
for _ in range(500): link.send(b'\\xff'*6 + b'\\x02' + bytes(5) + b'\\x88\\xb5' + bytes(46))
"
    ));
    wait_for("the flood is counted", || {
        let passed = client.stats(pb).frames_out - before;
        client.stats(pa).dropped(Reason::FloodLimit) + passed >= 500
    });
    let dropped = client.stats(pa).dropped(Reason::FloodLimit);
    assert!(dropped > 300, "{dropped} of 500");
    a.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.2");
}

fn vlans() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "vlan=7");
    let (mut b, _) = host(client, "b", 2, "vlan=7");
    let (c, _) = host(client, "c", 3, "vlan=8");
    let (t, _) = host(client, "t", 4, "");
    a.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.2");
    assert_eq!(received(&c, "-c 2 -i 0.05 -W 1", "10.9.1.2"), 0);
    assert_eq!(received(&t, "-c 2 -i 0.05 -W 1", "10.9.1.2"), 0);
    // The trunk's host asks in a VLAN, and is answered there.
    let ask = |vlan: u16, whom: u8| {
        let program = ASK.replace("NAME", &format!("'{}'", unique("t")));
        let program = program.replace("VLAN", &vlan.to_string());
        t.python(&program.replace("WHOM", &whom.to_string()))
    };
    ask(7, 2);
    ask(8, 3);
    let table = client.table(0).unwrap();
    for vlan in [7, 8] {
        let known = table.iter().filter(|entry| entry.vlan == vlan);
        assert!(known.count() >= 2, "{table:?}");
    }
    // In another's VLAN nobody answers.
    let program = ASK.replace("NAME", &format!("'{}'", unique("t")));
    let program = program.replace("VLAN", "8").replace("WHOM", "2");
    let command = ["netns", "exec", &t.name, "python3", "-c", &program];
    let asked = std::process::Command::new("ip").args(command).output();
    assert!(!asked.unwrap().status.success());
    // Tagged frames have no place on an access port.
    let program = SEND_TAGGED.replace("NAME", &format!("'{}'", unique("a")));
    a.python(&program);
    wait_for("the tagged frame is dropped", || {
        client.stats(pa).dropped(Reason::Vlan) == 1
    });
    // Whole segments cross between ports of one VLAN.
    b.serve("iperf3 -s", 5201);
    let rate = iperf(&a, "10.9.1.2", "50M");
    println!("  in one VLAN: {rate:.0} Mb/s");
    // Another VLAN is another world, at once.
    client.set_properties(pa, properties("vlan=8")).unwrap();
    assert_eq!(received(&a, "-c 2 -i 0.05 -W 1", "10.9.1.2"), 0);
    a.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.3");
}

/// Asks by ARP in a VLAN, and waits for the answer in that VLAN.
const ASK: &str = r"
import socket, struct, sys, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind((NAME, 3))
link.setsockopt(263, 8, 1)
link.settimeout(1)
mac = link.getsockname()[4]
arp = bytes([0,1,8,0,6,4,0,1]) + mac + bytes([10,9,1,4]) + bytes(6) + bytes([10,9,1,WHOM])
link.send(b'\xff'*6 + mac + b'\x81\x00' + struct.pack('!H', VLAN) + b'\x08\x06' + arp + bytes(18))
end = time.time() + 1
while time.time() < end:
    try: frame, beside, _, _ = link.recvmsg(2000, 200)
    except TimeoutError: break
    tags = [struct.unpack('IIIHHHH', data[:20])[5] & 4095 for level, kind, data in beside if level == 263]
    inside = frame[12:14] == b'\x81\x00'
    vlan = struct.unpack('!H', frame[14:16])[0] & 4095 if inside else (tags + [0])[0]
    answer = frame[16:] if inside else frame[12:]
    if answer[:2] == b'\x08\x06' and answer[8:10] == b'\x00\x02' and vlan == VLAN: sys.exit(0)
sys.exit(1)
";

/// Sends a frame with a tag.
const SEND_TAGGED: &str = r"
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((NAME, 0))
link.send(b'\xff'*6 + b'\x02' + bytes(5) + b'\x81\x00\x00\x07\x88\xb5' + bytes(46))
";

fn a_flow_is_limited() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "");
    let (mut b, _) = host(client, "b", 2, "");
    b.serve("iperf3 -s -p 5201", 5201);
    b.serve("iperf3 -s -p 5202", 5202);
    let flow = "transport=tcp,remote_port=5201".parse().unwrap();
    let limit = "maxbw=20M".parse().unwrap();
    client
        .add_flow("web", FlowOn::Port(pa), flow, limit)
        .unwrap();
    let limited = iperf(&a, "10.9.1.2", "5M");
    let free = iperf(&a, "10.9.1.2 -p 5202", "50M");
    let flows = client.flows().unwrap();
    println!(
        "  {limited:.1} Mb/s of 20, {free:.0} beside: {:?}",
        flows[0].stats
    );
    assert!((8.0..21.0).contains(&limited) && free > 40.0);
    assert!(flows[0].stats.bytes > 3_000_000 && flows[0].stats.held > 0);
    let same = client.add_flow("other", FlowOn::Port(pa), flow, limit);
    let same = same.unwrap_err().to_string();
    assert!(same.contains("‘web’ has the same attributes"), "{same}");
    client.remove_flow("web").unwrap();
    let after = iperf(&a, "10.9.1.2", "50M");
    assert!(after > 40.0, "{after} Mb/s without the flow");
    assert!(client.flows().unwrap().is_empty());
}

fn refusals() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (_a, pa) = host(client, "a", 1, "maxbw=20M");
    let refused = |text: &str| {
        let error = client.set_properties(pa, properties(text)).unwrap_err();
        error.to_string()
    };
    let low = refused("maxbw=10K");
    assert!(
        low.contains("it takes 12.144K to send a frame a second"),
        "{low}"
    );
    let missing = refused("cpus=900");
    assert!(missing.contains("this host has CPUs"), "{missing}");
    let ports = client.ports().unwrap();
    assert_eq!(ports[0].properties, properties("maxbw=20M"), "as it was");
    let (_b, link) = Host::with_veth("b", 1, 2);
    let uplink = HostLink::device(&link).unwrap();
    let many = client.attach_link(uplink, 0, properties("protection=mac-nospoof"));
    let many = many.unwrap_err().to_string();
    assert!(many.contains("needs the port's Ethernet address"), "{many}");
    let flow = "transport=udp".parse().unwrap();
    let name = client.add_flow("two words", FlowOn::Domain(0), flow, Default::default());
    assert!(
        name.unwrap_err()
            .to_string()
            .contains("is no name of a flow")
    );
    let none = client.remove_flow("none").unwrap_err().to_string();
    assert!(none.contains("no flow ‘none’"), "{none}");
}
