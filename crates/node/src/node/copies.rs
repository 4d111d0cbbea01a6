//! Guests suspended, saved, restored and copied.

use std::path::Path;
use std::sync::Arc;

use abi::message::kind;

use super::{Asked, Node};
use crate::error::{Error, Fault, Result};
use crate::host::Copy;
use crate::model::{Booted, Event, Guest, GuestRecord, Happened, Run, Saved, Topic, VnicRecord};
use crate::saved::{self, Header};

/// A guest that is to go on from a copy.
pub type Origin = Option<Arc<Copy>>;

/// A guest to create.
pub struct Creation {
    /// Its name.
    pub name: String,
    /// Its specification.
    pub spec: Guest,
    /// The copy that it continues from; `None` if it boots.
    pub copy: Origin,
}

/// Why a guest is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A copy of it, beside it or in a file.
    Copy,
    /// The end of its migration to another node.
    Departure,
}

/// Refuses a copy of a guest whose sockets are its NSM's.
pub(super) fn check_without_sockets(guest: &GuestRecord) -> Result<()> {
    match guest.as_booted().spec.nsm {
        None => Ok(()),
        Some(nsm) => Err(Fault::HasSockets {
            guest: guest.name.clone(),
            nsm,
        }
        .into()),
    }
}

impl Node {
    /// Begins to suspend a guest for `purpose`. `None` if it is suspended already: it is a template.
    pub fn begin_suspension(&mut self, name: &str, purpose: Purpose) -> Result<Option<Asked>> {
        let guest = self.find_guest(name)?;
        if purpose == Purpose::Copy {
            self.check_settled(&guest)?;
            check_without_sockets(&guest)?;
        }
        if !self.host.runs(guest.id) {
            return Err(Fault::NotRunning { guest: guest.name }.into());
        }
        if guest.template {
            return Ok(None);
        }
        if guest.paused {
            return Err(Fault::StandsStill { guest: guest.name }.into());
        }
        let asked = self.ask(name, kind::SUSPEND, "")?;
        self.guests.suspending.insert(guest.id);
        Ok(Some(asked))
    }

    /// Whether a guest stands still.
    pub fn is_suspended(&self, name: &str) -> Result<bool> {
        let guest = self.find_guest(name)?;
        if !self.host.runs(guest.id) {
            return Err(Fault::NotRunning { guest: guest.name }.into());
        }
        Ok(self.host.is_suspended(guest.id))
    }

    /// Resumes a guest that was asked to suspend, unless it is a template.
    pub fn end_suspension(&mut self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        if self.guests.suspending.remove(&guest.id) && !guest.template {
            self.host.go_on(guest.id)?;
        }
        Ok(())
    }

    /// Saves a guest that stands still. It goes on, or is stopped then.
    pub fn save_guest(&mut self, name: &str, file: &Path, keep: bool) -> Result<Saved> {
        check_file(file)?;
        let guest = self.find_guest(name)?;
        let copy = self.host.copy(guest.id, !keep && !guest.template);
        let saved = copy.and_then(|copy| {
            let header = Header::of(name, &guest.as_booted().spec, &copy);
            saved::write(file, &header, &copy)
        });
        if saved.is_err() {
            // It gets lost ports back.
            self.host.reattach_guest(guest.id)?;
        }
        let bytes = saved?;
        let event = Event::of(Topic::Guest, name, Happened::Saved);
        self.tell(event.note(format_args!("its file is {}", file.display())));
        if !keep && !guest.template {
            self.guests.suspending.remove(&guest.id);
            self.end_as(guest, Run::Stopped)?;
        }
        let file = file.into();
        Ok(Saved { file, bytes })
    }

