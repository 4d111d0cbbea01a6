use super::probe::{Failure, Probe, Send};
use super::{Checked, SERVERS_MAX, Servers};
use core::net::SocketAddr;

use crate::flow::upper::{Upper, ends};
use crate::icmp::echo;
use crate::local::segment::{Segment, Style, make_any};
use crate::prelude::*;

/// Milliseconds between two checks of a server, and that one takes: least and most.
const TIMES: core::ops::RangeInclusive<u32> = 100..=3_600_000;
/// How often a check sends again what has no answer.
const TRIES: u64 = 3;
/// Most bytes of PATH and HOST.
const TEXT_MAX: usize = 512;
/// The first port of checks' connections.
const PORTS: u16 = 32768;

/// Checks the health of a balancer's servers.
///
/// Each server is checked every INTERVAL. A check by `tcp` succeeds when the server accepts a
/// connection, which is reset at once; by `http`, when it answers `GET PATH` with a status from 200 to
/// 399; by `icmp`, when it answers a ping. A check fails when that does not happen within TIMEOUT, in which
/// what has no answer is sent three times, or when the server refuses. After FALL failures in a row a
/// server is down, after RISE successes it is healthy again; each change is reported. A new
/// server is taken as healthy.
///
/// Checks leave with the server's address as destination annotation. The input takes the packets that
/// servers send to SOURCE and SOURCE6, with their IP header marked. Servers of IPv6 are not checked without SOURCE6.
///
/// # Example
/// ```click
/// t :: ConnectionTracker(4096);
/// b :: FlowIPLoadBalancer(10.0.0.11, 10.0.0.12);
/// FromDump(in.pcap) -> MarkIPHeader(14) -> [0] t [0] -> [0] b [0] -> q :: Queue -> Discard;
/// Idle -> [1] t [1] -> [1] b [1] -> Discard;
/// b[2] -> Discard;
/// Idle -> HealthCheck(b, 10.0.0.1, http, PORT 80, PATH /health) -> q;
/// ```
///
/// # See also
/// FlowIPLoadBalancer
#[derive(Element)]
#[element(ports = "1/1", processing = "h/h", handlers)]
#[inputs("answers")]
#[outputs("checks")]
pub struct HealthCheck {
    /// The balancer.
    #[arg(mandatory)]
    balancer: Option<Link<dyn Servers>>,
    /// The address that checks come from.
    #[arg(mandatory, read)]
    source: Ipv4Addr,
    /// How: `tcp`, `http`, `icmp`, or `none` for no checks.
    #[arg(positional, with = kind_of_check, kind = "tcp, http, icmp or none", default_text = "tcp")]
    kind: Kind,
    /// The address that checks over IPv6 come from.
    #[arg]
    source6: Option<Ipv6Addr>,
    /// The port that is checked; that of the server if it is 0.
    #[arg]
    port: u16,
    /// The port that is checked of a server without one, if PORT is 0; such a server is not checked if both are.
    #[arg]
    default_port: u16,
    /// What `http` asks for.
    #[arg(default = String::from("/"), default_text = "/")]
    path: String,
    /// The host name that `http` gives; the server's address if it is empty.
    #[arg]
    host: String,
    /// Time between two checks of a server.
    #[arg(default = Milliseconds(2000), default_text = "2s")]
    interval: Milliseconds,
    /// Time that a check takes at most.
    #[arg(default = Milliseconds(1000), default_text = "1s")]
    timeout: Milliseconds,
    /// Successes after which a server is healthy.
    #[arg(default = 2)]
    rise: u8,
    /// Failures after which a server is down.
    #[arg(default = 3)]
    fall: u8,
    /// Checks that succeeded.
    #[handler(read)]
    successes: u64,
    /// Checks that failed.
    #[handler(read)]
    failures: u64,
    checks: Vec<Check>,
    timer: Option<TimerId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Tcp,
    Http,
    Icmp,
    None,
}

fn kind_of_check(text: &str, _context: &Context<'_>) -> Result<Kind, Invalid> {
    match text {
        "tcp" => Ok(Kind::Tcp),
        "http" => Ok(Kind::Http),
        "icmp" => Ok(Kind::Icmp),
        "none" => Ok(Kind::None),
        _ => Err(Invalid::because("write tcp, http, icmp or none")),
    }
}

