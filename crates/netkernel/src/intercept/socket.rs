//! A socket of the program: a pair of Unix sockets, one end of which the program has, and a socket of the
//! NSM.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::caller;
use super::guest::{self, Envelope, Epoll};
use super::listener::Call;
use super::relay::{self, BATCH, Outcome, Relay};

/// Events of both of a socket's descriptors: all that there are, once each.
const EVENTS: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
/// Most padding that makes a program's end unwritable, in batches: more than any buffer.
const PADDING: u32 = 1 << 10;
/// Datagrams that are passed on before other sockets have their turn.
const TURN: u32 = 64;
/// What the kernel still counts of a message while it tells that the last was received.
const RECEIVED: usize = 1;

/// The key of an event of the program's end, and of the NSM's socket.
pub(super) fn keys(inode: u64) -> [u64; 2] {
    [inode << 1, inode << 1 | 1]
}

/// What a socket does.
#[derive(Debug)]
pub(super) enum State {
    /// A stream that is not connected.
    Idle,
    /// A stream that waits for its connection; the bytes in the pair that stand for none of the program's.
    Connecting {
        padding: usize,
    },
    /// A stream whose connection could not be made while the program did not wait for it.
    Failed,
    Listening {
        /// A byte tells the program of a connection.
        rung: bool,
        /// Connections that could not be given to the program.
        taken: VecDeque<(OwnedFd, Vec<u8>)>,
    },
    Connected(Relay),
    Datagrams {
        /// Of the datagram that is in the program's end.
        head: Option<Head>,
        /// One that the program has sent and the NSM has not.
        kept: Option<Vec<u8>>,
    },
}

/// What the supervisor keeps of a datagram that is in the program's end.
#[derive(Debug)]
pub(super) enum Head {
    Received(Envelope),
    /// It is empty, and has the program look for an error.
    Error,
}

/// What is to be done with a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Keep,
    /// It has more to do now.
    Again,
    Close,
}

/// What became of the datagrams in the program's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// They are the NSM's.
    All,
    /// There may be more.
    Some,
    /// The NSM takes no more now.
    Blocked,
}

#[derive(Debug)]
pub(super) struct Socket {
    pub inode: u64,
    pub nsm: OwnedFd,
    /// The supervisor's end of the pair.
    pub end: OwnedFd,
    pub state: State,
    /// Calls of the program that wait.
    pub waiters: Vec<Call>,
    /// An error that the program has not been told.
    pub error: Option<Errno>,
    /// A thread that had the program's end, and its number there.
    pub home: (i32, i32),
    /// The program, which did not wait for the connection, has not asked for it by another connect.
    pub unasked: bool,
    /// The program has no descriptor of its end left.
    pub closed: bool,
    /// Events of the NSM's socket are told.
    watched: bool,
}

impl Socket {
    /// A socket for one of the NSM's, with the program's end; otherwise the NSM's socket is given back.
    pub fn new(
        nsm: OwnedFd,
        kind: SocketType,
        state: State,
        waits: bool,
    ) -> Result<(Socket, OwnedFd), (Errno, OwnedFd)> {
        let (inode, end, programs) = match pair(kind, waits) {
            Ok(pair) => pair,
            Err(error) => return Err((error, nsm)),
        };
        let socket = Socket {
            inode,
            nsm,
            end,
            state,
            waiters: Vec::new(),
            error: None,
            home: (0, -1),
            unasked: false,
            closed: false,
            watched: false,
        };
        Ok((socket, programs))
    }

    /// Has the program's end be watched, and the NSM's socket unless it is idle: that is ready for
    /// nothing, and says so all the time.
    pub fn watch(&mut self, epoll: &Epoll) -> Result<(), Errno> {
        epoll.add(self.end.as_fd(), EVENTS, keys(self.inode)[0])?;
        if matches!(self.state, State::Idle) {
            return Ok(());
        }
        self.watch_nsm(epoll)
    }

    /// Has the NSM's socket be watched, whose state has changed.
    pub fn watch_nsm(&mut self, epoll: &Epoll) -> Result<(), Errno> {
        if self.watched {
            epoll.remove(self.nsm.as_fd())?;
        }
        epoll.add(self.nsm.as_fd(), EVENTS, keys(self.inode)[1])?;
        self.watched = true;
        Ok(())
    }

