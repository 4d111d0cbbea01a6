//! What NSMs know of sockets: it is asked for when the operator asks for a tenant's sockets, who waits for it a little.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::engine::CoreEngine;
use super::worker::WorkerId;
use crate::protocol::{self, FromNsm, Measured, Reply, SocketStatus, ToNsm};

/// How long NSMs have to answer. Slower NSMs are not waited for.
pub(super) const ANSWER: Duration = Duration::from_millis(100);

/// Sockets that the operator has asked for, and NSMs are asked about.
pub(super) struct Measuring {
    number: u32,
    /// The operator's connection.
    connection: u32,
    sockets: Vec<SocketStatus>,
    /// By worker that has yet to answer: the places of its sockets among these, by its own numbers.
    awaited: BTreeMap<WorkerId, BTreeMap<u32, usize>>,
    until: Instant,
}

impl CoreEngine {
    /// Answers the operator with a tenant's sockets, once their NSMs have told what they know of them.
    pub(super) fn measure(&mut self, connection: u32, tenant: u8, from: u32) {
        let mut awaited: BTreeMap<WorkerId, BTreeMap<u32, usize>> = BTreeMap::new();
        let (sockets, at_nsm) = self.sockets(tenant, from);
        for (at, (socket, (worker, number))) in sockets.iter().zip(at_nsm).enumerate() {
            if !socket.datagrams && !socket.listens && !socket.failed {
                awaited.entry(worker).or_default().insert(number, at);
            }
        }
        let id = self.number();
        awaited.retain(|at, numbers| {
            let nsm = self
                .nsms
                .get_mut(usize::from(at.nsm))
                .and_then(Option::as_mut);
            let Some(worker) = nsm.and_then(|nsm| nsm.worker(at.worker)) else {
                return false;
            };
            let sockets = numbers.keys().copied().collect();
            let measure = ToNsm::Measure { id, sockets };
            protocol::send(&worker.peer.control, &measure, &[]).is_ok()
        });
        self.measuring.push(Measuring {
            number: id,
            connection,
            sockets,
            awaited,
            until: Instant::now() + ANSWER,
        });
        self.end_measuring();
    }

    /// A worker tells what it knows.
    pub(super) fn measured(&mut self, at: WorkerId, told: FromNsm) {
        let FromNsm::Measured { id, sockets } = told;
        let mut all = self.measuring.iter_mut();
        let Some(measuring) = all.find(|it| it.number == id) else {
            return;
        };
        let Some(numbers) = measuring.awaited.remove(&at) else {
            return;
        };
        for Measured {
            socket,
            rtt_us,
            rtt_variance_us,
            retransmits,
        } in sockets
        {
            let at = numbers.get(&socket);
            if let Some(status) = at.and_then(|&at| measuring.sockets.get_mut(at)) {
                status.rtt_us = Some(rtt_us);
                status.rtt_variance_us = Some(rtt_variance_us);
                status.retransmits = Some(retransmits);
            }
        }
        self.end_measuring();
    }

    /// Answers what is complete, or late.
    pub(super) fn end_measuring(&mut self) {
        let now = Instant::now();
        let done = |it: &mut Measuring| it.awaited.is_empty() || it.until <= now;
        for done in self.measuring.extract_if(.., done).collect::<Vec<_>>() {
            self.reply(done.connection, &Reply::Sockets(done.sockets));
        }
    }
}
