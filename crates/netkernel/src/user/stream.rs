//! Connections, and the sockets that have them.

use std::time::Duration;

use abi::nqe::{Nqe, operation};
use abi::tenant::CHUNK_BYTES;
use rustix::io::Errno;
use smoltcp::socket::tcp;
use smoltcp::time::Instant;

use super::UserNsm;
use super::arrival::{Reported, Segment};
use super::flow::{Ends, FlowId, Owner};
use super::network::Way;
use super::socket::{Kind, Socket};
use crate::options::Options;
use crate::serving::Serving;

/// Chunks that a connection may receive, and packets that it may send, before others have their turn.
const TURN: usize = 64;
/// How long a connection may take to stand: what Linux's SYNs take (net.ipv4.tcp_syn_retries, tcp_synack_retries).
const CONNECT: Duration = Duration::from_secs(127);
const ACCEPT: Duration = Duration::from_secs(63);
/// How long a neighbour may not answer: three questions (net.ipv4.neigh.default.mcast_solicit).
pub(super) const NEIGHBOUR: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(3);
/// After what time smoltcp asks for a neighbour again.
const SILENT: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(1);
/// How long a connection that was closed waits for its peer's end (net.ipv4.tcp_fin_timeout), and until all is sent.
const FIN: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(60);
const CLOSE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(900);

impl UserNsm {
    /// Gives a segment to its connection, or makes one.
    pub(super) fn segment(&mut self, way: Way, segment: Segment) {
        let ends = Ends {
            way,
            local: segment.local,
            remote: segment.remote,
        };
        let mut found = self.flows.find(&ends);
        if let Some(id) = found
            && segment.opens
            && let Some(flow) = self.flows.get(id)
            && flow.tcp().state() == tcp::State::TimeWait
        {
            // A new one of the same ends: nothing of the old one is under way.
            self.end(id, None);
            found = None;
        }
        let id = match found {
            Some(id) => Some(id),
            None if segment.opens => match self.open_passively(ends) {
                Ok(id) => id,
                // The peer tries again.
                Err(Errno::NOBUFS) => return,
                Err(_) => None,
            },
            None => None,
        };
        let Some(flow) = id.and_then(|id| self.flows.get(id)) else {
            return self.interfaces.deliver(way, None);
        };
        flow.reset = segment.resets;
        self.interfaces.deliver(way, Some(&mut flow.sockets));
        id.into_iter().for_each(|id| self.flows.mark(id));
    }

    /// A connection for a segment that asks a listening socket for one; `None`: nobody listens.
    fn open_passively(&mut self, ends: Ends) -> Result<Option<FlowId>, Errno> {
        let here = match ends.way {
            Way::Vnic => self.interfaces.network.has(ends.local.ip()),
            Way::Loopback => true,
        };
        let number = self
            .streams
            .listener(ends.local, ends.remote)
            .filter(|_| here);
        let Some(number) = number else {
            return Ok(None);
        };
        let Some(socket) = self.sockets.get(number) else {
            return Ok(None);
        };
        let Kind::Listening {
            offered,
            opening,
            backlog,
        } = &mut socket.kind
        else {
            return Ok(None);
        };
        if *offered + *opening > *backlog {
            return Err(Errno::NOBUFS);
        }
        let id = self
            .flows
            .add(ends, Owner::Listener(number))
            .ok_or(Errno::NOBUFS)?;
        *opening += 1;
        if let Some(flow) = self.flows.get(id) {
            let listens = flow.tcp().listen(ends.local);
            debug_assert_eq!(listens, Ok(()));
            socket.options.apply(flow.tcp());
        }
        Ok(Some(id))
    }

