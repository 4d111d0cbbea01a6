//! The server: passes requests of clients to the store. Programs of the host connect to a Unix
//! socket; a program that can connect is the host, and may do everything. Guests are added with the
//! stream that carries their bytes.
//!
//! One thread serves all clients in turn. [`EventLoop`] is for a program that serves more than the
//! socket; [`Server`] is a thread of its own.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, send};

use crate::connection::ConnectionId;
use crate::session::{After, READ, Session, Stream};
use crate::store::Store;
use crate::wire::DomainId;

/// Most clients of the socket at a time; others are disconnected.
pub const CLIENTS_MAX: usize = 4096;
/// The pause after a client could not be accepted, in nanoseconds.
const PAUSE: i64 = 10_000_000;
/// Most events taken at a time.
const EVENTS: usize = 64;

/// What the loop waits for besides clients, which have the numbers of their connections.
const LISTENER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;
/// Set in the numbers of what the program waits for besides.
const OWN: u64 = 1 << 63;

/// A store that several threads use.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    store: Mutex<Store>,
    /// Wakes the thread that serves it.
    waker: OwnedFd,
    stop: AtomicBool,
}

impl Shared {
    /// A store for a server.
    pub fn new(store: Store) -> io::Result<Shared> {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Shared(Arc::new(Inner {
            store: Mutex::new(store),
            waker,
            stop: AtomicBool::new(false),
        })))
    }

    /// Works with the store. Clients whose watches fired are told.
    pub fn with<R>(&self, work: impl FnOnce(&mut Store) -> R) -> R {
        let result = work(&mut self.lock());
        self.wake();
        result
    }

    /// Works with the store in a way by which no watch fires.
    pub fn peek<R>(&self, work: impl FnOnce(&mut Store) -> R) -> R {
        work(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It fails only if it was woken often enough.
        let _ = rustix::io::write(&self.0.waker, &1u64.to_ne_bytes());
    }
}

