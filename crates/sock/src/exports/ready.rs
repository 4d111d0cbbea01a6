//! Waiting for descriptors.

use core::ffi::{c_int, c_void};

use super::{deadline, deadline_of};
use crate::epoll;
use crate::poll::{self, Sets};
use crate::process;
use crate::sys::{self, Errno, Result, real, returned_int};
use crate::table::{self, Entry};

type Mask = *const libc::sigset_t;

fn mask(mask: Mask) -> Option<Mask> {
    (!mask.is_null()).then_some(mask)
}

/// # Safety
/// The set is the application's.
unsafe fn set<'a>(fds: *mut libc::pollfd, n: libc::nfds_t) -> &'a mut [libc::pollfd] {
    if fds.is_null() {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(fds, n as usize) }
}

fn counted(result: Result<usize>) -> c_int {
    returned_int(result.map(|n| n as c_int))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn poll(fds: *mut libc::pollfd, n: libc::nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the application's set.
    let set = unsafe { set(fds, n) };
    if !poll::concerns(set) {
        return real!(poll(fds => *mut libc::pollfd, n => libc::nfds_t, timeout => c_int) -> c_int);
    }
    counted(poll::poll(set, deadline(timeout), None))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __poll_chk(
    fds: *mut libc::pollfd,
    n: libc::nfds_t,
    timeout: c_int,
    room: usize,
) -> c_int {
    if (n as usize).saturating_mul(size_of::<libc::pollfd>()) > room {
        std::process::abort();
    }
    // SAFETY: the application's set.
    unsafe { poll(fds, n, timeout) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ppoll(
    fds: *mut libc::pollfd,
    n: libc::nfds_t,
    timeout: *const libc::timespec,
    signals: Mask,
) -> c_int {
    // SAFETY: the application's set.
    let set = unsafe { set(fds, n) };
    if !poll::concerns(set) {
        return real!(ppoll(fds => *mut libc::pollfd, n => libc::nfds_t,
            timeout => *const libc::timespec, signals => Mask) -> c_int);
    }
    // SAFETY: the application's time.
    let deadline = unsafe { deadline_of(timeout) };
    counted(deadline.and_then(|deadline| poll::poll(set, deadline, mask(signals))))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __ppoll_chk(
    fds: *mut libc::pollfd,
    n: libc::nfds_t,
    timeout: *const libc::timespec,
    signals: Mask,
    room: usize,
) -> c_int {
    if (n as usize).saturating_mul(size_of::<libc::pollfd>()) > room {
        std::process::abort();
    }
    // SAFETY: the application's set.
    unsafe { ppoll(fds, n, timeout, signals) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn select(
    n: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    let sets = Sets {
        read,
        write,
        except,
    };
    // SAFETY: the application's sets.
    if n <= 0 || !process::redirects() || !unsafe { sets.concern(n as usize) } {
        return real!(select(n => c_int, read => *mut libc::fd_set, write => *mut libc::fd_set,
            except => *mut libc::fd_set, timeout => *mut libc::timeval) -> c_int);
    }
    let deadline = if timeout.is_null() {
        None
    } else {
        // SAFETY: the application's time.
        let time = unsafe { *timeout };
        if time.tv_sec < 0 || time.tv_usec < 0 {
            return returned_int(Err(Errno(libc::EINVAL)));
        }
        let micro = (time.tv_sec as u64).saturating_mul(1_000_000) + time.tv_usec as u64;
        let ns = micro.saturating_mul(1000);
        Some(if ns == 0 {
            0
        } else {
            sys::now().saturating_add(ns)
        })
    };
    // SAFETY: the application's sets.
    let result = unsafe { sets.select(n as usize, deadline, None) };
    if let Some(at) = deadline {
        let left = at.saturating_sub(sys::now()) / 1000;
        // SAFETY: the application's time; Linux writes the time that is left.
        unsafe {
            (*timeout).tv_sec = (left / 1_000_000) as _;
            (*timeout).tv_usec = (left % 1_000_000) as _;
        }
    }
    counted(result)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pselect(
    n: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    timeout: *const libc::timespec,
    signals: Mask,
) -> c_int {
    let sets = Sets {
        read,
        write,
        except,
    };
    // SAFETY: the application's sets.
    if n <= 0 || !process::redirects() || !unsafe { sets.concern(n as usize) } {
        return real!(pselect(n => c_int, read => *mut libc::fd_set, write => *mut libc::fd_set,
            except => *mut libc::fd_set, timeout => *const libc::timespec, signals => Mask) -> c_int);
    }
    // SAFETY: the application's time and sets.
    counted(
        unsafe { deadline_of(timeout) }
            .and_then(|deadline| unsafe { sets.select(n as usize, deadline, mask(signals)) }),
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_ctl(
    epfd: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    if table::socket(fd).is_none() {
        return real!(epoll_ctl(epfd => c_int, operation => c_int, fd => c_int,
            event => *mut libc::epoll_event) -> c_int);
    }
    // SAFETY: the application's event.
    let event = (!event.is_null()).then(|| unsafe { event.read_unaligned() });
    returned_int(epoll::control(epfd, operation, fd, event).map(|()| 0))
}

/// Waits on an epoll: by `real` until it has a socket of an NSM.
///
/// # Safety
/// The events are the application's room.
unsafe fn wait(
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    deadline: Result<Option<u64>>,
    signals: Mask,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if !matches!(table::lookup(epfd), Some(Entry::Epoll(_))) {
        let n = real();
        if n <= 0 {
            return n;
        }
        // SAFETY: the kernel has filled as many.
        let told = unsafe { core::slice::from_raw_parts_mut(events, n as usize) };
        match epoll::kicked(told) {
            None => return n,
            Some(0) => {}
            Some(n) => return n as c_int,
        }
    }
    let Some(Entry::Epoll(number)) = table::lookup(epfd) else {
        return returned_int(Err(Errno(libc::EBADF)));
    };
    if most <= 0 || events.is_null() {
        return returned_int(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: the application's room. What is read of it has been written.
    let out = unsafe { core::slice::from_raw_parts_mut(events, most as usize) };
    counted(deadline.and_then(|deadline| epoll::wait(epfd, number, out, deadline, mask(signals))))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_wait(
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    let real = || {
        real!(epoll_wait(epfd => c_int, events => *mut libc::epoll_event, most => c_int,
            timeout => c_int) -> c_int)
    };
    // SAFETY: the application's room.
    unsafe {
        wait(
            epfd,
            events,
            most,
            Ok(deadline(timeout)),
            core::ptr::null(),
            real,
        )
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_pwait(
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: c_int,
    signals: Mask,
) -> c_int {
    let real = || {
        real!(epoll_pwait(epfd => c_int, events => *mut libc::epoll_event, most => c_int,
            timeout => c_int, signals => Mask) -> c_int)
    };
    // SAFETY: the application's room.
    unsafe { wait(epfd, events, most, Ok(deadline(timeout)), signals, real) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_pwait2(
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: *const libc::timespec,
    signals: *const c_void,
) -> c_int {
    let signals: Mask = signals.cast();
    let real = || {
        real!(epoll_pwait2(epfd => c_int, events => *mut libc::epoll_event, most => c_int,
            timeout => *const libc::timespec, signals => Mask) -> c_int)
    };
    // SAFETY: the application's time and room.
    unsafe { wait(epfd, events, most, deadline_of(timeout), signals, real) }
}
