//! The switch between real network stacks: namespaces on veth pairs with the kernel's default
//! offloads, TAP devices, and guests played by threads. Needs root; each in a process of its own,
//! since the switch is forked from a process without threads.

#[macro_use]
mod common;

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use common::{
    GuestMemory, Host, anonymous, descriptors, exchange, join, join_device, mappings, output, run,
    state, unique, wait_for,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use switch::counters::Reason;
use switch::links::{HostLink, Tap};
use switch::lookup::Mac;
use switch::process::Switch;
use switch::protocol::PortState;

/// Set for the run of this program that plays a parent to be killed.
const PARENT: &str = "SWITCH_TEST_PARENT";

fn main() {
    if let Ok(tap) = std::env::var(PARENT) {
        return play_parent(&tap);
    }
    common::run_all(tests![
        interfaces_of_one_domain_reach_each_other,
        a_tap_device_joins_a_domain_and_goes_with_its_port,
        a_vlan_tag_survives_the_switch,
        domains_are_apart,
        a_hostile_guest_has_its_port_closed,
        an_interface_that_goes_away_closes_its_port,
        a_killed_switch_is_noticed_and_leaves_nothing,
        a_killed_parent_ends_the_switch,
        a_switch_keeps_no_signals_and_no_standard_streams_but_errors,
        idle_guests_cost_no_time,
        attaching_and_detaching_leaves_nothing,
    ]);
}

fn interfaces_of_one_domain_reach_each_other() {
    let switch = Switch::spawn().unwrap();
    let (a, a_link) = Host::with_veth("a", 1, 1);
    let (mut b, b_link) = Host::with_veth("b", 1, 2);
    let [pa, pb] = [&a_link, &b_link].map(|link| join_device(switch.client(), link, 0));
    let rate = exchange(&a, &mut b, "300M");
    let [sa, sb] = [pa, pb].map(|port| switch.client().stats(port));
    println!("  interface to interface: {rate:.0} Mb/s");
    println!("  {sa:?}\n  {sb:?}");
    assert!(sa.frames_in > 0 && sb.frames_out > 0);
    assert_eq!(sa.dropped(Reason::Offload) + sb.dropped(Reason::Offload), 0);
    // Each counter is read by itself, and a host may say something at any time.
    wait_for("each frame was taken by poll or by wake-up", || {
        let stats = switch.client().stats(pa);
        stats.frames_in == stats.by_poll + stats.by_wakeup
    });
    run(&format!("ip link show {a_link}"));
    assert!(run(&format!("ip -d link show {a_link}")).contains("promiscuity 1"));
    drop(switch);
    wait_for("the interface is as it was", || {
        run(&format!("ip -d link show {a_link}")).contains("promiscuity 0")
    });
}

fn a_tap_device_joins_a_domain_and_goes_with_its_port() {
    let switch = Switch::spawn().unwrap();
    let tap = unique("t");
    let mac = Mac([2, 0, 0, 0, 7, 7]);
    let options = Tap {
        name: &tap,
        mac: Some(mac),
        mtu: 1500,
        owner: None,
    };
    let link = HostLink::open(&options).unwrap();
    assert_eq!(link.mac(), mac);
    let taken = HostLink::open(&options).unwrap_err().to_string();
    assert!(taken.contains("already an interface"), "{taken}");
    let port = join(switch.client(), link, 0);
    let host = Host::new("a");
    host.take(&tap, 1, 1);
    let (mut b, b_link) = Host::with_veth("b", 1, 2);
    join_device(switch.client(), &b_link, 0);
    let rate = exchange(&host, &mut b, "300M");
    println!("  TAP to interface: {rate:.0} Mb/s");
    switch.client().detach(&[port]).unwrap();
    wait_for("the TAP is gone", || {
        !host.output(&format!("ip link show {tap}")).status.success()
    });
}

/// A tagged frame from a raw socket: the kernel keeps the tag beside the frame on its way to the
/// switch.
const SEND_TAGGED: &str = "
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('eth0', 0))
link.send(bytes.fromhex('0200000009000200000000018100e00788b5') + bytes(range(80)))
";

