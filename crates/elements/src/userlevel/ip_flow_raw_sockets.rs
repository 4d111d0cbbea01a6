use alloc::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::libc::sock_filter;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recvfrom};

use super::packet_socket::attach_filter;
use super::raw_socket::{open_raw, send_raw};
use super::transport::{Inlet, Outlet, Sent};
use crate::aggregates::{self, AggregateListener, AggregateNotifier};
use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// Most flows at a time: each has a descriptor.
const FLOWS: usize = 4096;
const SECOND: u64 = 1_000_000_000;
/// A flow that was silent for this long is over.
const SILENCE: u64 = 300 * SECOND;
/// How often flows are looked through for silent ones.
const SWEEP: u64 = 10 * SECOND;

/// Sends and receives the packets of TCP and UDP flows, with a raw socket for each flow.
///
/// A flow's number is the aggregate annotation, as AggregateIPFlows sets it; an odd paint
/// annotation marks a packet in the reverse direction. The first packet of a flow opens its socket.
/// Packets are sent unchanged, IP header included. The output has the packets that the flow's other
/// end sends back, with their IP header marked. The kernel sees those too and may answer them: make
/// it drop them, for example with `iptables -A INPUT -p tcp --dport 50000:65535 -j DROP`, and keep
/// those ports out of `net.ipv4.ip_local_port_range`.
///
/// A flow ends when the NOTIFIER reports its end, or after five minutes without a packet. There are
/// at most 4096 flows; packets of further flows are dropped, the first with a message.
///
/// # Example
/// ```click
/// FromDump(in.pcap, TIMING true, FORCE_IP true) -> flows :: AggregateIPFlows
///     -> IPFlowRawSockets(NOTIFIER flows) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// AggregateIPFlows, RawSocket, Socket
#[derive(Element)]
#[element(
    ports = "1/1",
    processing = "a/h",
    flow = "x/y",
    handlers,
    provides(Descriptors, AggregateListener)
)]
#[inputs("packets to send")]
#[outputs("packets received")]
pub struct IPFlowRawSockets {
    /// The element that numbers flows and reports their end, such as AggregateIPFlows.
    #[arg]
    notifier: Option<Link<dyn AggregateNotifier>>,
    /// Most bytes of a packet received; more are counted in the extra length annotation.
    #[arg(default = 2046)]
    snaplen: u32,
    /// Bytes in front of each packet.
    #[arg(default = HEADROOM as u32, default_text = "128")]
    headroom: u32,
    /// Accepted, without effect: each flow's socket has its own filter.
    #[arg]
    pcap: bool,
    inlet: Inlet,
    #[flatten]
    outlet: Outlet,
    /// By aggregate.
    flows: BTreeMap<u32, Flow>,
    /// Aggregates by the descriptors of their flows' sockets.
    sockets: BTreeMap<RawFd, u32>,
    /// Packets with and without aggregate.
    with: u64,
    without: u64,
    said_full: bool,
    timer: Option<TimerId>,
}

struct Flow {
    socket: OwnedFd,
    used: Steady,
}

/// The program of a filter, in the kernel's machine language (bpf(4)), that lets through the
/// packets of one flow: from `remote` to our port.
fn program(remote: (Ipv4Addr, u16), port: u16) -> [sock_filter; 9] {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HEADER_LEN: u16 = 0xb1;
    const LOAD_SHORT_BEHIND: u16 = 0x48;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, k, jf| sock_filter { code, jt: 0, jf, k };
    [
        step(LOAD_WORD, 12, 0),
        step(JUMP_EQUAL, remote.0.to_bits(), 6),
        step(LOAD_HEADER_LEN, 0, 0),
        step(LOAD_SHORT_BEHIND, 0, 0),
        step(JUMP_EQUAL, remote.1.into(), 3),
        step(LOAD_SHORT_BEHIND, 2, 0),
        step(JUMP_EQUAL, port.into(), 1),
        step(RETURN, u32::MAX, 0),
        step(RETURN, 0, 0),
    ]
}

