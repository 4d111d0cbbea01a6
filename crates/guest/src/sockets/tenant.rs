//! Sockets, their connections, and what CoreEngine tells of them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use abi::SharedBytes;
use abi::nqe::{DATAGRAM_TYPE, DatagramHead, GONE, Nqe, RESTORED, STREAM, operation};
use abi::tenant::{CHUNK_BYTES, PayloadFile, QueueFile, RECEIVE_WINDOW, SEND_WINDOW};
use router::{Endpoint, SocketStatus};

use super::Surroundings;
use super::queues::Queues;

/// Most sockets of a guest, connections that are being closed included; a power of two.
const SOCKETS: u32 = 1 << SOCKET_BITS;
const SOCKET_BITS: u32 = 12;
/// Connections that wait to be accepted.
const BACKLOG: u64 = 1024;
/// Senders of datagrams that a server knows, so that it can answer them; a power of two.
const SENDERS: usize = 4096;
/// How long a connection whose peer has ended it stays open in a guest that is never idle, in nanoseconds.
const LINGER: u64 = 1_000_000_000;
/// The error of a socket whose NSM does not run.
const ENETDOWN: i32 = 100;
/// Options by level and name: sockets of a server may be bound while old connections end; streams send without delay.
const SO_REUSEADDR: u64 = 1 << 32 | 2;
const TCP_NODELAY: u64 = 6 << 32 | 1;

/// What became of a packet that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It was sent, or no connection is there for it.
    Done,
    /// It is to be sent later.
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The number is free.
    Free,
    /// It is not connected yet, or not bound.
    Opening,
    /// It is connected, or listens.
    Open,
    /// It was closed; its number is taken until CoreEngine says so.
    Closing,
}

/// A socket of the tenant, by its number.
struct Socket {
    state: State,
    port: usize,
    /// Tells it from others that have had its number; counts up.
    generation: u32,
    /// Chunks that are with the NSM to be sent.
    in_flight: usize,
    /// Elements about payload received, and the bytes that were taken of the first.
    received: VecDeque<Nqe>,
    taken: usize,
    /// The peer sends no more.
    ended: bool,
}

/// What an element has opened.
struct Port {
    endpoint: Endpoint,
    /// Elements that use it.
    users: usize,
    /// The client's socket, or the server's.
    main: Option<u32>,
    /// Sockets with something to receive.
    ready: VecDeque<u32>,
    /// Connections that are offered and were not accepted for want of a number.
    offered: VecDeque<u32>,
    /// The connection that was accepted last, or the last sender of a datagram, by name.
    latest: u32,
    /// The last senders of datagrams; the n-th of all stands at n modulo [`SENDERS`].
    senders: Vec<SocketAddr>,
    /// The connection that the next packet waits for.
    blocked: Option<u32>,
    /// A packet waits for a client's connection.
    awaited: bool,
    /// Its socket waits at CoreEngine for an NSM that did not run.
    waits: bool,
    /// The connection that packets waited for has failed: they are dropped.
    failed: bool,
    /// Connections that the peers have ended, and when that was passed on.
    ended: Vec<(u32, u64)>,
    status: SocketStatus,
}

/// The guest as a tenant.
pub(crate) struct Tenant {
    queues: Queues,
    sockets: Vec<Socket>,
    /// Numbers that are free again.
    free: Vec<u32>,
    ports: Vec<Port>,
    /// The chunk that bytes are added to: its socket, its offset, and how many are in it.
    open_chunk: Option<(u32, u64, usize)>,
}

impl Tenant {
    /// # Safety
    /// Nothing else in the guest uses the process's sides of queue set 0.
    pub(super) unsafe fn open(
        queues: QueueFile,
        payload: PayloadFile,
        surroundings: Box<dyn Surroundings>,
    ) -> Tenant {
        Tenant {
            // SAFETY: the caller's promise.
            queues: unsafe { Queues::open(queues, payload, surroundings) },
            sockets: Vec::new(),
            free: Vec::new(),
            ports: Vec::new(),
            open_chunk: None,
        }
    }

