//! DPDK's testpmd as a frontend, by virtio-user.
#![allow(dead_code)]

use std::io::{PipeReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Any core for the threads of a testpmd: the one that takes commands, and the one that forwards.
const ANYWHERE: &str = "0@(0,1),1@(0,1)";

/// A port of a testpmd.
pub struct Port<'a> {
    /// Where the switch listens.
    pub socket: &'a Path,
    /// Its Ethernet address.
    pub mac: &'a str,
    /// Where it sends.
    pub peer: &'a str,
}

/// A running testpmd with one or several virtio-user ports. It is killed when dropped. It is read from without
/// a thread, since a process with threads cannot fork a switch.
pub struct Testpmd {
    child: Child,
    input: ChildStdin,
    output: PipeReader,
    /// What was read of its output and is no whole line yet, or was not asked for yet.
    unread: Vec<u8>,
    /// What it agreed on with the switch, by virtio's feature bits; on its last port.
    pub features: u64,
}

/// What testpmd counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub received: u64,
    pub sent: u64,
}

impl Testpmd {
    /// Starts one on the socket, in a forwarding mode, with this Ethernet address and further
    /// options of the virtual device and of testpmd. Frames go to the address `peer`.
    pub fn start(
        socket: &Path,
        mode: &str,
        mac: &str,
        peer: &str,
        device: &str,
        more: &[&str],
    ) -> Testpmd {
        let port = Port { socket, mac, peer };
        Testpmd::start_with(&[port], ANYWHERE, mode, device, more)
    }

    /// Starts one with several ports, its threads on these cores.
    pub fn start_with(
        ports: &[Port<'_>],
        cores: &str,
        mode: &str,
        device: &str,
        more: &[&str],
    ) -> Testpmd {
        let each = |text: &dyn Fn((usize, &Port<'_>)) -> String| -> Vec<String> {
            ports.iter().enumerate().map(text).collect()
        };
        let devices = each(&|(i, Port { socket, mac, .. })| {
            let socket = socket.display();
            format!("--vdev=net_virtio_user{i},path={socket},mac={mac}{device}")
        });
        let peers = each(&|(i, port)| format!("--eth-peer={i},{}", port.peer));
        let cores = format!("--lcores={cores}");
        let eal = [
            &cores,
            "--no-huge",
            "-m",
            "192",
            "--no-shconf",
            "--no-pci",
            "--no-telemetry",
            "--log-level=lib.eal:error",
            "--log-level=pmd.net.virtio.init:debug",
        ];
        let mode = format!("--forward-mode={mode}");
        let own = ["-i", "--no-mlockall", "--total-num-mbufs=16384", &mode];
        let found = Command::new("which").arg("dpdk-testpmd").output();
        let found = found.is_ok_and(|found| found.status.success());
        assert!(found, "needs dpdk-testpmd: Debian package dpdk-dev");
        let (output, write) = std::io::pipe().expect("a pipe");
        let mut child = Command::new("stdbuf")
            .args(["-oL", "dpdk-testpmd"])
            .args(eal)
            .args(devices)
            .arg("--")
            .args(own)
            .args(peers)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(write.try_clone().expect("a copy"))
            .stderr(write)
            .spawn()
            .expect("testpmd");
        let mut testpmd = Testpmd {
            input: child.stdin.take().expect("a pipe"),
            child,
            output,
            unread: Vec::new(),
            features: 0,
        };
        for _ in ports {
            let line = testpmd.wait_for("features after negotiate = ");
            let features = line.rsplit(' ').next().expect("a number");
            testpmd.features = u64::from_str_radix(features, 16).expect("a number");
        }
        testpmd
    }

    /// Gives a command.
    pub fn say(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("testpmd runs");
    }

    /// The next line that it prints until then.
    fn line(&mut self, until: Instant) -> Option<String> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let left = until.checked_duration_since(Instant::now())?;
            let left = Timespec::try_from(left).expect("seconds");
            let mut readable = [PollFd::new(&self.output, PollFlags::IN)];
            if poll(&mut readable, Some(&left)) == Ok(1) {
                let mut bytes = [0; 4096];
                let read = self.output.read(&mut bytes).expect("output");
                if read == 0 {
                    return None;
                }
                self.unread.extend(&bytes[..read]);
            }
        }
    }

    /// Waits for a line that contains `text`.
    fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        let mut seen = Vec::new();
        while let Some(line) = self.line(until) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("testpmd never said ‘{text}’, but: {seen:#?}");
    }

    /// Starts forwarding.
    pub fn forward(&mut self) {
        self.say("start");
        self.wait_for("packet forwarding - ports=1");
    }

    /// Starts forwarding between its ports, with so many bursts of frames from each.
    pub fn forward_bursts(&mut self, bursts: u32) {
        self.say(&format!("start tx_first {bursts}"));
        self.wait_for("packet forwarding - ports=");
    }

    /// What it has counted until now.
    pub fn counted(&mut self) -> Counted {
        let number = |line: &str, key: &str| -> u64 {
            let rest = &line[line.find(key).expect("a counter") + key.len()..];
            let digits = rest.split_whitespace().next().expect("a number");
            digits.parse().expect("a number")
        };
        self.say("show port stats 0");
        let line = self.wait_for("RX-packets:");
        let received = number(&line, "RX-packets:");
        let line = self.wait_for("TX-packets:");
        Counted {
            received,
            sent: number(&line, "TX-packets:"),
        }
    }

    /// Stops forwarding.
    pub fn stop(&mut self) {
        self.say("stop");
        self.wait_for("Done.");
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited for");
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
