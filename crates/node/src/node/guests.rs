//! Guests: shown, looked after, restarted, destroyed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmm::{Exit, Identity, Wall};

use super::Node;
use super::asking::Asked;
use super::copies::Origin;
use super::resource::Resource;
use super::restart::Restarts;
use super::starting::{OnEnded, Starting};
use crate::check::told;
use crate::error::{Error, Fault, Kind, Result, Subject};
use crate::host::{Copy, Reserved, Usage};
use crate::model::{
    Event, Guest, GuestRecord, GuestState, GuestStatus, Happened, Leaving, Object, Restart, Run,
    Topic, VnicRecord, WireRecord,
};

/// How long a guest may take to answer.
pub const ANSWER: Duration = Duration::from_secs(2);
/// Most guests that are started in one turn.
const STARTED_AT_ONCE: usize = 8;

/// The node's state of guests beside their records.
#[derive(Default)]
pub(super) struct Guests {
    /// When ended guests will be restarted.
    pub(super) restarts: Restarts,
    /// Guests whose turn to be started comes.
    pub(super) wanted: BTreeSet<u64>,
    /// How guests ended, by their numbers, as long as it is not kept.
    pub(super) unkept: HashMap<u64, Run>,
    /// Requests to guests, with the answers that came.
    pub(super) asked: HashMap<Asked, Option<vmm::Answer>>,
    /// Those of them that write handlers.
    pub(super) writing: HashSet<Asked>,
    /// Starting guests that clients wait for, oldest first.
    pub(super) starting: Vec<Starting>,
    /// Guests that were asked to stand still, and answer nothing until they go on.
    pub(super) suspending: BTreeSet<u64>,
    /// Guests that migrate to other nodes.
    pub(super) departing: BTreeSet<u64>,
    /// Copies of templates, by their numbers.
    pub(super) templates: HashMap<u64, Arc<Copy>>,
    /// Callbacks for the ends of guests that were asked to end.
    pub(super) going: HashMap<u64, Vec<OnEnded>>,
}

