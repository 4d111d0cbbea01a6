//! The control store of `weir click`: the one whose socket `XENSTORED_PATH` names, as for Xen's tools.

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

/// Where elements ask, and the bell that wakes the thread which carries it out.
#[derive(Clone)]
pub struct Requests {
    /// Where elements ask.
    pub store: StoreBox,
    bell: Arc<OnceLock<Arc<OwnedFd>>>,
    path: PathBuf,
}

impl Requests {
    /// Of the store that the environment names; none if it names none that answers.
    pub fn of_environment() -> Option<Requests> {
        let path = PathBuf::from(std::env::var_os(VARIABLE)?);
        connect(&path)?;
        let bell: Arc<OnceLock<Arc<OwnedFd>>> = Arc::default();
        let rung = Arc::clone(&bell);
        let store = StoreBox::new(move || {
            if let Some(bell) = rung.get() {
                // Full: it was rung often enough.
                let _ = rustix::io::write(&**bell, &1u64.to_ne_bytes());
            }
        });
        Some(Requests { store, bell, path })
    }

    /// The connection that carries them out, on a thread with a bell or on the only one.
    pub fn carry_out(&self, bell: Option<Arc<OwnedFd>>) -> Connection {
        if let Some(bell) = bell {
            // It is set once: the thread stays the same.
            let _ = self.bell.set(bell);
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

    /// Whether something is to be asked.
    pub fn has_work(&self) -> bool {
        self.link.has_work()
    }

    /// Asks, and tells the router's elements what came.
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
    /// What came of reading or writing: an end is a connection to be made again.
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
