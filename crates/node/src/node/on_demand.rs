//! Guests that are started by the first frame to their VNIC, and removed when they are idle.
//!
//! Such a VNIC is in one of three states: it waits for a frame ([`Host::await_frame`](crate::host::Host::await_frame)),
//! or a guest of its name has it, or neither can be, and that is tried again each second. However the guest ends, it is
//! removed, and the VNIC waits again.
//!
//! A VNIC with a guest for each TCP connection is the front of others, which are VNICs of this kind as well: the switch
//! gives each connection to one of them. It is asked whose connections are over, ten times a second.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Node;
use super::copies::Creation;
use super::vnics::waiting_port;
use crate::error::{Error, Fault, InField, Result, Subject};
use crate::model::{GuestRecord, OnDemand, Restart, Run, VnicRecord};

/// How long after the end of its connection a guest is removed: late segments reach it until then.
const GRACE: Duration = Duration::from_millis(100);
/// How often connections are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The guests that are removed when they are idle.
#[derive(Default)]
pub(super) struct Idling {
    /// By their numbers.
    guests: HashMap<u64, Watched>,
    /// How many of them have a connection of their own.
    with_connection: usize,
    /// When it was last looked whose connections are over.
    looked: Option<Instant>,
}

/// A guest that is removed when it is idle.
struct Watched {
    vnics: Vec<String>,
    idle: Duration,
    /// How many frames its VNICs had.
    frames: u64,
    /// Since when.
    since: Instant,
    /// Whether it has a connection of its own.
    has_connection: bool,
}

impl Idling {
    fn watch(&mut self, id: u64, guest: Watched) {
        self.forget(id);
        self.with_connection += usize::from(guest.has_connection);
        self.guests.insert(id, guest);
    }

    /// Forgets a guest. Says whether it was there.
    pub fn forget(&mut self, id: u64) -> bool {
        let guest = self.guests.remove(&id);
        let had_connection = guest.as_ref().is_some_and(|guest| guest.has_connection);
        self.with_connection -= usize::from(had_connection);
        guest.is_some()
    }

    /// The guests whose time has passed; `frames` tells how many a VNIC had.
    fn due(&mut self, now: Instant, frames: impl Fn(&str) -> u64) -> Vec<u64> {
        let mut due = Vec::new();
        for (id, guest) in &mut self.guests {
            if guest.has_connection {
                // The switch knows when its connection is idle: other frames do not count.
                continue;
            }
            let frames = guest.vnics.iter().map(|vnic| frames(vnic)).sum();
            if guest.frames != frames {
                (guest.frames, guest.since) = (frames, now);
            } else if now.saturating_duration_since(guest.since) >= guest.idle {
                due.push(*id);
            }
        }
        due
    }
}

impl Node {
    /// Has a VNIC that starts guests wait for a frame, unless its guest is there.
    pub(super) fn bring_on_demand(&mut self, vnic: &VnicRecord, on: &OnDemand) -> Result<()> {
        let guest = self.index.guest_of(&vnic.name);
        let guest = guest.map(|name| self.store.get::<GuestRecord>(name));
        if let Some(guest) = guest.transpose()?.flatten() {
            let is_over = !self.host.runs(guest.id)
                && !self.waits_for_start(guest.id)
                && *self.run_of(&guest) != Run::Stopped;
            return match is_over {
                true => self.destroy_guest(&guest.name),
                false => Ok(()),
            };
        }
        if self.host.awaits_frame(&vnic.name) {
            return Ok(());
        }
        // The copy of a template is made now, so that the first frame does not wait for it.
        self.on_demand(vnic, on)?;
        self.await_frame(vnic)
    }

