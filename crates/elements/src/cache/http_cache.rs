mod client;
mod fetch;
#[cfg(test)]
mod tests;

use client::Client;
use fetch::Fetch;
use smoltcp::socket::tcp::State;

use super::head::{Method, Request};
use super::stack::Stack;
use super::store::{ObjectId, Store};
use crate::prelude::*;

/// Connections that may be opened at a time, beyond those that are open.
const BACKLOG: usize = 8;
/// Handshakes that go on at a time; a further one takes the place of the oldest.
const HANDSHAKES: usize = 64;
/// Rounds over all connections in one run of the task.
const ROUNDS: usize = 16;
/// Nanoseconds between two looks at the deadlines.
const TICK: u64 = 1_000_000_000;
const MEMORY_MAX: u32 = 1 << 30;
const CLIENTS_MAX: u32 = 1 << 14;
/// Memory that each connection takes.
const CLIENT_BYTES: usize = client::RECEIVE + client::SEND + 16_384;
const FETCH_BYTES: usize = fetch::RECEIVE + fetch::SEND + 16_384;

/// Caches the objects of a web server: answers HTTP requests by objects that it keeps, and gets others from ORIGIN.
///
/// Packets to ADDRESS come in without an Ethernet header, and leave with their destination annotation set. The element
/// has TCP of its own (smoltcp). It takes requests of HTTP/1.1 and 1.0 at PORT, and passes them to
/// ORIGIN from SOURCE, each by a connection of its own, with the Host that the client gave.
///
/// Objects are kept as RFC 9111 says of a shared cache: responses to GET with an `s-maxage`, `max-age`, `Expires` or
/// `Last-Modified`, or with a validator, unless a `no-store` or `private`, a `Set-Cookie`, or a request's `Authorization`
/// forbids it. `Vary` is obeyed: an object has a variant for each set of values of the fields that it names.
/// An object that is not fresh is validated by its `ETag` or `Last-Modified`. If the origin does not answer, it is used all
/// the same, unless `must-revalidate`, `proxy-revalidate`, `s-maxage` or `no-cache` forbids it. Clients get `Age`, `Via`
/// and `Cache-Status` (RFC 9211). Conditions, and ranges of one part, are answered from a whole object; a range of an
/// object that is not there is passed to the origin, and so are HEAD and methods other than GET; the latter
/// but for OPTIONS and TRACE drop the object. Conditions about an object that is not there are the origin's to answer.
///
/// CONNECT is refused. OPTIONS and TRACE with a Max-Forwards of 0 are not answered by the cache itself (501).
///
/// Several clients that want one object at a time share one request to the origin; each gets the bytes as they
/// come. An object longer than OBJECT bytes is passed on and not kept. Objects take MEMORY bytes at most; those that
/// were used least recently make room for others.
///
/// Heads of more than 8192 bytes or 64 fields are refused, and so are heads that a neighbor may read otherwise: several
/// Content-Length fields, or one with a Transfer-Encoding, an encoding other than `chunked`, folded lines. A request's body may
/// have 65536 bytes. There are CLIENTS connections of clients at most; further ones are refused (RST) until one
/// ends. Beside them, 64 handshakes go on at a time; a further one takes the place of the oldest. FETCHES requests
/// are at the origin at a time; others wait. A connection that is silent for 60 seconds
/// ends. A request is answered by an error if it has no answer after 30 seconds, those included in which it waits. If
/// the body then pauses for 30 seconds, or ends by a reset, its clients get a reset, and the object is not kept.
///
/// # Example
/// ```click
/// FromNetfront(net) -> Strip(14) -> CheckIPHeader
///     -> HTTPCache(10.0.0.1, 10.0.0.2) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToNetfront(net);
/// ```
///
/// # See also
/// FlowIPLoadBalancer, TCPReset
#[derive(Element)]
#[element(ports = "1/1", processing = "h/h", handlers, task)]
#[inputs("packets to ADDRESS and SOURCE")]
#[outputs("packets from these")]
pub struct HTTPCache {
    /// The address that clients connect to.
    #[arg(mandatory)]
    address: Ipv4Addr,
    /// The address of the origin server.
    #[arg(mandatory)]
    origin: Ipv4Addr,
    /// The port that clients connect to.
    #[arg(default = 80)]
    port: u16,
    /// The port of the origin server.
    #[arg(default = 80)]
    origin_port: u16,
    /// The address of the connections to the origin.
    #[arg(default_text = "ADDRESS")]
    source: Option<Ipv4Addr>,
    /// Bytes of all objects.
    #[arg(default = 8 << 20)]
    memory: u32,
    /// Bytes of the longest object that is kept.
    #[arg(default = 1 << 20)]
    object: u32,
    /// Most connections of clients.
    #[arg(default = 64)]
    clients: u32,
    /// Most requests at the origin at a time.
    #[arg(default = 16)]
    fetches: u32,
    #[flatten]
    counts: Counts,
    cache: Option<Box<Cache>>,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    ticker: Option<TimerId>,
}

