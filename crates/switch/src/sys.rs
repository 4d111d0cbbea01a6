//! System calls that rustix does not wrap: TAP and interface requests, AF_PACKET's options,
//! receiving many frames at once, and forking. Each function here is safe to call.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Pid;

/// Longest interface name, in bytes (IFNAMSIZ less the closing 0).
pub const INTERFACE_NAME_MAX: usize = libc::IFNAMSIZ - 1;

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result < 0 {
        Err(last_error())
    } else {
        Ok(result)
    }
}

/// An `ifreq` that names `name`.
fn request(name: &str) -> Result<libc::ifreq, Errno> {
    if name.is_empty() || name.len() > INTERFACE_NAME_MAX || name.bytes().any(|b| b == 0) {
        return Err(Errno::INVAL);
    }
    // SAFETY: an ifreq of zeros is valid.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Makes an interface request.
fn interface_ioctl(
    fd: BorrowedFd<'_>,
    code: libc::c_ulong,
    request: &mut libc::ifreq,
) -> Result<(), Errno> {
    // SAFETY: every code used here reads or writes one ifreq.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, &raw mut *request) }).map(drop)
}

/// A socket to make interface requests on.
pub fn interface_socket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// Makes a TAP device that puts a virtio-net header in front of each frame and takes frames with
/// partial checksums and segmentation left to do. It is gone when the file is closed.
pub fn open_tap(name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL) as i16;
    interface_ioctl(file.as_fd(), libc::TUNSETIFF as _, &mut request)?;
    let all = libc::TUN_F_CSUM
        | libc::TUN_F_TSO4
        | libc::TUN_F_TSO6
        | libc::TUN_F_TSO_ECN
        | libc::TUN_F_USO4
        | libc::TUN_F_USO6;
    let offload = |features: libc::c_uint| {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                libc::TUNSETOFFLOAD as _,
                features as libc::c_ulong,
            )
        })
    };
    // UDP segmentation came with Linux 6.2; without it the kernel refuses the whole set.
    offload(all).or_else(|_| offload(all & !(libc::TUN_F_USO4 | libc::TUN_F_USO6)))?;
    Ok(file)
}

/// Lets `user` open the TAP device by its name as long as it exists.
pub fn set_tap_owner(tap: BorrowedFd<'_>, user: u32) -> Result<(), Errno> {
    // SAFETY: TUNSETOWNER takes its argument by value.
    let result = unsafe {
        libc::ioctl(
            tap.as_raw_fd(),
            libc::TUNSETOWNER as _,
            user as libc::c_ulong,
        )
    };
    check(result).map(drop)
}

/// An interface's Ethernet address, or `None` if it is no Ethernet interface.
pub fn hardware_address(socket: BorrowedFd<'_>, name: &str) -> Result<Option<[u8; 6]>, Errno> {
    let mut request = request(name)?;
    interface_ioctl(socket, libc::SIOCGIFHWADDR as _, &mut request)?;
    // SAFETY: the kernel filled in the address; any bytes are a valid sockaddr.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    if address.sa_family != libc::ARPHRD_ETHER {
        return Ok(None);
    }
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(address.sa_data) {
        *to = from as u8;
    }
    Ok(Some(mac))
}

/// Sets an interface's Ethernet address.
pub fn set_hardware_address(socket: BorrowedFd<'_>, name: &str, mac: [u8; 6]) -> Result<(), Errno> {
    let mut request = request(name)?;
    // SAFETY: a sockaddr of zeros is valid.
    let mut address: libc::sockaddr = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    interface_ioctl(socket, libc::SIOCSIFHWADDR as _, &mut request)
}

/// An interface's MTU, in bytes.
pub fn mtu(socket: BorrowedFd<'_>, name: &str) -> Result<u32, Errno> {
    let mut request = request(name)?;
    interface_ioctl(socket, libc::SIOCGIFMTU as _, &mut request)?;
    // SAFETY: the kernel filled in the MTU.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// Sets an interface's MTU, in bytes.
pub fn set_mtu(socket: BorrowedFd<'_>, name: &str, mtu: u16) -> Result<(), Errno> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = mtu.into();
    interface_ioctl(socket, libc::SIOCSIFMTU as _, &mut request)
}

/// Whether an interface is up.
pub fn is_up(socket: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    Ok(interface_flags(socket, name)? & libc::IFF_UP as i16 != 0)
}

/// Sets an interface up.
pub fn set_up(socket: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let flags = interface_flags(socket, name)?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
    interface_ioctl(socket, libc::SIOCSIFFLAGS as _, &mut request)
}

fn interface_flags(socket: BorrowedFd<'_>, name: &str) -> Result<i16, Errno> {
    let mut request = request(name)?;
    interface_ioctl(socket, libc::SIOCGIFFLAGS as _, &mut request)?;
    // SAFETY: the kernel filled in the flags.
    Ok(unsafe { request.ifr_ifru.ifru_flags })
}

/// Sets a socket option to a plain value.
fn set_option<T>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    // SAFETY: the option is given `size_of::<T>()` readable bytes and told how many.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// Opens a raw socket on the interface with index `interface`: promiscuous for as long as the
/// socket is open, blind to what the host itself sends there, with a virtio-net header in front of
/// each frame. `queue` is the size of its kernel queues in each direction, in bytes.
pub fn open_packet(interface: u32, queue: i32) -> Result<OwnedFd, Errno> {
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
    )?;
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
    })?;
    Ok(socket)
}

