//! A request to the origin, and the object that comes of it.

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::RecvError;

use super::Cache;
use super::client::{Outcome, is_spent, receive};
use crate::cache::control::{self, Life};
use crate::cache::framing::Body;
use crate::cache::head::{self, Framing, HEAD_MAX, Method, Request, Response, Unreadable};
use crate::cache::store::{Object, ObjectId};
use crate::prelude::*;

/// Bytes of the socket's buffers.
pub const RECEIVE: usize = 32 << 10;
/// See [`RECEIVE`].
pub const SEND: usize = 8 << 10;
/// Nanoseconds until the head of the answer is there, and then between two parts of the body.
const PATIENCE: u64 = 30_000_000_000;
/// Bytes of an object that is not kept which wait for its slowest client, at most.
const WINDOW: u64 = 64 << 10;

/// A request to the origin.
pub struct Fetch {
    /// The name of the object, if it may be kept.
    pub key: Option<String>,
    /// Whether other clients may wait for it.
    is_shared: bool,
    request: Request,
    /// The object that is to be validated.
    former: Option<ObjectId>,
    socket: Option<SocketHandle>,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    state: State,
    /// When it was sent, in seconds since 1970.
    asked: i64,
    deadline: Steady,
    is_over: bool,
}

enum State {
    /// It waits until fewer are at the origin.
    Queued,
    Sending,
    Head,
    Body {
        object: ObjectId,
        body: Body,
    },
    Done,
}

impl Fetch {
    /// A request of a client, with its body. `key` is the object's name, and whether the client wants it alone.
    pub fn new(
        request: &Request,
        body: Vec<u8>,
        key: Option<(String, bool)>,
        former: Option<ObjectId>,
        now: Steady,
    ) -> Fetch {
        let is_shared = key.as_ref().is_some_and(|(_, is_alone)| !is_alone);
        Fetch {
            key: key.map(|(key, _)| key),
            is_shared,
            request: request.clone(),
            former,
            socket: None,
            out: body,
            sent: 0,
            input: Vec::new(),
            state: State::Queued,
            asked: 0,
            deadline: now.after(PATIENCE),
            is_over: false,
        }
    }

    /// Whether other clients may wait for its answer, which is not there yet.
    pub fn is_unanswered(&self) -> bool {
        self.is_shared && matches!(self.state, State::Queued | State::Sending | State::Head)
    }

    /// Whether it has a socket.
    pub fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// The fetch, unless it is over.
    pub fn keep(mut self, cache: &mut Cache) -> Option<Fetch> {
        if !self.is_over {
            return Some(self);
        }
        if let Some(socket) = self.socket.filter(|it| is_spent(cache.stack.socket(*it))) {
            cache.stack.remove(socket);
            self.socket = None;
        }
        self.socket.is_some().then_some(self)
    }

