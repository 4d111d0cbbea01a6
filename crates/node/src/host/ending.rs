//! Guests that end because they were asked to.
//!
//! An end takes up to some ten milliseconds, most of it in the kernel. The node does not wait for
//! it: it asks the guest, and the end of the process is an event like any other.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use abi::control::State;
use abi::message::kind;
use rustix::process::Signal;

use super::Host;
use super::guests::RunningGuest;
use super::launch::Launch;
use crate::control_store::message::Change;

/// How long a guest may take to end when it is asked to. Then it is killed.
const ENDING: Duration = Duration::from_millis(200);

/// Guests that were asked to end, by their numbers.
#[derive(Default)]
pub(super) struct Ending {
    guests: HashMap<u64, RunningGuest>,
    /// The deadline of each guest, at which it is killed.
    kills: BTreeSet<(Instant, u64)>,
    /// Guests that have ended and were not reported yet.
    ended: Vec<u64>,
}

impl Ending {
    /// A guest that was asked to end and has not.
    pub(super) fn guest(&mut self, id: u64) -> Option<&mut RunningGuest> {
        self.guests.get_mut(&id)
    }

    /// A guest that was asked to end and has not.
    pub fn get(&self, id: u64) -> Option<&RunningGuest> {
        self.guests.get(&id)
    }

    /// Guests that were asked to end and have not.
    pub fn guests(&self) -> impl Iterator<Item = &RunningGuest> {
        self.guests.values()
    }
}

impl Host {
    /// Asks the running ones among guests to end, and returns them.
    /// [`take_ended`](Self::take_ended) reports their ends.
    pub fn begin_end(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let late = Instant::now() + ENDING;
        let mut asked = Vec::new();
        for id in ids {
            let Some(mut running) = self.guests.remove(&id) else {
                continue;
            };
            // A stopped process answers no request.
            let _ = running.guest.signal(Signal::CONT);
            if running.control.state() == Some(State::Suspended) {
                // It would go on before it ends.
                running.guest.kill();
            } else {
                let _ = running.control.request(kind::STOP, "");
            }
            self.ending.guests.insert(id, running);
            self.ending.kills.insert((late, id));
            asked.push(id);
        }
        asked
    }

    /// Whether the guest with this number was asked to end and has not.
    pub fn is_ending(&self, id: u64) -> bool {
        self.ending.guests.contains_key(&id)
    }

    /// The next deadline at which a guest that has not ended is killed.
    pub fn next_kill(&self) -> Option<Instant> {
        self.ending.kills.first().map(|(late, _)| *late)
    }

    /// Kills the guests that were asked to end and had time to.
    pub fn kill_late(&mut self) {
        let now = Instant::now();
        while let Some((late, id)) = self.ending.kills.first().copied()
            && late <= now
        {
            self.ending.kills.pop_first();
            if let Some(running) = self.ending.guests.get(&id) {
                running.guest.kill();
            }
        }
    }

    /// Notes ended processes of guests that were asked to end.
    pub fn note_ended(&mut self, ids: &[u64]) {
        let has_ended = |id: &&u64| {
            let running = self.ending.guests.get_mut(id);
            // If it cannot be waited for, the process is gone, too.
            running.is_some_and(|it| !matches!(it.guest.try_wait(&it.control), Ok(None)))
        };
        let ended: Vec<u64> = ids.iter().filter(has_ended).copied().collect();
        self.clear(&ended);
    }

    /// Guests that were asked to end and have: nothing of them is left.
    pub fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ending.ended)
    }

    /// Ends the running ones among guests, and waits for their ends.
    pub fn end_guests(&mut self, ids: impl IntoIterator<Item = u64>) {
        let asked = self.begin_end(ids);
        self.finish_end(&asked);
    }

    /// Waits for guests that were asked to end.
    pub fn finish_end(&mut self, ids: &[u64]) {
        let late = Instant::now() + ENDING;
        for id in ids {
            let Some(running) = self.ending.guests.get_mut(id) else {
                continue;
            };
            let left = late.saturating_duration_since(Instant::now());
            let ended = running.guest.wait(&running.control, Some(left));
            if !matches!(ended, Ok(Some(_))) {
                running.guest.kill();
                let _ = running.guest.wait(&running.control, Some(super::TIMEOUT));
            }
        }
        self.clear(ids);
    }

    /// Waits for all guests that were asked to end.
    pub fn finish_all(&mut self) {
        let all: Vec<u64> = self.ending.guests.keys().copied().collect();
        self.finish_end(&all);
    }

    /// Waits for the ending guests that conflict with a guest about to start. Such a guest has its
    /// number (the same guest, restarted), or its ports (of a guest that was removed).
    pub(super) fn make_way(&mut self, launch: &Launch) {
        let taken = launch.ports.iter().any(|port| self.has_port(&port.name));
        if !taken && !self.is_ending(launch.id) {
            return;
        }
        let in_the_way = |other: &Launch| {
            let mut names = other.ports.iter().map(|port| &port.name);
            other.id == launch.id
                || names.any(|name| launch.ports.iter().any(|port| port.name == *name))
        };
        let guests = self.ending.guests.iter();
        let guests = guests.filter(|(_, running)| in_the_way(&running.launch));
        let guests: Vec<u64> = guests.map(|(id, _)| *id).collect();
        self.finish_end(&guests);
    }

    /// Forgets guests whose processes have ended.
    fn clear(&mut self, ids: &[u64]) {
        let gone = ids.iter().filter_map(|id| self.ending.guests.remove(id));
        let mut cgroups = Vec::new();
        let launches: Vec<_> = gone
            .map(|mut running| {
                running.take_console(&mut self.logs, true);
                self.ends.forget(running.watch);
                cgroups.extend(running.cgroup);
                running.launch
            })
            .collect();
        cgroups.into_iter().for_each(|it| self.cgroups.remove(it));
        self.detach_guests(&launches.iter().collect::<Vec<_>>());
        let domains = launches.iter().map(|launch| launch.domain_id);
        self.tell_store(domains.map(|domain| Change::Release { domain }));
        self.ending.ended.extend(launches.iter().map(|it| it.id));
    }
}
