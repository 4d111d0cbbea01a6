use core::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt as nix_sockopt};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, ipproto,
    recvfrom, sendto, socket_with, sockopt,
};

use super::transport::{Inlet, Outlet, Sent, call_failed};
use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// Longest wait before a packet is tried again, in microseconds.
const BACKOFF_MAX: u64 = 1 << 16;

/// The option that says that packets sent have their own IP header.
#[derive(Clone, Copy, Debug)]
struct HeaderIncluded;

nix::setsockopt_impl!(
    HeaderIncluded,
    libc::IPPROTO_IP,
    libc::IP_HDRINCL,
    bool,
    nix_sockopt::SetBool
);

/// Opens a raw socket for packets of one protocol, with their own IP header, to any address.
/// An error is a sentence.
pub(super) fn open_raw(protocol: u8) -> Result<OwnedFd, String> {
    let place = format!("for IP protocol {protocol}");
    let failed = |call: &str, errno| call_failed(call, &place, errno);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let number = rustix::net::RawProtocol::new(u32::from(protocol)).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, number);
    let socket = socket.map_err(|errno| failed("socket", errno))?;
    setsockopt(&socket, HeaderIncluded, &true)
        .map_err(|errno| failed("IP_HDRINCL", Errno::from_raw_os_error(errno as i32)))?;
    sockopt::set_socket_broadcast(&socket, true).map_err(|errno| failed("SO_BROADCAST", errno))?;
    Ok(socket)
}

/// Sends one packet that starts with its IP header to where that says.
pub(super) fn send_raw(socket: &OwnedFd, packet: &Packet) -> Result<Sent, Errno> {
    let Some(&[a, b, c, d]) = packet.data().get(16..20) else {
        return Ok(Sent::Done);
    };
    let to = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), 0);
    loop {
        match sendto(socket, packet.data(), SendFlags::DONTWAIT, &to) {
            Ok(_) => return Ok(Sent::Done),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(Sent::Later),
            Err(errno) => return Err(errno),
        }
    }
}

/// Sends IP packets directly, and receives copies of the host's IP packets.
///
/// Input packets are sent unchanged, IP header included, to their destination. Output packets are
/// copies of the packets of one protocol that are addressed to this host, with their IP header
/// marked. The host's TCP or UDP sees them too, and may answer them. With PORT, a TCP or UDP socket
/// is bound to the port, so that no other program gets it; the packets of all ports are still
/// received.
///
/// # Arguments
/// - `PORT` (integer): a port to reserve, with `TCP` and `UDP`. It is the second argument.
///
/// # Example
/// ```click
/// RawSocket(UDP, 53) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// Socket, IPFlowRawSockets, FromDevice
#[derive(Element)]
#[element(
    ports = "0-1/0-1",
    processing = "l/h",
    flow = "x/y",
    raw,
    provides(Descriptors)
)]
#[inputs("packets to send")]
#[outputs("packets received")]
pub struct RawSocket {
    /// `TCP`, `UDP`, `ICMP`, `GRE`, or a number from 1 to 255.
    #[arg(mandatory, name = "TYPE", with = parse_protocol, kind = "IP protocol")]
    protocol: u8,
    #[flatten]
    inlet: Inlet,
    #[flatten]
    #[init(Outlet::with_task())]
    outlet: Outlet,
    port: u16,
    socket: Option<OwnedFd>,
    /// Keeps the port from others.
    port_holder: Option<OwnedFd>,
    timer: Option<TimerId>,
    /// Microseconds of the last wait for room.
    backoff: u64,
}

impl RawSocket {
    fn hold_port(&mut self) -> Result<(), String> {
        let (kind, protocol) = match i32::from(self.protocol) {
            libc::IPPROTO_TCP => (SocketType::STREAM, ipproto::TCP),
            libc::IPPROTO_UDP => (SocketType::DGRAM, ipproto::UDP),
            _ => return Ok(()),
        };
        if self.port == 0 {
            return Ok(());
        }
        let address = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, self.port);
        let failed = |call: &str, errno| call_failed(call, &format!("{address}"), errno);
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, kind, flags, Some(protocol));
        let socket = socket.map_err(|errno| failed("socket", errno))?;
        bind(&socket, &address).map_err(|errno| failed("bind", errno))?;
        self.port_holder = Some(socket);
        Ok(())
    }

    /// Receives one packet; false if none is there.
    fn receive(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        match self.inlet.receive(cx, |room| recvfrom(socket, room, flags)) {
            Ok(Some((mut packet, _))) => {
                if LinkType::RAW.force_ip(&mut packet) {
                    cx.emit(0, packet)
                } else {
                    cx.kill(packet)
                }
                true
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => false,
            Err(errno) => {
                let (declaration, reason) = (cx.declaration(), super::os_error(&errno.into()));
                cx.chatter(format_args!("{declaration}: recv: {reason}"));
                false
            }
        }
    }
}

