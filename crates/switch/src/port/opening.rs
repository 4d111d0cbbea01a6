//! Common parts of opening a host link of any kind: the errors, the interface, and the result.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::backend::HostBackend;
use super::gro::Gro;
use crate::mac::Mac;
use crate::netlink::Netlink;
use crate::sys::INTERFACE_NAME_MAX;

/// Bytes that may wait in the kernel for a socket, each way: at 1500 bytes some 2000 frames with
/// what the kernel adds to each.
pub(super) const SOCKET_QUEUE: i32 = 8 << 20;

/// Options by which a link of a kind is opened, with the privileges that takes.
pub trait Open {
    /// The kind.
    type Link: HostBackend;

    /// Opens the link.
    fn open(&self) -> Result<Opened<<Self::Link as HostBackend>::Record>, LinkError>;
}

/// A link of the kind whose record is `R`, opened.
pub struct Opened<R> {
    /// What its descriptors do not say.
    pub record: R,
    /// The interface's name, or how users call the link.
    pub name: String,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Its descriptors.
    pub files: Vec<OwnedFd>,
    /// The address of the host on its interface, or of the machine behind a link with one machine
    /// behind it; zeros if there is none.
    pub mac: Mac,
    /// GRO that was turned on for it.
    pub gro: Option<Gro>,
}

/// Why a link could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The name cannot be an interface's.
    #[error(
        "‘{0}’ is not an interface name: a name has 1 to {INTERFACE_NAME_MAX} bytes without ‘/’ and spaces"
    )]
    Name(String),
    /// No such interface.
    #[error("no interface ‘{0}’: `ip link` lists them")]
    Missing(String),
    /// The name is taken.
    #[error("there is already an interface ‘{0}’: choose another name")]
    Exists(String),
    /// The interface is down.
    #[error("interface ‘{0}’ is down: `ip link set {0} up` first")]
    Down(String),
    /// The interface carries no Ethernet frames.
    #[error(
        "interface ‘{0}’ is not an Ethernet interface: only Ethernet interfaces can be attached"
    )]
    NotEthernet(String),
    /// The address cannot be an interface's.
    #[error(
        "{mac} cannot be the address of ‘{name}’: it must be a unicast address other than zero"
    )]
    Address {
        /// The interface.
        name: String,
        /// The address.
        mac: Mac,
    },
    /// The privilege is missing.
    #[error(
        "no permission to open ‘{0}’: run as root, or with the capabilities CAP_NET_ADMIN and CAP_NET_RAW (and CAP_BPF for AF_XDP)"
    )]
    Permission(String),
    /// A reason that only links of one kind have.
    #[error("{error}")]
    OfKind {
        /// What sort of reason it is.
        fault: Fault,
        /// The field that is wrong, if it is one.
        field: Option<&'static str>,
        /// The reason: of the kind's own type.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kernel refused something else.
    #[error("cannot {action} ‘{name}’: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// On which interface.
        name: String,
        /// Why not.
        source: Errno,
    },
}

/// What sort of reason keeps a link from being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No host could open such a link.
    Invalid,
    /// The interface does not exist.
    Missing,
    /// The name or the socket is taken.
    Exists,
    /// This host does not open the link, as things are.
    Refused,
}

impl LinkError {
    pub(super) fn of_kind<E>(fault: Fault, field: Option<&'static str>, error: E) -> LinkError
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let error = Box::new(error);
        LinkError::OfKind {
            fault,
            field,
            error,
        }
    }

    /// The field of a link's specification that is wrong, if it is one.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            LinkError::Address { .. } => Some("mac"),
            LinkError::Name(_)
            | LinkError::Missing(_)
            | LinkError::Exists(_)
            | LinkError::NotEthernet(_)
            | LinkError::Down(_) => Some("name"),
            LinkError::OfKind { field, .. } => *field,
            _ => None,
        }
    }

    /// What sort of reason it is.
    pub fn fault(&self) -> Fault {
        match self {
            LinkError::Name(_) | LinkError::Address { .. } => Fault::Invalid,
            LinkError::Missing(_) => Fault::Missing,
            LinkError::Exists(_) => Fault::Exists,
            LinkError::OfKind { fault, .. } => *fault,
            _ => Fault::Refused,
        }
    }

    /// The reason that only links of one kind have, if it is this kind's.
    pub fn as_kind<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            LinkError::OfKind { error, .. } => error.downcast_ref(),
            _ => None,
        }
    }
}

/// An interface before it is opened.
pub(super) struct Interface<'a> {
    pub name: &'a str,
    pub index: u32,
    pub mtu: u16,
    pub mac: Mac,
}

impl<'a> Interface<'a> {
    pub fn look_at(name: &'a str) -> Result<Interface<'a>, LinkError> {
        let name = checked(name)?;
        let found = Netlink::new().and_then(|mut netlink| netlink.interface(name));
        let found = found.map_err(|error| match errno(&error) {
            Errno::NODEV => LinkError::Missing(name.into()),
            error => refused("look at", name, error),
        })?;
        let mac = found
            .mac
            .ok_or_else(|| LinkError::NotEthernet(name.into()))?;
        if !found.is_up {
            return Err(LinkError::Down(name.into()));
        }
        Ok(Interface {
            name,
            index: found.index,
            mtu: u16::try_from(found.mtu).unwrap_or(u16::MAX),
            mac,
        })
    }
}

/// The name, if it can be an interface's (`dev_valid_name` in the kernel).
pub(super) fn checked(name: &str) -> Result<&str, LinkError> {
    let fits = (1..=INTERFACE_NAME_MAX).contains(&name.len());
    let odd = |b: u8| b == b'/' || b == b':' || b == b'%' || !b.is_ascii_graphic();
    if !fits || name == "." || name == ".." || name.bytes().any(odd) {
        return Err(LinkError::Name(name.into()));
    }
    Ok(name)
}

/// The kernel's reason for an error of netlink.
pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

pub(super) fn refused(action: &'static str, name: &str, source: Errno) -> LinkError {
    match source {
        Errno::PERM | Errno::ACCESS => LinkError::Permission(name.into()),
        source => LinkError::System {
            action,
            name: name.into(),
            source,
        },
    }
}
