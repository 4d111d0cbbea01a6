//! A node's endpoint: its Unix socket, or an address of the network by TLS.

use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{Shutdown, shutdown};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use super::{PAUSE, START};
use crate::error::{Error, Kind, Result};
use crate::tls::{self, Files};

/// Where a node is asked.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A socket of this host.
    Socket(PathBuf),
    /// A host and a port, and this client's certificate.
    Remote {
        /// As it was given.
        url: String,
        /// The host's name or address.
        host: String,
        /// The port.
        port: u16,
        /// The client's certificate, and the authority of the node's.
        tls: Arc<ClientConfig>,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Socket(path) => write!(f, "{}", path.display()),
            Endpoint::Remote { url, .. } => f.write_str(url),
        }
    }
}

/// A connection to a node.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Endpoint {
    /// A node by its URL, `https://HOST:PORT`.
    pub fn remote(url: &str, files: &Files) -> Result<Endpoint> {
        let rest = url.strip_prefix("https://");
        let (host, port) = rest.and_then(address).ok_or_else(|| {
            Error::invalid(format_args!(
                "‘{url}’ is not a node: it is https://HOST:PORT"
            ))
        })?;
        Ok(Endpoint::Remote {
            url: url.into(),
            host: host.into(),
            port,
            tls: tls::client(files)?,
        })
    }

    /// Whether this is `HOST:PORT`.
    pub fn is_address(text: &str) -> bool {
        address(text).is_some()
    }

    /// A connection to the node.
    pub(super) async fn connect(&self) -> Result<(Box<dyn Connection>, Half)> {
        match self {
            Endpoint::Socket(path) => {
                let stream = connect(path).await.map_err(|error| {
                    let here = path.display();
                    if is_absent(&error) {
                        unavailable(&format_args!(
                            "no node runs at {here}: `weir node` starts one"
                        ))
                    } else {
                        unavailable(&format_args!("the node's socket {here}: {error}"))
                    }
                })?;
                let half = Half::of(&stream)?;
                Ok((Box::new(stream), half))
            }
            Endpoint::Remote {
                host, port, tls, ..
            } => {
                let failed =
                    |error: io::Error| unavailable(&format_args!("the node at {self}: {error}"));
                let name = ServerName::try_from(host.clone()).map_err(Error::failed)?;
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(failed)?;
                // Send without waiting for acknowledgements (TCP_NODELAY).
                stream.set_nodelay(true).map_err(failed)?;
                let half = Half::of(&stream)?;
                let connector = TlsConnector::from(Arc::clone(tls));
                let stream = connector.connect(name, stream).await;
                let stream = stream.map_err(|error| {
                    let why = tls::sentence(tls::Side::Client, &error);
                    unavailable(&format_args!("the node at {self}: {why}"))
                })?;
                Ok((Box::new(stream), half))
            }
        }
    }
}

/// A connection's half that this client writes.
#[derive(Clone, Debug)]
pub struct Half(Arc<OwnedFd>);

impl Half {
    fn of(socket: &impl AsFd) -> Result<Half> {
        let socket = socket.as_fd().try_clone_to_owned();
        let socket = socket
            .map_err(|error| Error::failed(format_args!("the connection to the node: {error}")))?;
        Ok(Half(Arc::new(socket)))
    }

    /// Tells the node that the client wants no more than the work under way.
    pub fn close(&self) {
        // One that has ended has no halves.
        let _ = shutdown(&self.0, Shutdown::Write);
    }
}

/// The host and the port of `HOST:PORT`.
fn address(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.trim_end_matches('/').rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host).ok()?;
    Some((host, port.parse().ok()?))
}

fn unavailable(sentence: &dyn fmt::Display) -> Error {
    Error::new(Kind::Unavailable, sentence)
}

/// Connects to a socket. A node that is about to listen is waited for.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let start = Instant::now();
    loop {
        let stream = UnixStream::connect(socket).await;
        let waits =
            stream.as_ref().is_err_and(is_absent) && start.elapsed() < START && starts(socket);
        if !waits {
            return stream;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether an error says that a socket has no listener.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused)
}

/// Whether a node is about to listen at a socket: one holds the lock of its folder.
fn starts(socket: &Path) -> bool {
    let lock = std::fs::File::open(crate::paths::lock_beside(socket));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