    /// Does what events tell of.
    pub fn go_on(&mut self, scratch: &mut [u8]) -> Next {
        let closed = self.closed;
        if closed && !matches!(self.state, State::Connected(_) | State::Datagrams { .. }) {
            return Next::Close;
        }
        match &mut self.state {
            State::Idle | State::Failed => Next::Keep,
            State::Connecting { .. } => {
                self.look_connected();
                // Bytes may have come by the event that told of the connection.
                match self.state {
                    State::Connected(_) => self.go_on(scratch),
                    _ => Next::Keep,
                }
            }
            State::Listening { .. } => {
                self.wake();
                Next::Keep
            }
            State::Connected(relay) => {
                match relay.pass(&self.end, &self.nsm, closed, scratch) {
                    Outcome::Goes => Next::Keep,
                    Outcome::More => Next::Again,
                    Outcome::Ended => Next::Close,
                    Outcome::Refused => {
                        let linger = [1u32.to_ne_bytes(), [0; 4]].concat();
                        // A connection that is gone needs no reset.
                        let _ = guest::set_option(
                            &self.nsm,
                            libc::SOL_SOCKET,
                            libc::SO_LINGER,
                            &linger,
                        );
                        Next::Close
                    }
                    Outcome::Reset(_) => {
                        self.leave_unread();
                        Next::Close
                    }
                }
            }
            State::Datagrams { .. } => {
                let sent = self.send_datagrams(TURN, scratch);
                if closed && sent == Sent::All {
                    return Next::Close;
                }
                self.receive_datagram(scratch);
                if sent == Sent::Some {
                    Next::Again
                } else {
                    Next::Keep
                }
            }
        }
    }

