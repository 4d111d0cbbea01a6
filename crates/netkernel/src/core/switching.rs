//! The way of an element through CoreEngine.

use std::time::Instant;

use abi::nqe::{CHOSEN_BY_NSM, GONE, Nqe, RESTORED, operation};

use super::engine::CoreEngine;
use super::nsm::Nsm;
use super::tenant::{NO_SET, Socket, Tenant};
use super::trace::Tracing;
use super::worker::{Owner, WorkerId};
use crate::protocol::CORES_MAX;

/// Most elements that a queue set's turn takes, times its tenant's weight.
const BATCH: u32 = 256;

/// Bits of a connection's number in an INCOMING; above are those of the NSM, and of its worker.
const CONNECTION_BITS: u32 = 20;
const NSM_BITS: u32 = 8;

const _: () = assert!(CORES_MAX as u32 <= 1 << (32 - CONNECTION_BITS - NSM_BITS));

impl CoreEngine {
    /// One round; returns whether anything was switched, and the time after which a limited tenant
    /// may go on.
    pub fn round(&mut self) -> (bool, Option<std::time::Duration>) {
        let mut busy = false;
        let mut wait = None;
        let mut now = None;
        for tenant in 0..self.tenants.len() as u8 {
            let Some(waits) = self.tenants[tenant as usize].as_mut() else {
                continue;
            };
            if waits.limits.bytes_per_second.is_some() {
                let now = *now.get_or_insert_with(Instant::now);
                if let Some(time) = waits.waits(now) {
                    wait = Some(wait.map_or(time, |least: std::time::Duration| least.min(time)));
                    continue;
                }
            }
            let sets = waits.live.len();
            for at in 0..sets {
                let Some(&set) = self.tenants[tenant as usize]
                    .as_ref()
                    .and_then(|tenant| tenant.live.get(at))
                else {
                    break;
                };
                busy |= self.take_submissions(tenant, set);
            }
        }
        for number in 0..self.nsms.len() as u8 {
            if let Some(nsm) = self.nsms[number as usize].as_mut()
                && let Some(rate) = nsm.limits.bytes_per_second
                && let Some(time) = nsm
                    .limiter
                    .waits(rate, *now.get_or_insert_with(Instant::now))
            {
                wait = Some(wait.map_or(time, |least| least.min(time)));
                continue;
            }
            let workers = self.nsms[number as usize]
                .as_ref()
                .map_or(0, |nsm| nsm.workers.len() as u8);
            for worker in 0..workers {
                let nsm = number;
                busy |= self.take_answers(WorkerId { nsm, worker });
            }
        }
        self.flush();
        (busy, wait)
    }

    /// A queue set's turn.
    pub(super) fn take_submissions(&mut self, number: u8, set: u8) -> bool {
        let Some(tenant) = self.tenants[number as usize].as_mut() else {
            return false;
        };
        let most = BATCH * tenant.limits.weight.clamp(1, 100);
        let Some(queue) = tenant.sets[set as usize].as_mut() else {
            return false;
        };
        if queue.outbox.is_full() {
            return false;
        }
        let filled = queue.sides.submissions.filled(most);
        let Ok(filled) = filled else {
            self.broken_sets.push((number, set));
            return false;
        };
        let batch = filled.min(most);
        let mut taken = 0;
        while taken < batch {
            taken += self.take_payload(number, set, taken, batch);
            if taken == batch {
                break;
            }
            let Some(tenant) = self.tenants[number as usize].as_ref() else {
                break;
            };
            let Some(queue) = tenant.sets[set as usize].as_ref() else {
                break;
            };
            let nqe = Nqe {
                tenant: number,
                queue_set: set,
                ..queue.sides.submissions.peek(taken)
            };
            if tenant.overdrawn() || !self.pass_on_traced(nqe) {
                break;
            }
            taken += 1;
        }
        let queue = self.tenants[number as usize]
            .as_mut()
            .and_then(|tenant| tenant.sets[set as usize].as_mut());
        if let Some(queue) = queue
            && taken > 0
        {
            queue.sides.submissions.release(taken);
            if queue.sides.submissions.take_producer_sleeper().is_some() {
                queue.waker.wake();
            }
        }
        taken > 0
    }

