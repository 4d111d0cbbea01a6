//! Limits, protection, flows, VLANs, delay and loss between real network stacks: namespaces behind
//! TAP devices and veth pairs. Needs root. What is timed here shares the machine with others, so rates are
//! held to what a wrong limit would not reach, not to per cents (`benches/limits.rs` measures those).

#[macro_use]
mod common;

use common::{Host, iperf, unique, wait_for};
use switch::client::SwitchClient;
use switch::counters::Reason;
use switch::links::HostLink;
use switch::process::Switch;
use switch::properties::{DomainProperties, PortProperties};
use switch::protocol::{FlowOn, PortId};

fn main() {
    common::run_all(tests![
        a_limited_port_gets_its_rate_both_ways,
        a_limit_holds_for_what_comes_from_an_uplink,
        a_limit_is_changed_and_taken_away_live,
        what_a_limit_held_back_goes_on_without_it,
        a_domain_has_a_speed,
        a_delay_adds_to_the_round_trip,
        losses_are_as_many_as_asked_for,
        spoofed_frames_are_dropped_and_counted,
        floods_are_limited,
        vlans_are_apart_and_trunks_bear_them_all,
        a_flow_is_limited_and_others_are_not,
        what_cannot_be_is_refused_in_a_sentence,
    ]);
}

fn properties(text: &str) -> PortProperties {
    text.parse().unwrap()
}

/// A host behind a TAP device in domain 0.
fn host(client: &SwitchClient, what: &str, number: u8, asked: &str) -> (Host, PortId) {
    let tap = unique(what);
    let port = client
        .attach_link(common::tap(&tap), 0, properties(asked))
        .unwrap();
    let host = Host::new(what);
    host.take(&tap, 1, number);
    (host, port)
}

/// Pings, none of which comes back before `least` milliseconds; some do before `most`.
#[track_caller]
fn round_trip(from: &Host, to: &str, least: f64, most: f64) {
    wait_for(&format!("a round trip of less than {most} ms"), || {
        let text = from.run(&format!("ping -q -c 10 -i 0.05 {to}"));
        let times = text.split("min/avg/max/mdev = ").nth(1).unwrap();
        let lowest: f64 = times.split('/').next().unwrap().parse().unwrap();
        println!("  {lowest} ms, of {least} to {most}");
        assert!(lowest >= least, "{lowest} ms");
        lowest < most
    });
}

/// A transfer's rate, which is never above `most`; `least` is reached once of several times, however
/// busy the machine is.
#[track_caller]
fn rate_of(from: &Host, to: &str, bytes: &str, least: f64, most: f64) -> f64 {
    let mut rates = Vec::new();
    for _ in 0..6 {
        let rate = iperf(from, to, bytes);
        assert!(rate < most, "{rate} Mb/s, above {most}");
        if rate > least {
            return rate;
        }
        rates.push(rate);
    }
    panic!("{rates:?} Mb/s, never {least}");
}

