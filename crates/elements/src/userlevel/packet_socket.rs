//! Packet sockets: frames of one of the host's interfaces, past its network stack (packet(7)).

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::string::String;
use std::vec::Vec;
use std::{boxed::Box, format, vec};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind,
    recvmsg, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use packet::{DATA_MAX, HEADROOM, Packet, PacketType, Pool};

/// Bytes of frames that the kernel holds for a socket.
const QUEUE: usize = 4 << 20;
/// Longest frame that is received, in bytes.
const FRAME_MAX: usize = 65536;

/// The option that makes an interface promiscuous while a socket is open.
#[derive(Clone, Copy, Debug)]
struct AddMembership;

nix::setsockopt_impl!(
    AddMembership,
    libc::SOL_PACKET,
    libc::PACKET_ADD_MEMBERSHIP,
    libc::packet_mreq,
    sockopt::SetStruct<'_, libc::packet_mreq>
);

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To receive, and perhaps to send.
    Receive,
    /// To send only: the kernel keeps no frames for it.
    Send,
}

/// A packet socket on one interface.
pub struct PacketSocket {
    fd: OwnedFd,
    interface: usize,
    /// Where what does not fit a pool's buffer is received first.
    spill: Box<[u8]>,
    control: Vec<u8>,
    drops: u32,
}

/// A frame that was received.
pub struct Received {
    pub packet: Packet,
    /// Its length on the link, in bytes; more than the packet's if that was cut.
    pub length: usize,
    /// The link-level protocol, in host order.
    pub protocol: u16,
}

/// How frames are to be received.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Most bytes of a frame.
    pub snaplen: usize,
    /// Bytes in front of it.
    pub headroom: usize,
    /// Whether what the host itself sends is wanted too.
    pub outbound: bool,
}

/// What receiving gave.
pub enum Arrival {
    Frame(Received),
    /// A frame that is not wanted.
    Unwanted,
    /// None is there.
    Nothing,
}

fn refused(call: &str, errno: Errno) -> String {
    format!("{call}: {}", errno.desc())
}

impl PacketSocket {
    /// Opens a socket on the interface called `name`. Errors are sentences without the name.
    pub fn open(name: &str, direction: Direction) -> Result<PacketSocket, String> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let protocol = match direction {
            Direction::Receive => Some(SockProtocol::EthAll),
            Direction::Send => None,
        };
        let fd = socket(AddressFamily::Packet, SockType::Raw, flags, protocol);
        let fd = fd.map_err(|errno| refused("socket", errno))?;
        let address = link_address(name).ok_or_else(|| refused("SIOCGIFINDEX", Errno::ENODEV))?;
        bind(fd.as_raw_fd(), &address).map_err(|errno| refused("bind", errno))?;
        // Larger queues and times are welcome, not needed.
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &QUEUE);
        let _ = setsockopt(&fd, sockopt::SndBufForce, &QUEUE);
        let _ = setsockopt(&fd, sockopt::ReceiveTimestampns, &true);
        let _ = setsockopt(&fd, sockopt::RxqOvfl, &1);
        Ok(PacketSocket {
            fd,
            interface: address.ifindex(),
            spill: vec![0; FRAME_MAX].into(),
            control: nix::cmsg_space!(TimeSpec, u32),
            drops: 0,
        })
    }

    /// The descriptor, to be watched.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Lets the interface take in frames for other hosts too, while the socket is open.
    pub fn set_promiscuous(&self) -> Result<(), String> {
        let membership = libc::packet_mreq {
            mr_ifindex: self.interface as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let set = setsockopt(&self.fd, AddMembership, &membership);
        set.map_err(|errno| refused("setsockopt", errno))
    }

    /// Frames that the kernel dropped because the socket's queue was full, as far as it has told.
    pub fn drops(&self) -> u32 {
        self.drops
    }

    /// Receives one frame.
    pub fn receive(&mut self, pool: &mut Pool, wish: &Wish) -> io::Result<Arrival> {
        let first = wish.snaplen.min(DATA_MAX);
        let Some(mut packet) = pool.packet(wish.headroom.max(HEADROOM), first) else {
            // No buffer is free: the frame waits.
            return Ok(Arrival::Nothing);
        };
        let mut parts = [
            IoSliceMut::new(packet.data_mut()),
            IoSliceMut::new(&mut self.spill),
        ];
        let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<LinkAddr>(
            self.fd.as_raw_fd(),
            &mut parts,
            Some(&mut self.control),
            flags,
        );
        let message = match message {
            Ok(message) => message,
            Err(errno) => {
                pool.kill(packet);
                return match errno {
                    Errno::EAGAIN | Errno::EINTR => Ok(Arrival::Nothing),
                    errno => Err(errno.into()),
                };
            }
        };
        let (length, address) = (message.bytes, message.address);
        let mut time = 0;
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::ScmTimestampns(at) => time = nanoseconds(&at),
                ControlMessageOwned::RxqOvfl(drops) => self.drops = drops,
                _ => {}
            }
        }
        // Before it was bound, the socket took in frames of every interface.
        let wanted = address.filter(|address| {
            address.ifindex() == self.interface
                && (wish.outbound || address.pkttype() != libc::PACKET_OUTGOING)
        });
        let Some(address) = wanted else {
            pool.kill(packet);
            return Ok(Arrival::Unwanted);
        };
        let captured = length.min(wish.snaplen).min(first + FRAME_MAX);
        let Some(mut packet) = self.whole(pool, packet, captured, wish) else {
            return Ok(Arrival::Unwanted);
        };
        packet.set_timestamp(time);
        packet.set_mac_header(0);
        packet.set_packet_type(packet_type(address.pkttype()));
        Ok(Arrival::Frame(Received {
            packet,
            length,
            protocol: u16::from_be(address.protocol()),
        }))
    }

    /// Makes a packet of `captured` bytes of one that holds the first of them; the others spilled.
    fn whole(
        &self,
        pool: &mut Pool,
        mut packet: Packet,
        captured: usize,
        wish: &Wish,
    ) -> Option<Packet> {
        let Some(more) = captured.checked_sub(packet.len()) else {
            packet.truncate(captured);
            return Some(packet);
        };
        if more > 0 {
            let mut larger = pool.packet(wish.headroom.max(HEADROOM), captured)?;
            let (front, back) = larger.data_mut().split_at_mut(packet.len());
            front.copy_from_slice(packet.data());
            back.copy_from_slice(self.spill.get(..more)?);
            pool.kill(packet);
            packet = larger;
        }
        Some(packet)
    }

    /// Sends one frame.
    pub fn send(&self, data: &[u8]) -> Result<(), Errno> {
        send(self.fd.as_raw_fd(), data, MsgFlags::MSG_DONTWAIT).map(drop)
    }
}

/// The address that stands for an interface. It names no protocol: a socket keeps its own.
fn link_address(name: &str) -> Option<LinkAddr> {
    let mut all = nix::ifaddrs::getifaddrs().ok()?;
    all.find_map(|interface| {
        let address = interface
            .address
            .filter(|_| interface.interface_name == name)?;
        address.as_link_addr().copied()
    })
}

fn nanoseconds(time: &TimeSpec) -> i64 {
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

fn packet_type(kernels: u8) -> PacketType {
    match kernels {
        1 => PacketType::Broadcast,
        2 => PacketType::Multicast,
        3 => PacketType::OtherHost,
        4 => PacketType::Outgoing,
        5 => PacketType::Loopback,
        6 => PacketType::FastRoute,
        _ => PacketType::Host,
    }
}
