//! What the supervisor does for each call. A call that has to wait is done again from the start when
//! something has changed at its socket.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::Timeout;

use super::caller;
use super::guest::{self, Envelope, Epoll};
use super::listener::{Call, Deadline, Listener};
use super::memory::{Memory, Message};
use super::relay::Relay;
use super::socket::{Sent, Socket, State};

/// Longest payload of a datagram that is read from a program.
const DATAGRAM_MAX: usize = 65_507;
/// Longest value of an option that is read.
const OPTION_MAX: usize = 4096;
/// Times of a struct of 64 bits (asm-generic/socket.h), by which programs of 32 bits set timeouts.
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;

/// How a call ends.
#[derive(Debug)]
pub(super) enum End {
    /// It has this result.
    Done(i64),
    /// The kernel does it: the descriptor is none of ours, or the pair does what is asked.
    Kernel,
    /// It was answered, or the thread has gone on.
    Over,
    /// It waits for a socket, by its inode, at most until the deadline.
    Waits(u64, Deadline),
}

type Result<T> = std::result::Result<T, Errno>;

/// A call on one of the program's sockets.
struct Use<'a> {
    call: &'a Call,
    socket: &'a mut Socket,
    /// The program's end.
    programs: OwnedFd,
    /// It passes a list of messages, of which the first is done.
    many: bool,
}

/// A program and its children, as the supervisor has them.
pub(super) struct Program {
    pub listener: Listener,
    pub epoll: Epoll,
    /// By the inode of the program's end.
    pub sockets: HashMap<u64, Socket>,
    /// What is on its way from one socket to another.
    pub scratch: Vec<u8>,
}

impl Program {
    /// Does a call.
    pub fn call(&mut self, call: &Call) -> Result<End> {
        match call.number {
            libc::SYS_socket => self.make(call),
            _ => self.socket_call(call),
        }
    }

    fn make(&mut self, call: &Call) -> Result<End> {
        let [domain, kind, protocol] = [0, 1, 2].map(|n| call.arguments[n] as i32);
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let base = kind & !flags;
        let (of_kind, state) = match (base, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => (SocketType::STREAM, State::Idle),
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => (
                SocketType::DGRAM,
                State::Datagrams {
                    head: None,
                    kept: None,
                },
            ),
            // Programs that try it first fall back to TCP.
            (libc::SOCK_STREAM, libc::IPPROTO_MPTCP) => return Err(Errno::PROTONOSUPPORT),
            _ => return Ok(End::Kernel),
        };
        let nsm = guest::socket(domain, base, protocol)?;
        let waits = kind & libc::SOCK_NONBLOCK == 0;
        let made = Socket::new(nsm, of_kind, state, waits);
        let (socket, programs) = made.map_err(|(error, _)| error)?;
        // The socket is closed if it cannot be given.
        self.give(call, socket, &programs, kind)
            .map_err(|(error, _)| error)
    }

    /// Gives a socket to the program, as a new descriptor; otherwise the NSM's socket is given back.
    fn give(
        &mut self,
        call: &Call,
        mut socket: Socket,
        programs: &OwnedFd,
        flags: i32,
    ) -> std::result::Result<End, (Errno, OwnedFd)> {
        if let Err(error) = socket.watch(&self.epoll) {
            return Err((error, socket.nsm));
        }
        let on_exec = flags & libc::SOCK_CLOEXEC == 0;
        match self.listener.give(call, programs.as_fd(), on_exec) {
            Ok(fd) => {
                socket.home = (call.thread, fd);
                self.sockets.insert(socket.inode, socket);
                Ok(End::Over)
            }
            Err(Errno::NOENT) => Err((Errno::SRCH, socket.nsm)),
            Err(error) => Err((error, socket.nsm)),
        }
    }