fn a_vlan_tag_survives_the_switch() {
    let switch = Switch::spawn().unwrap();
    let (host, link) = Host::with_veth("a", 1, 1);
    join_device(switch.client(), &link, 0);
    let memory = GuestMemory::new("g", 64, 1);
    memory.attach(switch.client(), &[0]);
    let mut guest = memory.region.guest_side(0).unwrap();
    host.python(SEND_TAGGED);
    wait_for("the tagged frame", || {
        let n = guest.receive.filled(64).unwrap();
        let found = (0..n).any(|i| {
            let mut frame = [0; 2048];
            let len = guest
                .region
                .frame(guest.receive.peek(i))
                .unwrap()
                .read(&mut frame);
            frame[..18] == *b"\x02\0\0\0\x09\0\x02\0\0\0\0\x01\x81\0\xe0\x07\x88\xb5"
                && frame[18..len].iter().copied().eq(0..80)
        });
        guest.receive.release(n);
        found
    });
}

fn domains_are_apart() {
    let switch = Switch::spawn().unwrap();
    let (a, a_link) = Host::with_veth("a", 1, 1);
    let (_b, b_link) = Host::with_veth("b", 1, 2);
    for (domain, link) in [(1, a_link), (2, b_link)] {
        join_device(switch.client(), &link, domain);
    }
    assert!(!a.output("ping -q -c 1 -W 1 10.9.1.2").status.success());
    let ports = switch.client().ports().unwrap();
    assert_eq!(
        ports.iter().map(|port| port.domain).collect::<Vec<_>>(),
        [1, 2]
    );
}

fn a_hostile_guest_has_its_port_closed() {
    let switch = Switch::spawn().unwrap();
    let client = switch.client();
    let (hostile, honest) = (
        GuestMemory::new("bad", 64, 1),
        GuestMemory::new("good", 64, 1),
    );
    let bad = hostile.attach(client, &[0])[0];
    let good = honest.attach(client, &[0])[0];
    let mut side = hostile.region.guest_side(0).unwrap();
    wait_for("the port is closed", || {
        // Ever more slots than the ring has, with the bytes that the slots hold.
        side.transmit.publish(1000);
        rustix::io::write(&hostile.doorbell, &1u64.to_ne_bytes()).unwrap();
        state(client, bad) == PortState::Closed
    });
    assert!(client.stats(bad).dropped(Reason::Violation) > 0);
    assert_eq!(state(client, good), PortState::Open);
    client.detach(&[bad, good]).unwrap();
}

fn an_interface_that_goes_away_closes_its_port() {
    let switch = Switch::spawn().unwrap();
    let (host, link) = Host::with_veth("a", 1, 1);
    let port = join_device(switch.client(), &link, 0);
    let closed = || state(switch.client(), port) == PortState::Closed;
    run(&format!("ip link set {link} down"));
    run(&format!("ip link set {link} up"));
    assert!(!closed(), "going down and up is not the end");
    drop(host);
    wait_for("the port is closed", closed);
    let tap = unique("t");
    let port = join(switch.client(), common::tap(&tap), 0);
    run(&format!("ip link del {tap}"));
    wait_for("the TAP's port is closed", || {
        state(switch.client(), port) == PortState::Closed
    });
}

fn a_killed_switch_is_noticed_and_leaves_nothing() {
    let switch = Switch::spawn().unwrap();
    let tap = unique("t");
    join(switch.client(), common::tap(&tap), 0);
    run(&format!("ip link show {tap}"));
    run(&format!("kill -9 {}", switch.pid().as_raw_pid()));
    let mut ended = [PollFd::from_borrowed_fd(switch.ended(), PollFlags::IN)];
    let limit = Timespec::try_from(common::LIMIT).unwrap();
    assert_eq!(rustix::event::poll(&mut ended, Some(&limit)), Ok(1));
    let mut socket = [PollFd::from_borrowed_fd(
        switch.client().as_fd(),
        PollFlags::IN,
    )];
    assert_eq!(rustix::event::poll(&mut socket, Some(&limit)), Ok(1));
    let error = switch.client().ports().unwrap_err().to_string();
    assert_eq!(error, "the switch has ended");
    wait_for("the TAP is gone", || {
        !output(&format!("ip link show {tap}")).status.success()
    });
}

/// Starts a switch with a TAP, tells its process id, and waits to be killed.
fn play_parent(tap: &str) {
    let switch = Switch::spawn().unwrap();
    join(switch.client(), common::tap(tap), 0);
    println!("{}", switch.pid().as_raw_pid());
    std::thread::sleep(Duration::from_secs(30));
}