    /// A new port, which nobody uses yet.
    pub(super) fn add_port(&mut self, endpoint: Endpoint) -> usize {
        self.ports.push(Port {
            endpoint,
            users: 0,
            main: None,
            ready: VecDeque::new(),
            offered: VecDeque::new(),
            latest: 0,
            senders: Vec::new(),
            blocked: None,
            awaited: false,
            waits: false,
            failed: false,
            ended: Vec::new(),
            status: SocketStatus::default(),
        });
        self.ports.len() - 1
    }

    /// An element begins to use a port: the first one opens its socket.
    pub(super) fn use_port(&mut self, port: usize) {
        self.ports[port].users += 1;
        if self.ports[port].users == 1 {
            self.start(port, 0);
            self.flush();
        }
    }

    /// An element uses a port no more: the last one closes its sockets.
    pub(super) fn leave_port(&mut self, port: usize) {
        self.ports[port].users = self.ports[port].users.saturating_sub(1);
        if self.ports[port].users > 0 {
            return;
        }
        for number in 0..self.sockets.len() as u32 {
            let socket = &self.sockets[number as usize];
            if socket.port == port && matches!(socket.state, State::Opening | State::Open) {
                self.close(number);
            }
        }
        self.flush();
    }

    /// What a port has done.
    pub(super) fn status(&self, port: usize) -> SocketStatus {
        self.ports[port].status
    }

    pub(super) fn is_stream(&self, port: usize) -> bool {
        self.ports[port].endpoint.stream
    }

    /// Publishes what was asked.
    pub(super) fn flush(&mut self) {
        self.end_chunk();
        self.queues.flush();
    }

