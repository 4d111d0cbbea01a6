//! Health of guests: periodic checks of their handlers, a few at a time.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use abi::message::kind;
use vmm::Answer;

use super::asking::Asked;
use super::{ANSWER, Node};
use crate::model::{Event, GuestRecord, Happened, Health, Restart, Topic};

/// Most checks that are begun in one turn.
const AT_ONCE: usize = 64;
/// The pauses between two looks at pending checks: guests answer within microseconds, or late.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// The checks of all guests that have any.
#[derive(Default)]
pub(super) struct Checks {
    guests: HashMap<u64, Vec<Check>>,
    /// When each check is due: the guest and the check's index. An entry is void if its check has
    /// another time.
    due: BTreeSet<(Instant, u64, usize)>,
    asked: Vec<Pending>,
    /// When pending checks were looked at last.
    looked: Option<Instant>,
    /// Guests that are being ended, and why.
    ended: HashMap<u64, String>,
}

/// One check of a guest.
struct Check {
    health: Health,
    due: Instant,
    /// Failures in a row, and the last one.
    failures: u32,
    why: String,
}

impl Check {
    /// Why it makes the guest unhealthy, if it does.
    fn verdict(&self) -> Option<String> {
        let fails = self.failures >= self.health.failures;
        fails.then(|| {
            let (condition, times, why) = (self.health.condition(), self.failures, &self.why);
            let times = if times == 1 {
                "once".into()
            } else {
                format!("{times} times")
            };
            format!("‘{condition}’ failed {times}: {why}")
        })
    }
}

/// A check that is asked for.
struct Pending {
    asked: Asked,
    at: usize,
    since: Instant,
}

impl Checks {
    /// Checks a guest as its record says, from now on.
    pub fn watch(&mut self, guest: &GuestRecord) {
        let now = Instant::now();
        let check = |(at, health): (usize, &Health)| {
            // Guests that are made together are not checked together.
            let spread = guest.id.wrapping_mul(7919) % health.every.as_millis().max(1) as u64;
            let due = now + health.every + Duration::from_millis(spread) / 2;
            self.due.insert((due, guest.id, at));
            Check {
                health: health.clone(),
                due,
                failures: 0,
                why: String::new(),
            }
        };
        let checks: Vec<_> = guest.health.iter().enumerate().map(check).collect();
        if checks.is_empty() {
            self.guests.remove(&guest.id);
        } else {
            self.guests.insert(guest.id, checks);
        }
    }

    /// Forgets a guest.
    pub fn forget(&mut self, id: u64) {
        self.guests.remove(&id);
        self.ended.remove(&id);
    }

    /// A guest's process has ended. Says why the node ended it, if that was for its health.
    pub fn ended(&mut self, id: u64) -> Option<String> {
        for check in self.guests.get_mut(&id).into_iter().flatten() {
            check.failures = 0;
        }
        self.ended.remove(&id)
    }

    /// Why a guest is unhealthy, if it is.
    pub fn verdict(&self, id: u64) -> Option<String> {
        self.guests.get(&id)?.iter().find_map(Check::verdict)
    }

    /// When the next work is due: a check to begin, or a pending check to look at.
    fn next(&self) -> Option<Instant> {
        let due = self.due.first().map(|(due, ..)| *due);
        let last = self
            .asked
            .last()
            .zip(self.looked)
            .map(|(last, looked)| looked + last.since.elapsed().clamp(PAUSES[0], PAUSES[1]));
        due.into_iter().chain(last).min()
    }

    /// The next check that is due, which is due again after its pause.
    fn take_due(&mut self, now: Instant) -> Option<(u64, usize)> {
        while let Some((due, id, at)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            let check = self.guests.get_mut(&id).and_then(|all| all.get_mut(at));
            if let Some(check) = check.filter(|check| check.due == due) {
                check.due = now + check.health.every;
                self.due.insert((check.due, id, at));
                return Some((id, at));
            }
        }
        None
    }

    /// Notes a check's outcome. Returns whether its guest has become unhealthy, or healthy.
    fn note(&mut self, id: u64, at: usize, outcome: Result<(), String>) -> Option<Happened> {
        let was = self.verdict(id).is_some();
        let check = self.guests.get_mut(&id)?.get_mut(at)?;
        match outcome {
            Ok(()) => check.failures = 0,
            Err(why) => {
                check.failures = check.failures.saturating_add(1);
                check.why = why;
            }
        }
        match (was, self.verdict(id).is_some()) {
            (false, true) => Some(Happened::Unhealthy),
            (true, false) => Some(Happened::Healthy),
            _ => None,
        }
    }
}