fn a_killed_parent_ends_the_switch() {
    let tap = unique("t");
    let (mut parent, switch) = common::played_parent(PARENT, tap.as_ref());
    assert!(output(&format!("ip link show {tap}")).status.success());
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_for("the switch has ended", || {
        !output(&format!("ip link show {tap}")).status.success() && !is_alive(switch)
    });
}

/// Whether a process is there and more than its exit status.
fn is_alive(process: i32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Time that a process has used, in ticks of 10 ms.
fn ticks(process: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split(' ').collect();
    fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap()
}

/// Ignores and blocks signals as a parent may, for as long as a switch starts.
#[allow(unsafe_code)]
fn with_odd_signals<T>(then: impl FnOnce() -> T) -> T {
    // SAFETY: ignoring and blocking signals runs no code; the sets are filled in before use. Both
    // are undone.
    unsafe {
        let mut block = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigemptyset(&mut block);
        libc::sigaddset(&mut block, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &block, &mut before);
        let old = libc::signal(libc::SIGTERM, libc::SIG_IGN);
        let result = then();
        libc::signal(libc::SIGTERM, old);
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

fn a_switch_keeps_no_signals_and_no_standard_streams_but_errors() {
    let leaked = fs::File::open("/dev/zero").unwrap();
    let switch = with_odd_signals(|| Switch::spawn().unwrap());
    switch.client().ports().unwrap();
    drop(leaked);
    let proc = format!("/proc/{}", switch.pid().as_raw_pid());
    let target = |fd: &str| fs::read_link(format!("{proc}/fd/{fd}")).unwrap();
    assert_eq!(target("0").as_os_str(), "/dev/null");
    assert_eq!(target("1").as_os_str(), "/dev/null");
    assert_eq!(target("2"), fs::read_link("/proc/self/fd/2").unwrap());
    for entry in fs::read_dir(format!("{proc}/fd")).unwrap() {
        assert_ne!(
            fs::read_link(entry.unwrap().path()).unwrap().as_os_str(),
            "/dev/zero"
        );
    }
    let status = fs::read_to_string(format!("{proc}/status")).unwrap();
    let mask = |what: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(what));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    };
    let bit = |signal: libc::c_int| 1u64 << (signal - 1);
    // SIGPIPE is ignored by every Rust program.
    let reset = bit(libc::SIGTERM) | bit(libc::SIGPIPE) | bit(libc::SIGUSR1);
    assert_eq!(mask("SigBlk:"), 0);
    assert_eq!((mask("SigIgn:") | mask("SigCgt:")) & reset, 0);
}

fn idle_guests_cost_no_time() {
    const GUESTS: u32 = 2000;
    let switch = Switch::spawn().unwrap();
    let pid = switch.pid().as_raw_pid();
    let before = anonymous(pid);
    let started = Instant::now();
    for domain in 0..GUESTS {
        // Its file and mapping are gone here at the end of each round, and stay in the switch.
        GuestMemory::new("g", 64, 2).attach(switch.client(), &[domain, domain + 1]);
    }
    println!(
        "  {GUESTS} guests with two ports each: {:.0} µs and {} KiB a guest",
        started.elapsed().as_secs_f64() * 1e6 / f64::from(GUESTS),
        (anonymous(pid) - before) / u64::from(GUESTS)
    );
    assert_eq!(switch.client().ports().unwrap().len(), 2 * GUESTS as usize);
    let rests = |time| {
        let before = ticks(pid);
        std::thread::sleep(Duration::from_millis(time));
        ticks(pid) == before
    };
    wait_for("all is attached", || rests(100));
    assert!(rests(500));
}

fn attaching_and_detaching_leaves_nothing() {
    let switch = Switch::spawn().unwrap();
    let pid = switch.pid().as_raw_pid();
    let ours = std::process::id() as i32;
    let held = || (descriptors(pid), descriptors(ours), mappings(pid).len());
    let round = || {
        let tap = join(switch.client(), common::tap(&unique("t")), 1);
        let guest = GuestMemory::new("g", 64, 2);
        let mut ports = guest.attach(switch.client(), &[1, 2]);
        ports.push(tap);
        switch.client().detach(&ports).unwrap();
    };
    round();
    let before = held();
    for _ in 0..100 {
        round();
    }
    assert_eq!(held(), before);
    assert!(switch.client().ports().unwrap().is_empty());
    assert!(switch.client().detach(&[]).is_ok());
}