    fn take_number(&mut self, port: usize, state: State) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if (self.sockets.len() as u32) < SOCKETS => {
                self.sockets.push(Socket {
                    state: State::Free,
                    port,
                    generation: 0,
                    in_flight: 0,
                    received: VecDeque::new(),
                    taken: 0,
                    ended: false,
                });
                self.sockets.len() as u32 - 1
            }
            None => return None,
        };
        let socket = &mut self.sockets[number as usize];
        socket.generation = (socket.generation + 1) % (1 << (32 - SOCKET_BITS));
        socket.generation = socket.generation.max(1);
        (socket.state, socket.port) = (state, port);
        (socket.in_flight, socket.taken, socket.ended) = (0, 0, false);
        Some(number)
    }

    /// The name of a connection in packets: not 0, and not that of an earlier one for long.
    fn connection_name(&self, number: u32) -> u32 {
        self.sockets[number as usize].generation << SOCKET_BITS | number
    }

    /// The open connection of a name.
    fn connection(&self, port: usize, name: u32) -> Option<u32> {
        let number = name % SOCKETS;
        let socket = self.sockets.get(number as usize)?;
        let named = socket.state == State::Open && socket.port == port;
        (named && self.connection_name(number) == name).then_some(number)
    }

    /// The socket of that number, unless it is free or closed.
    fn open_socket(&mut self, number: u32) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(number as usize)?;
        matches!(socket.state, State::Opening | State::Open).then_some(socket)
    }

    /// Opens a port's socket, with these flags.
    fn start(&mut self, port: usize, flags: u8) {
        let endpoint = self.ports[port].endpoint;
        let Some(number) = self.take_number(port, State::Opening) else {
            let what = Shown(endpoint);
            let report = &self.queues.surroundings;
            return report.report(format_args!("{what}: the guest has {SOCKETS} sockets"));
        };
        self.ports[port].main = Some(number);
        let of_type = if endpoint.stream {
            STREAM
        } else {
            DATAGRAM_TYPE
        };
        let family = if endpoint.address.is_ipv4() { 4 } else { 6 };
        let made = Nqe::new(operation::SOCKET, number).with_data(of_type);
        self.queues
            .submit(made.with_family(family).with_flags(flags));
        if endpoint.stream && endpoint.serves {
            // Connections inherit it.
            self.set_option(number, TCP_NODELAY);
            self.set_option(number, SO_REUSEADDR);
        }
        let request = match endpoint.serves {
            true => operation::BIND,
            false => operation::CONNECT,
        };
        let request = Nqe::new(request, number).with_address(endpoint.address);
        self.queues.submit(request.with_flags(flags));
        if endpoint.serves && endpoint.stream {
            let listen = Nqe::new(operation::LISTEN, number).with_data(BACKLOG);
            self.queues.submit(listen.with_flags(flags));
        }
    }

    /// Sets an option to 1.
    fn set_option(&mut self, number: u32, option: u64) {
        if let Some((offset, bytes)) = self.queues.take_chunk(number) {
            let value = 1u32.to_ne_bytes();
            bytes.write(&value);
            let set = Nqe::new(operation::SET_OPTION, number).with_data(option);
            self.queues
                .submit(set.with_chunk(offset, value.len() as u32));
        }
    }

    /// Closes a socket. What was sent before goes out.
    fn close(&mut self, number: u32) {
        self.end_chunk();
        let socket = &mut self.sockets[number as usize];
        let was_open = socket.state == State::Open;
        socket.state = State::Closing;
        socket.received.clear();
        let port = &mut self.ports[socket.port];
        let is_main = port.main == Some(number);
        if is_main {
            port.main = None;
        }
        if was_open && !(is_main && port.endpoint.serves) {
            port.status.open -= 1;
        }
        port.ready.retain(|&ready| ready != number);
        port.ended.retain(|&(ended, _)| ended != number);
        port.blocked.take_if(|blocked| *blocked == number);
        self.queues.submit(Nqe::new(operation::CLOSE, number));
    }

    /// Takes what CoreEngine delivered.
    pub(super) fn poll(&mut self) {
        while let Some(nqe) = self.queues.delivered() {
            self.take(nqe);
        }
        if self.ports.iter().any(|port| !port.ended.is_empty()) {
            let now = self.queues.surroundings.now();
            self.close_ended(|since| now.saturating_sub(since) > LINGER);
        }
    }

    /// As [`poll`](Self::poll), of a guest that has nothing else to do, before it sleeps.
    pub(super) fn rest(&mut self) {
        self.poll();
        self.close_ended(|_| true);
        self.flush();
        self.queues.set_sleeps();
        self.poll();
        self.flush();
    }

    /// Closes connections that the peers have ended, if what was sent is with the NSM and nothing waits to be sent.
    fn close_ended(&mut self, due: impl Fn(u64) -> bool) {
        for port in 0..self.ports.len() {
            let mut at = 0;
            while self.ports[port].blocked.is_none()
                && let Some(&(number, since)) = self.ports[port].ended.get(at)
            {
                if due(since) && self.sockets[number as usize].in_flight == 0 {
                    self.close(number);
                } else {
                    at += 1;
                }
            }
        }
    }

    fn take(&mut self, nqe: Nqe) {
        let number = nqe.socket;
        match nqe.operation {
            operation::RESULT => self.take_result(nqe),
            operation::INCOMING => {
                if let Some(socket) = self.open_socket(number) {
                    let port = socket.port;
                    self.ports[port].offered.push_back(nqe.len);
                    self.accept(port);
                }
            }
            operation::DATA | operation::DATAGRAM => {
                let Some(socket) = self.open_socket(number) else {
                    return;
                };
                let was_empty = socket.received.is_empty();
                // An NSM lends no more than this.
                if socket.received.len() < 2 * RECEIVE_WINDOW {
                    socket.received.push_back(nqe);
                }
                let port = socket.port;
                let port = &mut self.ports[port];
                let ready = &mut port.ready;
                // A port of datagrams has one socket, which waited for the rest of one.
                if was_empty || (!port.endpoint.stream && ready.is_empty()) {
                    ready.push_back(number);
                }
            }
            operation::END => {
                if let Some(socket) = self.open_socket(number) {
                    socket.ended = true;
                    self.pass_on_end(number);
                }
            }
            operation::SENT => {
                if self.queues.free_chunk(number, nqe.offset)
                    && let Some(socket) = self.sockets.get_mut(number as usize)
                {
                    socket.in_flight = socket.in_flight.saturating_sub(1);
                }
            }
            operation::FAILED => self.take_failure(nqe),
            operation::CLOSED => {
                self.queues.free_chunks(number);
                if let Some(socket) = self.sockets.get_mut(number as usize)
                    && socket.state == State::Closing
                {
                    let port = socket.port;
                    socket.state = State::Free;
                    self.free.push(number);
                    self.accept(port);
                }
            }
            _ => {}
        }
    }

    fn take_result(&mut self, nqe: Nqe) {
        let (number, asked, error) = (nqe.socket, nqe.flags, nqe.error());
        if asked == operation::SET_OPTION {
            self.queues.free_chunk(number, nqe.offset);
            return;
        }
        let Some(socket) = self.open_socket(number) else {
            return;
        };
        let at = socket.port;
        let endpoint = self.ports[at].endpoint;
        if error != 0 {
            let port = &mut self.ports[at];
            port.status.failed += 1;
            // The peer of an offered connection has gone before it was accepted.
            let is_main = port.main == Some(number);
            let down = is_main && error == ENETDOWN && asked == operation::SOCKET;
            let again = down && !port.waits;
            port.waits = again;
            if is_main {
                port.failed = !again && core::mem::take(&mut port.awaited);
                let what = Shown(endpoint);
                let why = Errno(error);
                let report = &self.queues.surroundings;
                report.report(format_args!("{what}: {why}"));
            }
            self.close(number);
            if again {
                // As a socket to restore, it is made when its NSM runs.
                self.start(at, RESTORED);
            }
            return;
        }
        let opens = match (endpoint.serves, endpoint.stream) {
            (true, true) => operation::LISTEN,
            (true, false) => operation::BIND,
            (false, _) => operation::CONNECT,
        };
        if asked != opens {
            return;
        }
        if endpoint.stream {
            // One that was restored has no options.
            self.set_option(number, TCP_NODELAY);
        }
        if self.sockets[number as usize].state == State::Opening {
            self.sockets[number as usize].state = State::Open;
            let port = &mut self.ports[at];
            (port.awaited, port.waits) = (false, false);
            if !endpoint.serves {
                port.status.open += 1;
                port.status.connections += 1;
            }
        }
    }

    /// Accepts the connections that are offered, as far as there are numbers.
    fn accept(&mut self, port: usize) {
        while let Some(&offered) = self.ports[port].offered.front() {
            let Some(number) = self.take_number(port, State::Open) else {
                return;
            };
            let accepted = Nqe::new(operation::ACCEPT, number).with_data(offered.into());
            self.queues.submit(accepted);
            let name = self.connection_name(number);
            let port = &mut self.ports[port];
            port.offered.pop_front();
            port.latest = name;
            port.status.open += 1;
            port.status.connections += 1;
        }
    }

    fn take_failure(&mut self, nqe: Nqe) {
        let number = nqe.socket;
        if nqe.flags & GONE != 0 {
            self.queues.free_chunks(number);
            if let Some(socket) = self.sockets.get_mut(number as usize) {
                socket.in_flight = 0;
            }
        }
        let Some(socket) = self.open_socket(number) else {
            return;
        };
        let port = socket.port;
        let Port {
            endpoint,
            main,
            status,
            offered,
            ..
        } = &mut self.ports[port];
        status.failed += 1;
        if *main == Some(number) && (endpoint.serves || !endpoint.stream) {
            // It is made again when its NSM is back; errors of datagrams are past.
            if nqe.flags & GONE != 0 {
                offered.clear();
            }
        } else {
            self.close(number);
        }
    }

    /// Notes that a connection has ended, if all that it received was passed on.
    fn pass_on_end(&mut self, number: u32) {
        let socket = &self.sockets[number as usize];
        let port = &mut self.ports[socket.port];
        let known = port.ended.iter().any(|&(ended, _)| ended == number);
        if socket.ended && socket.received.is_empty() && !known {
            let now = self.queues.surroundings.now();
            port.ended.push((number, now));
        }
    }

    /// Whether a port has received something.
    pub(super) fn has_received(&self, port: usize) -> bool {
        !self.ports[port].ready.is_empty()
    }

    /// The next socket that a packet can be received from. A datagram is there as a whole.
    pub(super) fn next_received(&mut self, port: usize) -> Option<u32> {
        let whole = |nqe: &Nqe| nqe.flags & abi::nqe::MORE == 0;
        let number = *self.ports[port].ready.front()?;
        let received = &self.sockets[number as usize].received;
        if self.ports[port].endpoint.stream || received.iter().any(whole) {
            return Some(number);
        }
        self.ports[port].ready.pop_front();
        None
    }

    /// The bytes of the first element that a socket has received.
    pub(super) fn front_received(&self, number: u32) -> Option<SharedBytes> {
        let socket = &self.sockets[number as usize];
        let first = socket.received.front()?;
        let bytes = self.queues.payload(first.offset, first.len)?;
        Some(bytes.skip(socket.taken))
    }

    /// Its flags.
    pub(super) fn front_flags(&self, number: u32) -> u8 {
        let first = self.sockets[number as usize].received.front();
        first.map_or(0, |first| first.flags)
    }

    /// Notes that so many bytes of the first element were taken. One that was taken as a whole is given back, and the
    /// next socket has its turn.
    pub(super) fn consume(&mut self, port: usize, number: u32, bytes: usize) {
        let socket = &mut self.sockets[number as usize];
        socket.taken = socket.taken.saturating_add(bytes);
        let Some(&first) = socket.received.front() else {
            return;
        };
        // None is taken of one that is not inside a chunk.
        if socket.taken < first.len as usize && bytes > 0 {
            return;
        }
        socket.taken = 0;
        socket.received.pop_front();
        let left = !socket.received.is_empty();
        let consumed = Nqe::new(operation::CONSUMED, number);
        self.queues
            .submit(consumed.with_chunk(first.offset, first.len));
        // Elements of one datagram follow each other.
        if first.flags & abi::nqe::MORE == 0 || self.ports[port].endpoint.stream {
            let ready = &mut self.ports[port].ready;
            ready.pop_front();
            if left {
                ready.push_back(number);
            }
        }
        self.pass_on_end(number);
    }

    /// Notes who sent the datagram that begins with these bytes.
    pub(super) fn note_sender(&mut self, port: usize, bytes: Option<SharedBytes>) {
        let head = bytes.and_then(|bytes| bytes.read_array(0));
        let from = head.and_then(|head| DatagramHead::from_bytes(&head).address);
        let port = &mut self.ports[port];
        let Some(from) = from.filter(|_| port.endpoint.serves) else {
            return;
        };
        let last = port.latest as usize % SENDERS;
        if port.senders.get(last) == Some(&from) && port.latest != 0 {
            return;
        }
        port.latest = port.latest.wrapping_add(1).max(1);
        let at = port.latest as usize % SENDERS;
        if at >= port.senders.len() {
            port.senders.resize(at + 1, from);
        }
        port.senders[at] = from;
    }

    /// The name of a packet's connection, or of a datagram's sender.
    pub(super) fn name_of(&self, port: usize, number: u32) -> u32 {
        match self.ports[port].endpoint {
            Endpoint {
                serves: true,
                stream: false,
                ..
            } => self.ports[port].latest,
            _ => self.connection_name(number),
        }
    }

    /// Whether a packet can be sent, as far as is known.
    pub(super) fn has_room(&self, port: usize) -> bool {
        let it = &self.ports[port];
        let has_window = |number: u32| self.sockets[number as usize].in_flight < SEND_WINDOW;
        let main = it
            .main
            .map(|number| (number, self.sockets[number as usize].state));
        self.queues.has_room()
            && match (it.endpoint.serves, it.endpoint.stream, main) {
                (true, true, _) => it.status.open > 0 && it.blocked.is_none_or(has_window),
                (true, false, Some((number, State::Open))) => it.latest != 0 && has_window(number),
                (false, _, Some((number, State::Open))) => has_window(number),
                // The next packet has it connect again.
                (false, _, None) => true,
                _ => false,
            }
    }

    /// Packets that waited for a connection that failed were dropped: the next one has it connect again.
    pub(super) fn forget_failure(&mut self, port: usize) {
        self.ports[port].failed = false;
    }

    /// Sends a packet by the connection that it names, or the last one.
    pub(super) fn send(&mut self, port: usize, name: u32, data: &[u8]) -> Sent {
        let it = &mut self.ports[port];
        let Endpoint { serves, stream, .. } = it.endpoint;
        let drop_it = |port: &mut Port| {
            port.status.drops += 1;
            Sent::Done
        };
        if it.failed {
            return drop_it(it);
        }
        let name = if name == 0 { it.latest } else { name };
        let main = it.main;
        let number = match (serves, stream, main) {
            (true, true, _) => self.connection(port, name),
            (true, false, main) => main,
            (false, _, Some(main)) => Some(main),
            (false, _, None) => {
                self.start(port, 0);
                self.ports[port].awaited = true;
                return Sent::Later;
            }
        };
        let Some(number) = number else {
            return drop_it(&mut self.ports[port]);
        };
        if self.sockets[number as usize].state != State::Open {
            self.ports[port].awaited = true;
            return Sent::Later;
        }
        let sent = match stream {
            true if data.is_empty() => {
                self.close(number);
                return Sent::Done;
            }
            true => self.put_stream(number, data),
            false => {
                let it = &mut self.ports[port];
                let head = match serves {
                    false => DatagramHead::new(None),
                    true => match it.sender(name) {
                        Some(to) => DatagramHead::new(Some(to)),
                        None => return drop_it(it),
                    },
                };
                if DatagramHead::LEN + data.len() > CHUNK_BYTES {
                    return drop_it(it);
                }
                self.put_datagram(number, head, data)
            }
        };
        self.ports[port].blocked = (!sent).then_some(number);
        if sent { Sent::Done } else { Sent::Later }
    }

    /// Adds bytes to what is sent as a whole; `false`: there is no room now.
    fn put_stream(&mut self, number: u32, data: &[u8]) -> bool {
        if let Some((socket, offset, len)) = self.open_chunk
            && socket == number
            && len + data.len() <= CHUNK_BYTES
            && let Some(bytes) = self.queues.payload(offset, CHUNK_BYTES as u32)
        {
            bytes.skip(len).write(data);
            self.open_chunk = Some((socket, offset, len + data.len()));
            return true;
        }
        self.end_chunk();
        let Some((offset, bytes)) = self.take_chunk(number) else {
            return false;
        };
        // A packet is no longer than a chunk.
        let len = bytes.write(data);
        self.open_chunk = Some((number, offset, len));
        true
    }

    fn put_datagram(&mut self, number: u32, head: DatagramHead, data: &[u8]) -> bool {
        let Some((offset, bytes)) = self.take_chunk(number) else {
            return false;
        };
        bytes.write(&head.to_bytes());
        let len = DatagramHead::LEN + bytes.skip(DatagramHead::LEN).write(data);
        let sent = Nqe::new(operation::SEND_TO, number);
        self.queues.submit(sent.with_chunk(offset, len as u32));
        true
    }

    fn take_chunk(&mut self, number: u32) -> Option<(u64, SharedBytes)> {
        let socket = &mut self.sockets[number as usize];
        if socket.in_flight >= SEND_WINDOW || !self.queues.has_room() {
            return None;
        }
        let chunk = self.queues.take_chunk(number)?;
        socket.in_flight += 1;
        Some(chunk)
    }

    /// Sends the chunk that bytes were added to.
    fn end_chunk(&mut self) {
        if let Some((number, offset, len)) = self.open_chunk.take() {
            let sent = Nqe::new(operation::SEND, number);
            self.queues.submit(sent.with_chunk(offset, len as u32));
        }
    }
}