    /// A host reports an error.
    pub(super) fn reported(&mut self, way: Way, reported: &Reported) {
        let (local, remote) = (reported.local, reported.remote);
        if !reported.tcp {
            return self.datagram_failed(local, remote, reported.error);
        }
        // Only a connection that is asked for: for others it may pass (RFC 5927, 5.2).
        if let Some(id) = self.flows.find(&Ends { way, local, remote })
            && let Some(flow) = self.flows.get(id)
            && flow.tcp().state() == tcp::State::SynSent
            && reported.error != Errno::MSGSIZE
        {
            self.end(id, Some(reported.error));
        }
    }

    /// Looks at a connection.
    pub(super) fn work_flow(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get(id) else {
            return;
        };
        match flow.owner {
            Owner::Listener(listener) => self.offer(id, listener),
            Owner::Socket(number) => {
                self.connected(id, number);
                self.receive_stream(id, number);
                self.send_stream(id, number);
                self.finish(number);
            }
            Owner::Nobody => {
                // What comes for a socket that is closed is lost; then so is the connection.
                let tcp = flow.tcp();
                while matches!(tcp.recv(|bytes| (bytes.len(), bytes.len())), Ok(1..)) {
                    if tcp.send_queue() == 0 {
                        tcp.abort();
                    }
                }
            }
        }
        self.transmit(id);
    }

    /// Offers a connection that has come to stand.
    fn offer(&mut self, id: FlowId, listener: u32) {
        let Some(flow) = self.flows.get(id) else {
            return;
        };
        match flow.tcp().state() {
            tcp::State::SynReceived => return,
            // A reset has it listen again, and what is no connection leaves it so.
            tcp::State::Listen | tcp::State::Closed => return self.end(id, None),
            _ => {}
        }
        let ends = flow.ends;
        let Some(own) = self.sockets.choose() else {
            return self.reset(id);
        };
        let Some(socket) = self.sockets.get(listener) else {
            self.sockets.give_back(own);
            return self.reset(id);
        };
        if let Kind::Listening {
            offered, opening, ..
        } = &mut socket.kind
        {
            *offered += 1;
            *opening = opening.saturating_sub(1);
        }
        let kind = Kind::Stream {
            flow: Some(id),
            connecting: None,
        };
        let mut connection = Socket::new(socket.tenant, socket.ipv6, kind);
        connection.options = socket.options.clone();
        connection.local = Some(ends.local);
        connection.remote = Some(ends.remote);
        connection.listener = Some(listener);
        let told = socket.told(ends.remote);
        self.sockets.put_own(own, connection);
        if let Some(flow) = self.flows.get(id) {
            flow.owner = Owner::Socket(own);
        }
        let incoming = Nqe::new(operation::INCOMING, listener).with_address(told);
        self.tell(Nqe {
            len: own,
            ..incoming
        });
    }

    /// Answers a connect whose connection stands.
    fn connected(&mut self, id: FlowId, number: u32) {
        let (Some(flow), Some(socket)) = (self.flows.get(id), self.sockets.get(number)) else {
            return;
        };
        let Kind::Stream { connecting, .. } = &mut socket.kind else {
            return;
        };
        let state = flow.tcp().state();
        if matches!(
            state,
            tcp::State::SynSent | tcp::State::SynReceived | tcp::State::Closed
        ) {
            return;
        }
        if let Some(set) = connecting.take() {
            let result = Nqe::new(operation::RESULT, number).with_flags(operation::CONNECT);
            let result = result.with_address(socket.told(flow.ends.local));
            self.tell(Nqe {
                queue_set: set,
                ..result
            });
        }
    }

