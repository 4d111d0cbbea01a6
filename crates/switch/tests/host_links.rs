//! Host links between real network stacks, each by every kind of socket: namespaces on veth pairs
//! with the kernel's default offloads. Needs root; each in a process of its own, since the switch is
//! forked from a process without threads.

#[macro_use]
mod common;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use common::{
    GuestMemory, Host, Wire, descriptors, exchange, iperf, join, mappings, run, state, wait_for,
};
use switch::client::SwitchClient;
use switch::counters::Reason;
use switch::links::{Device, Gro, HostLink, Mode, Vxlan, XdpMode};
use switch::lookup::Mac;
use switch::port::LinkRecord;
use switch::port::vxlan::Neighbor;
use switch::process::{Options, Switch};
use switch::protocol::PortState;

fn main() {
    common::run_all(tests![
        interfaces_are_joined_by_af_xdp,
        af_xdp_and_af_packet_reach_each_other,
        tcp_crosses_a_guest_in_whole_frames,
        tcp_crosses_a_guest_by_af_xdp_in_whole_frames,
        an_interface_that_goes_away_under_load_leaves_the_others,
        a_killed_switch_leaves_no_xdp_program,
        a_links_queues_are_served_by_lanes,
        links_that_come_and_go_leave_nothing,
        gro_is_on_for_as_long_as_it_is_held,
        vxlan_reaches_the_kernels_own,
        vxlan_sends_what_is_for_all_to_each_remote,
        vxlan_answers_for_addresses_that_it_is_told,
        vxlan_refuses_what_is_not_its_own,
    ]);
}

fn tcp_crosses_a_guest_in_whole_frames() {
    tcp_crosses_a_guest(Mode::Packet);
}

fn tcp_crosses_a_guest_by_af_xdp_in_whole_frames() {
    tcp_crosses_a_guest(Mode::Xdp);
}

/// An interface, opened in this mode.
fn opened(name: &str, mode: Mode) -> HostLink {
    HostLink::attach(&Device { name, mode }).unwrap()
}

fn has_program(interface: &str) -> bool {
    run(&format!("ip -d link show {interface}")).contains("prog/xdp")
}

fn interfaces_are_joined_by_af_xdp() {
    let switch = Switch::spawn().unwrap();
    let (a, a_link) = Host::with_veth("a", 1, 1);
    let (mut b, b_link) = Host::with_veth("b", 1, 2);
    let client = switch.client();
    let [pa, pb] = [&a_link, &b_link].map(|name| {
        let link = opened(name, Mode::Xdp);
        assert_eq!(link.record(), &LinkRecord::Xdp(XdpMode::Native));
        join(client, link, 0)
    });
    assert!(has_program(&a_link) && has_program(&b_link));
    let taken = HostLink::attach(&Device {
        name: &a_link,
        mode: Mode::Xdp,
    });
    let taken = taken.unwrap_err().to_string();
    assert!(taken.contains("already has an AF_XDP socket"), "{taken}");
    let rate = exchange(&a, &mut b, "200M");
    let [sa, sb] = [pa, pb].map(|port| {
        client.catch_up(port).unwrap();
        client.stats(port)
    });
    println!("  AF_XDP to AF_XDP: {rate:.0} Mb/s");
    println!("  {sa:?}\n  {sb:?}");
    assert!(sa.frames_in > 0 && sb.frames_out > 0);
    assert_eq!(sa.dropped(Reason::Offload) + sb.dropped(Reason::Offload), 0);
    assert_eq!(sa.dropped(Reason::TooLong) + sb.dropped(Reason::TooLong), 0);
    assert_eq!(sa.frames_in, sa.by_poll + sa.by_wakeup);
    assert!(run(&format!("ip -d link show {a_link}")).contains("promiscuity 1"));
    client.detach(&[pa]).unwrap();
    wait_for("the interface is as it was", || {
        !has_program(&a_link) && run(&format!("ip -d link show {a_link}")).contains("promiscuity 0")
    });
    assert!(has_program(&b_link));
}

