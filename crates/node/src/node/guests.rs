//! Guests: shown, looked after, restarted, destroyed.

use std::collections::HashMap;
use std::time::Instant;

use vmm::{Exit, Identity, Wall};

use super::Node;
use super::asking::Asked;
use super::resource::Resource;
use super::restart::Restarts;
use crate::error::{Error, Fault, Kind, Result, Subject};
use crate::log;
use crate::model::{
    Guest, GuestRecord, GuestState, GuestStatus, Leaving, Object, Restart, Run, VnicRecord,
};

/// What the node knows of guests beside their records.
#[derive(Default)]
pub(super) struct Guests {
    /// When guests that ended are to be restarted.
    pub(super) restarts: Restarts,
    /// How guests ended, by their numbers, as long as it cannot be kept.
    pub(super) unkept: HashMap<u64, Run>,
    /// Requests to guests, and their answers as far as they came.
    pub(super) asked: HashMap<Asked, Option<vmm::Answer>>,
}

impl Resource for Guest {
    fn all(node: &mut Node) -> Result<Vec<Object<Guest>>> {
        let guests = node.store.all::<GuestRecord>()?;
        Ok(guests.iter().map(|guest| node.view_guest(guest)).collect())
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Guest>> {
        let guest = node.find_guest(name)?;
        Ok(node.view_guest(&guest))
    }

    fn reconcile(node: &mut Node) -> Result<()> {
        let guests = node.store.all::<GuestRecord>()?;
        guests.iter().for_each(|guest| node.bring_guest(guest));
        Ok(())
    }

    fn delete(node: &mut Node, name: &str) -> Result<()> {
        node.destroy_guest(name)
    }
}

impl Node {
    pub(super) fn find_guest(&self, name: &str) -> Result<GuestRecord> {
        let found = self.store.get::<GuestRecord>(name)?;
        Ok(found.ok_or_else(|| Fault::NoGuest { name: name.into() })?)
    }

    pub(super) fn view_guest(&mut self, guest: &GuestRecord) -> Object<Guest> {
        let launched = self.host.launched(guest.id);
        let fault = self.host.fault(&Subject::Guest(guest.name.clone()));
        let (state, reason) = match (&launched, self.run_of(guest)) {
            (Some(launched), _) if launched.running => (GuestState::Running, fault),
            (Some(_), _) => (GuestState::Starting, fault),
            (
                None,
                Run::Ended {
                    halted: true,
                    reason,
                },
            ) => (GuestState::Halted, Some(reason.as_str())),
            (None, Run::Ended { reason, .. }) => (GuestState::Crashed, Some(reason.as_str())),
            (None, _) if self.guests.restarts.is_waiting(guest.id) => (GuestState::Starting, fault),
            (None, _) => (GuestState::Crashed, fault),
        };
        let vnics = guest.ports.iter();
        Object {
            name: guest.name.clone(),
            spec: guest.spec.clone(),
            status: GuestStatus {
                id: guest.id,
                state,
                reason: reason.map(str::to_string),
                pid: launched.as_ref().map(|launched| launched.pid),
                wall: launched.as_ref().map(|launched| launched.wall.to_string()),
                boot_ms: launched
                    .and_then(|launched| launched.boot)
                    .map(|boot| boot.as_secs_f64() * 1e3),
                restarts: self.guests.restarts.count(guest.id),
                vnics: vnics.map(|it| (it.name.clone(), it.vnic.clone())).collect(),
                messages: None,
            },
        }
    }

    /// How a guest ended, or why it cannot be started.
    pub(super) fn end_reason(&self, guest: &GuestRecord) -> Option<String> {
        match self.run_of(guest) {
            Run::Ended { reason, .. } => Some(reason.clone()),
            _ => {
                let subject = Subject::Guest(guest.name.clone());
                self.host.fault(&subject).map(str::to_string)
            }
        }
    }

