//! Opening host links: the part of a switch that needs privileges, done by its parent.
//!
//! A link is opened here, handed to the switch ([`crate::client::SwitchClient::attach_link`]), and
//! gone with the last descriptor: a TAP device vanishes, a host interface is left as it was found,
//! once [GRO](Gro) is off that was turned on for it.

mod gro;
mod vhost;
mod vxlan;
mod xdp;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::net::netdevice;

use crate::lookup::Mac;
use crate::protocol::{LinkKind, Tunnel};
use crate::sys::{self, INTERFACE_NAME_MAX};

pub use gro::Gro;
pub use vhost::{VhostUser, vhost_listener};
pub use vxlan::{Vxlan, VxlanError};
pub use xdp::{QUEUES_MAX, XdpMode};

/// Bytes that may wait in the kernel for a packet socket, each way: at 1500 bytes some 2000 frames
/// with what the kernel adds to each.
const PACKET_QUEUE: i32 = 8 << 20;
/// Longest path of a Unix socket, in bytes: `sun_path` without its last zero.
pub const SOCKET_PATH_MAX: usize = 107;

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
    /// Its frames are longer than AF_XDP's buffers.
    #[error(
        "an MTU of {mtu} is too much for AF_XDP on ‘{name}’, which takes 3822 at most: lower it, or attach it by AF_PACKET (mode packet)"
    )]
    TooLong {
        /// The interface.
        name: String,
        /// Its MTU, in bytes.
        mtu: u16,
    },
    /// It has more queues than sockets are opened for.
    #[error(
        "‘{name}’ has {queues} receive queues, {QUEUES_MAX} are the most for AF_XDP: `ethtool -L {name} combined {QUEUES_MAX}`, or attach it by AF_PACKET (mode packet)"
    )]
    Queues {
        /// The interface.
        name: String,
        /// Its receive queues.
        queues: u32,
    },
    /// Someone else's XDP program is there.
    #[error(
        "‘{0}’ has an XDP program of someone else's: detach it (`ip link set {0} xdp off`), or attach it by AF_PACKET (mode packet)"
    )]
    ForeignProgram(String),
    /// Someone else's AF_XDP socket is there.
    #[error(
        "a queue of ‘{0}’ has an AF_XDP socket already: end who has it, or attach it by AF_PACKET (mode packet)"
    )]
    QueueTaken(String),
    /// The memory may not be locked.
    #[error(
        "the limit of locked memory is too low for AF_XDP on ‘{0}’: raise it (`ulimit -l`), or give the capability CAP_IPC_LOCK"
    )]
    LockedMemory(String),
    /// The kernel does not know AF_XDP.
    #[error(
        "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS), which ‘{0}’ needs: attach it by AF_PACKET (mode packet)"
    )]
    NoXdp(String),
    /// The privilege is missing.
    #[error(
        "no permission to open ‘{0}’: run as root, or with the capabilities CAP_NET_ADMIN and CAP_NET_RAW (and CAP_BPF for AF_XDP)"
    )]
    Permission(String),
    /// There are no TAP devices here.
    #[error(
        "no /dev/net/tun, which TAP ‘{0}’ needs: `modprobe tun`, or let the container have the device"
    )]
    NoTun(String),
    /// The VXLAN link cannot be.
    #[error(transparent)]
    Vxlan(#[from] VxlanError),
    /// The vhost-user socket's path is taken.
    #[error("‘{0}’ exists already, and is in use or no socket: choose another path")]
    SocketTaken(String),
    /// The path of a vhost-user socket does not fit its address (unix(7)).
    #[error("‘{0}’ is too long for a socket: its path has at most {SOCKET_PATH_MAX} bytes")]
    SocketPath(String),
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
    /// What it is worked by: see [`LinkKind`].
    pub(crate) files: Vec<OwnedFd>,
    mac: Mac,
    mode: Option<XdpMode>,
    pub(crate) tunnel: Option<Tunnel>,
    gro: Option<Gro>,
}

/// How an interface that exists is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By AF_XDP if the driver moves frames without a copy, else by AF_PACKET.
    ///
    /// Where frames are copied anyway, AF_PACKET is ahead in what matters there: segments of up to
    /// 64 KB stay whole between hosts on veth pairs, with their checksums left undone, and VLAN
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

/// What there is to know of an interface before it is opened.
struct Interface<'a> {
    name: &'a str,
    index: u32,
    mtu: u16,
    mac: Mac,
    /// To make requests on.
    socket: OwnedFd,
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
            mode: None,
            tunnel: None,
            gro: None,
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
            mode: None,
            tunnel: None,
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
        match by_xdp {
            true => xdp::open(&interface),
            false => interface.open_packet(lanes),
        }
    }

    /// How frames move, if it is by AF_XDP.
    pub fn xdp_mode(&self) -> Option<XdpMode> {
        self.mode
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

    /// GRO that was turned on for it, which lasts as long as the link, or what is taken here.
    pub fn take_gro(&mut self) -> Option<Gro> {
        self.gro.take()
    }

    /// How it is opened.
    pub fn kind(&self) -> LinkKind {
        self.kind
    }

    /// The interface's name, or that which its port is called by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Largest IP packet, in bytes.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The address of whoever is behind the link, where that is one alone: the host behind a TAP
    /// device, the machine behind a vhost-user socket.
    pub(crate) fn behind(&self) -> Option<Mac> {
        let alone = match self.kind {
            LinkKind::Tap | LinkKind::VhostUser | LinkKind::VhostUserConnected => true,
            LinkKind::Packet | LinkKind::Xdp | LinkKind::Vxlan => false,
        };
        Some(self.mac).filter(|mac| alone && mac.0 != [0; 6])
    }

    /// The host's own address on the interface.
    pub fn mac(&self) -> Mac {
        self.mac
    }
}

impl<'a> Interface<'a> {
    fn look_at(name: &'a str) -> Result<Interface<'a>, LinkError> {
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

    fn open_packet(&self, lanes: usize) -> Result<HostLink, LinkError> {
        let sockets = lanes.clamp(1, QUEUES_MAX as usize);
        let files = sys::packet::open(self.index, PACKET_QUEUE, sockets)
            .map_err(|source| refused("attach", self.name, source))?;
        Ok(HostLink {
            kind: LinkKind::Packet,
            name: self.name.into(),
            mtu: self.mtu,
            files,
            mac: self.mac,
            mode: None,
            tunnel: None,
            gro: Gro::turn_on(self.name),
        })
    }
}

/// Whether there is an interface of this name that can be attached, as far as that shows before.
pub fn check(name: &str) -> Result<(), LinkError> {
    Interface::look_at(name).map(drop)
}

/// The network namespace that a TAP device was made in, by a descriptor of the device
/// ([`crate::client::SwitchClient::files`]): the descriptors keep it from ending.
pub fn tap_namespace(tap: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    Ok(sys::tap_namespace(tap)?)
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
