//! Opening host links: the part of a switch that needs privileges, done by its parent.
//!
//! A link is opened here, passed to the switch ([`crate::client::SwitchClient::attach_link`]), and
//! gone with the last descriptor: a TAP device vanishes, a host interface is left as it was found,
//! once [GRO](Gro) is off that was turned on for it. How each kind is opened stands with the kind.

use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::net::netdevice;

use super::kinds::{LinkRecord, PortKind};
use super::{packet, xdp};
use crate::mac::Mac;
use crate::sys::{self, INTERFACE_NAME_MAX};

pub use super::QUEUES_MAX;
pub use super::kinds::open::*;
pub use super::tap::tap_namespace;

/// Bytes that may wait in the kernel for a socket, each way: at 1500 bytes some 2000 frames with
/// what the kernel adds to each.
pub(super) const SOCKET_QUEUE: i32 = 8 << 20;

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
    /// The name is taken.
    #[error("an interface ‘{0}’ exists already: choose another name")]
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
        "no permission to open ‘{0}’: run as root, or with the capabilities CAP_NET_ADMIN and CAP_NET_RAW (and CAP_BPF for AF_XDP)"
    )]
    Permission(String),
    /// A reason that only links of one kind have.
    #[error("{error}")]
    OfKind {
        /// What sort of reason it is.
        fault: Fault,
        /// The reason: of the kind's own type.
        error: Box<dyn std::error::Error + Send + Sync>,
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
    pub(super) fn of_kind<E>(fault: Fault, error: E) -> LinkError
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let error = Box::new(error);
        LinkError::OfKind { fault, error }
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

/// An open host link, to be passed to a switch.
#[derive(Debug)]
pub struct HostLink {
    pub(crate) record: LinkRecord,
    pub(crate) name: String,
    pub(crate) mtu: u16,
    /// What it is worked by, as its kind has it.
    pub(crate) files: Vec<OwnedFd>,
    /// The address of the host on its interface, or of the machine behind a link with one machine
    /// behind it; zeros if there is none.
    pub(super) mac: Mac,
    pub(super) gro: Option<Gro>,
}

/// How an interface that exists is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By AF_XDP if the driver moves frames without a copy, else by AF_PACKET.
    ///
    /// Where frames are copied anyway, AF_PACKET is ahead in what matters there: segments of up to
    /// 64 KB stay whole between hosts on veth pairs, with partial checksums, and VLAN
    /// tags that the kernel keeps beside a frame are seen.
    #[default]
    Auto,
    /// By AF_XDP: zero copy where the driver can, else by copies, native or generic.
    Xdp,
    /// By AF_PACKET.
    Packet,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "auto" => Ok(Mode::Auto),
            "xdp" => Ok(Mode::Xdp),
            "packet" => Ok(Mode::Packet),
            _ => Err(format!("‘{text}’ is no mode: auto, xdp and packet are")),
        }
    }
}

/// An interface to be attached.
#[derive(Clone, Debug)]
pub struct Device<'a> {
    /// Its name.
    pub name: &'a str,
    /// How.
    pub mode: Mode,
}

/// An interface before it is opened.
pub(super) struct Interface<'a> {
    pub name: &'a str,
    pub index: u32,
    pub mtu: u16,
    pub mac: Mac,
    /// To make requests on.
    pub socket: OwnedFd,
}

impl HostLink {
    /// A link that is open already, as [`crate::client::SwitchClient::files`] gave it: so one
    /// whose switch is gone goes on in another. The rest is as it was when it was opened.
    pub fn reopened(
        record: LinkRecord,
        name: &str,
        mac: Mac,
        mtu: u16,
        files: Vec<OwnedFd>,
    ) -> HostLink {
        HostLink {
            record,
            name: name.into(),
            mtu,
            files,
            mac,
            gro: None,
        }
    }

    /// Attaches an interface that exists and is up, by the best means there is.
    pub fn device(name: &str) -> Result<HostLink, LinkError> {
        let mode = Mode::Auto;
        HostLink::attach(&Device { name, mode })
    }

    /// Attaches an interface that exists and is up.
    pub fn attach(device: &Device<'_>) -> Result<HostLink, LinkError> {
        HostLink::attach_lanes(device, 1)
    }

    /// Attaches an interface that exists and is up, for several lanes: by AF_PACKET with a socket
    /// for each lane, over which the kernel spreads flows; by AF_XDP with a socket for each of the
    /// interface's queues, however many lanes there are.
    pub fn attach_lanes(device: &Device<'_>, lanes: usize) -> Result<HostLink, LinkError> {
        let interface = Interface::look_at(checked(device.name)?)?;
        let by_xdp = match device.mode {
            Mode::Xdp => true,
            Mode::Packet => false,
            Mode::Auto => sys::xdp::has_zero_copy(interface.index),
        };
        if by_xdp {
            xdp::open::attach(&interface)
        } else {
            packet::open(&interface, lanes)
        }
    }

    /// The same, its port called by another name than its interface.
    pub fn called(mut self, name: &str) -> HostLink {
        self.name = name.into();
        self
    }

    /// The same, its port on a link of this MTU: that is the most that properties of the port can
    /// allow later, whatever the MTU of the interface is now.
    pub fn within_mtu(mut self, mtu: u16) -> HostLink {
        self.mtu = mtu;
        self
    }

    /// GRO that was turned on for the link: it stays on as long as the link, or the value returned
    /// here.
    pub fn take_gro(&mut self) -> Option<Gro> {
        self.gro.take()
    }

    /// What it leads to.
    pub fn kind(&self) -> PortKind {
        self.record.kind()
    }

    /// The interface's name, or that which its port is called by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Largest IP packet, in bytes.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The address of the machine behind the link, where there is one alone: the host behind a TAP
    /// device, the machine behind a vhost-user socket.
    pub(crate) fn behind(&self) -> Option<Mac> {
        let is_one = !self.kind().is_uplink();
        Some(self.mac).filter(|mac| is_one && *mac != Mac::ZERO)
    }

    /// The host's own address on the interface.
    pub fn mac(&self) -> Mac {
        self.mac
    }
}

impl<'a> Interface<'a> {
    pub fn look_at(name: &'a str) -> Result<Interface<'a>, LinkError> {
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
        Ok(Interface {
            name,
            index,
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            mac: Mac(mac),
            socket,
        })
    }
}

/// Whether there is an interface of this name that can be attached, as far as that shows before.
pub fn check(name: &str) -> Result<(), LinkError> {
    Interface::look_at(name).map(drop)
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
    }
}