/// What is counted.
#[derive(Component)]
struct Counts {
    /// Requests answered by an object that is kept, or on its way to another client.
    #[handler(read)]
    hits: u64,
    /// Requests for which the origin was asked for an object.
    #[handler(read)]
    misses: u64,
    /// Objects that the origin said are still right.
    #[handler(read)]
    revalidated: u64,
    /// Requests passed to the origin, whose answer is not kept.
    #[handler(read)]
    passed: u64,
    /// Requests that were refused.
    #[handler(read)]
    refused: u64,
    /// Requests that the origin did not answer, or not rightly.
    #[handler(read)]
    failed: u64,
}

/// The workings: connections of clients, requests at the origin, and objects.
struct Cache {
    stack: Stack,
    store: Store,
    clients: Vec<Option<Client>>,
    fetches: Vec<Option<Fetch>>,
    /// Handshakes that began.
    handshakes: u64,
    settings: Settings,
    steady: Steady,
    /// Seconds since 1970.
    wall: i64,
    counts: Counts,
}

/// What the arguments say.
#[derive(Clone, Copy)]
struct Settings {
    address: Ipv4Addr,
    port: u16,
    source: Ipv4Addr,
    origin: (Ipv4Addr, u16),
    object: u64,
    clients: usize,
    fetches: usize,
}

#[handlers]
impl HTTPCache {
    /// Objects that are kept.
    #[read]
    fn count(&self) -> usize {
        self.cache.as_ref().map_or(0, |cache| cache.store.count())
    }

    /// Bytes of all objects.
    #[read]
    fn size(&self) -> usize {
        self.cache.as_ref().map_or(0, |cache| cache.store.size())
    }

    /// Objects that made room for others.
    #[read]
    fn evicted(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.store.evicted)
    }

    /// Connections of clients.
    #[read]
    fn connections(&mut self) -> usize {
        self.cache.as_mut().map_or(0, |cache| cache.connected())
    }

    /// A line for each object that is kept: its status, bytes, age and lifetime in seconds, and its server and path.
    #[read(expensive)]
    fn objects(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        let now = cx.wall() / 1_000_000_000;
        listing(|out| {
            let mut objects = self.cache.iter().flat_map(|cache| cache.store.iter());
            objects.try_for_each(|object| {
                let (age, life) = (object.life.age(now), object.life.lifetime);
                writeln!(
                    out,
                    "{} {} {age} {life} {}",
                    object.status,
                    object.end(),
                    object.key
                )
            })
        })
    }

    /// Drops the objects of a server and path, as in `example.com/page?a=b`, or all of a text that is empty. It is an
    /// error if a server and path have none.
    #[write]
    fn purge(&mut self, key: &str) -> Result<(), String> {
        let Some(cache) = &mut self.cache else {
            return Ok(());
        };
        let text = key.trim();
        if text.is_empty() {
            cache.store.purge(None);
            return Ok(());
        }
        let (host, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let key = key_of(
            &host.to_ascii_lowercase(),
            if path.is_empty() { "/" } else { path },
        );
        match cache.store.purge(Some(&key)) {
            0 => Err(format!(
                "there is no object ‘{key}’; write a server and a path, as `objects` shows them"
            )),
            _ => Ok(()),
        }
    }

    /// Sets all counts to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }
}

