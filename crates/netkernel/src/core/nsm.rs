//! A network stack module as CoreEngine has it.

use std::collections::HashMap;
use std::net::SocketAddr;

use abi::nqe::CHOSEN_BY_NSM;

use super::limiter::Limiter;
use super::peer::Peer;
use crate::protocol::{Limits, Token};

/// Most sockets of each kind (chosen by CoreEngine, chosen by the NSM) of an NSM.
const SOCKETS_MAX: usize = 1 << 20;

/// An NSM's row of the connection table: whose a socket is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody's: the number is free.
    Nobody,
    /// A connection that was offered to a tenant and not accepted.
    Offered {
        tenant: u8,
    },
    Socket {
        tenant: u8,
        socket: u32,
    },
}

pub(crate) struct Nsm {
    pub name: String,
    pub token: Token,
    pub limits: Limits,
    pub limiter: Limiter,
    pub running: Option<Peer>,
    /// Numbers below this have been chosen by CoreEngine.
    chosen: Vec<Owner>,
    free: Vec<u32>,
    /// By number without [`CHOSEN_BY_NSM`].
    accepted: Vec<Owner>,
    /// The peers of connections that are offered.
    pub offered: HashMap<u32, SocketAddr>,
    pub used: usize,
    pub requests: u64,
    pub answers: u64,
    pub sent: u64,
    pub received: u64,
    pub connections: u64,
    /// Sockets and connections that were refused for its limit.
    pub refused: u64,
}

impl Nsm {
    pub fn new(name: String, token: Token) -> Nsm {
        Nsm {
            name,
            token,
            limits: Limits::default(),
            limiter: Limiter::new(),
            running: None,
            chosen: Vec::new(),
            free: Vec::new(),
            accepted: Vec::new(),
            offered: HashMap::new(),
            used: 0,
            requests: 0,
            answers: 0,
            sent: 0,
            received: 0,
            connections: 0,
            refused: 0,
        }
    }

    /// Whether it has as many sockets as it may.
    pub fn is_full(&self) -> bool {
        let most = self.limits.sockets;
        most.is_some_and(|most| self.used >= most as usize)
    }

    /// Counts bytes that it was given to send.
    #[inline]
    pub fn count_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.charge(bytes);
    }

    /// Counts bytes that it received.
    #[inline]
    pub fn count_received(&mut self, bytes: u64) {
        self.received += bytes;
        self.charge(bytes);
    }

    /// Lets bytes count against its limit.
    #[inline]
    fn charge(&mut self, bytes: u64) {
        if self.limits.bytes_per_second.is_some() {
            self.limiter.charge(bytes);
        }
    }

    /// A number for a tenant's new socket.
    pub fn choose(&mut self, tenant: u8, socket: u32) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let owner = Owner::Socket { tenant, socket };
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.chosen.len() < SOCKETS_MAX => {
                self.chosen.push(Owner::Nobody);
                self.chosen.len() as u32 - 1
            }
            None => return None,
        };
        self.chosen[number as usize] = owner;
        self.used += 1;
        Some(number)
    }

    /// Whose a socket is.
    #[inline]
    pub fn owner(&self, number: u32) -> Owner {
        let (rows, at) = if number & CHOSEN_BY_NSM == 0 {
            (&self.chosen, number)
        } else {
            (&self.accepted, number & !CHOSEN_BY_NSM)
        };
        rows.get(at as usize).copied().unwrap_or(Owner::Nobody)
    }

    /// Notes a connection that is offered; `None`: the number is in use, or too large.
    pub fn offer(&mut self, number: u32, tenant: u8, peer: Option<SocketAddr>) -> Option<()> {
        let at = (number & !CHOSEN_BY_NSM) as usize;
        if number & CHOSEN_BY_NSM == 0 || at >= SOCKETS_MAX {
            return None;
        }
        if at >= self.accepted.len() {
            self.accepted.resize(at + 1, Owner::Nobody);
        }
        if self.accepted[at] != Owner::Nobody {
            return None;
        }
        self.accepted[at] = Owner::Offered { tenant };
        self.offered.extend(peer.map(|peer| (number, peer)));
        self.used += 1;
        Some(())
    }

    /// Gives an offered connection to its tenant's socket.
    pub fn accept(&mut self, number: u32, tenant: u8, socket: u32) -> Option<()> {
        let at = (number & !CHOSEN_BY_NSM) as usize;
        let owner = self.accepted.get_mut(at)?;
        (number & CHOSEN_BY_NSM != 0 && *owner == Owner::Offered { tenant }).then(|| {
            *owner = Owner::Socket { tenant, socket };
        })
    }

    /// Frees a number.
    pub fn release(&mut self, number: u32) {
        if self.owner(number) == Owner::Nobody {
            return;
        }
        self.used -= 1;
        if number & CHOSEN_BY_NSM == 0 {
            self.chosen[number as usize] = Owner::Nobody;
            self.free.push(number);
        } else {
            self.accepted[(number & !CHOSEN_BY_NSM) as usize] = Owner::Nobody;
            self.offered.remove(&number);
        }
    }

    /// The process is gone, and its sockets with it.
    pub fn stop(&mut self) {
        self.running = None;
        self.chosen.clear();
        self.free.clear();
        self.accepted.clear();
        self.offered.clear();
        self.used = 0;
    }
}