    fn socket_call(&mut self, call: &Call) -> Result<End> {
        let fd = call.arguments[0] as i32;
        let programs = match caller::descriptor(&self.listener, call, fd) {
            Ok(programs) => programs,
            Err(Errno::SRCH) => return Ok(End::Over),
            // The kernel says what is wrong with it.
            Err(_) => return Ok(End::Kernel),
        };
        let inode = super::socket::inode(programs.as_fd())?;
        let Some(socket) = self.sockets.get_mut(&inode) else {
            return Ok(End::Kernel);
        };
        socket.home = (call.thread, fd);
        match call.number {
            libc::SYS_accept => return self.accept(call, inode, 0, &programs),
            libc::SYS_accept4 => {
                let flags = call.arguments[3] as i32;
                return self.accept(call, inode, flags, &programs);
            }
            _ => {}
        }
        let mut used = Use {
            call,
            socket,
            programs,
            many: matches!(call.number, libc::SYS_sendmmsg | libc::SYS_recvmmsg),
        };
        let [_, second, third, fourth, fifth, _] = call.arguments;
        let memory = || caller::memory(&self.listener, call);
        match call.number {
            libc::SYS_bind => {
                let address = memory()?.value(second, third)?;
                guest::bind(&used.socket.nsm, &address)?;
                Ok(End::Done(0))
            }
            libc::SYS_listen => used.listen(second as i32, &self.epoll),
            libc::SYS_connect => {
                let address = memory()?.value(second, third)?;
                used.connect(&address, &self.epoll)
            }
            libc::SYS_getsockname => {
                let address = guest::local_address(&used.socket.nsm)?;
                memory()?.write_address(second, third, &address)?;
                Ok(End::Done(0))
            }
            libc::SYS_getpeername => {
                let address = guest::peer_address(&used.socket.nsm)?;
                memory()?.write_address(second, third, &address)?;
                Ok(End::Done(0))
            }
            libc::SYS_getsockopt => used.option(second as i32, third as i32, fourth, fifth, memory),
            libc::SYS_setsockopt => {
                let (level, name) = (second as i32, third as i32);
                if is_timeout(level, name) {
                    return Ok(End::Kernel);
                }
                let value = memory()?.value(fourth, fifth)?;
                guest::set_option(&used.socket.nsm, level, name, &value)?;
                Ok(End::Done(0))
            }
            libc::SYS_shutdown => used.shutdown(second as i32),
            _ if !matches!(used.socket.state, State::Datagrams { .. }) => used.transfer(),
            libc::SYS_sendto => {
                let message = Memory::buffer(second, third, fifth, call.arguments[5] as u32);
                used.send(&message, fourth as i32, &memory()?, &mut self.scratch)
            }
            libc::SYS_recvfrom => {
                let message = Memory::buffer(second, third, 0, 0);
                used.receive(&message, fourth as i32, &memory()?, &mut self.scratch)
            }
            libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_recvmsg | libc::SYS_recvmmsg => {
                if used.many && third as u32 == 0 {
                    return Ok(End::Done(0));
                }
                let flags = if used.many { fourth } else { third } as i32;
                let memory = memory()?;
                let message = memory.message(second)?;
                match call.number {
                    libc::SYS_sendmsg | libc::SYS_sendmmsg => {
                        used.send(&message, flags, &memory, &mut self.scratch)
                    }
                    _ => used.receive(&message, flags, &memory, &mut self.scratch),
                }
            }
            _ => Ok(End::Kernel),
        }
    }

    fn accept(&mut self, call: &Call, inode: u64, flags: i32, programs: &OwnedFd) -> Result<End> {
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno::INVAL);
        }
        let listening = self.sockets.get_mut(&inode).ok_or(Errno::BADF)?;
        if matches!(listening.state, State::Datagrams { .. }) {
            return Err(Errno::OPNOTSUPP);
        }
        let (nsm, from) = match listening.take_connection(programs.as_fd()) {
            Err(Errno::AGAIN) => return waits(call, inode, programs, 0, Timeout::Recv),
            Err(error) => {
                listening.wake();
                return Err(error);
            }
            Ok(taken) => taken,
        };
        let given = self.give_connection(call, nsm, flags, &from);
        let listening = self.sockets.get_mut(&inode).ok_or(Errno::BADF)?;
        match given {
            Ok(end) => {
                listening.wake();
                Ok(end)
            }
            Err((error, nsm)) => {
                listening.put_back((nsm, from));
                Err(error)
            }
        }
    }

    fn give_connection(
        &mut self,
        call: &Call,
        nsm: OwnedFd,
        flags: i32,
        from: &[u8],
    ) -> std::result::Result<End, (Errno, OwnedFd)> {
        let [_, at, len_at, ..] = call.arguments;
        if at != 0 {
            let memory = caller::memory(&self.listener, call);
            let wrote = memory.and_then(|memory| memory.write_address(at, len_at, from));
            if let Err(error) = wrote {
                return Err((error, nsm));
            }
        }
        let waits = flags & libc::SOCK_NONBLOCK == 0;
        let state = State::Connected(Relay::default());
        let (socket, programs) = Socket::new(nsm, SocketType::STREAM, state, waits)?;
        self.give(call, socket, &programs, flags)
    }
}

