//! epoll. The application's descriptor stays the kernel's, with the ordinary descriptors in it. Interests
//! in an NSM's sockets stand in tables of the process, with a ready list as the kernel has: an event
//! queues the interest; epoll_wait reports it if the socket is ready, and queues a level-triggered one
//! again.

mod tables;

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::cell::{event, flag, state};
use crate::lock::Lock;
use crate::process::{self, Shared};
use crate::sys::{self, Errno, Result, syscall};
use crate::table::{self, Entry};
use crate::wait::{self, NOTHING, Terms, Woke};
use crate::{queues, socket};
use tables::{Epoll, Interest, Tables};

/// Reports without looking at the kernel's part, at most.
const UNSEEN: u32 = 16;
/// Data of the event that takes a thread out of the kernel's epoll_wait when the first socket of an
/// NSM is added.
const KICK: u64 = 0x7765_6972_6b69_636b;

/// How long that event stands, so that every thread there sees it.
const KICK_NS: u64 = 1_000_000;

struct Guarded(UnsafeCell<Option<Tables>>);

// SAFETY: `LOCK` guards it.
unsafe impl Sync for Guarded {}

/// Guards the tables. Held across a fork, so that the child finds them whole.
pub static LOCK: Lock = Lock::new();
static TABLES: Guarded = Guarded(UnsafeCell::new(None));

fn with<T>(work: impl FnOnce(&mut Tables) -> T) -> T {
    let _guard = LOCK.lock();
    // SAFETY: under the lock, and `work` never calls back in here.
    work(unsafe { &mut *TABLES.0.get() }.get_or_insert_default())
}

fn readiness(shared: &Shared, socket: u32) -> u32 {
    let cell = shared.private.cell(socket);
    cell.map_or(0, |cell| shared.private.readiness(cell))
}

/// A socket has news: its interests in them are queued, and their waiters woken.
pub fn event(socket: u32, events: u32) {
    let waiters = with(|tables| {
        let mut waiters = 0;
        let mut next = table::local(socket).interests.load(Ordering::Relaxed);
        while let Some(index) = next.checked_sub(1) {
            let interest = &tables.interests[index as usize];
            next = interest.next;
            let asked = interest.events | event::ALWAYS;
            if interest.events != 0 && events & asked != 0 {
                let epoll = interest.epoll as usize;
                tables.queue(index);
                waiters |= core::mem::take(&mut tables.epolls[epoll].waiters);
            }
        }
        waiters
    });
    if waiters != 0 {
        wait::wake(waiters);
    }
}

/// A socket finds no chunk to send from: its epolls look again by time.
#[cold]
pub fn starved(socket: u32) {
    with(|tables| {
        let mut next = table::local(socket).interests.load(Ordering::Relaxed);
        while let Some(index) = next.checked_sub(1) {
            let interest = &tables.interests[index as usize];
            next = interest.next;
            tables.epolls[interest.epoll as usize].starved = true;
        }
    });
}

/// Queues the interests in sockets that have waited for a chunk and can send again; whether some still wait.
fn feed(shared: &Shared, number: u32) -> bool {
    with(|tables| {
        if !tables.epolls[number as usize].starved {
            return false;
        }
        let mut waits = false;
        for index in 0..tables.interests.len() {
            let interest = &tables.interests[index];
            let cell = shared.private.cell(interest.socket);
            let of = interest.live && interest.epoll == number;
            let Some(cell) = cell.filter(|cell| of && cell.has(flag::STARVED)) else {
                continue;
            };
            if shared.private.readiness(cell) & event::OUT == 0 {
                waits = true;
                continue;
            }
            cell.unset(flag::STARVED);
            if interest.events & event::WRITE != 0 {
                tables.queue(index as u32);
            }
        }
        tables.epolls[number as usize].starved = waits;
        waits
    })
}

