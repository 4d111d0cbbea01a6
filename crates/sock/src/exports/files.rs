//! Bytes between a socket and a file or a pipe. The kernel passes pages; for an NSM's socket they are
//! copied.

use core::ffi::{c_int, c_uint};

use super::redirect;
use crate::parts::Parts;
use crate::socket::{self, Socket};
use crate::sys::{Errno, Result, real, returned, syscall};
use crate::table;

/// Bytes copied at a time.
const PIECE: usize = 1 << 14;

fn piece(bytes: &mut [u8]) -> [libc::iovec; 1] {
    [libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }]
}

fn send(socket: &Socket, bytes: &mut [u8], flags: c_int) -> Result<usize> {
    let pieces = piece(bytes);
    // SAFETY: our bytes.
    let mut parts = unsafe { Parts::new(&pieces) };
    super::io::send_parts(socket, &mut parts, None, flags)
}

/// Sends from a file at `offset`, or at its own position, which moves.
fn send_file(
    socket: &Socket,
    file: c_int,
    mut offset: Option<&mut i64>,
    count: usize,
) -> Result<usize> {
    if table::socket(file).is_some() {
        return Err(Errno(libc::EINVAL));
    }
    let mut buffer = [0u8; PIECE];
    let mut done = 0;
    while done < count {
        let wanted = PIECE.min(count - done);
        // The position moves by what was sent, which may be less than what was read.
        let at = match &offset {
            Some(at) => **at,
            // SAFETY: no memory is passed.
            None => syscall!(libc::SYS_lseek, file, 0i64, libc::SEEK_CUR)? as i64,
        };
        // SAFETY: our bytes.
        let read = syscall!(libc::SYS_pread64, file, buffer.as_mut_ptr(), wanted, at);
        let sent = match read {
            Ok(0) => break,
            Ok(n) => {
                let more = if n == wanted && done + n < count {
                    libc::MSG_MORE
                } else {
                    0
                };
                send(socket, &mut buffer[..n], more).map(|sent| (sent, n))
            }
            Err(error) => Err(error),
        };
        let (sent, read) = match sent {
            Err(_) if done > 0 => break,
            sent => sent?,
        };
        done += sent;
        match &mut offset {
            Some(at) => **at += sent as i64,
            None => {
                // SAFETY: no memory is passed.
                syscall!(libc::SYS_lseek, file, at + sent as i64, libc::SEEK_SET)?;
            }
        }
        if sent < read {
            break;
        }
    }
    Ok(done)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize {
    redirect!(
        to,
        real!(sendfile(to => c_int, from => c_int, offset => *mut i64, count => usize) -> isize),
        // SAFETY: the application's offset, or null.
        |socket| send_file(&socket, from, unsafe { offset.as_mut() }, count)
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut i64,
    count: usize,
) -> isize {
    // SAFETY: the same function where offsets have 64 bits.
    unsafe { sendfile(to, from, offset, count) }
}

/// From a socket into a pipe: what the pipe does not take stays in the socket.
fn splice_out(socket: &Socket, pipe: c_int, len: usize, flags: c_int) -> Result<usize> {
    let mut buffer = [0u8; PIECE];
    let n = len.min(PIECE);
    let pieces = piece(&mut buffer[..n]);
    // SAFETY: our bytes.
    let mut parts = unsafe { Parts::new(&pieces) };
    let n = socket.receive_stream(&mut parts, flags | libc::MSG_PEEK)?;
    if n == 0 {
        return Ok(0);
    }
    // SAFETY: our bytes.
    let written = syscall!(libc::SYS_write, pipe, buffer.as_ptr(), n)?;
    let pieces = piece(&mut buffer[..written]);
    // SAFETY: our bytes.
    let mut parts = unsafe { Parts::new(&pieces) };
    socket.receive_stream(&mut parts, libc::MSG_DONTWAIT)
}

/// From a pipe into a socket: no more is taken out of the pipe than the socket has room for.
fn splice_in(socket: &Socket, pipe: c_int, len: usize, flags: c_int) -> Result<usize> {
    if socket.nonblocking(flags) && socket.readiness() & crate::cell::event::OUT == 0 {
        socket.drain();
        if socket.readiness() & crate::cell::event::OUT == 0 {
            return Err(Errno(libc::EAGAIN));
        }
    }
    let mut buffer = [0u8; PIECE];
    // SAFETY: our bytes.
    let n = syscall!(libc::SYS_read, pipe, buffer.as_mut_ptr(), len.min(PIECE))?;
    let mut done = 0;
    while done < n {
        match send(socket, &mut buffer[done..n], 0) {
            Ok(sent) => done += sent,
            Err(Errno(libc::EAGAIN)) => {
                socket.wait(crate::cell::event::OUT, 0, &mut None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    len: usize,
    flags: c_uint,
) -> isize {
    let wait = if flags & libc::SPLICE_F_NONBLOCK != 0 {
        libc::MSG_DONTWAIT
    } else {
        0
    };
    match (socket::of(from), socket::of(to)) {
        (None, None) => real!(splice(from => c_int, from_offset => *mut i64, to => c_int,
            to_offset => *mut i64, len => usize, flags => c_uint) -> isize),
        (Some(socket), None) => returned(socket.and_then(|s| splice_out(&s, to, len, wait))),
        (None, Some(socket)) => returned(socket.and_then(|s| splice_in(&s, from, len, wait))),
        _ => returned(Err(Errno(libc::EINVAL))),
    }
}