fn send_or_say(socket: &OwnedFd, cx: &mut Cx<'_>, packet: &Packet) -> Sent {
    if packet.len() < 20 {
        let (declaration, length) = (cx.declaration(), packet.len());
        cx.chatter(format_args!(
            "{declaration}: runt IP packet ({length} bytes)"
        ));
        return Sent::Done;
    }
    send_raw(socket, packet).unwrap_or_else(|errno| {
        let (declaration, reason) = (cx.declaration(), super::os_error(&errno.into()));
        cx.chatter(format_args!("{declaration}: sendto: {reason}"));
        Sent::Done
    })
}

/// A protocol by number or name; names stand in small letters, but are known in capitals too.
fn parse_protocol(text: &str, context: &Context<'_>) -> Result<u8, Invalid> {
    let protocols = NamedInt(Kind::IpProtocol);
    let small = context.parse_with::<u8>(protocols, &text.to_ascii_lowercase());
    small.or_else(|_| context.parse_with(protocols, text))
}

impl Descriptors for RawSocket {
    fn selected(&mut self, cx: &mut Cx<'_>, _fd: RawFd, _readable: bool, _writable: bool) {
        for _ in 0..cx.limit() {
            if !self.receive(cx) {
                break;
            }
        }
    }
}

impl Element for RawSocket {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let number = i32::from(self.protocol);
        let rest = args.read();
        let rest = if number == libc::IPPROTO_TCP || number == libc::IPPROTO_UDP {
            rest.positional_with("PORT", Port(self.protocol), &mut self.port)
        } else {
            rest.positional("PORT", &mut self.port)
        };
        rest.complete()?;
        if self.protocol == 0 {
            return Err(args.fail("TYPE must be an IP protocol from 1 to 255"));
        }
        self.inlet.check(args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let socket = open_raw(self.protocol).map_err(|error| cx.error(error))?;
        self.hold_port().map_err(|error| cx.error(error))?;
        if cx.outputs() > 0 {
            cx.watch(socket.as_raw_fd(), true, false);
        }
        self.socket = Some(socket);
        self.timer = Some(cx.timer());
        self.outlet.initialize(cx);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.outlet.clear(cx);
        if let Some(socket) = self.socket.take() {
            cx.watch(socket.as_raw_fd(), false, false);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.outlet.wake(cx);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let Some(socket) = &self.socket else {
            return Ran::Nothing;
        };
        let ran = self
            .outlet
            .run(cx, |cx, packet| send_or_say(socket, cx, packet));
        match self.timer.filter(|_| self.outlet.waits()) {
            // The device's queue is full: that the socket has room says nothing.
            Some(timer) => {
                self.backoff = (self.backoff * 2).clamp(1, BACKOFF_MAX);
                cx.schedule_after(timer, self.backoff * 1000);
            }
            None => self.backoff = 0,
        }
        ran
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use crate::testing::*;

    #[test]
    fn packets_go_out_and_come_in_with_their_ip_header() {
        let namespace = Namespace::new("raw-socket");
        namespace.ip("link set lo up");
        namespace.within(|| {
            let plain = UdpSocket::bind("127.0.0.1:5000").unwrap();
            plain
                .set_read_timeout(Some(Duration::from_secs(2)))
                .unwrap();
            let config = "i :: Inject -> Queue -> RawSocket(UDP, 5001) -> c :: Collect;";
            let mut rig = Rig::new(config);
            let local = [127, 0, 0, 1].into();
            rig.push("i", &[1; 19]);
            rig.push("i", &udp((local, 5001), (local, 5000), b"raw"));
            rig.run();
            let mut room = [0; 100];
            let (length, from) = plain.recv_from(&mut room).unwrap();
            assert_eq!((&room[..length], from.port()), (&b"raw"[..], 5001));
            plain.send_to(b"back", "127.0.0.1:5001").unwrap();
            let mut packets = Vec::new();
            run_until(&mut rig, |rig| {
                packets.extend(rig.collected("c"));
                packets.len() == 2
            });
            // What was sent came back over the loopback too.
            assert_eq!(&packets[1].data()[28..], b"back");
            assert_eq!(
                (packets[1].network_offset(), packets[1].dst_ip()),
                (Some(0), local)
            );
            let printed = rig.printed();
            assert!(
                printed[0].ends_with("RawSocket: runt IP packet (19 bytes)"),
                "{printed:?}"
            );
        });
    }

    #[test]
    fn what_cannot_be_is_said() {
        Rig::refuses("RawSocket(ZORK) -> Discard;", "TYPE");
        Rig::refuses("RawSocket(0) -> Discard;", "TYPE must be an IP protocol");
    }
}
