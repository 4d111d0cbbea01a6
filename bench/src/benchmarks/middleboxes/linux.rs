//! Linux as a firewall and a NAT: nftables in a namespace, between two hosts with a veth pair each.
//!
//! A packet socket on the first host sends; its processor, the only one here, does all of the work
//! up to the second host, whose kernel drops what arrives: it is for another station. The time that
//! counts is that of a frame which arrives, less that of one which the forwarder drops at once for
//! the same reason.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use bench::traffic::{Flow, burst};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::bind;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use weir::lab::{Namespace, Runner, ip};

/// The result of a step, or why it failed.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How long frames are sent.
const TIME: Duration = Duration::from_millis(400);
/// Flows.
const FLOWS: u16 = 1000;
/// Stations: the hosts', and the forwarder's towards each; that of nobody.
const HOSTS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const FORWARDER: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2]];
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 0x99];

/// Linux in one of the two parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Ten rules behind connection tracking.
    Firewall,
    /// Masquerading.
    Nat,
}

impl Role {
    /// What it is, for the results.
    pub fn name(self) -> &'static str {
        match self {
            Role::Firewall => "the same by Linux, nftables",
            Role::Nat => "the same by Linux, masquerade",
        }
    }

    fn table(self) -> &'static str {
        match self {
            Role::Firewall => {
                "table ip t {
                chain f {
                type filter hook forward priority 0; policy drop;
                ct state established,related accept
                ip saddr 192.0.2.0/24 drop
                ip daddr 198.51.100.0/24 drop
                ip saddr 10.1.0.0/16 tcp dport 22 accept
                tcp dport 80 accept
                tcp dport 443 accept
                ip daddr 10.0.0.0/8 icmp type echo-request drop
                udp dport 123 accept
                udp dport 161 drop
                iif in udp dport 53 accept
                iif in ip saddr 10.0.0.0/8 udp dport 9 accept
                }
                }"
            }
            Role::Nat => {
                "table ip t {
                chain p {
                type nat hook postrouting priority srcnat;
                oif out masquerade
                }
                }"
            }
        }
    }
}

/// Two hosts with Linux between them.
pub struct Network {
    hosts: [Namespace; 2],
    forwarder: Namespace,
}

/// An address of six bytes as text.
fn text(station: [u8; 6]) -> String {
    station.map(|byte| format!("{byte:02x}")).join(":")
}

impl Network {
    /// The network, each flow of which has had a packet both ways.
    pub fn new(role: Role) -> Result<Network> {
        let runner = Runner::default();
        let new = || Namespace::new(&runner);
        let network = Network {
            hosts: [new()?, new()?],
            forwarder: new()?,
        };
        let here = &network.forwarder;
        for (i, end) in ["in", "out"].into_iter().enumerate() {
            let (host, net) = (&network.hosts[i], i + 1);
            let (outer, inner) = (text(FORWARDER[i]), text(HOSTS[i]));
            let pair = format!(
                "link add {end} address {outer} netns {} type veth peer name eth0 address {inner} netns {}",
                here.pid(),
                host.pid()
            );
            runner.run(ip(&pair), LIMIT)?;
            let commands = [
                (host, "ip", "link set eth0 addrgenmode none up".to_string()),
                (here, "ip", format!("link set {end} addrgenmode none up")),
                (here, "ip", format!("addr add 10.{net}.0.1/24 dev {end}")),
                (
                    here,
                    "ip",
                    format!(
                        "neighbor add 10.{net}.0.2 lladdr {} dev {end}",
                        text(NOBODY)
                    ),
                ),
            ];
            for (place, program, words) in commands {
                runner.run(place.command(program, &words), LIMIT)?;
            }
        }
        runner.run(here.command("sysctl", "-qw net.ipv4.ip_forward=1"), LIMIT)?;
        let mut nft = here.command("nft", "");
        nft.arg(role.table());
        runner.run(nft, LIMIT)?;
        let outside = match role {
            Role::Firewall => 0x0a01_0002,
            Role::Nat => 0x0a02_0001,
        };
        let answers = frames(FORWARDER[1], 60, |port| Flow {
            source: 0x0a02_0002,
            destination: outside,
            protocol: 17,
            ports: (9, port),
        });
        for (host, frames) in [(0, &requests(FORWARDER[0], 60)), (1, &answers)] {
            network.send(host, frames, |sent, _| sent >= 2 * u64::from(FLOWS))?;
        }
        Ok(network)
    }