impl Node {
    /// When the next health check is due.
    pub fn next_check(&self) -> Option<Instant> {
        self.health.next()
    }

    /// Begins the checks that are due, and takes the answers to earlier ones.
    pub fn check_health(&mut self) {
        self.take_checked();
        let now = Instant::now();
        for _ in 0..AT_ONCE {
            let Some((id, at)) = self.health.take_due(now) else {
                break;
            };
            self.begin_check(id, at, now);
        }
        self.health.looked = Some(now);
    }

    fn begin_check(&mut self, id: u64, at: usize, now: Instant) {
        let is_asked = |it: &Pending| it.asked.guest == id && it.at == at;
        if self.health.asked.iter().any(is_asked) {
            return;
        }
        let Some(name) = self.index.guest_numbered(id).map(str::to_string) else {
            return self.health.forget(id);
        };
        if !self.is_to_be_checked(id, &name) {
            return;
        }
        let handler = self.health.guests[&id][at].health.handler.clone();
        match self.ask(&name, kind::READ, &handler) {
            Ok(asked) => self.health.asked.push(Pending {
                asked,
                at,
                since: now,
            }),
            Err(error) => self.note_check(id, at, Err(error.error)),
        }
    }

    /// Whether a guest can be expected to answer.
    fn is_to_be_checked(&self, id: u64, name: &str) -> bool {
        let guests = &self.guests;
        let is_there = self.host.runs(id) && !self.host.is_booting(id);
        let stays = !guests.departing.contains(&id) && !guests.suspending.contains(&id);
        is_there
            && stays
            && self
                .find_guest(name)
                .is_ok_and(|guest| !(guest.paused || guest.template || guest.arriving))
    }

    fn take_checked(&mut self) {
        let asked = std::mem::take(&mut self.health.asked);
        for pending in asked {
            let Pending { asked, at, since } = pending;
            let id = asked.guest;
            match self.answer(asked) {
                Ok(Some(answer)) => {
                    let outcome = self.outcome_of(id, at, &answer);
                    self.note_check(id, at, outcome);
                }
                Ok(None) if self.host.awake_since(id, since).elapsed() < ANSWER => {
                    self.health.asked.push(pending);
                }
                Ok(None) => {
                    let name = self.index.guest_numbered(id).map(str::to_string);
                    let is_missed = name.is_some_and(|name| self.is_to_be_checked(id, &name));
                    if is_missed {
                        self.give_up(asked, since);
                        let why = format!("no answer within {} s", ANSWER.as_secs());
                        self.note_check(id, at, Err(why));
                    } else {
                        self.forget(asked);
                    }
                }
                // It has ended, which is told elsewhere.
                Err(_) => {}
            }
        }
    }

    /// The outcome of an answer to a check.
    fn outcome_of(&self, id: u64, at: usize, answer: &Answer) -> Result<(), String> {
        let text = String::from_utf8_lossy(&answer.contents);
        let text = text.trim();
        let checks = self.health.guests.get(&id);
        let check = checks.and_then(|checks| checks.get(at));
        match check {
            Some(_) if !answer.ok() => Err(text.into()),
            Some(check) if !check.health.passes(text) => {
                let first: String = text.chars().take(64).collect();
                Err(format!("it is ‘{}’", vmm::printable(&first)))
            }
            _ => Ok(()),
        }
    }

    /// Notes a check's outcome, and ends an unhealthy guest if it is to be restarted.
    fn note_check(&mut self, id: u64, at: usize, outcome: Result<(), String>) {
        let Some(happened) = self.health.note(id, at, outcome) else {
            return;
        };
        let Some(guest) = self.guest_with(id) else {
            return;
        };
        let event = Event::of(Topic::Guest, &guest.name, happened);
        let Some(why) = self.health.verdict(id) else {
            return self.tell(event);
        };
        self.tell(event.because(&why));
        if guest.restart != Restart::Never && self.host.kill(id) {
            self.health.ended.insert(id, why);
        }
    }
}
