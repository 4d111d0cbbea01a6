//! The calls of the C library that GuestLib interposes, which is preloaded into the supervisor: its
//! Internet sockets are an NSM's. (rustix makes system calls itself, past GuestLib.)
//!
//! Addresses, options and ancillary data stay bytes: the program's go to GuestLib, which reads them as
//! it does any program's, and GuestLib's go to the program.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use rustix::io::Errno;

use crate::sys::last;

/// Longest address, in bytes.
const ADDRESS_MAX: usize = size_of::<libc::sockaddr_storage>();
/// Room for ancillary data, in bytes.
const CONTROL_MAX: usize = 512;

fn done(result: i32) -> Result<(), Errno> {
    if result < 0 { Err(last()) } else { Ok(()) }
}

fn counted(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| last())
}

fn owned(fd: i32) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(last());
    }
    // SAFETY: a descriptor that was just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a socket that does not wait.
pub(super) fn socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd, Errno> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: numbers only.
    owned(unsafe { libc::socket(domain, kind, protocol) })
}

pub(super) fn bind(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let (at, len) = (address.as_ptr().cast(), address.len() as u32);
    // SAFETY: bytes of this length.
    done(unsafe { libc::bind(socket.as_raw_fd(), at, len) })
}

pub(super) fn connect(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let (at, len) = (address.as_ptr().cast(), address.len() as u32);
    // SAFETY: bytes of this length.
    done(unsafe { libc::connect(socket.as_raw_fd(), at, len) })
}

pub(super) fn listen(socket: &OwnedFd, backlog: i32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { libc::listen(socket.as_raw_fd(), backlog) })
}

pub(super) fn shutdown(socket: &OwnedFd, how: i32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { libc::shutdown(socket.as_raw_fd(), how) })
}

/// An address, as a call of the C library writes one.
fn address(
    read: impl FnOnce(*mut libc::sockaddr, *mut libc::socklen_t) -> i32,
) -> Result<(i32, Vec<u8>), Errno> {
    let (mut bytes, mut len) = (vec![0; ADDRESS_MAX], ADDRESS_MAX as libc::socklen_t);
    let result = read(bytes.as_mut_ptr().cast(), &mut len);
    done(result)?;
    bytes.truncate(len as usize);
    Ok((result, bytes))
}

/// Takes a connection that does not wait, with its peer's address.
pub(super) fn accept(socket: &OwnedFd) -> Result<(OwnedFd, Vec<u8>), Errno> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let (fd, from) = address(|at, len| {
        // SAFETY: room of this length.
        unsafe { libc::accept4(socket.as_raw_fd(), at, len, flags) }
    })?;
    Ok((owned(fd)?, from))
}

pub(super) fn local_address(socket: &OwnedFd) -> Result<Vec<u8>, Errno> {
    // SAFETY: room of this length.
    let read = |at, len| unsafe { libc::getsockname(socket.as_raw_fd(), at, len) };
    Ok(address(read)?.1)
}

pub(super) fn peer_address(socket: &OwnedFd) -> Result<Vec<u8>, Errno> {
    // SAFETY: room of this length.
    let read = |at, len| unsafe { libc::getpeername(socket.as_raw_fd(), at, len) };
    Ok(address(read)?.1)
}

pub(super) fn set_option(
    socket: &OwnedFd,
    level: i32,
    name: i32,
    value: &[u8],
) -> Result<(), Errno> {
    let (at, len) = (value.as_ptr().cast(), value.len() as u32);
    // SAFETY: bytes of this length.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, at, len) })
}

/// Reads an option; how many bytes it has.
pub(super) fn option(
    socket: &OwnedFd,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> Result<usize, Errno> {
    let mut len = value.len() as libc::socklen_t;
    let at = value.as_mut_ptr().cast();
    // SAFETY: room of this length.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &mut len) })?;
    Ok(len as usize)
}

/// Takes the pending error of a socket.
pub(super) fn error(socket: &OwnedFd) -> Result<(), Errno> {
    let mut value = [0; 4];
    option(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut value)?;
    match i32::from_ne_bytes(value) {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(error)),
    }
}

pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno> {
    let (at, len) = (into.as_mut_ptr().cast(), into.len());
    // SAFETY: room of this length.
    counted(unsafe { libc::recv(socket.as_raw_fd(), at, len, libc::MSG_DONTWAIT) })
}

pub(super) fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let (at, len) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: bytes of this length.
    counted(unsafe { libc::send(socket.as_raw_fd(), at, len, flags) })
}