fn af_xdp_and_af_packet_reach_each_other() {
    let switch = Switch::spawn().unwrap();
    let (a, a_link) = Host::with_veth("a", 1, 1);
    let (mut b, b_link) = Host::with_veth("b", 1, 2);
    let client = switch.client();
    join(client, opened(&a_link, Mode::Xdp), 0);
    let packet = opened(&b_link, Mode::Packet);
    assert_eq!(packet.record(), &LinkRecord::Packet(()));
    let pb = join(client, packet, 0);
    let rate = exchange(&a, &mut b, "100M");
    println!("  AF_XDP to AF_PACKET: {rate:.0} Mb/s");
    // The other way, whole segments come, to be cut.
    b.run("ping -q -c 1 -W 2 10.9.1.1");
    let mut a = a;
    a.serve("iperf3 -s", 5201);
    let rate = iperf(&b, "10.9.1.1", "100M");
    println!("  AF_PACKET to AF_XDP: {rate:.0} Mb/s");
    println!("  {:?}", client.stats(pb));
}

fn gro_is_on_for_as_long_as_it_is_held() {
    let (_host, link) = Host::with_veth("a", 1, 1);
    let has_gro = || run(&format!("ethtool -k {link}")).contains("generic-receive-offload: on");
    assert!(!has_gro());
    drop(opened(&link, Mode::Packet));
    assert!(!has_gro(), "no other link held it");
    let gro = opened(&link, Mode::Packet).take_gro();
    assert!(gro.is_some() && has_gro());
    // A link that finds GRO on leaves it on.
    assert!(opened(&link, Mode::Packet).take_gro().is_none() && has_gro());
    drop(gro);
    assert!(!has_gro());
    opened(&link, Mode::Packet).take_gro().unwrap().keep();
    assert!(has_gro());
    Gro::turn_off(&link);
    assert!(!has_gro());
    // An interface that is gone takes it along.
    let gro = opened(&link, Mode::Packet).take_gro();
    run(&format!("ip link del {link}"));
    drop(gro);
}

fn a_killed_switch_leaves_no_xdp_program() {
    let switch = Switch::spawn().unwrap();
    let (_host, link) = Host::with_veth("a", 1, 1);
    let client = switch.client();
    join(client, opened(&link, Mode::Xdp), 0);
    assert!(has_program(&link));
    run(&format!("kill -9 {}", switch.pid().as_raw_pid()));
    wait_for("the program is gone", || !has_program(&link));
    wait_for("the interface is as it was", || {
        run(&format!("ip -d link show {link}")).contains("promiscuity 0")
    });
    // And can be attached again at once.
    drop(opened(&link, Mode::Xdp));
    assert!(!has_program(&link));
}

/// Some 10 000 frames a second from `eth0` to an address that no host has, for a minute at most.
const SEND_ON: &str = "
import socket, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('eth0', 0))
frame = bytes.fromhex('02000000090002000000000188b5') + bytes(100)
for _ in range(60_000):
    for _ in range(10):
        link.send(frame)
    time.sleep(0.001)
";

fn an_interface_that_goes_away_under_load_leaves_the_others() {
    for mode in [Mode::Packet, Mode::Xdp] {
        let switch = Switch::spawn().unwrap();
        let client = switch.client();
        let (mut a, a_link) = Host::with_veth("a", 1, 1);
        let (mut b, b_link) = Host::with_veth("b", 1, 2);
        let (c, c_link) = Host::with_veth("c", 1, 3);
        let (_d, d_link) = Host::with_veth("d", 1, 4);
        let links = [&a_link, &b_link, &c_link, &d_link];
        let [pa, pb, pc, pd] = links.map(|name| join(client, opened(name, mode), 0));
        a.start(&["python3", "-c", SEND_ON]);
        b.start(&["python3", "-c", SEND_ON]);
        wait_for("a's and b's frames reach d", || {
            client.stats(pd).frames_out > 1000
        });
        // One that sends goes, and one that only receives.
        drop(a);
        run(&format!("ip link del {d_link}"));
        wait_for("the two are closed and no other is", || {
            let closed = |port| state(client, port) == PortState::Closed;
            assert!(!closed(pb) && !closed(pc), "{mode:?}");
            closed(pa) && closed(pd)
        });
        wait_for("what is for the closed one is counted", || {
            client.stats(pd).dropped(Reason::Closed) > 0
        });
        let before = client.stats(pc).frames_out;
        wait_for("b's frames still reach c", || {
            client.stats(pc).frames_out > before + 100
        });
        c.run("ping -q -c 2 -i 0.05 -W 2 10.9.1.2");
        run(&format!("ip link set {c_link} down"));
        wait_for("frames for what is down are counted", || {
            client.stats(pc).dropped(Reason::LinkDown) > 0
        });
        run(&format!("ip link set {c_link} up"));
        wait_for("frames reach c again", || {
            c.output("ping -q -c 1 -W 1 10.9.1.2").status.success()
        });
        assert_eq!(state(client, pc), PortState::Open);
    }
}

