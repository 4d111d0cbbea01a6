//! The verbs of a guest's life between its creation and its removal: started, stopped, restarted,
//! paused, resumed, renamed.

use super::Node;
use super::copies::Origin;
use super::starting::OnEnded;
use crate::error::{Error, Fault, Result, Subject};
use crate::model::{Event, GuestRecord, Happened, Leaving, Run, Topic, check_name, select};

impl Node {
    /// The guests that names and patterns select, in their order, each once; a pattern without a
    /// match is an error beside its text. Whether a name is a guest's shows later.
    pub fn select_guests(&self, wanted: &[String]) -> Vec<Result<String, (String, Error)>> {
        select(wanted, || self.index.guest_names().collect(), "guest")
    }

    /// Starts a guest that does not run. Its restarts are counted from here on.
    pub fn start_guest(&mut self, name: &str) -> Result<()> {
        self.start_from(name, None)
    }

    /// As [`start_guest`](Self::start_guest), of a guest that goes on from a copy.
    pub(super) fn start_from(&mut self, name: &str, copy: Origin) -> Result<()> {
        let guest = self.find_guest(name)?;
        self.check_settled(&guest)?;
        if self.host.runs(guest.id) {
            return Ok(());
        }
        self.need_switch()?;
        self.guests.restarts.forget(guest.id);
        self.guests.wanted.remove(&guest.id);
        let ended = self.guests.unkept.remove(&guest.id);
        let was = GuestRecord {
            run: ended.unwrap_or_else(|| guest.run.clone()),
            ..guest
        };
        let was = self.finish_change(was)?;
        let started = self.start_again(&was, copy);
        if started.is_err() {
            // It is as it was, also if its process had been recorded.
            self.store.put(&was)?;
        } else {
            self.host.clear_fault(&Subject::Guest(name.into()));
        }
        for port in &was.ports {
            self.bring_flows(&port.vnic);
        }
        started
    }

    /// Ends a guest, which stays stopped until it is started, and tells when its process has ended.
    pub fn stop_and_tell(&mut self, name: &str, tell: OnEnded) -> Result<()> {
        let guest = self.find_guest(name)?;
        self.check_settled(&guest)?;
        let id = guest.id;
        self.end_as(guest, Run::Stopped)?;
        self.tell(Event::of(Topic::Guest, name, Happened::Stopped));
        self.tell_gone(id, tell);
        Ok(())
    }

    /// Ends a guest if it runs, and starts it.
    pub fn restart_guest(&mut self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        self.check_settled(&guest)?;
        // If the node is killed in between, the next one starts the guest.
        self.end_as(guest, Run::Wanted)?;
        let event = Event::of(Topic::Guest, name, Happened::Stopped);
        self.tell(event.note("it will be restarted"));
        self.start_guest(name).map_err(|error| {
            let fault = Err(error.clone());
            self.host.note::<()>(Subject::Guest(name.into()), fault);
            error.within(|why| {
                format!("guest ‘{name}’ was ended and does not start, which the node tries again every second: {why}")
            })
        })
    }

    /// Ends a guest's process, if it has one, and records its desired state from then on.
    pub(super) fn end_as(&mut self, guest: GuestRecord, run: Run) -> Result<()> {
        let leaving = Leaving::of(&guest);
        let record = GuestRecord {
            run,
            paused: false,
            template: false,
            ..guest
        };
        let change = self.store.change()?;
        change.put(&record)?;
        // A node that is killed before the process has ended leaves it to the next one.
        change.put(&leaving)?;
        change.commit()?;
        self.ask_to_end(&[record.id]);
        self.host.clear_fault(&Subject::Guest(record.name));
        Ok(())
    }

    /// Pauses a guest's processors.
    pub fn pause_guest(&mut self, name: &str) -> Result<()> {
        self.set_paused(name, true)
    }

    /// Resumes a guest that was paused, or whose process was stopped by a signal.
    pub fn resume_guest(&mut self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        if guest.template && self.host.runs(guest.id) {
            self.end_template(&guest)?;
        }
        self.set_paused(name, false)
    }

    /// Announces the addresses of a running guest.
    pub fn announce_guest(&self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        if !self.host.runs(guest.id) {
            return Err(Fault::NotRunning { guest: guest.name }.into());
        }
        self.host.announce(guest.id)
    }

    fn set_paused(&mut self, name: &str, paused: bool) -> Result<()> {
        let mut guest = self.find_guest(name)?;
        self.check_settled(&guest)?;
        if !self.host.runs(guest.id) {
            return Err(Fault::NotRunning { guest: guest.name }.into());
        }
        let was = std::mem::replace(&mut guest.paused, paused);
        if was != paused {
            self.store.put(&guest)?;
        }
        let done = self.host.set_paused(guest.id, paused);
        if done.is_err() && was != paused {
            guest.paused = was;
            self.store.put(&guest)?;
        }
        if done.is_ok() {
            let happened = if paused {
                Happened::Paused
            } else {
                Happened::Resumed
            };
            self.tell(Event::of(Topic::Guest, name, happened));
        }
        done
    }

    /// Gives a guest another name. Its VNICs keep theirs.
    pub fn rename_guest(&mut self, name: &str, new: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        if new == name {
            return Ok(());
        }
        check_name("guest", new)?;
        self.check_settled(&guest)?;
        self.check_no_wire(name)?;
        self.check_guest_name(new)?;
        let renamed = GuestRecord {
            name: new.into(),
            // Where things lie in its memory depends on both lengths together.
            booted_config: (guest.booted_config + name.len()).saturating_sub(new.len()),
            ..guest.clone()
        };
        let change = self.store.change()?;
        change.remove::<GuestRecord>(name)?;
        change.put(&renamed)?;
        change.commit()?;
        self.index.remove_guest(&guest);
        self.index.add_guest(&renamed);
        self.host.rename_guest(renamed.id, new);
        let event = Event::of(Topic::Guest, new, Happened::Renamed);
        self.tell(event.note(format_args!("its name was ‘{name}’")));
        let subject = Subject::Guest(name.into());
        if let Some(fault) = self.host.fault(&subject).map(str::to_string) {
            self.host.clear_fault(&subject);
            let fault = Err(Error::failed(fault));
            self.host.note::<()>(Subject::Guest(new.into()), fault);
        }
        Ok(())
    }
}
