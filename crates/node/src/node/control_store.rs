//! The control store: its process, and the guests' numbers in it.

use super::Node;
use crate::error::{Error, Result, Subject};
use crate::host::StoreRun;
use crate::model::{Event, GuestRecord, Happened, Topic};

impl Node {
    /// Gives numbers to guests that an earlier version recorded, which have none.
    pub(super) fn number_guests(&mut self) -> Result<()> {
        let guests = self.store.all::<GuestRecord>()?.into_iter();
        let without: Vec<_> = guests.filter(|guest| guest.domain_id == 0).collect();
        if without.is_empty() {
            return Ok(());
        }
        let change = self.store.change()?;
        for mut guest in without {
            guest.domain_id = self.index.take_domain(&change)?;
            change.put(&guest)?;
        }
        Ok(change.commit()?)
    }

    /// Takes over the store that runs, or starts one. The node serves without one all the same.
    pub(super) fn take_store_over(&mut self) -> Result<()> {
        match self.store.get::<StoreRun>(StoreRun::NAME)? {
            Some(run) if self.host.adopt_store(&run) => self.host.introduce_all(),
            _ => self.need_store(),
        }
        Ok(())
    }

    /// Starts a store if there is none. If it cannot be, it is tried again every second.
    pub(super) fn need_store(&mut self) {
        if self.host.store_run().is_some() {
            return self.host.note(Subject::ControlStore, Ok(()));
        }
        let mut kept = Ok(());
        let started = self.host.start_store(|run| kept = self.store.put(run));
        self.tell_unkept(kept);
        let event = |event| Event::of(Topic::Store, "", event);
        match (&started, self.host.fault(&Subject::ControlStore).is_some()) {
            (Ok(()), true) => self.tell(event(Happened::Up)),
            (Err(error), false) => {
                let note = "the node tries to start it every second";
                self.tell(event(Happened::Down).because(&error.error).note(note));
            }
            _ => {}
        }
        self.host.note(Subject::ControlStore, started);
    }

    /// Starts a store in the place of one that ended: at once, unless that one ended soon, too.
    pub(super) fn replace_store(&mut self) {
        let Some((how, settled)) = self.host.store_ended() else {
            return;
        };
        let event = |event| Event::of(Topic::Store, "", event).because(&how);
        if !settled {
            let note = "the node starts another within a second";
            self.tell(event(Happened::Down).note(note));
            let down = Err(Error::failed(&how));
            return self.host.note::<()>(Subject::ControlStore, down);
        }
        self.need_store();
        if let Some(run) = self.host.store_run() {
            let note = format_args!("process {} replaces it", run.pid);
            self.tell(event(Happened::Restarted).note(note));
        }
    }
}
