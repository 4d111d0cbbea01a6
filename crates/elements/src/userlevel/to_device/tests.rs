//! FromDevice and ToDevice over a veth pair, in a network namespace of each test's own.

use std::format;
use std::fs::File;
use std::process::Command;
use std::string::String;
use std::time::{Duration, Instant};
use std::vec;
use std::vec::Vec;

use nix::sched::{CloneFlags, setns};
use packet::PacketType;
use packet::anno::EXTRA_LENGTH;

use crate::testing::{Rig, ether};

/// An Ethernet type for local experiments (IEEE 802), so that the host's own frames stay out.
const KIND: u16 = 0x88b5;
const FILTER: &str = "PROTOCOL 0x88b5";

/// A namespace with the veth pair `veth0` and `veth1` in it.
struct Namespace(String);

impl Namespace {
    fn new(test: &str) -> Namespace {
        let namespace = Namespace(format!("weir-{test}-{}", std::process::id()));
        run(&format!("netns add {namespace}", namespace = namespace.0));
        namespace.ip("link add veth0 mtu 9000 type veth peer name veth1 mtu 9000");
        namespace.ip("link set veth0 up");
        namespace.ip("link set veth1 up");
        namespace
    }

    fn ip(&self, arguments: &str) -> String {
        run(&format!("-n {} {arguments}", self.0))
    }

    /// Runs a test in the namespace.
    fn within(&self, test: impl FnOnce() + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).expect("the namespace is there");
        let entered = move || {
            setns(file, CloneFlags::CLONE_NEWNET).expect("the namespace can be entered");
            test();
        };
        std::thread::scope(|scope| {
            let done = scope.spawn(entered).join();
            done.expect("the test ends well");
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

fn run(arguments: &str) -> String {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    let ran = ran.expect("there is an ip command");
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "ip {arguments}: {error}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Whether the tests can be run; says if not.
fn can_run() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        std::println!("skipped: packet sockets and namespaces need root");
    }
    root
}

/// Runs the router, and tells its elements of descriptors, until `done` or for two seconds.
fn run_until(rig: &mut Rig, mut done: impl FnMut(&mut Rig) -> bool) {
    let end = Instant::now() + Duration::from_secs(2);
    while !done(rig) && Instant::now() < end {
        rig.advance(1_000_000);
        for watch in rig.router.watches().to_vec() {
            rig.router
                .selected(watch.element, watch.fd, watch.read, watch.write);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn frame(length: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..length - 14).map(|n| n as u8).collect();
    ether([0xff; 6], [2, 0, 0, 0, 0, 7], KIND, &payload)
}

#[test]
fn frames_cross_a_veth_pair() {
    if !can_run() {
        return;
    }
    Namespace::new("cross").within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> t :: ToDevice(veth0, BURST 8) -> s :: Collect;
             f :: FromDevice(veth1, BURST 4, SNAPLEN 65535, {FILTER}) -> c :: Collect;"
        ));
        let frames = [frame(60), frame(1514), frame(5000), frame(60), frame(9014)];
        rig.push_all("i", &frames);
        run_until(&mut rig, |rig| rig.read("f.count") == "5");
        let packets = rig.collected("c");
        let data: Vec<&[u8]> = packets.iter().map(|packet| packet.data()).collect();
        assert_eq!(data, frames);
        assert_eq!(packets[0].packet_type(), PacketType::Broadcast);
        assert_eq!(packets[0].mac_offset(), Some(0));
        assert!(packets[0].timestamp() > 1_600_000_000_000_000_000);
        assert_eq!(rig.collected("s").len(), 5);
        assert_eq!((rig.read("f.kernel_drops"), rig.read("f.encap")), ("0".into(), "ETHER".into()));
        assert_eq!(rig.read("t.q"), "false");
    });
}

