//! The sockets of a user NSM.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};

use abi::nqe::DatagramHead;
use rustix::io::Errno;
use smoltcp::iface::{SocketHandle, SocketSet};

use super::flow::FlowId;
use super::network::Way;
use crate::options::Options;
use crate::sockets::{Common, heard, told};

/// What kind of socket it is.
pub(crate) enum Kind {
    Stream {
        /// Its connection.
        flow: Option<FlowId>,
        /// The queue set that waits for it to stand.
        connecting: Option<u8>,
    },
    Listening {
        /// Connections that were offered and not accepted.
        offered: u32,
        /// Connections that are not established.
        opening: u32,
        /// The most of both.
        backlog: u32,
    },
    Datagram(Datagram),
}

/// A datagram socket.
#[derive(Default)]
pub(crate) struct Datagram {
    pub peer: Option<SocketAddr>,
    /// smoltcp's socket, to send.
    pub out: Option<(SocketSet<'static>, SocketHandle)>,
    /// Where what it holds goes.
    pub way: Option<Way>,
    /// The datagram that was given last goes on in the next chunk.
    pub goes_on: bool,
}

/// A tenant's socket.
pub(crate) struct Socket {
    common: Common,
    /// Whether it is of IPv6: its addresses are told so.
    pub ipv6: bool,
    pub kind: Kind,
    pub options: Options,
    /// Its address, if it has a port of its own. That of a connection is the connection's.
    pub bound: Option<SocketAddr>,
    /// The ends of its last connection.
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// The tenant has shut down reading: what comes is dropped.
    pub deaf: bool,
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

    /// Its connection.
    pub fn flow(&self) -> Option<FlowId> {
        match self.kind {
            Kind::Stream { flow, .. } => flow,
            _ => None,
        }
    }

    /// Refuses what a stream that is not connected is given to send.
    pub fn may_send(&self) -> Result<(), Errno> {
        let unconnected = matches!(
            self.kind,
            Kind::Stream { flow: None, .. } | Kind::Listening { .. }
        );
        match (unconnected, self.remote) {
            (true, Some(_)) => Err(Errno::PIPE),
            (true, None) => Err(Errno::NOTCONN),
            (false, _) => Ok(()),
        }
    }

    /// Whether an unspecified address of it stands for those of both versions.
    pub fn is_dual(&self) -> bool {
        self.ipv6 && !self.options.v6_only
    }

    /// An address as the stack has it, from one that the tenant gives; IPv4 addresses in IPv6 ones are IPv4.
    pub fn heard(&self, address: SocketAddr) -> Result<SocketAddr, Errno> {
        heard(self.ipv6, self.options.v6_only, address)
    }

    /// An address as the tenant is told.
    pub fn told(&self, address: SocketAddr) -> SocketAddr {
        told(self.ipv6, address)
    }

    /// The address that it has now.
    pub fn address(&self) -> SocketAddr {
        let any: IpAddr = if self.ipv6 {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        } else {
            std::net::Ipv4Addr::UNSPECIFIED.into()
        };
        let own = self.local.or(self.bound);
        own.unwrap_or(SocketAddr::new(any, 0))
    }
}

/// Bytes before a datagram's payload in a chunk.
pub(super) const HEAD: usize = DatagramHead::LEN;