    fn receive_stream(&mut self, id: FlowId, number: u32) {
        for _ in 0..TURN {
            let (Some(flow), Some(socket)) = (self.flows.get(id), self.sockets.get(number)) else {
                return;
            };
            let waits = socket.listener.is_some() || socket.starved;
            if socket.ended || socket.failed.is_some() || socket.closing.is_some() || waits {
                return;
            }
            let tcp = flow.tcp();
            if socket.deaf {
                while matches!(tcp.recv(|bytes| (bytes.len(), bytes.len())), Ok(1..)) {}
            }
            if !tcp.can_recv() {
                use tcp::State::{CloseWait, Closing, LastAck, TimeWait};
                if matches!(tcp.state(), CloseWait | Closing | LastAck | TimeWait) {
                    socket.ended = true;
                    self.tell(Nqe::new(operation::END, number));
                }
                return;
            }
            if socket.lent >= self.service.receive_window(socket.tenant) {
                // The next chunk that is given back has it looked at again.
                return;
            }
            let Some(chunk) = self.service.lend(socket.tenant, number) else {
                return self.starve(number);
            };
            let room = self
                .service
                .payload(socket.tenant, chunk.offset(), CHUNK_BYTES as u32);
            let Some(room) = room else { return };
            let mut len = 0;
            while let Ok(n @ 1..) = tcp.recv(|bytes| {
                let n = room.skip(len).write(bytes);
                (n, n)
            }) {
                len += n;
            }
            socket.lent += 1;
            let data = Nqe::new(operation::DATA, number);
            self.tell(data.with_chunk(chunk.offset(), len as u32));
        }
        self.flows.mark(id);
    }

    fn send_stream(&mut self, id: FlowId, number: u32) {
        let (Some(flow), Some(socket)) = (self.flows.get(id), self.sockets.get(number)) else {
            return;
        };
        let (tcp, tenant) = (flow.tcp(), socket.tenant);
        while let Some(first) = socket.sending.front_mut() {
            let bytes = self.service.payload(tenant, first.offset, first.len);
            // It was looked at when it came.
            let Some(bytes) = bytes.map(|bytes| bytes.skip(first.done as usize)) else {
                return;
            };
            let sent = tcp.send(|room| {
                let n = bytes.read(room);
                (n, n)
            });
            let Ok(n) = sent else { return };
            first.done += n as u32;
            if first.done < first.len {
                if n == 0 {
                    return;
                }
                continue;
            }
            let sent = Nqe::new(operation::SENT, number).with_chunk(first.offset, first.len);
            self.service.answer(Nqe {
                queue_set: first.set,
                ..sent
            });
            socket.sending.pop_front();
        }
        if socket.shut {
            tcp.close();
        }
    }

    /// Has a connection send what it has to, and sees what has become of it.
    fn transmit(&mut self, id: FlowId) {
        let now = self.interfaces.now();
        let Some(flow) = self.flows.get(id) else {
            return;
        };
        let options = match flow.owner {
            Owner::Socket(number) => self.sockets.get(number).map(|socket| &socket.options),
            _ => None,
        };
        let way = flow.ends.way;
        let before = flow.tcp().state();
        let timeout = match before {
            tcp::State::SynSent => Some(CONNECT),
            tcp::State::SynReceived => Some(ACCEPT),
            _ => {
                let tcp = flow.tcp();
                let ends = matches!(
                    before,
                    tcp::State::FinWait1 | tcp::State::Closing | tcp::State::LastAck
                );
                match (tcp.send_queue() > 0 || ends, options) {
                    (true, Some(options)) => Some(options.user_timeout()),
                    (true, None) => Some(Options::default().user_timeout()),
                    // One that has nothing to send may be silent for ever.
                    (false, options) => options.and_then(Options::silence),
                }
            }
        };
        flow.tcp().set_timeout(timeout.map(Into::into));
        let sent = self.interfaces.vnic.sent();
        let mut turns = 0;
        let mut blocked = false;
        while turns < TURN {
            if !self.interfaces.has_room(way) {
                blocked = true;
                break;
            }
            if !self.interfaces.send(way, &mut flow.sockets) {
                break;
            }
            turns += 1;
        }
        let due = self.interfaces.due(way, &flow.sockets);
        let after = flow.tcp().state();
        // It has asked for a neighbour now, or had before and has sent nothing since.
        let silent = way == Way::Vnic && sent == self.interfaces.vnic.sent();
        let since = match flow.waits {
            Some(since) => Some(since),
            None => (due == Some(now + SILENT)).then_some(now),
        };
        flow.waits = since.filter(|_| silent && due.is_some());
        let since = flow.waits;
        if flow.is_over() {
            let timed_out = after != before && before != tcp::State::TimeWait;
            let received = flow.tcp().recv_queue() > 0 && !flow.reset;
            let error = match (flow.reset, timed_out) {
                (true, _) => Some(Errno::CONNRESET),
                (_, true) => Some(Errno::TIMEDOUT),
                // What it has received goes first.
                _ if received && matches!(flow.owner, Owner::Socket(_)) => return,
                _ => None,
            };
            return self.end(id, error);
        }
        if after == tcp::State::TimeWait && self.flows.are_many() {
            return self.end(id, None);
        }
        if since.is_some_and(|since| now >= since + NEIGHBOUR) && is_new(after) {
            return self.end(id, Some(Errno::HOSTUNREACH));
        }
        self.schedule(id, due, (blocked, turns == TURN, since.is_some()));
    }

