//! The control store of `weir click`, whose socket `XENSTORED_PATH` names, as for Xen's tools.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use elements::store::link::{Broken, Carrier, StoreLink};
use router::{Router, StoreBox};

/// The variable that names the socket.
const VARIABLE: &str = "XENSTORED_PATH";
/// The pause between two attempts to connect again.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The elements' requests, and the eventfd that wakes the thread which carries them out.
#[derive(Clone)]
pub struct Requests {
    /// The box of the elements' requests.
    pub store: StoreBox,
    waker: Arc<OnceLock<Arc<OwnedFd>>>,
    path: PathBuf,
}

impl Requests {
    /// For the store that the environment names; `None` if there is none that answers.
    pub fn of_environment() -> Option<Requests> {
        let path = PathBuf::from(std::env::var_os(VARIABLE)?);
        connect(&path)?;
        let waker: Arc<OnceLock<Arc<OwnedFd>>> = Arc::default();
        let rung = Arc::clone(&waker);
        let store = StoreBox::new(move || {
            if let Some(waker) = rung.get() {
                // A full eventfd has pending wake-ups.
                let _ = rustix::io::write(&**waker, &1u64.to_ne_bytes());
            }
        });
        Some(Requests { store, waker, path })
    }

    /// The connection that carries them out, on a thread with a waker or on the only thread.
    pub fn carry_out(&self, waker: Option<Arc<OwnedFd>>) -> Connection {
        if let Some(waker) = waker {
            // It is set once: the thread stays the same.
            let _ = self.waker.set(waker);
        }
        Connection {
            store: self.store.clone(),
            link: StoreLink::new(self.store.clone()),
            socket: Socket {
                path: self.path.clone(),
                stream: None,
                tried: None,
            },
        }
    }
}

fn connect(path: &Path) -> Option<UnixStream> {
    let stream = UnixStream::connect(path).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// The connection to the store.
pub struct Connection {
    store: StoreBox,
    link: StoreLink,
    socket: Socket,
}

impl Connection {
    /// Whether elements use it.
    pub fn is_used(&self) -> bool {
        self.store.is_used()
    }

    /// Whether a request waits to be sent.
    pub fn has_work(&self) -> bool {
        self.link.has_work()
    }

    /// Sends requests, and passes the answers to the router's elements.
    pub fn turn(&mut self, router: &mut Router) {
        self.link.turn(&mut self.socket, router);
    }

    /// What to wait for: the socket, and whether it is to have room; none while there is none.
    pub fn awaits(&self) -> Option<(RawFd, bool)> {
        let stream = self.socket.stream.as_ref()?;
        Some((stream.as_raw_fd(), self.link.is_unsent()))
    }
}

struct Socket {
    path: PathBuf,
    stream: Option<UnixStream>,
    /// When it was tried last to connect.
    tried: Option<Instant>,
}

impl Socket {
    /// The bytes that were read or written. After an end of the connection, it is made again.
    fn moved(&mut self, moved: std::io::Result<usize>) -> usize {
        match moved {
            Ok(bytes @ 1..) => return bytes,
            Err(error)
                if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
            _ => self.stream = None,
        }
        0
    }
}

impl Carrier for Socket {
    fn is_new(&mut self) -> bool {
        if self.stream.is_some() || self.tried.is_some_and(|at| at.elapsed() < PAUSE) {
            return false;
        }
        self.tried = Some(Instant::now());
        self.stream = connect(&self.path);
        self.stream.is_some()
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let read = self.stream.as_mut().map(|stream| stream.read(into));
        Ok(read.map_or(0, |read| self.moved(read)))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let written = self.stream.as_mut().map(|stream| stream.write(bytes));
        Ok(written.map_or(0, |written| self.moved(written)))
    }
}
