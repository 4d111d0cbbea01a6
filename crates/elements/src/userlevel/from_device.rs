use std::os::fd::RawFd;

use super::kernel_filter::KernelFilter;
use super::packet_socket::{Direction, PacketSocket, Received, Wish};
use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// Receives frames from a network interface of the host.
///
/// The host's network stack receives the frames too, unless SNIFFER is false. Frames have their MAC
/// header marked, their packet type, and the kernel's receive time; bytes beyond SNAPLEN are
/// counted in the extra length annotation. If the interface goes down or is removed, the element
/// prints a message, and receives again when the interface is back. A VLAN tag that the kernel has
/// stripped is restored.
///
/// In a guest, FromDevice receives from one of the guest's interfaces, as FromNetfront does.
///
/// # Example
/// ```click
/// FromDevice(eth0, SNIFFER false, BURST 32) -> Counter -> Discard;
/// ```
///
/// # See also
/// ToDevice, FromNetfront, FromDump
#[derive(Element)]
#[element(
    ports = "0/1-2",
    processing = "/h",
    handlers,
    provides(Descriptors, DeviceReader)
)]
#[outputs("frames", "with FORCE_IP, frames without an IP packet")]
pub struct FromDevice {
    /// The interface.
    #[arg(mandatory, name = "DEVNAME")]
    interface: String,
    /// Whether frames for other hosts are received too.
    #[arg(positional, name = "PROMISC")]
    promiscuous: bool,
    /// Most bytes of a frame, from 14 to 65535.
    #[arg(positional, default = 2046)]
    snaplen: u32,
    /// If false, an iptables rule makes the kernel drop the frames of the interface.
    #[arg(default = true)]
    sniffer: bool,
    /// Whether only IP packets leave by output 0, with their network header marked; other frames
    /// leave by output 1.
    #[arg]
    force_ip: bool,
    /// Accepted; there is only `LINUX`, a packet socket.
    #[arg(with = WordArg, kind = "word")]
    method: String,
    /// As METHOD.
    #[arg(with = WordArg, kind = "word")]
    capture: String,
    /// The frames to receive, in the language of pcap-filter(7); the kernel drops other frames.
    /// tcpdump, which must be installed, compiles it. It sees frames without the VLAN tag that the
    /// kernel has stripped.
    #[arg(name = "BPF_FILTER")]
    kernel_filter: String,
    /// The only link-level protocol received; 0: all.
    #[arg(default = 0)]
    protocol: u16,
    /// Whether frames that the host sends are received too. A ToDevice of the same interface sends
    /// by the socket of the first FromDevice, which does not receive these frames.
    #[arg]
    outbound: bool,
    /// Bytes in front of each frame; at least 128.
    #[arg]
    headroom: u32,
    /// Accepted if it is ETHER.
    #[arg(with = WordArg, kind = "word", default_text = "ETHER")]
    encap: String,
    /// Most frames each time it is scheduled.
    #[arg(default = 1)]
    burst: u32,
    /// Whether frames carry the time at which the kernel received them.
    #[arg(default = true)]
    timestamp: bool,
    /// Frames left of the burst under way.
    left: u32,
    /// Frames received.
    #[handler(read)]
    count: u64,
    socket: Option<PacketSocket>,
    /// Frames that were received with others in one call, and are yet to be sent.
    ahead: VecDeque<Received>,
    filter: Option<KernelFilter>,
    task: Option<TaskId>,
}

/// An element that receives from one of the host's interfaces.
pub(super) trait DeviceReader {
    /// The socket by which it receives, if it is on this interface and open.
    fn socket_on(&self, interface: &str) -> Option<&PacketSocket>;
}

impl Interface for dyn DeviceReader {
    const NAME: &'static str = "DeviceReader";
}

impl DeviceReader for FromDevice {
    fn socket_on(&self, interface: &str) -> Option<&PacketSocket> {
        let socket = self.socket.as_ref();
        socket.filter(|_| self.interface == interface)
    }
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

#[handlers]
impl FromDevice {
    /// Frames that the kernel dropped because its queue was full.
    #[read]
    fn kernel_drops(&self) -> String {
        match &self.socket {
            Some(socket) => socket.drops().to_string(),
            None => "??".to_string(),
        }
    }

    /// The link type of the frames, for ToDump's USE_ENCAP_FROM: `ETHER`.
    #[read]
    fn encap(&self) -> String {
        LinkType::ETHERNET.name().into_owned()
    }

    /// Sets `count` to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        self.count = 0;
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
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !(14..=65535).contains(&self.snaplen) {
            return Err(args.fail("SNAPLEN out of range"));
        }
        if self.headroom > 8190 {
            return Err(args.fail("HEADROOM out of range"));
        }
        if self.burst == 0 || self.burst > i32::MAX as u32 {
            return Err(args.fail("BURST out of range"));
        }
        match self.encap.as_str() {
            "" | "ETHER" => {}
            name if LinkType::parse(name).is_some() => {
                args.warning(format_args!("ENCAP {name} is not there; using ETHER"));
            }
            _ => return Err(args.fail("bad encapsulation type")),
        }
        let methods = [&self.method, &self.capture];
        let method = methods.into_iter().find(|method| !method.is_empty());
        check_method(args, method.map_or("", String::as_str))
    }

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
