//! Connections between two sockets of one NSM: no TCP, payload is copied from the sender's chunks to the
//! receiver's.
//!
//! A connect to an address that a listening socket of this NSM has becomes one, where the NSM may do
//! so. The kernel has a socket only for what was bound, listens, or has an option asked for.

use std::collections::HashMap;
use std::net::SocketAddr;

use abi::nqe::{Nqe, operation};
use abi::tenant::{CHUNK_BYTES, RECEIVE_WINDOW};
use rustix::io::Errno;
use rustix::net::AddressFamily;

use super::KernelNsm;
use super::requests::local_address;
use super::socket::{Kind, Local, Socket};

/// Chunks that a socket may send before others have their turn.
const TURN: usize = 64;

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
        if *offered > *backlog {
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

    /// Moves what a socket has to send to its peer.
    pub(super) fn work_local(&mut self, number: u32) {
        let mut turn = 0;
        while let Some(socket) = self.sockets.get(number) {
            let Kind::Local(local) = &socket.kind else {
                return;
            };
            let Some(peer) = local.peer else {
                if !socket.sending.is_empty() {
                    self.fail(number, Errno::PIPE);
                }
                return;
            };
            if socket.sending.is_empty() {
                if socket.shut || socket.closing.is_some() {
                    self.end_at(peer);
                }
                return;
            }
            let tenant = socket.tenant;
            let Some(other) = self.sockets.get(peer) else {
                return;
            };
            if other.listener.is_some() || other.lent >= RECEIVE_WINDOW {
                // Its tenant accepts it, or gives a chunk back.
                return;
            }
            if turn == TURN {
                return self.mark(number);
            }
            turn += 1;
            let to = other.tenant;
            if other.closing.is_some() {
                return self.fail(number, Errno::PIPE);
            }
            let Some(chunk) = self.service.lend(to, peer) else {
                return self.starve_for(number, to);
            };
            other.lent += 1;
            let len = self.fill(number, tenant, to, chunk.offset());
            let data = Nqe::new(operation::DATA, peer).with_chunk(chunk.offset(), len);
            self.tell(data);
        }
    }

    /// Copies what a socket has to send into a chunk, until it is full; returns the bytes.
    fn fill(&mut self, number: u32, tenant: u8, to: u8, offset: u64) -> u32 {
        let whole = self.service.payload(to, offset, CHUNK_BYTES as u32);
        let (Some(whole), Some(socket)) = (whole, self.sockets.get(number)) else {
            return 0;
        };
        let mut len = 0;
        while let Some(first) = socket.sending.front_mut() {
            let from = self.service.payload(tenant, first.offset, first.len);
            let copied = from.map_or(0, |from| {
                from.skip(first.done as usize).copy_to(&whole.skip(len))
            });
            len += copied;
            first.done += copied as u32;
            if first.done < first.len {
                break;
            }
            let sent = Nqe::new(operation::SENT, number).with_chunk(first.offset, first.len);
            self.service.answer(Nqe {
                queue_set: first.set,
                ..sent
            });
            socket.sending.pop_front();
        }
        len as u32
    }

    /// Tells a socket that its peer sends no more.
    fn end_at(&mut self, number: u32) {
        if let Some(socket) = self.sockets.get(number)
            && !socket.ended
        {
            socket.ended = true;
            if socket.listener.is_none() {
                self.tell(Nqe::new(operation::END, number));
            }
        }
    }

    /// A socket of a pair is gone. What it had received and not read, or not accepted, is lost: then
    /// its peer's connection is reset.
    pub(super) fn part(&mut self, gone: &Socket) {
        let Kind::Local(Local {
            peer: Some(peer), ..
        }) = gone.kind
        else {
            return;
        };
        let reset = gone.lent > 0 || gone.listener.is_some();
        if let Some(socket) = self.sockets.get(peer)
            && let Kind::Local(local) = &mut socket.kind
        {
            local.peer = None;
            if reset {
                self.fail(peer, Errno::CONNRESET);
            } else {
                self.end_at(peer);
            }
            self.mark(peer);
        }
    }
}