fn tcp_crosses_a_guest(mode: Mode) {
    let switch = Switch::spawn().unwrap();
    let (a, a_link) = Host::with_veth("a", 1, 1);
    let (mut b, b_link) = Host::with_veth("b", 1, 2);
    let client = switch.client();
    let pa = join(client, opened(&a_link, mode), 1);
    let pb = join(client, opened(&b_link, mode), 2);
    let memory = GuestMemory::new("wire", 512, 2);
    let guest = memory.attach(client, &[1, 2]);
    let wire = Wire::start(&memory);
    let rate = exchange(&a, &mut b, "50M");
    println!("  through a guest ({mode:?}): {rate:.0} Mb/s");
    for port in [pa, pb, guest[0], guest[1]] {
        println!("  {:?}", client.stats(port));
    }
    let count =
        |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert!(count(&wire.seen.frames) > 50_000);
    assert_eq!(count(&wire.seen.too_long), 0);
    assert_eq!(count(&wire.seen.bad_checksums), 0);
    wait_for("it sleeps and is woken", || {
        a.run("ping -q -c 1 10.9.1.2");
        count(&wire.seen.sleeps) > 0 && client.stats(guest[0]).wakeups > 0
    });
}

/// A host beyond an underlay network, with a VXLAN device of its kernel's: `vx0`, network 42.
struct Beyond {
    host: Host,
    /// Its address and ours in the underlay.
    theirs: IpAddr,
    ours: IpAddr,
}

impl Beyond {
    /// The `n`-th such host; its underlay takes packets of 1600 bytes. By IPv6 or IPv4.
    fn new(n: u8, v6: bool) -> Beyond {
        // So that runs beside each other have their own networks.
        let network = 10 + 3 * (std::process::id() % 80) as u8 + n;
        let (host, link) = Host::with_veth(&format!("u{n}"), network, 2);
        let addresses = [1, 2].map(|end| match v6 {
            true => format!("fd09:{network}::{end}").parse::<IpAddr>().unwrap(),
            false => IpAddr::from([10, 9, network, end]),
        });
        let [ours, theirs] = addresses;
        let prefix = if v6 { "64 nodad" } else { "24" };
        run(&format!("ip link set {link} mtu 1600"));
        run(&format!("ip addr add {ours}/{prefix} dev {link}"));
        host.run("ip link set eth0 mtu 1600");
        host.run(&format!(
            "ip link add vx0 type vxlan id 42 remote {ours} dstport 4789 dev eth0"
        ));
        host.run("ip link set vx0 mtu 1500");
        Beyond { host, theirs, ours }
    }
}

fn vxlan_link(beyond: &[&Beyond]) -> HostLink {
    vxlan_link_told(beyond, &[])
}

/// The same, told of addresses behind the remotes.
fn vxlan_link_told(beyond: &[&Beyond], neighbors: &[Neighbor]) -> HostLink {
    let remotes: Vec<_> = beyond.iter().map(|beyond| beyond.theirs).collect();
    HostLink::open(&Vxlan {
        name: "vx",
        vni: 42,
        local: (beyond.len() == 1).then(|| beyond[0].ours),
        remotes: &remotes,
        neighbors,
        port: None,
        mtu: None,
    })
    .unwrap()
}