impl Use<'_> {
    fn listen(&mut self, backlog: i32, epoll: &Epoll) -> Result<End> {
        guest::listen(&self.socket.nsm, backlog)?;
        if !matches!(self.socket.state, State::Listening { .. }) {
            self.socket.state = State::Listening {
                rung: false,
                taken: Default::default(),
            };
            self.socket.watch_nsm(epoll)?;
        }
        Ok(End::Done(0))
    }

    fn connect(&mut self, address: &[u8], epoll: &Epoll) -> Result<End> {
        let socket = &mut *self.socket;
        let waits_itself = self.call.waits.is_some();
        match socket.state {
            State::Datagrams { .. } => {
                guest::connect(&socket.nsm, address)?;
                Ok(End::Done(0))
            }
            State::Connected(_) if waits_itself || std::mem::take(&mut socket.unasked) => {
                Ok(End::Done(0))
            }
            State::Connected(_) | State::Listening { .. } => Err(Errno::ISCONN),
            State::Failed => Err(socket.error.take().unwrap_or(Errno::CONNABORTED)),
            State::Connecting { .. } => self.wait_connected(Errno::ALREADY),
            State::Idle => {
                if let Some(error) = socket.error.take()
                    && waits_itself
                {
                    return Err(error);
                }
                match guest::connect(&socket.nsm, address) {
                    Ok(()) => socket.state = State::Connected(Relay::default()),
                    Err(Errno::INPROGRESS) => {
                        let waits = !is_nonblocking(&self.programs)?;
                        socket.begin_connecting(self.programs.as_fd(), waits);
                    }
                    Err(error) => return Err(error),
                }
                socket.watch_nsm(epoll)?;
                match socket.state {
                    State::Connecting { .. } => self.wait_connected(Errno::INPROGRESS),
                    _ => Ok(End::Done(0)),
                }
            }
        }
    }

    fn wait_connected(&self, otherwise: Errno) -> Result<End> {
        match self.waits(0, Timeout::Send) {
            Err(Errno::AGAIN) if self.call.waits.is_some() => Err(Errno::INPROGRESS),
            Err(Errno::AGAIN) => Err(otherwise),
            waits => waits,
        }
    }

    fn option(
        &mut self,
        level: i32,
        name: i32,
        at: u64,
        len_at: u64,
        memory: impl FnOnce() -> Result<Memory>,
    ) -> Result<End> {
        if is_timeout(level, name) {
            return Ok(End::Kernel);
        }
        let memory = memory()?;
        let room = memory.length(len_at)?;
        let mut value = vec![0; room.min(OPTION_MAX)];
        let own = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => self.socket.error.take(),
            _ => None,
        };
        let n = match own {
            Some(error) => {
                let error = error.raw_os_error().to_ne_bytes();
                let n = value.len().min(error.len());
                value[..n].copy_from_slice(&error[..n]);
                n
            }
            None => guest::option(&self.socket.nsm, level, name, &mut value)?,
        };
        let n = n.min(value.len());
        memory.write(at, &value[..n])?;
        memory.write(len_at, &(n as u32).to_ne_bytes())?;
        Ok(End::Done(0))
    }

    fn shutdown(&mut self, how: i32) -> Result<End> {
        match self.socket.state {
            // The pair is shut down, which the relay passes on.
            State::Connected(_) => Ok(End::Kernel),
            State::Datagrams { .. } => {
                guest::shutdown(&self.socket.nsm, how)?;
                Ok(End::Kernel)
            }
            State::Listening { .. } => {
                guest::shutdown(&self.socket.nsm, how)?;
                if how != libc::SHUT_WR {
                    self.socket.state = State::Idle;
                }
                Ok(End::Done(0))
            }
            _ => Err(Errno::NOTCONN),
        }
    }

    /// A call by which a stream sends or receives: it is the pair's.
    fn transfer(&self) -> Result<End> {
        let fast_open = self.call.number == libc::SYS_sendto
            && self.call.arguments[3] as i32 & libc::MSG_FASTOPEN != 0;
        if fast_open {
            // Programs connect first, then.
            return Err(Errno::OPNOTSUPP);
        }
        Ok(End::Kernel)
    }

    fn send(
        &mut self,
        message: &Message,
        flags: i32,
        memory: &Memory,
        scratch: &mut [u8],
    ) -> Result<End> {
        if let Some(error) = self.socket.error.take() {
            return Err(error);
        }
        let payload = memory.gather(message, DATAGRAM_MAX)?;
        let envelope = Envelope {
            address: memory.name(message)?,
            control: memory.control(message)?,
        };
        // What was sent before, by calls that the pair has taken, goes first.
        let sent = match self.socket.send_datagrams(u32::MAX, scratch) {
            Sent::All => guest::send_datagram(&self.socket.nsm, &payload, &envelope),
            _ => Err(Errno::AGAIN),
        };
        match sent {
            Err(Errno::AGAIN) => self.waits(flags, Timeout::Send),
            Err(error) => Err(error),
            Ok(n) => self.counted(n, memory),
        }
    }

    fn receive(
        &mut self,
        message: &Message,
        flags: i32,
        memory: &Memory,
        scratch: &mut [u8],
    ) -> Result<End> {
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Err(Errno::AGAIN);
        }
        let peek = flags & libc::MSG_PEEK != 0;
        let taken = self
            .socket
            .take_datagram(self.programs.as_fd(), peek, scratch);
        let (n, envelope) = match taken {
            Err(Errno::AGAIN) => return self.waits(flags, Timeout::Recv),
            taken => taken?,
        };
        let copied = memory.scatter(message, &scratch[..n])?;
        if self.call.number == libc::SYS_recvfrom {
            let [.., at, len_at] = self.call.arguments;
            memory.write_address(at, len_at, &envelope.address)?;
        } else {
            let cut = if copied < n { libc::MSG_TRUNC } else { 0 };
            memory.write_head(message, &envelope.address, &envelope.control, cut)?;
        }
        // The next one, so that the program's end stays readable.
        self.socket.receive_datagram(scratch);
        let whole = flags & libc::MSG_TRUNC != 0;
        self.counted(if whole { n } else { copied }, memory)
    }

    fn waits(&self, flags: i32, timeout: Timeout) -> Result<End> {
        waits(self.call, self.socket.inode, &self.programs, flags, timeout)
    }

    /// The result of a call that has transferred one message.
    fn counted(&self, n: usize, memory: &Memory) -> Result<End> {
        if self.many {
            memory.write_count(self.call.arguments[1], n)?;
            return Ok(End::Done(1));
        }
        Ok(End::Done(n as i64))
    }
}

/// Options whose effect is the kernel's, on the pair: calls that wait there wait so long.
fn is_timeout(level: i32, name: i32) -> bool {
    let names = [
        libc::SO_RCVTIMEO,
        libc::SO_SNDTIMEO,
        SO_RCVTIMEO_NEW,
        SO_SNDTIMEO_NEW,
    ];
    level == libc::SOL_SOCKET && names.contains(&name)
}

fn is_nonblocking(programs: &OwnedFd) -> Result<bool> {
    Ok(rustix::fs::fcntl_getfl(programs)?.contains(OFlags::NONBLOCK))
}

/// A call that finds nothing waits, unless it does not want to or has waited long enough.
fn waits(call: &Call, inode: u64, programs: &OwnedFd, flags: i32, timeout: Timeout) -> Result<End> {
    let until = match call.waits {
        Some(until) => until,
        None if flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(programs)? => {
            return Err(Errno::AGAIN);
        }
        None => {
            let time = rustix::net::sockopt::socket_timeout(programs, timeout)?;
            time.and_then(|time| Instant::now().checked_add(time))
        }
    };
    if until.is_some_and(|until| until <= Instant::now()) {
        return Err(Errno::AGAIN);
    }
    Ok(End::Waits(inode, until))
}
