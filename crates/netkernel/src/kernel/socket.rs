//! The sockets of a kernel NSM.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::AddressFamily;

use crate::sockets::{Owned, Sending};

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
pub(super) struct DeferredOption {
    pub level: i32,
    pub name: i32,
    pub value: [u8; DEFERRED_MAX],
    pub len: usize,
}

/// Longest value of an option that is set later: that of SO_LINGER.
pub(super) const DEFERRED_MAX: usize = 8;

/// A tenant's socket.
pub(super) struct Socket {
    /// The kernel's. One that may be connected inside the NSM has it made when it needs it.
    file: Option<OwnedFd>,
    pub family: AddressFamily,
    pub later: Vec<DeferredOption>,
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

impl Owned for Socket {
    fn tenant(&self) -> u8 {
        self.tenant
    }
}