    /// The request, as the origin gets it; the body is in `out` already.
    fn write(&mut self, cache: &Cache) {
        let request = &mut self.request;
        let mut fields = request.fields.clone();
        if self.key.is_some() {
            fields.remove(&["if-range", "range"]);
        }
        // Without an object, the client's own conditions count: a 304 is passed on, and not stored.
        if self.former.is_some() {
            fields.remove(&["if-none-match", "if-modified-since"]);
        }
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            request.method.name(),
            request.target,
            request.host
        )
        .into_bytes();
        fields.write(&mut text);
        let former = self.former.and_then(|former| cache.store.get(former));
        for (own, condition) in [
            ("etag", "if-none-match"),
            ("last-modified", "if-modified-since"),
        ] {
            if let Some(value) = former.and_then(|object| object.fields.get(own)) {
                text.extend_from_slice(condition.as_bytes());
                text.extend_from_slice(b": ");
                text.extend_from_slice(value);
                text.extend_from_slice(b"\r\n");
            }
        }
        if !self.out.is_empty() || !request.method.is_safe() {
            text.extend_from_slice(format!("content-length: {}\r\n", self.out.len()).as_bytes());
        }
        text.extend_from_slice(b"via: 1.1 weir\r\nconnection: close\r\n\r\n");
        text.append(&mut self.out);
        self.out = text;
    }

    /// Does what can be done now; true if that is something.
    pub fn step(&mut self, at: usize, cache: &mut Cache) -> bool {
        if self.is_over {
            return false;
        }
        let now = cache.steady;
        let worked = match (self.socket, &self.state) {
            (None, _) => self.open(at, cache),
            (Some(socket), State::Done) => {
                let socket = cache.stack.socket(socket);
                if now > self.deadline {
                    socket.abort();
                }
                self.is_over = !socket.is_active();
                return false;
            }
            (Some(socket), State::Body { object, .. }) if now > self.deadline => {
                let object = *object;
                self.break_off(cache, object, socket);
                return true;
            }
            (Some(_), _) if now > self.deadline => {
                self.fail(at, cache, 504, "the origin does not answer");
                return true;
            }
            (Some(socket), State::Body { .. }) => self.read_body(cache, socket),
            (Some(socket), State::Head) => self.read_head(at, cache, socket),
            (Some(socket), _) => self.send(at, cache, socket),
        };
        if worked && matches!(self.state, State::Body { .. } | State::Done) {
            self.deadline = now.after(PATIENCE);
        }
        worked
    }

    fn open(&mut self, at: usize, cache: &mut Cache) -> bool {
        let open = cache
            .fetches
            .iter()
            .flatten()
            .filter(|fetch| fetch.is_open())
            .count();
        if open >= cache.settings.fetches {
            if cache.steady > self.deadline {
                self.fail(at, cache, 504, "the origin has too many requests");
                return true;
            }
            return false;
        }
        self.write(cache);
        self.asked = cache.wall;
        let settings = cache.settings;
        let socket = cache
            .stack
            .connect(settings.source, settings.origin, RECEIVE, SEND);
        self.socket = Some(socket);
        self.state = State::Sending;
        true
    }

    /// Ends it: all that is left is to close the connection.
    fn finish(&mut self, cache: &mut Cache) {
        if let Some(former) = self.former.take() {
            cache.store.release(former);
        }
        if let State::Body { object, .. } = core::mem::replace(&mut self.state, State::Done) {
            cache.store.release(object);
        }
        match self.socket {
            Some(socket) => cache.stack.socket(socket).close(),
            None => self.is_over = true,
        }
    }

    /// Tells the clients that wait what came of it.
    fn tell(&self, at: usize, cache: &mut Cache, outcome: Outcome) {
        for slot in 0..cache.clients.len() {
            if let Some(mut client) = cache.clients[slot].take() {
                client.answer(at, cache, outcome);
                cache.clients[slot] = Some(client);
            }
        }
    }

    /// The origin has not answered, or not rightly.
    fn fail(&mut self, at: usize, cache: &mut Cache, status: u16, why: &'static str) {
        cache.counts.failed += 1;
        if let Some(socket) = self.socket {
            cache.stack.socket(socket).abort();
        }
        // An object that is stale may be better than none.
        let former = self.former.and_then(|former| cache.store.get(former));
        let may_use = |life: &Life| !life.must_revalidate && !life.no_cache;
        let outcome = match (self.former, former.is_some_and(|it| may_use(&it.life))) {
            (Some(id), true) => Outcome::Object {
                id,
                is_shared: true,
                note: "hit; detail=\"stale: the origin does not answer\"",
            },
            _ => Outcome::Failed(status, why),
        };
        self.is_shared = false;
        self.tell(at, cache, outcome);
        self.finish(cache);
    }

    fn send(&mut self, at: usize, cache: &mut Cache, socket: SocketHandle) -> bool {
        let socket = cache.stack.socket(socket);
        if !socket.is_active() {
            self.fail(at, cache, 502, "the origin refuses connections");
            return true;
        }
        if !socket.may_send() {
            return false;
        }
        let count = socket.send_slice(&self.out[self.sent..]).unwrap_or(0);
        self.sent += count;
        if self.sent == self.out.len() {
            self.out = Vec::new();
            self.state = State::Head;
        }
        count > 0
    }

    fn read_head(&mut self, at: usize, cache: &mut Cache, handle: SocketHandle) -> bool {
        let socket = cache.stack.socket(handle);
        let came = receive(socket, &mut self.input, HEAD_MAX) > 0;
        let is_at_end = !socket.may_recv();
        match head::response(&self.input, &self.request.method) {
            Ok(Some((response, size))) => {
                self.input.drain(..size);
                // Informational ones come before the answer.
                if response.status >= 200 {
                    self.take(at, cache, response);
                }
                true
            }
            Ok(None) if !is_at_end => came,
            _ => {
                self.fail(at, cache, 502, "the origin's answer cannot be read");
                true
            }
        }
    }

    /// Takes the head of the origin's answer.
    fn take(&mut self, at: usize, cache: &mut Cache, response: Response) {
        let now = cache.wall;
        if let Some(former) = self.former.filter(|_| response.status == 304) {
            self.renew(cache, former, response);
            self.is_shared = false;
            let outcome = Outcome::Object {
                id: former,
                is_shared: true,
                note: "hit; fwd=stale; fwd-status=304",
            };
            self.tell(at, cache, outcome);
            return self.finish(cache);
        }
        let is_short =
            !matches!(response.framing, Framing::Length(length) if length > cache.settings.object);
        let life = control::life(&self.request, &response, self.asked, now);
        let life = life.filter(|_| self.key.is_some() && is_short);
        let key = Cache::key(&self.request);
        if !self.request.method.is_safe() && response.status < 400 {
            cache.store.purge(Some(&key));
        }
        let mut object = Object::new(
            key,
            &self.request.fields,
            response.status,
            response.fields,
            life.unwrap_or_default(),
        );
        if let Framing::Length(length) = response.framing {
            object.length = Some(length);
        }
        let id = cache.store.add(object);
        let is_stored = life.is_some() && cache.store.store(id, &self.request);
        if let Some(former) = self.former.filter(|_| !is_stored && response.status < 500) {
            // It was replaced by one that is not kept.
            cache.store.unstore(former);
        }
        self.state = State::Body {
            object: id,
            body: Body::new(response.framing),
        };
        let is_shared = self.key.is_some();
        let note = if self.former.is_some() {
            "fwd=stale; stored"
        } else {
            "fwd=uri-miss; stored"
        };
        let outcome = Outcome::Object {
            id,
            is_shared: is_shared && is_stored,
            note,
        };
        self.tell(at, cache, outcome);
    }

    /// Gives a stored object the fields of an answer that says it is still right (RFC 9111, section 4.3.4).
    fn renew(&mut self, cache: &mut Cache, former: ObjectId, mut response: Response) {
        cache.counts.revalidated += 1;
        response
            .fields
            .remove(&["content-encoding", "content-type", "content-range"]);
        let Some(object) = cache.store.get_mut(former) else {
            return;
        };
        object.fields.update(&response.fields);
        let renewed = Response {
            status: object.status,
            fields: object.fields.clone(),
            ..response
        };
        let life = control::life(&self.request, &renewed, self.asked, cache.wall);
        match life {
            Some(life) => object.life = life,
            None => cache.store.unstore(former),
        }
    }

    fn read_body(&mut self, cache: &mut Cache, handle: SocketHandle) -> bool {
        let mut worked = false;
        loop {
            let State::Body { object: id, body } = &mut self.state else {
                return worked;
            };
            let id = *id;
            let Some(object) = cache.store.get(id) else {
                return worked;
            };
            if object.is_stored() && object.end() > cache.settings.object {
                cache.store.unstore(id);
                continue;
            }
            if !object.is_stored() && !body.is_done() {
                let end = object.end();
                match cache.slowest(id) {
                    Some(position) => {
                        cache.store.cut(id, position);
                        if end - position >= WINDOW {
                            // The client is slow, and not the origin.
                            self.deadline = cache.steady.after(PATIENCE);
                            return worked;
                        }
                    }
                    // Nobody wants it any more.
                    None => {
                        cache.stack.socket(handle).abort();
                        self.finish(cache);
                        return true;
                    }
                }
            }
            let Cache { stack, store, .. } = cache;
            if body.is_done() {
                self.complete(cache, id);
                return true;
            }
            let room = store.prepare(id);
            if room == 0 {
                if store.get(id).is_some_and(Object::is_stored) {
                    store.unstore(id);
                    continue;
                }
                return worked;
            }
            let socket = stack.socket(handle);
            let read = if self.input.is_empty() {
                let took = socket.recv(|bytes| {
                    let read = body.read(bytes, room, |part| store.append(id, part));
                    (*read.as_ref().unwrap_or(&0), read)
                });
                match took {
                    Ok(read) => read,
                    // Without a FIN, the end of the connection is not that of the body (RFC 9112, section 8).
                    Err(RecvError::Finished) if *body == Body::Close => {
                        self.complete(cache, id);
                        return true;
                    }
                    Err(_) => Err(Unreadable),
                }
            } else {
                let read = body.read(&self.input, room, |part| store.append(id, part));
                self.input.drain(..*read.as_ref().unwrap_or(&0));
                read
            };
            match read {
                Ok(0) if !body.is_done() => return worked,
                Ok(_) => worked = true,
                Err(Unreadable) => {
                    self.break_off(cache, id, handle);
                    return true;
                }
            }
        }
    }

    /// The body ends before it is whole: its clients see that by a reset, and no others get it.
    fn break_off(&mut self, cache: &mut Cache, id: ObjectId, socket: SocketHandle) {
        cache.counts.failed += 1;
        if let Some(object) = cache.store.get_mut(id) {
            object.is_broken = true;
        }
        cache.store.unstore(id);
        cache.stack.socket(socket).abort();
        self.finish(cache);
    }

    /// The body is whole.
    fn complete(&mut self, cache: &mut Cache, id: ObjectId) {
        if let Some(object) = cache.store.get_mut(id) {
            object.is_whole = true;
            if self.request.method != Method::Head {
                object.length = Some(object.end());
            }
        }
        self.finish(cache);
    }
}
