//! Socket options that a tenant may set and read: those whose values are numbers or structures without
//! addresses of memory, and that concern the socket alone.

use std::os::fd::AsFd;

use abi::SharedBytes;
use abi::nqe::{ONLY_IPV6, REUSE_PORT};
use rustix::io::Errno;

use super::socket::Socket;
use crate::sys;

/// Whether a tenant may set an option.
fn may_set(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_REUSEADDR
                | libc::SO_REUSEPORT
                | libc::SO_KEEPALIVE
                | libc::SO_BROADCAST
                | libc::SO_DONTROUTE
                | libc::SO_LINGER
                | libc::SO_OOBINLINE
                | libc::SO_RCVBUF
                | libc::SO_SNDBUF
                | libc::SO_RCVLOWAT
                | libc::SO_PRIORITY
                | libc::SO_NO_CHECK
                | libc::SO_BUSY_POLL
                | libc::SO_INCOMING_CPU
                | libc::SO_MAX_PACING_RATE
                | libc::SO_BINDTODEVICE
        ),
        libc::IPPROTO_TCP => matches!(
            name,
            libc::TCP_NODELAY
                | libc::TCP_CORK
                | libc::TCP_MAXSEG
                | libc::TCP_KEEPIDLE
                | libc::TCP_KEEPINTVL
                | libc::TCP_KEEPCNT
                | libc::TCP_SYNCNT
                | libc::TCP_LINGER2
                | libc::TCP_DEFER_ACCEPT
                | libc::TCP_WINDOW_CLAMP
                | libc::TCP_QUICKACK
                | libc::TCP_CONGESTION
                | libc::TCP_USER_TIMEOUT
                | libc::TCP_FASTOPEN
                | libc::TCP_FASTOPEN_CONNECT
                | libc::TCP_NOTSENT_LOWAT
        ),
        libc::IPPROTO_IP => matches!(
            name,
            libc::IP_TOS
                | libc::IP_TTL
                | libc::IP_MTU_DISCOVER
                | libc::IP_RECVERR
                | libc::IP_RECVTTL
                | libc::IP_RECVTOS
                | libc::IP_PKTINFO
                | libc::IP_BIND_ADDRESS_NO_PORT
                | libc::IP_FREEBIND
                | libc::IP_MULTICAST_TTL
                | libc::IP_MULTICAST_LOOP
                | libc::IP_MULTICAST_IF
                | libc::IP_ADD_MEMBERSHIP
                | libc::IP_DROP_MEMBERSHIP
        ),
        libc::IPPROTO_IPV6 => matches!(
            name,
            libc::IPV6_V6ONLY
                | libc::IPV6_TCLASS
                | libc::IPV6_UNICAST_HOPS
                | libc::IPV6_MTU_DISCOVER
                | libc::IPV6_RECVERR
                | libc::IPV6_RECVHOPLIMIT
                | libc::IPV6_RECVTCLASS
                | libc::IPV6_RECVPKTINFO
                | libc::IPV6_MULTICAST_HOPS
                | libc::IPV6_MULTICAST_LOOP
                | libc::IPV6_MULTICAST_IF
                | libc::IPV6_ADD_MEMBERSHIP
                | libc::IPV6_DROP_MEMBERSHIP
                | libc::IPV6_FREEBIND
        ),
        _ => false,
    }
}

/// Sets the options that say which sockets may have the same address as one that is restored.
pub(super) fn restore(socket: &Socket, flags: u8) -> Result<(), Errno> {
    use rustix::net::sockopt;
    if flags & ONLY_IPV6 != 0 {
        sockopt::set_ipv6_v6only(socket.file()?, true)?;
    }
    if flags & REUSE_PORT != 0 {
        sockopt::set_socket_reuseport(socket.file()?, true)?;
    }
    Ok(())
}

/// Whether a tenant may read an option.
fn may_get(level: i32, name: i32) -> bool {
    let reads = match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_ERROR
                | libc::SO_TYPE
                | libc::SO_DOMAIN
                | libc::SO_PROTOCOL
                | libc::SO_ACCEPTCONN
                | libc::SO_COOKIE
        ),
        libc::IPPROTO_TCP => matches!(name, libc::TCP_INFO),
        libc::IPPROTO_IP => matches!(name, libc::IP_MTU),
        libc::IPPROTO_IPV6 => matches!(name, libc::IPV6_MTU),
        _ => false,
    };
    reads || may_set(level, name)
}

/// Longest value of an option that waits until the kernel's socket is made: that of SO_LINGER.
const WAITING_MAX: usize = 8;
/// Most options that a socket keeps.
const OPTIONS_MAX: usize = 64;

/// Whether an option with a value of this length can wait until the kernel's socket is made.
pub(super) fn can_wait(socket: &Socket, len: usize) -> bool {
    (size_of::<i32>()..=WAITING_MAX).contains(&len) && socket.options.len() < OPTIONS_MAX
}

/// An option that a tenant sets.
pub(crate) struct SocketOption {
    level: i32,
    name: i32,
    value: Box<[u8]>,
}

impl SocketOption {
    /// One that the tenant may set.
    pub fn of(level: i32, name: i32, value: SharedBytes) -> Result<SocketOption, Errno> {
        if !may_set(level, name) {
            return Err(Errno::NOPROTOOPT);
        }
        let mut copy = [0; sys::OPTION_MAX];
        if value.len() > copy.len() {
            return Err(Errno::INVAL);
        }
        let len = value.read(&mut copy);
        Ok(SocketOption {
            level,
            name,
            value: copy[..len].into(),
        })
    }

    /// Sets it.
    pub fn set(&self, file: impl AsFd) -> Result<(), Errno> {
        sys::set_option(file, self.level, self.name, &self.value)
    }

    /// Has a socket keep it, for sockets of the kernel's that are made later.
    pub fn keep(self, socket: &mut Socket) {
        let is_same = |it: &SocketOption| (it.level, it.name) == (self.level, self.name);
        let at = socket.options.iter().position(is_same);
        match at {
            Some(at) => socket.options[at] = self,
            None if socket.options.len() < OPTIONS_MAX => socket.options.push(self),
            None => {}
        }
    }
}

/// Reads an option into the bytes; returns the length of its value.
pub(super) fn get(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: SharedBytes,
) -> Result<u32, Errno> {
    if !may_get(level, name) {
        return Err(Errno::NOPROTOOPT);
    }
    let mut copy = [0; sys::OPTION_MAX];
    let room = value.len().min(copy.len());
    let n = sys::option(socket, level, name, &mut copy[..room])?;
    Ok(value.write(&copy[..n.min(room)]) as u32)
}