impl Cache {
    fn connected(&mut self) -> usize {
        let Cache { clients, stack, .. } = self;
        let clients = clients.iter().flatten();
        clients
            .filter(|client| client.is_admitted && stack.socket(client.socket).is_active())
            .count()
    }

    /// Does what is to be done on all connections; true if there may be more at once.
    fn work(&mut self) -> bool {
        for _ in 0..ROUNDS {
            self.listen();
            let mut worked = false;
            for at in 0..self.clients.len() {
                if let Some(mut client) = self.clients[at].take() {
                    worked |= client.step(self);
                    self.clients[at] = client.keep(self);
                }
            }
            for at in 0..self.fetches.len() {
                if let Some(mut fetch) = self.fetches[at].take() {
                    worked |= fetch.step(at, self);
                    self.fetches[at] = fetch.keep(self);
                }
            }
            if !worked {
                return false;
            }
        }
        true
    }

    /// Sees to it that some sockets wait for clients, unless there are enough of these. A handshake is not
    /// counted among them: anybody can begin one, from any address.
    fn listen(&mut self) {
        let Cache { clients, stack, .. } = self;
        let admitted = clients.iter().flatten().filter(|it| it.is_admitted);
        let (mut open, mut waiting, mut handshakes) = (admitted.count(), 0, 0);
        let mut oldest: Option<(u64, usize)> = None;
        for (at, slot) in clients.iter_mut().enumerate() {
            let Some(client) = slot else {
                continue;
            };
            let socket = stack.socket(client.socket);
            match socket.state() {
                State::Listen => {
                    client.handshake = None;
                    waiting += 1;
                }
                State::SynReceived => {
                    handshakes += 1;
                    let number = *client.handshake.get_or_insert_with(|| {
                        self.handshakes += 1;
                        self.handshakes
                    });
                    let own = (number, at);
                    oldest = Some(oldest.map_or(own, |oldest| oldest.min(own)));
                }
                _ if client.is_admitted => {}
                _ if open < self.settings.clients => {
                    client.is_admitted = true;
                    open += 1;
                }
                _ => socket.abort(),
            }
        }
        if let Some((_, at)) = oldest.filter(|_| handshakes > HANDSHAKES)
            && let Some(client) = clients[at].take()
        {
            stack.remove(client.socket);
        }
        while waiting < BACKLOG && open + waiting < self.settings.clients {
            let at = (self.settings.address, self.settings.port);
            let socket = self.stack.listen(at, client::RECEIVE, client::SEND);
            put(&mut self.clients, Client::new(socket));
            waiting += 1;
        }
    }

    /// Begins a request to the origin; returns its number.
    fn fetch(
        &mut self,
        request: &Request,
        body: Vec<u8>,
        key: Option<(String, bool)>,
        former: Option<ObjectId>,
    ) -> usize {
        let fetch = Fetch::new(request, body, key, former, self.steady);
        put(&mut self.fetches, fetch)
    }

    /// The request to the origin for an object whose head is not there yet.
    fn fetch_of(&self, key: &str) -> Option<usize> {
        self.fetches.iter().position(|fetch| {
            fetch
                .as_ref()
                .is_some_and(|fetch| fetch.key.as_deref() == Some(key) && fetch.is_unanswered())
        })
    }

    /// The position of the slowest client in the body of an object; `None` if there is no client.
    fn slowest(&self, object: ObjectId) -> Option<u64> {
        let clients = self.clients.iter().flatten();
        clients.filter_map(|client| client.position(object)).min()
    }

    /// The names under which objects are kept.
    fn key(request: &Request) -> String {
        key_of(&request.host, &request.target)
    }

    /// Whether a request is answered by objects.
    fn is_cached(request: &Request) -> bool {
        let fields = &request.fields;
        matches!(request.method, Method::Get | Method::Head)
            && fields.get("if-match").is_none()
            && fields.get("if-unmodified-since").is_none()
    }
}

/// The name of an object of a server, in small letters, and a path. Port 80 is the same as none.
fn key_of(host: &str, path: &str) -> String {
    let name = host.strip_suffix(":80").or(host.strip_suffix(':'));
    format!("{}{path}", name.unwrap_or(host))
}