/// Protocol, far end and our port of a packet's flow; `None` if it is not TCP or UDP.
fn flow_of(packet: &Packet) -> Option<(u8, (Ipv4Addr, u16), u16)> {
    let header = packet.network_header()?;
    let ip = Ipv4Packet::new_quoted(header).ok()?;
    let protocol = ip.protocol();
    if protocol != IpProtocol::TCP && protocol != IpProtocol::UDP {
        return None;
    }
    let ports: &[u8; 4] = header.get(ip.header_len()..)?.first_chunk()?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    let (from, to) = ((ip.source(), port(0)), (ip.destination(), port(2)));
    let (own, remote) = match packet.anno(PAINT) & 1 {
        0 => (from, to),
        _ => (to, from),
    };
    Some((protocol.0, remote, own.1))
}

impl IPFlowRawSockets {
    /// Opens the flow of a packet.
    fn open(&mut self, cx: &mut Cx<'_>, aggregate: u32, packet: &Packet) -> Result<(), String> {
        let Some((protocol, remote, port)) = flow_of(packet) else {
            return Err("a packet that is neither TCP nor UDP was dropped".into());
        };
        let socket = open_raw(protocol)?;
        attach_filter(&socket, &mut program(remote, port))?;
        let fd = socket.as_raw_fd();
        cx.watch(fd, true, false);
        self.sockets.insert(fd, aggregate);
        let used = cx.steady();
        self.flows.insert(aggregate, Flow { socket, used });
        Ok(())
    }

    fn close(&mut self, cx: &mut Cx<'_>, aggregate: u32) {
        if let Some(flow) = self.flows.remove(&aggregate) {
            let fd = flow.socket.as_raw_fd();
            cx.watch(fd, false, false);
            self.sockets.remove(&fd);
        }
    }

    fn say(cx: &mut Cx<'_>, text: &str) {
        let declaration = cx.declaration();
        cx.chatter(format_args!("{declaration}: {text}"));
    }

    fn send(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        let aggregate = packet.anno(AGGREGATE);
        if aggregate == 0 {
            self.without += 1;
            return;
        }
        if !self.flows.contains_key(&aggregate) {
            if self.flows.len() >= FLOWS {
                if !core::mem::replace(&mut self.said_full, true) {
                    Self::say(cx, "4096 flows are open: packets of others are dropped");
                }
                return;
            }
            if let Err(error) = self.open(cx, aggregate, packet) {
                return Self::say(cx, &error);
            }
        }
        self.with += 1;
        let Some(flow) = self.flows.get_mut(&aggregate) else {
            return;
        };
        flow.used = cx.steady();
        if let Err(errno) = send_raw(&flow.socket, packet) {
            let reason = super::os_error(&errno.into());
            Self::say(cx, &alloc::format!("sendto: {reason}"));
        }
    }

    /// Receives one packet of a flow; false if none is there.
    fn receive(&mut self, cx: &mut Cx<'_>, fd: RawFd) -> bool {
        let flow = self.sockets.get(&fd).and_then(|at| self.flows.get_mut(at));
        let Some(flow) = flow else {
            return false;
        };
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let socket = &flow.socket;
        match self.inlet.receive(cx, |room| recvfrom(socket, room, flags)) {
            Ok(Some((mut packet, _))) => {
                flow.used = cx.steady();
                if LinkType::RAW.force_ip(&mut packet) {
                    cx.emit(0, packet)
                } else {
                    cx.kill(packet)
                }
                true
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => false,
            Err(errno) => {
                let reason = super::os_error(&errno.into());
                Self::say(cx, &alloc::format!("read: {reason}"));
                false
            }
        }
    }
}

#[handlers]
impl IPFlowRawSockets {
    /// Ends all flows.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        while let Some(aggregate) = self.flows.keys().next().copied() {
            self.close(cx, aggregate);
        }
    }
}

impl AggregateListener for IPFlowRawSockets {
    fn aggregate_ended(&mut self, cx: &mut Cx<'_>, aggregate: u32) {
        self.close(cx, aggregate);
    }
}

impl Descriptors for IPFlowRawSockets {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: RawFd, _readable: bool, _writable: bool) {
        for _ in 0..cx.limit() {
            if !self.receive(cx, fd) {
                break;
            }
        }
    }
}

