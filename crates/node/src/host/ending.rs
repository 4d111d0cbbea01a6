//! Guests that end because they were asked to.
//!
//! An end takes up to some ten milliseconds, most of it in the kernel. Nobody waits for it but by
//! choice: the guest is asked, and the end of its process is an event as any other.

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
    /// When those are killed that have not ended by then.
    kills: BTreeSet<(Instant, u64)>,
    /// Those that have ended and were not told of.
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
    /// Asks guests to end, as far as they run, and says which do. [`take_ended`](Self::take_ended) tells when they
    /// have.
    pub fn begin_end(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let late = Instant::now() + ENDING;
        let mut asked = Vec::new();
        for id in ids {
            let Some(mut running) = self.guests.remove(&id) else {
                continue;
            };
            // One that stands still hears nothing.
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

    /// When the next guest is to be killed that does not end.
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

    /// Takes note of ended processes, as far as they are those of guests that were asked to end.
    pub fn note_ended(&mut self, ids: &[u64]) {
        let has_ended = |id: &&u64| {
            let running = self.ending.guests.get_mut(id);
            // Of one that cannot be waited for, the process is gone, too.
            running.is_some_and(|it| !matches!(it.guest.try_wait(&it.control), Ok(None)))
        };
        let ended: Vec<u64> = ids.iter().filter(has_ended).copied().collect();
        self.clear(&ended);
    }

    /// Guests that were asked to end and have: nothing of them is left.
    pub fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ending.ended)
    }

    /// Ends guests, as far as they run, and waits until they have.
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

    /// Waits for guests that were asked to end, as far as they are in the way of one that is to be started: they have
    /// its number, since it was ended and is started again, or its ports, since they were removed.
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
