//! Changes of a guest: at once where possible, else at its next start.

use std::collections::BTreeMap;

use super::Node;
use crate::error::{Fault, Result};
use crate::host::CopiedPort;
use crate::model::{Booted, Event, Guest, GuestPort, GuestRecord, Memory, Object, VnicRecord};

/// The ports that a guest's interfaces are to have.
struct Ports {
    /// The VNIC of each interface, in their order.
    vnics: Vec<VnicRecord>,
    /// The VNICs among them that are made for the guest.
    made: Vec<VnicRecord>,
    /// VNICs that were made for it and are not needed any more.
    gone: Vec<VnicRecord>,
}

impl Node {
    /// Checks a change of a guest. Returns whether to swap the configuration in before the change
    /// is recorded: the guest runs, and has the interfaces and vCPUs of the new specification.
    /// Returns also a warning, if any.
    pub fn check_change(&mut self, name: &str, new: &Guest) -> Result<(bool, Option<String>)> {
        let guest = self.find_guest(name)?;
        let ports = self.ports_of(&guest, new)?;
        let macs = new.interfaces.keys().cloned();
        let macs: Vec<_> = macs.zip(ports.vnics.iter().map(VnicRecord::mac)).collect();
        let odd = self.check_guest(name, new, &macs, Some(&guest.spec))?;
        let odd = odd.to_string();
        let booted = guest.as_booted();
        let fits = booted.interfaces == new.interfaces && booted.cpus() == new.cpus();
        let swaps = self.host.runs(guest.id) && fits && guest.text() != new.text();
        Ok((swaps, (!odd.is_empty()).then_some(odd)))
    }

    /// Changes a guest to `new`, which was checked: now if it does not run, else at its next start.
    /// Properties that concern the node alone change at once. `swapped` says that the configuration
    /// was swapped in.
    pub fn change_guest(
        &mut self,
        name: &str,
        mut new: Guest,
        swapped: bool,
        event: Event,
    ) -> Result<Object<Guest>> {
        let guest = self.find_guest(name)?;
        self.check_settled(&guest)?;
        new.memory = Some(Memory(new.memory()));
        new.ring_slots = Some(new.ring_slots());
        new.cpus = Some(new.cpus());
        if new.limits() != guest.limits() {
            self.host.set_limits(guest.id, new.limits())?;
        }
        let mut booted = guest.booted.clone().unwrap_or_else(|| Booted::of(&guest));
        if swapped || booted.config.as_ref() == Some(&new.text()) {
            booted.config = None;
        } else if guest.text() != new.text() {
            booted.config.get_or_insert_with(|| guest.text());
        }
        let mut record = GuestRecord {
            spec: new,
            booted: Some(booted),
            ..guest.clone()
        };
        if self.host.runs(guest.id) {
            if record.pending().is_empty() {
                record.booted = None;
            }
            self.store.put(&record)?;
        } else {
            record = self.finish_change(record)?;
        }
        self.tell_routers(&record);
        if record.health != guest.health {
            self.health.watch(&record);
        }
        let pending = record.pending();
        self.tell(if pending.is_empty() {
            event
        } else {
            let fields = pending.join(", ");
            let what = event.note.clone().map(|what| what + "; ");
            let what = what.unwrap_or_default();
            event.note(format_args!("{what}{fields} from its next start on"))
        });
        Ok(self.view_guest(&record))
    }

    /// Carries out the pending change of a guest that does not run: its interfaces get their VNICs.
    pub(super) fn finish_change(&mut self, guest: GuestRecord) -> Result<GuestRecord> {
        if guest.booted.is_none() {
            return Ok(guest);
        }
        let ports = self.ports_of(&guest, &guest.spec)?;
        let port = |(interface, vnic): (&String, &VnicRecord)| GuestPort {
            name: interface.clone(),
            vnic: vnic.name.clone(),
        };
        let named = guest.interfaces.keys().zip(&ports.vnics).map(port);
        let record = GuestRecord {
            ports: named.collect(),
            booted: None,
            ..guest.clone()
        };
        let change = self.store.change()?;
        for vnic in &ports.gone {
            change.remove::<VnicRecord>(&vnic.name)?;
            self.drop_entries(&change, &vnic.link, &vnic.name)?;
        }
        for vnic in &ports.made {
            change.put(vnic)?;
        }
        change.put(&record)?;
        change.commit()?;
        self.index.remove_guest(&guest);
        for vnic in &ports.gone {
            self.index.remove_vnic(vnic);
        }
        for vnic in &ports.made {
            self.index.add_vnic(vnic);
        }
        self.index.add_guest(&record);
        Ok(record)
    }

    /// The ports that a guest is to have. An interface that stays where it is keeps its VNIC.
    fn ports_of(&self, guest: &GuestRecord, new: &Guest) -> Result<Ports> {
        let stood = guest.as_booted().spec.interfaces;
        let had: BTreeMap<_, _> = guest.ports.iter().map(|it| (&it.name, &it.vnic)).collect();
        let stays = |interface: &String, on: &String| {
            had.get(interface)
                .filter(|_| stood.get(interface) == Some(on))
        };
        let mut gone = Vec::new();
        for port in &guest.ports {
            let vnic = self.find_vnic(&port.vnic)?;
            let on = new.interfaces.get(&port.name);
            if vnic.implicit && on.is_none_or(|on| stays(&port.name, on).is_none()) {
                self.check_no_flows(&vnic.name)?;
                self.check_no_default(&vnic)?;
                gone.push(vnic);
            }
        }
        let (mut vnics, mut made): (Vec<VnicRecord>, Vec<VnicRecord>) = (Vec::new(), Vec::new());
        for (interface, on) in &new.interfaces {
            let vnic = match (stays(interface, on), self.store.get::<VnicRecord>(on)?) {
                (Some(vnic), _) => self.find_vnic(vnic)?,
                (None, Some(vnic)) if self.index.guest_of(on) == Some(&guest.name) => {
                    // Of another of its interfaces, which is to have another one.
                    vnic
                }
                (None, Some(vnic)) => self.free_vnic(&guest.name, vnic, &vnics)?,
                (None, None) => {
                    let vnic = self.implicit_vnic(
                        (&guest.name, interface, on),
                        CopiedPort::default(),
                        &gone,
                    )?;
                    made.push(vnic.clone());
                    vnic
                }
            };
            if vnics.iter().any(|other| other.name == vnic.name) {
                return Err(Fault::VnicTwice { vnic: vnic.name }.into());
            }
            vnics.push(vnic);
        }
        Ok(Ports { vnics, made, gone })
    }
}