/// Has the events of an epoll's sockets come to this process, a child that waits on its parent's epoll.
#[cold]
fn take_over(shared: &Shared, set: usize, number: u32) {
    let sockets: Vec<u32> = with(|tables| {
        tables.epolls[number as usize].foreign = false;
        let of = |interest: &&Interest| interest.live && interest.epoll == number;
        let all = tables.interests.iter().filter(of);
        all.map(|interest| interest.socket).collect()
    });
    for socket in sockets {
        if let Some(cell) = shared.private.cell(socket)
            && cell.owner.load(Ordering::Relaxed) != set as u32 + 1
        {
            // One that cannot be taken over is told of no events, as one that is closed.
            let _ = if cell.is(state::LISTENING) {
                queues::attach_listener(shared, set, socket, cell)
            } else {
                queues::attach(shared, set, socket, cell)
            };
        }
        event(socket, u32::MAX);
    }
}

/// In the child of a fork: the epolls that it has from its parent.
pub fn in_child() {
    with(|tables| {
        for epoll in &mut tables.epolls {
            epoll.foreign = epoll.interests > 0;
        }
    });
}

/// Has a thread be woken by an epoll's events.
pub fn register(number: u32, bit: u64) {
    with(|tables| {
        if let Some(epoll) = tables.epolls.get_mut(number as usize) {
            epoll.waiters |= bit;
        }
    });
}

/// Whether an interest of an epoll is ready.
pub fn any_ready(shared: &Shared, number: u32) -> bool {
    with(|tables| {
        let Some(epoll) = tables.epolls.get(number as usize) else {
            return false;
        };
        epoll.ready.iter().any(|&index| {
            let interest = &tables.interests[index as usize];
            interest.events != 0
                && readiness(shared, interest.socket) & (interest.events | event::ALWAYS) != 0
        })
    })
}

/// epoll_ctl of an NSM's socket.
pub fn control(
    epfd: c_int,
    operation: c_int,
    fd: c_int,
    wanted: Option<libc::epoll_event>,
) -> Result<()> {
    let Some(socket) = socket::of(fd) else {
        return Err(Errno(libc::EBADF));
    };
    let socket = socket?;
    let number = match table::lookup(epfd) {
        Some(Entry::Epoll(number)) => number,
        _ if operation == libc::EPOLL_CTL_ADD => begin(epfd)?,
        _ => return Err(kernel_error(epfd)),
    };
    if operation == libc::EPOLL_CTL_ADD {
        socket.expect_connections()?;
    }
    let waiters = with(|tables| {
        let found = tables.find(number, socket.number, fd);
        let index = match (operation, found, wanted) {
            (libc::EPOLL_CTL_ADD, Some(_), _) => return Err(Errno(libc::EEXIST)),
            (libc::EPOLL_CTL_ADD, None, Some(event)) => tables.add(Interest {
                epoll: number,
                fd,
                socket: socket.number,
                events: asked(event.events),
                data: event.u64,
                queued: false,
                live: true,
                next: 0,
            }),
            (libc::EPOLL_CTL_MOD, Some(index), Some(event)) => {
                let interest = &mut tables.interests[index as usize];
                interest.events = asked(event.events);
                interest.data = event.u64;
                index
            }
            (libc::EPOLL_CTL_DEL, Some(index), _) => {
                tables.remove(index);
                return Ok(0);
            }
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, _, None) => {
                return Err(Errno(libc::EFAULT));
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None, _) => {
                return Err(Errno(libc::ENOENT));
            }
            _ => return Err(Errno(libc::EINVAL)),
        };
        let events = tables.interests[index as usize].events;
        if socket.cell.has(flag::STARVED) {
            tables.epolls[number as usize].starved = true;
        }
        if socket.readiness() & (events | event::ALWAYS) == 0 {
            return Ok(0);
        }
        tables.queue(index);
        Ok(core::mem::take(&mut tables.epolls[number as usize].waiters))
    })?;
    wait::wake(waiters);
    if operation == libc::EPOLL_CTL_DEL
        && table::local(socket.number)
            .interests
            .load(Ordering::Relaxed)
            == 0
    {
        queues::detach_listener(socket.number);
    }
    Ok(())
}

