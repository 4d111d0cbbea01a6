//! System calls that rustix does not wrap: TAP and ethtool requests here, AF_PACKET's options and
//! receiving many frames at once in [`packet`], AF_XDP's rings in [`xdp`] and its program in [`bpf`],
//! many UDP packets at once in [`udp`], forking in [`process`]. Each function is safe to call.
#![allow(unsafe_code)]

pub mod bpf;
pub mod packet;
pub mod process;
pub mod ring;
pub mod udp;
pub mod xdp;

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

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

/// Gives a socket a filter in classic BPF: it takes so many bytes of each packet as the program returns.
fn set_filter(fd: BorrowedFd<'_>, program: &mut [libc::sock_filter]) -> Result<(), Errno> {
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Gives a socket a loaded program as its filter.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let program = program.as_raw_fd();
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &program)
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
    // SAFETY: every code used here reads or writes one ifreq, and what that points to.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, &raw mut *request) }).map(drop)
}

/// A socket to make requests of ethtool on: in the network namespace of this thread.
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

/// The network namespace that a TAP device's file was opened in. It lasts as long as the file, even
/// if it has no name any more (Linux 4.10).
pub fn tap_namespace(tap: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    const SIOCGSKNS: u32 = 0x894c;
    // SAFETY: SIOCGSKNS has no argument.
    let namespace = check(unsafe { libc::ioctl(tap.as_raw_fd(), SIOCGSKNS as _) })?;
    // SAFETY: the descriptor was made for this call, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(namespace) })
}

/// Whether an interface joins received packets to larger segments (generic receive offload).
pub fn gro(socket: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    const ETHTOOL_GGRO: u32 = 0x2b;
    ethtool_value(socket, name, ETHTOOL_GGRO, 0).map(|on| on != 0)
}

/// Sets whether an interface does so.
pub fn set_gro(socket: BorrowedFd<'_>, name: &str, on: bool) -> Result<(), Errno> {
    const ETHTOOL_SGRO: u32 = 0x2c;
    ethtool_value(socket, name, ETHTOOL_SGRO, on.into()).map(drop)
}

/// Asks an interface's driver for a value, or gives it one.
fn ethtool_value(
    socket: BorrowedFd<'_>,
    name: &str,
    command: u32,
    value: u32,
) -> Result<u32, Errno> {
    // `struct ethtool_value`.
    let mut words = [command, value];
    // SAFETY: the kernel reads and writes one ethtool_value, for these commands.
    unsafe { ethtool(socket, name, (&raw mut words).cast()) }?;
    Ok(words[1])
}

/// Makes a request of ethtool(8), by ioctl: the netlink library has no messages for it.
///
/// # Safety
///
/// `data` points to what the command that it begins with reads and writes.
unsafe fn ethtool(
    socket: BorrowedFd<'_>,
    name: &str,
    data: *mut libc::c_char,
) -> Result<(), Errno> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = data;
    interface_ioctl(socket, libc::SIOCETHTOOL as _, &mut request)
}

/// How many receive queues an interface has, if its driver tells.
pub fn receive_queues(name: &str) -> Result<u32, Errno> {
    /// `struct ethtool_channels`.
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        most: [u32; 4],
        receive: u32,
        transmit: u32,
        other: u32,
        combined: u32,
    }
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    // SAFETY: the kernel reads and writes one ethtool_channels, for this command.
    unsafe {
        ethtool(
            interface_socket()?.as_fd(),
            name,
            (&raw mut channels).cast(),
        )
    }?;
    Ok(channels.receive + channels.combined)
}
