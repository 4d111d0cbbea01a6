//! CoreEngine: it runs while there are network stack modules, and knows them and the applications.

use super::Node;
use super::resource::Resource;
use crate::error::{Error, Kind, Result, Subject};
use crate::model::{ApplicationRecord, Event, GuestRecord, Happened, Nsm, NsmRecord, Topic};

impl Node {
    /// Takes over the CoreEngine that runs, with what it has: what is configured and not there is made later.
    pub(super) fn take_core_over(&mut self) -> Result<()> {
        let Some(status) = self.host.adopt_core() else {
            return Ok(());
        };
        for tenant in status.tenants {
            if self.store.get::<ApplicationRecord>(&tenant.name)?.is_none() {
                self.host.end_application(&tenant.name, false)?;
            }
        }
        for nsm in status.nsms {
            if self.store.get::<NsmRecord>(&nsm.name)?.is_none() {
                self.host.end_nsm(&nsm.name);
            }
        }
        self.release_core()
    }

    /// Starts a CoreEngine if there is none, unless that was tried within the last second.
    pub(super) fn need_core(&mut self) -> Result<()> {
        match self.host.fault(&Subject::CoreEngine) {
            _ if self.host.core_pid().is_some() => Ok(()),
            None => self.host.start_core(),
            Some(why) => Err(Error::new(
                Kind::Unavailable,
                format_args!("there is no CoreEngine: {why}: try again in a second"),
            )),
        }
    }

    /// Starts a CoreEngine if there is none, and has it know what it is to know.
    pub(super) fn bring_core(&mut self) {
        let started = match self.host.core_pid() {
            None if self.store.count::<NsmRecord>().is_ok_and(|nsms| nsms > 0) => {
                self.end_guests_with_sockets();
                self.host.start_core()
            }
            _ => Ok(()),
        };
        self.host.note(Subject::CoreEngine, started.clone());
        if let Err(error) = started.and_then(|()| Nsm::reconcile(self)) {
            self.host.note::<()>(Subject::CoreEngine, Err(error));
        }
    }

    /// Ends CoreEngine if nobody needs it.
    pub(super) fn release_core(&mut self) -> Result<()> {
        if self.store.count::<NsmRecord>()? == 0 {
            self.host.stop_core();
            self.host.note(Subject::CoreEngine, Ok(()));
        }
        Ok(())
    }

    /// Ends the guests that had sockets at a CoreEngine that ended: they cannot return to the next one, and are restarted
    /// as guests that crashed are.
    fn end_guests_with_sockets(&mut self) {
        for guest in self.store.all::<GuestRecord>().unwrap_or_default() {
            if guest.as_booted().spec.nsm.is_some() {
                self.host.kill(guest.id);
            }
        }
    }

    /// Starts a CoreEngine in the place of one that ended: at once, unless that one ended soon, too.
    pub(super) fn replace_core(&mut self) {
        let Some((how, settled)) = self.host.core_ended() else {
            return;
        };
        let event = |event| Event::of(Topic::CoreEngine, "", event).because(&how);
        if !settled {
            let note = "the node starts another within a second";
            self.tell(event(Happened::Down).note(note));
            let down = Err(Error::failed(&how));
            return self.host.note::<()>(Subject::CoreEngine, down);
        }
        self.bring_core();
        self.tell(match self.host.core_pid() {
            Some(pid) => {
                let note = format_args!("process {pid} replaces it");
                event(Happened::Restarted).note(note)
            }
            None => event(Happened::Down).note("the node tries to start one every second"),
        });
    }
}