/// The events of an interest, never 0: errors are told though not asked for.
fn asked(events: u32) -> u32 {
    events | event::ALWAYS
}

/// The kernel's error for an epoll descriptor that has no socket of an NSM.
fn kernel_error(epfd: c_int) -> Errno {
    match add_to_kernel(epfd, libc::EPOLL_CTL_DEL, epfd, 0) {
        Err(Errno(libc::EBADF)) => Errno(libc::EBADF),
        _ if is_epoll(epfd) => Errno(libc::ENOENT),
        _ => Errno(libc::EINVAL),
    }
}

fn is_epoll(fd: c_int) -> bool {
    let mut none = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event.
    syscall!(
        libc::SYS_epoll_pwait,
        fd,
        &raw mut none,
        -1,
        0,
        core::ptr::null::<u8>(),
        sys::SIGNAL_SET
    ) != Err(Errno(libc::EBADF))
        && add_to_kernel(fd, libc::EPOLL_CTL_MOD, process::waker(), 0) == Err(Errno(libc::ENOENT))
}

fn add_to_kernel(epfd: c_int, operation: c_int, fd: c_int, data: u64) -> Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: data,
    };
    // SAFETY: our event.
    syscall!(libc::SYS_epoll_ctl, epfd, operation, fd, &raw mut event).map(drop)
}

/// The first socket of an NSM in an epoll. Threads may be in the kernel's epoll_wait on it.
fn begin(epfd: c_int) -> Result<u32> {
    let kick = process::own(sys::eventfd()?);
    sys::write_eventfd(kick);
    let number = with(|tables| {
        let free = tables
            .epolls
            .iter()
            .position(|epoll| epoll.descriptors == 0);
        let number = free.unwrap_or_else(|| {
            tables.epolls.push(Epoll::default());
            tables.epolls.len() - 1
        });
        tables.epolls[number] = Epoll {
            descriptors: 1,
            kick: kick + 1,
            kick_until: sys::now() + KICK_NS,
            ..Epoll::default()
        };
        number as u32
    });
    // The threads that the event takes out of the kernel find the entry.
    table::set(epfd, Some(Entry::Epoll(number)));
    if let Err(error) = add_to_kernel(epfd, libc::EPOLL_CTL_ADD, kick, KICK) {
        table::set(epfd, None);
        close(number);
        return Err(error);
    }
    Ok(number)
}

fn drop_kick(kick: c_int) {
    table::set(kick, None);
    sys::close(kick);
}

/// One more descriptor stands for an epoll.
pub fn duplicate(number: u32) {
    with(|tables| tables.epolls[number as usize].descriptors += 1);
}

/// A descriptor of an epoll is closed.
pub fn close(number: u32) {
    let kick = with(|tables| {
        let Some(epoll) = tables.epolls.get_mut(number as usize) else {
            return 0;
        };
        epoll.descriptors = epoll.descriptors.saturating_sub(1);
        if epoll.descriptors > 0 {
            return 0;
        }
        let kick = core::mem::take(&mut epoll.kick);
        let of = |interest: &Interest| interest.live && interest.epoll == number;
        for index in 0..tables.interests.len() {
            if of(&tables.interests[index]) {
                tables.remove(index as u32);
            }
        }
        kick
    });
    if kick > 0 {
        drop_kick(kick - 1);
    }
}

/// The last descriptor of a socket is closed: its interests are removed. Until then, as in the kernel, those
/// of a descriptor that is closed stay.
pub fn forget(socket: u32) {
    with(|tables| {
        let first = || table::local(socket).interests.load(Ordering::Relaxed);
        while let Some(index) = first().checked_sub(1) {
            tables.remove(index);
        }
    });
}

/// Whether the first event is the one that takes a thread out of the kernel's epoll_wait. It is
/// removed from the events.
pub fn kicked(events: &mut [libc::epoll_event]) -> Option<usize> {
    let at = events.iter().position(|event| event.u64 == KICK)?;
    events.copy_within(at + 1.., at);
    Some(events.len() - 1)
}

