//! What this group's tests need of the host.

use core::fmt;
use std::fs;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::testing::*;

/// A file that is gone when the test ends.
pub struct TempFile(PathBuf);

impl TempFile {
    /// A file, not made yet, with `name` in its name.
    pub fn new(name: &str) -> TempFile {
        let name = std::format!("weir-test-{}-{name}.pcap", std::process::id());
        TempFile(std::env::temp_dir().join(name))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the file holds.
    pub fn read(&self) -> Vec<u8> {
        fs::read(&self.0).expect("the file is there")
    }

    /// Makes the file.
    pub fn write(&self, bytes: &[u8]) {
        fs::write(&self.0, bytes).expect("the file can be written");
    }
}

impl fmt::Display for TempFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A client of the server at this socket.
pub fn connect(socket: &TempFile) -> UnixStream {
    let stream = UnixStream::connect(socket.path()).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// What a client hears until it ends in `end`.
pub fn receive(rig: &mut Rig, client: &mut UnixStream, end: &str) -> String {
    let mut received = String::new();
    run_until(rig, |_| {
        let mut room = [0; 4096];
        match client.read(&mut room) {
            Ok(count) => received.push_str(core::str::from_utf8(&room[..count]).unwrap()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        received.ends_with(end)
    });
    received
}

/// A network namespace that is gone when the test ends.
pub struct Namespace(String);

impl Namespace {
    /// A namespace for `test` with nothing in it but a loopback that is down.
    pub fn new(test: &str) -> Namespace {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "needs root: makes network namespaces");
        let namespace = Namespace(format!("weir-{test}-{}", std::process::id()));
        run(&format!("netns add {namespace}", namespace = namespace.0));
        namespace
    }

    /// As `new`, with the veth pair `veth0` and `veth1`, both up.
    pub fn with_veth(test: &str) -> Namespace {
        let namespace = Namespace::new(test);
        namespace.ip("link add veth0 mtu 9000 type veth peer name veth1 mtu 9000");
        namespace.ip("link set veth0 up");
        namespace.ip("link set veth1 up");
        namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Runs `ip` in it.
    pub fn ip(&self, arguments: &str) -> String {
        run(&format!("-n {} {arguments}", self.0))
    }

    /// Runs a test in the namespace.
    pub fn within(&self, test: impl FnOnce() + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).expect("the namespace is there");
        let entered = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("the namespace can be entered");
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

/// Runs the router, and tells its elements of descriptors, until `done`.
#[track_caller]
pub fn run_until(rig: &mut Rig, mut done: impl FnMut(&mut Rig) -> bool) {
    let start = Instant::now();
    while !done(rig) {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it never is done"
        );
        rig.advance(1_000_000);
        for watch in rig.router.watches().to_vec() {
            rig.router
                .selected(watch.element, watch.fd, watch.read, watch.write);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