impl Element for IPFlowRawSockets {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.inlet.snaplen, self.inlet.headroom) = (self.snaplen, self.headroom);
        self.inlet.check(args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.outlet.initialize(cx);
        let timer = cx.timer();
        cx.schedule_after(timer, SWEEP);
        self.timer = Some(timer);
        if let Some(notifier) = self.notifier {
            aggregates::listen(cx, notifier);
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.clear(cx);
        self.outlet.clear(cx);
        if self.without > 0 && self.with == 0 {
            Self::say(cx, "warning: saw no packets with aggregate annotations");
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            self.send(cx, &packet);
            cx.kill(packet);
        }
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let mut outlet = core::mem::take(&mut self.outlet);
        let ran = outlet.run(cx, |cx, packet| {
            self.send(cx, packet);
            Sent::Done
        });
        self.outlet = outlet;
        ran
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady();
        let silent = |flow: &Flow| now.since(flow.used) > SILENCE;
        let over = self.flows.iter().filter(|(_, flow)| silent(flow));
        let over: alloc::vec::Vec<u32> = over.map(|(aggregate, _)| *aggregate).collect();
        for aggregate in over {
            self.close(cx, aggregate);
        }
        cx.schedule_after(timer, SWEEP);
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> MarkIPHeader -> f :: IPFlowRawSockets -> c :: Collect;";

    #[test]
    fn each_flow_gets_what_its_other_end_sends() {
        let namespace = Namespace::new("flow-sockets");
        namespace.ip("link set lo up");
        namespace.within(|| {
            let [one, two] = [5000, 5001].map(|port| {
                let socket = UdpSocket::bind(("127.0.0.1", port)).unwrap();
                socket
                    .set_read_timeout(Some(Duration::from_secs(2)))
                    .unwrap();
                socket
            });
            let mut rig = Rig::new(CONFIG);
            let local = [127, 0, 0, 1].into();
            let packet = udp((local, 6000), (local, 5000), b"out");
            rig.push("i", &packet);
            rig.push_with("i", &packet, |packet| packet.set_anno(AGGREGATE, 7));
            let mut room = [0; 100];
            assert_eq!(one.recv(&mut room).unwrap(), 3);
            assert_eq!(rig.router.watches().len(), 1);
            two.send_to(b"of no flow", "127.0.0.1:6000").unwrap();
            one.send_to(b"of no flow", "127.0.0.1:6001").unwrap();
            one.send_to(b"back", "127.0.0.1:6000").unwrap();
            let mut heard = std::vec::Vec::new();
            run_until(&mut rig, |rig| {
                heard.extend(rig.data("c"));
                !heard.is_empty()
            });
            assert_eq!((heard.len(), &heard[0][28..]), (1, &b"back"[..]));
            rig.advance(320_000_000_000);
            assert!(rig.router.watches().is_empty());
        });
    }

    #[test]
    fn flows_end_when_the_notifier_says_so() {
        let namespace = Namespace::new("flow-notifier");
        namespace.ip("link set lo up");
        namespace.within(|| {
            let mut rig = Rig::new(
                "i :: Inject -> MarkIPHeader -> a :: AggregateIPFlows
                    -> f :: IPFlowRawSockets(NOTIFIER a) -> c :: Collect;",
            );
            let local = [127, 0, 0, 1].into();
            for port in [6000, 6001, 6000] {
                rig.push("i", &udp((local, port), (local, 5000), b"out"));
            }
            assert_eq!(rig.router.watches().len(), 2);
            rig.write("a.clear", "");
            rig.run();
            assert!(rig.router.watches().is_empty());
            rig.push("i", &udp((local, 6000), (local, 5000), b"out"));
            assert_eq!(rig.router.watches().len(), 1);
        });
    }

    #[test]
    fn packets_without_flow_are_dropped() {
        let mut rig = Rig::new(CONFIG);
        rig.push(
            "i",
            &udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), &[]),
        );
        let mut packet = udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), &[]);
        packet[9] = 1;
        rig.push_with("i", &packet, |packet| packet.set_anno(AGGREGATE, 7));
        assert_eq!(rig.outstanding(), 0);
        let expected = ["f :: IPFlowRawSockets: a packet that is neither TCP nor UDP was dropped"];
        assert_eq!(rig.printed(), expected);
        let errors = Rig::errors("Idle -> IPFlowRawSockets(NOTIFIER d) -> d :: Discard;");
        assert!(errors.contains("expected AggregateNotifier"), "{errors}");
    }
}
