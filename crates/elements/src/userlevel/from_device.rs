use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use std::os::fd::RawFd;

use packet::anno::EXTRA_LENGTH;
use packet::{Batch, Packet};
use router::args::{Args, Failed, WordArg};
use router::{Capability, Class, Cx, Declared, Descriptors, Element, HandlerError, HandlerList, Ran, TaskId};

use super::kernel_filter::KernelFilter;
use super::packet_socket::{Direction, PacketSocket, Received, Wish};
use crate::link_type::LinkType;

/// Receives frames from one of the host's network interfaces.
///
/// It looks on: the host's own network stack gets the frames too, unless SNIFFER is false. Frames
/// carry a mark of their MAC header, their packet type, and the time at which the kernel received
/// them; the bytes beyond SNAPLEN are counted in the extra length annotation. If the interface
/// goes down or away, that is said, and no more frames come until it is back up. A VLAN tag that
/// the kernel keeps beside a frame is put back.
///
/// In a guest, FromDevice receives from one of the guest's interfaces, as FromNetfront does.
///
/// # Arguments
/// - `DEVNAME` (string): the interface.
/// - `PROMISC` (boolean, false): whether frames for other hosts are received too.
/// - `SNAPLEN` (integer, 2046): most bytes of a frame, from 14 to 65535.
/// - `SNIFFER` (boolean, true): if false, an iptables rule lets the kernel drop what it gets from
///   the interface.
/// - `FORCE_IP` (boolean, false): whether only IP packets leave by output 0, with their network
///   header marked; the others leave by output 1.
/// - `METHOD` (word): accepted; `LINUX`, a packet socket, is what there is.
/// - `BPF_FILTER` (string): the frames to receive, in the language of pcap-filter(7); the kernel
///   drops the others. tcpdump, which has to be installed, compiles it. It sees frames without the
///   VLAN tag that the kernel keeps beside them.
/// - `PROTOCOL` (integer, 0): the only link-level protocol received; 0: all.
/// - `OUTBOUND` (boolean, false): whether frames that the host sends are received too.
/// - `HEADROOM` (integer): bytes in front of each frame; at least 128.
/// - `ENCAP` (word, ETHER): accepted if it is ETHER.
/// - `BURST` (integer, 1): most frames each time it is scheduled.
/// - `TIMESTAMP` (boolean, true): whether frames carry a time.
///
/// # Ports
/// No input. Output 0 is push; output 1, optional, is push: with FORCE_IP, what is not IP.
///
/// # Handlers
/// - `count` (read): frames received.
/// - `reset_counts` (write): sets `count` to 0.
/// - `kernel_drops` (read): frames for which the kernel had no room.
/// - `encap` (read): ETHER.
///
/// # Example
/// ```click
/// FromDevice(eth0, SNIFFER false, BURST 32) -> Counter -> Discard;
/// ```
///
/// # See also
/// ToDevice, FromNetfront, FromDump
#[derive(Default)]
pub struct FromDevice {
    interface: String,
    promiscuous: bool,
    sniffer: bool,
    snaplen: u32,
    force_ip: bool,
    outbound: bool,
    protocol: u16,
    headroom: u32,
    timestamp: bool,
    burst: u32,
    /// Frames left of the burst under way.
    left: u32,
    count: u64,
    socket: Option<PacketSocket>,
    /// Frames that were received with others in one call, and wait for their turn.
    ahead: VecDeque<Received>,
    kernel_filter: String,
    filter: Option<KernelFilter>,
    task: Option<TaskId>,
}

impl Class for FromDevice {
    const NAME: &'static str = "FromDevice";
    const PORTS: &'static str = "0/1-2";
    const PROCESSING: &'static str = "/h";
    const CAPABILITIES: &'static [Capability] = router::provides!(FromDevice: Descriptors);
}

/// Looks whether there is a way METHOD to the device; every way is the same here.
pub(super) fn check_method(args: &Args<'_>, method: &str) -> Result<(), Failed> {
    match method {
        "" | "LINUX" => Ok(()),
        "PCAP" | "NETMAP" => {
            args.warning(format_args!("METHOD {method} is not there; using LINUX"));
            Ok(())
        }
        _ => Err(args.fail("bad METHOD")),
    }
}

impl FromDevice {
    fn wish(&self) -> Wish {
        Wish {
            snaplen: self.snaplen as usize,
            headroom: self.headroom as usize,
            outbound: self.outbound,
        }
    }

    /// Takes at most `most` frames; returns whether there may be more at once.
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> bool {
        let wish = self.wish();
        let mut taken = 0;
        while taken < most {
            if let Some(received) = self.ahead.pop_front() {
                self.take(cx, batch, received);
                taken += 1;
                continue;
            }
            let Some(socket) = &mut self.socket else {
                return false;
            };
            match socket.receive(cx.pool(), &wish, &mut self.ahead) {
                Ok(more) if self.ahead.is_empty() => return more,
                Ok(_) => {}
                Err(error) => {
                    let (name, error) = (&self.interface, super::os_error(&error));
                    cx.chatter(format_args!("FromDevice({name}): recvfrom: {error}"));
                    return false;
                }
            }
        }
        true
    }