    /// Whether a guest has crashed or was killed, or could not be started, and no
    /// restart is scheduled.
    pub(super) fn has_crashed(&self, guest: &GuestRecord) -> bool {
        let halted = matches!(self.run_of(guest), Run::Ended { halted: true, .. });
        !halted && !self.host.runs(guest.id) && !self.guests.restarts.is_waiting(guest.id)
    }

    /// Whether a guest runs, be it that this could not be kept yet.
    pub(super) fn run_of<'a>(&'a self, guest: &'a GuestRecord) -> &'a Run {
        self.guests.unkept.get(&guest.id).unwrap_or(&guest.run)
    }

    fn vnics_of(&self, guest: &GuestRecord) -> Result<Vec<VnicRecord>> {
        let vnics = guest.ports.iter();
        vnics.map(|i| self.find_vnic(&i.vnic)).collect()
    }

    /// Starts a guest that is wanted and does not run.
    pub(super) fn start_again(&mut self, guest: &GuestRecord) -> Result<()> {
        let vnics = self.vnics_of(guest)?;
        let launch = self.launch_of(guest, &vnics)?;
        let mut record = guest.clone();
        let mut kept = Ok(());
        let launched = self.host.launch(launch, |identity| {
            record.booted_config = record.config.len();
            record.run = started(identity);
            kept = self.store.put(&record);
            Ok(kept.is_ok())
        });
        self.tell_unkept(kept);
        launched
    }

    /// Keeps how a guest ended, if that could not be kept yet. Says whether it had ended.
    pub(super) fn keep_unkept(&mut self, guest: &GuestRecord) -> Result<bool> {
        let Some(run) = self.guests.unkept.get(&guest.id) else {
            return Ok(false);
        };
        let run = run.clone();
        self.store.put(&GuestRecord {
            run,
            ..guest.clone()
        })?;
        self.guests.unkept.remove(&guest.id);
        Ok(true)
    }

    /// Takes over guests that an earlier node started. One that cannot be does not keep the others
    /// from it.
    pub(super) fn adopt_guests(&mut self) -> Result<()> {
        for guest in self.store.all::<GuestRecord>()? {
            let fault = Subject::Guest(guest.name.clone());
            let adopted = self.adopt_guest(guest);
            self.host.note(fault, adopted);
        }
        Ok(())
    }

    fn adopt_guest(&mut self, mut guest: GuestRecord) -> Result<()> {
        let Some(identity) = identity(&guest.run) else {
            if let Run::Started { .. } = guest.run {
                // The machine was rebooted.
                guest.run = Run::Wanted;
                self.store.put(&guest)?;
            }
            return Ok(());
        };
        let vnics = self.vnics_of(&guest)?;
        let mut launch = self.launch_of(&guest, &vnics)?;
        // Only its length matters, by which what lies behind it is found.
        launch.config = vec![b' '; guest.booted_config];
        if self.host.adopt_guest(launch, identity)? {
            Ok(())
        } else {
            self.keep_end(guest, false, "it ended while no node was running".into())
        }
    }

    /// Deals with the end of a guest's process.
    pub(super) fn guest_ended(&mut self, id: u64) {
        let Some((exit, printed)) = self.host.guest_ended(id) else {
            return;
        };
        let name = self.index.guest_numbered(id).map(str::to_string);
        let guest = name.and_then(|name| self.store.get::<GuestRecord>(&name).ok().flatten());
        if let Some(guest) = guest {
            let halted = matches!(exit, Exit::Halted);
            let name = guest.name.clone();
            let lines = printed.iter().map(|line| format!("\n  {line}"));
            let reason = exit.to_string() + &lines.collect::<String>();
            let kept = self.keep_end(guest, halted, reason);
            self.host.note(Subject::Guest(name), kept);
        }
    }

