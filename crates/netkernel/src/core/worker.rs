//! A worker of a network stack module: a queue set, and the sockets that it serves.

use std::collections::HashMap;
use std::net::SocketAddr;

use abi::nqe::CHOSEN_BY_NSM;

use super::peer::Peer;

/// Most sockets of each kind (chosen by CoreEngine, chosen by the NSM) of a worker.
const SOCKETS_MAX: usize = 1 << 20;

/// Which worker of which NSM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkerId {
    pub nsm: u8,
    pub worker: u8,
}

/// A worker's row of the connection table: whose a socket is.
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
    /// It takes connections of a tenant's listening socket, which is another worker's.
    Copy {
        tenant: u8,
        socket: u32,
    },
}

pub(crate) struct Worker {
    pub peer: Peer,
    /// Numbers below this have been chosen by CoreEngine.
    chosen: Vec<Owner>,
    free: Vec<u32>,
    /// By number without [`CHOSEN_BY_NSM`].
    accepted: Vec<Owner>,
    /// The peers of connections that are offered.
    pub offered: HashMap<u32, SocketAddr>,
    /// Sockets and offered connections of tenants.
    pub used: usize,
}

impl Worker {
    pub fn new(peer: Peer) -> Worker {
        Worker {
            peer,
            chosen: Vec::new(),
            free: Vec::new(),
            accepted: Vec::new(),
            offered: HashMap::new(),
            used: 0,
        }
    }

    /// A number for a tenant's new socket, or for a copy of one.
    pub fn choose(&mut self, owner: Owner) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.chosen.len() < SOCKETS_MAX => {
                self.chosen.push(Owner::Nobody);
                self.chosen.len() as u32 - 1
            }
            None => return None,
        };
        self.chosen[number as usize] = owner;
        self.used += usize::from(counts(owner));
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
        let owner = self.owner(number);
        if owner == Owner::Nobody {
            return;
        }
        self.used -= usize::from(counts(owner));
        if number & CHOSEN_BY_NSM == 0 {
            self.chosen[number as usize] = Owner::Nobody;
            self.free.push(number);
        } else {
            self.accepted[(number & !CHOSEN_BY_NSM) as usize] = Owner::Nobody;
            self.offered.remove(&number);
        }
    }
}

/// Whether a socket counts: one that workers have together counts once.
fn counts(owner: Owner) -> bool {
    !matches!(owner, Owner::Copy { .. })
}
