//! The control store: its process, the guests' numbers in it, and their routers.

use std::path::Path;

use super::Node;
use crate::control_store::message::{Change, Request};
use crate::control_store::number;
use crate::error::{Error, Fault, Result, Subject};
use crate::host::{PAUSES, Router, StoreRun};
use crate::model::{Event, Guest, GuestRecord, Happened, Topic};

/// Longest name of a configuration in the store, in bytes.
const NAME_MAX: usize = 256;

/// The routers that a guest is to have in the control store: its own configuration, and those beside it whose names are
/// numbers of routers.
pub(super) fn routers_of(guest: &Guest) -> Vec<Router> {
    let own = Router {
        number: 0,
        name: shown(guest.file.as_deref()),
        config: String::new(),
    };
    let others = guest.configurations.iter().filter_map(|(name, it)| {
        let number = number(name).filter(|number| *number != 0)?;
        Some(Router {
            number,
            name: shown(it.file.as_deref()),
            config: it.config.clone(),
        })
    });
    [own].into_iter().chain(others).collect()
}

/// A configuration's name in the store: the name of its file, without folders.
fn shown(file: Option<&Path>) -> String {
    let name = file.and_then(Path::file_name);
    let name = name.map_or("config".into(), |name| name.to_string_lossy());
    name[..name.floor_char_boundary(NAME_MAX)].to_string()
}

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

    /// Connects again to a store that dropped the node's connection, when it is time to.
    pub(super) fn reconnect_store(&mut self) {
        let event = |event| Event::of(Topic::Store, "", event);
        match self.host.reconnect_store() {
            None => {}
            Some((Ok(()), pause)) => {
                let note = format_args!(
                    "it dropped the node's connection: the node connected again after {} s, and introduced all guests",
                    pause.as_secs()
                );
                self.tell(event(Happened::Up).note(note));
            }
            Some((Err(error), _)) => {
                let note = format_args!(
                    "the node tries again, after pauses of up to {} s",
                    PAUSES[1].as_secs()
                );
                self.tell(event(Happened::Down).because(&error.error).note(note));
            }
        }
    }

    /// Notes which routers a guest has, and tells the store.
    pub(super) fn tell_routers(&mut self, guest: &GuestRecord) {
        if guest.booted.as_ref().is_none_or(|it| it.config.is_none()) {
            self.host.set_routers(guest.id, routers_of(&guest.spec));
        }
    }

    /// The store's requests, each with the configuration to run.
    pub fn store_requests(&mut self) -> Vec<(Request, String)> {
        let requests = self.host.store_requests();
        self.reconnect_store();
        requests
    }

    /// The guest that a request of the store is about, if it still runs in the same process.
    pub fn guest_asked_for(&self, request: &Request) -> Result<String> {
        let id = self.index.guest_of_domain(request.domain);
        let id = id.filter(|id| self.host.pid_of(*id) == Some(request.pid));
        let name = id.and_then(|id| self.index.guest_numbered(id));
        let missing = || Fault::NoDomain {
            domain: request.domain,
        };
        Ok(name.ok_or_else(missing)?.to_string())
    }

    /// Tells the store of all routers of a guest.
    pub fn describe_routers(&mut self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        self.host.describe_routers(guest.id);
        Ok(())
    }

    /// Answers a request of the store.
    pub fn answer_store(
        &mut self,
        request: &Request,
        outcome: std::result::Result<String, String>,
    ) {
        self.host.tell_store([Change::Answer {
            domain: request.domain,
            number: request.number,
            outcome,
        }]);
    }
}