/// How many frames a packet socket's full queue has dropped since this was last asked.
pub fn packet_drops(socket: BorrowedFd<'_>) -> u64 {
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
pub fn packet_is_bound(socket: BorrowedFd<'_>) -> bool {
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
struct Control([u8; 64]);

/// What came with a received frame besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
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
    control: Box<[Control]>,
}

// SAFETY: the pointers inside are set anew from exclusive borrows at each call of `receive` and
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
            control: vec![Control([0; 64]); n].into(),
        }
    }

    /// Receives as many frames as there are and have room, without waiting, each into the next
    /// `stride` bytes of `into`, `skip` bytes from their start. Returns how many.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        into: &mut [u8],
        stride: usize,
        skip: usize,
    ) -> Result<usize, Errno> {
        let mut n = 0;
        let rooms = into.chunks_exact_mut(stride).zip(&mut self.headers);
        for ((room, header), (buffer, control)) in
            rooms.zip(self.buffers.iter_mut().zip(&mut self.control))
        {
            let room = room.get_mut(skip..).unwrap_or_default();
            buffer.iov_base = room.as_mut_ptr().cast();
            buffer.iov_len = room.len();
            header.msg_hdr.msg_iov = &raw mut *buffer;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut *control).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>();
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

    /// What came with the `i`-th frame of the last [`receive`](Self::receive).
    pub fn received(&self, i: usize) -> Received {
        let (Some(header), Some(control)) = (self.headers.get(i), self.control.get(i)) else {
            return Received::default();
        };
        Received {
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

/// Starts a process that runs `body` with the descriptors `keep`, as 3, 4, …, standard error, and
/// no others, and exits with the status that `body` returns. Returns its id.
///
/// Refused (`EDEADLK`) while this process has more than one thread: the child would have only this
/// one, and what the others had locked would stay locked. `body` must not have captured any
/// descriptor, since all but `keep` are closed.
pub fn fork_process<const N: usize>(
    keep: [OwnedFd; N],
    body: impl FnOnce([OwnedFd; N]) -> i32,
) -> Result<Pid, Errno> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(|_| Errno::NOSYS)?;
    if tasks.count() != 1 {
        return Err(Errno::DEADLK);
    }
    // SAFETY: this is the only thread, so the child is a whole process.
    let child = check(unsafe { libc::fork() })?;
    if let Some(child) = Pid::from_raw(child) {
        return Ok(child);
    }
    // The child neither returns nor unwinds into its caller's frames: what they own is the
    // parent's.
    let run = std::panic::AssertUnwindSafe(|| match keep_only(keep) {
        Ok(keep) => body(keep),
        Err(_) => 1,
    });
    let status = std::panic::catch_unwind(run).unwrap_or(101);
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(status) }
}

/// Moves `keep` to descriptors 3, 4, … and closes every other from 3 on.
fn keep_only<const N: usize>(keep: [OwnedFd; N]) -> Result<[OwnedFd; N], Errno> {
    const FIRST: libc::c_int = 3;
    // First out of the way, so that no move overwrites one that is yet to be moved.
    let above = FIRST + N as libc::c_int;
    let mut high = [0; N];
    for (to, from) in high.iter_mut().zip(keep) {
        // SAFETY: a plain system call on a descriptor of ours.
        *to = check(unsafe { libc::fcntl(from.into_raw_fd(), libc::F_DUPFD_CLOEXEC, above) })?;
    }
    for (to, from) in (FIRST..).zip(high) {
        // SAFETY: as above; nobody uses what the target was, see `fork_process`.
        check(unsafe { libc::dup3(from, to, libc::O_CLOEXEC) })?;
    }
    // SAFETY: as above.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, above, libc::c_uint::MAX, 0) };
    check(closed as libc::c_int)?;
    // SAFETY: these were just made and belong to nobody else.
    Ok(std::array::from_fn(|i| unsafe {
        OwnedFd::from_raw_fd(FIRST + i as libc::c_int)
    }))
}