    /// Passes elements about payload on, from the `from`-th of a queue set's to before the `end`-th or
    /// one of another kind; returns how many. They are nearly all that cross, and to the same worker for
    /// long: what [`pass_on`](Self::pass_on) does for each is done here for all, where it can be.
    fn take_payload(&mut self, number: u8, set: u8, from: u32, end: u32) -> u32 {
        let Some(tenant) = self.tenants[number as usize].as_mut() else {
            return 0;
        };
        if tenant.overdrawn() || tenant.tracing.is_some() {
            return 0;
        }
        let limited = tenant.limits.bytes_per_second.is_some();
        let (queue, rows) = tenant.rows(set);
        let Some(queue) = queue else { return 0 };
        let first = queue.sides.submissions.peek(from);
        let Some(row) = rows.get(first.socket as usize) else {
            return 0;
        };
        let to = row.at();
        let Some(nsm) = self.nsms.get_mut(to.nsm as usize).and_then(Option::as_mut) else {
            return 0;
        };
        if nsm.limiter.overdrawn() {
            return 0;
        }
        let limited = limited || nsm.limits.bytes_per_second.is_some();
        let Some(worker) = nsm.worker(to.worker) else {
            return 0;
        };
        let room = worker.peer.room(end - from);
        let mut sent = 0u64;
        let mut taken = 0;
        while taken < room.min(end - from) {
            let nqe = queue.sides.submissions.peek(from + taken);
            let Some(row) = rows.get_mut(nqe.socket as usize) else {
                break;
            };
            let payload = matches!(
                nqe.operation,
                operation::SEND | operation::SEND_TO | operation::CONSUMED
            );
            if !payload || row.at() != to || row.closing || row.failed {
                break;
            }
            if nqe.operation != operation::CONSUMED {
                sent += row.count_sent(&nqe);
            }
            worker.peer.put(Nqe {
                tenant: number,
                queue_set: set,
                socket: row.number,
                ..nqe
            });
            taken += 1;
            if limited && sent > 0 {
                break;
            }
        }
        nsm.requests += u64::from(taken);
        nsm.count_sent(sent);
        tenant.sent += sent;
        tenant.charge(sent);
        taken
    }

    /// As [`pass_on`](Self::pass_on), of a tenant that may be traced.
    fn pass_on_traced(&mut self, nqe: Nqe) -> bool {
        let mut traced = false;
        if let Some(tracing) = self.tracing(nqe.tenant) {
            traced = tracing.request(&nqe);
        }
        let passed = self.pass_on(nqe);
        if traced
            && !passed
            && let Some(tracing) = self.tracing(nqe.tenant)
        {
            tracing.take_back(&nqe);
        }
        passed
    }

    fn tracing(&mut self, tenant: u8) -> Option<&mut Tracing> {
        let tenant = self.tenants.get_mut(tenant as usize)?.as_mut()?;
        tenant.tracing.as_deref_mut()
    }

    /// Passes a tenant's element on; `false`: not now, the NSM has no room.
    fn pass_on(&mut self, nqe: Nqe) -> bool {
        let Some(tenant) = self.tenants[nqe.tenant as usize].as_mut() else {
            return true;
        };
        let (at, number) = match nqe.operation {
            operation::SOCKET => {
                let nsm = self.nsms.get(tenant.nsm as usize).and_then(Option::as_ref);
                let at = WorkerId {
                    nsm: tenant.nsm,
                    worker: nsm.map_or(0, Nsm::least_used),
                };
                (at, None)
            }
            operation::ACCEPT => {
                let at = WorkerId {
                    nsm: (nqe.data >> CONNECTION_BITS) as u8,
                    worker: (nqe.data >> (CONNECTION_BITS + NSM_BITS)) as u8,
                };
                (at, None)
            }
            operation::ATTACH => {
                let error = tenant.attach(nqe.socket, nqe.queue_set).err();
                let result = Nqe::new(operation::RESULT, nqe.socket)
                    .with_flags(operation::ATTACH)
                    .with_error(error.map_or(0, |error| error.raw_os_error()));
                tenant.deliver(Nqe {
                    queue_set: nqe.queue_set,
                    ..result
                });
                return true;
            }
            operation::DETACH => {
                if let Some(listener) = tenant.listeners.get_mut(&nqe.socket) {
                    listener.acceptors.retain(|&set| set != nqe.queue_set);
                }
                return true;
            }
            operation::LISTEN_WITH => {
                refuse(tenant, nqe, libc::EINVAL);
                return true;
            }
            _ => match tenant.socket(nqe.socket) {
                Some(socket) if !socket.closing => (socket.at(), Some(socket.number)),
                _ => {
                    refuse(tenant, nqe, libc::EBADF);
                    return true;
                }
            },
        };
        if let Some(nsm) = self.nsms.get_mut(at.nsm as usize).and_then(Option::as_mut) {
            let overdrawn = nsm.limiter.overdrawn();
            if let Some(worker) = nsm.worker(at.worker)
                && (overdrawn || worker.peer.room(1) == 0)
            {
                return false;
            }
        }
        match number {
            None if nqe.operation == operation::ACCEPT => self.accept(nqe, at),
            None => self.open(nqe, at),
            Some(number) => self.forward(nqe, at, number),
        }
        true
    }

