//! AF_PACKET sockets: their options, and receiving many frames in one call.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{check, set_filter, set_option};

/// Opens raw sockets on the interface with index `interface`: promiscuous for as long as they are
/// open, blind to what the host itself sends there, with a virtio-net header in front of each
/// frame. The kernel spreads flows over them, both directions of one to the same. `queue` is the
/// size of each one's kernel queues in each direction, in bytes.
pub fn open(interface: u32, queue: i32, sockets: usize) -> Result<Vec<OwnedFd>, Errno> {
    if sockets < 2 {
        return Ok(vec![open_one(interface, queue, None)?]);
    }
    let first = open_one(interface, queue, Some(Fanout::New))?;
    let id = fanout_id(first.as_fd())?;
    let mut all = vec![first];
    for _ in 1..sockets {
        all.push(open_one(interface, queue, Some(Fanout::Join(id)))?);
    }
    // Until now, each took nothing: not every one was in the group from its start.
    for socket in &all {
        set_option(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_DETACH_FILTER,
            &0i32,
        )?;
    }
    Ok(all)
}

/// A group of sockets over which the kernel spreads flows.
enum Fanout {
    New,
    Join(u16),
}

fn open_one(interface: u32, queue: i32, fanout: Option<Fanout>) -> Result<OwnedFd, Errno> {
    const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0: nothing is received before the socket is bound, after the options.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let fd = socket.as_fd();
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)?;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)?;
    set_option(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &queue)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &queue)?;
    listen_to_all(fd, interface)?;
    match fanout {
        None => bind(fd, interface)?,
        Some(fanout) => {
            take_nothing(fd)?;
            bind(fd, interface)?;
            join(fd, fanout)?;
        }
    }
    Ok(socket)
}

/// Takes a bound socket into a group, or makes one.
fn join(fd: BorrowedFd<'_>, fanout: Fanout) -> Result<(), Errno> {
    // linux/if_packet.h. The group has its own blindness to what the host sends.
    const HASH: u32 = 0;
    const IGNORE_OUTGOING: u32 = 0x4000;
    const UNIQUE_ID: u32 = 0x2000;
    let (id, flags) = match fanout {
        Fanout::New => (0, UNIQUE_ID | IGNORE_OUTGOING),
        Fanout::Join(id) => (u32::from(id), IGNORE_OUTGOING),
    };
    let group = id | (HASH | flags) << 16;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &group)
}

/// The number of the group that a socket is in.
fn fanout_id(socket: BorrowedFd<'_>) -> Result<u16, Errno> {
    let mut group = 0u32;
    let mut length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            (&raw mut group).cast(),
            &raw mut length,
        )
    };
    check(result).map(|_| group as u16)
}

/// Opens a socket that never receives a frame: for as long as it is open, the interface with index
/// `interface` is promiscuous, and it tells when that goes down or away ([`error`], [`is_bound`]).
pub fn watch(interface: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let fd = socket.as_fd();
    take_nothing(fd)?;
    listen_to_all(fd, interface)?;
    bind(fd, interface)?;
    Ok(socket)
}

/// Makes a socket drop every frame.
fn take_nothing(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // One instruction of classic BPF: take 0 bytes.
    let nothing = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    set_filter(fd, &mut [nothing])
}

/// The error that waits on a socket, which is taken off it.
pub fn error(socket: BorrowedFd<'_>) -> Option<Errno> {
    rustix::net::sockopt::socket_error(socket).ok()?.err()
}

/// Makes an interface promiscuous for as long as the socket is open.
fn listen_to_all(fd: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: interface as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(
        fd,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &membership,
    )
}

/// Binds a packet socket to an interface's frames of all kinds.
fn bind(fd: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: a whole sockaddr_ll is given, with its length.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// How many frames a packet socket's full queue has dropped since this was last asked.
pub fn drops(socket: BorrowedFd<'_>) -> u64 {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        0
    } else {
        statistics.tp_drops.into()
    }
}