    /// A copy of a suspended guest, and the specification of its clones. A template's copy is made once.
    pub fn copy_guest(&mut self, name: &str) -> Result<(Guest, Arc<Copy>)> {
        let guest = self.find_guest(name)?;
        let spec = self.copied_spec(&guest)?;
        if let Some(copy) = self.guests.templates.get(&guest.id) {
            return Ok((spec, Arc::clone(copy)));
        }
        let copy = Arc::new(self.host.copy(guest.id, false)?);
        if guest.template {
            self.guests.templates.insert(guest.id, Arc::clone(&copy));
        }
        Ok((spec, copy))
    }

    /// Whether a copy is one of a template.
    pub(super) fn is_of_template(&self, copy: &Arc<Copy>) -> bool {
        let mut templates = self.guests.templates.values();
        templates.any(|template| Arc::ptr_eq(template, copy))
    }

    /// The specification of a guest's copies.
    pub(super) fn copied_spec(&self, guest: &GuestRecord) -> Result<Guest> {
        let mut spec = guest.as_booted().spec;
        for on in spec.interfaces.values_mut() {
            // A VNIC is the original's; each copy gets one on its link.
            if let Some(vnic) = self.store.get::<VnicRecord>(on)? {
                on.clone_from(&vnic.link);
            }
        }
        Ok(spec)
    }

    /// Makes a guest that stands still a template: it goes on when it is resumed.
    pub fn make_template(&mut self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        let id = guest.id;
        self.store.put(&GuestRecord {
            template: true,
            ..guest
        })?;
        self.guests.suspending.remove(&id);
        self.tell(Event::of(Topic::Guest, name, Happened::Template));
        Ok(())
    }

    /// Turns a template into an ordinary guest, and resumes it.
    pub(super) fn end_template(&mut self, guest: &GuestRecord) -> Result<()> {
        self.store.put(&GuestRecord {
            template: false,
            ..guest.clone()
        })?;
        self.guests.templates.remove(&guest.id);
        self.host.go_on(guest.id)
    }

    /// The guest that a file holds, and its copy.
    pub fn read_saved(&self, file: &Path) -> Result<(String, Guest, Arc<Copy>)> {
        check_file(file)?;
        let (header, copy) = saved::read(file, &self.host)?;
        Ok((header.name, header.guest, Arc::new(copy)))
    }

    /// Starts a stopped guest from a copy, if there is one with that name and those interfaces. It gets the copy's
    /// specification.
    pub fn restore_stopped(&mut self, name: &str, spec: &Guest, copy: &Arc<Copy>) -> Result<bool> {
        let Some(guest) = self.store.get::<GuestRecord>(name)? else {
            return Ok(false);
        };
        if self.host.runs(guest.id) {
            return Err(Fault::GuestExists { name: name.into() }.into());
        }
        if guest.interfaces != spec.interfaces {
            return Err(Error::refused(format_args!(
                "guest ‘{name}’ has other interfaces than when it was saved: give it those as `interfaces`, or restore it by another `name`"
            ))
            .of_field("name"));
        }
        let wanted = guest.spec.clone();
        self.store.put(&GuestRecord {
            spec: spec.clone(),
            booted: None,
            ..guest
        })?;
        self.start_from(name, Some(Arc::clone(copy)))?;
        // Changes since it was started hold from its next start on, as before.
        let restored = self.find_guest(name)?;
        let mut booted = Booted::of(&restored);
        booted.config = (restored.text() != wanted.text()).then(|| restored.text());
        let spec = Guest {
            // These hold at once, and are as they were saved.
            restart: restored.restart,
            health: restored.health.clone(),
            cpu_max: restored.cpu_max,
            memory_max: restored.memory_max,
            ..wanted
        };
        let record = GuestRecord {
            spec,
            booted: Some(booted),
            ..restored
        };
        if !record.pending().is_empty() {
            self.store.put(&record)?;
        }
        Ok(true)
    }
}

/// Refuses a path that depends on the folder that the node happens to run in.
fn check_file(file: &Path) -> Result<()> {
    if file.is_absolute() {
        return Ok(());
    }
    let file = file.display();
    Err(Error::invalid(format_args!(
        "‘{file}’ is no absolute path on the node's host"
    ))
    .of_field("file"))
}