/// Puts a value into a free slot; returns its number.
fn put<T>(slots: &mut Vec<Option<T>>, value: T) -> usize {
    let at = slots
        .iter()
        .position(Option::is_none)
        .unwrap_or(slots.len());
    if at == slots.len() {
        slots.push(None);
    }
    slots[at] = Some(value);
    at
}

impl HTTPCache {
    /// Lets the connections go on, and sends what they have to send.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        let (steady, wall) = (cx.steady(), cx.wall() / 1_000_000_000);
        let Some(cache) = &mut self.cache else {
            return;
        };
        (cache.steady, cache.wall) = (steady, wall);
        core::mem::swap(&mut cache.counts, &mut self.counts);
        let mut busy = cache.work();
        core::mem::swap(&mut cache.counts, &mut self.counts);
        cache.stack.make(steady);
        busy |= cache.stack.is_busy();
        while cache.stack.next(|bytes| {
            // Without a buffer, the packet is lost, and sent again later.
            if let Some(mut packet) = cx.pool().copy(bytes) {
                packet.set_network_header(0, 20);
                if let Some(to) = bytes.get(16..20).and_then(|to| to.first_chunk::<4>()) {
                    packet.set_dst_ip(Ipv4Addr::from(*to));
                }
                cx.emit(0, packet);
            }
        }) {}
        if let (true, Some(task)) = (busy, self.task) {
            cx.schedule(task);
        } else if let (Some(wait), Some(timer)) = (cache.stack.wait(steady), self.timer) {
            cx.schedule_after(timer, wait);
        }
    }
}

impl Element for HTTPCache {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.port == 0 || self.origin_port == 0 {
            return Err(args.fail("PORT and ORIGIN_PORT must be from 1 to 65535"));
        }
        if !(1 << 16..=MEMORY_MAX).contains(&self.memory) {
            return Err(args.fail(format_args!("MEMORY must be from 65536 to {MEMORY_MAX}")));
        }
        if self.object > self.memory / 2 {
            return Err(args.fail("OBJECT must be at most half of MEMORY"));
        }
        if !(1..=CLIENTS_MAX).contains(&self.clients) || !(1..=CLIENTS_MAX).contains(&self.fetches)
        {
            return Err(args.fail(format_args!(
                "CLIENTS and FETCHES must be from 1 to {CLIENTS_MAX}"
            )));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let settings = Settings {
            address: self.address,
            port: self.port,
            source: self.source.unwrap_or(self.address),
            origin: (self.origin, self.origin_port),
            object: self.object.into(),
            clients: self.clients as usize,
            fetches: self.fetches as usize,
        };
        let clients = settings.clients + HANDSHAKES;
        let connections = clients * CLIENT_BYTES + settings.fetches * FETCH_BYTES;
        let bytes = self.memory as usize + connections;
        if !router::memory::spare(bytes) {
            return Err(cx.error(format_args!(
                "out of memory for objects and connections of {bytes} bytes; give smaller MEMORY or CLIENTS, or a \
                 guest more memory, as in --memory 32M"
            )));
        }
        let mut addresses = vec![settings.address];
        if settings.source != settings.address {
            addresses.push(settings.source);
        }
        let (seed, steady) = (cx.random().next_u64(), cx.steady());
        let mut cache = Box::new(Cache {
            stack: Stack::new(&addresses, seed, steady),
            store: Store::new(self.memory as usize),
            clients: Vec::new(),
            fetches: Vec::new(),
            handshakes: 0,
            settings,
            steady,
            wall: 0,
            counts: Counts::default(),
        });
        cache.listen();
        self.cache = Some(cache);
        let task = cx.task();
        cx.schedule(task);
        self.task = Some(task);
        self.timer = Some(cx.timer());
        let ticker = cx.timer();
        cx.schedule_after(ticker, TICK);
        self.ticker = Some(ticker);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let now = cx.steady();
        for packet in batch.drain() {
            if let Some((cache, bytes)) = self.cache.as_mut().zip(packet.network_header()) {
                cache.stack.arrive(bytes, now);
                // A batch may have more connections than sockets wait for.
                cache.listen();
            }
            cx.kill(packet);
        }
        self.go_on(cx);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.go_on(cx);
        Ran::Worked
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.go_on(cx);
        if self.ticker == Some(timer) {
            cx.schedule_after(timer, TICK);
        }
    }
}