    /// Checks the guest of a new VNIC as far as is possible without starting it.
    pub(super) fn check_on_demand(&mut self, vnic: &VnicRecord, on: &OnDemand) -> Result<()> {
        on.check(&vnic.name)?;
        self.check_no_guest(&vnic.name)?;
        let Creation { name, spec, copy } = self.on_demand(vnic, on)?;
        let interfaces = spec.interfaces.keys();
        let interfaces: Vec<_> = interfaces.map(|it| (it.clone(), vnic.mac())).collect();
        let had = copy.is_some().then_some(&spec);
        self.check_guest(&name, &spec, &interfaces, had)?;
        Ok(())
    }

    /// The guest of a VNIC.
    fn on_demand(&mut self, vnic: &VnicRecord, on: &OnDemand) -> Result<Creation> {
        let template = self.find_guest(&on.template).in_field("guest.template")?;
        let goes_on = template.template && self.host.runs(template.id) && on.variables.is_empty();
        let (mut spec, copy) = if goes_on {
            let (spec, copy) = self.copy_guest(&on.template)?;
            (spec, Some(copy))
        } else {
            (self.copied_spec(&template)?, None)
        };
        let interface = on.interface_of(&vnic.name, &vnic.link, &spec)?;
        spec.interfaces.insert(interface, vnic.name.clone());
        spec.variables.extend(on.variables.clone());
        spec.restart = Restart::Never;
        let name = vnic.name.clone();
        Ok(Creation { name, spec, copy })
    }

    /// Has a VNIC wait for a frame.
    pub(super) fn await_frame(&mut self, vnic: &VnicRecord) -> Result<()> {
        let link = self.find_link(&vnic.link)?;
        self.host.await_frame(&waiting_port(vnic, &link))?;
        self.bring_flows(&vnic.name);
        self.bring_entries(&vnic.name);
        Ok(())
    }

    /// Has the VNICs of a removed guest that start guests wait again.
    pub(super) fn await_frames_of(&mut self, guest: &GuestRecord) {
        for port in &guest.ports {
            if self.index.idle_of(&port.vnic).is_none() {
                continue;
            }
            self.host.release_port(guest.id, &port.vnic);
            let vnic = self.find_vnic(&port.vnic);
            let waits = vnic.and_then(|vnic| self.await_frame(&vnic));
            if waits.is_err() {
                self.host.detach(&port.vnic);
            }
            self.host.note(Subject::Vnic(port.vnic.clone()), waits);
        }
    }

    /// Starts the guests of VNICs that have got a frame.
    pub(super) fn start_called(&mut self) {
        let mut wanted = Vec::new();
        for name in self.host.take_calls() {
            let vnic = self.store.get::<VnicRecord>(&name).ok().flatten();
            let on = vnic
                .as_ref()
                .and_then(|vnic| Some((vnic, vnic.guest.as_ref()?)));
            let Some((vnic, on)) = on.filter(|_| self.index.guest_of(&name).is_none()) else {
                continue;
            };
            match self.on_demand(vnic, on) {
                Ok(guest) => wanted.push(guest),
                Err(error) => self.give_call_up(&name, error),
            }
        }
        let names: Vec<_> = wanted.iter().map(|guest| guest.name.clone()).collect();
        for (name, created) in names.iter().zip(self.create_guests(wanted)) {
            match created {
                Ok(view) => self.await_new(view, None),
                Err(error) => self.give_call_up(name, error),
            }
        }
    }

    /// Drops the frames that wait for a guest that cannot be started. The VNIC waits again in a second.
    fn give_call_up(&mut self, vnic: &str, why: Error) {
        match self.index.is_front(vnic) {
            false => self.host.detach(vnic),
            // Others are behind its port. A frame is tried again.
            true => self.host.stop_waiting(vnic),
        }
        self.host.note::<()>(Subject::Vnic(vnic.into()), Err(why));
    }

    /// Watches a guest that runs, if it is to be removed when it is idle.
    pub(super) fn watch_idle(&mut self, guest: &GuestRecord) {
        let vnics = guest.ports.iter().map(|port| &port.vnic);
        let idle = vnics.clone().find_map(|vnic| self.index.idle_of(vnic));
        let has_connection = vnics.clone().any(|vnic| self.index.is_behind(vnic));
        if let Some(idle) = idle {
            let watched = Watched {
                vnics: vnics.cloned().collect(),
                idle,
                frames: 0,
                since: Instant::now(),
                has_connection,
            };
            self.idling.watch(guest.id, watched);
        }
    }

