//! Reading and writing bytes.

use core::ffi::{c_int, c_void};

use abi::nqe::DatagramHead;

use super::redirect;
use crate::address::{self, Address};
use crate::parts::Parts;
use crate::socket::Socket;
use crate::sys::{Errno, Result, real};

/// Most bytes that one call passes, as in Linux.
const MOST: usize = 0x7fff_f000;

fn part(at: *const c_void, len: usize) -> [libc::iovec; 1] {
    [libc::iovec {
        iov_base: at.cast_mut(),
        iov_len: len.min(MOST),
    }]
}

/// # Safety
/// The memory is the application's for reading.
unsafe fn send_from(socket: &Socket, at: *const c_void, len: usize, flags: c_int) -> Result<usize> {
    let pieces = part(at, len);
    // SAFETY: the caller's promise.
    send_parts(socket, &mut unsafe { Parts::new(&pieces) }, None, flags)
}

/// Sends to an address, or to the peer. A stream's address is not looked at (tcp(7)).
pub fn send_parts(
    socket: &Socket,
    parts: &mut Parts<'_>,
    to: Option<Address>,
    flags: c_int,
) -> Result<usize> {
    if socket.cell.is_stream() {
        socket.send_stream(parts, flags)
    } else {
        socket.send_datagram(parts, to, DatagramHead::default(), flags)
    }
}

/// # Safety
/// The memory is the application's for writing.
unsafe fn receive_into(
    socket: &Socket,
    at: *mut c_void,
    len: usize,
    flags: c_int,
) -> Result<usize> {
    let pieces = part(at, len);
    // SAFETY: the caller's promise.
    let mut parts = unsafe { Parts::new(&pieces) };
    if socket.cell.is_stream() {
        return socket.receive_stream(&mut parts, flags);
    }
    let received = socket.receive_datagram(&mut parts, flags)?;
    let whole = flags & libc::MSG_TRUNC != 0;
    Ok(if whole { received.len } else { received.copied })
}

/// # Safety
/// The iovecs are the application's.
pub unsafe fn pieces<'a>(iov: *const libc::iovec, count: usize) -> Result<&'a [libc::iovec]> {
    if count > libc::UIO_MAXIOV as usize {
        return Err(Errno(libc::EINVAL));
    }
    if count == 0 || iov.is_null() {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(iov, count) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn read(fd: c_int, at: *mut c_void, len: usize) -> isize {
    redirect!(
        fd,
        real!(read(fd => c_int, at => *mut c_void, len => usize) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { receive_into(&socket, at, len, 0) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __read_chk(fd: c_int, at: *mut c_void, len: usize, room: usize) -> isize {
    redirect!(
        fd,
        real!(__read_chk(fd => c_int, at => *mut c_void, len => usize, room => usize) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { receive_into(&socket, at, fits(len, room), 0) }
    )
}

/// What the fortified functions check: they end a program that would overrun its memory.
fn fits(len: usize, room: usize) -> usize {
    if len > room {
        std::process::abort();
    }
    len
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn write(fd: c_int, at: *const c_void, len: usize) -> isize {
    redirect!(
        fd,
        real!(write(fd => c_int, at => *const c_void, len => usize) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { send_from(&socket, at, len, 0) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn readv(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize {
    redirect!(
        fd,
        real!(readv(fd => c_int, iov => *const libc::iovec, count => c_int) -> isize),
        |socket| {
            // SAFETY: the application's memory.
            unsafe { pieces(iov, count as usize) }.and_then(|pieces| {
                let mut parts = unsafe { Parts::new(pieces) };
                if socket.cell.is_stream() {
                    socket.receive_stream(&mut parts, 0)
                } else {
                    socket
                        .receive_datagram(&mut parts, 0)
                        .map(|received| received.copied)
                }
            })
        }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn writev(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize {
    redirect!(
        fd,
        real!(writev(fd => c_int, iov => *const libc::iovec, count => c_int) -> isize),
        |socket| {
            // SAFETY: the application's memory.
            unsafe { pieces(iov, count as usize) }
                .and_then(|pieces| send_parts(&socket, &mut unsafe { Parts::new(pieces) }, None, 0))
        }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn send(fd: c_int, at: *const c_void, len: usize, flags: c_int) -> isize {
    redirect!(
        fd,
        real!(send(fd => c_int, at => *const c_void, len => usize, flags => c_int) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { send_from(&socket, at, len, flags) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    at: *const c_void,
    len: usize,
    flags: c_int,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
) -> isize {
    redirect!(
        fd,
        real!(sendto(fd => c_int, at => *const c_void, len => usize, flags => c_int,
            to => *const libc::sockaddr, to_len => libc::socklen_t) -> isize),
        |socket| {
            // SAFETY: the application's memory and address.
            unsafe { destination(&socket, to, to_len) }.and_then(|to| {
                let pieces = part(at, len);
                send_parts(&socket, &mut unsafe { Parts::new(&pieces) }, to, flags)
            })
        }
    )
}

/// # Safety
/// The address is the application's, or null.
pub unsafe fn destination(
    socket: &Socket,
    to: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Result<Option<Address>> {
    if to.is_null() || len == 0 || socket.cell.is_stream() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { address::read(to, len) }.map(Some)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn recv(fd: c_int, at: *mut c_void, len: usize, flags: c_int) -> isize {
    redirect!(
        fd,
        real!(recv(fd => c_int, at => *mut c_void, len => usize, flags => c_int) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { receive_into(&socket, at, len, flags) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    at: *mut c_void,
    len: usize,
    room: usize,
    flags: c_int,
) -> isize {
    redirect!(
        fd,
        real!(__recv_chk(fd => c_int, at => *mut c_void, len => usize, room => usize,
            flags => c_int) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { receive_into(&socket, at, fits(len, room), flags) }
    )
}

/// # Safety
/// The memory and the room for the address are the application's.
unsafe fn receive_from(
    socket: &Socket,
    at: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
) -> Result<usize> {
    let pieces = part(at, len);
    // SAFETY: the caller's promise.
    let mut parts = unsafe { Parts::new(&pieces) };
    if socket.cell.is_stream() {
        let n = socket.receive_stream(&mut parts, flags)?;
        // SAFETY: the caller's promise. A connected stream tells no address.
        unsafe { address::write(None, from, from_len)? };
        return Ok(n);
    }
    let received = socket.receive_datagram(&mut parts, flags)?;
    // SAFETY: the caller's promise.
    unsafe { address::write(received.head.address, from, from_len)? };
    let whole = flags & libc::MSG_TRUNC != 0;
    Ok(if whole { received.len } else { received.copied })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    at: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
) -> isize {
    redirect!(
        fd,
        real!(recvfrom(fd => c_int, at => *mut c_void, len => usize, flags => c_int,
            from => *mut libc::sockaddr, from_len => *mut libc::socklen_t) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { receive_from(&socket, at, len, flags, from, from_len) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    at: *mut c_void,
    len: usize,
    room: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
) -> isize {
    redirect!(
        fd,
        real!(__recvfrom_chk(fd => c_int, at => *mut c_void, len => usize, room => usize,
            flags => c_int, from => *mut libc::sockaddr, from_len => *mut libc::socklen_t) -> isize),
        // SAFETY: the application's memory.
        |socket| unsafe { receive_from(&socket, at, fits(len, room), flags, from, from_len) }
    )
}
