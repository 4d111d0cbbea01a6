use core::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt as nix_sockopt};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, getsockname, ipproto,
    recvfrom, sendto, socket_with,
};

use super::transport::{Inlet, Outlet, Sent, call_failed, wait_writable};
use crate::prelude::*;

/// The option that lets a socket hear groups that others on this host have joined.
#[derive(Clone, Copy, Debug)]
struct MulticastAll;

nix::setsockopt_impl!(
    MulticastAll,
    libc::IPPROTO_IP,
    libc::IP_MULTICAST_ALL,
    bool,
    nix_sockopt::SetBool
);

/// Sends packets to a multicast group over UDP, and receives the group's packets.
///
/// Input packets go to the group; packets from the group leave by the output. With a source
/// address, the element uses the interface with that address, and ignores its own packets. Without
/// it, routing chooses the interface, and the element receives its own packets unless LOOP is
/// false.
///
/// A pushed packet blocks the router until the socket has room; a pulled one waits without
/// blocking. When the kernel refuses a packet for another reason, the element prints a message and
/// closes the socket.
///
/// # Example
/// ```click
/// RatedSource("hello", RATE 1) -> McastSocket(233.252.0.0, 1234, 127.0.0.1) -> Print -> Discard;
/// ```
///
/// # See also
/// Socket, RawSocket
#[derive(Element)]
#[element(
    ports = "0-1/0-1",
    processing = "a/h",
    flow = "x/y",
    provides(Descriptors)
)]
#[inputs("packets to send")]
#[outputs("packets received")]
pub struct McastSocket {
    /// The group.
    #[arg(mandatory, name = "MCASTIP")]
    group_address: Ipv4Addr,
    /// The group's port.
    #[arg(mandatory, name = "MCASTPORT")]
    group_port: UdpPort,
    /// The source address of sent packets.
    #[arg(positional, name = "SOURCEIP")]
    source_address: Option<Ipv4Addr>,
    /// The source port; chosen by the kernel if it is 0.
    #[arg(positional, name = "SOURCEPORT", default_text = "0")]
    source_port: UdpPort,
    /// Bytes of the queue of packets received.
    #[arg(name = "RCVBUF", default = -1, default_text = "")]
    receive_buffer: i32,
    /// Bytes of the queue of packets to send.
    #[arg(name = "SNDBUF", default = -1, default_text = "")]
    send_buffer: i32,
    /// Whether this host receives its own packets.
    #[arg(name = "LOOP", default = true)]
    loops: bool,
    /// Whether packets carry the time at which they were received.
    #[arg(default = true)]
    timestamp: bool,
    #[flatten]
    inlet: Inlet,
    #[flatten]
    #[init(Outlet::with_task())]
    outlet: Outlet,
    group: Option<SocketAddrV4>,
    source: Option<SocketAddrV4>,
    receiver: Option<OwnedFd>,
    sender: Option<OwnedFd>,
}

impl McastSocket {
    /// Opens both sockets; an error is a sentence.
    fn open(&mut self, group: SocketAddrV4) -> Result<(), String> {
        let place = format!("{group}");
        let at = |call: &'static str| {
            let place = place.clone();
            move |errno| call_failed(call, &place, errno)
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = || {
            socket_with(
                AddressFamily::INET,
                SocketType::DGRAM,
                flags,
                Some(ipproto::UDP),
            )
        };
        let receiver = new().map_err(at("socket"))?;
        let sender = new().map_err(at("socket"))?;
        if let Ok(size) = usize::try_from(self.send_buffer) {
            let set = sockopt::set_socket_send_buffer_size(&sender, size);
            set.map_err(at("setsockopt(SO_SNDBUF)"))?;
        }
        if let Ok(size) = usize::try_from(self.receive_buffer) {
            let set = sockopt::set_socket_recv_buffer_size(&receiver, size);
            set.map_err(at("setsockopt(SO_RCVBUF)"))?;
        }
        // Others on this host may listen to the group too.
        let set = sockopt::set_socket_reuseaddr(&receiver, true);
        set.map_err(at("setsockopt(SO_REUSEADDR)"))?;
        bind(&receiver, &group).map_err(at("bind"))?;
        let mut interface = Ipv4Addr::UNSPECIFIED;
        if let Some(source) = self.source {
            let failed = |call: &str, errno| call_failed(call, &format!("{source}"), errno);
            interface = *source.ip();
            bind(&sender, &source).map_err(|errno| failed("bind", errno))?;
            let own = getsockname(&sender).map_err(|errno| failed("getsockname", errno))?;
            self.source = own.try_into().ok();
            let set = sockopt::set_ip_multicast_if(&sender, &interface);
            set.map_err(|errno| failed("setsockopt(IP_MULTICAST_IF)", errno))?;
        }
        let joined = sockopt::set_ip_add_membership(&receiver, group.ip(), &interface);
        joined.map_err(at("setsockopt(IP_ADD_MEMBERSHIP)"))?;
        // Else it hears what comes to the group by any interface where another program joined it.
        let set = setsockopt(&receiver, MulticastAll, &false);
        set.map_err(|errno| at("setsockopt(IP_MULTICAST_ALL)")(errno_of(errno)))?;
        let set = sockopt::set_ip_multicast_loop(&sender, self.loops);
        set.map_err(at("setsockopt(IP_MULTICAST_LOOP)"))?;
        (self.receiver, self.sender) = (Some(receiver), Some(sender));
        Ok(())
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        for socket in [self.receiver.take(), self.sender.take()]
            .into_iter()
            .flatten()
        {
            cx.watch(socket.as_raw_fd(), false, false);
        }
        self.outlet.clear(cx);
    }

