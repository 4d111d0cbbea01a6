//! Messages: several at a time, with addresses and descriptors.

use core::ffi::{c_int, c_uint};

use super::{failed, redirect};
use crate::address;
use crate::ancillary;
use crate::exports::io::{destination, pieces, send_parts};
use crate::message;
use crate::parts::Parts;
use crate::process;
use crate::share;
use crate::socket::{self, Socket};
use crate::sys::{Errno, Result, errno, real, returned_int};
use crate::table;

/// # Safety
/// The message is the application's.
unsafe fn send_message(socket: &Socket, message: &libc::msghdr, flags: c_int) -> Result<usize> {
    // SAFETY: the caller's promise.
    unsafe {
        let to = destination(socket, message.msg_name.cast(), message.msg_namelen)?;
        let pieces = pieces(message.msg_iov, message.msg_iovlen as _)?;
        let mut parts = Parts::new(pieces);
        if message.msg_controllen == 0 || socket.cell.is_stream() {
            return send_parts(socket, &mut parts, to, flags);
        }
        let ancillary = ancillary::read(message, socket.sends_ipv4(to))?;
        socket.send_datagram(&mut parts, to, ancillary, flags)
    }
}

/// # Safety
/// The message is the application's, for writing.
unsafe fn receive_message(
    socket: &Socket,
    message: &mut libc::msghdr,
    flags: c_int,
) -> Result<usize> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    // SAFETY: the caller's promise.
    let mut parts = unsafe { Parts::new(pieces(message.msg_iov, message.msg_iovlen as _)?) };
    message.msg_flags = 0;
    if socket.cell.is_stream() {
        message.msg_controllen = 0;
        message.msg_namelen = 0;
        return socket.receive_stream(&mut parts, flags);
    }
    let received = socket.receive_datagram(&mut parts, flags)?;
    let room = message.msg_name;
    // SAFETY: the caller's promise.
    unsafe { address::write(received.head.address, room.cast(), &mut message.msg_namelen)? };
    // SAFETY: as above.
    unsafe { ancillary::write(&received.head, message) };
    if received.copied < received.len {
        message.msg_flags |= libc::MSG_TRUNC;
    }
    let whole = flags & libc::MSG_TRUNC != 0;
    Ok(if whole { received.len } else { received.copied })
}

/// The sockets whose descriptors a message passes on live on without this process.
fn share_rights(message: &libc::msghdr) {
    if message.msg_controllen != 0 {
        message::rights(message, |fd| {
            if let Some(socket) = table::socket(fd) {
                let _ = share::share(socket);
            }
        });
    }
}

fn recognize_rights(message: &libc::msghdr) {
    if message.msg_controllen != 0 && process::redirects() {
        message::rights(message, share::recognize);
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    redirect!(
        fd,
        {
            if !message.is_null() && process::redirects() {
                // SAFETY: the application's message.
                share_rights(unsafe { &*message });
            }
            real!(sendmsg(fd => c_int, message => *const libc::msghdr, flags => c_int) -> isize)
        },
        // SAFETY: the application's message.
        |socket| unsafe { send_message(&socket, &*message, flags) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    redirect!(
        fd,
        {
            let n = real!(recvmsg(
                fd => c_int, message => *mut libc::msghdr, flags => c_int) -> isize);
            if n >= 0 && !message.is_null() {
                // SAFETY: the application's message, which the kernel has filled.
                recognize_rights(unsafe { &*message });
            }
            n
        },
        // SAFETY: the application's message.
        |socket| unsafe { receive_message(&socket, &mut *message, flags) }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    redirect!(
        fd,
        real!(sendmmsg(
            fd => c_int, messages => *mut libc::mmsghdr, count => c_uint, flags => c_int) -> c_int),
        |socket| {
            let mut sent = 0;
            while sent < count.min(1024) {
                // SAFETY: the application's messages.
                let message = unsafe { &mut *messages.add(sent as usize) };
                // SAFETY: as above.
                match unsafe { send_message(&socket, &message.msg_hdr, flags) } {
                    Ok(n) => message.msg_len = n as c_uint,
                    Err(error) if sent == 0 => return failed(error) as c_int,
                    Err(_) => break,
                }
                sent += 1;
            }
            Ok(sent as usize)
        }
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut libc::timespec,
) -> c_int {
    let Some(socket) = socket::of(fd) else {
        let n = real!(recvmmsg(fd => c_int, messages => *mut libc::mmsghdr, count => c_uint,
            flags => c_int, timeout => *mut libc::timespec) -> c_int);
        for i in 0..n.max(0) as usize {
            // SAFETY: the application's messages, of which the kernel has filled as many.
            recognize_rights(unsafe { &(*messages.add(i)).msg_hdr });
        }
        return n;
    };
    returned_int(socket.and_then(|socket| {
        // SAFETY: the application's time. It is looked at between messages, as Linux does.
        let deadline = unsafe { super::deadline_of(timeout) }?;
        let mut flags = flags;
        let mut received = 0;
        while received < count.min(1024) {
            // SAFETY: the application's messages.
            let message = unsafe { &mut *messages.add(received as usize) };
            // SAFETY: as above.
            match unsafe { receive_message(&socket, &mut message.msg_hdr, flags) } {
                Ok(n) => message.msg_len = n as c_uint,
                Err(error) if received == 0 => return Err(error),
                Err(_) => break,
            }
            received += 1;
            if flags & libc::MSG_WAITFORONE != 0 {
                flags |= libc::MSG_DONTWAIT;
            }
            if deadline.is_some_and(|at| crate::sys::now() >= at) {
                break;
            }
        }
        Ok(received as c_int)
    }))
}

/// Keeps `errno` over work that is none of the application's.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    crate::sys::set_errno(Errno(before));
    result
}
