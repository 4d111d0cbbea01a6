//! The sockets of a kernel NSM.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::AddressFamily;

use super::options::SocketOption;
use crate::sockets::Common;

/// What kind of socket it is.
pub(crate) enum Kind {
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
pub(crate) struct Local {
    /// The other side; `None`: it is closed.
    pub peer: Option<u32>,
    pub address: SocketAddr,
    pub peer_address: SocketAddr,
}

/// A tenant's socket.
pub(crate) struct Socket {
    common: Common,
    /// The kernel's. One that may be connected inside the NSM has it made when it needs it.
    file: Option<OwnedFd>,
    pub family: AddressFamily,
    /// Options for sockets of the kernel's that are made later: this one's own, or copies of it.
    pub options: Vec<SocketOption>,
    pub kind: Kind,
    /// The kernel may have something to read.
    pub readable: bool,
    /// The kernel may take something.
    pub writable: bool,
    /// The kernel has told that the peer sends no more, or that the connection is broken.
    pub hung_up: bool,
}

impl Socket {
    pub fn new(file: Option<OwnedFd>, family: AddressFamily, tenant: u8, kind: Kind) -> Socket {
        Socket {
            common: Common::new(tenant),
            file,
            family,
            options: Vec::new(),
            kind,
            readable: false,
            writable: true,
            hung_up: false,
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

impl Deref for Socket {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl DerefMut for Socket {
    fn deref_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}
