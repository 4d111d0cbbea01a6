//! Polling a set of descriptors, some of which stand for sockets of an NSM.

use core::ffi::c_int;

use crate::cell::{event, flag};
use crate::process::{self, Shared};
use crate::socket;
use crate::sys::{self, Result};
use crate::table::{self, Entry};
use crate::wait::{self, NOTHING, Terms, Woke};
use crate::{epoll, queues};

/// Descriptors polled without allocating memory.
const FEW: usize = 32;

/// Whether a set needs more than the kernel's poll.
pub fn concerns(fds: &[libc::pollfd]) -> bool {
    fds.iter().any(|fd| ours(fd.fd).is_some())
}

/// What a descriptor that the library polls stands for.
pub fn ours(fd: c_int) -> Option<Entry> {
    match table::lookup(fd) {
        Some(Entry::Owned) | None => None,
        entry => entry,
    }
}

/// Polls as poll(2), until the deadline by [`sys::now`] (`None`: for ever).
pub fn poll(
    fds: &mut [libc::pollfd],
    deadline: Option<u64>,
    mask: Option<*const libc::sigset_t>,
) -> Result<usize> {
    let (shared, set) = process::joined()?;
    let (mut few, mut many);
    let n = fds.len();
    let kernel: &mut [libc::pollfd] = if n <= FEW {
        few = [NOTHING; FEW + 1];
        &mut few[..n + 1]
    } else {
        many = vec![NOTHING; n + 1];
        &mut many
    };
    let mut any = false;
    for (to, from) in kernel.iter_mut().zip(fds.iter_mut()) {
        from.revents = 0;
        match ours(from.fd) {
            Some(Entry::Socket(_)) => {
                if let Some(socket) = socket::of(from.fd) {
                    socket?.expect_connections()?;
                }
                continue;
            }
            _ if from.fd < 0 => continue,
            _ => {}
        }
        *to = *from;
        any = true;
    }
    loop {
        queues::drain(&shared, set);
        let ready = check(&shared, fds);
        if ready > 0 || deadline == Some(0) {
            queues::flush(&shared, set);
            if any {
                let (kernel, _) = kernel.split_at_mut(n);
                sys::ppoll(kernel, Some(0), None)?;
                merge(fds, kernel);
            }
            return Ok(count(fds));
        }
        let terms = Terms {
            deadline,
            mask,
            fds: if any { &mut *kernel } else { &mut kernel[n..] },
            restarts: false,
            glances: starving(&shared, fds),
        };
        let register = |bit| register(fds, bit);
        let woke = wait::sleep(&shared, set, terms, register, || check_any(&shared, fds))?;
        match woke {
            Woke::Kernel => {
                merge(fds, &kernel[..n]);
                queues::drain(&shared, set);
                check(&shared, fds);
                let n = count(fds);
                if n > 0 {
                    return Ok(n);
                }
            }
            Woke::Timeout => return Ok(0),
            Woke::Ready => {}
        }
    }
}

fn readiness(shared: &Shared, fd: &libc::pollfd) -> u32 {
    let ready = match ours(fd.fd) {
        Some(Entry::Socket(number)) => {
            let cell = shared.private.cell(number);
            cell.map_or(0, |cell| shared.private.readiness(cell))
        }
        Some(Entry::Epoll(number)) if epoll::any_ready(shared, number) => event::READ,
        _ => 0,
    };
    ready & (fd.events as u16 as u32 | event::ALWAYS)
}

/// Whether a socket waits for a chunk, of which it is not told.
fn starving(shared: &Shared, fds: &[libc::pollfd]) -> bool {
    fds.iter().any(|fd| match ours(fd.fd) {
        Some(Entry::Socket(number)) => {
            let cell = shared.private.cell(number);
            cell.is_some_and(|cell| cell.has(flag::STARVED))
        }
        _ => false,
    })
}

fn check_any(shared: &Shared, fds: &[libc::pollfd]) -> bool {
    fds.iter().any(|fd| readiness(shared, fd) != 0)
}

/// Adds the events of the NSM's sockets; how many have any.
fn check(shared: &Shared, fds: &mut [libc::pollfd]) -> usize {
    let mut n = 0;
    for fd in fds {
        let ready = readiness(shared, fd);
        fd.revents |= ready as i16;
        n += usize::from(ready != 0);
    }
    n
}

