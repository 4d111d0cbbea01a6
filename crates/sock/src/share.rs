//! Sockets that several processes have. Before a socket's descriptor gets into a second process (by fork,
//! exec or a message), its life becomes that of a kernel object: see [`abi::tenant::Share`].

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use abi::tenant::Share;

use crate::cell::{Cell, flag};
use crate::exports::stdio;
use crate::lock::{self, Lock};
use crate::sys::{self, Errno, Result, syscall};
use crate::table::{self, Entry};
use crate::{epoll, message, process, restart, wait};

/// Held while a socket's descriptors are replaced.
static DESCRIPTORS: Lock = Lock::new();

/// Has a socket outlive its descriptors in this process: its kernel descriptor becomes one end of a pair
/// of Unix sockets whose other end CoreEngine holds.
pub fn share(socket: u32) -> Result<()> {
    let (shared, set) = process::joined()?;
    let cell = shared.private.cell(socket).ok_or(Errno(libc::EBADF))?;
    if let Err(Errno(libc::EPIPE | libc::ECONNRESET)) = share_at(socket, cell) {
        restart::check(&shared, set);
        restart::ready()?;
        return share_at(socket, cell);
    }
    Ok(())
}

fn share_at(socket: u32, cell: &Cell) -> Result<()> {
    let _guard = DESCRIPTORS.lock();
    if !cell.has(flag::SHARED) {
        give_end(socket, cell)?;
        cell.set(flag::SHARED);
    }
    Ok(())
}

/// Has this process's descriptors of shared sockets, whose other ends the CoreEngine had that has ended,
/// be ends that this one knows.
pub fn renew() {
    let Some(shared) = process::mapped() else {
        return;
    };
    let _guard = DESCRIPTORS.lock();
    let mut sockets = Vec::new();
    table::each(|fd, entry| {
        if let Entry::Socket(socket) = entry
            && !sockets.contains(&socket)
            && sys::has_hung_up(fd)
        {
            sockets.push(socket);
        }
    });
    for socket in sockets {
        if let Some(cell) = shared.private.cell(socket)
            && cell.has(flag::SHARED)
        {
            // Without it, the socket ends with the other processes that have it.
            let _ = give_end(socket, cell);
        }
    }
}

/// Has this process's descriptors of a socket be one end of a pair whose other end CoreEngine gets.
fn give_end(socket: u32, cell: &Cell) -> Result<()> {
    let [ours, theirs] = sys::pair(libc::SOCK_STREAM)?;
    let name = Name::new(process::tenant(), socket);
    let sent = name.bind(ours).and_then(|()| {
        let share = Share { socket };
        message::send(process::connection(), &share.to_bytes(), &[theirs])
    });
    sys::close(theirs);
    if let Err(error) = sent {
        sys::close(ours);
        return Err(error);
    }
    if cell.has(flag::NONBLOCK) {
        let _ = sys::fcntl(ours, libc::F_SETFL, libc::O_NONBLOCK as usize);
    }
    table::each(|fd, entry| {
        if entry == Entry::Socket(socket) {
            let closes = sys::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0) & libc::FD_CLOEXEC != 0;
            let flags = if closes { libc::O_CLOEXEC } else { 0 };
            // SAFETY: no memory is passed.
            let _ = syscall!(libc::SYS_dup3, ours, fd, flags);
        }
    });
    sys::close(ours);
    Ok(())
}

/// Shares the sockets that a child is about to inherit; `all`: also sockets that are closed at exec.
pub fn share_inherited(all: bool) {
    if process::set().is_none() {
        return;
    }
    let mut sockets = Vec::new();
    table::each(|fd, entry| {
        let kept = || sys::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|f| f & libc::FD_CLOEXEC == 0);
        if let Entry::Socket(socket) = entry
            && (all || kept())
        {
            sockets.push(socket);
        }
    });
    for socket in sockets {
        // Without it, the child has a descriptor that fails.
        let _ = share(socket);
    }
}

/// The name of a shared socket's descriptor: `\0weir-sock/<tenant>/<socket>/<nonce>`.
struct Name {
    address: libc::sockaddr_un,
    len: usize,
}

const PREFIX: &[u8] = b"\0weir-sock/";