/// Whether a packet socket's interface is still there: the kernel unbinds it when that goes.
pub fn is_bound(socket: BorrowedFd<'_>) -> bool {
    // SAFETY: a sockaddr_ll of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let result = unsafe {
        let address = (&raw mut address).cast();
        libc::getsockname(socket.as_raw_fd(), address, &raw mut length)
    };
    result == 0 && address.sll_ifindex > 0
}

/// Room for the ancillary data of one frame: one `tpacket_auxdata`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct TagControl([u8; 64]);

/// The metadata of a received frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceivedFrame {
    /// Bytes received, the virtio-net header among them.
    pub len: usize,
    /// The frame was longer than its room.
    pub truncated: bool,
    /// The VLAN tag that the kernel keeps beside the frame: protocol and tag control information.
    pub tag: Option<(u16, u16)>,
}

/// The headers with which the kernel fills many buffers in one call.
pub struct ReceiveMany {
    headers: Box<[libc::mmsghdr]>,
    buffers: Box<[libc::iovec]>,
    control: Box<[TagControl]>,
}

// SAFETY: the pointers inside are set again from exclusive borrows at each call of `receive` and
// not followed after it.
unsafe impl Send for ReceiveMany {}

impl ReceiveMany {
    /// For up to `n` frames at a time.
    pub fn new(n: usize) -> ReceiveMany {
        // SAFETY: all zeros are valid for these plain structs.
        let header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let buffer = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        ReceiveMany {
            headers: vec![header; n].into(),
            buffers: vec![buffer; n].into(),
            control: vec![TagControl([0; 64]); n].into(),
        }
    }

    /// Receives as many frames as there are and have room, `most` at most, without waiting, each
    /// into the next `stride` bytes of `into`, `skip` bytes from their start. Returns how many.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        into: &mut [u8],
        stride: usize,
        skip: usize,
        most: usize,
    ) -> Result<usize, Errno> {
        let mut n = 0;
        let rooms = into.chunks_exact_mut(stride).zip(&mut self.headers);
        let rooms = rooms.zip(self.buffers.iter_mut().zip(&mut self.control));
        for ((room, header), (buffer, control)) in rooms.take(most) {
            let room = room.get_mut(skip..).unwrap_or_default();
            buffer.iov_base = room.as_mut_ptr().cast();
            buffer.iov_len = room.len();
            header.msg_hdr.msg_iov = &raw mut *buffer;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut *control).cast();
            header.msg_hdr.msg_controllen = size_of::<TagControl>();
            n += 1;
        }
        // SAFETY: the first `n` headers point at buffers of `self` and `into`, borrowed
        // exclusively for the call, with their lengths.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                n as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        check(received).map(|n| n as usize)
    }

    /// The metadata of the `i`-th frame of the last [`receive`](Self::receive).
    pub fn received(&self, i: usize) -> ReceivedFrame {
        let (Some(header), Some(control)) = (self.headers.get(i), self.control.get(i)) else {
            return ReceivedFrame::default();
        };
        ReceivedFrame {
            len: header.msg_len as usize,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            tag: tag_of(&control.0[..header.msg_hdr.msg_controllen.min(64)]),
        }
    }
}

/// The VLAN tag in a message's ancillary data.
fn tag_of(control: &[u8]) -> Option<(u16, u16)> {
    // A cmsghdr (length, level, type), then the auxdata: it is the only message asked for.
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let int = |at: usize| Some(i32::from_ne_bytes(*control.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u16::from_ne_bytes(*control.get(at..)?.first_chunk()?));
    if int(8)? != libc::SOL_PACKET || int(12)? != libc::PACKET_AUXDATA {
        return None;
    }
    let status = int(HEADER)? as u32;
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tci = short(HEADER + std::mem::offset_of!(libc::tpacket_auxdata, tp_vlan_tci))?;
    let tpid = short(HEADER + std::mem::offset_of!(libc::tpacket_auxdata, tp_vlan_tpid))?;
    let valid = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    Some((
        if valid {
            tpid
        } else {
            libc::ETH_P_8021Q as u16
        },
        tci,
    ))
}
