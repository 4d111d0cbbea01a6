//! Requests to attach ports: their arguments and descriptors are checked here.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::region::Geometry;

use super::Server;
use crate::ids::PortIndex;
use crate::lanes::Attach;
use crate::memory::SharedRegion;
use crate::port::guest::{GuestLink, MTU_MAX};
use crate::port::waiting::WaitingLink;
use crate::port::{Link, PortKind, exactly};
use crate::protocol::{GuestInterface, NAME_MAX, PatchEnd, PortId, Reply};
use crate::worker::PATCHES_MAX;

impl Server {
    pub(super) fn attach_guest(
        &mut self,
        slots: u32,
        interfaces: Vec<GuestInterface>,
        (shared, waits): (Option<u64>, Option<u64>),
        files: Vec<OwnedFd>,
    ) -> Result<Reply, String> {
        let [region, doorbell] = exactly(files)?;
        let geometry = Geometry::new(slots, interfaces.len()).map_err(|e| e.to_string())?;
        for interface in &interfaces {
            check_name(&interface.name)?;
            if interface.mtu > MTU_MAX {
                return Err(format!(
                    "an MTU of {} for ‘{}’ is too large: a guest's buffers allow {MTU_MAX}",
                    interface.mtu, interface.name
                ));
            }
        }
        let region = SharedRegion::map(region.as_fd(), geometry).map_err(|e| e.to_string())?;
        let region = Arc::new(region.collapsed_by(self.lanes.collapser()));
        let mut ports = Vec::with_capacity(interfaces.len());
        for (i, interface) in interfaces.into_iter().enumerate() {
            let Some(side) = region.switch_side(i) else {
                continue;
            };
            let replaces = match interface.replaces {
                Some(port) => self.open_slot_of(port)?,
                None => None,
            };
            let behind = match interface.behind {
                Some(front) => Some(self.front_of(front, &interface)?),
                None => None,
            };
            let rings = GuestLink::new(side, interface.mtu);
            let (link, kind) = match waits {
                None => (Link::Guest(rings), PortKind::Guest),
                Some(number) => {
                    let call = self.caller.call(number);
                    let (mac, own) = (interface.mac, &interface.properties.allowed_ips);
                    let link = WaitingLink::new(rings, call, mac, own);
                    (Link::Waiting(Box::new(link)), PortKind::Waiting)
                }
            };
            ports.push(Attach {
                links: vec![link],
                kind,
                name: interface.name,
                domain: interface.domain,
                mac: interface.mac,
                properties: interface.properties,
                replaces,
                behind,
            });
        }
        let attached = self.lanes.attach_guest(ports, doorbell, shared);
        Ok(Reply::Attached {
            ports: attached.map_err(|e| e.to_string())?,
            warning: None,
        })
    }

    /// The slot of a port that another is to be behind.
    fn front_of(&self, front: PortId, interface: &GuestInterface) -> Result<PortIndex, String> {
        let slot = self.slot_of(front)?;
        let member = self.lanes.member(slot);
        match member.filter(|it| it.domain == interface.domain && it.may_be_front()) {
            Some(_) => Ok(slot),
            None => Err(format!(
                "‘{}’ cannot be behind that port: a front is a guest's port of the same domain, behind no other, with one lane",
                interface.name
            )),
        }
    }

    /// The slot of a port that is to get other rings. A closed port makes way.
    fn open_slot_of(&mut self, port: PortId) -> Result<Option<PortIndex>, String> {
        let slot = self.slot_of(port)?;
        if self.lanes.is_closed(slot) {
            self.lanes.detach(slot);
            return Ok(None);
        }
        Ok(Some(slot))
    }

    pub(super) fn attach_link(&mut self, port: Attach) -> Result<Reply, String> {
        check_name(&port.name)?;
        let attached = self.lanes.attach_link(port);
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
                "‘{}’ and ‘{}’ are in one domain: a patch connects two",
                ends[0].name, ends[1].name
            ));
        }
        let names = ends.each_ref().map(|end| end.name.clone());
        let attached = self.lanes.attach_patch(ends);
        let (ports, cycle) = attached.map_err(|e| e.to_string())?;
        let warning = cycle.then(|| {
            format!(
                "‘{}’ and ‘{}’ make a cycle without a spanning tree: a flooded frame circulates until it has passed {PATCHES_MAX} patches",
                names[0], names[1]
            )
        });
        Ok(Reply::Attached {
            ports: ports.to_vec(),
            warning,
        })
    }
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
