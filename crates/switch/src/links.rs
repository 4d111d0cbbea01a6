//! Opening host links: the part of a switch that needs privileges, done by its parent.
//!
//! A link is opened here, handed to the switch ([`crate::client::SwitchClient::attach_link`]), and
//! gone with the last descriptor: a TAP device vanishes, a host interface is left as it was found.

mod vhost;

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netdevice;

use crate::lookup::Mac;
use crate::protocol::LinkKind;
use crate::sys::{self, INTERFACE_NAME_MAX};

pub use vhost::VhostUser;

/// Bytes that may wait in the kernel for a packet socket, each way: at 1500 bytes some 2000 frames
/// with what the kernel adds to each.
const PACKET_QUEUE: i32 = 8 << 20;

/// Why a link could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The name cannot be an interface's.
    #[error(
        "‘{0}’ is no interface name: it needs 1 to {INTERFACE_NAME_MAX} bytes without ‘/’ and spaces"
    )]
    Name(String),
    /// No such interface.
    #[error("no interface ‘{0}’: `ip link` lists those there are")]
    Missing(String),
    /// The TAP's name is taken.
    #[error("an interface ‘{0}’ exists already: choose another name, or attach it as dev:{0}")]
    Exists(String),
    /// The interface is down.
    #[error("interface ‘{0}’ is down: `ip link set {0} up` first")]
    Down(String),
    /// The interface carries no Ethernet frames.
    #[error("interface ‘{0}’ is no Ethernet interface: only those can be attached")]
    NotEthernet(String),
    /// The address cannot be an interface's.
    #[error(
        "{mac} cannot be the address of ‘{name}’: it must be a unicast address that is not zero"
    )]
    Address {
        /// The interface.
        name: String,
        /// The address.
        mac: Mac,
    },
    /// The privilege is missing.
    #[error(
        "no permission to open ‘{0}’: run as root, or with the capabilities CAP_NET_ADMIN and CAP_NET_RAW"
    )]
    Permission(String),
    /// There are no TAP devices here.
    #[error(
        "no /dev/net/tun, which TAP ‘{0}’ needs: `modprobe tun`, or let the container have the device"
    )]
    NoTun(String),
    /// The vhost-user socket's path is taken.
    #[error("‘{0}’ exists and is in use, or is no socket: choose another path")]
    SocketTaken(String),
    /// The vhost-user socket cannot be made or reached.
    #[error("cannot {action} ‘{path}’ for vhost-user: {source}")]
    Socket {
        /// What was tried.
        action: &'static str,
        /// The socket's path.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The kernel refused something else.
    #[error("cannot {action} ‘{name}’: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// On which interface.
        name: String,
        /// Why not.
        source: Errno,
    },
}

/// An open host link, to be handed to a switch.
#[derive(Debug)]
pub struct HostLink {
    pub(crate) kind: LinkKind,
    pub(crate) name: String,
    pub(crate) mtu: u16,
    /// One for each queue.
    pub(crate) files: Vec<OwnedFd>,
    mac: Mac,
}

/// A TAP device to be made.
#[derive(Clone, Debug)]
pub struct Tap<'a> {
    /// The device's name.
    pub name: &'a str,
    /// The host's address on it; the kernel chooses one if there is none here.
    pub mac: Option<Mac>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The user id that may open the device besides root.
    pub owner: Option<u32>,
}

