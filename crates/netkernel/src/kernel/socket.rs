//! The sockets of a kernel NSM.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use abi::nqe::CHOSEN_BY_NSM;
use rustix::io::Errno;
use rustix::net::AddressFamily;

/// A chunk to be sent.
#[derive(Clone, Copy)]
pub(super) struct Sending {
    pub place: u64,
    pub len: u32,
    /// Bytes that the kernel has.
    pub done: u32,
    pub more: bool,
    /// The queue set that it came from.
    pub set: u8,
}

/// What kind of socket it is.
pub(super) enum Kind {
    Stream {
        /// The queue set that waits for a connection to stand.
        connecting: Option<u8>,
    },
    /// Connections that were offered and not accepted, and the most of them.
    Listening {
        offered: u32,
        backlog: u32,
    },
    Datagram,
    /// Connected to another socket of this NSM.
    Local(Local),
}

/// One side of a connection inside the NSM.
pub(super) struct Local {
    /// The other side; `None`: it is closed.
    pub peer: Option<u32>,
    pub address: SocketAddr,
    pub peer_address: SocketAddr,
}

/// An option that is set when the kernel's socket is made.
pub(super) struct Later {
    pub level: i32,
    pub name: i32,
    pub value: [u8; LATER_MAX],
    pub len: usize,
}

/// Longest value of an option that is set later: that of SO_LINGER.
pub(super) const LATER_MAX: usize = 8;

/// A tenant's socket.
pub(super) struct Socket {
    /// The kernel's. One that may be connected inside the NSM has it made when it needs it.
    file: Option<OwnedFd>,
    pub family: AddressFamily,
    pub later: Vec<Later>,
    pub tenant: u8,
    pub kind: Kind,
    pub sending: VecDeque<Sending>,
    /// Chunks that are lent to it.
    pub lent: usize,
    /// The kernel may have something to read.
    pub readable: bool,
    /// The kernel may take something.
    pub writable: bool,
    /// The kernel has told that the peer sends no more, or that the connection is broken.
    pub hung_up: bool,
    /// It waits in the list of sockets to look at.
    pub marked: bool,
    /// It waits for a chunk of its tenant's.
    pub starved: bool,
    /// The peer's end has been told.
    pub ended: bool,
    /// The connection is broken.
    pub failed: Option<Errno>,
    /// The tenant has shut down writing; it is done when all is sent.
    pub shut: bool,
    /// The tenant has closed it, by this queue set; it ends when all is sent.
    pub closing: Option<u8>,
    /// An offered connection: the listening socket that it came by.
    pub listener: Option<u32>,
}

impl Socket {
    pub fn new(file: Option<OwnedFd>, family: AddressFamily, tenant: u8, kind: Kind) -> Socket {
        Socket {
            file,
            family,
            later: Vec::new(),
            tenant,
            kind,
            sending: VecDeque::new(),
            lent: 0,
            readable: false,
            writable: true,
            hung_up: false,
            marked: false,
            starved: false,
            ended: false,
            failed: None,
            shut: false,
            closing: None,
            listener: None,
        }
    }

    /// The kernel's socket. An error is what a socket says that is not connected.
    #[inline]
    pub fn file(&self) -> Result<&OwnedFd, Errno> {
        self.file.as_ref().ok_or(Errno::NOTCONN)
    }

    /// Whether the kernel's socket is made.
    pub fn is_made(&self) -> bool {
        self.file.is_some()
    }

    /// Gives it the kernel's socket.
    pub fn make(&mut self, file: OwnedFd) {
        self.file = Some(file);
    }
}

/// The table: by numbers of CoreEngine's choosing and of this NSM's.
#[derive(Default)]
pub(super) struct Sockets {
    chosen: Vec<Option<Box<Socket>>>,
    own: Vec<Option<Box<Socket>>>,
    free: Vec<u32>,
}

/// Most sockets of each kind, as CoreEngine has it.
const MOST: usize = 1 << 20;

impl Sockets {
    /// A socket.
    #[inline]
    pub fn get(&mut self, number: u32) -> Option<&mut Socket> {
        let (rows, at) = if number & CHOSEN_BY_NSM == 0 {
            (&mut self.chosen, number)
        } else {
            (&mut self.own, number & !CHOSEN_BY_NSM)
        };
        rows.get_mut(at as usize)?.as_deref_mut()
    }

    /// Puts a socket at the number that CoreEngine has chosen.
    pub fn put(&mut self, number: u32, socket: Socket) {
        let at = number as usize;
        if at < MOST {
            if at >= self.chosen.len() {
                self.chosen.resize_with(at + 1, || None);
            }
            self.chosen[at] = Some(Box::new(socket));
        }
    }

    /// A number of this NSM's; `None`: there are too many sockets.
    pub fn choose(&mut self) -> Option<u32> {
        if let Some(at) = self.free.pop() {
            return Some(at | CHOSEN_BY_NSM);
        }
        if self.own.len() == MOST {
            return None;
        }
        self.own.push(None);
        Some((self.own.len() as u32 - 1) | CHOSEN_BY_NSM)
    }

    /// Puts a socket at a number of this NSM's.
    pub fn put_own(&mut self, number: u32, socket: Socket) {
        self.own[(number & !CHOSEN_BY_NSM) as usize] = Some(Box::new(socket));
    }

    /// Gives a number back that was chosen and not used.
    pub fn give_back(&mut self, number: u32) {
        self.free.push(number & !CHOSEN_BY_NSM);
    }

    /// Takes a socket out.
    pub fn remove(&mut self, number: u32) -> Option<Box<Socket>> {
        if number & CHOSEN_BY_NSM == 0 {
            return self.chosen.get_mut(number as usize)?.take();
        }
        let at = number & !CHOSEN_BY_NSM;
        let removed = self.own.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(removed)
    }

    /// The numbers of the sockets for which something holds.
    pub fn numbers_that(&self, holds: impl Fn(&Socket) -> bool) -> Vec<u32> {
        let numbered = |rows: &[Option<Box<Socket>>], bit: u32| -> Vec<u32> {
            let rows = rows.iter().enumerate();
            rows.filter(|(_, row)| row.as_ref().is_some_and(|socket| holds(socket)))
                .map(|(at, _)| at as u32 | bit)
                .collect()
        };
        let mut all = numbered(&self.chosen, 0);
        all.extend(numbered(&self.own, CHOSEN_BY_NSM));
        all
    }

    /// Takes the sockets of a tenant out.
    pub fn remove_of(&mut self, tenant: u8) -> Vec<Socket> {
        let numbers = self.numbers_that(|socket| socket.tenant == tenant);
        let removed = numbers.into_iter().map(|number| self.remove(number));
        removed.flatten().map(|socket| *socket).collect()
    }
}
