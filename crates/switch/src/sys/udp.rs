//! UDP sockets that move many packets a call, and many packets as one where the kernel cuts and
//! joins them (UDP_SEGMENT, UDP_GRO).

use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{check, set_filter, set_option};

/// Most bytes of packets that are sent as one.
pub const SENT_AS_ONE: usize = 65_000;
/// Most packets that are sent as one (UDP_MAX_SEGMENTS of kernels before 6.9).
pub const PACKETS_AS_ONE: usize = 64;
/// Messages received in a call.
const RECEIVED: usize = 16;
/// Messages sent in a call.
const SENT: usize = 64;
/// Room for one received message.
const ROOM: usize = 64 << 10;

/// Opens a socket that does not wait, bound to `local`; `queue` is the size of its kernel queues
/// in each direction, in bytes.
pub fn open(local: SocketAddr, queue: i32) -> Result<OwnedFd, Errno> {
    let socket = datagram_socket(local.ip())?;
    let fd = socket.as_fd();
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &queue)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &queue)?;
    set_option(fd, libc::SOL_UDP, libc::UDP_GRO, &1i32)?;
    rustix::net::bind(&socket, &local)?;
    Ok(socket)
}

/// Makes a socket take packets only from interfaces without link-layer addresses, as those of WireGuard and TUN are: no
/// station of an Ethernet can send it any.
pub fn take_from_tunnels(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // linux/filter.h: the type of the interface, among what is beside the packet.
    const HARDWARE_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_HATYPE) as u32;
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, HARDWARE_TYPE),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            libc::ARPHRD_NONE.into(),
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    set_filter(socket, &mut program)
}

fn datagram_socket(address: IpAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::DGRAM, flags, None)
}

/// Largest IP packet on the way to `remote`, in bytes, as far as is known.
pub fn path_mtu(remote: SocketAddr) -> Result<u32, Errno> {
    let socket = datagram_socket(remote.ip())?;
    rustix::net::connect(&socket, &remote)?;
    let (level, option) = match remote {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut mtu: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let result = unsafe {
        let value = (&raw mut mtu).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, value, &raw mut length)
    };
    check(result)?;
    Ok(u32::try_from(mtu).unwrap_or(0))
}

/// How many packets a socket's full queue has dropped, ever.
pub fn drops(socket: BorrowedFd<'_>) -> u32 {
    const SO_MEMINFO: libc::c_int = 55;
    const DROPS: usize = 8;
    let mut values = [0u32; 9];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let result = unsafe {
        let values = values.as_mut_ptr().cast();
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            values,
            &raw mut length,
        )
    };
    if result < 0 { 0 } else { values[DROPS] }
}

/// A socket address as the kernel has it.
#[derive(Clone, Copy)]
pub struct Address {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        // SAFETY: all zeros are valid for a plain struct.
        let mut storage: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        let length = match address {
            SocketAddr::V4(v4) => {
                let address = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage has the size and alignment for any address.
                unsafe {
                    (&raw mut storage)
                        .cast::<libc::sockaddr_in>()
                        .write(address)
                };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let address = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe {
                    (&raw mut storage)
                        .cast::<libc::sockaddr_in6>()
                        .write(address)
                };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Address {
            storage,
            length: length as libc::socklen_t,
        }
    }
}

impl Address {
    const NONE: Address = Address {
        // SAFETY: all zeros are valid for a plain struct.
        storage: unsafe { MaybeUninit::zeroed().assume_init() },
        length: 0,
    };