fn kernel_events(epfd: c_int, out: &mut [libc::epoll_event]) -> Result<usize> {
    if out.is_empty() {
        return Ok(0);
    }
    // SAFETY: room for as many events.
    let n = syscall!(
        libc::SYS_epoll_pwait,
        epfd,
        out.as_mut_ptr(),
        out.len(),
        0,
        core::ptr::null::<u8>(),
        sys::SIGNAL_SET
    )?;
    Ok(kicked(&mut out[..n]).unwrap_or(n))
}

/// epoll_wait of an epoll that has sockets of an NSM.
pub fn wait(
    epfd: c_int,
    number: u32,
    out: &mut [libc::epoll_event],
    deadline: Option<u64>,
    mask: Option<*const libc::sigset_t>,
) -> Result<usize> {
    if out.is_empty() {
        return Err(Errno(libc::EINVAL));
    }
    let (shared, set) = process::joined()?;
    if with(|tables| tables.epolls[number as usize].foreign) {
        take_over(&shared, set, number);
    }
    loop {
        queues::drain(&shared, set);
        let starves = feed(&shared, number);
        let (look, kick) = with(|tables| {
            let epoll = &mut tables.epolls[number as usize];
            epoll.unseen += 1;
            let kick = match epoll.kick {
                0 => 0,
                _ if sys::now() < epoll.kick_until => 0,
                _ => core::mem::take(&mut epoll.kick),
            };
            (epoll.unseen >= UNSEEN, kick)
        });
        if kick > 0 {
            // Another process may have the eventfd, too.
            let _ = add_to_kernel(epfd, libc::EPOLL_CTL_DEL, kick - 1, 0);
            drop_kick(kick - 1);
        }
        let mut n = if look {
            seen((&shared, set), epfd, number, out)?
        } else {
            0
        };
        n += report(&shared, number, &mut out[n..]);
        if n > 0 {
            return Ok(n);
        }
        if deadline == Some(0) {
            return seen((&shared, set), epfd, number, out);
        }
        let mut fds = [NOTHING; 2];
        fds[0].fd = epfd;
        fds[0].events = libc::POLLIN;
        let terms = Terms {
            deadline,
            mask,
            fds: &mut fds,
            restarts: false,
            glances: starves,
        };
        let register = |bit| register(number, bit);
        match wait::sleep(&shared, set, terms, register, || any_ready(&shared, number))? {
            Woke::Kernel => {
                let n = seen((&shared, set), epfd, number, out)?;
                let n = n + report(&shared, number, &mut out[n..]);
                if n > 0 || deadline.is_some_and(|at| sys::now() >= at) {
                    return Ok(n);
                }
            }
            Woke::Timeout => return Ok(0),
            Woke::Ready => {}
        }
    }
}

/// Looks at the kernel's part, and has CoreEngine see what was submitted quietly: a busy program never
/// sleeps.
fn seen(
    (shared, set): (&Shared, usize),
    epfd: c_int,
    number: u32,
    out: &mut [libc::epoll_event],
) -> Result<usize> {
    queues::flush(shared, set);
    with(|tables| tables.epolls[number as usize].unseen = 0);
    kernel_events(epfd, out)
}

fn report(shared: &Shared, number: u32, out: &mut [libc::epoll_event]) -> usize {
    let most = out.len();
    with(|tables| {
        tables.report(
            number,
            most,
            |socket| readiness(shared, socket),
            |at, event| out[at] = event,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kick_is_not_told() {
        let event = |u64| libc::epoll_event { events: 1, u64 };
        let mut events = [event(1), event(KICK), event(2)];
        assert_eq!(kicked(&mut events), Some(2));
        let data = events[1].u64;
        assert_eq!(data, 2);
        assert_eq!(kicked(&mut events[..2]), None);
    }
}