    /// Million frames of so many bytes, without the check sequence, that it forwards in a second.
    pub fn rate(&self, bytes: usize) -> Result<f64> {
        let until = |_, since: Instant| since.elapsed() >= TIME;
        let dropped = self.send(0, &requests(NOBODY, bytes), until)?;
        let forwarded = self.send(0, &requests(FORWARDER[0], bytes), until)?;
        if forwarded.arrived * 10 < forwarded.sent * 9 {
            let (arrived, sent) = (forwarded.arrived, forwarded.sent);
            return Err(format!("{arrived} of {sent} frames arrived").into());
        }
        let of = |time: Duration, frames: u64| time.as_secs_f64() * 1e6 / frames as f64;
        let seconds = of(forwarded.time, forwarded.arrived) - of(dropped.time, dropped.sent);
        Ok(1.0 / seconds)
    }

    /// Frames that the second host received.
    fn arrived(&self) -> Result<u64> {
        let file = format!("/proc/{}/net/dev", self.hosts[1].pid());
        let said = std::fs::read_to_string(file)?;
        let line = said.lines().find_map(|it| it.trim().strip_prefix("eth0:"));
        let frames = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(frames.ok_or("no counters of eth0")?.parse()?)
    }

    /// Sends frames of a host, on the first processor, until so many or for so long.
    fn send(
        &self,
        host: usize,
        frames: &[Vec<u8>],
        is_done: impl Fn(u64, Instant) -> bool + Sync,
    ) -> Result<Sent> {
        let before = self.arrived()?;
        let pid = self.hosts[host].pid();
        let work = || {
            let socket = enter(pid)?;
            let (start, mut sent) = (Instant::now(), 0);
            while !is_done(sent, start) {
                sent += burst(&socket, frames, sent as usize)?;
            }
            Ok((sent, start.elapsed()))
        };
        let worked: Result<_> =
            std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"));
        let (sent, time) = worked?;
        Ok(Sent {
            sent,
            arrived: self.arrived()? - before,
            time,
        })
    }
}

/// What became of some frames.
struct Sent {
    sent: u64,
    arrived: u64,
    time: Duration,
}

/// Frames to a station, one for each flow.
fn frames(to: [u8; 6], bytes: usize, flow: impl Fn(u16) -> Flow) -> Vec<Vec<u8>> {
    let frame = |port| {
        let mut frame = flow(port).frame(bytes);
        frame[..6].copy_from_slice(&to);
        frame
    };
    (1024..1024 + FLOWS).map(frame).collect()
}

/// What the first host sends.
fn requests(to: [u8; 6], bytes: usize) -> Vec<Vec<u8>> {
    frames(to, bytes, |port| Flow {
        source: 0x0a01_0002,
        destination: 0x0a02_0002,
        protocol: 17,
        ports: (port, 9),
    })
}

/// Moves this thread into a namespace and to the first processor, and opens a packet socket.
fn enter(pid: u32) -> Result<OwnedFd> {
    let mut first = CpuSet::new();
    first.set(0);
    sched_setaffinity(None, &first)?;
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let address = getifaddrs()?.find_map(|found| {
        let address = found.address?.as_link_addr().copied();
        address.filter(|_| found.interface_name == "eth0")
    });
    // The address's protocol is none: nothing is received.
    bind(socket.as_raw_fd(), &address.ok_or("no interface eth0")?)?;
    Ok(socket)
}