/// The checks of a server.
#[derive(Clone, Debug)]
struct Check {
    server: Checked,
    /// When the next begins.
    due: u64,
    running: Option<Running>,
    /// Checks in a row that disagree with the server's health.
    against: u8,
    last: Option<Result<(), Failure>>,
}

/// A check that is under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    probe: Probe,
    /// The local port, or the ping's identifier.
    local: u16,
    resend: u64,
    deadline: u64,
}

impl Check {
    /// Ends it, since its server was removed.
    fn end_all(&mut self) {
        (self.running, self.due) = (None, u64::MAX);
    }

    /// Whether its server was removed.
    fn is_over(&self) -> bool {
        self.due == u64::MAX
    }

    /// When something is to be done.
    fn next(&self) -> u64 {
        self.running
            .map_or(self.due, |running| running.resend.min(running.deadline))
    }

    /// Its server, with the port that is checked.
    fn end(&self, ports: Ports) -> (IpAddr, u16) {
        let all = [ports.of_all, self.server.port, ports.otherwise];
        let port = all.into_iter().find(|port| *port != 0);
        (self.server.address, port.unwrap_or(0))
    }
}

/// Which ports are checked; 0: none.
#[derive(Clone, Copy)]
struct Ports {
    /// Of all servers.
    of_all: u16,
    /// Of those without one.
    otherwise: u16,
}

#[handlers]
impl HealthCheck {
    /// A line for each server: address, `healthy` or `down`, and how the last check ended.
    #[read]
    fn table(&self) -> String {
        let checks = self.checks.iter().filter(|check| !check.is_over());
        let lines = checks.map(|check| {
            let name = self.name(check);
            let health = if check.server.healthy {
                "healthy"
            } else {
                "down"
            };
            let last = match check.last {
                None if !self.can_check(check) => "not checked".to_string(),
                None => "not checked yet".to_string(),
                Some(Ok(())) => "answered".to_string(),
                Some(Err(failure)) => failure.to_string(),
            };
            format!("{name} {health} {last}\n")
        });
        lines.collect()
    }
}

impl HealthCheck {
    fn nanoseconds(time: Milliseconds) -> u64 {
        u64::from(time.0) * 1_000_000
    }

