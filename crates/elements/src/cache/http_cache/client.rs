//! A client's connection: its requests, one after another, and what it gets.

use core::fmt::Write;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State as TcpState};

use super::Cache;
use crate::cache::conditions::{self, Part};
use crate::cache::control::Control;
use crate::cache::date::Date;
use crate::cache::framing::Body;
use crate::cache::head::{self, HEAD_MAX, Method, Refused, Request};
use crate::cache::store::ObjectId;
use crate::prelude::*;

/// Bytes of the socket's buffers.
pub const RECEIVE: usize = 8 << 10;
/// See [`RECEIVE`].
pub const SEND: usize = 32 << 10;
/// Most bytes of a request's body.
const BODY_MAX: usize = 64 << 10;
/// Nanoseconds without progress after which a connection ends.
const PATIENCE: u64 = 60_000_000_000;
/// Bytes around a chunk's data.
const CHUNK: usize = 16;

/// A connection.
pub struct Client {
    /// Its socket.
    pub socket: SocketHandle,
    /// Bytes that were received and not read yet.
    input: Vec<u8>,
    state: State,
    /// Whether the connection ends after the answer.
    closes: bool,
    deadline: Steady,
    /// The number of its handshake, while that goes on.
    pub handshake: Option<u64>,
    /// Whether it is one of the connections that may be open.
    pub is_admitted: bool,
    is_over: bool,
}

enum State {
    /// The head of a request is read.
    Head,
    /// The body of a request is read.
    Body {
        request: Request,
        body: Body,
        bytes: Vec<u8>,
    },
    /// The origin is asked; `is_first`: for this client.
    Waiting {
        request: Request,
        fetch: usize,
        is_first: bool,
    },
    /// An answer is sent.
    Sending(Answer),
    /// The connection is being closed.
    Closing,
}

/// An answer on its way.
struct Answer {
    head: Vec<u8>,
    sent: usize,
    /// What the body is of; none if there is none.
    object: Option<ObjectId>,
    /// The position in the object's body, and that of the end, if it is known.
    at: u64,
    end: Option<u64>,
    is_chunked: bool,
}

/// What came of a request to the origin.
#[derive(Clone, Copy)]
pub enum Outcome {
    /// An object; `is_shared`: it may be the answer to others too.
    Object {
        id: ObjectId,
        is_shared: bool,
        note: &'static str,
    },
    /// A status, and a sentence.
    Failed(u16, &'static str),
}

/// Receives bytes until there are `most`; returns how many came.
pub fn receive(socket: &mut Socket<'_>, input: &mut Vec<u8>, most: usize) -> usize {
    let before = input.len();
    while input.len() < most && socket.can_recv() {
        let room = most - input.len();
        let took = socket.recv(|bytes| {
            let part = &bytes[..bytes.len().min(room)];
            input.extend_from_slice(part);
            (part.len(), part.len())
        });
        if took.unwrap_or(0) == 0 {
            break;
        }
    }
    input.len() - before
}

/// Whether nothing more is to be done with a socket.
pub fn is_spent(socket: &Socket<'_>) -> bool {
    // An aborted one has to send its reset first.
    socket.state() == TcpState::TimeWait || !socket.is_open() && socket.remote_endpoint().is_none()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        // It may be left out.
        _ => "",
    }
}

impl Client {
    /// A socket that waits for a client.
    pub fn new(socket: SocketHandle) -> Client {
        Client {
            socket,
            input: Vec::new(),
            state: State::Head,
            closes: false,
            deadline: Steady(0),
            handshake: None,
            is_admitted: false,
            is_over: false,
        }
    }

    /// The client, unless its connection has ended.
    pub fn keep(self, cache: &mut Cache) -> Option<Client> {
        if self.is_over && is_spent(cache.stack.socket(self.socket)) {
            cache.stack.remove(self.socket);
            return None;
        }
        Some(self)
    }

    /// Its position in the body of an object that it gets.
    pub fn position(&self, object: ObjectId) -> Option<u64> {
        match &self.state {
            State::Sending(answer) if answer.object == Some(object) => Some(answer.at),
            _ => None,
        }
    }