/// A server with a thread of its own, which ends when it is dropped.
pub struct Server {
    store: Shared,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `store` to the clients that connect to `listener`.
    pub fn start(listener: UnixListener, store: Shared) -> io::Result<Server> {
        let mut serving = EventLoop::new(listener, store.clone())?;
        let stopped = store.clone();
        let serve = move || {
            while !stopped.0.stop.load(Ordering::Acquire) {
                if serving.wait(&mut Vec::new()).is_err() {
                    break;
                }
                serving.serve();
            }
        };
        let thread = std::thread::Builder::new().name("store".into());
        Ok(Server {
            store,
            thread: Some(thread.spawn(serve)?),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.store.0.stop.store(true, Ordering::Release);
        self.store.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

/// A client, and what carries its bytes.
struct Client {
    session: Session,
    stream: Box<dyn Stream + Send>,
    /// Whether its turn comes.
    queued: bool,
    /// Whether it came by the socket.
    of_socket: bool,
}

/// A loop that serves clients.
pub struct EventLoop {
    store: Shared,
    listener: UnixListener,
    events: Arc<OwnedFd>,
    clients: HashMap<ConnectionId, Client>,
    /// Clients of the socket.
    sockets: usize,
    /// Whose turn comes.
    queue: VecDeque<ConnectionId>,
    /// Whether no clients are accepted for a moment, since the last one could not be.
    paused: bool,
    buffer: Box<[u8; READ]>,
}

impl EventLoop {
    /// Serves `store` to the clients that connect to `listener`.
    pub fn new(listener: UnixListener, store: Shared) -> io::Result<EventLoop> {
        listener.set_nonblocking(true)?;
        let events = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        add(&events, listener.as_fd(), LISTENER)?;
        add(&events, store.0.waker.as_fd(), WAKER)?;
        Ok(EventLoop {
            store,
            listener,
            events,
            clients: HashMap::new(),
            sockets: 0,
            queue: VecDeque::new(),
            paused: false,
            buffer: Box::new([0; READ]),
        })
    }

    /// The store.
    pub fn store(&self) -> &Shared {
        &self.store
    }

    /// Makes [`wait`](Self::wait) report when `descriptor` is readable, by a number below 2^62. A
    /// closed descriptor is forgotten. If another process has it as well, [forget](Self::forget) it
    /// before closing it.
    pub fn watch(&self, descriptor: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        add(&self.events, descriptor, OWN | number)
    }

    /// Stops [watching](Self::watch) a descriptor.
    pub fn forget(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.events, descriptor)?)
    }

    /// As [`watch`](Self::watch), and also of when there is room to send again. It reports once:
    /// the caller must read all that is there, and send until there is no room.
    pub fn watch_edges(&self, descriptor: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        let data = EventData::new_u64(OWN | number);
        let flags = READABLE | EventFlags::OUT;
        Ok(epoll::add(&self.events, descriptor, data, flags)?)
    }

    /// Adds a client of a guest. Its turn comes when it is [told](Self::touch) that there is
    /// something, or when there is something for it.
    pub fn connect(&mut self, domain: DomainId, stream: Box<dyn Stream + Send>) -> ConnectionId {
        let id = self.store.lock().connect(domain);
        self.add_client(id, stream, false);
        id
    }

    /// Ends a client's connection.
    pub fn disconnect(&mut self, id: ConnectionId) {
        if let Some(client) = self.clients.remove(&id) {
            self.sockets -= usize::from(client.of_socket);
            self.store.lock().disconnect(id);
        }
    }

    /// There may be something of a client.
    pub fn touch(&mut self, id: ConnectionId) {
        if let Some(client) = self.clients.get_mut(&id)
            && !std::mem::replace(&mut client.queued, true)
        {
            self.queue.push_back(id);
        }
    }

    /// Waits until there is something to do; [`serve`](Self::serve) does it. Adds the numbers of
    /// the program's readable [watched](Self::watch) descriptors to `own`, so that the program can
    /// handle them before clients' later requests.
    pub fn wait(&mut self, own: &mut Vec<u64>) -> io::Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let limit = match (self.queue.is_empty(), self.paused) {
            (false, _) => Some(now),
            (true, true) => Some(Timespec {
                tv_nsec: PAUSE,
                ..now
            }),
            (true, false) => None,
        };
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let (ready, _) = match epoll::wait(&self.events, &mut space, limit.as_ref()) {
            Err(Errno::INTR) => return Ok(()),
            waited => waited?,
        };
        if std::mem::take(&mut self.paused) {
            add(&self.events, self.listener.as_fd(), LISTENER)?;
        }
        for event in ready {
            match event.data.u64() {
                LISTENER => self.accept()?,
                WAKER => {
                    // Empty if another look emptied it.
                    let _ = rustix::io::read(&self.store.0.waker, &mut [0; 8]);
                }
                number if number & OWN != 0 => own.push(number & !OWN),
                number => self.touch(ConnectionId::new(number)),
            }
        }
        Ok(())
    }

    /// Gives a turn to each client that has something.
    pub fn serve(&mut self) {
        let woken = self.store.lock().woken();
        woken.into_iter().for_each(|id| self.touch(id));
        for _ in 0..self.queue.len() {
            let Some(id) = self.queue.pop_front() else {
                break;
            };
            self.serve_one(id);
        }
    }

    fn serve_one(&mut self, id: ConnectionId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.queued = false;
        let mut store = self.store.lock();
        let after = client
            .session
            .turn(&mut store, &mut *client.stream, &mut self.buffer);
        let woken = store.woken();
        drop(store);
        woken.into_iter().for_each(|id| self.touch(id));
        match after {
            After::Wait => {}
            After::Again => self.touch(id),
            After::End => self.disconnect(id),
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.listener, flags) {
                Ok(stream) if self.sockets < CLIENTS_MAX => {
                    // One that cannot be served is disconnected.
                    let _ = self.add_socket(stream.into());
                }
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => {
                    // Out of descriptors, until a client leaves.
                    self.paused = true;
                    return Ok(epoll::delete(&self.events, &self.listener)?);
                }
            }
        }
    }

    fn add_socket(&mut self, stream: UnixStream) -> io::Result<()> {
        let id = self.store.lock().connect(DomainId::CONTROL);
        let added = epoll::add(
            &self.events,
            &stream,
            EventData::new_u64(id.number()),
            READABLE,
        );
        if let Err(error) = added {
            self.store.lock().disconnect(id);
            return Err(error.into());
        }
        let events = Arc::clone(&self.events);
        self.add_client(id, Box::new(Socket { stream, events, id }), true);
        Ok(())
    }

    fn add_client(&mut self, id: ConnectionId, stream: Box<dyn Stream + Send>, of_socket: bool) {
        self.sockets += usize::from(of_socket);
        let client = Client {
            session: Session::new(id),
            stream,
            queued: false,
            of_socket,
        };
        self.clients.insert(id, client);
        self.touch(id);
    }
}

/// Edges, so that a client whose requests wait for room does not keep the loop busy.
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::ET);

fn add(events: &OwnedFd, descriptor: BorrowedFd<'_>, number: u64) -> io::Result<()> {
    let data = EventData::new_u64(number);
    Ok(epoll::add(events, descriptor, data, EventFlags::IN)?)
}

/// A program's connection.
struct Socket {
    stream: UnixStream,
    events: Arc<OwnedFd>,
    id: ConnectionId,
}

impl Stream for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // No SIGPIPE, whether or not this process ignores it.
        Ok(send(&self.stream, bytes, SendFlags::NOSIGNAL)?)
    }

    fn await_room(&mut self, awaits: bool) -> io::Result<()> {
        let flags = match awaits {
            true => READABLE | EventFlags::OUT,
            false => READABLE,
        };
        let data = EventData::new_u64(self.id.number());
        Ok(epoll::modify(&self.events, &self.stream, data, flags)?)
    }
}