impl Resource for Guest {
    fn all(node: &mut Node) -> Result<Vec<Object<Guest>>> {
        let guests = node.store.all::<GuestRecord>()?;
        Ok(guests.iter().map(|guest| node.watch_guest(guest)).collect())
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Guest>> {
        let guest = node.find_guest(name)?;
        Ok(node.watch_guest(&guest))
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
        let fault = fault.map(str::to_string);
        let (state, reason) = match (&launched, self.run_of(guest)) {
            _ if guest.arriving => (GuestState::Arriving, fault),
            (Some(_), _) if guest.paused => (GuestState::Paused, fault),
            (Some(_), _) if guest.template => (GuestState::Template, fault),
            (Some(launched), _) if launched.silent => {
                let silent = format!("it did not answer a request within {} s", ANSWER.as_secs());
                (GuestState::Silent, Some(silent))
            }
            (Some(launched), _) if launched.running => match self.health.verdict(guest.id) {
                Some(why) => (GuestState::Unhealthy, Some(why)),
                None => (GuestState::Running, fault),
            },
            (Some(_), _) => (GuestState::Starting, fault),
            (None, Run::Stopped) => (GuestState::Stopped, fault),
            (None, Run::Ended { halted, reason }) => {
                let state = if *halted {
                    GuestState::Halted
                } else {
                    GuestState::Crashed
                };
                (state, Some(reason.clone()))
            }
            (None, _) if self.waits_for_start(guest.id) => (GuestState::Starting, fault),
            (None, _) => (GuestState::Crashed, fault),
        };
        let vnics = guest.ports.iter();
        Object {
            name: guest.name.clone(),
            spec: guest.spec.clone(),
            status: GuestStatus {
                id: guest.id,
                domain_id: guest.domain_id,
                state,
                reason,
                pid: launched.as_ref().map(|launched| launched.pid),
                wall: launched.as_ref().map(|launched| launched.wall.to_string()),
                boot_ms: launched
                    .as_ref()
                    .and_then(|launched| launched.boot)
                    .map(|boot| boot.as_secs_f64() * 1e3),
                uptime_s: launched
                    .and_then(|launched| launched.age)
                    .map(|age| age.as_secs_f64()),
                restarts: self.guests.restarts.count(guest.id),
                pending: guest.pending().into_iter().map(str::to_string).collect(),
                configurations: self.configuration_states(guest),
                vnics: vnics.map(|it| (it.name.clone(), it.vnic.clone())).collect(),
                ..GuestStatus::default()
            },
        }
    }

    /// A guest with what its process uses, which is read from the kernel.
    fn watch_guest(&mut self, guest: &GuestRecord) -> Object<Guest> {
        let mut view = self.view_guest(guest);
        let status = &mut view.status;
        let Some(usage) = status.pid.and_then(Usage::of) else {
            return view;
        };
        let age = usage.age.as_secs_f64();
        status.uptime_s.get_or_insert(age);
        status.cpu_s = Some(usage.cpu.as_secs_f64());
        status.resident = Some(usage.resident);
        if usage.stopped && !guest.paused && !self.host.awakes(guest.id) {
            status.state = GuestState::Silent;
            status.reason = Some(format!(
                "its process was stopped by a signal: `weir resume {}` resumes it",
                guest.name
            ));
        }
        view
    }

    /// Whether a guest has come to run, or how it fares instead.
    pub fn guest_state(&mut self, name: &str) -> Result<Object<Guest>> {
        let guest = self.find_guest(name)?;
        Ok(self.view_guest(&guest))
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
        let run = self.run_of(guest);
        let meant = matches!(run, Run::Stopped | Run::Ended { halted: true, .. });
        !meant && !self.host.runs(guest.id) && !self.waits_for_start(guest.id)
    }

    /// Whether a guest waits to be started, now or when its time comes.
    pub(super) fn waits_for_start(&self, id: u64) -> bool {
        self.guests.wanted.contains(&id) || self.guests.restarts.is_waiting(id)
    }

    /// A guest's run state, also one that could not be recorded yet.
    pub(super) fn run_of<'a>(&'a self, guest: &'a GuestRecord) -> &'a Run {
        self.guests.unkept.get(&guest.id).unwrap_or(&guest.run)
    }

    fn vnics_of(&self, guest: &GuestRecord) -> Result<Vec<VnicRecord>> {
        let vnics = guest.ports.iter();
        vnics.map(|i| self.find_vnic(&i.vnic)).collect()
    }

    /// Starts a guest that is wanted and does not run.
    pub(super) fn start_again(&mut self, guest: &GuestRecord, copy: Origin) -> Result<()> {
        let (record, reserved) = self.reserve(guest.clone(), copy)?;
        let kept = self.store.put(&record);
        let recorded = kept.is_ok();
        self.tell_unkept(kept);
        let started = self.start_reserved(&record, reserved, recorded);
        self.tell_start(&record, &started);
        started
    }

    /// Starts a guest in its process, as an application if an NSM serves its sockets.
    pub(super) fn start_reserved(
        &mut self,
        guest: &GuestRecord,
        mut reserved: Reserved,
        recorded: bool,
    ) -> Result<()> {
        let sockets = match &guest.nsm {
            Some(nsm) => {
                let pid = reserved.identity()?.pid;
                Some(self.admit_guest(&guest.name, nsm, pid)?)
            }
            None => None,
        };
        let started = self.host.start(reserved, recorded, sockets);
        if started.is_err() && guest.nsm.is_some() {
            // The next start removes it, too.
            let _ = self.drop_application(&guest.name, false);
        }
        self.watch_idle(guest);
        started
    }

    /// Tells that a guest was started, or why it could not be, once.
    fn tell_start(&mut self, guest: &GuestRecord, started: &Result<()>) {
        let event = |event| Event::of(Topic::Guest, &guest.name, event);
        match (started, self.guests.restarts.count(guest.id)) {
            (Ok(()), 0) => self.tell(event(Happened::Started)),
            (Ok(()), count) => {
                self.tell(event(Happened::Restarted).note(format_args!("restart {count}")));
            }
            (Err(error), _) if self.end_reason(guest).is_none() => {
                self.tell(event(Happened::Crashed).because(&error.error));
            }
            _ => {}
        }
    }

    /// Queues a guest to start that should run and does not.
    pub(super) fn want_start(&mut self, id: u64) {
        self.guests.wanted.insert(id);
    }

    /// Whether guests wait for their turn to be started.
    pub fn wants_starts(&self) -> bool {
        !self.guests.wanted.is_empty()
    }

    /// Starts the next guests that are wanted. Their records are written at once.
    pub fn start_wanted(&mut self) {
        let next = |_| self.guests.wanted.pop_first();
        let ids: Vec<_> = (0..STARTED_AT_ONCE).filter_map(next).collect();
        let guests = ids.into_iter().filter_map(|id| self.guest_with(id));
        let guests: Vec<_> = guests.filter(|guest| !self.host.runs(guest.id)).collect();
        let mut ready = Vec::new();
        for guest in guests {
            let subject = Subject::Guest(guest.name.clone());
            match self.reserve(guest, None) {
                Ok(reserved) => ready.push(reserved),
                Err(error) => self.host.note::<()>(subject, Err(error)),
            }
        }
        let kept = self.store.change().and_then(|change| {
            ready.iter().try_for_each(|(guest, _)| change.put(guest))?;
            change.commit()
        });
        let recorded = kept.is_ok();
        self.tell_unkept(kept);
        for (guest, reserved) in ready {
            let started = self.start_reserved(&guest, reserved, recorded);
            self.tell_start(&guest, &started);
            self.host.note(Subject::Guest(guest.name.clone()), started);
            for port in &guest.ports {
                self.bring_flows(&port.vnic);
            }
        }
    }

    /// Forks a process for a guest that starts again. Returns its new record as well.
    fn reserve(&mut self, guest: GuestRecord, copy: Origin) -> Result<(GuestRecord, Reserved)> {
        let mut guest = self.finish_change(guest)?;
        let vnics = self.vnics_of(&guest)?;
        let launch = self.launch_of(&guest, &vnics, copy)?;
        guest.booted_config = launch.config.len();
        let mut reserved = self.host.reserve(launch)?;
        guest.run = started(reserved.identity()?);
        (guest.paused, guest.template) = (false, false);
        Ok((guest, reserved))
    }

    /// The guest with a number, if it is in the store.
    pub(super) fn guest_with(&self, id: u64) -> Option<GuestRecord> {
        let name = self.index.guest_numbered(id)?;
        self.store.get(name).ok().flatten()
    }

    /// Records guests' ends and the reports of crashed guests that were not recorded yet, all in
    /// one transaction.
    pub(super) fn keep_ends(&mut self) {
        if self.guests.unkept.is_empty() && !self.crashes.are_new() {
            return;
        }
        let ended = self.guests.unkept.iter();
        let ended = ended.filter_map(|(id, run)| {
            let run = run.clone();
            self.guest_with(*id)
                .map(|guest| GuestRecord { run, ..guest })
        });
        let ended: Vec<_> = ended.collect();
        let kept = self.store.change().and_then(|change| {
            ended.iter().try_for_each(|guest| change.put(guest))?;
            let crashes = self.crashes.keep(&change)?;
            change.commit().map(|()| crashes)
        });
        match kept {
            Ok(crashes) => {
                self.crashes.committed(crashes);
                self.guests.unkept.clear();
                for guest in ended {
                    self.host.clear_fault(&Subject::Guest(guest.name));
                }
            }
            Err(error) => {
                let error = Error::from(error);
                for guest in ended {
                    let kept = Err(error.clone());
                    self.host.note::<()>(Subject::Guest(guest.name), kept);
                }
            }
        }
    }

    /// Takes over guests that an earlier node started. One that cannot be does not keep the others
    /// from it.
    pub(super) fn adopt_guests(&mut self) -> Result<()> {
        for guest in self.store.all::<GuestRecord>()? {
            self.health.watch(&guest);
            let fault = Subject::Guest(guest.name.clone());
            let adopted = self.adopt_guest(guest);
            self.host.note(fault, adopted);
        }
        self.keep_ends();
        Ok(())
    }

    fn adopt_guest(&mut self, mut guest: GuestRecord) -> Result<()> {
        if guest.arriving {
            // It was not left to this node.
            if let Some(identity) = identity(&guest.run) {
                self.host.end_left(identity)?;
            }
            return self.remove_arriving(&guest);
        }
        let Some(identity) = identity(&guest.run) else {
            if let Run::Started { .. } = guest.run {
                // The machine was rebooted.
                guest.run = Run::Wanted;
                self.store.put(&guest)?;
            }
            return Ok(());
        };
        let vnics = self.vnics_of(&guest)?;
        let mut launch = self.launch_of(&guest.as_booted(), &vnics, None)?;
        // Only its length matters, by which what lies behind it is found.
        launch.config = vec![b' '; guest.booted_config];
        if self.host.adopt_guest(launch, identity)? {
            let goes_on = !guest.template && guest.departure.is_none();
            if self.host.is_suspended(guest.id) && goes_on {
                // An earlier node did not live to have it go on. Its addresses may have been announced elsewhere.
                self.host.go_on(guest.id)?;
                self.host.announce(guest.id)?;
            }
            self.watch_idle(&guest);
            Ok(())
        } else {
            self.note_end(&guest, None, "it ended while no node was running".into())
        }
    }

    /// Deals with the end of a guest's process; [`keep_ends`](Self::keep_ends) keeps how it ended.
    pub(super) fn guest_ended(&mut self, id: u64) {
        // A guest that cannot be understood any more has given no answer.
        let _ = self.take_answers(id);
        let Some((exit, printed)) = self.host.guest_ended(id) else {
            return;
        };
        self.guests.suspending.remove(&id);
        self.guests.templates.remove(&id);
        let unhealthy = self.health.ended(id);
        if let Some(guest) = self.guest_with(id).filter(|guest| !guest.arriving) {
            let lines = printed.iter().map(|line| format!("\n  {line}"));
            let reason = match unhealthy {
                Some(why) => format!("the node ended it, since it was unhealthy: {why}"),
                None => {
                    let booted = guest.booted.as_ref().and_then(|it| it.config.clone());
                    let text = booted.unwrap_or_else(|| guest.spec.text());
                    told(&exit, text.as_bytes()) + &lines.collect::<String>()
                }
            };
            let noted = self.note_end(&guest, Some(&exit), reason);
            self.host.note(Subject::Guest(guest.name.clone()), noted);
            if self.idling.forget(id) {
                // The next frame starts another. If this cannot be kept, the next tick finds the guest again.
                let _ = self.destroy_guest(&guest.name);
            }
        }
    }

    /// Notes how a guest ended, to be kept, or sees to it that it is restarted; then how it ended is the error.
    /// None stands for an end that no node saw.
    fn note_end(&mut self, guest: &GuestRecord, exit: Option<&Exit>, reason: String) -> Result<()> {
        let halted = matches!(exit, Some(Exit::Halted));
        if !halted {
            self.note_crash(guest, exit, &reason);
        }
        let again = match guest.restart {
            Restart::Always => true,
            Restart::OnFailure => !halted,
            Restart::Never => false,
        };
        let happened = if halted {
            Happened::Ended
        } else {
            Happened::Crashed
        };
        let event = Event::of(Topic::Guest, &guest.name, happened).because(&reason);
        if again {
            let delay = self.guests.restarts.schedule(guest.id, Instant::now());
            let note = format_args!("it restarts in {} s", delay.as_secs_f64());
            self.tell(event.note(note));
            return Err(Error::new(Kind::Unavailable, reason));
        }
        let note = match guest.restart {
            Restart::Never => "it is not restarted: its ‘restart’ is never",
            _ => "it is not restarted: it halted normally",
        };
        self.tell(event.note(note));
        let run = Run::Ended { halted, reason };
        self.guests.unkept.insert(guest.id, run);
        Ok(())
    }

    /// Queues the guests that are due to be restarted.
    pub fn restart_due(&mut self) {
        for id in self.guests.restarts.take_due(Instant::now()) {
            self.want_start(id);
        }
        self.restart_nsms();
        self.restart_programs();
    }

    /// Ends a guest and removes it, with the VNICs that were made for it.
    pub fn destroy_guest(&mut self, name: &str) -> Result<()> {
        let found = self.check_destroy(name)?;
        let id = found.0.id;
        self.remove_guests(&[found])?;
        self.host.finish_end(&[id]);
        Ok(())
    }

    /// Removes guests, with the VNICs that were made for them, and reports each when its process
    /// has ended. All records are removed at once.
    pub fn destroy_and_tell(&mut self, names: Vec<String>, tells: Vec<OnEnded>) {
        let mut goes: Vec<(GuestRecord, Vec<VnicRecord>)> = Vec::new();
        let mut waiting: Vec<(u64, OnEnded)> = Vec::new();
        for (name, tell) in names.iter().zip(tells) {
            match self.check_destroy(name) {
                Ok(found) => {
                    waiting.push((found.0.id, tell));
                    if goes.iter().all(|(guest, _)| guest.id != found.0.id) {
                        goes.push(found);
                    }
                }
                Err(error) => tell(Err(error)),
            }
        }
        let removed = self.remove_guests(&goes);
        for (id, tell) in waiting {
            match &removed {
                Ok(()) => self.tell_gone(id, tell),
                Err(error) => tell(Err(error.clone())),
            }
        }
    }

    /// Tells when the process of a guest that was asked to end has.
    pub(super) fn tell_gone(&mut self, id: u64, tell: OnEnded) {
        if self.host.is_ending(id) {
            self.guests.going.entry(id).or_default().push(tell);
        } else {
            tell(Ok(()));
        }
    }

    /// Tells of guests that were asked to end and have.
    pub fn look_at_ended(&mut self) {
        let ended = self.host.take_ended();
        if ended.is_empty() {
            return;
        }
        // If that cannot be kept, the next node finds out by itself.
        let _ = self.have_left(&ended);
        for id in ended {
            if self.index.guest_numbered(id).is_none() {
                self.host.forget_log(id);
            }
            let tells = self.guests.going.remove(&id);
            tells.into_iter().flatten().for_each(|tell| tell(Ok(())));
        }
    }

    /// When guests are looked at that are about to end, if there are any.
    pub fn next_end(&self) -> Option<Instant> {
        self.host.next_end()
    }

    /// The next deadline at which a guest that was asked to end is killed.
    pub fn next_kill(&self) -> Option<Instant> {
        self.host.next_kill()
    }

    /// Kills guests that were asked to end and had time to.
    pub fn kill_late(&mut self) {
        self.host.kill_late();
    }

    /// Refuses what would take a guest away from its wire.
    pub(super) fn check_no_wire(&self, guest: &str) -> Result<()> {
        let wires = self.store.all::<WireRecord>()?;
        let wire = wires.iter().find(|wire| wire.has_guest(guest));
        wire.map_or(Ok(()), |wire| {
            let (guest, wire) = (guest.into(), wire.name.clone());
            Err(Fault::OfWire { guest, wire }.into())
        })
    }

    /// A guest that may be removed, and the VNICs that were made for it.
    pub(super) fn check_destroy(&self, name: &str) -> Result<(GuestRecord, Vec<VnicRecord>)> {
        let guest = self.find_guest(name)?;
        let vnics = self.vnics_of(&guest)?;
        let made: Vec<_> = vnics.into_iter().filter(|vnic| vnic.implicit).collect();
        for vnic in &made {
            self.check_no_flows(&vnic.name)?;
            self.check_no_default(vnic)?;
        }
        Ok((guest, made))
    }

    /// Removes guests, each with the VNICs that were made for it, and asks their processes to end.
    pub(super) fn remove_guests(
        &mut self,
        guests: &[(GuestRecord, Vec<VnicRecord>)],
    ) -> Result<()> {
        self.store.with_spare(|| -> Result<()> {
            let change = self.store.change()?;
            for (guest, made) in guests {
                change.remove::<GuestRecord>(&guest.name)?;
                change.put(&Leaving::of(guest))?;
                for vnic in made {
                    change.remove::<VnicRecord>(&vnic.name)?;
                    self.drop_entries(&change, &vnic.link, &vnic.name)?;
                }
            }
            Ok(change.commit()?)
        })?;
        for (guest, made) in guests {
            self.tell(Event::of(Topic::Guest, &guest.name, Happened::Removed));
            self.index.remove_guest(guest);
            for vnic in made {
                self.index.remove_vnic(vnic);
            }
            self.await_frames_of(guest);
            self.host.clear_fault(&Subject::Guest(guest.name.clone()));
            self.host.forget_log(guest.id);
            self.health.forget(guest.id);
        }
        let ids: Vec<u64> = guests.iter().map(|(guest, _)| guest.id).collect();
        self.ask_to_end(&ids);
        Ok(())
    }

    /// Asks guests to end whose records say that they leave. They are not started again but by command.
    pub(super) fn ask_to_end(&mut self, ids: &[u64]) {
        for id in ids {
            self.guests.restarts.forget(*id);
            self.guests.wanted.remove(id);
            self.guests.unkept.remove(id);
            self.guests.suspending.remove(id);
            self.guests.templates.remove(id);
            self.arriving.remove(id);
            self.health.ended(*id);
            self.idling.forget(*id);
        }
        self.host.begin_end(ids.iter().copied());
        let gone = ids.iter().filter(|id| !self.host.is_ending(**id));
        let gone: Vec<u64> = gone.copied().collect();
        // If that cannot be kept, the next node finds out by itself.
        let _ = self.have_left(&gone);
    }

    /// Notes that the processes of guests have ended that left.
    fn have_left(&self, ids: &[u64]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let change = self.store.change()?;
        for id in ids {
            change.remove::<Leaving>(&id.to_string())?;
        }
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
                let _ = leaving.name.parse().map(|id| self.have_left(&[id]));
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
        boot: crate::host::boot().into(),
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
