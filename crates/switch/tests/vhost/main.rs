//! The switch and vhost-user frontends: DPDK's testpmd, one that this program plays by the book,
//! and one that breaks every rule. Needs root for the switch's sake; one after the other, since the
//! switch is forked from a process without threads.

#[path = "../common/mod.rs"]
mod common;
mod testpmd;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{unique, wait_for};
use switch::client::SwitchClient;
use switch::counters::Reason;
use switch::links::{HostLink, VhostUser};
use switch::process::Switch;
use switch::properties::PortProperties;
use switch::protocol::PortId;
use testpmd::Testpmd;

const TESTS: &[(&str, fn())] = &[
    ("two_testpmds_exchange_what_both_counted", two_testpmds),
    ("a_killed_testpmd_comes_back", a_killed_testpmd),
];

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    for (name, test) in TESTS {
        if filter
            .as_ref()
            .is_some_and(|filter| !name.contains(filter.as_str()))
        {
            continue;
        }
        let started = Instant::now();
        test();
        println!(
            "test {name} ... ok ({:.1} s)",
            started.elapsed().as_secs_f32()
        );
    }
}

/// Whether testpmd is there; says so if not.
fn has_testpmd() -> bool {
    let mut command = Command::new("dpdk-testpmd");
    command
        .args(["--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let found = command.status().is_ok();
    if !found {
        println!("skipped: dpdk-testpmd is missing (Debian's package dpdk-dev)");
    }
    found
}

const A: &str = "52:54:00:00:00:0a";
const B: &str = "52:54:00:00:00:0b";

/// A port that frontends connect to.
struct Socket {
    path: PathBuf,
    port: PortId,
}

impl Socket {
    fn new(switch: &SwitchClient, what: &str, domain: u32) -> Socket {
        let path = std::env::temp_dir().join(unique(what));
        let link = HostLink::vhost_user(&VhostUser {
            path: &path,
            name: what,
            mtu: 1500,
            owner: None,
        });
        let port = switch.attach_link(link.expect("a socket"), domain, PortProperties::default());
        Socket {
            path,
            port: port.expect("attached"),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn two_testpmds() {
    if !has_testpmd() {
        return;
    }
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (a, b) = (Socket::new(client, "vha", 1), Socket::new(client, "vhb", 1));
    let mut source = Testpmd::start(&a.path, "txonly", A, B, "", &[]);
    let mut sink = Testpmd::start(&b.path, "rxonly", B, A, "", &[]);
    sink.forward();
    source.forward();
    std::thread::sleep(Duration::from_secs(1));
    source.stop();
    let sent = source.counted().sent;
    assert!(sent > 10_000, "{sent}");
    // All that testpmd counts as sent is in the ring, and taken from there.
    wait_for("all is taken", || client.stats(a.port).frames_in == sent);
    let out = client.stats(b.port);
    assert_eq!(out.frames_out + out.dropped(Reason::RingFull), sent);
    assert!(out.frames_out > sent / 100, "{out:?}");
    wait_for("all is received", || {
        sink.counted().received == out.frames_out
    });
    for port in [a.port, b.port] {
        assert_eq!(client.stats(port).dropped(Reason::Violation), 0);
    }
}

fn a_killed_testpmd() {
    if !has_testpmd() {
        return;
    }
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (a, b) = (Socket::new(client, "vha", 1), Socket::new(client, "vhb", 1));
    let mut source = Testpmd::start(&a.path, "txonly", A, B, "", &[]);
    source.forward();
    for _ in 0..2 {
        let mut sink = Testpmd::start(&b.path, "rxonly", B, A, "", &[]);
        sink.forward();
        wait_for("frames arrive", || sink.counted().received > 1000);
        sink.kill();
        let before = client.stats(b.port).dropped(Reason::LinkDown);
        wait_for("frames have nowhere to go", || {
            client.stats(b.port).dropped(Reason::LinkDown) > before
        });
    }
    assert_eq!(client.stats(b.port).dropped(Reason::Violation), 0);
}
