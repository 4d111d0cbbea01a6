//! Packet sockets: frames of one of the host's interfaces, past its network stack (packet(7)).
//!
//! Frames are received and sent many at a time, by recvmmsg(2) and sendmmsg(2). A ring shared with
//! the kernel would save their copy, but its memory cannot be reached without unsafe code.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol,
    SockType, bind, recvmmsg, sendmmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::prelude::*;

/// Bytes of frames that the kernel holds for a socket.
const QUEUE: usize = 4 << 20;
/// Most frames that are received in one call.
const MANY: usize = 32;
/// Bytes of a VLAN tag, and where it stands in a frame.
const TAG: usize = 4;
const TAG_AT: usize = 12;

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

/// The option that says what the kernel keeps beside a frame: the VLAN tag.
#[derive(Clone, Copy, Debug)]
struct Auxiliary;

nix::setsockopt_impl!(
    Auxiliary,
    libc::SOL_PACKET,
    libc::PACKET_AUXDATA,
    bool,
    sockopt::SetBool
);

/// The option that lets the kernel choose the frames for a socket.
#[derive(Clone, Copy, Debug)]
struct AttachFilter;

nix::setsockopt_impl!(
    AttachFilter,
    libc::SOL_SOCKET,
    libc::SO_ATTACH_FILTER,
    libc::sock_fprog,
    sockopt::SetStruct<'_, libc::sock_fprog>
);

/// The option that keeps frames that the host sends from a socket.
#[derive(Clone, Copy, Debug)]
struct IgnoreOutgoing;

