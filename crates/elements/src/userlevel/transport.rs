//! What the elements on sockets share: receiving into packets, and sending what comes in by an
//! input that may be push or pull.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::prelude::*;

/// Most bytes that SNAPLEN may be.
const SNAPLEN_MAX: u32 = 1 << 20;
/// Most bytes that HEADROOM may be: header places are 16 bits wide.
pub const HEADROOM_MAX: u32 = 8192;

/// What the system says of a failed call on `place`, and what helps against it.
pub fn call_failed(call: &str, place: &str, errno: Errno) -> String {
    let reason = super::os_error(&errno.into());
    let remedy = match errno {
        Errno::PERM | Errno::ACCESS => "; run as root, or with the capability for it",
        Errno::ADDRINUSE => "; choose another, or end the program that has it",
        Errno::ADDRNOTAVAIL => "; give the host that address, or name one that it has",
        Errno::CONNREFUSED => "; start the server first",
        Errno::NETUNREACH | Errno::HOSTUNREACH => "; add a route to it",
        _ => "",
    };
    let space = if place.is_empty() { "" } else { " " };
    format!("{call}{space}{place}: {reason}{remedy}")
}

/// Waits until a descriptor can be written.
pub fn wait_writable(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    loop {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            done => return done.map(drop),
        }
    }
}

/// How what is received becomes packets.
#[derive(Component)]
pub struct Inlet {
    /// Most bytes of a packet; of a longer one, more are counted in the extra length annotation.
    #[arg(default = 2048)]
    pub snaplen: u32,
    /// Bytes in front of each packet.
    #[arg(default = HEADROOM as u32, default_text = "128")]
    pub headroom: u32,
    /// Whether packets carry the time.
    #[init(true)]
    pub timestamp: bool,
    room: Vec<u8>,
}

impl Inlet {
    /// Looks whether the arguments are within bounds.
    pub fn check(&self, args: &Args<'_>) -> Result<(), Failed> {
        if self.snaplen == 0 || self.snaplen > SNAPLEN_MAX {
            let text = format_args!("SNAPLEN must be from 1 to {SNAPLEN_MAX}");
            return Err(args.fail(text));
        }
        if self.headroom > HEADROOM_MAX {
            let text = format_args!("HEADROOM must be at most {HEADROOM_MAX}");
            return Err(args.fail(text));
        }
        Ok(())
    }

    /// Receives one packet. `receive` is given room, and says how many bytes it put there, how
    /// long the whole was, and what else there is to know. `None`: no buffer is free, and nothing
    /// was received.
    pub fn receive<T>(
        &mut self,
        cx: &mut Cx<'_>,
        receive: impl FnOnce(&mut [u8]) -> Result<(usize, usize, T), Errno>,
    ) -> Result<Option<(Packet, T)>, Errno> {
        if self.room.is_empty() {
            self.room = vec![0; self.snaplen as usize];
        }
        // A buffer first: what was received can't be put back.
        let Some(mut packet) = cx.pool().empty() else {
            return Ok(None);
        };
        let (count, whole, rest) = match receive(&mut self.room) {
            Ok(received) => received,
            Err(errno) => {
                cx.kill(packet);
                return Err(errno);
            }
        };
        let headroom = self.headroom as usize;
        if count > DATA_MAX || headroom > packet.headroom() {
            cx.kill(packet);
            let Some(larger) = cx.pool().packet(headroom, count) else {
                return Ok(None);
            };
            packet = larger;
        } else if !packet.put(count) {
            cx.kill(packet);
            return Ok(None);
        }
        let bytes = self.room.get(..count).unwrap_or_default();
        packet.data_mut().copy_from_slice(bytes);
        if let Some(cut) = whole.checked_sub(count).filter(|cut| *cut > 0) {
            packet.set_anno(EXTRA_LENGTH, cut as u32);
        }
        if self.timestamp {
            packet.set_timestamp(cx.wall());
        }
        Ok(Some((packet, rest)))
    }
}

/// What became of a packet that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was sent, or is lost for good.
    Done,
    /// There is no room: it is to be tried again.
    Later,
}

/// Pulls packets and keeps the one that waits for room.
#[derive(Component)]
#[component(task(when = self.lists_task || list.pulls))]
pub struct Outlet {
    held: Option<Packet>,
    task: Option<TaskId>,
    /// The element has a task's handlers even if it has none.
    lists_task: bool,
    /// Input 0 is pull.
    pulls: bool,
    /// Packets that were sent in this run.
    sent: usize,
    signal: Signal,
}

impl Outlet {
    /// That of an element which has the task's handlers in any case.
    pub fn with_task() -> Outlet {
        Outlet {
            lists_task: true,
            ..Outlet::default()
        }
    }

    /// Prepares to pull from input 0, if it is pull.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) {
        if cx.inputs() == 0 || cx.input_is_push(0) {
            return;
        }
        let task = *self.task.get_or_insert_with(|| cx.task());
        cx.schedule(task);
        self.pulls = true;
        self.signal = cx.upstream_signal(0, Some(task));
    }

    /// Whether a packet waits for room.
    pub fn waits(&self) -> bool {
        self.held.is_some()
    }

    /// Tries again soon.
    pub fn wake(&self, cx: &mut Cx<'_>) {
        if let (Some(task), true) = (self.task, self.pulls) {
            cx.schedule(task);
        }
    }

    /// Drops the packet that waits.
    pub fn clear(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.held.take() {
            cx.kill(packet);
        }
    }

    /// Sends what can be pulled until there is no room; at most a batch's packets at a time.
    pub fn run(
        &mut self,
        cx: &mut Cx<'_>,
        mut send: impl FnMut(&mut Cx<'_>, &mut Packet) -> Sent,
    ) -> Ran {
        let mut is_dry = false;
        match cx.pulled_one() {
            None => self.sent = 0,
            Some(packet) => {
                is_dry = packet.is_none();
                self.held = packet;
            }
        }
        if let Some(mut packet) = self.held.take() {
            self.sent += 1;
            match send(cx, &mut packet) {
                Sent::Done => cx.kill(packet),
                Sent::Later => {
                    self.held = Some(packet);
                    return Ran::Worked;
                }
            }
        }
        if !is_dry && self.sent < cx.limit() {
            return Ran::Pull(Pull { port: 0, most: 1 });
        }
        if !is_dry || cx.is_active(&self.signal) {
            self.wake(cx);
        }
        Ran::worked(self.sent > 0)
    }
}