#[test]
fn frames_are_cut_to_snaplen_and_counted() {
    if !can_run() {
        return;
    }
    Namespace::new("snaplen").within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> ToDevice(veth0);
             f :: FromDevice(veth1, SNAPLEN 100, TIMESTAMP false, {FILTER}) -> c :: Collect;"
        ));
        rig.push("i", &frame(3000));
        run_until(&mut rig, |rig| rig.read("f.count") == "1");
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), &frame(3000)[..100]);
        assert_eq!(packets[0].anno(EXTRA_LENGTH), 2900);
        assert_eq!(packets[0].timestamp(), 0);
    });
}

#[test]
fn what_the_host_sends_is_seen_only_if_asked_for() {
    if !can_run() {
        return;
    }
    Namespace::new("outbound").within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> ToDevice(veth0);
             f :: FromDevice(veth0, OUTBOUND true, {FILTER}) -> c :: Collect;
             g :: FromDevice(veth0, {FILTER}) -> d :: Collect;"
        ));
        rig.push("i", &frame(60));
        run_until(&mut rig, |rig| rig.read("f.count") == "1");
        assert_eq!(rig.collected("c")[0].packet_type(), PacketType::Outgoing);
        assert_eq!(rig.read("g.count"), "0");
    });
}

#[test]
fn an_interface_is_promiscuous_while_it_is_listened_to() {
    if !can_run() {
        return;
    }
    let namespace = Namespace::new("promisc");
    namespace.within(|| {
        let promiscuity = || {
            let shown = namespace.ip("-d link show veth1");
            let words: Vec<&str> = shown.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "promiscuity");
            String::from(words[at.unwrap() + 1])
        };
        let rig = Rig::new("FromDevice(veth1, true) -> Discard;");
        assert_eq!(promiscuity(), "1");
        rig.end();
        assert_eq!(promiscuity(), "0");
    });
}

#[test]
fn an_interface_that_goes_away_is_told_of_once() {
    if !can_run() {
        return;
    }
    let namespace = Namespace::new("gone");
    namespace.within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> t :: ToDevice(veth0) -> Discard; t[1] -> l :: Collect;
             f :: FromDevice(veth1, {FILTER}) -> c :: Collect;"
        ));
        rig.push("i", &frame(60));
        run_until(&mut rig, |rig| rig.read("f.count") == "1");
        namespace.ip("link del veth0");
        rig.push_all("i", &vec![frame(60); 3]);
        let mut lost = 0;
        run_until(&mut rig, |rig| {
            lost += rig.collected("l").len();
            lost == 3
        });
        assert_eq!(lost, 3);
        for _ in 0..20 {
            run_until(&mut rig, |_| true);
            rig.advance(1_000_000);
        }
        let printed = rig.printed();
        let of = |who: &str| printed.iter().filter(|line| line.contains(who)).count();
        assert_eq!(of("FromDevice(veth1): recvfrom: Network is down"), 1, "{printed:?}");
        assert!((1..=2).contains(&of("ToDevice(veth0): ")), "{printed:?}");
    });
}

#[test]
fn wrong_devices_are_refused_in_clicks_words() {
    if !can_run() {
        return;
    }
    Namespace::new("wrong").within(|| {
        let error = |config: &str, text: &str| {
            let errors = Rig::errors(config);
            assert!(errors.contains(text), "{errors}");
        };
        error("FromDevice(nope) -> Discard;", "nope: SIOCGIFINDEX: No such device");
        error("Idle -> ToDevice(nope);", "nope: SIOCGIFINDEX: No such device");
        error(
            "Idle -> ToDevice(veth0); Idle -> ToDevice(veth0);",
            "duplicate writer for device 'veth0'",
        );
        error("FromDevice(veth0, SNAPLEN 13) -> Discard;", "SNAPLEN out of range");
        error("FromDevice(veth0, BURST 0) -> Discard;", "BURST out of range");
        error("FromDevice(veth0, METHOD FOO) -> Discard;", "bad METHOD");
        error("Idle -> ToDevice(veth0, BURST 0);", "bad BURST");
    });
}
