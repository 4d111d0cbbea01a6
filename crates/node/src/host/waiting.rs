//! VNICs whose guests do not run: their first frames wait in rings of the switch's, which calls for the guest then.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::AsFd;
use std::time::Duration;

use ::switch::client::Guest;
use ::switch::memory::SharedRegion;
use ::switch::protocol::{GuestInterface, PortId, PortKind};
use abi::region::Geometry;

use super::console::first_number;
use super::doorbells::{Doorbell, eventfd};
use super::launch::{LaunchPort, interface};
use super::{Host, Port};
use crate::error::{Error, Result};

/// Frames that wait for a guest, at most.
const SLOTS: u32 = 64;

/// The VNICs that wait.
#[derive(Default)]
pub(super) struct Waiting {
    /// The doorbell of all, which nobody rings.
    doorbell: Option<Doorbell>,
    /// The last number by which the switch calls.
    last: u64,
    numbers: HashMap<String, u64>,
    names: HashMap<u64, String>,
}

impl Waiting {
    /// A number for a VNIC: one that no earlier call has, also of an earlier node.
    fn add(&mut self, name: &str) -> u64 {
        self.remove(name);
        self.last = first_number().max(self.last + 1);
        self.numbers.insert(name.into(), self.last);
        self.names.insert(self.last, name.into());
        self.last
    }

    /// Forgets a VNIC.
    pub fn remove(&mut self, name: &str) {
        if let Some(number) = self.numbers.remove(name) {
            self.names.remove(&number);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.names.clear();
    }
}

impl Host {
    /// Whether a VNIC waits for a frame.
    pub fn awaits_frame(&self, name: &str) -> bool {
        self.waiting.numbers.contains_key(name)
    }

    /// Has a VNIC wait for a frame. If it has a port, that of a guest which goes, it stays, and frames that the guest
    /// has not read wait.
    pub fn await_frame(&mut self, port: &LaunchPort) -> Result<()> {
        let (_, region) = SharedRegion::create(Geometry::new(SLOTS, 1)?, &[interface(port)?])?;
        let doorbell = match &self.waiting.doorbell {
            Some(doorbell) => doorbell.clone(),
            None => Doorbell::of_a_guest(eventfd()?),
        };
        let replaces = self.ports.get(&port.name).map(|port| port.id);
        let interface = self.interface_of(port, replaces)?;
        let number = self.waiting.add(&port.name);
        let attached = self.client().and_then(|client| {
            Ok(client.attach_guest(Guest {
                region: region.as_fd(),
                doorbell: doorbell.as_fd(),
                shared: doorbell.shared,
                waits: Some(number),
                slots: SLOTS,
                interfaces: vec![interface],
            })?)
        });
        self.waiting.doorbell = Some(doorbell);
        let ids = attached.inspect_err(|_| self.waiting.remove(&port.name))?;
        let (kind, domain) = (PortKind::Waiting, port.domain);
        for id in ids {
            self.ports
                .insert(port.name.clone(), Port { id, kind, domain });
        }
        Ok(())
    }

    /// A port as the switch is told.
    pub(super) fn interface_of(
        &self,
        port: &LaunchPort,
        replaces: Option<PortId>,
    ) -> Result<GuestInterface> {
        let behind = match &port.behind {
            None => None,
            Some(front) => match self.ports.get(front) {
                Some(front) => Some(front.id),
                None => {
                    return Err(Error::failed(format_args!(
                        "VNIC ‘{front}’, whose connections ‘{}’ gets, has no port: it gets one as soon as that is there",
                        port.name
                    )));
                }
            },
        };
        Ok(GuestInterface {
            replaces,
            behind,
            ..port.for_switch()
        })
    }

    /// Has a VNIC wait for a frame no more that could not get its guest. Its frames wait on.
    pub fn stop_waiting(&mut self, name: &str) {
        self.waiting.remove(name);
    }

    /// Those among the VNICs behind a VNIC whose connections are over for `grace`, or had no segment for `idle`.
    pub fn over(
        &self,
        front: &str,
        behind: &BTreeSet<String>,
        grace: Duration,
        idle: Duration,
    ) -> Vec<String> {
        let port = self.ports.get(front).map(|port| port.id);
        let over = port.and_then(|port| self.client().ok()?.over(port, grace, idle).ok());
        let over: HashSet<PortId> = over.into_iter().flatten().collect();
        if over.is_empty() {
            return Vec::new();
        }
        let is_over = |name: &&String| {
            let port = self.ports.get(*name);
            port.is_some_and(|port| over.contains(&port.id))
        };
        behind.iter().filter(is_over).cloned().collect()
    }

    /// Takes a VNIC from a guest that goes: its port stays.
    pub fn release_port(&mut self, id: u64, name: &str) {
        if let Some(running) = self.guests.get_mut(&id) {
            running.launch.ports.retain(|port| port.name != name);
        }
    }

    /// The port of a VNIC that waits: a guest's rings take its place.
    pub(super) fn waiting_port(&self, name: &str) -> Option<PortId> {
        let port = self.ports.get(name)?;
        (port.kind == PortKind::Waiting).then_some(port.id)
    }

    /// The VNICs that have got a frame since they wait.
    pub fn take_calls(&mut self) -> Vec<String> {
        let mut called = Vec::new();
        let Some(switch) = &self.switch else {
            return called;
        };
        let mut some = [0; 512];
        while let Ok(read @ 1..) = rustix::io::read(switch.client.calls(), &mut some) {
            let (numbers, _) = some[..read].as_chunks::<8>();
            let names = numbers.iter().map(|it| u64::from_le_bytes(*it));
            called.extend(names.filter_map(|it| self.waiting.names.get(&it).cloned()));
        }
        called
    }

    /// How many frames have gone to and from a guest's port.
    pub fn frames(&self, name: &str) -> u64 {
        let port = self.ports.get(name).map(|port| port.id);
        let stats = port.and_then(|port| Some(self.client().ok()?.stats(port)));
        stats.map_or(0, |stats| stats.frames_in + stats.frames_out)
    }
}
