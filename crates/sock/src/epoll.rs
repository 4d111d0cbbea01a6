//! epoll. The application's descriptor stays the kernel's, with the ordinary descriptors in it. Interests
//! in an NSM's sockets stand in tables of the process, with a ready list as the kernel has: an event
//! queues the interest; epoll_wait reports it if the socket is ready, and queues a level-triggered one
//! again.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;

use crate::cell::{event, flag};
use crate::lock::Lock;
use crate::process::{self, Shared};
use crate::sys::{self, Errno, Result, syscall};
use crate::table::{self, Entry};
use crate::wait::{self, NOTHING, Terms, Woke};
use crate::{queues, socket};

/// Reports without looking at the kernel's part, at most.
const UNSEEN: u32 = 16;
/// Data of the event that takes a thread out of the kernel's epoll_wait when the first socket of an
/// NSM is added.
const KICK: u64 = 0x7765_6972_6b69_636b;

/// How long that event stands, so that every thread there sees it.
const KICK_NS: u64 = 1_000_000;

const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

struct Interest {
    epoll: u32,
    fd: c_int,
    socket: u32,
    /// 0 after a one-shot report.
    events: u32,
    data: u64,
    queued: bool,
    live: bool,
    /// The socket's next interest, plus one.
    next: u32,
}

#[derive(Default)]
struct Epoll {
    /// Descriptors that stand for it; 0: free.
    descriptors: u32,
    interests: usize,
    ready: VecDeque<u32>,
    waiters: u64,
    /// Reports since the kernel's part was looked at.
    unseen: u32,
    /// A socket waits for a chunk to send from, of which it is not told.
    starved: bool,
    /// The eventfd behind [`KICK`], plus one.
    kick: c_int,
    /// When it is removed.
    kick_until: u64,
}

#[derive(Default)]
struct Tables {
    interests: Vec<Interest>,
    free: Vec<u32>,
    epolls: Vec<Epoll>,
}

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

impl Tables {
    fn queue(&mut self, index: u32) {
        let interest = &mut self.interests[index as usize];
        if !interest.queued {
            interest.queued = true;
            self.epolls[interest.epoll as usize].ready.push_back(index);
        }
    }

    fn find(&self, epoll: u32, socket: u32, fd: c_int) -> Option<u32> {
        let mut next = table::local(socket).interests.load(Ordering::Relaxed);
        while let Some(index) = next.checked_sub(1) {
            let interest = &self.interests[index as usize];
            if interest.epoll == epoll && interest.fd == fd {
                return Some(index);
            }
            next = interest.next;
        }
        None
    }

    fn add(&mut self, interest: Interest) -> u32 {
        let head = &table::local(interest.socket).interests;
        let epoll = interest.epoll as usize;
        let interest = Interest {
            next: head.load(Ordering::Relaxed),
            ..interest
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.interests[index as usize] = interest;
                index
            }
            None => {
                self.interests.push(interest);
                self.interests.len() as u32 - 1
            }
        };
        head.store(index + 1, Ordering::SeqCst);
        let epoll = &mut self.epolls[epoll];
        epoll.interests += 1;
        // Room for all, so that an event never allocates.
        let room = epoll.interests + 1;
        epoll.ready.reserve(room.saturating_sub(epoll.ready.len()));
        index
    }

    fn remove(&mut self, index: u32) {
        let (socket, after) = {
            let interest = &mut self.interests[index as usize];
            interest.live = false;
            (interest.socket, interest.next)
        };
        let head = &table::local(socket).interests;
        if head.load(Ordering::Relaxed) == index + 1 {
            head.store(after, Ordering::Relaxed);
        } else {
            let mut at = head.load(Ordering::Relaxed);
            while let Some(i) = at.checked_sub(1) {
                let interest = &mut self.interests[i as usize];
                if interest.next == index + 1 {
                    interest.next = after;
                    break;
                }
                at = interest.next;
            }
        }
        let interest = &self.interests[index as usize];
        let epoll = &mut self.epolls[interest.epoll as usize];
        epoll.interests -= 1;
        if interest.queued {
            epoll.ready.retain(|&queued| queued != index);
        }
        self.free.push(index);
    }

    /// Reports ready interests into `out`, at most `most`, and takes those that are not ready off
    /// the list.
    fn report(
        &mut self,
        number: u32,
        most: usize,
        readiness: impl Fn(u32) -> u32,
        mut out: impl FnMut(usize, libc::epoll_event),
    ) -> usize {
        let mut n = 0;
        for _ in 0..self.epolls[number as usize].ready.len() {
            if n == most {
                break;
            }
            let Some(index) = self.epolls[number as usize].ready.pop_front() else {
                break;
            };
            let interest = &mut self.interests[index as usize];
            interest.queued = false;
            let ready = match interest.events {
                0 => 0,
                events => readiness(interest.socket) & (events | event::ALWAYS),
            };
            if ready == 0 {
                continue;
            }
            let told = libc::epoll_event {
                events: ready,
                u64: interest.data,
            };
            out(n, told);
            n += 1;
            if interest.events & ONESHOT != 0 {
                interest.events = 0;
            } else if interest.events & ET == 0 {
                self.queue(index);
            }
        }
        n
    }
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
        && add_to_kernel(fd, libc::EPOLL_CTL_MOD, process::bell(), 0) == Err(Errno(libc::ENOENT))
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