impl HostLink {
    /// Makes a TAP device and sets it up.
    pub fn tap(tap: &Tap<'_>) -> Result<HostLink, LinkError> {
        let name = checked(tap.name)?;
        if let Some(mac) = tap.mac
            && (mac.is_multicast() || mac.0 == [0; 6])
        {
            return Err(LinkError::Address {
                name: name.into(),
                mac,
            });
        }
        let failed = |action| move |source| refused(action, name, source);
        let socket = sys::interface_socket().map_err(failed("look at"))?;
        if netdevice::name_to_index(&socket, name).is_ok() {
            return Err(LinkError::Exists(name.into()));
        }
        let file = sys::open_tap(name).map_err(|error| match error {
            Errno::BUSY => LinkError::Exists(name.into()),
            Errno::NOENT | Errno::NODEV | Errno::NXIO => LinkError::NoTun(name.into()),
            error => refused("make TAP", name, error),
        })?;
        if let Some(owner) = tap.owner {
            sys::set_tap_owner(file.as_fd(), owner).map_err(failed("give away TAP"))?;
        }
        if let Some(Mac(mac)) = tap.mac {
            sys::set_hardware_address(socket.as_fd(), name, mac)
                .map_err(failed("set the address of"))?;
        }
        sys::set_mtu(socket.as_fd(), name, tap.mtu).map_err(failed("set the MTU of"))?;
        sys::set_up(socket.as_fd(), name).map_err(failed("set up"))?;
        let mac = sys::hardware_address(socket.as_fd(), name).map_err(failed("look at"))?;
        Ok(HostLink {
            kind: LinkKind::Tap,
            name: name.into(),
            mtu: tap.mtu,
            files: vec![file],
            mac: Mac(mac.ok_or_else(|| LinkError::NotEthernet(name.into()))?),
        })
    }

    /// A link that is open already, as [`crate::client::SwitchClient::files`] gave it: so one
    /// whose switch is gone goes on in another. The rest is as it was when it was opened.
    pub fn reopened(
        kind: LinkKind,
        name: &str,
        mac: Mac,
        mtu: u16,
        files: Vec<OwnedFd>,
    ) -> HostLink {
        HostLink {
            kind,
            name: name.into(),
            mtu,
            files,
            mac,
        }
    }

    /// Attaches an interface that exists and is up.
    pub fn device(name: &str) -> Result<HostLink, LinkError> {
        let name = checked(name)?;
        let failed = |action| move |source| refused(action, name, source);
        let socket = sys::interface_socket().map_err(failed("look at"))?;
        let index =
            netdevice::name_to_index(&socket, name).map_err(|_| LinkError::Missing(name.into()))?;
        let mac = sys::hardware_address(socket.as_fd(), name).map_err(failed("look at"))?;
        let mac = mac.ok_or_else(|| LinkError::NotEthernet(name.into()))?;
        if !sys::is_up(socket.as_fd(), name).map_err(failed("look at"))? {
            return Err(LinkError::Down(name.into()));
        }
        let mtu = sys::mtu(socket.as_fd(), name).map_err(failed("look at"))?;
        let file = sys::packet::open(index, PACKET_QUEUE).map_err(failed("attach"))?;
        Ok(HostLink {
            kind: LinkKind::Packet,
            name: name.into(),
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            files: vec![file],
            mac: Mac(mac),
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Largest IP packet, in bytes.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The host's own address on the interface.
    pub fn mac(&self) -> Mac {
        self.mac
    }
}

/// The name, if it can be an interface's (`dev_valid_name` in the kernel).
fn checked(name: &str) -> Result<&str, LinkError> {
    let fits = (1..=INTERFACE_NAME_MAX).contains(&name.len());
    let odd = |b: u8| b == b'/' || b == b':' || b == b'%' || !b.is_ascii_graphic();
    if !fits || name == "." || name == ".." || name.bytes().any(odd) {
        return Err(LinkError::Name(name.into()));
    }
    Ok(name)
}

fn refused(action: &'static str, name: &str, source: Errno) -> LinkError {
    match source {
        Errno::PERM | Errno::ACCESS => LinkError::Permission(name.into()),
        source => LinkError::System {
            action,
            name: name.into(),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_is_told_in_a_sentence_with_a_remedy() {
        let missing = HostLink::device("weir-none9").unwrap_err();
        assert_eq!(
            missing.to_string(),
            "no interface ‘weir-none9’: `ip link` lists those there are"
        );
        let long = HostLink::device("an-interface-name-too-long").unwrap_err();
        assert!(matches!(long, LinkError::Name(_)));
        let loopback = HostLink::device("lo").unwrap_err();
        assert!(matches!(loopback, LinkError::NotEthernet(_)));
        let taken = Tap {
            name: "lo",
            mac: None,
            mtu: 1500,
            owner: None,
        };
        assert!(matches!(HostLink::tap(&taken), Err(LinkError::Exists(_))));
    }
}