    /// Has a connection looked at when it is due.
    fn schedule(
        &mut self,
        id: FlowId,
        due: Option<Instant>,
        (blocked, more, waits): (bool, bool, bool),
    ) {
        let now = self.interfaces.now();
        let Some(flow) = self.flows.get(id) else {
            return;
        };
        let way = flow.ends.way;
        let mut due = due;
        if flow.owner == Owner::Nobody {
            let most = match flow.tcp().state() {
                tcp::State::FinWait2 => FIN,
                _ => CLOSE,
            };
            let deadline = flow.deadline.unwrap_or(now + CLOSE).min(now + most);
            flow.deadline = Some(deadline);
            if now >= deadline {
                return self.reset(id);
            }
            due = Some(due.map_or(deadline, |due| due.min(deadline)));
        }
        if waits {
            self.flows.wait(id);
        }
        match due {
            _ if blocked && way == Way::Vnic => self.flows.block(id),
            _ if more || blocked => self.flows.mark(id),
            Some(due) if due <= now => self.flows.mark(id),
            Some(due) => self.flows.schedule(id, due),
            None => {}
        }
    }

    /// Resets a connection, and forgets it.
    pub(super) fn reset(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get(id) {
            flow.tcp().abort();
            let way = flow.ends.way;
            // If there is no room for it, the peer gets its reset when it sends something.
            self.interfaces.send(way, &mut flow.sockets);
        }
        self.flows.remove(id);
    }

    /// A connection has ended, with an error or without; its owner is told.
    pub(super) fn end(&mut self, id: FlowId, error: Option<Errno>) {
        match self.flows.remove(id) {
            Some(Owner::Socket(number)) => self.disconnected(number, error),
            Some(Owner::Listener(listener)) => {
                if let Some(socket) = self.sockets.get(listener)
                    && let Kind::Listening { opening, .. } = &mut socket.kind
                {
                    *opening = opening.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    /// A socket's connection has ended.
    fn disconnected(&mut self, number: u32, error: Option<Errno>) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let Kind::Stream { flow, connecting } = &mut socket.kind else {
            return;
        };
        *flow = None;
        if let Some(set) = connecting.take() {
            // The socket can be used for another attempt.
            (socket.local, socket.remote) = (None, None);
            let error = match error {
                Some(Errno::CONNRESET) | None => Errno::CONNREFUSED,
                Some(error) => error,
            };
            let result = Nqe::new(operation::RESULT, number).with_flags(operation::CONNECT);
            self.tell(Nqe {
                queue_set: set,
                ..result.with_error(error.raw_os_error())
            });
        } else if let Some(error) = error {
            self.fail(number, error);
        } else if !socket.ended && socket.listener.is_none() {
            socket.ended = true;
            self.tell(Nqe::new(operation::END, number));
        }
        self.mark(number);
    }
}

/// Whether a connection in this state has never stood.
fn is_new(state: tcp::State) -> bool {
    matches!(state, tcp::State::SynSent | tcp::State::SynReceived)
}
