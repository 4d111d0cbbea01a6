//! Host interfaces: those that links attach, and the TAP devices of VNICs.

use std::os::fd::OwnedFd;

use ::switch::links::{HostLink, Tap};
use ::switch::lookup::Mac;
use ::switch::properties::PortProperties;
use ::switch::protocol::{LinkKind, PortDescription, PortKind};

use super::{Host, namespace};
use crate::error::{Error, Result};
use crate::model::{Link, LinkMode, Serves, Vnic};

/// A TAP device, which is there as long as this is.
pub(super) struct Held {
    files: Vec<OwnedFd>,
}

impl Held {
    /// The device, to be attached to a switch.
    fn link(&self, name: &str, mac: Mac, mtu: u16) -> Result<HostLink> {
        let files: std::io::Result<Vec<_>> = self.files.iter().map(OwnedFd::try_clone).collect();
        let files = files.map_err(|error| Error::refused(format_args!("TAP ‘{name}’: {error}")))?;
        Ok(HostLink::reopened(LinkKind::Tap, name, mac, mtu, files))
    }
}

impl Host {
    /// Keeps what keeps a TAP device alive, of a port that a switch has already.
    pub(super) fn hold(&mut self, port: &PortDescription) {
        if port.kind != PortKind::Tap {
            return;
        }
        let files = self.client().map(|client| client.files(port.id));
        if let Ok(Ok(files)) = files {
            self.held.insert(port.name.clone(), Held { files });
        }
    }

    /// Attaches a link's interface, if it is not. Returns its MTU.
    pub fn attach_uplink(&mut self, link: &Link) -> Result<u16> {
        let Some(mode) = link.mode else {
            return Ok(link.mtu);
        };
        if self.has_port(&link.name) {
            return Ok(link.mtu);
        }
        let open = match (mode, self.held.get(&link.name)) {
            (LinkMode::Tap, Some(held)) => held.link(&link.name, Mac([0; 6]), link.mtu)?,
            (LinkMode::Tap, None) => HostLink::tap(&Tap {
                name: &link.name,
                mac: None,
                mtu: link.mtu,
                owner: None,
            })?,
            (LinkMode::Packet | LinkMode::Xdp, _) => HostLink::device(&link.name)?,
        };
        let mtu = open.mtu();
        self.attach(&link.name, open, link.domain, PortProperties::default())?;
        Ok(mtu)
    }

    /// Attaches the interface of a VNIC that serves a namespace or the host, making it if it is not
    /// there. `mtu` is its link's. Others have nothing that can be attached by itself.
    pub fn attach_vnic(&mut self, vnic: &Vnic, domain: u32, mtu: u16) -> Result<()> {
        if self.has_port(&vnic.name) {
            return Ok(());
        }
        let mtu = vnic.properties.mtu.unwrap_or(mtu).min(mtu);
        let tap = Tap {
            name: vnic.interface(),
            mac: Some(vnic.mac),
            mtu,
            owner: None,
        };
        let open = match (&vnic.serves, self.held.get(&vnic.name)) {
            (Serves::Host | Serves::Netns(_), Some(held)) => {
                held.link(&vnic.name, vnic.mac, mtu)?
            }
            (Serves::Host, None) => HostLink::tap(&tap)?,
            (Serves::Netns(name), None) => namespace::within(name, || HostLink::tap(&tap))??,
            (Serves::Guest, _) => return Ok(()),
            (Serves::VhostUser(_), _) => {
                return Err(Error::invalid("vhost-user ports are not served yet"));
            }
        };
        self.attach(&vnic.name, open, domain, vnic.properties.clone())
    }

    fn attach(
        &mut self,
        name: &str,
        link: HostLink,
        domain: u32,
        properties: PortProperties,
    ) -> Result<()> {
        let link = link.called(name);
        let is_tap = link.kind() == LinkKind::Tap;
        let client = self.client()?;
        let port = client.attach_link(link, domain, properties)?;
        if is_tap && !self.held.contains_key(name) {
            match self.client()?.files(port) {
                Ok(files) => {
                    self.held.insert(name.into(), Held { files });
                }
                Err(error) => {
                    let _ = self.client()?.detach(&[port]);
                    return Err(error.into());
                }
            }
        }
        self.ports.insert(name.into(), port);
        Ok(())
    }
}
