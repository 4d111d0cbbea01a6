//! A tenant's process that submits queue elements itself, without sockets: what a program with sockets
//! has GuestLib for.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use abi::SharedBytes;
use abi::nqe::Nqe;
use abi::tenant::{QUEUE_FILE_BYTES, Role, Share};
use rustix::io::Errno;

use crate::protocol::{self, Token};
use crate::sys::{self, Payload, Queues, UserSides};

/// A process of a tenant.
pub struct Process {
    control: OwnedFd,
    waker: OwnedFd,
    core: OwnedFd,
    sides: UserSides,
    payload: Payload,
    /// Elements in the ring that are not published.
    put: u32,
}

impl Process {
    /// Joins CoreEngine at its socket.
    pub fn join(door: &Path, token: Token) -> io::Result<Process> {
        let mut welcomed = protocol::join(door, Role::Process, token)?;
        let (Some(core), Some(payload), Some(queues)) = (
            welcomed.files.pop(),
            welcomed.files.pop(),
            welcomed.files.pop(),
        ) else {
            return Err(Errno::BADMSG.into());
        };
        let queues = Queues::map(&queues, QUEUE_FILE_BYTES)?;
        let set = welcomed.welcome.set;
        if !queues.file().valid() || set as usize >= queues.file().sets() {
            return Err(io::Error::other("the queue file is of another version"));
        }
        Ok(Process {
            control: welcomed.control,
            waker: welcomed.waker,
            core,
            sides: UserSides::open(queues, set as usize),
            payload: Payload::map(payload)?,
            put: 0,
        })
    }

    /// Puts an element behind the others; `false`: there is no room.
    #[inline]
    pub fn submit(&mut self, nqe: Nqe) -> bool {
        let room = self.sides.submissions.free(self.put + 1).unwrap_or(0) > self.put;
        if room {
            self.sides.submissions.fill(self.put, nqe);
            self.put += 1;
        }
        room
    }

    /// Publishes what was put.
    #[inline]
    pub fn flush(&mut self) {
        if self.put > 0 {
            self.sides.submissions.publish(self.put);
            self.put = 0;
            if self.sides.submissions.take_consumer_sleeper().is_some() {
                sys::wake(&self.core);
            }
        }
    }

    /// The next element that was delivered; `None`: there is none now.
    #[inline]
    pub fn delivered(&mut self) -> Option<Nqe> {
        if self.sides.deliveries.filled(1).unwrap_or(0) == 0 {
            return None;
        }
        let nqe = self.sides.deliveries.peek(0);
        self.sides.deliveries.release(1);
        Some(nqe)
    }

    /// Takes up to a batch of what was delivered; returns how many elements.
    #[inline]
    pub fn take(&mut self, most: u32, mut each: impl FnMut(Nqe)) -> u32 {
        let n = self.sides.deliveries.filled(most).unwrap_or(0).min(most);
        for i in 0..n {
            each(self.sides.deliveries.peek(i));
        }
        if n > 0 {
            self.sides.deliveries.release(n);
        }
        n
    }

    /// Waits until something is delivered; `false`: nothing came in time.
    pub fn wait(&mut self, time: std::time::Duration) -> io::Result<bool> {
        self.flush();
        self.sides.deliveries.set_sleeps(true);
        if self.sides.deliveries.filled(1).unwrap_or(0) == 0 {
            let waker = rustix::event::PollFlags::IN;
            let mut polled = [rustix::event::PollFd::new(&self.waker, waker)];
            let time = rustix::time::Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: i64::from(time.subsec_nanos()),
            };
            rustix::event::poll(&mut polled, Some(&time))?;
        }
        self.sides.deliveries.set_sleeps(false);
        sys::clear(&self.waker);
        Ok(self.sides.deliveries.filled(1).unwrap_or(0) > 0)
    }

    /// The bytes of a payload; `None`: they are not inside one chunk.
    pub fn payload(&self, offset: u64, len: u32) -> Option<SharedBytes> {
        self.payload.bytes(offset, len)
    }

    /// Has a socket outlive this process: until the other end of `end` is closed.
    pub fn share(&self, socket: u32, end: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::send_message(
            &self.control,
            &Share { socket }.to_bytes(),
            &[end],
        )?)
    }
}
