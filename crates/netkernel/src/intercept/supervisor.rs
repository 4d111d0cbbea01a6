//! The supervisor's loop.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::caller;
use super::calls::{End, Program};
use super::guest::{Epoll, Event};
use super::listener::{Call, Listener};
use super::relay::{self, BATCH};
use super::socket::{Next, keys};

/// The key of the listener's events: no inode has it.
const LISTENER: u64 = u64::MAX;
/// The key of what GuestLib has to say.
const SAID: u64 = u64::MAX - 1;
/// The number of the standard error.
const STDERR: i32 = 2;
/// Times that events are looked at before a call that depends on them is done: a bound for a busy program.
const PASSES: u32 = 64;
/// Calls that are done before sockets have their turn.
const CALLS: u32 = 16;

/// Serves the calls of a program and its children, and relays between their sockets and the NSM's.
pub(super) struct Supervisor {
    program: Program,
    /// Sockets that have more to do.
    again: Vec<u64>,
    /// When calls have waited long enough, with their sockets. Some have ended before.
    timed: BTreeSet<(Instant, u64)>,
    /// Calls whose threads a signal has called away before they had the answer: they make the call
    /// again, and it has been done.
    unheard: HashMap<i32, Unheard>,
    /// What GuestLib prints in this process.
    said: OwnedFd,
}

struct Unheard {
    number: i64,
    arguments: [u64; 6],
    result: Result<i64, Errno>,
}

/// Most calls that are remembered for threads that were called away: some of them end.
const UNHEARD_MAX: usize = 1024;

impl Supervisor {
    pub fn new(listener: Listener) -> Result<Supervisor, Errno> {
        let epoll = Epoll::new()?;
        epoll.add(listener.as_fd(), libc::EPOLLIN, LISTENER)?;
        // The program's own standard error would be kept open by this process.
        let (said, says) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        rustix::stdio::dup2_stderr(says)?;
        epoll.add(said.as_fd(), libc::EPOLLIN, SAID)?;
        let program = Program {
            listener,
            epoll,
            sockets: HashMap::new(),
            scratch: vec![0; BATCH],
        };
        Ok(Supervisor {
            program,
            again: Vec::new(),
            timed: BTreeSet::new(),
            unheard: HashMap::new(),
            said,
        })
    }

    /// Serves until no process and no socket is left.
    pub fn run(mut self) -> Result<(), Errno> {
        let mut events = Vec::new();
        let mut deserted = false;
        while !deserted || !self.program.sockets.is_empty() {
            self.program.epoll.wait(self.patience(), &mut events)?;
            for &event in &events {
                if event.key == SAID {
                    self.pass_on();
                } else if event.key != LISTENER {
                    self.go_on(event);
                } else if self.hear()? && !deserted {
                    deserted = true;
                    self.program.epoll.remove(self.program.listener.as_fd())?;
                }
            }
            for inode in std::mem::take(&mut self.again) {
                self.move_on(inode);
            }
            self.end_waits();
        }
        Ok(())
    }

    /// Does calls that were made; whether no process is left that could make one.
    fn hear(&mut self) -> Result<bool, Errno> {
        for _ in 0..CALLS {
            let (called, deserted) = self.program.listener.look()?;
            if !called {
                return Ok(deserted);
            }
            if let Some(call) = self.program.listener.receive()? {
                self.serve(call);
            }
        }
        Ok(false)
    }

    fn serve(&mut self, mut call: Call) {
        if call.waits.is_none()
            && let Some(before) = self.unheard.remove(&call.thread)
            && (before.number, before.arguments) == (call.number, call.arguments)
        {
            return self.answer(&call, before.result);
        }
        if call.waits.is_none() && [libc::SYS_bind, libc::SYS_connect].contains(&call.number) {
            // An address that was closed before is free, and nobody listens there.
            self.settle();
        }
        match self.program.call(&call) {
            Ok(End::Done(n)) => self.answer(&call, Ok(n)),
            Ok(End::Kernel) => drop(self.program.listener.pass(&call)),
            Ok(End::Over) | Err(Errno::SRCH) => {}
            Ok(End::Waits(inode, until)) => {
                call.waits = Some(until);
                if let Some(socket) = self.program.sockets.get_mut(&inode) {
                    // A thread makes one call at a time.
                    socket.waiters.retain(|other| other.thread != call.thread);
                    socket.waiters.push(call);
                    self.timed.extend(until.map(|until| (until, inode)));
                }
            }
            Err(error) => self.answer(&call, Err(error)),
        }
    }