    fn give_up(&mut self, cx: &mut Cx<'_>, errno: Errno) {
        let declaration = cx.declaration();
        let reason = super::os_error(&errno.into());
        cx.chatter(format_args!("{declaration}: {reason}"));
        self.close(cx);
    }

    /// Receives one packet; false if none is there.
    fn receive(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(socket) = &self.receiver else {
            return false;
        };
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        match self.inlet.receive(cx, |room| recvfrom(socket, room, flags)) {
            Ok(Some((packet, from))) => {
                let from: Option<SocketAddrV4> = from.and_then(|from| from.try_into().ok());
                if self.source.is_some() && from == self.source {
                    cx.kill(packet);
                } else {
                    cx.emit(0, packet);
                }
                true
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => false,
            Err(errno) => {
                self.give_up(cx, errno);
                false
            }
        }
    }

    /// Sends one packet.
    fn send(&self, packet: &Packet) -> Result<Sent, Errno> {
        let (Some(socket), Some(group)) = (&self.sender, self.group) else {
            return Ok(Sent::Done);
        };
        loop {
            match sendto(socket, packet.data(), SendFlags::DONTWAIT, &group) {
                Ok(_) => return Ok(Sent::Done),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(Sent::Later),
                Err(errno) => return Err(errno),
            }
        }
    }
}

fn errno_of(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}

impl Descriptors for McastSocket {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: RawFd, _readable: bool, _writable: bool) {
        if self.sender.as_ref().map(|socket| socket.as_raw_fd()) == Some(fd) {
            cx.watch(fd, false, false);
            self.outlet.wake(cx);
            return;
        }
        for _ in 0..cx.limit() {
            if !self.receive(cx) {
                break;
            }
        }
    }
}

impl Element for McastSocket {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !self.group_address.is_multicast() {
            let text = "MCASTIP must be a multicast address, 224.0.0.0 to 239.255.255.255";
            return Err(args.fail(text));
        }
        self.group = Some(SocketAddrV4::new(self.group_address, self.group_port.0));
        let source = self
            .source_address
            .filter(|source| !source.is_unspecified());
        self.source = source.map(|source| SocketAddrV4::new(source, self.source_port.0));
        self.inlet.timestamp = self.timestamp;
        self.inlet.check(args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if let Some(group) = self.group {
            self.open(group).map_err(|error| cx.error(error))?;
        }
        if let (Some(receiver), 1..) = (&self.receiver, cx.outputs()) {
            cx.watch(receiver.as_raw_fd(), true, false);
        }
        self.outlet.initialize(cx);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.close(cx);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            loop {
                match self.send(&packet) {
                    Ok(Sent::Done) => break,
                    Ok(Sent::Later) => {
                        let waited = self.sender.as_ref().map(|fd| wait_writable(fd.as_fd()));
                        if let None | Some(Err(_)) = waited {
                            break;
                        }
                    }
                    Err(errno) => {
                        self.give_up(cx, errno);
                        break;
                    }
                }
            }
            cx.kill(packet);
        }
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        if self.sender.is_none() {
            return Ran::Nothing;
        }
        let mut outlet = core::mem::take(&mut self.outlet);
        let mut failed = None;
        let ran = outlet.run(cx, |_, packet| {
            self.send(packet).unwrap_or_else(|errno| {
                failed = Some(errno);
                Sent::Done
            })
        });
        self.outlet = outlet;
        if let Some(errno) = failed {
            self.give_up(cx, errno);
        } else if let (true, Some(socket)) = (self.outlet.waits(), &self.sender) {
            cx.watch(socket.as_raw_fd(), false, true);
        }
        ran
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> m :: McastSocket(233.252.0.0, 4321, 127.0.0.1)
        -> c :: Collect;";