    /// Passes an element of a socket on to the worker that serves it by this number.
    #[inline]
    pub(super) fn forward(&mut self, nqe: Nqe, at: WorkerId, number: u32) {
        let Some(tenant) = self.tenants[nqe.tenant as usize].as_mut() else {
            return;
        };
        let mut nsm = self.nsms.get_mut(at.nsm as usize).and_then(Option::as_mut);
        let failed = tenant
            .socket(nqe.socket)
            .is_some_and(|socket| socket.failed);
        let mut sent = 0;
        match nqe.operation {
            operation::SEND | operation::SEND_TO => {
                sent = tenant
                    .socket(nqe.socket)
                    .map_or(0, |socket| socket.count_sent(&nqe));
                tenant.sent += sent;
                tenant.charge(sent);
            }
            operation::CLOSE => {
                if let Some(socket) = tenant.socket(nqe.socket) {
                    socket.closing = true;
                }
                if let Some(listener) = tenant.listeners.get_mut(&nqe.socket)
                    && !listener.copies.is_empty()
                    && let Some(nsm) = &mut nsm
                {
                    listener.close = Some(Nqe {
                        socket: number,
                        ..nqe
                    });
                    for &(worker, copy) in &listener.copies {
                        if let Some(worker) = nsm.worker(worker) {
                            worker.peer.push(Nqe {
                                socket: copy,
                                ..nqe
                            });
                        }
                    }
                    return;
                }
            }
            operation::CONNECT => {
                match tenant.datagrams.get_mut(&nqe.socket) {
                    Some((_, peer)) => *peer = Some(nqe),
                    None => {
                        tenant.connections += 1;
                        if let Some(nsm) = &mut nsm {
                            nsm.connections += 1;
                        }
                        if failed && nqe.flags & RESTORED != 0 {
                            tenant.connecting.insert(nqe.socket, nqe);
                        }
                    }
                }
                if let Some(addresses) = tenant.addresses(nqe.socket) {
                    addresses.peer = nqe.address();
                }
            }
            // Several processes announce a socket that they share.
            operation::BIND | operation::LISTEN
                if nqe.flags & RESTORED != 0 && tenant.was(nqe.operation, nqe.socket) =>
            {
                return;
            }
            operation::BIND => {
                tenant.bound.insert(nqe.socket, nqe);
            }
            operation::LISTEN => {
                tenant.listeners.entry(nqe.socket).or_default().listen = nqe;
            }
            _ => {}
        }
        let worker = match nsm {
            Some(nsm) if !failed => {
                nsm.requests += 1;
                nsm.count_sent(sent);
                nsm.worker(at.worker)
            }
            _ => None,
        };
        match worker {
            Some(worker) => worker.peer.push(Nqe {
                socket: number,
                ..nqe
            }),
            // The NSM is gone.
            None if nqe.operation == operation::CLOSE => {
                tenant.deliver(Nqe {
                    queue_set: nqe.queue_set,
                    ..Nqe::new(operation::CLOSED, nqe.socket)
                });
                tenant.free(nqe.socket);
            }
            None => refuse(tenant, nqe, libc::ECONNRESET),
        }
    }

