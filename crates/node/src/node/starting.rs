//! Guests that were just started, and the clients that wait for them to run.

use std::time::{Duration, Instant};

use super::Node;
use super::copies::Creation;
use crate::error::{Error, Result};
use crate::model::{Event, Guest, GuestState, Happened, Object, Topic};

/// How long a guest may take to start: it does in milliseconds, but the machine may be busy.
const START: Duration = Duration::from_secs(10);

/// Reports a guest's start or failure to the client that waits for it.
pub type OnStarted = Box<dyn FnOnce(Result<Object<Guest>>) + Send>;

/// Reports a guest's end to the client that waits for it.
pub type OnEnded = Box<dyn FnOnce(Result<()>) + Send>;

/// A guest that was started and is not known to run.
pub(super) struct Starting {
    name: String,
    id: u64,
    /// Whether it was just created, and is removed if it does not come to run.
    is_new: bool,
    /// Warnings about its configuration.
    messages: Option<String>,
    since: Instant,
    /// None if no client waits.
    tell: Option<OnStarted>,
}

impl Node {
    /// Creates guests, and reports each one when it runs, or has ended normally. A guest that does not come to run is
    /// removed.
    pub fn create_and_tell(&mut self, wanted: Vec<Creation>, tells: Vec<OnStarted>) {
        let created = self.create_guests(wanted);
        for (created, tell) in created.into_iter().zip(tells) {
            match created {
                Ok(view) => self.await_new(view, Some(tell)),
                Err(error) => tell(Err(error)),
            }
        }
    }

    /// Reports a guest that was just created, if to a client.
    pub(super) fn await_new(&mut self, guest: Object<Guest>, tell: Option<OnStarted>) {
        self.guests.starting.push(Starting {
            name: guest.name,
            id: guest.status.id,
            is_new: true,
            messages: guest.status.messages,
            since: Instant::now(),
            tell,
        });
    }

    /// Reports a started guest when it runs, or has ended normally, or the reason of its failure.
    pub fn await_start(&mut self, name: &str, tell: OnStarted) -> Result<()> {
        let id = self.find_guest(name)?.id;
        self.guests.starting.push(Starting {
            name: name.into(),
            id,
            is_new: false,
            messages: None,
            since: Instant::now(),
            tell: Some(tell),
        });
        Ok(())
    }

    /// How long a client has been waiting for the guest that was started last; none if no guest is starting.
    pub fn awaits_start(&self) -> Option<Duration> {
        let last = self.guests.starting.last()?;
        Some(match last.tell {
            Some(_) => last.since.elapsed(),
            None => Duration::MAX,
        })
    }

    /// Looks at the starting guests, and reports each one that runs or has failed.
    pub fn look_at_starting(&mut self) {
        let all = std::mem::take(&mut self.guests.starting);
        for starting in all {
            match self.started(&starting) {
                Some(outcome) => {
                    if let Some(tell) = starting.tell {
                        tell(outcome);
                    }
                }
                None => self.guests.starting.push(starting),
            }
        }
    }

    /// The outcome of a guest's start; `None` while it is starting.
    fn started(&mut self, starting: &Starting) -> Option<Result<Object<Guest>>> {
        let late = starting.since.elapsed() > START;
        if !late && self.host.is_booting(starting.id) {
            return None;
        }
        let mut view = match self.guest_state(&starting.name) {
            Ok(view) => view,
            Err(error) => return Some(Err(error)),
        };
        let another = view.status.id != starting.id;
        let failed = match view.status.state {
            _ if another => false,
            GuestState::Crashed => true,
            GuestState::Starting if view.status.restarts > 0 || late => true,
            GuestState::Starting => return None,
            _ => false,
        };
        if !failed {
            if view.status.state == GuestState::Running && self.host.comes_to_run(starting.id) {
                let event = Event::of(Topic::Guest, &starting.name, Happened::Running);
                let boot = view.status.boot_ms;
                self.tell(match boot {
                    Some(ms) => event.note(format_args!("after {ms:.2} ms")),
                    None => event,
                });
            }
            view.status.messages = starting.messages.clone();
            return Some(Ok(view));
        }
        if starting.is_new
            && let Err(error) = self.destroy_guest(&starting.name)
        {
            return Some(Err(error));
        }
        let silent = || format!("the guest did not start within {} s", START.as_secs());
        let reason = view.status.reason.unwrap_or_else(silent);
        Some(Err(Error::refused(reason)))
    }
}
