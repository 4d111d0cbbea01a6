//! The way of an element through CoreEngine.

use std::time::Instant;

use abi::nqe::{CHOSEN_BY_NSM, GONE, Nqe, RESTORED, operation};

use super::engine::CoreEngine;
use super::nsm::{Nsm, Owner};
use super::tenant::{NO_SET, Socket, Tenant};
use super::trace::Tracing;

/// Most elements that a queue set's turn takes, times its tenant's weight.
const BATCH: u32 = 256;

/// Bits of a connection's number in an INCOMING; the NSM's are above.
const CONNECTION_BITS: u32 = 20;

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
            busy |= self.take_answers(number);
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
    /// one of another kind; returns how many. They are nearly all that cross, and to the same NSM for
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
        let to = row.nsm;
        let Some(nsm) = self.nsms.get_mut(to as usize).and_then(Option::as_mut) else {
            return 0;
        };
        if nsm.limiter.overdrawn() {
            return 0;
        }
        let limited = limited || nsm.limits.bytes_per_second.is_some();
        let Some(running) = nsm.running.as_mut() else {
            return 0;
        };
        let room = running.room(end - from);
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
            if !payload || row.nsm != to || row.closing || row.failed {
                break;
            }
            if nqe.operation != operation::CONSUMED {
                sent += row.count_sent(&nqe);
            }
            running.put(Nqe {
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
        let (nsm, number) = match nqe.operation {
            operation::SOCKET => (tenant.nsm, None),
            operation::ACCEPT => ((nqe.data >> CONNECTION_BITS) as u8, None),
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
            _ => match tenant.socket(nqe.socket) {
                Some(socket) if !socket.closing => (socket.nsm, Some(socket.number)),
                _ => {
                    refuse(tenant, nqe, libc::EBADF);
                    return true;
                }
            },
        };
        if let Some(nsm) = self.nsms.get_mut(nsm as usize).and_then(Option::as_mut)
            && let Some(running) = nsm.running.as_mut()
            && (running.room(1) == 0 || nsm.limiter.overdrawn())
        {
            return false;
        }
        match number {
            None if nqe.operation == operation::ACCEPT => self.accept(nqe, nsm),
            None => self.open(nqe, nsm),
            Some(number) => self.forward(nqe, nsm, number),
        }
        true
    }

    #[inline]
    fn forward(&mut self, nqe: Nqe, nsm: u8, number: u32) {
        let Some(tenant) = self.tenants[nqe.tenant as usize].as_mut() else {
            return;
        };
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
            }
            operation::CONNECT => {
                match tenant.datagrams.get_mut(&nqe.socket) {
                    Some((_, peer)) => *peer = Some(nqe),
                    None => {
                        tenant.connections += 1;
                        if let Some(nsm) = self.nsms.get_mut(nsm as usize).and_then(Option::as_mut)
                        {
                            nsm.connections += 1;
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
        let failed = tenant
            .socket(nqe.socket)
            .is_some_and(|socket| socket.failed);
        let nsm = self.nsms.get_mut(nsm as usize).and_then(Option::as_mut);
        let running = match nsm {
            Some(nsm) if !failed => {
                nsm.requests += 1;
                nsm.count_sent(sent);
                nsm.running.as_mut()
            }
            _ => None,
        };
        match running {
            Some(running) => running.push(Nqe {
                socket: number,
                ..nqe
            }),
            // The NSM is gone.
            None if nqe.operation == operation::CLOSE => {
                tenant.deliver(Nqe::new(operation::CLOSED, nqe.socket));
                tenant.free(nqe.socket);
            }
            None => refuse(tenant, nqe, libc::ECONNRESET),
        }
    }

    /// A tenant's new socket, or one that is restored.
    fn open(&mut self, nqe: Nqe, to: u8) {
        self.introduce(nqe.tenant, to);
        let Some(tenant) = self.tenants[nqe.tenant as usize].as_mut() else {
            return;
        };
        let nsm = self.nsms.get_mut(to as usize).and_then(Option::as_mut);
        let runs = nsm.as_ref().is_some_and(|nsm| nsm.running.is_some());
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
            Some(nsm) if runs => nsm.choose(nqe.tenant, nqe.socket),
            _ => None,
        };
        let opened = number.and_then(|number| {
            tenant.open(nqe.socket, to, nqe.queue_set, number)?;
            Some(number)
        });
        let nsm = self.nsms.get_mut(to as usize).and_then(Option::as_mut);
        match (opened, nsm) {
            (Some(number), Some(nsm)) => {
                tenant.note_datagrams(nqe);
                if let Some(running) = nsm.running.as_mut() {
                    nsm.requests += 1;
                    running.push(Nqe {
                        socket: number,
                        ..nqe
                    });
                }
            }
            (_, nsm) => {
                tenant.refused += u64::from(runs);
                match (nsm, number) {
                    (Some(nsm), Some(number)) => nsm.release(number),
                    (Some(nsm), None) if runs => nsm.refused += 1,
                    _ => {}
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
    fn accept(&mut self, nqe: Nqe, from: u8) {
        let number = CHOSEN_BY_NSM | (nqe.data as u32 & ((1 << CONNECTION_BITS) - 1));
        let Some(tenant) = self.tenants[nqe.tenant as usize].as_mut() else {
            return;
        };
        let nsm = self.nsms.get_mut(from as usize).and_then(Option::as_mut);
        let offered = Owner::Offered { tenant: nqe.tenant };
        let Some(nsm) = nsm.filter(|nsm| nsm.owner(number) == offered) else {
            tenant.deliver(Nqe {
                queue_set: nqe.queue_set,
                ..Nqe::new(operation::RESULT, nqe.socket)
                    .with_flags(operation::ACCEPT)
                    .with_error(libc::ECONNABORTED)
            });
            return;
        };
        let taken = tenant.open(nqe.socket, from, nqe.queue_set, number);
        if taken.is_some() && nsm.accept(number, nqe.tenant, nqe.socket).is_some() {
            tenant.connections += 1;
            nsm.connections += 1;
            if let Some(addresses) = tenant.addresses(nqe.socket) {
                addresses.peer = nsm.offered.remove(&number);
            }
            nsm.requests += 1;
            if let Some(running) = nsm.running.as_mut() {
                running.push(Nqe {
                    socket: number,
                    data: 0,
                    ..nqe
                });
            }
            return;
        }
        // The connection cannot be the tenant's: it is closed.
        tenant.refused += 1;
        if let Some(running) = nsm.running.as_mut() {
            running.push(Nqe {
                socket: number,
                ..Nqe::new(operation::CLOSE, 0)
            });
        }
        tenant.deliver(Nqe {
            queue_set: nqe.queue_set,
            ..Nqe::new(operation::RESULT, nqe.socket)
                .with_flags(operation::ACCEPT)
                .with_error(libc::EMFILE)
        });
    }

    /// An NSM's turn.
    fn take_answers(&mut self, number: u8) -> bool {
        let Some(nsm) = self.nsms[number as usize].as_mut() else {
            return false;
        };
        let Some(running) = nsm.running.as_mut() else {
            return false;
        };
        let most = 4 * BATCH;
        let Ok(filled) = running.sides.submissions.filled(most) else {
            self.broken_nsms.push(number);
            return false;
        };
        let batch = filled.min(most);
        let mut i = 0;
        while i < batch {
            i += give_payload(&mut self.tenants, nsm, i, batch);
            let Some(running) = nsm.running.as_ref() else {
                break;
            };
            if i == batch {
                break;
            }
            let nqe = running.sides.submissions.peek(i);
            i += 1;
            match nsm.owner(nqe.socket) {
                Owner::Socket { tenant: at, socket } => {
                    let Some(tenant) = self.tenants[at as usize].as_mut() else {
                        continue;
                    };
                    let at_nsm = nqe.socket;
                    let mut nqe = Nqe { socket, ..nqe };
                    match nqe.operation {
                        operation::SENT => {
                            tenant.deliver_to(nqe.queue_set, nqe);
                            continue;
                        }
                        operation::DATA | operation::DATAGRAM => {
                            let received = tenant
                                .socket(socket)
                                .map_or(0, |socket| socket.count_received(&nqe));
                            nsm.count_received(received);
                            tenant.received += received;
                            tenant.charge(received);
                        }
                        operation::CLOSED => {
                            nsm.release(at_nsm);
                            tenant.deliver(nqe);
                            tenant.free(socket);
                            continue;
                        }
                        operation::RESULT
                            if matches!(nqe.flags, operation::BIND | operation::LISTEN) =>
                        {
                            tenant.note_address(nqe);
                            // Only a socket that is restored listens before it is bound.
                            if nqe.error() != 0 && tenant.listeners.contains_key(&socket) {
                                tenant.deliver_unmade(nqe);
                                continue;
                            }
                        }
                        operation::INCOMING => {
                            // One too many is closed.
                            if nsm.is_full()
                                && let Some(running) = nsm.running.as_mut()
                            {
                                nsm.refused += 1;
                                running.push(Nqe {
                                    socket: nqe.len,
                                    ..Nqe::new(operation::CLOSE, 0)
                                });
                                continue;
                            }
                            let connection = nqe.len & !CHOSEN_BY_NSM;
                            let peer = Nqe { len: 0, ..nqe }.address();
                            if nsm.offer(nqe.len, at, peer).is_none() {
                                continue;
                            }
                            nqe.len = u32::from(number) << CONNECTION_BITS | connection;
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
                // The end of a connection that nobody accepted.
                Owner::Offered { .. } if nqe.operation == operation::CLOSED => {
                    nsm.release(nqe.socket);
                }
                _ => {}
            }
        }
        nsm.answers += u64::from(batch);
        if let Some(running) = nsm.running.as_mut()
            && batch > 0
        {
            running.sides.submissions.release(batch);
            if running.sides.submissions.take_producer_sleeper().is_some() {
                running.waker.wake();
            }
        }
        batch > 0
    }
}

/// Delivers elements about payload, from the `from`-th of an NSM's to before the `end`-th or one of
/// another kind or for another queue set; returns how many. As
/// [`take_payload`](CoreEngine::take_payload), this is what nearly all go by.
fn give_payload(tenants: &mut [Option<Tenant>], nsm: &mut Nsm, from: u32, end: u32) -> u32 {
    let Some(running) = nsm.running.as_ref() else {
        return 0;
    };
    let submissions = &running.sides.submissions;
    let first = submissions.peek(from);
    let Owner::Socket { tenant: at, socket } = nsm.owner(first.socket) else {
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
        let Owner::Socket { tenant, socket } = nsm.owner(nqe.socket) else {
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