    /// A tenant's new socket, or one that is restored.
    fn open(&mut self, nqe: Nqe, to: WorkerId) {
        self.introduce(nqe.tenant, to.nsm);
        let Some(tenant) = self.tenants[nqe.tenant as usize].as_mut() else {
            return;
        };
        let nsm = self.nsms.get_mut(to.nsm as usize).and_then(Option::as_mut);
        let runs = nsm.as_ref().is_some_and(|nsm| nsm.runs());
        if nqe.flags & RESTORED != 0 {
            if tenant.socket(nqe.socket).is_some() {
                return;
            }
            if nqe.flags & GONE != 0 || !runs {
                // Its connection is gone, or it waits for its NSM.
                tenant.open(nqe.socket, to, nqe.queue_set, 0);
                if let Some(socket) = tenant.socket(nqe.socket) {
                    socket.failed = true;
                }
                tenant.note_datagrams(nqe);
                return;
            }
        }
        let number = match nsm {
            Some(nsm) if runs => nsm.choose(to.worker, nqe.tenant, nqe.socket),
            _ => None,
        };
        let opened = number.and_then(|number| {
            tenant.open(nqe.socket, to, nqe.queue_set, number)?;
            Some(number)
        });
        let nsm = self.nsms.get_mut(to.nsm as usize).and_then(Option::as_mut);
        match (opened, nsm) {
            (Some(number), Some(nsm)) => {
                tenant.note_datagrams(nqe);
                nsm.requests += 1;
                if let Some(worker) = nsm.worker(to.worker) {
                    worker.peer.push(Nqe {
                        socket: number,
                        ..nqe
                    });
                }
            }
            (_, nsm) => {
                tenant.refused += u64::from(runs);
                if let Some(nsm) = nsm {
                    match (number, nsm.worker(to.worker)) {
                        (Some(number), Some(worker)) => worker.release(number),
                        _ => nsm.refused += u64::from(runs),
                    }
                }
                // Later elements of the socket are refused, and its close is answered.
                let error = match number {
                    Some(_) => libc::EMFILE,
                    None if runs => libc::ENOBUFS,
                    None => libc::ENETDOWN,
                };
                tenant.deliver(Nqe {
                    queue_set: nqe.queue_set,
                    ..Nqe::new(operation::RESULT, nqe.socket)
                        .with_flags(operation::SOCKET)
                        .with_error(error)
                });
            }
        }
    }

    /// A tenant takes a connection that was offered to it.
    fn accept(&mut self, nqe: Nqe, from: WorkerId) {
        let number = CHOSEN_BY_NSM | (nqe.data as u32 & ((1 << CONNECTION_BITS) - 1));
        let Some(tenant) = self.tenants[nqe.tenant as usize].as_mut() else {
            return;
        };
        let nsm = self
            .nsms
            .get_mut(from.nsm as usize)
            .and_then(Option::as_mut);
        let offered = Owner::Offered { tenant: nqe.tenant };
        let found = nsm.and_then(|nsm| {
            let Nsm {
                workers,
                connections,
                requests,
                ..
            } = nsm;
            let worker = workers.get_mut(usize::from(from.worker))?;
            (worker.owner(number) == offered).then_some((worker, connections, requests))
        });
        let Some((worker, connections, requests)) = found else {
            tenant.deliver(Nqe {
                queue_set: nqe.queue_set,
                ..Nqe::new(operation::RESULT, nqe.socket)
                    .with_flags(operation::ACCEPT)
                    .with_error(libc::ECONNABORTED)
            });
            return;
        };
        let taken = tenant.open(nqe.socket, from, nqe.queue_set, number);
        if taken.is_some() && worker.accept(number, nqe.tenant, nqe.socket).is_some() {
            tenant.connections += 1;
            *connections += 1;
            if let Some(addresses) = tenant.addresses(nqe.socket) {
                addresses.peer = worker.offered.remove(&number);
            }
            *requests += 1;
            worker.peer.push(Nqe {
                socket: number,
                data: 0,
                ..nqe
            });
            return;
        }
        // The connection cannot be the tenant's: it is closed.
        tenant.refused += 1;
        worker.peer.push(Nqe::new(operation::CLOSE, number));
        tenant.deliver(Nqe {
            queue_set: nqe.queue_set,
            ..Nqe::new(operation::RESULT, nqe.socket)
                .with_flags(operation::ACCEPT)
                .with_error(libc::EMFILE)
        });
    }

