//! Sockets of vhost-user ports, which the confined switch can neither make nor connect to.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::super::opening::{Fault, LinkError, Open, Opened};
use super::{Connection, VhostLink};
use crate::mac::Mac;

/// Longest path of a Unix socket, in bytes: `sun_path` without its last zero.
pub const SOCKET_PATH_MAX: usize = 107;

/// Why a socket for vhost-user cannot be made or reached.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// The path is taken.
    #[error("‘{0}’ exists, and is in use or not a socket: choose another path")]
    SocketTaken(String),
    /// The path does not fit a socket's address (unix(7)).
    #[error("‘{0}’ is too long for a socket: its path has at most {SOCKET_PATH_MAX} bytes")]
    SocketPath(String),
    /// The kernel refused something else.
    #[error("cannot {action} ‘{path}’ for vhost-user: {source}")]
    Socket {
        /// The action that failed.
        action: &'static str,
        /// The socket's path.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl From<VhostError> for LinkError {
    fn from(error: VhostError) -> LinkError {
        let fault = match error {
            VhostError::SocketTaken(_) => Fault::Exists,
            VhostError::SocketPath(_) => Fault::Invalid,
            VhostError::Socket { .. } => Fault::Refused,
        };
        LinkError::of_kind(fault, Some("vhost-user"), error)
    }
}

/// A vhost-user port to be made.
#[derive(Clone, Debug)]
pub struct VhostUser<'a> {
    /// The socket's path.
    pub path: &'a Path,
    /// How users call the port.
    pub name: &'a str,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The user id that may connect besides root.
    pub owner: Option<u32>,
}

/// The same, but the port connects to a frontend that listens itself: QEMU's `-chardev
/// socket,…,server=on`, DPDK's `virtio_user0,path=…,server=1`. The port ends with the frontend.
#[derive(Clone, Debug)]
pub struct VhostUserConnected<'a>(pub VhostUser<'a>);

impl Open for VhostUser<'_> {
    type Link = Box<VhostLink>;

    /// Listens for frontends.
    fn open(&self) -> Result<Opened<Connection>, LinkError> {
        let path = self.path;
        let listener = listener(path)?;
        // A process that may connect controls the port.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| match self.owner {
                Some(owner) => std::os::unix::fs::chown(path, Some(owner), None),
                None => Ok(()),
            })
            .map_err(|source| socket_error("listen on", path, source))?;
        Ok(of(Connection::Listening, self, listener))
    }
}

impl Open for VhostUserConnected<'_> {
    type Link = Box<VhostLink>;

    fn open(&self) -> Result<Opened<Connection>, LinkError> {
        let VhostUserConnected(port) = self;
        let path = fitting(port.path)?;
        let connected = UnixStream::connect(path);
        let stream = connected.map_err(|source| socket_error("connect to", path, source))?;
        Ok(of(Connection::Connected, port, stream.into()))
    }
}

/// A socket at which frontends connect: QEMU's `-chardev socket,path=…`, DPDK's
/// `virtio_user0,path=…`. A socket file without a listener is replaced. The file is not removed
/// with the descriptor.
fn listener(path: &Path) -> Result<OwnedFd, LinkError> {
    let path = fitting(path)?;
    let failed = |action| move |source| socket_error(action, path, source);
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let left = std::fs::symlink_metadata(path).map_err(failed("look at"))?;
            if !left.file_type().is_socket() || UnixStream::connect(path).is_ok() {
                return Err(VhostError::SocketTaken(path.display().to_string()).into());
            }
            std::fs::remove_file(path).map_err(failed("replace"))?;
            UnixListener::bind(path)
        }
        other => other,
    };
    let listener = bound.map_err(failed("listen on"))?;
    listener
        .set_nonblocking(true)
        .map_err(failed("listen on"))?;
    Ok(listener.into())
}

/// The path, if a socket can have it.
fn fitting(path: &Path) -> Result<&Path, LinkError> {
    match path.as_os_str().len() {
        0..=SOCKET_PATH_MAX => Ok(path),
        _ => Err(VhostError::SocketPath(path.display().to_string()).into()),
    }
}

fn of(record: Connection, port: &VhostUser<'_>, socket: OwnedFd) -> Opened<Connection> {
    Opened {
        record,
        name: port.name.into(),
        mtu: port.mtu,
        files: vec![socket],
        // What address the guest has, it knows from its own configuration.
        mac: Mac::ZERO,
        gro: None,
    }
}

fn socket_error(action: &'static str, path: &Path, source: std::io::Error) -> LinkError {
    VhostError::Socket {
        action,
        path: path.display().to_string(),
        source,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::links::HostLink;

    fn is_taken(link: &Result<HostLink, LinkError>) -> bool {
        let error = link.as_ref().err();
        matches!(
            error.and_then(LinkError::as_kind),
            Some(VhostError::SocketTaken(_))
        )
    }

    #[test]
    fn a_socket_without_a_listener_is_replaced_and_one_with_a_listener_is_left() {
        let path = std::env::temp_dir().join(format!("weir-vhost{}.sock", std::process::id()));
        let port = VhostUser {
            path: &path,
            name: "vm0",
            mtu: 1500,
            owner: None,
        };
        let first = HostLink::open(&port).unwrap();
        let taken = HostLink::open(&port);
        assert!(is_taken(&taken), "{taken:?}");
        drop(first);
        drop(HostLink::open(&port).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "not a socket").unwrap();
        let taken = HostLink::open(&port);
        assert!(is_taken(&taken), "{taken:?}");
        std::fs::remove_file(&path).unwrap();
        let long = VhostUser {
            path: &path.join("x".repeat(SOCKET_PATH_MAX)),
            ..port
        };
        let long = HostLink::open(&long).unwrap_err().to_string();
        assert!(long.ends_with("has at most 107 bytes"), "{long}");
        let missing = HostLink::open(&VhostUserConnected(port)).unwrap_err();
        assert!(matches!(missing.as_kind(), Some(VhostError::Socket { .. })));
    }
}