    /// Has the program read ECONNRESET: what the kernel tells of a Unix stream whose other end is closed
    /// with bytes unread. The byte comes from the program's own end, if it is found.
    fn leave_unread(&self) {
        let (thread, fd) = self.home;
        if let Ok(programs) = caller::descriptor_of(thread, fd)
            && inode(programs.as_fd()) == Ok(self.inode)
        {
            // Without the byte, it reads the end of the stream.
            let _ = rustix::net::send(&programs, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Begins to wait for the connection. A program that does not wait itself finds its end not writable
    /// until then.
    pub fn begin_connecting(&mut self, programs: BorrowedFd<'_>, waits: bool) {
        let mut padding = 0;
        if !waits {
            let zeros = [0; BATCH];
            for _ in 0..PADDING {
                match rustix::net::send(programs, &zeros, SendFlags::DONTWAIT) {
                    Ok(n) => padding += n,
                    Err(_) => break,
                }
            }
        }
        self.state = State::Connecting { padding };
    }

    fn look_connected(&mut self) {
        let State::Connecting { padding } = self.state else {
            return;
        };
        let made = guest::error(&self.nsm);
        if made.is_ok() && guest::peer_address(&self.nsm).is_err() {
            return;
        }
        let waited = padding == 0;
        self.drop_padding(padding);
        match made {
            Ok(()) => {
                self.unasked = !waited;
                self.state = State::Connected(Relay::default());
            }
            Err(error) => {
                self.error = Some(error);
                self.state = if waited {
                    State::Idle
                } else {
                    // Readable, too, as of a connection that could not be made.
                    let _ = rustix::net::shutdown(&self.end, rustix::net::Shutdown::Write);
                    State::Failed
                };
            }
        }
    }

    fn drop_padding(&self, mut left: usize) {
        let mut room = vec![0; BATCH.min(left)];
        while left > 0 {
            let most = room.len().min(left);
            match rustix::net::recv(&self.end, &mut room[..most], RecvFlags::DONTWAIT) {
                Ok((_, n)) if n > 0 => left -= n,
                _ => return,
            }
        }
    }

    /// Has the program's end be readable if there is a connection.
    pub fn wake(&mut self) {
        if let State::Listening { rung, taken } = &mut self.state
            && !*rung
            && (!taken.is_empty() || guest::readable(&self.nsm))
        {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            *rung = rustix::net::send(&self.end, &[0], flags).is_ok();
        }
    }

    /// Takes the next connection. EAGAIN: there is none.
    pub fn take_connection(
        &mut self,
        programs: BorrowedFd<'_>,
    ) -> Result<(OwnedFd, Vec<u8>), Errno> {
        let State::Listening { rung, taken } = &mut self.state else {
            return Err(Errno::INVAL);
        };
        // Another byte tells of the next one, so that a program which waits for edges sees one each.
        let _ = rustix::net::recv(programs, &mut [0], RecvFlags::DONTWAIT);
        *rung = false;
        match taken.pop_front() {
            Some(connection) => Ok(connection),
            None => guest::accept(&self.nsm),
        }
    }

    /// Puts back a connection that could not be given to the program.
    pub fn put_back(&mut self, connection: (OwnedFd, Vec<u8>)) {
        if let State::Listening { taken, .. } = &mut self.state {
            taken.push_front(connection);
        }
        self.wake();
    }

    /// Passes on datagrams that the program has sent by calls without an address, at most so many.
    pub fn send_datagrams(&mut self, most: u32, scratch: &mut [u8]) -> Sent {
        let State::Datagrams { kept, .. } = &mut self.state else {
            return Sent::All;
        };
        for _ in 0..most {
            let message = match kept.take() {
                Some(message) => message,
                None => match rustix::net::recv(&self.end, &mut *scratch, RecvFlags::DONTWAIT) {
                    Ok((_, 0)) if relay::has(&self.end, PollFlags::RDHUP | PollFlags::HUP) => {
                        return Sent::All;
                    }
                    Ok((_, n)) => scratch[..n].to_vec(),
                    Err(_) => return Sent::All,
                },
            };
            match guest::send_datagram(&self.nsm, &message, &Envelope::default()) {
                Ok(_) => {}
                Err(Errno::AGAIN) => {
                    *kept = Some(message);
                    return Sent::Blocked;
                }
                Err(error) => self.error = Some(error),
            }
        }
        Sent::Some
    }

    /// Puts the next datagram into the program's end, if none is there.
    pub fn receive_datagram(&mut self, scratch: &mut [u8]) {
        let State::Datagrams { head, .. } = &mut self.state else {
            return;
        };
        if head.is_some() {
            if guest::outstanding(&self.end).is_ok_and(|bytes| bytes > RECEIVED) {
                return;
            }
            *head = None;
        }
        let (n, its) = match guest::receive_datagram(&self.nsm, scratch) {
            Ok((n, envelope)) => (n, Head::Received(envelope)),
            Err(Errno::AGAIN) => return,
            Err(error) => {
                self.error = Some(error);
                (0, Head::Error)
            }
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if rustix::net::send(&self.end, &scratch[..n], flags).is_ok() {
            *head = Some(its);
        }
    }

    /// Takes the datagram in the program's end. EAGAIN: there is none; an end that is shut down has an
    /// empty one.
    pub fn take_datagram(
        &mut self,
        programs: BorrowedFd<'_>,
        peek: bool,
        scratch: &mut [u8],
    ) -> Result<(usize, Envelope), Errno> {
        self.receive_datagram(scratch);
        if let State::Datagrams {
            head: head @ Some(Head::Error),
            ..
        } = &mut self.state
        {
            *head = None;
            let _ = rustix::net::recv(programs, &mut *scratch, RecvFlags::DONTWAIT);
            self.receive_datagram(scratch);
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut flags = RecvFlags::DONTWAIT;
        if peek {
            flags |= RecvFlags::PEEK;
        }
        let (_, n) = rustix::net::recv(programs, &mut *scratch, flags)?;
        let State::Datagrams { head, .. } = &mut self.state else {
            return Err(Errno::INVAL);
        };
        let envelope = match head {
            Some(Head::Received(envelope)) if peek => envelope.clone(),
            head => match head.take() {
                Some(Head::Received(envelope)) => envelope,
                _ => Envelope::default(),
            },
        };
        Ok((n, envelope))
    }
}

/// A pair for a socket of a kind: the inode of the program's end, the supervisor's end, the program's.
fn pair(kind: SocketType, waits: bool) -> Result<(u64, OwnedFd, OwnedFd), Errno> {
    // Of Unix sockets with packets, these tell when all descriptors of the other end are closed.
    let kind = if kind == SocketType::STREAM {
        SocketType::STREAM
    } else {
        SocketType::SEQPACKET
    };
    let (end, programs) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    if !waits {
        rustix::io::ioctl_fionbio(&programs, true)?;
    }
    Ok((inode(programs.as_fd())?, end, programs))
}

/// Names a socket, whatever descriptors of it there are, in which processes.
pub(super) fn inode(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}