    /// Does what can be done now; true if that is something.
    pub fn step(&mut self, cache: &mut Cache) -> bool {
        let now = cache.steady;
        let socket = cache.stack.socket(self.socket);
        if socket.is_listening() || self.deadline == Steady(0) {
            self.deadline = now.after(PATIENCE);
        }
        if self.is_over || socket.is_listening() {
            return false;
        }
        if now > self.deadline {
            socket.abort();
        }
        if !socket.is_active() {
            self.end(cache);
            return false;
        }
        let worked = match core::mem::replace(&mut self.state, State::Head) {
            State::Head => self.read_head(cache),
            State::Body {
                request,
                body,
                bytes,
            } => self.read_body(cache, request, body, bytes),
            State::Sending(answer) => self.send(cache, answer),
            State::Closing => {
                self.state = State::Closing;
                // What comes now is for nobody.
                self.input.clear();
                receive(cache.stack.socket(self.socket), &mut self.input, HEAD_MAX) > 0
            }
            waiting @ State::Waiting { .. } => {
                self.state = waiting;
                // The deadline of the request to the origin counts.
                self.deadline = now.after(PATIENCE);
                false
            }
        };
        if worked {
            self.deadline = now.after(PATIENCE);
        }
        worked
    }

    /// Ends it: the connection is no more.
    fn end(&mut self, cache: &mut Cache) {
        if let State::Sending(answer) = core::mem::replace(&mut self.state, State::Closing)
            && let Some(object) = answer.object
        {
            cache.store.release(object);
        }
        self.is_over = true;
    }

    fn close(&mut self, cache: &mut Cache) {
        cache.stack.socket(self.socket).close();
        self.state = State::Closing;
    }