    /// Keeps how a guest ended, or sees to it that it is restarted; then how it ended is the
    /// error.
    fn keep_end(&mut self, guest: GuestRecord, halted: bool, reason: String) -> Result<()> {
        let again = match guest.restart {
            Restart::Always => true,
            Restart::OnFailure => !halted,
            Restart::Never => false,
        };
        if again {
            let delay = self.guests.restarts.schedule(guest.id, Instant::now());
            let what = format_args!("it restarts in {} s", delay.as_secs_f64());
            log::ended(&format_args!("guest ‘{}’", guest.name), &reason, what);
            return Err(Error::new(Kind::Unavailable, reason));
        }
        let what = match guest.restart {
            Restart::Never => "it is not restarted: it has no ‘restart’",
            _ => "it is not restarted: it halted normally",
        };
        log::ended(&format_args!("guest ‘{}’", guest.name), &reason, what);
        let run = Run::Ended { halted, reason };
        self.guests.unkept.insert(guest.id, run);
        self.keep_unkept(&guest).map(drop)
    }

    /// Restarts the guests whose time has come.
    pub fn restart_due(&mut self) {
        for id in self.guests.restarts.take_due(Instant::now()) {
            let name = self.index.guest_numbered(id).map(str::to_string);
            let guest = name.and_then(|name| self.store.get::<GuestRecord>(&name).ok().flatten());
            if let Some(guest) = guest {
                self.bring_guest(&guest);
            }
        }
    }

    /// Ends a guest and removes it, with the VNICs that were made for it.
    pub fn destroy_guest(&mut self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        let vnics = self.vnics_of(&guest)?;
        let made: Vec<_> = vnics.into_iter().filter(|vnic| vnic.implicit).collect();
        for vnic in &made {
            self.check_no_flows(&vnic.name)?;
            self.check_no_default(vnic)?;
        }
        self.forget_guest(&guest, &made)
    }

    pub(super) fn forget_guest(&mut self, guest: &GuestRecord, made: &[VnicRecord]) -> Result<()> {
        let change = self.store.change()?;
        change.remove::<GuestRecord>(&guest.name)?;
        let leaving = Leaving::of(guest);
        change.put(&leaving)?;
        for vnic in made {
            change.remove::<VnicRecord>(&vnic.name)?;
            self.drop_entries(&change, &vnic.link, &vnic.name)?;
        }
        change.commit()?;
        self.index.remove_guest(guest);
        for vnic in made {
            self.index.remove_vnic(vnic);
        }
        self.guests.restarts.forget(guest.id);
        self.guests.unkept.remove(&guest.id);
        self.host.end_guest(guest.id);
        self.host.clear_fault(&Subject::Guest(guest.name.clone()));
        // If that cannot be kept, the next node finds out by itself.
        let _ = self.has_left(&leaving);
        Ok(())
    }

    /// Notes that the process of a guest that was removed has ended.
    fn has_left(&self, leaving: &Leaving) -> Result<()> {
        let change = self.store.change()?;
        change.remove::<Leaving>(&leaving.name)?;
        Ok(change.commit_later()?)
    }

    /// Ends processes of guests that were removed: the node that did it was killed before.
    pub(super) fn end_leaving(&mut self) -> Result<()> {
        for leaving in self.store.all::<Leaving>()? {
            // One that cannot be looked at is tried again by the next node.
            let ended =
                identity(&leaving.run).map_or(Ok(()), |identity| self.host.end_left(identity));
            if ended.is_ok() {
                // If that cannot be kept, the next node finds out by itself, too.
                let _ = self.has_left(&leaving);
            }
        }
        Ok(())
    }
}

/// The record of a started guest.
pub(super) fn started(identity: Identity) -> Run {
    Run::Started {
        pid: identity.pid,
        started: identity.started,
        boot: crate::host::boot(),
        vm: identity.wall == Wall::Vm,
        doorbell: identity.switch_doorbell,
    }
}

/// The identity of a guest that was started since the host's last boot.
fn identity(run: &Run) -> Option<Identity> {
    let Run::Started {
        pid,
        started,
        boot,
        vm,
        doorbell,
    } = run
    else {
        return None;
    };
    (*boot == crate::host::boot()).then_some(Identity {
        pid: *pid,
        started: *started,
        wall: if *vm { Wall::Vm } else { Wall::Process },
        switch_doorbell: *doorbell,
    })
}