/// A descriptor of a socket is closed: its interests are removed.
pub fn forget(socket: u32, fd: c_int) {
    with(|tables| {
        let mut next = table::local(socket).interests.load(Ordering::Relaxed);
        while let Some(index) = next.checked_sub(1) {
            let interest = &tables.interests[index as usize];
            next = interest.next;
            if interest.fd == fd {
                tables.remove(index);
            }
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
            drop_kick(kick - 1);
        }
        let mut n = if look { seen(epfd, number, out)? } else { 0 };
        n += report(&shared, number, &mut out[n..]);
        if n > 0 {
            return Ok(n);
        }
        if deadline == Some(0) {
            return seen(epfd, number, out);
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
                let n = seen(epfd, number, out)?;
                let n = n + report(&shared, number, &mut out[n..]);
                if n > 0 {
                    return Ok(n);
                }
            }
            Woke::Timeout => return Ok(0),
            Woke::Ready => {}
        }
    }
}

fn seen(epfd: c_int, number: u32, out: &mut [libc::epoll_event]) -> Result<usize> {
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

    fn tables(events: &[u32]) -> Tables {
        let mut tables = Tables::default();
        tables.epolls.push(Epoll::default());
        for (i, &events) in events.iter().enumerate() {
            // Sockets that no other test uses.
            tables.add(Interest {
                epoll: 0,
                fd: i as c_int,
                socket: 60_000 + i as u32,
                events,
                data: i as u64,
                queued: false,
                live: true,
                next: 0,
            });
        }
        tables
    }

    fn told(tables: &mut Tables, most: usize, ready: impl Fn(u32) -> u32) -> Vec<u64> {
        let mut all = Vec::new();
        tables.report(
            0,
            most,
            |socket| ready(socket - 60_000),
            |_, event| all.push(event.u64),
        );
        all
    }

    /// The tests share the heads of the sockets' lists, so they are one test.
    #[test]
    fn the_ready_list_is_the_kernels() {
        let mut t = tables(&[event::IN, event::IN | ET, event::IN | ONESHOT, event::OUT]);
        assert_eq!(told(&mut t, 9, |_| event::IN), []);
        for index in 0..4 {
            t.queue(index);
            t.queue(index);
        }
        // Level-triggered ones are reported while ready, edge-triggered and one-shot ones once.
        assert_eq!(told(&mut t, 9, |_| event::IN), [0, 1, 2]);
        assert_eq!(told(&mut t, 9, |_| event::IN), [0]);
        assert_eq!(told(&mut t, 9, |_| 0), []);
        assert_eq!(told(&mut t, 9, |_| event::IN), []);
        // A new event reports an edge-triggered one again, and a one-shot one only after MOD.
        t.queue(1);
        t.queue(2);
        assert_eq!(told(&mut t, 9, |_| event::IN), [1]);
        // An error is told though not asked for.
        t.queue(3);
        assert_eq!(told(&mut t, 9, |_| event::ERR), [3]);
        assert_eq!(t.find(0, 60_003, 3), Some(3));
        assert_eq!(t.find(0, 60_003, 2), None);
        t.remove(3);
        assert_eq!(t.find(0, 60_003, 3), None);
        assert_eq!(told(&mut t, 9, |_| event::OUT), []);
        for index in 0..3 {
            t.remove(index);
        }

        // Reports of one at a time go round all that are ready.
        let mut t = tables(&[event::IN; 3]);
        for index in 0..3 {
            t.queue(index);
        }
        let rounds: Vec<_> = (0..6)
            .flat_map(|_| told(&mut t, 1, |_| event::IN))
            .collect();
        assert_eq!(rounds, [0, 1, 2, 0, 1, 2]);
    }

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
