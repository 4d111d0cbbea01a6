//! DPDK's testpmd as a frontend, by virtio-user.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A running testpmd with one virtio-user port. It is killed when dropped.
pub struct Testpmd {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// What it agreed on with the switch, by virtio's feature bits.
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
        let vdev = format!(
            "--vdev=net_virtio_user0,path={},mac={mac}{device}",
            socket.display()
        );
        let eal = [
            "--lcores=0@(0,1),1@(0,1)",
            "--no-huge",
            "-m",
            "192",
            "--no-shconf",
            "--no-pci",
            "--no-telemetry",
            "--log-level=lib.eal:error",
            "--log-level=pmd.net.virtio.init:debug",
            &vdev,
        ];
        let mode = format!("--forward-mode={mode}");
        let peer = format!("--eth-peer=0,{peer}");
        let own = [
            "-i",
            "--no-mlockall",
            "--total-num-mbufs=16384",
            &mode,
            &peer,
        ];
        let mut child = Command::new("stdbuf")
            .args(["-oL", "dpdk-testpmd"])
            .args(eal)
            .arg("--")
            .args(own)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("testpmd");
        let input = child.stdin.take().expect("a pipe");
        let (send, lines) = channel();
        let output: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().expect("a pipe")),
            Box::new(child.stderr.take().expect("a pipe")),
        ];
        for output in output {
            let send = send.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let mut testpmd = Testpmd {
            child,
            input,
            lines,
            features: 0,
        };
        let line = testpmd.wait_for("features after negotiate = ");
        let features = line.rsplit(' ').next().expect("a number");
        testpmd.features = u64::from_str_radix(features, 16).expect("a number");
        testpmd
    }

    /// Gives a command.
    pub fn say(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("testpmd runs");
    }

    /// Waits for a line that contains `text`.
    fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        let mut seen = Vec::new();
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let Ok(line) = self.lines.recv_timeout(left) else {
                break;
            };
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
