//! Requests to attach something: what comes with them is looked over here.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::region::Geometry;
use rustix::io::Errno;

use super::Server;
use crate::lanes::Attach;
use crate::lookup::Mac;
use crate::memory::SharedRegion;
use crate::port::Link;
use crate::port::guest::{GuestLink, MTU_MAX};
use crate::port::packet::PacketLink;
use crate::port::tap::TapLink;
use crate::port::vhost::VhostLink;
use crate::port::vxlan::{REMOTES_MAX, VxlanLink};
use crate::port::xdp::XdpLink;
use crate::properties::PortProperties;
use crate::protocol::{GuestInterface, LinkKind, NAME_MAX, PatchEnd, PortKind, Reply, Tunnel};
use crate::worker::PATCHES_MAX;

impl Server {
    pub(super) fn attach_guest(
        &mut self,
        slots: u32,
        interfaces: Vec<GuestInterface>,
        files: Vec<OwnedFd>,
    ) -> Result<Reply, String> {
        let [region, doorbell] = descriptors(files)?;
        let geometry = Geometry::new(slots, interfaces.len()).map_err(|e| e.to_string())?;
        for interface in &interfaces {
            check_name(&interface.name)?;
            if interface.mtu > MTU_MAX {
                return Err(format!(
                    "an MTU of {} for ‘{}’: {MTU_MAX} is the most that a guest's buffers allow",
                    interface.mtu, interface.name
                ));
            }
        }
        let region = SharedRegion::map(region.as_fd(), geometry).map_err(|e| e.to_string())?;
        let region = Arc::new(region.collapsed_by(self.lanes.collapser()));
        let ports = interfaces
            .into_iter()
            .enumerate()
            .filter_map(|(i, interface)| {
                let side = region.switch_side(i)?;
                Some(Attach {
                    links: vec![Link::Guest(GuestLink::new(side, interface.mtu))],
                    kind: PortKind::Guest,
                    name: interface.name,
                    domain: interface.domain,
                    mac: interface.mac,
                    properties: interface.properties,
                })
            });
        let attached = self.lanes.attach_guest(ports.collect(), doorbell);
        Ok(Reply::Attached {
            ports: attached.map_err(|e| e.to_string())?,
            warning: None,
        })
    }

    pub(super) fn attach_link(
        &mut self,
        kind: PortKind,
        links: Vec<Link>,
        name: String,
        domain: u32,
        mac: Option<Mac>,
        properties: PortProperties,
    ) -> Result<Reply, String> {
        check_name(&name)?;
        let attached = self.lanes.attach_link(Attach {
            links,
            kind,
            name,
            domain,
            mac,
            properties,
        });
        Ok(Reply::Attached {
            ports: vec![attached.map_err(|e| e.to_string())?],
            warning: None,
        })
    }

    pub(super) fn attach_patch(&mut self, ends: [PatchEnd; 2]) -> Result<Reply, String> {
        for end in &ends {
            check_name(&end.name)?;
        }
        if ends[0].domain == ends[1].domain {
            return Err(format!(
                "‘{}’ and ‘{}’ would join a domain to itself: a patch has its ends in two",
                ends[0].name, ends[1].name
            ));
        }
        let names = ends.each_ref().map(|end| end.name.clone());
        let attached = self.lanes.attach_patch(ends);
        let (ports, cycle) = attached.map_err(|e| e.to_string())?;
        let warning = cycle.then(|| {
            format!(
                "‘{}’ and ‘{}’ make a cycle: nothing here runs a spanning tree, so floods go round it until they have been through {PATCHES_MAX} patches",
                names[0], names[1]
            )
        });
        Ok(Reply::Attached {
            ports: ports.to_vec(),
            warning,
        })
    }
}

/// The links of a host link's queues.
pub(super) fn host_links(
    kind: LinkKind,
    name: &str,
    mtu: u16,
    tunnel: Option<Tunnel>,
    files: Vec<OwnedFd>,
) -> Result<Vec<Link>, String> {
    if files.is_empty() {
        return Err("no descriptor came with a link that is to be attached".into());
    }
    match kind {
        LinkKind::Tap => {
            let links = files.into_iter().map(|file| TapLink::new(file, mtu));
            Ok(links.map(Link::Tap).collect())
        }
        LinkKind::Packet => {
            let links = files.into_iter().map(|file| PacketLink::new(file, mtu));
            Ok(links.map(Link::Packet).collect())
        }
        LinkKind::VhostUser => {
            let [socket] = descriptors(files)?;
            vhost(VhostLink::listen(socket, mtu))
        }
        LinkKind::VhostUserConnected => {
            let [socket] = descriptors(files)?;
            vhost(VhostLink::connected(socket, mtu))
        }
        LinkKind::Xdp => {
            let mut files = files.into_iter();
            let [Some(umem), Some(watch), Some(program)] =
                [files.next(), files.next(), files.next()]
            else {
                return Err("an XDP link came without its descriptors".into());
            };
            let sockets = files.collect();
            let links = XdpLink::of_queues(sockets, &umem, watch, program, mtu).map_err(|error| {
                format!(
                    "cannot map the rings of ‘{name}’: {error}; that takes Linux 6.4 or later, and sockets that nobody has used: attach it by AF_PACKET (mode packet)"
                )
            });
            Ok(links?.into_iter().map(Link::Xdp).collect())
        }
        LinkKind::Vxlan => {
            let [socket] = descriptors(files)?;
            let tunnel = tunnel.ok_or("a VXLAN link came without its network")?;
            let Tunnel { vni, remotes } = tunnel;
            if remotes.is_empty() || remotes.len() > REMOTES_MAX {
                return Err(format!("a VXLAN link has 1 to {REMOTES_MAX} remotes"));
            }
            let link = VxlanLink::new(socket, vni, remotes, mtu);
            Ok(vec![Link::Vxlan(Box::new(link))])
        }
    }
}

/// A vhost-user port, if the kernel lets it watch its socket.
fn vhost(link: Result<VhostLink, Errno>) -> Result<Vec<Link>, String> {
    let link = link.map_err(|error| format!("cannot watch the vhost-user socket: {error}"))?;
    Ok(vec![Link::Vhost(Box::new(link))])
}

/// The descriptors that a request must come with.
fn descriptors<const N: usize>(files: Vec<OwnedFd>) -> Result<[OwnedFd; N], String> {
    let found = files.len();
    let wrong = move |_| format!("{found} descriptors came with a request that needs {N}");
    files.try_into().map_err(wrong)
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(format!(
            "a port's name has 1 to {NAME_MAX} bytes, ‘{name}’ has {}",
            name.len()
        ));
    }
    // They would also make a name several times as long in a message.
    if name.chars().any(char::is_control) {
        return Err(format!(
            "a port's name has no control characters, ‘{}’ has",
            name.escape_debug()
        ));
    }
    Ok(())
}