fn vxlan_reaches_the_kernels_own() {
    for v6 in [false, true] {
        let switch = Switch::spawn().unwrap();
        let client = switch.client();
        let (mut a, a_link) = Host::with_veth("a", 1, 1);
        let mut beyond = Beyond::new(0, v6);
        beyond.host.configure("vx0", 1, 2);
        join(client, opened(&a_link, Mode::Packet), 0);
        let link = vxlan_link(&[&beyond]);
        assert_eq!(link.mtu(), 1500, "the way takes more");
        let port = join(client, link, 0);
        let there = exchange(&a, &mut beyond.host, "100M");
        a.serve("iperf3 -s", 5201);
        let back = iperf(&beyond.host, "10.9.1.1", "100M");
        client.catch_up(port).unwrap();
        let stats = client.stats(port);
        println!("  VXLAN to the kernel's: {there:.0} Mb/s, and back: {back:.0} Mb/s");
        println!("  {stats:?}");
        assert!(stats.frames_in > 0 && stats.frames_out > 0);
        for reason in [Reason::BadTunnel, Reason::UnknownRemote, Reason::TooLong] {
            assert_eq!(stats.dropped(reason), 0, "{reason:?}");
        }
        let is_open = || run("ss -Hlun").contains(&SocketAddr::new(beyond.ours, 4789).to_string());
        assert!(is_open());
        client.detach(&[port]).unwrap();
        wait_for("the socket is closed", || !is_open());
    }
}

fn vxlan_sends_what_is_for_all_to_each_remote() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, a_link) = Host::with_veth("a", 1, 1);
    let beyond = [Beyond::new(1, false), Beyond::new(2, false)];
    beyond[0].host.configure("vx0", 1, 2);
    beyond[1].host.configure("vx0", 1, 3);
    join(client, opened(&a_link, Mode::Packet), 0);
    let link = vxlan_link(&[&beyond[0], &beyond[1]]);
    let port = join(client, link, 0);
    // ARP requests go to all ports; the pings behind them go to one.
    a.run("ping -q -c 3 -i 0.05 -W 2 10.9.1.2");
    a.run("ping -q -c 3 -i 0.05 -W 2 10.9.1.3");
    let received = |host: &Host| -> u64 {
        let packets = host.run("cat /sys/class/net/vx0/statistics/rx_packets");
        packets.trim().parse().unwrap()
    };
    let before = beyond.each_ref().map(|beyond| received(&beyond.host));
    a.run("ping -q -c 50 -i 0.01 -W 2 10.9.1.2");
    let after = beyond.each_ref().map(|beyond| received(&beyond.host));
    assert!(after[0] >= before[0] + 50);
    assert!(after[1] < before[1] + 25, "what is for one goes to one");
    // What comes from one remote does not go to another.
    let there = beyond[0].host.output("ping -q -c 1 -W 1 10.9.1.3");
    assert!(!there.status.success());
    assert_eq!(client.stats(port).dropped(Reason::UnknownRemote), 0);
}

fn vxlan_answers_for_addresses_that_it_is_told() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (a, a_link) = Host::with_veth("a", 1, 1);
    let beyond = Beyond::new(0, false);
    join(client, opened(&a_link, Mode::Packet), 0);
    let told = Neighbor {
        mac: Mac([2, 0, 0, 0, 0, 7]),
        remote: 0,
        ips: vec![Ipv4Addr::new(10, 9, 1, 7)],
    };
    join(client, vxlan_link_told(&[&beyond], &[told]), 0);
    // Nobody there has either address.
    let known = |address: &str| {
        a.output(&format!("ping -q -c 1 -W 1 {address}"));
        a.run(&format!("ip neigh show {address}"))
    };
    assert!(known("10.9.1.7").contains("lladdr 02:00:00:00:00:07"));
    assert!(!known("10.9.1.8").contains("lladdr"));
}

/// UDP packets to a VXLAN port: of another network, without its header, too short, and a runt.
const SEND_STRANGE: &str = "
import socket
def send(to, text, source=None):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if source:
        link.bind((source, 0))
    link.sendto(bytes.fromhex(text), (to, 4789))
frame = '02000000090002000000000188b5' + '00' * 50
";