    /// A namespace whose loopback takes multicast.
    fn namespace(test: &str) -> Namespace {
        let namespace = Namespace::new(test);
        namespace.ip("link set lo up");
        namespace.ip("route add 224.0.0.0/4 dev lo");
        namespace
    }

    #[test]
    fn others_packets_come_and_own_ones_do_not() {
        namespace("mcast").within(|| {
            let (mut a, mut b) = (Rig::new(CONFIG), Rig::new(CONFIG));
            a.push("i", b"from a");
            b.push("i", b"from b");
            let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
            run_until(&mut a, |a| {
                at_a.extend(a.collected("c"));
                !at_a.is_empty()
            });
            run_until(&mut b, |b| {
                at_b.extend(b.collected("c"));
                !at_b.is_empty()
            });
            assert_eq!(at_a[0].data(), b"from b");
            assert_eq!(at_b[0].data(), b"from a");
            assert_eq!((at_a.len(), at_b.len()), (1, 1));
            assert_ne!(at_a[0].timestamp(), 0);
        });
    }

    #[test]
    fn a_group_is_received_only_on_its_own_interface() {
        let namespace = Namespace::with_veth("mcast-one");
        namespace.ip("link set lo up");
        namespace.ip("address add 192.0.2.1/24 dev veth0");
        namespace.within(|| {
            let other = CONFIG.replace("127.0.0.1", "192.0.2.1");
            let (mut here, mut near, mut far) =
                (Rig::new(CONFIG), Rig::new(CONFIG), Rig::new(&other));
            far.push("i", b"by veth0");
            near.push("i", b"by lo");
            let mut received = Vec::new();
            run_until(&mut here, |here| {
                received.extend(here.data("c"));
                !received.is_empty()
            });
            assert_eq!(received, [b"by lo"]);
        });
    }

    #[test]
    fn packets_are_pulled_and_long_ones_cut() {
        namespace("mcast-pull").within(|| {
            let plain = UdpSocket::bind("0.0.0.0:4321").unwrap();
            let group = Ipv4Addr::new(233, 252, 0, 0);
            let config = "i :: Inject -> q :: Queue -> McastSocket(233.252.0.0, 4322, LOOP true)
                -> c :: Collect;
                f :: McastSocket(233.252.0.0, 4322, SNAPLEN 5) -> d :: Collect;";
            let mut rig = Rig::new(config);
            rig.push_all("i", &[b"one".to_vec(), b"twotwo".to_vec()]);
            let (mut whole, mut cut) = (Vec::new(), Vec::new());
            run_until(&mut rig, |rig| {
                whole.extend(rig.collected("c"));
                cut.extend(rig.collected("d"));
                whole.len() == 2 && cut.len() == 2
            });
            assert_eq!(whole[1].data(), b"twotwo");
            assert_eq!(
                (cut[1].data(), cut[1].anno(EXTRA_LENGTH)),
                (&b"twotw"[..], 1)
            );
            assert_eq!(rig.read("q.length"), "0");
            drop((plain, group));
        });
    }

    #[test]
    fn what_cannot_be_is_said() {
        let error = |config: &str, text: &str| {
            Rig::refuses(config, text);
        };
        error(
            "McastSocket(10.0.0.1, 1) -> Discard;",
            "MCASTIP must be a multicast address",
        );
        error(
            "McastSocket(233.252.0.0, 4321, 203.0.113.9) -> Discard;",
            "bind 203.0.113.9:0: Cannot assign requested address; give the host that address",
        );
        error(
            "McastSocket(233.252.0.0, 1, SNAPLEN 0) -> Discard;",
            "SNAPLEN must be from 1",
        );
    }
}