    /// A worker's turn.
    fn take_answers(&mut self, at: WorkerId) -> bool {
        let Some(nsm) = self.nsms[at.nsm as usize].as_mut() else {
            return false;
        };
        let Some(worker) = nsm.worker(at.worker) else {
            return false;
        };
        let most = 4 * BATCH;
        let Ok(filled) = worker.peer.sides.submissions.filled(most) else {
            self.broken_nsms.push(at.nsm);
            return false;
        };
        let batch = filled.min(most);
        let mut i = 0;
        while i < batch {
            i += give_payload(&mut self.tenants, nsm, at.worker, i, batch);
            if i == batch {
                break;
            }
            let Some(worker) = nsm.worker(at.worker) else {
                break;
            };
            let nqe = worker.peer.sides.submissions.peek(i);
            give(&mut self.tenants, nsm, at, nqe);
            i += 1;
        }
        nsm.answers += u64::from(batch);
        if let Some(worker) = nsm.worker(at.worker)
            && batch > 0
        {
            let peer = &mut worker.peer;
            peer.sides.submissions.release(batch);
            if peer.sides.submissions.take_producer_sleeper().is_some() {
                peer.waker.wake();
            }
        }
        batch > 0
    }
}

/// Delivers an element of a worker's.
fn give(tenants: &mut [Option<Tenant>], nsm: &mut Nsm, at: WorkerId, nqe: Nqe) {
    let Some(worker) = nsm.worker(at.worker) else {
        return;
    };
    let at_worker = nqe.socket;
    let (owner, socket) = match worker.owner(at_worker) {
        Owner::Socket { tenant, socket } => (tenant, socket),
        Owner::Copy { tenant, socket } if nqe.operation == operation::INCOMING => (tenant, socket),
        Owner::Copy { tenant, socket } if nqe.operation == operation::CLOSED => {
            worker.release(at_worker);
            if let Some(tenant) = tenants[tenant as usize].as_mut() {
                copy_closed(tenant, nsm, socket, (at.worker, at_worker));
            }
            return;
        }
        // The end of a connection that nobody accepted.
        Owner::Offered { .. } if nqe.operation == operation::CLOSED => {
            return worker.release(at_worker);
        }
        _ => return,
    };
    let Some(tenant) = tenants[owner as usize].as_mut() else {
        return;
    };
    let mut nqe = Nqe { socket, ..nqe };
    match nqe.operation {
        operation::SENT => return tenant.deliver_to(nqe.queue_set, nqe),
        operation::DATA | operation::DATAGRAM => {
            let received = tenant
                .socket(socket)
                .map_or(0, |socket| socket.count_received(&nqe));
            nsm.count_received(received);
            tenant.received += received;
            tenant.charge(received);
        }
        operation::CLOSED => {
            worker.release(at_worker);
            tenant.deliver(nqe);
            return tenant.free(socket);
        }
        operation::RESULT if matches!(nqe.flags, operation::BIND | operation::LISTEN) => {
            tenant.note_address(nqe);
            // Only a socket that is restored listens before it is bound.
            if nqe.error() != 0 && tenant.listeners.contains_key(&socket) {
                return tenant.deliver_unmade(nqe);
            }
            if nqe.flags == operation::LISTEN && nqe.error() == 0 {
                listen_with(tenant, owner, nsm, socket);
            }
        }
        operation::INCOMING => {
            let (full, connection) = (nsm.is_full(), nqe.len);
            let Some(worker) = nsm.worker(at.worker) else {
                return;
            };
            // One too many is closed.
            if full {
                worker.peer.push(Nqe::new(operation::CLOSE, connection));
                nsm.refused += 1;
                return;
            }
            let peer = Nqe { len: 0, ..nqe }.address();
            if worker.offer(connection, owner, peer).is_none() {
                return;
            }
            nqe.len = u32::from(at.worker) << (CONNECTION_BITS + NSM_BITS)
                | u32::from(at.nsm) << CONNECTION_BITS
                | connection & !CHOSEN_BY_NSM;
        }
        operation::RESULT if nqe.error() == 0 => {
            let local = [operation::BIND, operation::LISTEN, operation::CONNECT];
            if local.contains(&nqe.flags)
                && let Some(addresses) = tenant.addresses(socket)
            {
                addresses.local = nqe.address();
            }
        }
        _ => {}
    }
    tenant.deliver(nqe);
}

