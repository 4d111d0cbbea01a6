//! Opening host links: the part of a switch that needs privileges, done by its parent.
//!
//! A link is opened here, passed to the switch ([`crate::client::SwitchClient::attach_link`]), and
//! ends with its last descriptor. A TAP device vanishes then. A host interface is as it was before,
//! once the opener turns [GRO](Gro) off again. Each kind's module has the code that opens it.

use std::os::fd::OwnedFd;
use std::str::FromStr;

use super::kinds::{LinkRecord, Listed, PortKind};
use super::opening::Interface;
use super::packet::{self, PacketLink};
use super::xdp::{self, XdpLink};
use crate::mac::Mac;
use crate::sys;

pub use super::QUEUES_MAX;
pub use super::gro::Gro;
pub use super::kinds::open::*;
pub use super::opening::{Fault, LinkError, Open, Opened};

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
    mac: Mac,
    gro: Option<Gro>,
}

/// How an interface that exists is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By AF_XDP if the driver supports zero-copy, else by AF_PACKET.
    ///
    /// Where frames are copied anyway, AF_XDP costs less a frame, but AF_PACKET is ahead in what
    /// matters there: segments of up to 64 KB stay whole between hosts on veth pairs, with partial
    /// checksums (by AF_XDP, a TCP stream is some forty times as many frames), and VLAN tags that the
    /// kernel keeps beside a frame are seen.
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
            _ => Err(format!("‘{text}’ is not a mode: use auto, xdp or packet")),
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

impl HostLink {
    /// Opens a link of the kind that the options are for.
    pub fn open<O>(options: &O) -> Result<HostLink, LinkError>
    where
        O: Open,
        O::Link: Listed,
    {
        options.open().map(HostLink::of::<O::Link>)
    }

    fn of<K: Listed>(opened: Opened<K::Record>) -> HostLink {
        HostLink {
            record: K::list(opened.record),
            name: opened.name,
            mtu: opened.mtu,
            files: opened.files,
            mac: opened.mac,
            gro: opened.gro,
        }
    }

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
        let interface = Interface::look_at(device.name)?;
        let by_xdp = match device.mode {
            Mode::Xdp => true,
            Mode::Packet => false,
            Mode::Auto => sys::xdp::has_zero_copy(interface.index),
        };
        if by_xdp {
            xdp::open(&interface).map(HostLink::of::<XdpLink>)
        } else {
            packet::open(&interface, lanes).map(HostLink::of::<PacketLink>)
        }
    }

    /// The same, its port called by another name than its interface.
    pub fn called(mut self, name: &str) -> HostLink {
        self.name = name.into();
        self
    }

    /// The same, its port on a link of this MTU. Properties of the port can allow no more later, at
    /// any MTU of the interface.
    pub fn within_mtu(mut self, mtu: u16) -> HostLink {
        self.mtu = mtu;
        self
    }

    /// The same, with one machine of this address behind it.
    pub fn with_mac(mut self, mac: Mac) -> HostLink {
        self.mac = mac;
        self
    }

    /// GRO that was turned on for the link: it stays on as long as the link, or the value returned
    /// here.
    pub fn take_gro(&mut self) -> Option<Gro> {
        self.gro.take()
    }

    /// What there is to say of it besides its descriptors.
    pub fn record(&self) -> &LinkRecord {
        &self.record
    }

    /// What it leads to.
    pub fn kind(&self) -> PortKind {
        self.record.kind()
    }

    /// The port's name: the interface's, unless it is [called](Self::called) otherwise.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Largest IP packet, in bytes.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The address of the machine behind the link, where there is one alone: the host behind a TAP
    /// device, the machine behind a socket.
    pub(crate) fn behind(&self) -> Option<Mac> {
        let is_one = !self.kind().is_uplink();
        Some(self.mac).filter(|mac| is_one && *mac != Mac::ZERO)
    }

    /// The host's own address on the interface.
    pub fn mac(&self) -> Mac {
        self.mac
    }
}

/// Whether there is an interface of this name that can be attached, as far as that shows before.
pub fn check(name: &str) -> Result<(), LinkError> {
    Interface::look_at(name).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_is_told_in_a_sentence_with_a_remedy() {
        let missing = HostLink::device("weir-none9").unwrap_err();
        assert_eq!(
            missing.to_string(),
            "no interface ‘weir-none9’: `ip link` lists them"
        );
        let long = HostLink::device("an-interface-name-too-long").unwrap_err();
        assert!(matches!(long, LinkError::Name(_)));
        let loopback = HostLink::device("lo").unwrap_err();
        assert!(matches!(loopback, LinkError::NotEthernet(_)));
    }
}