impl Name {
    fn new(tenant: u32, socket: u32) -> Name {
        static NONCE: AtomicU32 = AtomicU32::new(0);
        let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
        let tid = sys::gettid();
        let mut text = [0u8; 107];
        let mut at = PREFIX.len();
        text[..at].copy_from_slice(PREFIX);
        for (i, number) in [tenant, socket, tid, nonce].into_iter().enumerate() {
            if i > 0 {
                text[at] = if i == 3 { b'.' } else { b'/' };
                at += 1;
            }
            at += decimal(number, &mut text[at..]);
        }
        // SAFETY: zeros are an address of no name.
        let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as _;
        for (to, &from) in address.sun_path.iter_mut().zip(&text[..at]) {
            *to = from as _;
        }
        Name {
            address,
            len: size_of::<libc::sa_family_t>() + at,
        }
    }

    fn bind(&self, fd: c_int) -> Result<()> {
        // SAFETY: our address.
        syscall!(libc::SYS_bind, fd, &raw const self.address, self.len).map(drop)
    }

    /// The tenant and the socket that a descriptor is named for.
    fn of(fd: c_int) -> Option<(u32, u32)> {
        // SAFETY: zeros are an address of no name.
        let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
        let mut len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: room for an address of that length.
        syscall!(libc::SYS_getsockname, fd, &raw mut address, &raw mut len).ok()?;
        if c_int::from(address.sun_family) != libc::AF_UNIX {
            return None;
        }
        let n = (len as usize).checked_sub(size_of::<libc::sa_family_t>())?;
        let text: Vec<u8> = address.sun_path.iter().take(n).map(|&b| b as u8).collect();
        parse_name(&text)
    }
}

fn parse_name(text: &[u8]) -> Option<(u32, u32)> {
    let text = core::str::from_utf8(text.strip_prefix(PREFIX)?).ok()?;
    let mut numbers = text.split('/');
    let (tenant, socket) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next()?;
    ((socket as usize) < abi::tenant::SOCKETS).then_some((tenant, socket))
}

fn decimal(number: u32, into: &mut [u8]) -> usize {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for byte in into[..digits].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// Knows a descriptor that came from another program again, if it is a shared socket's.
pub fn recognize(fd: c_int) {
    if table::lookup(fd).is_none()
        && let Some((tenant, socket)) = Name::of(fd)
        && (process::set().is_none() || tenant == process::tenant())
    {
        table::add_socket(fd, socket);
    }
}

/// The descriptors that the program was started with.
fn adopt_descriptors() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    for entry in entries.flatten() {
        if let Some(fd) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            recognize(fd);
        }
    }
    stdio::standard_streams();
}

/// Catches forks, the C library's own (daemon) too, and knows the descriptors that the program was
/// started with.
pub fn begin() {
    // SAFETY: the handlers are functions for the whole life of the process.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    adopt_descriptors();
}

extern "C" fn before_fork() {
    share_inherited(true);
    process::JOINING.lock_across_fork();
    DESCRIPTORS.lock_across_fork();
    epoll::LOCK.lock_across_fork();
}

extern "C" fn after_fork() {
    epoll::LOCK.release();
    DESCRIPTORS.release();
    process::JOINING.release();
}

extern "C" fn in_child() {
    lock::forget_thread();
    epoll::LOCK.reset();
    epoll::in_child();
    DESCRIPTORS.reset();
    process::leave();
    wait::in_child();
    table::each(|_, entry| {
        if let Entry::Socket(socket) = entry {
            table::local(socket).attached.store(0, Ordering::Release);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_descriptor_is_known_by_its_name() {
        let [a, b] = sys::pair(libc::SOCK_STREAM).unwrap();
        assert_eq!(Name::of(a), None);
        Name::new(7, 65535).bind(a).unwrap();
        assert_eq!(Name::of(a), Some((7, 65535)));
        sys::close(a);
        sys::close(b);
        assert_eq!(parse_name(b"\0weir-sock/0/65536/1"), None);
        assert_eq!(parse_name(b"\0weir-sock/0/1"), None);
        assert_eq!(parse_name(b"/tmp/x"), None);
    }

    #[test]
    fn a_number_is_written_in_decimal() {
        let mut text = [0; 10];
        for number in [0, 1, 9, 10, 4_294_967_295u32] {
            let n = decimal(number, &mut text);
            assert_eq!(
                core::str::from_utf8(&text[..n]).unwrap(),
                number.to_string()
            );
        }
    }
}