/// Has the other workers of an NSM take connections of a socket that listens.
fn listen_with(tenant: &mut Tenant, number: u8, nsm: &mut Nsm, socket: u32) {
    let row = tenant.socket(socket).filter(|row| !row.closing);
    let Some(row) = row.copied() else {
        return;
    };
    let Some(listener) = tenant.listeners.get_mut(&socket) else {
        return;
    };
    if !listener.copies.is_empty() {
        return;
    }
    let others = nsm.workers.iter_mut().enumerate();
    for (at, worker) in others.filter(|&(at, _)| at != usize::from(row.worker)) {
        let owner = Owner::Copy {
            tenant: number,
            socket,
        };
        let Some(copy) = worker.choose(owner) else {
            continue;
        };
        let of = u64::from(row.worker) << 32 | u64::from(row.number);
        worker.peer.push(Nqe {
            tenant: number,
            len: listener.listen.data.min(u32::MAX.into()) as u32,
            ..Nqe::new(operation::LISTEN_WITH, copy).with_data(of)
        });
        listener.copies.push((at as u8, copy));
    }
}

/// A worker takes no more connections of a listening socket: after the last one, the socket is closed.
fn copy_closed(tenant: &mut Tenant, nsm: &mut Nsm, socket: u32, copy: (u8, u32)) {
    let Some(listener) = tenant.listeners.get_mut(&socket) else {
        return;
    };
    listener.copies.retain(|&it| it != copy);
    if listener.copies.is_empty()
        && let Some(close) = listener.close.take()
        && let Some(row) = tenant.socket(socket)
        && let Some(worker) = nsm.worker(row.worker)
    {
        worker.peer.push(close);
    }
}

/// Delivers elements about payload, from the `from`-th of a worker's to before the `end`-th or one of
/// another kind or for another queue set; returns how many. As
/// [`take_payload`](CoreEngine::take_payload), this is what nearly all go by.
fn give_payload(
    tenants: &mut [Option<Tenant>],
    nsm: &mut Nsm,
    worker: u8,
    from: u32,
    end: u32,
) -> u32 {
    let Some(worker) = nsm.workers.get(usize::from(worker)) else {
        return 0;
    };
    let submissions = &worker.peer.sides.submissions;
    let first = submissions.peek(from);
    let Owner::Socket { tenant: at, socket } = worker.owner(first.socket) else {
        return 0;
    };
    let Some(tenant) = tenants[at as usize].as_mut() else {
        return 0;
    };
    let set_of = |nqe: &Nqe, row: &Socket| match nqe.operation {
        operation::SENT => nqe.queue_set,
        operation::DATA | operation::DATAGRAM => row.set,
        _ => NO_SET,
    };
    if tenant.tracing.is_some() {
        return 0;
    }
    let Some(row) = tenant.socket(socket) else {
        return 0;
    };
    let to = set_of(&first, row);
    let (Some(queue), rows) = tenant.rows(to) else {
        return 0;
    };
    let room = queue.room(end - from);
    let mut received = 0u64;
    let mut given = 0;
    while given < room.min(end - from) {
        let nqe = submissions.peek(from + given);
        let Owner::Socket { tenant, socket } = worker.owner(nqe.socket) else {
            break;
        };
        let Some(row) = rows.get_mut(socket as usize) else {
            break;
        };
        if tenant != at || set_of(&nqe, row) != to {
            break;
        }
        if nqe.operation != operation::SENT {
            received += row.count_received(&nqe);
        }
        queue.put(Nqe { socket, ..nqe });
        given += 1;
    }
    nsm.count_received(received);
    tenant.received += received;
    tenant.charge(received);
    given
}

/// Answers an element that cannot be passed on, so that nobody waits and no chunk is lost.
fn refuse(tenant: &mut Tenant, nqe: Nqe, error: i32) {
    let answer = match nqe.operation {
        // Nobody waits for it.
        operation::BIND | operation::LISTEN | operation::CONNECT if nqe.flags & RESTORED != 0 => {
            return;
        }
        operation::SEND | operation::SEND_TO => operation::SENT,
        operation::CLOSE => operation::CLOSED,
        operation::BIND
        | operation::LISTEN
        | operation::CONNECT
        | operation::SET_OPTION
        | operation::GET_OPTION
        | operation::LOCAL_ADDRESS
        | operation::PEER_ADDRESS => operation::RESULT,
        operation::SHUTDOWN | operation::CONSUMED => return,
        _ => {
            tenant.violations += 1;
            return;
        }
    };
    let chunk = !matches!(
        nqe.operation,
        operation::BIND | operation::LISTEN | operation::CONNECT
    );
    let offset = if chunk { nqe.offset } else { 0 };
    tenant.deliver(Nqe {
        queue_set: nqe.queue_set,
        ..Nqe::new(answer, nqe.socket)
            .with_flags(nqe.operation)
            .with_chunk(offset, 0)
            .with_error(error)
    });
}
