//! The sockets of an shm NSM: streams alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::{Deref, DerefMut};

use crate::options::Options;
use crate::sockets::Common;

/// What kind of socket it is.
pub(crate) enum Kind {
    /// Not connected.
    Open,
    Listening {
        /// Connections that were offered and not accepted, and the most of them.
        offered: u32,
        backlog: u32,
    },
    /// Connected to another socket of the NSM.
    Pair {
        /// The other; `None`: it is closed.
        peer: Option<u32>,
    },
}

/// A tenant's socket.
pub(crate) struct Socket {
    common: Common,
    /// Whether it is of IPv6: its addresses are told so.
    pub ipv6: bool,
    pub kind: Kind,
    pub options: Options,
    /// Its address, if it has a port of its own.
    pub bound: Option<SocketAddr>,
    /// The ends of its connection.
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// The tenant has shut down reading.
    pub deaf: bool,
}

impl Socket {
    pub fn new(tenant: u8, ipv6: bool, kind: Kind) -> Socket {
        Socket {
            common: Common::new(tenant),
            ipv6,
            kind,
            options: Options::default(),
            bound: None,
            local: None,
            remote: None,
            deaf: false,
        }
    }

    /// The address that it has now.
    pub fn address(&self) -> SocketAddr {
        let any: IpAddr = match self.ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let own = self.local.or(self.bound);
        own.unwrap_or(SocketAddr::new(any, 0))
    }

    /// An address as its tenant is told.
    pub fn told(&self, address: SocketAddr) -> SocketAddr {
        crate::sockets::told(self.ipv6, address)
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
