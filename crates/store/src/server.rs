//! The server: passes requests from a Unix socket to the store. A program that can connect is the
//! host, and may do everything.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::connection::ConnectionId;
use crate::store::Store;
use crate::wire::{DomainId, Header, Kind, PAYLOAD_MAX, append};

/// Most clients at a time; others are disconnected.
pub const CLIENTS_MAX: usize = 4096;
/// Bytes that may wait for a client before its requests have to wait, too.
const UNSENT_MAX: usize = 16 * (Header::LEN + PAYLOAD_MAX);
/// The pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(10);
/// Most requests of a client before it is another one's turn.
const TURN: usize = 64;

/// A store that several threads use.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    store: Store,
    /// Who is to be told that an event waits for a connection.
    listeners: HashMap<ConnectionId, Arc<Notify>>,
}

impl Shared {
    /// Works with the store. Clients whose watches fired are told.
    pub fn with<R>(&self, work: impl FnOnce(&mut Store) -> R) -> R {
        let mut inner = self.lock();
        let result = work(&mut inner.store);
        for id in inner.store.woken() {
            if let Some(listener) = inner.listeners.get(&id) {
                listener.notify_one();
            }
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server with a thread of its own, which ends when it is dropped.
pub struct Server {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `store` to the clients that connect to `listener`.
    pub fn start(listener: UnixListener, store: Shared) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let work = move || {
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async {
                tokio::select! {
                    () = accept(listener, store) => {}
                    () = stopped.notified() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("store".into());
        Ok(Server {
            stop,
            thread: Some(thread.spawn(work)?),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: UnixListener, store: Shared) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else {
        return;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if store.lock().listeners.len() < CLIENTS_MAX {
                    tokio::task::spawn_local(Client::new(stream, store.clone()).serve());
                }
            }
            // Out of descriptors, until a client leaves.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

struct Client {
    stream: UnixStream,
    store: Shared,
    id: ConnectionId,
    told: Arc<Notify>,
    /// What came and is not yet answered.
    received: Vec<u8>,
    /// What is not yet sent.
    unsent: Vec<u8>,
}

impl Client {
    fn new(stream: UnixStream, store: Shared) -> Client {
        let told = Arc::new(Notify::new());
        let mut inner = store.lock();
        let id = inner.store.connect(DomainId::CONTROL);
        inner.listeners.insert(id, told.clone());
        drop(inner);
        Client {
            stream,
            store,
            id,
            told,
            received: Vec::new(),
            unsent: Vec::new(),
        }
    }

    async fn serve(mut self) {
        while let Some(()) = self.turn().await {}
    }

    /// Waits until there is something to do, and does it; `None` if the connection is over.
    async fn turn(&mut self) -> Option<()> {
        let mut bytes = [0; 8192];
        let (mut reader, writer) = self.stream.split();
        tokio::select! {
            read = reader.read(&mut bytes), if self.unsent.len() < UNSENT_MAX => {
                match read.ok()? {
                    0 => return None,
                    count => self.received.extend_from_slice(bytes.get(..count)?),
                }
            }
            ready = writer.writable(), if !self.unsent.is_empty() => {
                ready.ok()?;
                self.send()?;
            }
            () = self.told.notified() => {}
        }
        // As long as there is something to tell that the client takes: nothing else will wake it.
        while self.answer()? | self.add_events() {
            self.send()?;
            if self.unsent.len() >= UNSENT_MAX {
                return Some(());
            }
            tokio::task::yield_now().await;
        }
        self.send()
    }

    fn send(&mut self) -> Option<()> {
        if self.unsent.is_empty() {
            return Some(());
        }
        match self.stream.try_write(&self.unsent) {
            Ok(count) => {
                self.unsent.drain(..count);
                Some(())
            }
            Err(error) => (error.kind() == io::ErrorKind::WouldBlock).then_some(()),
        }
    }

    /// Answers complete requests, [`TURN`] at most, until too much is unsent; returns whether there
    /// may be more. `None` if the client does not keep to the protocol.
    fn answer(&mut self) -> Option<bool> {
        let mut rest = &self.received[..];
        let mut answered = 0;
        self.store.with(|store| {
            while answered < TURN && self.unsent.len() < UNSENT_MAX {
                let Some((header, behind)) = rest.split_first_chunk::<{ Header::LEN }>() else {
                    break;
                };
                let header = Header::parse(header);
                let len = header.len as usize;
                if len > PAYLOAD_MAX {
                    return None;
                }
                let Some((payload, behind)) = behind.split_at_checked(len) else {
                    break;
                };
                let (kind, reply) = store.request(self.id, header, payload);
                let header = Header {
                    kind: kind as u32,
                    ..header
                };
                append(&mut self.unsent, header, &reply);
                (rest, answered) = (behind, answered + 1);
            }
            Some(())
        })?;
        let done = self.received.len() - rest.len();
        self.received.drain(..done);
        Some(answered == TURN || self.unsent.len() >= UNSENT_MAX)
    }

    /// Adds the events that wait, until too much is unsent; returns whether there may be more.
    fn add_events(&mut self) -> bool {
        self.store.with(|store| {
            while self.unsent.len() < UNSENT_MAX {
                let Some(event) = store.next_event(self.id) else {
                    return false;
                };
                let header = Header {
                    kind: Kind::WatchEvent as u32,
                    ..Header::default()
                };
                let payload = [event.path.as_bytes(), &[0], &event.token, &[0]].concat();
                append(&mut self.unsent, header, &payload);
            }
            true
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut inner = self.store.lock();
        inner.listeners.remove(&self.id);
        inner.store.disconnect(self.id);
    }
}