    /// Takes the balancer's servers as they are now.
    fn look(&mut self, cx: &mut Cx<'_>, now: u64) {
        let Some(balancer) = self.balancer else {
            return;
        };
        for number in 0..SERVERS_MAX {
            let server = cx.reach(balancer, |balancer, _| balancer.server(number));
            let server = server.flatten();
            let known = self.checks.get_mut(number);
            match (known, server) {
                (Some(check), Some(server)) => {
                    let same =
                        (check.server.address, check.server.port) == (server.address, server.port);
                    if !same {
                        *check = Check::new(server, now);
                    }
                    check.server.healthy = server.healthy;
                    check.due = check.due.min(now + Self::nanoseconds(self.interval));
                }
                // One that was removed.
                (Some(check), None) => check.end_all(),
                (None, Some(server)) => self.checks.push(Check::new(server, now)),
                (None, None) => break,
            }
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_>, number: usize, now: u64) {
        let sequence = cx.random().next_u32();
        let local = PORTS + (cx.random().below(PORTS.into()) as u16);
        let asks = self.kind == Kind::Http;
        if let Some(check) = self.checks.get_mut(number) {
            check.due = now + Self::nanoseconds(self.interval);
            check.running = Some(Running {
                probe: Probe::new(asks, sequence),
                local,
                resend: now,
                deadline: now + Self::nanoseconds(self.timeout),
            });
        }
    }

    fn ports(&self) -> Ports {
        Ports {
            of_all: self.port,
            otherwise: self.default_port,
        }
    }

    /// Whether a server can be checked: it has a port if one is needed, and there is an address to check from.
    fn can_check(&self, check: &Check) -> bool {
        let has_port = check.end(self.ports()).1 != 0 || self.kind == Kind::Icmp;
        has_port && self.kind != Kind::None && self.source_for(check.server.address).is_some()
    }

    /// A server's name in words, with the port that is checked, if there is one.
    fn name(&self, check: &Check) -> String {
        match check.end(self.ports()) {
            (address, 0) => address.to_string(),
            (address, _) if self.kind == Kind::Icmp => address.to_string(),
            end => SocketAddr::from(end).to_string(),
        }
    }

    /// The address that checks of a server come from.
    fn source_for(&self, server: IpAddr) -> Option<IpAddr> {
        match server {
            IpAddr::V4(_) => Some(self.source.into()),
            IpAddr::V6(_) => self.source6.map(IpAddr::from),
        }
    }

    /// Sends what has no answer yet.
    fn send(&mut self, cx: &mut Cx<'_>, number: usize, now: u64) {
        let pause = Self::nanoseconds(self.timeout) / TRIES;
        let server = self.checks.get(number).map(|check| check.server.address);
        let source = server.and_then(|server| self.source_for(server));
        let ports = self.ports();
        let Some(check) = self.checks.get_mut(number) else {
            return;
        };
        let to = check.end(ports);
        let (Some(running), Some(source)) = (&mut check.running, source) else {
            return;
        };
        running.resend = now + pause;
        let (send, local) = (running.probe.next(), running.local);
        match self.kind {
            Kind::Icmp => {
                let packet = match (source, to.0) {
                    (IpAddr::V4(from), IpAddr::V4(to)) => echo::packet(cx, (from, to), local, 1),
                    (IpAddr::V6(from), IpAddr::V6(to)) => echo::packet6(cx, (from, to), local, 1),
                    _ => None,
                };
                if let Some(packet) = packet {
                    cx.emit(0, packet);
                }
            }
            _ => self.send_segment(cx, &send, (source, local), to),
        }
    }

    fn send_segment(&self, cx: &mut Cx<'_>, send: &Send, from: (IpAddr, u16), to: (IpAddr, u16)) {
        let segment = Segment {
            source: from,
            destination: to,
            flags: send.flags,
            sequence: send.sequence,
            acknowledgment: send.acknowledgment,
            payload: 0,
        };
        let style = Style {
            tos: 0,
            ttl: 64,
            ..Style::CONTROL
        };
        let request = match send.request {
            true => self.request(to.0),
            false => String::new(),
        };
        if let Some(packet) = make_any(cx, &segment, &style, request.as_bytes()) {
            cx.emit(0, packet);
        }
    }

    /// What `http` sends to a server.
    fn request(&self, server: IpAddr) -> String {
        let path = &self.path;
        let host = match server {
            _ if !self.host.is_empty() => self.host.clone(),
            IpAddr::V4(server) => server.to_string(),
            IpAddr::V6(server) => format!("[{server}]"),
        };
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: weir\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )
    }

