//! Guests that migrate to this node.
//!
//! An arriving guest gets its record, its names and its process before the last of its memory
//! arrives, so that it stands still for a short time only. Its record says that it is arriving
//! until the other node releases it. If the migration fails, or this node ends before, the record
//! is removed.

use std::collections::HashMap;
use std::sync::Arc;

use super::Node;
use super::creation::NewGuest;
use crate::error::{Error, Fault, Kind, Result};
use crate::host::{CopiedPort, Copy, Reserved};
use crate::model::{Arrival, Event, GuestRecord, Happened, Topic, Vnic, VnicRecord};

/// Most guests that arrive at a time.
const ARRIVING_MAX: usize = 16;

/// The guests that arrive, by their numbers, each with its process until it is started.
pub(super) type Arrivals = HashMap<u64, Option<(NewGuest, Reserved)>>;

impl Node {
    /// Makes everything ready for a guest that is to arrive: its number, and the copy to be filled.
    pub fn expect_guest(&mut self, arrival: Arrival) -> Result<(u64, Arc<Copy>)> {
        if arrival.version > Arrival::VERSION {
            return Err(Error::refused(format_args!(
                "the node there speaks version {} of migration, this one up to {}: update this one",
                arrival.version,
                Arrival::VERSION
            )));
        }
        if self.arriving.len() >= ARRIVING_MAX {
            let sentence = format_args!("{ARRIVING_MAX} guests arrive already: try again later");
            return Err(Error::new(Kind::Unavailable, sentence));
        }
        let Arrival {
            name,
            mut guest,
            ports,
            ..
        } = arrival;
        self.check_guest_name(&name)?;
        guest.interfaces.clear();
        let mut copied = std::collections::BTreeMap::new();
        for (interface, port) in &ports {
            if self.find_link(&port.link).is_err() {
                return Err(Fault::NoLinkThere {
                    interface: interface.clone(),
                    link: port.link.clone(),
                }
                .into());
            }
            self.address(&port.link, Some(port.mac))?;
            let on = port.vnic.as_ref().unwrap_or(&port.link);
            guest.interfaces.insert(interface.clone(), on.clone());
            let port = CopiedPort {
                mac: Some(port.mac),
                properties: port.properties.clone(),
            };
            copied.insert(interface.clone(), port);
        }
        let copy = self
            .host
            .expected_copy(&arrival.description, guest.ring_slots(), copied)?;
        let copy = Arc::new(copy);
        let mut vnics = Vec::new();
        for port in ports.into_values() {
            let Some(vnic) = port.vnic else { continue };
            let spec = Vnic {
                link: port.link,
                mac: Some(port.mac),
                properties: port.properties,
                ..Vnic::default()
            };
            let made = self.create_vnic(&vnic, spec);
            made.inspect_err(|_| self.remove_vnics(&vnics))?;
            vnics.push(vnic);
        }
        let ready = self.check_new(name, guest, Some(Arc::clone(&copy)));
        let ready = ready.and_then(|mut guest| {
            guest.record.arriving = true;
            let mut batch = [(0, guest)];
            let reserved = self.record_batch(&mut batch);
            let [(_, guest)] = batch;
            let reserved = reserved.and_then(|mut all| all.swap_remove(0));
            if reserved.is_err() {
                self.release(&guest);
            }
            reserved.map(|reserved| (guest, reserved))
        });
        let (guest, reserved) = ready.inspect_err(|_| self.remove_vnics(&vnics))?;
        let id = guest.record.id;
        self.index.add_guest(&guest.record);
        self.arriving.insert(id, Some((guest, reserved)));
        Ok((id, copy))
    }

    fn remove_vnics(&mut self, vnics: &[String]) {
        for vnic in vnics {
            // What cannot be removed is there to be seen.
            let _ = self.remove_vnic(vnic);
        }
    }

    /// Resumes a guest whose copy is filled.
    pub fn start_arrived(&mut self, id: u64) -> Result<()> {
        let waiting = self.arriving.get_mut(&id).and_then(Option::take);
        let (guest, reserved) = waiting.ok_or_else(removed)?;
        self.host.start(reserved, true, None)?;
        for port in &guest.record.ports {
            self.bring_flows(&port.vnic);
        }
        Ok(())
    }

    /// Whether a guest that was started has come to run; then its addresses are announced.
    pub fn has_arrived(&mut self, id: u64) -> Result<bool> {
        if !self.arriving.contains_key(&id) {
            return Err(removed());
        }
        if !self.host.runs(id) {
            return Err(Error::refused("the guest ended at once"));
        }
        if self.host.is_booting(id) {
            return Ok(false);
        }
        self.host.announce(id)?;
        Ok(true)
    }

    /// Delivers frames to an interface of a guest that arrived, which came to its old place meanwhile.
    pub fn deliver_late(&self, id: u64, interface: usize, frames: &[u8]) -> Result<()> {
        self.host.deliver_late(id, interface, frames)
    }

    /// Takes over a guest that arrived: the other node has left it to this one.
    pub fn keep_arrived(&mut self, id: u64, from: &str) -> Result<()> {
        let guest = self.arriving(id)?;
        self.store.put(&GuestRecord {
            arriving: false,
            ..guest.clone()
        })?;
        self.arriving.remove(&id);
        self.health.watch(&guest);
        let event = Event::of(Topic::Guest, &guest.name, Happened::Arrived);
        self.tell(event.note(format_args!("it comes from {from}")));
        Ok(())
    }

    /// Removes a guest that arrives and is not left to this node, with all that was made for it.
    pub fn turn_away(&mut self, id: u64) -> Result<()> {
        let guest = self.arriving(id)?;
        self.remove_arriving(&guest)
    }

    pub(super) fn remove_arriving(&mut self, guest: &GuestRecord) -> Result<()> {
        let mut made = Vec::new();
        let mut kept = Vec::new();
        for port in &guest.ports {
            let vnic = self.store.get::<VnicRecord>(&port.vnic)?;
            if let Some(vnic) = vnic.filter(|vnic| vnic.implicit) {
                made.push(vnic);
            } else {
                kept.push(port.vnic.clone());
            }
        }
        self.remove_guests(&[(guest.clone(), made)])?;
        self.host.finish_end(&[guest.id]);
        self.remove_vnics(&kept);
        Ok(())
    }

    fn arriving(&self, id: u64) -> Result<GuestRecord> {
        let name = self.index.guest_numbered(id).ok_or_else(removed)?;
        let guest = self.find_guest(name)?;
        if guest.arriving {
            Ok(guest)
        } else {
            Err(removed())
        }
    }

    /// Refuses what cannot be done with a guest that migrates, here or away.
    pub(super) fn check_settled(&self, guest: &GuestRecord) -> Result<()> {
        let name = || guest.name.clone();
        if guest.arriving {
            return Err(Fault::Arrives { guest: name() }.into());
        }
        if self.guests.departing.contains(&guest.id) {
            return Err(Fault::Departs { guest: name() }.into());
        }
        Ok(())
    }
}

fn removed() -> Error {
    Error::refused("the guest was removed while it arrived")
}
