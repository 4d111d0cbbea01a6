//! The sender of frames into one namespace, which counts them in the other: the same for all forwarders.
//!
//! The sender is a packet socket on the first namespace's interface, with many frames per system call.
//! Arrived frames are read from the interface's counters in the second namespace, whose kernel drops
//! them: they are for another station. The sender keeps at most a window of frames under way, and
//! sleeps while the window is full. So it uses little of the machine, and no queue overflows. Without
//! a window it floods.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use bench::traffic::{BURST, burst};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, bind};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space, set_current_timer_slack};

use super::Failure;
use super::load::Processors;

/// How long the sender sleeps when the window is full.
const NAP: Duration = Duration::from_micros(20);
/// Frames under way count as lost after this time without progress.
const TIMEOUT: Duration = Duration::from_millis(2);
/// Time before frames count.
const WARM_UP: Duration = Duration::from_millis(200);

/// The result of one round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Frames a second that arrived.
    pub rate: f64,
    /// Frames that were sent and did not arrive, of those sent.
    pub lost: f64,
    /// Processor time of the whole machine for each frame that arrived, in nanoseconds.
    pub nanoseconds: f64,
}

/// The frames received by the interface `eth0` of a process's namespace.
pub struct Counter(File);

impl Counter {
    pub fn new(pid: u32) -> Result<Counter, Failure> {
        Ok(Counter(File::open(format!("/proc/{pid}/net/dev"))?))
    }

    pub fn read(&self) -> Result<u64, Failure> {
        let mut text = [0; 4096];
        let n = self.0.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..n]);
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let frames = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(frames.ok_or("no counters of eth0")?.parse()?)
    }
}

/// Sends `frames` by `eth0` of the namespace that process `from` is in, in round-robin order, for `time`, with
/// at most `window` under way to the namespace that process `to` is in.
pub fn send(
    (from, to): (u32, u32),
    frames: &[Vec<u8>],
    window: Option<u64>,
    time: Duration,
) -> Result<Round, Failure> {
    let round = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let round = enter(from).and_then(|socket| work(&socket, frames, window, time, to));
            round.map_err(|error| error.to_string())
        });
        sender.join().expect("it does not panic")
    });
    Ok(round?)
}

/// Moves this thread into a namespace, and opens a packet socket on its interface.
fn enter(pid: u32) -> Result<OwnedFd, Failure> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    // Sleeps end on time.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    // The address's protocol is none: nothing is received.
    bind(socket.as_raw_fd(), &link_address("eth0")?)?;
    Ok(socket)
}

/// The address that binds a packet socket to an interface.
pub fn link_address(interface: &str) -> Result<LinkAddr, Failure> {
    let address = getifaddrs()?.find_map(|found| {
        let address = found.address?.as_link_addr().copied();
        address.filter(|_| found.interface_name == interface)
    });
    Ok(address.ok_or_else(|| format!("no interface {interface}"))?)
}

fn work(
    socket: &OwnedFd,
    frames: &[Vec<u8>],
    window: Option<u64>,
    time: Duration,
    to: u32,
) -> Result<Round, Failure> {
    let counter = Counter::new(to)?;
    let start = counter.read()?;
    let (mut sent, mut lost, mut seen) = (0u64, 0u64, 0u64);
    let mut progress = Instant::now();
    let mut run = |until: Instant| -> Result<(u64, u64, u64, Instant), Failure> {
        let mut at = 0;
        loop {
            let now = Instant::now();
            if now >= until {
                seen = counter.read()? - start;
                return Ok((sent, lost, seen, Instant::now()));
            }
            let room = window.map_or(BURST as u64, |window| {
                window.saturating_sub(sent - lost - seen.min(sent - lost))
            });
            if room < BURST as u64 {
                let before = std::mem::replace(&mut seen, counter.read()? - start);
                if seen > before {
                    progress = now;
                } else if now - progress > TIMEOUT {
                    lost = sent - seen;
                } else {
                    std::thread::sleep(NAP);
                }
                continue;
            }
            sent += burst(socket, frames, at)?;
            at += BURST;
        }
    };
    let begun = run(Instant::now() + WARM_UP)?;
    let load = Processors::read()?;
    let ended = run(Instant::now() + time)?;
    let busy = Processors::read()?.since(&load);
    let arrived = (ended.2 - begun.2) as f64;
    let sent = (ended.0 - begun.0) as f64;
    Ok(Round {
        rate: arrived / (ended.3 - begun.3).as_secs_f64(),
        lost: match window {
            Some(_) => (ended.1 - begun.1) as f64 / sent,
            None => 1.0 - arrived / sent,
        },
        nanoseconds: busy.as_nanos() as f64 / arrived,
    })
}