fn received(from: &Host, options: &str, to: &str) -> u32 {
    let output = from.output(&format!("ping -q {options} {to}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let before = text.split(" received").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

fn a_limited_port_gets_its_rate_both_ways() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (mut a, pa) = host(client, "a", 1, "maxbw=20M");
    let (mut b, pb) = host(client, "b", 2, "");
    b.serve("iperf3 -s", 5201);
    a.serve("iperf3 -s", 5201);
    let sent = rate_of(&a, "10.9.1.2", "5M", 12.0, 21.0);
    let got = rate_of(&b, "10.9.1.1", "5M", 12.0, 21.0);
    println!("  from it {sent:.1} Mb/s, to it {got:.1} Mb/s, of 20");
    // Senders are held back: nothing is dropped by the limit.
    for port in [pa, pb] {
        assert_eq!(client.stats(port).dropped(Reason::OverLimit), 0);
    }
    // UDP at five times the rate: what arrives is the rate's.
    let report = a.run("iperf3 -J -u -c 10.9.1.2 -b 100M -t 2 -l 1400");
    let before = client.stats(pa);
    println!("  after UDP: {before:?}");
    assert!(report.contains("\"end\""), "{report}");
}

fn a_limit_holds_for_what_comes_from_an_uplink() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (mut a, pa) = host(client, "a", 1, "maxbw=20M");
    let (b, link) = Host::with_veth("b", 1, 2);
    let uplink = HostLink::device(&link).unwrap();
    client.attach_link(uplink, 0, properties("")).unwrap();
    let (c, _) = host(client, "c", 3, "");
    a.serve("iperf3 -s", 5201);
    let rate = rate_of(&b, "10.9.1.1", "5M", 10.0, 21.0);
    println!("  {rate:.1} Mb/s of 20, {:?}", client.stats(pa));
    // A port that shares the uplink does not wait for the limited port.
    let mut flood = std::process::Command::new("ip")
        .args(["netns", "exec", &b.name])
        .args(["iperf3", "-u", "-c", "10.9.1.1", "-b", "200M", "-t", "3"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("frames are too many", || {
        client.stats(pa).dropped(Reason::OverLimit) > 0
    });
    round_trip(&c, "10.9.1.2", 0.0, 15.0);
    flood.kill().unwrap();
    flood.wait().unwrap();
}

fn a_limit_is_changed_and_taken_away_live() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "maxbw=10M");
    let (mut b, _) = host(client, "b", 2, "");
    b.serve("iperf3 -s", 5201);
    let slow = rate_of(&a, "10.9.1.2", "2M", 0.0, 10.5);
    client.set_properties(pa, properties("maxbw=60M")).unwrap();
    let faster = rate_of(&a, "10.9.1.2", "10M", 15.0, 62.0);
    client.set_properties(pa, properties("")).unwrap();
    let free = rate_of(&a, "10.9.1.2", "50M", 70.0, f64::INFINITY);
    println!("  {slow:.0}, {faster:.0}, {free:.0} Mb/s");
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
    let own = rate_of(&a, "10.9.1.2", "1M", 0.0, 5.3);
    let speed = rate_of(&a, "10.9.1.3", "4M", 8.0, 21.0);
    println!("  {own:.1} and {speed:.1} Mb/s");
}

fn a_delay_adds_to_the_round_trip() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, pa) = host(client, "a", 1, "delay=20ms");
    let (mut b, pb) = host(client, "b", 2, "");
    a.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.2");
    round_trip(&a, "10.9.1.2", 20.0, 60.0);
    client
        .set_properties(pb, properties("delay=30ms,jitter=5ms"))
        .unwrap();
    round_trip(&a, "10.9.1.2", 45.0, 90.0);
    // A whole transfer fits on its way.
    b.serve("iperf3 -s", 5201);
    let rate = iperf(&a, "10.9.1.2", "5M");
    println!("  {rate:.0} Mb/s over the delay");
    for port in [pa, pb] {
        assert_eq!(client.stats(port).dropped(Reason::LineFull), 0);
    }
    client.set_properties(pa, properties("")).unwrap();
    client.set_properties(pb, properties("")).unwrap();
    round_trip(&a, "10.9.1.2", 0.0, 15.0);
}

fn losses_are_as_many_as_asked_for() {
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

fn spoofed_frames_are_dropped_and_counted() {
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

fn vlans_are_apart_and_trunks_bear_them_all() {
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
    // In another VLAN, no host answers.
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

fn a_flow_is_limited_and_others_are_not() {
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
    let limited = rate_of(&a, "10.9.1.2", "5M", 8.0, 21.0);
    let free = rate_of(&a, "10.9.1.2 -p 5202", "50M", 40.0, f64::INFINITY);
    let flows = client.flows().unwrap();
    println!(
        "  {limited:.1} Mb/s of 20, {free:.0} beside: {:?}",
        flows[0].stats
    );
    assert!(flows[0].stats.bytes > 3_000_000 && flows[0].stats.held > 0);
    let same = client.add_flow("other", FlowOn::Port(pa), flow, limit);
    let same = same.unwrap_err().to_string();
    assert!(same.contains("‘web’ has the same attributes"), "{same}");
    client.remove_flow("web").unwrap();
    rate_of(&a, "10.9.1.2", "50M", 40.0, f64::INFINITY);
    assert!(client.flows().unwrap().is_empty());
}

fn what_cannot_be_is_refused_in_a_sentence() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (_a, pa) = host(client, "a", 1, "maxbw=20M");
    let refused = |text: &str| {
        let error = client.set_properties(pa, properties(text)).unwrap_err();
        error.to_string()
    };
    let low = refused("maxbw=10K");
    assert!(low.contains("one frame a second needs 12.144K"), "{low}");
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
    assert!(name.unwrap_err().to_string().contains("is not a flow name"));
    let none = client.remove_flow("none").unwrap_err().to_string();
    assert!(none.contains("no flow ‘none’"), "{none}");
}
