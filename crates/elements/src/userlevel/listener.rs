//! Sockets that other programs connect to, and trying again where they cannot be had.

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

use super::os_error;
use crate::prelude::*;

/// Most connections at a time; others are closed as they come.
pub const CONNECTIONS: usize = 256;
/// The size of the name of a Unix socket, its closing zero byte included; see unix(7).
const SUN_PATH: usize = 108;
/// Seconds between two tries to listen.
const RETRY: u64 = 1;

/// A socket that is listened on.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on the first port from `first` to `last` that is free; says which.
    pub fn tcp(address: Ipv4Addr, first: u16, last: u16) -> io::Result<(Listener, u16)> {
        let (listener, port) = bind_one(address, first, last)?;
        listener.set_nonblocking(true)?;
        Ok((Listener::Tcp(listener), port))
    }

    /// Listens on a file that is not there yet.
    pub fn unix(path: &str) -> io::Result<Listener> {
        let listener = UnixListener::bind(router::args::path(path))?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener))
    }

    /// The descriptor, to be watched.
    pub fn fd(&self) -> RawFd {
        match self {
            Listener::Tcp(listener) => listener.as_raw_fd(),
            Listener::Unix(listener) => listener.as_raw_fd(),
        }
    }

    /// A connection, and where it comes from.
    pub fn accept(&self) -> io::Result<(OwnedFd, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                stream.set_nonblocking(true)?;
                let from = format!(" from {}.{}", from.ip(), from.port());
                Ok((stream.into(), from))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((stream.into(), String::new()))
            }
        }
    }
}

/// The argument FILENAME, which is the last.
pub fn unix_path(args: &mut Args<'_>) -> Result<String, Failed> {
    let mut path = String::new();
    args.read()
        .mandatory_positional_with("FILENAME", FilenameArg, &mut path)
        .complete()?;
    if path.len() >= SUN_PATH {
        return Err(args.fail("filename too long"));
    }
    Ok(path)
}

/// Listens on the first port from `first` to `last` that is free.
fn bind_one(address: Ipv4Addr, first: u16, last: u16) -> io::Result<(TcpListener, u16)> {
    let mut port = first;
    loop {
        match TcpListener::bind((address, port)) {
            Ok(listener) => return Ok((listener, port)),
            Err(error) if port >= last => return Err(error),
            Err(_) => port += 1,
        }
    }
}

/// Whether a call may work a little later.
pub fn transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// How often to try again, and whether to tell.
#[derive(Component)]
pub struct Retry {
    /// How often to try again, once a second, if it cannot listen.
    #[arg(name = "RETRIES", default = 0)]
    left: i32,
    /// Whether each failure draws a warning.
    #[arg(name = "RETRY_WARNINGS", default = true)]
    warns: bool,
}

impl Retry {
    /// Starts `timer` for the next try after one that failed, and says what to warn of. An error
    /// is what is wrong when no tries are left.
    pub fn failed(
        &mut self,
        cx: &mut Cx<'_>,
        timer: Option<TimerId>,
        error: &io::Error,
    ) -> Result<Option<String>, String> {
        // Below 0, none was left for the last try.
        let left = self.left;
        self.left -= 1;
        let text = format!("bind: {}", os_error(error));
        if left <= 0 {
            return Err(text);
        }
        if let Some(timer) = timer {
            cx.schedule_after(timer, RETRY * 1_000_000_000);
        }
        let tries = if left == 1 { "try" } else { "tries" };
        Ok(self.warns.then(|| format!("{text} ({left} {tries} left)")))
    }
}