impl Port {
    /// The sender of a datagram by its name, unless too many have come since.
    fn sender(&self, name: u32) -> Option<SocketAddr> {
        let age = self.latest.wrapping_sub(name) as usize;
        let known = name != 0 && age < SENDERS;
        known.then(|| self.senders.get(name as usize % SENDERS).copied())?
    }
}

/// An endpoint in messages.
struct Shown(Endpoint);

impl core::fmt::Display for Shown {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Endpoint {
            serves,
            stream,
            address,
        } = self.0;
        let class = if serves {
            "SocketServer"
        } else {
            "SocketClient"
        };
        let kind = if stream { "TCP" } else { "UDP" };
        write!(f, "{class}({kind}, {}, {})", address.ip(), address.port())
    }
}

/// An error of a network stack, by its number.
struct Errno(i32);

impl core::fmt::Display for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.0 {
            13 => "permission denied: its NSM may not use the port",
            23 | 24 | 105 => "the NSM has no room for another socket; see its limit ‘conns’",
            98 => "the address is in use; choose another port, or end the program that has it",
            99 => "the NSM does not have the address; give it to the NSM, or use 0.0.0.0",
            ENETDOWN => "the NSM does not run; it is waited for; see `weir nsm ls`",
            101 => "the NSM has no route to it; add one in the NSM's network",
            104 => "the connection was reset",
            110 => "no answer",
            111 => "connection refused; start the server first",
            113 => "the NSM does not reach it; look for its address and its routes",
            other => return write!(f, "error {other} (errno)"),
        })
    }
}