    /// Notes how a check ended.
    fn end(&mut self, cx: &mut Cx<'_>, number: usize, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.successes += 1,
            Err(_) => self.failures += 1,
        }
        let limit = match result {
            Ok(()) => self.rise,
            Err(_) => self.fall,
        };
        let Some(check) = self.checks.get_mut(number) else {
            return;
        };
        check.running = None;
        check.last = Some(result);
        if check.server.healthy == result.is_ok() {
            check.against = 0;
            return;
        }
        check.against = check.against.saturating_add(1);
        if check.against < limit {
            return;
        }
        check.against = 0;
        check.server.healthy = result.is_ok();
        let server = self.checks.get(number).map(|check| self.name(check));
        let server = server.unwrap_or_default();
        let name: String = cx.name().into();
        match result {
            Ok(()) => cx.chatter(format_args!("{name}: {server} is healthy")),
            Err(why) => cx.chatter(format_args!("{name}: {server} is down: {why}")),
        }
        if let Some(balancer) = self.balancer {
            cx.reach(balancer, |balancer, cx| {
                balancer.set_health(cx, number, result.is_ok());
            });
        }
    }

    /// Takes a packet of a server.
    fn receive(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Option<()> {
        let [from, to] = ends(packet)?;
        if self.source_for(from) != Some(to) {
            return None;
        }
        let upper = Upper::of(packet)?;
        let is_from = |check: &Check, local: u16| {
            let running = check.running.map(|running| running.local);
            check.server.address == from && running == Some(local)
        };
        if self.kind == Kind::Icmp {
            let reply = match from {
                IpAddr::V4(_) => (IpProtocol::ICMP, Icmpv4Type::ECHO_REPLY.0),
                IpAddr::V6(_) => (IpProtocol::ICMPV6, Icmpv6Type::ECHO_REPLY.0),
            };
            let &[kind, _, _, _, high, low, ..] = upper.bytes.first_chunk::<8>()?;
            if (upper.protocol, kind) != reply {
                return None;
            }
            let answers = |check: &Check| is_from(check, u16::from_be_bytes([high, low]));
            let number = self.checks.iter().position(answers)?;
            self.end(cx, number, Ok(()));
            return Some(());
        }
        let (segment, data) = Segment::of_any(packet)?;
        let answers = |check: &Check| {
            is_from(check, segment.destination.1) && check.end(self.ports()) == segment.source
        };
        let number = self.checks.iter().position(answers)?;
        let length = self.request(from).len();
        let running = self.checks.get_mut(number)?.running.as_mut()?;
        let step = running.probe.receive(&segment, data, length as u32);
        if let Some(send) = step.send {
            self.send_segment(cx, &send, segment.destination, segment.source);
        }
        if let Some(result) = step.result {
            self.end(cx, number, result);
        }
        Some(())
    }
}

impl Check {
    fn new(server: Checked, now: u64) -> Check {
        Check {
            server,
            due: now,
            running: None,
            against: 0,
            last: None,
        }
    }
}

impl Element for HealthCheck {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for (name, time) in [("INTERVAL", self.interval), ("TIMEOUT", self.timeout)] {
            if !TIMES.contains(&time.0) {
                return Err(args.fail(format_args!("{name} must be from 100ms to 1h")));
            }
        }
        if self.timeout.0 > self.interval.0 {
            return Err(args.fail("TIMEOUT must not be longer than INTERVAL"));
        }
        if self.rise == 0 || self.fall == 0 {
            return Err(args.fail("RISE and FALL must be from 1 to 255"));
        }
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.path.starts_with('/') || !is_plain(&self.path) || self.path.len() > TEXT_MAX {
            return Err(args.fail(format_args!(
                "PATH must begin with / and have at most {TEXT_MAX} printable characters without spaces"
            )));
        }
        if !is_plain(&self.host) || self.host.len() > TEXT_MAX {
            return Err(args.fail(format_args!(
                "HOST must have at most {TEXT_MAX} printable characters without spaces"
            )));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if self.checks.try_reserve_exact(SERVERS_MAX).is_err() {
            return Err(cx.error("out of memory for the checks of servers"));
        }
        if self.kind != Kind::None {
            let timer = cx.timer();
            cx.schedule_after(timer, 0);
            self.timer = Some(timer);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady().0;
        self.look(cx, now);
        for number in 0..self.checks.len() {
            let Some(check) = self.checks.get(number) else {
                break;
            };
            let can = self.can_check(check);
            match check.running {
                Some(running) if running.deadline <= now => {
                    self.end(cx, number, Err(Failure::Silent));
                }
                Some(running) if running.resend <= now => self.send(cx, number, now),
                Some(_) => {}
                None if check.due <= now && !can => {
                    let due = now + Self::nanoseconds(self.interval);
                    if let Some(check) = self.checks.get_mut(number) {
                        check.due = due;
                    }
                }
                None if check.due <= now => {
                    self.begin(cx, number, now);
                    self.send(cx, number, now);
                }
                None => {}
            }
        }
        let most = now + Self::nanoseconds(self.interval);
        let next = self.checks.iter().map(Check::next).min();
        let next = next.unwrap_or(most).clamp(now + 1_000_000, most);
        cx.schedule_at(timer, Steady(next));
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            self.receive(cx, &packet);
            cx.kill(packet);
        }
        0
    }
}