fn register(fds: &[libc::pollfd], bit: u64) {
    for fd in fds {
        match ours(fd.fd) {
            Some(Entry::Socket(number)) => {
                let waiters = &table::local(number).waiters;
                waiters.fetch_or(bit, core::sync::atomic::Ordering::SeqCst);
            }
            Some(Entry::Epoll(number)) => epoll::register(number, bit),
            _ => {}
        }
    }
}

fn merge(fds: &mut [libc::pollfd], kernel: &[libc::pollfd]) {
    for (to, from) in fds.iter_mut().zip(kernel) {
        if from.fd >= 0 {
            to.revents |= from.revents;
        }
    }
}

fn count(fds: &[libc::pollfd]) -> usize {
    fds.iter().filter(|fd| fd.revents != 0).count()
}

/// The sets of select(2).
pub struct Sets {
    pub read: *mut libc::fd_set,
    pub write: *mut libc::fd_set,
    pub except: *mut libc::fd_set,
}

type Word = core::ffi::c_ulong;

/// # Safety
/// `set` is null, or has at least `fd` + 1 bits.
unsafe fn has(set: *mut libc::fd_set, fd: usize) -> bool {
    let bits = Word::BITS as usize;
    // SAFETY: the caller's set; an fd_set is an array of words, longer than the type for high
    // descriptors.
    !set.is_null() && unsafe { *set.cast::<Word>().add(fd / bits) } >> (fd % bits) & 1 != 0
}

/// # Safety
/// As for [`has`].
unsafe fn change(set: *mut libc::fd_set, fd: usize, to: bool) {
    if set.is_null() {
        return;
    }
    let bits = Word::BITS as usize;
    // SAFETY: as for `has`.
    let word = unsafe { &mut *set.cast::<Word>().add(fd / bits) };
    let bit = 1 << (fd % bits);
    *word = if to { *word | bit } else { *word & !bit };
}

impl Sets {
    /// Whether one of the descriptors below `n` needs more than the kernel's select.
    ///
    /// # Safety
    /// Each set is null, or has `n` bits.
    pub unsafe fn concern(&self, n: usize) -> bool {
        // SAFETY: the caller's sets.
        (0..n).any(|fd| ours(fd as c_int).is_some() && unsafe { self.events(fd) } != 0)
    }

    /// # Safety
    /// Each set is null, or has at least `fd` + 1 bits.
    unsafe fn events(&self, fd: usize) -> i16 {
        let mut events = 0;
        for (set, event) in [
            (self.read, libc::POLLIN),
            (self.write, libc::POLLOUT),
            (self.except, libc::POLLPRI),
        ] {
            // SAFETY: the caller's sets.
            if unsafe { has(set, fd) } {
                events |= event;
            }
        }
        events
    }

    /// Waits as select(2) on the descriptors below `n`.
    ///
    /// # Safety
    /// As for [`concern`](Self::concern).
    pub unsafe fn select(
        &self,
        n: usize,
        deadline: Option<u64>,
        mask: Option<*const libc::sigset_t>,
    ) -> Result<usize> {
        let mut fds = Vec::new();
        for fd in 0..n {
            // SAFETY: the caller's sets.
            let events = unsafe { self.events(fd) };
            if events != 0 {
                fds.push(libc::pollfd {
                    fd: fd as c_int,
                    events,
                    revents: 0,
                });
            }
        }
        poll(&mut fds, deadline, mask)?;
        if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
            return Err(sys::Errno(libc::EBADF));
        }
        const READ: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR;
        const WRITE: i16 = libc::POLLOUT | libc::POLLERR;
        let mut bits = 0;
        for fd in &fds {
            for (set, asked, tells) in [
                (self.read, libc::POLLIN, READ),
                (self.write, libc::POLLOUT, WRITE),
                (self.except, libc::POLLPRI, libc::POLLPRI),
            ] {
                let ready = fd.events & asked != 0 && fd.revents & tells != 0;
                // SAFETY: the caller's sets.
                unsafe { change(set, fd.fd as usize, ready) };
                bits += usize::from(ready);
            }
        }
        Ok(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_set_are_set_and_cleared_alone() {
        // SAFETY: zeros are an empty set; its bits are below 1024.
        unsafe {
            let mut set: libc::fd_set = core::mem::zeroed();
            for fd in [0, 63, 64, 1023] {
                change(&mut set, fd, true);
                assert!(has(&mut set, fd) && libc::FD_ISSET(fd as c_int, &set));
            }
            change(&mut set, 64, false);
            assert!(!has(&mut set, 64) && has(&mut set, 63));
            assert!(!has(core::ptr::null_mut(), 5));
        }
    }
}
