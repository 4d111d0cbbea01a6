//! TUN and TAP devices: network interfaces of the host whose other end is this program
//! (Linux, Documentation/networking/tuntap.rst).

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;

use rustix::io::Errno;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::prelude::*;

/// An interface whose other end is this program. Clones are the same one; it is gone, unless it is
/// a persistent one, when the last is dropped.
#[derive(Clone)]
pub struct HostDevice {
    device: Arc<SyncDevice>,
    name: String,
}

/// How an interface is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// The host's address, and the network behind the interface. With one, the interface is set
    /// up.
    pub address: Option<Ipv4Prefix>,
    /// Where the host's default route leads, by way of the interface.
    pub gateway: Option<Ipv4Addr>,
    /// The interface's Ethernet address.
    pub ether: Option<EtherAddress>,
    /// Largest IP packet, in bytes, if it is not the usual one.
    pub mtu: Option<u16>,
}

impl HostDevice {
    /// Opens the TUN (IP packets) or TAP (Ethernet frames) device called `name`, or one that the
    /// kernel names. An error is a sentence.
    pub fn open(tap: bool, name: &str) -> Result<HostDevice, String> {
        let layer = if tap { Layer::L2 } else { Layer::L3 };
        let mut builder = DeviceBuilder::new().layer(layer).inherit_enable_state();
        if !name.is_empty() {
            builder = builder.name(name);
        }
        let opened = builder.build_sync().and_then(|device| {
            device.set_nonblocking(true)?;
            let name = device.name()?;
            Ok(HostDevice {
                device: Arc::new(device),
                name,
            })
        });
        opened.map_err(|error| {
            let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::PERM | Errno::ACCESS) => "; run as root, or with CAP_NET_ADMIN",
                Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
                    "; load the kernel's tun module, or give this container the device"
                }
                Some(Errno::BUSY) => "; another program has the interface: name another",
                Some(Errno::INVAL) => "; name an interface that is a TUN or TAP device, or none",
                _ => "",
            };
            let space = if name.is_empty() { "" } else { " for " };
            let reason = super::os_error(&error);
            format!("/dev/net/tun{space}{name}: {reason}{remedy}")
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The descriptor, to be watched.
    pub fn fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }

    /// Gives the interface its addresses. An error is a sentence.
    pub fn set_up(&self, setup: &Setup) -> Result<(), String> {
        let name = &self.name;
        let failed = |what: &str, error: &io::Error| {
            let reason = super::os_error(error);
            format!("{name}: {what} cannot be set: {reason}")
        };
        if let Some(ether) = setup.ether {
            let set = self.device.set_mac_address(ether.0);
            set.map_err(|error| failed("Ethernet address", &error))?;
        }
        if let Some(mtu) = setup.mtu {
            let set = self.device.set_mtu(mtu);
            set.map_err(|error| failed("MTU", &error))?;
        }
        if let Some(address) = setup.address {
            let address = address.to_string();
            // A device that was there before may have the address.
            self.ip(&["address", "replace", &address, "dev", name])?;
            let up = self.device.enabled(true);
            up.map_err(|error| failed("the interface's state", &error))?;
        }
        if let Some(gateway) = setup.gateway {
            let gateway = gateway.to_string();
            self.ip(&["route", "add", "default", "via", &gateway, "dev", name])?;
        }
        Ok(())
    }

    /// Runs iproute2's command.
    fn ip(&self, arguments: &[&str]) -> Result<(), String> {
        let shown = arguments.join(" ");
        let ran = Command::new("ip").args(arguments).output();
        let ran = ran.map_err(|error| {
            let reason = super::os_error(&error);
            format!("ip {shown}: {reason}; install iproute2")
        })?;
        if ran.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        Err(format!("ip {shown}: {}", said.trim()))
    }

    /// Receives one packet: bytes put into `room`.
    pub fn receive(&self, room: &mut [u8]) -> Result<usize, Errno> {
        self.device.recv(room).map_err(errno)
    }

    /// Sends one packet.
    pub fn send(&self, data: &[u8]) -> Result<(), Errno> {
        self.device.send(data).map(drop).map_err(errno)
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
