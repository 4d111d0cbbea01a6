//! Making, naming and connecting sockets, and their options.

use core::ffi::{c_int, c_void};

use super::{done, failed, redirect};
use crate::address;
use crate::process;
use crate::socket;
use crate::sys::{Errno, Result, real, returned_int};

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let base = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let internet = matches!(domain, libc::AF_INET | libc::AF_INET6);
    let served = matches!(
        (base, protocol),
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) | (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP)
    );
    if !(internet && served && process::redirects()) {
        return real!(socket(domain => c_int, kind => c_int, protocol => c_int) -> c_int);
    }
    let made = socket::make(domain, kind, protocol);
    returned_int(made.map_err(|error| match error.0 {
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => error,
        _ => Errno(libc::ENETDOWN),
    }))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bind(fd: c_int, at: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    redirect!(
        fd,
        real!(bind(fd => c_int, at => *const libc::sockaddr, len => libc::socklen_t) -> c_int),
        // SAFETY: the application's address.
        |socket| done(unsafe { address::read(at, len) }.and_then(|to| socket.bind(to)))
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn connect(
    fd: c_int,
    at: *const libc::sockaddr,
    len: libc::socklen_t,
) -> c_int {
    redirect!(
        fd,
        real!(connect(fd => c_int, at => *const libc::sockaddr, len => libc::socklen_t) -> c_int),
        // SAFETY: the application's address.
        |socket| done(unsafe { address::read(at, len) }.and_then(|to| socket.connect(to)))
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    redirect!(
        fd,
        real!(listen(fd => c_int, backlog => c_int) -> c_int),
        |socket| done(socket.listen(backlog))
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn accept(
    fd: c_int,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    redirect!(
        fd,
        real!(accept(
            fd => c_int, at => *mut libc::sockaddr, len => *mut libc::socklen_t) -> c_int),
        // SAFETY: the application's room.
        |socket| unsafe { accept_with(socket, at, len, 0) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    redirect!(
        fd,
        real!(accept4(
            fd => c_int, at => *mut libc::sockaddr, len => *mut libc::socklen_t, flags => c_int
        ) -> c_int),
        // SAFETY: the application's room.
        |socket| unsafe { accept_with(socket, at, len, flags) }
    )
}

unsafe fn accept_with(
    socket: socket::Socket,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    flags: c_int,
) -> Result<usize> {
    let (fd, peer) = socket.accept(flags)?;
    // SAFETY: the caller's promise.
    unsafe { address::write(peer, at, len)? };
    Ok(fd as usize)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    redirect!(
        fd,
        real!(shutdown(fd => c_int, how => c_int) -> c_int),
        |socket| done(socket.shutdown(how))
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getsockname(
    fd: c_int,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    redirect!(
        fd,
        real!(getsockname(
            fd => c_int, at => *mut libc::sockaddr, len => *mut libc::socklen_t) -> c_int),
        |socket| done(socket.local_address().and_then(|address| {
            // SAFETY: the application's room.
            unsafe { address::write(Some(address), at, len) }
        }))
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getpeername(
    fd: c_int,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    redirect!(
        fd,
        real!(getpeername(
            fd => c_int, at => *mut libc::sockaddr, len => *mut libc::socklen_t) -> c_int),
        |socket| done(socket.peer_address().and_then(|address| {
            // SAFETY: the application's room.
            unsafe { address::write(Some(address), at, len) }
        }))
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    redirect!(
        fd,
        real!(setsockopt(fd => c_int, level => c_int, name => c_int, value => *const c_void,
            len => libc::socklen_t) -> c_int),
        |socket| {
            if value.is_null() {
                return failed(Errno(libc::EFAULT)) as c_int;
            }
            // SAFETY: the application's value.
            let value = unsafe { core::slice::from_raw_parts(value.cast(), len as usize) };
            done(socket.set_option(level, name, value))
        }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    redirect!(
        fd,
        real!(getsockopt(fd => c_int, level => c_int, name => c_int, value => *mut c_void,
            len => *mut libc::socklen_t) -> c_int),
        |socket| {
            if value.is_null() || len.is_null() {
                return failed(Errno(libc::EFAULT)) as c_int;
            }
            // SAFETY: the application's room and its length.
            let (room, len) = unsafe {
                let room = core::slice::from_raw_parts_mut(value.cast::<u8>(), *len as usize);
                (room, &mut *len)
            };
            done(
                socket
                    .option(level, name, room)
                    .map(|n| *len = n as libc::socklen_t),
            )
        }
    )
}
