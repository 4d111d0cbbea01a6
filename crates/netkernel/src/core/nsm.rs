//! A network stack module as CoreEngine has it.

use super::limiter::Limiter;
use super::worker::{Owner, Worker};
use crate::protocol::{Limits, Token};

pub(crate) struct Nsm {
    pub name: String,
    pub token: Token,
    pub limits: Limits,
    pub limiter: Limiter,
    /// How many workers it has when it runs.
    pub cores: u8,
    /// Its workers, as far as they have joined.
    pub workers: Vec<Worker>,
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
            cores: 1,
            workers: Vec::new(),
            requests: 0,
            answers: 0,
            sent: 0,
            received: 0,
            connections: 0,
            refused: 0,
        }
    }

    /// Whether all its workers have joined.
    #[inline]
    pub fn runs(&self) -> bool {
        self.workers.len() == usize::from(self.cores)
    }

    /// A worker that has joined.
    #[inline]
    pub fn worker(&mut self, at: u8) -> Option<&mut Worker> {
        self.workers.get_mut(usize::from(at))
    }

    /// The worker with the fewest sockets, which the next one goes to.
    pub fn least_used(&self) -> u8 {
        let workers = self.workers.iter().enumerate();
        let least = workers.min_by_key(|(_, worker)| worker.used);
        least.map_or(0, |(at, _)| at as u8)
    }

    /// Its sockets, and connections that are offered.
    pub fn used(&self) -> usize {
        self.workers.iter().map(|worker| worker.used).sum()
    }

    /// Whether it has as many sockets as it may.
    pub fn is_full(&self) -> bool {
        let most = self.limits.sockets;
        most.is_some_and(|most| self.used() >= most as usize)
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

    /// A worker's number for a tenant's new socket.
    pub fn choose(&mut self, worker: u8, tenant: u8, socket: u32) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        self.worker(worker)?
            .choose(Owner::Socket { tenant, socket })
    }
}
