//! System calls that rustix does not wrap: TAP and interface requests here, AF_PACKET's options and
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

/// The network namespace that a TAP device's file was opened in. It lasts as long as the file, even
/// if it has no name any more (Linux 4.10).
pub fn tap_namespace(tap: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    const SIOCGSKNS: u32 = 0x894c;
    // SAFETY: SIOCGSKNS has no argument.
    let namespace = check(unsafe { libc::ioctl(tap.as_raw_fd(), SIOCGSKNS as _) })?;
    // SAFETY: the descriptor was made for this call, and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(namespace) })
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

/// Whether an interface puts what it receives together to larger segments (generic receive offload).
pub fn gro(socket: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    const ETHTOOL_GGRO: u32 = 0x2b;
    ethtool_value(socket, name, ETHTOOL_GGRO, 0).map(|on| on != 0)
}

/// Has an interface do so, or not.
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
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut words).cast();
    // SAFETY: the kernel reads and writes one ethtool_value, for this command.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    check(result)?;
    Ok(words[1])
}

/// How many receive queues an interface has, if its driver tells.
pub fn receive_queues(socket: BorrowedFd<'_>, name: &str) -> Result<u32, Errno> {
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
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the kernel reads and writes one ethtool_channels, for this command.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    check(result)?;
    Ok(channels.receive + channels.combined)
}