    /// The IP address in it.
    fn ip(&self) -> Option<IpAddr> {
        let storage = &raw const self.storage;
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the kernel wrote an address of this family; any bytes are one.
                let address = unsafe { storage.cast::<libc::sockaddr_in>().read() };
                Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let address = unsafe { storage.cast::<libc::sockaddr_in6>().read() };
                Some(IpAddr::from(address.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }
}

/// Room for the ancillary data of one message: one integer.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct SegmentControl([u8; CONTROL]);

const CONTROL_HEADER: usize = size_of::<libc::cmsghdr>();
/// A header and an integer, padded to a multiple of 8.
const CONTROL: usize = CONTROL_HEADER + 8;

impl SegmentControl {
    const NONE: SegmentControl = SegmentControl([0; CONTROL]);

    /// The message that says "packets of this many bytes each". Its option takes 16 bits.
    fn segment(size: u16) -> SegmentControl {
        let mut control = SegmentControl::NONE;
        let length = (CONTROL_HEADER + size_of::<u16>()) as u64;
        control.0[..8].copy_from_slice(&length.to_ne_bytes());
        control.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        control.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        control.0[16..18].copy_from_slice(&size.to_ne_bytes());
        control
    }

    /// The size of each packet in a joined message; `None` if the message is one packet.
    fn joined(&self, length: usize) -> Option<usize> {
        let bytes = self.0.get(..length)?;
        let int = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if int(8)? != libc::SOL_UDP || int(12)? != libc::UDP_GRO {
            return None;
        }
        usize::try_from(int(CONTROL_HEADER)?).ok()
    }
}

fn no_header() -> libc::mmsghdr {
    // SAFETY: all zeros are valid for a plain struct.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

const NO_BUFFER: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// A receiver of packets, with the packets that it has received.
pub struct Receiver {
    headers: [libc::mmsghdr; RECEIVED],
    buffers: [libc::iovec; RECEIVED],
    controls: [SegmentControl; RECEIVED],
    from: [Address; RECEIVED],
    bytes: Box<[u8]>,
}

// SAFETY: the pointers inside are set again at each call of `receive` and not followed after it.
unsafe impl Send for Receiver {}

/// One received message.
pub struct UdpMessage<'a> {
    /// The sender.
    pub from: Option<IpAddr>,
    /// One packet, or several of `size` bytes each, the last perhaps shorter.
    pub bytes: &'a [u8],
    /// See there; never 0.
    pub size: usize,
}

impl Receiver {
    /// Room for some packets.
    pub fn new() -> Receiver {
        Receiver {
            headers: [no_header(); RECEIVED],
            buffers: [NO_BUFFER; RECEIVED],
            controls: [SegmentControl::NONE; RECEIVED],
            from: [Address::NONE; RECEIVED],
            bytes: vec![0; RECEIVED * ROOM].into(),
        }
    }

    /// Receives the messages that are there and have room, without waiting. Returns their number.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let rooms = self.bytes.chunks_exact_mut(ROOM);
        let headers = self.headers.iter_mut().zip(&mut self.buffers);
        let beside = self.controls.iter_mut().zip(&mut self.from);
        for ((room, (header, buffer)), (control, from)) in rooms.zip(headers).zip(beside) {
            buffer.iov_base = room.as_mut_ptr().cast();
            buffer.iov_len = room.len();
            let header = &mut header.msg_hdr;
            header.msg_iov = &raw mut *buffer;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut *control).cast();
            header.msg_controllen = CONTROL;
            header.msg_name = (&raw mut from.storage).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        // SAFETY: the headers point at memory of `self`, with its lengths.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                RECEIVED as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        check(received).map(|n| n as usize)
    }

    /// The `i`-th message of the last [`receive`](Self::receive).
    pub fn message(&self, i: usize) -> UdpMessage<'_> {
        let header = &self.headers[i];
        let length = (header.msg_len as usize).min(ROOM);
        let joined = self.controls[i].joined(header.msg_hdr.msg_controllen);
        UdpMessage {
            from: self.from[i].ip(),
            bytes: &self.bytes[i * ROOM..][..length],
            size: joined.unwrap_or(length).max(1),
        }
    }
}

/// What sends packets.
pub struct Sender {
    headers: [libc::mmsghdr; SENT],
    buffers: [libc::iovec; SENT],
    controls: [SegmentControl; SENT],
    queued: usize,
}

// SAFETY: as for `Receiver`: `send` borrows what the pointers point at.
unsafe impl Send for Sender {}

/// Packets to be sent to one address: those from `start` on, `len` bytes together, of `size` bytes
/// each, the last perhaps shorter.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Where in the bytes.
    pub start: usize,
    /// How many bytes, [`SENT_AS_ONE`] at most.
    pub len: usize,
    /// See above.
    pub size: usize,
    /// The address's number.
    pub to: u16,
}

impl Message {
    /// How many packets.
    pub fn packets(&self) -> u64 {
        self.len.div_ceil(self.size) as u64
    }
}

impl Sender {
    /// A sender with nothing to send.
    pub fn new() -> Sender {
        Sender {
            headers: [no_header(); SENT],
            buffers: [NO_BUFFER; SENT],
            controls: [SegmentControl::NONE; SENT],
            queued: 0,
        }
    }

    /// Sends the first of `messages`, as many as one call takes, whose packets lie in `bytes`;
    /// returns how many. None is waited for. An error is the first message's.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        messages: &[Message],
        addresses: &[Address],
    ) -> Result<usize, Errno> {
        self.queued = 0;
        for message in messages.iter().take(SENT) {
            let i = self.queued;
            let packets = &bytes[message.start..][..message.len];
            let address = &addresses[usize::from(message.to)];
            self.buffers[i].iov_base = packets.as_ptr().cast_mut().cast();
            self.buffers[i].iov_len = packets.len();
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = &raw mut self.buffers[i];
            header.msg_iovlen = 1;
            header.msg_name = (&raw const address.storage).cast_mut().cast();
            header.msg_namelen = address.length;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
            if message.len > message.size {
                self.controls[i] = SegmentControl::segment(message.size as u16);
                header.msg_control = (&raw mut self.controls[i]).cast();
                header.msg_controllen = CONTROL;
            }
            self.queued += 1;
        }
        // SAFETY: the first `queued` headers point at memory of `self`, `bytes` and `addresses`,
        // borrowed for the call, which only reads it.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.queued as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        check(sent).map(|n| n as usize)
    }
}
