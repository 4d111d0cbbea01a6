//! The sockets of a user NSM.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use abi::nqe::DatagramHead;
use rustix::io::Errno;
use smoltcp::iface::{SocketHandle, SocketSet};

use super::flow::FlowId;
use super::network::Way;
use super::options::Options;
use crate::sockets::{Owned, Sending};

/// What kind of socket it is.
pub(super) enum Kind {
    Stream {
        /// Its connection.
        flow: Option<FlowId>,
        /// The queue set that waits for it to stand.
        connecting: Option<u8>,
    },
    Listening {
        /// Connections that were offered and not accepted.
        offered: u32,
        /// Those that are not established.
        opening: u32,
        /// The most of both.
        backlog: u32,
    },
    Datagram(Datagram),
}

/// A datagram socket.
#[derive(Default)]
pub(super) struct Datagram {
    pub peer: Option<SocketAddr>,
    /// smoltcp's socket, to send.
    pub out: Option<(SocketSet<'static>, SocketHandle)>,
    /// Where what it holds goes.
    pub way: Option<Way>,
}

/// A tenant's socket.
pub(super) struct Socket {
    pub tenant: u8,
    /// Whether it is of IPv6: its addresses are told so.
    pub ipv6: bool,
    pub kind: Kind,
    pub options: Options,
    /// Its address, if it has a port of its own. That of a connection is the connection's.
    pub bound: Option<SocketAddr>,
    /// The ends of its last connection.
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    pub sending: VecDeque<Sending>,
    /// Chunks that are lent to it.
    pub lent: usize,
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
    /// The tenant has shut down reading: what comes is dropped.
    pub deaf: bool,
    /// The tenant has closed it, by this queue set; it ends when all is sent.
    pub closing: Option<u8>,
    /// An offered connection: the listening socket that it came by.
    pub listener: Option<u32>,
}

impl Owned for Socket {
    fn tenant(&self) -> u8 {
        self.tenant
    }
}

impl Socket {
    pub fn new(tenant: u8, ipv6: bool, kind: Kind) -> Socket {
        Socket {
            tenant,
            ipv6,
            kind,
            options: Options::default(),
            bound: None,
            local: None,
            remote: None,
            sending: VecDeque::new(),
            lent: 0,
            marked: false,
            starved: false,
            ended: false,
            failed: None,
            shut: false,
            deaf: false,
            closing: None,
            listener: None,
        }
    }

    /// Its connection.
    pub fn flow(&self) -> Option<FlowId> {
        match self.kind {
            Kind::Stream { flow, .. } => flow,
            _ => None,
        }
    }

    /// Whether an unspecified address of it stands for those of both versions.
    pub fn is_dual(&self) -> bool {
        self.ipv6 && !self.options.v6_only
    }

    /// An address as the stack has it, from one that the tenant gives; IPv4 addresses in IPv6 ones are IPv4.
    pub fn heard(&self, address: SocketAddr) -> Result<SocketAddr, Errno> {
        let ip = match address.ip() {
            IpAddr::V4(_) if self.ipv6 => return Err(Errno::AFNOSUPPORT),
            IpAddr::V6(_) if !self.ipv6 => return Err(Errno::AFNOSUPPORT),
            ip => ip.to_canonical(),
        };
        if ip.is_ipv4() && self.ipv6 && self.options.v6_only {
            return Err(Errno::NETUNREACH);
        }
        Ok(SocketAddr::new(ip, address.port()))
    }

    /// An address as the tenant is told.
    pub fn told(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.ipv6 => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())
            }
            _ => address,
        }
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