    /// Removes guests that have been idle for their time.
    pub(super) fn remove_idle(&mut self) {
        let frames = |vnic: &str| self.host.frames(vnic);
        let due = self.idling.due(Instant::now(), frames);
        let idle = due.into_iter().filter_map(|id| self.guest_with(id));
        let idle = idle.collect();
        self.retire(idle);
    }

    /// When it is next to be looked whose connections are over.
    pub fn next_over(&self) -> Option<Instant> {
        let idling = &self.idling;
        (idling.with_connection > 0)
            .then(|| idling.looked.map_or_else(Instant::now, |at| at + LOOK))
    }

    /// Removes guests whose connections are over.
    pub fn remove_over(&mut self) {
        self.idling.looked = Some(Instant::now());
        let fronts = self.index.fronts();
        let over = fronts.flat_map(|(front, behind)| {
            let idle = self.index.idle_of(front).unwrap_or(Duration::MAX);
            self.host.over(front, behind, GRACE, idle)
        });
        let guests = over.filter_map(|vnic| {
            let guest = self.index.guest_of(&vnic)?;
            self.store.get::<GuestRecord>(guest).ok()?
        });
        let guests = guests.collect();
        self.retire(guests);
    }

    /// Removes guests that are not needed any more, as far as they may be.
    fn retire(&mut self, guests: Vec<GuestRecord>) {
        // One that stands still by command, migrates, or is needed by something else stays.
        let still = &self.guests.suspending;
        let moves = |it: &GuestRecord| !it.paused && !it.template && !still.contains(&it.id);
        let goes = guests
            .iter()
            .filter(|guest| moves(guest) && self.check_settled(guest).is_ok());
        let goes = goes.filter_map(|guest| self.check_destroy(&guest.name).ok());
        let goes: Vec<_> = goes.collect();
        if !goes.is_empty() {
            // If that cannot be kept, the next tick tries again.
            let _ = self.remove_guests(&goes);
        }
    }

    /// Removes the guests of a VNIC that starts guests.
    pub(super) fn remove_guests_of(&mut self, vnic: &VnicRecord) -> Result<()> {
        let mut goes = Vec::new();
        for on in vnic.behind().iter().chain([vnic]) {
            let Some(guest) = self.index.guest_of(&on.name) else {
                continue;
            };
            if on.guest.is_none() {
                let (vnic, guest) = (on.name.clone(), guest.into());
                return Err(Fault::HasGuest { vnic, guest }.into());
            }
            goes.push(self.check_destroy(guest)?);
        }
        if goes.is_empty() {
            return Ok(());
        }
        self.remove_guests(&goes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_idle_when_no_frame_came_for_its_time() {
        let start = Instant::now();
        let idle = Duration::from_secs(30);
        let mut idling = Idling::default();
        let watched = Watched {
            vnics: vec!["web0".into(), "web0.wan".into()],
            idle,
            frames: 0,
            since: start,
            has_connection: false,
        };
        idling.watch(7, watched);
        let frames = |of: u64| move |vnic: &str| if vnic == "web0" { 2 } else { of };
        assert!(idling.due(start + idle, frames(1)).is_empty());
        assert!(idling.due(start + idle + idle / 2, frames(1)).is_empty());
        assert!(idling.due(start + 2 * idle, frames(2)).is_empty());
        assert!(
            idling
                .due(start + 2 * idle + idle / 2, frames(2))
                .is_empty()
        );
        assert_eq!(idling.due(start + 3 * idle, frames(2)), [7]);
        idling.forget(7);
        assert!(idling.due(start + 9 * idle, frames(2)).is_empty());
    }
}