/// A datagram without its payload.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    /// Source or destination; empty: the peer.
    pub address: Vec<u8>,
    pub control: Vec<u8>,
}

/// Room for ancillary data, aligned as its headers must be.
#[repr(align(8))]
struct Control([u8; CONTROL_MAX]);

/// Receives a datagram; its length and its envelope.
pub(super) fn receive_datagram(
    socket: &OwnedFd,
    into: &mut [u8],
) -> Result<(usize, Envelope), Errno> {
    let mut control = Control([0; CONTROL_MAX]);
    let mut name = vec![0; ADDRESS_MAX];
    let mut part = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: a msghdr of zeros is one without anything.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_name = name.as_mut_ptr().cast();
    head.msg_namelen = ADDRESS_MAX as libc::socklen_t;
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = control.0.as_mut_ptr().cast();
    head.msg_controllen = CONTROL_MAX as _;
    // SAFETY: every room has its length beside it.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut head, libc::MSG_DONTWAIT) };
    let n = counted(n)?;
    name.truncate(head.msg_namelen as usize);
    let control = control.0[..(head.msg_controllen as usize).min(CONTROL_MAX)].to_vec();
    Ok((
        n,
        Envelope {
            address: name,
            control,
        },
    ))
}

/// Sends a datagram.
pub(super) fn send_datagram(
    socket: &OwnedFd,
    payload: &[u8],
    envelope: &Envelope,
) -> Result<usize, Errno> {
    let mut control = Control([0; CONTROL_MAX]);
    let room = control.0.get_mut(..envelope.control.len());
    room.ok_or(Errno::NOBUFS)?
        .copy_from_slice(&envelope.control);
    let mut part = libc::iovec {
        iov_base: payload.as_ptr().cast_mut().cast(),
        iov_len: payload.len(),
    };
    // SAFETY: a msghdr of zeros is one without anything.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    if !envelope.address.is_empty() {
        head.msg_name = envelope.address.as_ptr().cast_mut().cast();
        head.msg_namelen = envelope.address.len() as libc::socklen_t;
    }
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    if !envelope.control.is_empty() {
        head.msg_control = control.0.as_mut_ptr().cast();
        head.msg_controllen = envelope.control.len() as _;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: bytes with their lengths, which are only read.
    counted(unsafe { libc::sendmsg(socket.as_raw_fd(), &head, flags) })
}

/// Whether a socket is ready to be read or has a connection.
pub(super) fn readable(socket: &OwnedFd) -> bool {
    let mut polled = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry.
    let n = unsafe { libc::poll(&mut polled, 1, 0) };
    n > 0 && polled.revents & libc::POLLIN != 0
}

/// An epoll of the supervisor's descriptors, of NSMs' sockets and of the kernel's.
pub(super) struct Epoll(OwnedFd);

/// Events of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// What the descriptor was added with.
    pub key: u64,
    /// Of epoll_ctl(2).
    pub events: u32,
}

impl Epoll {
    pub fn new() -> Result<Epoll, Errno> {
        // SAFETY: a number only.
        Ok(Epoll(owned(unsafe {
            libc::epoll_create1(libc::EPOLL_CLOEXEC)
        })?))
    }

    /// Adds a descriptor.
    pub fn add(&self, fd: BorrowedFd<'_>, events: i32, key: u64) -> Result<(), Errno> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: key,
        };
        let (epoll, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: our event.
        done(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) })
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let (epoll, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: no memory is passed.
        done(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, null_mut()) })
    }

    /// Waits for events, at most so many milliseconds; -1: forever.
    pub fn wait(&self, milliseconds: i32, events: &mut Vec<Event>) -> Result<(), Errno> {
        let mut told = [libc::epoll_event { events: 0, u64: 0 }; 256];
        let (at, len) = (told.as_mut_ptr(), told.len() as i32);
        // SAFETY: room of this length.
        let n = unsafe { libc::epoll_wait(self.0.as_raw_fd(), at, len, milliseconds) };
        events.clear();
        match counted(n as isize) {
            Err(Errno::INTR) => Ok(()),
            n => {
                let all = told[..n?].iter().map(|event| Event {
                    key: event.u64,
                    events: event.events,
                });
                events.extend(all);
                Ok(())
            }
        }
    }
}

/// Bytes that a Unix socket has sent and its peer has not received, with what the kernel adds to each.
pub(super) fn outstanding(end: &OwnedFd) -> Result<usize, Errno> {
    let mut bytes: i32 = 0;
    // SAFETY: room for the number.
    done(unsafe { libc::ioctl(end.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes.max(0) as usize)
}