    fn take(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, received: Received) {
        let Received {
            mut packet,
            length,
            protocol,
        } = received;
        if self.protocol != 0 && protocol != self.protocol {
            cx.kill(packet);
            return;
        }
        if !self.timestamp {
            packet.set_timestamp(0);
        }
        let missing = length.saturating_sub(packet.len());
        if missing > 0 {
            packet.set_anno(EXTRA_LENGTH, missing as u32);
        }
        self.count += 1;
        self.send(cx, batch, packet);
    }

    fn send(&self, cx: &mut Cx<'_>, batch: &mut Batch, mut packet: Packet) {
        if self.force_ip && !LinkType::ETHERNET.force_ip(&mut packet) {
            cx.emit(1, packet);
        } else if let Err(packet) = batch.push(packet) {
            cx.kill(packet);
        }
    }
}

impl Declared for FromDevice {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.snaplen, self.sniffer, self.timestamp, self.burst) = (2046, true, true, 1);
        let (mut method, mut capture) = (String::new(), String::new());
        let (mut filter, mut encap) = (String::new(), String::new());
        args.mandatory_positional("DEVNAME", &mut self.interface)
            .positional("PROMISC", &mut self.promiscuous)
            .positional("SNAPLEN", &mut self.snaplen)
            .keyword("SNIFFER", &mut self.sniffer)
            .keyword("FORCE_IP", &mut self.force_ip)
            .keyword_with("METHOD", WordArg, &mut method)
            .keyword_with("CAPTURE", WordArg, &mut capture)
            .keyword("BPF_FILTER", &mut filter)
            .keyword("PROTOCOL", &mut self.protocol)
            .keyword("OUTBOUND", &mut self.outbound)
            .keyword("HEADROOM", &mut self.headroom)
            .keyword_with("ENCAP", WordArg, &mut encap)
            .keyword("BURST", &mut self.burst)
            .keyword("TIMESTAMP", &mut self.timestamp)
            .complete()?;
        if !(14..=65535).contains(&self.snaplen) {
            return Err(args.fail("SNAPLEN out of range"));
        }
        if self.headroom > 8190 {
            return Err(args.fail("HEADROOM out of range"));
        }
        if self.burst == 0 || self.burst > i32::MAX as u32 {
            return Err(args.fail("BURST out of range"));
        }
        match encap.as_str() {
            "" | "ETHER" => {}
            name if LinkType::parse(name).is_some() => {
                args.warning(format_args!("ENCAP {name} is not there; using ETHER"));
            }
            _ => return Err(args.fail("bad encapsulation type")),
        }
        let method = if method.is_empty() { capture } else { method };
        check_method(args, &method)?;
        self.kernel_filter = filter;
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("kernel_drops").read("encap").read("count");
        list.button("reset_counts");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "kernel_drops" => Ok(match &self.socket {
                Some(socket) => socket.drops().to_string(),
                None => "??".to_string(),
            }),
            "encap" => Ok(LinkType::ETHERNET.name().into_owned()),
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Descriptors for FromDevice {
    fn selected(&mut self, cx: &mut Cx<'_>, _fd: RawFd, _readable: bool, _writable: bool) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }
}

impl Element for FromDevice {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if self.interface.is_empty() {
            return Err(cx.error("interface not set"));
        }
        let socket = PacketSocket::open(&self.interface, Direction::Receive);
        let mut socket = socket.map_err(|error| {
            let name = &self.interface;
            cx.error(format_args!("{name}: {error}"))
        })?;
        if !self.kernel_filter.is_empty() {
            let set = socket.set_filter(cx.pool(), &self.kernel_filter);
            set.map_err(|error| cx.error(error))?;
        }
        if self.promiscuous && socket.set_promiscuous().is_err() {
            cx.warning("cannot set promiscuous mode");
        }
        if !self.sniffer {
            match KernelFilter::install(&self.interface) {
                Ok(filter) => self.filter = Some(filter),
                Err(error) => cx.warning(format_args!(
                    "SNIFFER false: the kernel gets the packets too: {error}"
                )),
            }
        }
        cx.watch(socket.fd(), true, false);
        self.socket = Some(socket);
        self.task = Some(cx.task());
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(socket) = self.socket.take() {
            cx.watch(socket.fd(), false, false);
        }
        for received in self.ahead.drain(..) {
            cx.kill(received.packet);
        }
        self.filter = None;
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if self.left == 0 {
            self.left = self.burst;
        }
        let most = (self.left as usize).min(cx.limit());
        let mut batch = cx.batch();
        let more = self.receive(cx, &mut batch, most);
        let worked = more || !batch.is_empty();
        cx.push(0, batch);
        self.left -= (most as u32).min(self.left);
        if more && self.left > 0 {
            return Ran::More;
        }
        self.left = 0;
        if more {
            cx.schedule(task);
        }
        Ran::worked(worked)
    }
}