fn vxlan_refuses_what_is_not_its_own() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let beyond = Beyond::new(0, false);
    let port = join(client, vxlan_link(&[&beyond]), 0);
    let (ours, stranger) = (beyond.ours, beyond.theirs.to_string() + "2");
    beyond
        .host
        .run(&format!("ip addr add {stranger}/24 dev eth0"));
    beyond.host.python(&format!(
        "{SEND_STRANGE}
send('{ours}', '0800000000002b00' + frame)
send('{ours}', '0000000000002a00' + frame)
send('{ours}', '08000000')
send('{ours}', '0800000000002a00' + frame[:20])
send('{ours}', '0800000000002a00' + frame, '{stranger}')
send('{ours}', '0800000000002a00' + frame)
"
    ));
    wait_for("all are counted", || client.stats(port).frames_in == 1);
    let stats = client.stats(port);
    assert_eq!(stats.dropped(Reason::BadTunnel), 3);
    assert_eq!(stats.dropped(Reason::Runt), 1);
    assert_eq!(stats.dropped(Reason::UnknownRemote), 1);
    assert_eq!(stats.bytes_in, 64);
}

/// 400 flows of one packet each.
const SEND_FLOWS: &str = "
import socket
for port in range(400):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(('', 10000 + port))
    link.sendto(b'flow', ('10.9.1.2', 9))
";

fn a_links_queues_are_served_by_lanes() {
    for mode in [Mode::Packet, Mode::Xdp] {
        let options = Options {
            lanes: 2,
            cpus: Vec::new(),
        };
        let switch = Switch::spawn_with(&options).unwrap();
        let client = switch.client();
        // Two queues each way, so that there are two by AF_XDP, too.
        let (a, a_link) = Host::with_queues("a", 1, 1, 2);
        let (mut b, b_link) = Host::with_queues("b", 1, 2, 2);
        let [pa, pb] = [&a_link, &b_link].map(|name| {
            let link = HostLink::attach_lanes(&Device { name, mode }, 2).unwrap();
            join(client, link, 0)
        });
        let rate = exchange(&a, &mut b, "50M");
        // What is left of that is still on its way.
        let mut before = client.stats(pa).frames_in;
        wait_for("the link is quiet", || {
            std::thread::sleep(Duration::from_millis(100));
            let now = client.stats(pa).frames_in;
            std::mem::replace(&mut before, now) == now
        });
        let lanes = |client: &SwitchClient| -> Vec<u64> {
            let lanes = client.lane_stats().unwrap();
            lanes.iter().map(|lane| lane.frames).collect()
        };
        let lanes_before = lanes(client);
        a.python(SEND_FLOWS);
        wait_for("the flows are in", || {
            client.stats(pa).frames_in >= before + 400
        });
        std::thread::sleep(Duration::from_millis(50));
        // ARP and the like may come besides, but no frame comes twice.
        let came = client.stats(pa).frames_in - before;
        assert!((400..450).contains(&came), "{mode:?}: {came} frames");
        let lanes_after = lanes(client);
        println!("  {mode:?}: {rate:.0} Mb/s; lanes: {lanes_before:?}, then {lanes_after:?}");
        for (before, after) in lanes_before.iter().zip(&lanes_after) {
            assert!(
                after - before > 50,
                "{mode:?}: a lane has too few of the flows"
            );
        }
        assert!(client.stats(pb).frames_out > 0);
        assert_eq!(client.stats(pb).dropped(Reason::Closed), 0);
    }
}

fn links_that_come_and_go_leave_nothing() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (_a, a_link) = Host::with_veth("a", 1, 1);
    let beyond = Beyond::new(0, false);
    let pid = switch.pid().as_raw_pid();
    let ours = std::process::id() as i32;
    let held = || (descriptors(ours), descriptors(pid));
    let by_xdp = || {
        let maps = mappings(pid);
        let by_xdp = |map: &&String| map.contains("XDP") || map.contains("umem");
        maps.iter().filter(by_xdp).count()
    };
    let round = || {
        let links = [opened(&a_link, Mode::Xdp), vxlan_link(&[&beyond])];
        let ports = links.map(|link| join(client, link, 0));
        assert!(by_xdp() > 0);
        client.detach(&ports).unwrap();
        let packet = join(client, opened(&a_link, Mode::Packet), 0);
        client.detach(&[packet]).unwrap();
    };
    round();
    let before = held();
    for _ in 0..30 {
        round();
    }
    assert_eq!(held(), before);
    assert_eq!(by_xdp(), 0);
    assert!(!has_program(&a_link));
    wait_for("the interface is as it was", || {
        run(&format!("ip -d link show {a_link}")).contains("promiscuity 0")
    });
}
