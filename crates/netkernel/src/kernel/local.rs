//! Connections between two sockets of one kernel NSM, as [pairs](crate::pairs).
//!
//! A connect to an address that a listening socket of this NSM has becomes one, where the NSM may do
//! so. The kernel has a socket only for what was bound, listens, or has an option asked for.

use std::collections::HashMap;
use std::net::SocketAddr;

use abi::nqe::{Nqe, operation};
use abi::tenant::ACCEPT_QUEUE;
use rustix::io::Errno;
use rustix::net::AddressFamily;

use super::KernelNsm;
use super::requests::local_address;
use super::socket::{Kind, Local, Socket};
use crate::pairs::Pairs;
use crate::serving::Serving;

/// The listening sockets, by port.
#[derive(Default)]
pub(super) struct Listeners {
    by_port: HashMap<u16, Vec<(SocketAddr, u32)>>,
    turn: usize,
    clients: u16,
}

/// The ports of clients that have none: Linux's range (net.ipv4.ip_local_port_range).
const PORTS: std::ops::Range<u16> = 32_768..61_000;

impl Listeners {
    /// Notes a socket that listens.
    pub fn add(&mut self, address: SocketAddr, number: u32) {
        let there = self.by_port.entry(address.port()).or_default();
        if !there.contains(&(address, number)) {
            there.push((address, number));
        }
    }

    /// Forgets a socket.
    pub fn remove(&mut self, number: u32) {
        self.by_port.retain(|_, there| {
            there.retain(|&(_, listening)| listening != number);
            !there.is_empty()
        });
    }

    /// A port for a client, the next in turn.
    fn port(&mut self) -> u16 {
        self.clients = (self.clients + 1) % PORTS.len() as u16;
        PORTS.start + self.clients
    }

    /// The socket that listens at an address; of several, in turn.
    fn find(&mut self, to: SocketAddr) -> Option<u32> {
        let there = self.by_port.get(&to.port())?;
        let exact = there.iter().filter(|(address, _)| address.ip() == to.ip());
        let any = there.iter().filter(|(address, _)| {
            // That an address is this host's is sure of loopback addresses only.
            address.ip().is_unspecified()
                && to.ip().is_loopback()
                && address.is_ipv4() == to.is_ipv4()
        });
        let mut found: Vec<u32> = exact.map(|&(_, number)| number).collect();
        if found.is_empty() {
            found = any.map(|&(_, number)| number).collect();
        }
        self.turn = self.turn.wrapping_add(1);
        found.get(self.turn % found.len().max(1)).copied()
    }
}

impl KernelNsm {
    /// Connects a socket to one of this NSM's; `None`: there is none, or it takes no more.
    pub(super) fn connect_locally(
        &mut self,
        nqe: Nqe,
        to: SocketAddr,
    ) -> Option<Result<SocketAddr, Errno>> {
        if !self.local {
            return None;
        }
        let listener = self.listeners.find(to)?;
        let at = self.sockets.get(listener)?;
        let Kind::Listening { offered, backlog } = &mut at.kind else {
            return None;
        };
        if *offered > *backlog || *offered >= ACCEPT_QUEUE {
            return None;
        }
        let tenant = at.tenant;
        let client = self.sockets.get(nqe.socket)?;
        if !matches!(client.kind, Kind::Stream { connecting: None }) {
            return Some(Err(Errno::ISCONN));
        }
        let now = client.file().and_then(|_| local_address(client));
        let address = match now {
            Ok(address) if address.port() != 0 => address,
            _ => SocketAddr::new(to.ip(), self.listeners.port()),
        };
        let family = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let own = self.sockets.choose()?;
        let mut server = Socket::new(
            None,
            family,
            tenant,
            Kind::Local(Local {
                peer: Some(nqe.socket),
                address: to,
                peer_address: address,
            }),
        );
        server.listener = Some(listener);
        self.sockets.put_own(own, server);
        if let Some(client) = self.sockets.get(nqe.socket) {
            client.kind = Kind::Local(Local {
                peer: Some(own),
                address,
                peer_address: to,
            });
        }
        if let Some(socket) = self.sockets.get(listener)
            && let Kind::Listening { offered, .. } = &mut socket.kind
        {
            *offered += 1;
        }
        let incoming = Nqe::new(operation::INCOMING, listener).with_address(address);
        self.tell(Nqe {
            len: own,
            ..incoming
        });
        Some(Ok(address))
    }
}

impl Pairs for KernelNsm {
    fn peer(socket: &Socket) -> Option<u32> {
        match &socket.kind {
            Kind::Local(local) => local.peer,
            _ => None,
        }
    }

    fn unpair(socket: &mut Socket) {
        if let Kind::Local(local) = &mut socket.kind {
            local.peer = None;
        }
    }
}