    fn answer(&mut self, call: &Call, result: Result<i64, Errno>) {
        if !self.program.listener.answer(call, result) {
            if self.unheard.len() >= UNHEARD_MAX {
                self.unheard.clear();
            }
            let (number, arguments) = (call.number, call.arguments);
            let unheard = Unheard {
                number,
                arguments,
                result,
            };
            self.unheard.insert(call.thread, unheard);
        }
    }

    /// Does what a socket's events tell of, and its calls that wait.
    fn go_on(&mut self, Event { key, events }: Event) {
        let inode = key >> 1;
        if let Some(socket) = self.program.sockets.get_mut(&inode) {
            let hangs_up = events & libc::EPOLLHUP as u32 != 0;
            socket.closed |= hangs_up && key == keys(inode)[0];
            self.move_on(inode);
        }
    }

    fn move_on(&mut self, inode: u64) {
        let Some(socket) = self.program.sockets.get_mut(&inode) else {
            return;
        };
        match socket.go_on(&mut self.program.scratch) {
            Next::Keep => {}
            Next::Again => self.again.push(inode),
            Next::Close => {
                self.close(inode);
                return;
            }
        }
        self.retry(inode, |_| true);
    }

    /// Closes a socket; threads that wait for it find its descriptor to be the kernel's.
    fn close(&mut self, inode: u64) {
        if let Some(socket) = self.program.sockets.remove(&inode) {
            for waiter in socket.waiters {
                // A call that a signal has ended did nothing, so its answer is not remembered: the
                // thread's next call may have the same arguments.
                self.program.listener.answer(&waiter, Err(Errno::BADF));
            }
        }
    }

    fn retry(&mut self, inode: u64, which: impl Fn(&Call) -> bool) {
        let Some(socket) = self.program.sockets.get_mut(&inode) else {
            return;
        };
        if socket.waiters.is_empty() {
            return;
        }
        for waiter in std::mem::take(&mut socket.waiters) {
            if which(&waiter) {
                self.serve(waiter);
            } else if let Some(socket) = self.program.sockets.get_mut(&inode) {
                socket.waiters.push(waiter);
            }
        }
    }

    /// Has what GuestLib prints be on the program's standard error, if that has room.
    fn pass_on(&self) {
        let mut line = [0; 1024];
        let Ok(n) = rustix::io::read(&self.said, &mut line) else {
            return;
        };
        let mut homes = self.program.sockets.values().map(|socket| socket.home.0);
        let error = homes.find_map(|thread| caller::descriptor_of(thread, STDERR).ok());
        if let Some(error) = error.filter(|error| relay::has(error, PollFlags::OUT)) {
            let _ = rustix::io::write(error, &line[..n]);
        }
    }

    /// Does what has happened at sockets until now: a program that has closed one, and makes a call, finds
    /// it closed.
    fn settle(&mut self) {
        let mut events = Vec::new();
        for _ in 0..PASSES {
            if self.program.epoll.wait(0, &mut events).is_err() || events.iter().all(of_no_socket) {
                return;
            }
            for &event in events.iter().filter(|event| !of_no_socket(event)) {
                self.go_on(event);
            }
        }
    }

    /// Milliseconds until something is to be done without an event; -1: never.
    fn patience(&self) -> i32 {
        if !self.again.is_empty() {
            return 0;
        }
        let Some((next, _)) = self.timed.first() else {
            return -1;
        };
        let left = next.saturating_duration_since(Instant::now());
        // Not before it.
        i32::try_from(left.as_millis()).map_or(i32::MAX, |ms| ms.saturating_add(1))
    }

    fn end_waits(&mut self) {
        let now = Instant::now();
        while self.timed.first().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, inode)) = self.timed.pop_first() {
                self.retry(inode, |call| {
                    call.waits.flatten().is_some_and(|until| until <= now)
                });
            }
        }
    }
}

/// Whether an event is of a descriptor of the supervisor's own.
fn of_no_socket(event: &Event) -> bool {
    [LISTENER, SAID].contains(&event.key)
}