    fn read_head(&mut self, cache: &mut Cache) -> bool {
        let socket = cache.stack.socket(self.socket);
        let came = receive(socket, &mut self.input, HEAD_MAX) > 0;
        match head::request(&self.input) {
            Ok(None) => {
                let socket = cache.stack.socket(self.socket);
                if socket.state() != TcpState::SynReceived && !socket.may_recv() {
                    self.close(cache);
                    return true;
                }
                came
            }
            Ok(Some((mut request, size))) => {
                self.input.drain(..size);
                let body = Body::new(request.framing);
                if body.is_done() {
                    self.handle(cache, request, Vec::new(), false);
                } else {
                    let expects = request
                        .fields
                        .items("expect")
                        .contains(&"100-continue".into());
                    if expects && request.is_current {
                        let socket = cache.stack.socket(self.socket);
                        // The buffer is empty: an answer begins when the one before it is sent.
                        let _ = socket.send_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    request.fields.remove(&["expect"]);
                    self.state = State::Body {
                        request,
                        body,
                        bytes: Vec::new(),
                    };
                }
                true
            }
            Err(refused) => {
                self.refuse(cache, refused);
                true
            }
        }
    }

    fn refuse(&mut self, cache: &mut Cache, Refused(status, why): Refused) {
        cache.counts.refused += 1;
        self.closes = true;
        self.say(status, why, true);
    }

    fn read_body(
        &mut self,
        cache: &mut Cache,
        request: Request,
        mut body: Body,
        mut bytes: Vec<u8>,
    ) -> bool {
        let socket = cache.stack.socket(self.socket);
        let came = receive(socket, &mut self.input, HEAD_MAX) > 0;
        let is_at_end = !came && !socket.may_recv();
        let most = BODY_MAX + 1 - bytes.len();
        let read = body.read(&self.input, most, |part| bytes.extend_from_slice(part));
        let Ok(count) = read else {
            self.refuse(cache, Refused(400, "the body's chunks cannot be read"));
            return true;
        };
        self.input.drain(..count);
        if bytes.len() > BODY_MAX {
            self.refuse(cache, Refused(413, "the body has more than 65536 bytes"));
        } else if body.is_done() {
            self.handle(cache, request, bytes, false);
        } else if is_at_end {
            cache.stack.socket(self.socket).abort();
            self.end(cache);
        } else {
            self.state = State::Body {
                request,
                body,
                bytes,
            };
        }
        came || count > 0
    }

    /// Answers a request by an object, or has the origin asked; `is_alone`: not together with other clients.
    fn handle(&mut self, cache: &mut Cache, mut request: Request, body: Vec<u8>, is_alone: bool) {
        self.closes = request.closes;
        let control = Control::of(&request.fields);
        if let Method::Options | Method::Trace = request.method
            && !request.fields.forward()
        {
            let why = "Max-Forwards is 0, and the cache answers no OPTIONS and TRACE of its own";
            return self.say(501, why, true);
        }
        let (mut key, mut former) = (None, None);
        if Cache::is_cached(&request) && body.is_empty() {
            let own = Cache::key(&request);
            if let Some(id) = cache.store.find(&own, &request.fields)
                && let Some(object) = cache.store.get(id)
            {
                if object.life.is_fresh(cache.wall, &control) {
                    cache.counts.hits += 1;
                    return self.respond(cache, &request, id, Some("hit"));
                }
                former = Some(id).filter(|_| object.is_whole);
            }
            if control.only_if_cached {
                return self.say(
                    504,
                    "there is no fresh object",
                    request.method != Method::Head,
                );
            }
            let is_whole = request.fields.get("range").is_none() || former.is_some();
            key = Some(own).filter(|_| request.method == Method::Get && is_whole);
        }
        let Some(key) = key else {
            cache.counts.passed += 1;
            let fetch = cache.fetch(&request, body, None, None);
            return self.wait(request, fetch, true);
        };
        if let Some(fetch) = cache.fetch_of(&key).filter(|_| !is_alone) {
            return self.wait(request, fetch, false);
        }
        cache.counts.misses += 1;
        if let Some(former) = former {
            cache.store.hold(former);
        }
        let key = Some((key, is_alone));
        let fetch = cache.fetch(&request, body, key, former);
        self.wait(request, fetch, true);
    }

    fn wait(&mut self, request: Request, fetch: usize, is_first: bool) {
        self.state = State::Waiting {
            request,
            fetch,
            is_first,
        };
    }

    /// Takes what came of a request to the origin, if it is the one that is waited for.
    pub fn answer(&mut self, number: usize, cache: &mut Cache, outcome: Outcome) {
        if !matches!(&self.state, State::Waiting { fetch, .. } if *fetch == number) {
            return;
        }
        let State::Waiting {
            request, is_first, ..
        } = core::mem::replace(&mut self.state, State::Head)
        else {
            return;
        };
        match outcome {
            Outcome::Failed(status, why) => {
                self.say(status, why, request.method != Method::Head);
            }
            Outcome::Object {
                id,
                is_shared,
                note,
            } => {
                let suits = cache
                    .store
                    .get(id)
                    .is_some_and(|it| it.suits(&request.fields));
                if is_first {
                    self.respond(cache, &request, id, is_shared.then_some(note));
                } else if is_shared && suits {
                    cache.counts.hits += 1;
                    self.respond(cache, &request, id, Some("hit; collapsed"));
                } else {
                    self.handle(cache, request, Vec::new(), true);
                }
            }
        }
    }

    /// Begins an answer of one sentence.
    fn say(&mut self, status: u16, why: &str, has_body: bool) {
        let mut head = format!(
            "HTTP/1.1 {status} {}\r\nvia: 1.1 weir\r\ncache-status: weir; detail=\"{why}\"\r\n\
             content-type: text/plain\r\ncontent-length: {}\r\nconnection: {}\r\n\r\n",
            reason(status),
            why.len() + 1,
            if self.closes { "close" } else { "keep-alive" },
        );
        if has_body {
            head += why;
            head.push('\n');
        }
        self.state = State::Sending(Answer {
            head: head.into_bytes(),
            sent: 0,
            object: None,
            at: 0,
            end: Some(0),
            is_chunked: false,
        });
    }

    /// Begins an answer of an object. `note` says how the cache came to it; without one, it is the
    /// origin's own answer to this request.
    fn respond(&mut self, cache: &mut Cache, request: &Request, id: ObjectId, note: Option<&str>) {
        let Some(object) = cache.store.get(id) else {
            return self.say(502, "the object is gone", request.method != Method::Head);
        };
        let fields = &request.fields;
        let part = match object.length {
            _ if note.is_none() || object.status != 200 => Part::Whole,
            Some(length) => conditions::part(
                fields,
                &object.fields,
                length,
                request.method == Method::Get,
            ),
            None if conditions::is_known(fields, &object.fields) => Part::NotModified,
            None => Part::Whole,
        };
        let (status, at, end) = match part {
            Part::Whole => (object.status, 0, object.length),
            Part::Range(from, end) => (206, from, Some(end)),
            Part::NotModified => (304, 0, Some(0)),
            Part::Unsatisfiable => (416, 0, Some(0)),
        };
        let has_body = request.method != Method::Head && !matches!(status, 204 | 304);
        let is_chunked = has_body && end.is_none() && request.is_current;
        self.closes |= has_body && end.is_none() && !request.is_current;
        let mut head = Vec::with_capacity(1024);
        head.extend_from_slice(format!("HTTP/1.1 {status} {}\r\n", reason(status)).as_bytes());
        let mut own = object.fields.clone();
        let mut lines = String::new();
        if note.is_some() {
            own.remove(&["age"]);
            let _ = write!(lines, "age: {}\r\n", object.life.age(cache.wall));
        }
        own.write(&mut head);
        let whole = object
            .length
            .map_or("*".to_string(), |length| length.to_string());
        // What is written to a text is written.
        let _ = match part {
            Part::Range(from, end) => {
                write!(lines, "content-range: bytes {from}-{}/{whole}\r\n", end - 1)
            }
            Part::Unsatisfiable => write!(lines, "content-range: bytes */{whole}\r\n"),
            _ => Ok(()),
        };
        if own.get("date").is_none() {
            let _ = write!(lines, "date: {}\r\n", Date(cache.wall));
        }
        let note = note.unwrap_or("fwd=request");
        let _ = write!(lines, "via: 1.1 weir\r\ncache-status: weir; {note}\r\n");
        let _ = match end {
            _ if matches!(status, 204 | 304) || own.get("content-length").is_some() => Ok(()),
            Some(end) => write!(lines, "content-length: {}\r\n", end - at),
            None if is_chunked => write!(lines, "transfer-encoding: chunked\r\n"),
            None => Ok(()),
        };
        let connection = if self.closes { "close" } else { "keep-alive" };
        let _ = write!(lines, "connection: {connection}\r\n\r\n");
        head.extend_from_slice(lines.as_bytes());
        let object = Some(id).filter(|_| has_body && end != Some(at));
        if let Some(object) = object {
            cache.store.hold(object);
        }
        self.state = State::Sending(Answer {
            head,
            sent: 0,
            object,
            at,
            end,
            is_chunked,
        });
    }

    /// Sends as much as there is room for.
    fn send(&mut self, cache: &mut Cache, mut answer: Answer) -> bool {
        let Cache { stack, store, .. } = cache;
        let socket = stack.socket(self.socket);
        if !socket.may_send() {
            socket.abort();
            self.state = State::Sending(answer);
            self.end(cache);
            return true;
        }
        let mut worked = false;
        let is_done = loop {
            let room = socket.send_capacity() - socket.send_queue();
            if answer.sent < answer.head.len() {
                let count = socket.send_slice(&answer.head[answer.sent..]).unwrap_or(0);
                answer.sent += count;
                worked |= count > 0;
                if answer.sent < answer.head.len() {
                    break false;
                }
                continue;
            }
            let Some(id) = answer.object else {
                break true;
            };
            let Some(object) = store.get(id).filter(|object| !object.is_broken) else {
                // The client sees that it is not whole.
                socket.abort();
                self.state = State::Sending(answer);
                self.end(cache);
                return true;
            };
            let end = answer.end.or(object.is_whole.then(|| object.end()));
            let left = end.map_or(usize::MAX, |end| (end - answer.at) as usize);
            if left == 0 {
                if answer.is_chunked {
                    if room < CHUNK {
                        break false;
                    }
                    let _ = socket.send_slice(b"0\r\n\r\n");
                }
                break true;
            }
            let bytes = object.bytes(answer.at);
            let bytes = &bytes[..bytes.len().min(left)];
            let count = if answer.is_chunked {
                let count = bytes.len().min(room.saturating_sub(CHUNK));
                if count > 0 {
                    // There is room for all three.
                    let _ = socket.send_slice(format!("{count:x}\r\n").as_bytes());
                    let _ = socket.send_slice(&bytes[..count]);
                    let _ = socket.send_slice(b"\r\n");
                }
                count
            } else {
                socket.send_slice(bytes).unwrap_or(0)
            };
            if count == 0 {
                break false;
            }
            answer.at += count as u64;
            worked = true;
        };
        if !is_done {
            self.state = State::Sending(answer);
            return worked;
        }
        if let Some(object) = answer.object {
            store.release(object);
        }
        match self.closes {
            true => self.close(cache),
            false => self.state = State::Head,
        }
        true
    }
}