nix::setsockopt_impl!(
    IgnoreOutgoing,
    libc::SOL_PACKET,
    libc::PACKET_IGNORE_OUTGOING,
    bool,
    sockopt::SetBool
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
    /// Where what does not fit a pool's buffer is received first, for each frame of a call.
    spill: Vec<u8>,
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

/// What the kernel says of a frame besides its bytes.
struct About {
    length: usize,
    protocol: u16,
    kind: u8,
    /// Nanoseconds since 1970.
    time: i64,
    tag: Option<[u8; TAG]>,
    wanted: bool,
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
        setsockopt(&fd, Auxiliary, &true).map_err(|errno| refused("PACKET_AUXDATA", errno))?;
        Ok(PacketSocket {
            fd,
            interface: address.ifindex(),
            spill: Vec::new(),
            drops: 0,
        })
    }

    /// The same socket, for another element. The kernel does not give a socket the frames that it
    /// sent itself.
    pub fn share(&self) -> Result<PacketSocket, String> {
        let fd = self.fd.try_clone();
        Ok(PacketSocket {
            fd: fd.map_err(|error| format!("dup: {}", super::os_error(&error)))?,
            interface: self.interface,
            spill: Vec::new(),
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

    /// Keeps frames that the host sends from the socket.
    pub fn ignore_outgoing(&self) -> Result<(), String> {
        let set = setsockopt(&self.fd, IgnoreOutgoing, &true);
        set.map_err(|errno| refused("PACKET_IGNORE_OUTGOING", errno))
    }

    /// Lets the kernel drop all frames but the ones that `expression`, in the language of
    /// pcap-filter(7), matches. What came in before is dropped too.
    pub fn set_filter(&mut self, pool: &mut Pool, expression: &str) -> Result<(), String> {
        attach_filter(&self.fd, &mut compile(expression)?)?;
        let wish = Wish {
            snaplen: 64,
            headroom: 0,
            outbound: true,
        };
        let mut early = VecDeque::new();
        while self.receive(pool, &wish, &mut early).unwrap_or(false) {
            early.drain(..).for_each(|frame| pool.kill(frame.packet));
        }
        early.drain(..).for_each(|frame| pool.kill(frame.packet));
        Ok(())
    }

    /// Frames that the kernel dropped because the socket's queue was full, as far as it has told.
    pub fn drops(&self) -> u32 {
        self.drops
    }

    /// Receives as many frames as there are, up to a number that is good for one call. Returns
    /// whether there may be more.
    pub fn receive(
        &mut self,
        pool: &mut Pool,
        wish: &Wish,
        into: &mut VecDeque<Received>,
    ) -> io::Result<bool> {
        let first = wish.snaplen.min(DATA_MAX);
        let stride = wish.snaplen - first;
        self.spill.resize(stride * MANY, 0);
        let mut packets = Vec::with_capacity(MANY);
        // Where no buffer is free, frames wait.
        while packets.len() < MANY
            && let Some(packet) = pool.packet(wish.headroom.max(HEADROOM), first)
        {
            packets.push(packet);
        }
        let asked = packets.len();
        let told = self.receive_into(&mut packets, stride, wish);
        let told = match told {
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Vec::new()),
            told => told,
        };
        let count = told.as_ref().map_or(0, Vec::len);
        let spare = packets.split_off(count.min(asked));
        spare.into_iter().for_each(|packet| pool.kill(packet));
        let told = told?;
        let more = !told.is_empty() && told.len() == asked;
        for (i, (packet, about)) in packets.into_iter().zip(told).enumerate() {
            if !about.wanted {
                pool.kill(packet);
                continue;
            }
            let spilled = self
                .spill
                .get(i * stride..(i + 1) * stride)
                .unwrap_or_default();
            if let Some(frame) = finish(pool, packet, spilled, &about, wish) {
                into.push_back(frame);
            }
        }
        Ok(more)
    }

    /// Receives frames into `packets`, and what is too long for one into its part of the spill;
    /// returns what is known of each.
    fn receive_into(
        &mut self,
        packets: &mut [Packet],
        stride: usize,
        wish: &Wish,
    ) -> Result<Vec<About>, Errno> {
        let mut spill = &mut self.spill[..];
        let mut rooms: Vec<[IoSliceMut<'_>; 2]> = Vec::with_capacity(packets.len());
        for packet in packets {
            let (own, rest) = core::mem::take(&mut spill).split_at_mut(stride);
            spill = rest;
            rooms.push([IoSliceMut::new(packet.data_mut()), IoSliceMut::new(own)]);
        }
        let control = nix::cmsg_space!(TimeSpec, u32, libc::tpacket_auxdata);
        let mut headers = MultiHeaders::<LinkAddr>::preallocate(rooms.len(), Some(control));
        let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
        let fd = self.fd.as_raw_fd();
        let messages = recvmmsg(fd, &mut headers, rooms.iter_mut(), flags, None)?;
        let (interface, mut drops) = (self.interface, self.drops);
        let mut told = Vec::with_capacity(MANY);
        for message in messages {
            let (mut time, mut tag) = (0, None);
            for control in message.cmsgs().into_iter().flatten() {
                match control {
                    ControlMessageOwned::ScmTimestampns(at) => time = nanoseconds(&at),
                    ControlMessageOwned::RxqOvfl(count) => drops = count,
                    ControlMessageOwned::Unknown(other)
                        if other.cmsg_header.cmsg_level == libc::SOL_PACKET
                            && other.cmsg_header.cmsg_type == libc::PACKET_AUXDATA =>
                    {
                        tag = tag_of(&other.data_bytes);
                    }
                    _ => {}
                }
            }
            let (address, length) = (message.address, message.bytes);
            told.push(About {
                length,
                protocol: address.map_or(0, |address| u16::from_be(address.protocol())),
                kind: address.map_or(0, |address| address.pkttype()),
                time,
                tag,
                // Before it was bound, the socket took in frames of every interface.
                wanted: address.is_some_and(|address| {
                    address.ifindex() == interface
                        && (wish.outbound || address.pkttype() != libc::PACKET_OUTGOING)
                }),
            });
        }
        self.drops = drops;
        Ok(told)
    }

    /// Sends frames; returns how many of the first ones were sent, at least one. An error is that
    /// of the first.
    pub fn send<'p>(&self, frames: impl Iterator<Item = &'p Packet>) -> Result<usize, Errno> {
        let slices: Vec<[IoSlice<'_>; 1]> =
            frames.map(|packet| [IoSlice::new(packet.data())]).collect();
        let mut headers = MultiHeaders::<LinkAddr>::preallocate(slices.len(), None);
        let nowhere = vec![None; slices.len()];
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = self.fd.as_raw_fd();
        let sent = sendmmsg(fd, &mut headers, &slices, nowhere, [], flags)?;
        Ok(sent.count())
    }
}

/// Lets the kernel drop what a program, in its machine language for filters (bpf(4)), does not
/// match. An error is a sentence.
pub fn attach_filter(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> Result<(), String> {
    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_mut_ptr(),
    };
    let set = setsockopt(socket, AttachFilter, &filter);
    set.map_err(|errno| refused("SO_ATTACH_FILTER", errno))
}

/// Makes a frame of a packet that holds the first bytes of it, what spilled, and its tag.
fn finish(
    pool: &mut Pool,
    mut packet: Packet,
    spilled: &[u8],
    about: &About,
    wish: &Wish,
) -> Option<Received> {
    let captured = about.length.min(packet.len() + spilled.len());
    match captured.checked_sub(packet.len()) {
        None => packet.truncate(captured),
        Some(0) => {}
        Some(more) => {
            let mut larger = pool.packet(wish.headroom.max(HEADROOM), captured)?;
            let (front, back) = larger.data_mut().split_at_mut(packet.len());
            front.copy_from_slice(packet.data());
            back.copy_from_slice(spilled.get(..more)?);
            pool.kill(packet);
            packet = larger;
        }
    }
    let mut length = about.length;
    if let Some(tag) = about.tag
        && packet.len() >= TAG_AT
        && packet.push(TAG)
    {
        let data = packet.data_mut();
        data.copy_within(TAG..TAG + TAG_AT, 0);
        data[TAG_AT..TAG_AT + TAG].copy_from_slice(&tag);
        length += TAG;
        packet.truncate(wish.snaplen);
    }
    packet.set_timestamp(about.time);
    packet.set_mac_header(0);
    packet.set_packet_type(packet_type(about.kind));
    Some(Received {
        packet,
        length,
        protocol: about.protocol,
    })
}

/// The VLAN tag that the kernel took off a frame, by what it says beside it (a `tpacket_auxdata`).
fn tag_of(auxiliary: &[u8]) -> Option<[u8; TAG]> {
    use core::mem::offset_of;
    let status = u32::from_ne_bytes(*auxiliary.first_chunk()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let short = |at: usize| Some(u16::from_ne_bytes(*auxiliary.get(at..)?.first_chunk()?));
    let tci = short(offset_of!(libc::tpacket_auxdata, tp_vlan_tci))?;
    let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => short(offset_of!(libc::tpacket_auxdata, tp_vlan_tpid))?,
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}

/// Compiles a filter expression for Ethernet frames by tcpdump, the tool that comes with the
/// language. An error is a sentence.
fn compile(expression: &str) -> Result<Vec<libc::sock_filter>, String> {
    let place = format!("BPF_FILTER ‘{expression}’");
    let ran = Command::new("tcpdump")
        .args(["-ddd", "-y", "EN10MB", "--", expression])
        .output();
    let ran = ran.map_err(|_| {
        format!("{place} needs tcpdump to compile it: install that, or put an IPClassifier behind")
    })?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        let said = said.lines().last().unwrap_or_default();
        let said = said.strip_prefix("tcpdump: ").unwrap_or(said);
        return Err(format!("{place}: {said}"));
    }
    let text = String::from_utf8_lossy(&ran.stdout);
    let program: Option<Vec<_>> = text.lines().skip(1).map(instruction).collect();
    program
        .filter(|program| !program.is_empty())
        .ok_or_else(|| format!("{place}: tcpdump gave no program"))
}

/// An instruction as tcpdump writes it: code, jumps, and operand, in decimal.
fn instruction(line: &str) -> Option<libc::sock_filter> {
    let mut words = line.split_ascii_whitespace();
    Some(libc::sock_filter {
        code: words.next()?.parse().ok()?,
        jt: words.next()?.parse().ok()?,
        jf: words.next()?.parse().ok()?,
        k: words.next()?.parse().ok()?,
    })
}

/// The address that stands for an interface. It names no protocol: a socket keeps its own.
pub(super) fn link_address(name: &str) -> Option<LinkAddr> {
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
