//! Events: one place that passes them to the log and to followers.

use std::collections::VecDeque;
use std::time::SystemTime;

use glob::Pattern;
use tokio::sync::watch;

use super::Node;
use super::logs::FOLLOWERS_MAX;
use super::resource::Resource;
use crate::error::{Error, Kind, Result, Subject};
use crate::host::first_number;
use crate::log;
use crate::model::{Event, EventsQuery, Happened, Selection, Topic, Wire, rfc3339};

/// Number of kept events: some 3 MB, enough for the creation of a few thousand guests.
const KEPT: usize = 8192;

/// The last events, oldest first, and their followers.
pub(super) struct Events {
    kept: VecDeque<(SystemTime, Event)>,
    next: u64,
    grown: watch::Sender<u64>,
    /// The client whose request is carried out; none for the node's own actions.
    by: Option<String>,
}

impl Default for Events {
    fn default() -> Events {
        let next = first_number();
        Events {
            kept: VecDeque::new(),
            next,
            grown: watch::Sender::new(next),
            by: None,
        }
    }
}

impl Events {
    fn add(&mut self, mut event: Event) -> &Event {
        let now = SystemTime::now();
        event.number = self.next;
        event.time = rfc3339(now);
        event.by = self.by.clone();
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((now, event));
        self.next += 1;
        self.grown.send_replace(self.next);
        &self.kept[self.kept.len() - 1].1
    }

    /// Number of the oldest event that is kept.
    fn first(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// The events from a number on.
    fn from(&self, number: u64) -> impl Iterator<Item = &(SystemTime, Event)> {
        let skip = number.saturating_sub(self.first());
        self.kept.iter().skip(usize::try_from(skip).unwrap_or(KEPT))
    }
}

/// Whom events are told.
struct Filter {
    names: Vec<Pattern>,
    since: Option<SystemTime>,
}

impl Filter {
    fn new(query: &EventsQuery) -> Result<Filter> {
        let name = query.name.clone();
        Ok(Filter {
            names: Selection { name }.patterns()?,
            since: query.since.map(|since| since.time()),
        })
    }

    fn wants(&self, (time, event): &(SystemTime, Event)) -> bool {
        let named = |pattern: &Pattern| pattern.matches(&event.name);
        (self.names.is_empty() || self.names.iter().any(named))
            && self.since.is_none_or(|since| *time >= since)
    }
}

/// A follower of events, and its position.
pub struct EventFollower {
    filter: Filter,
    next: u64,
    grown: watch::Receiver<u64>,
}

impl EventFollower {
    /// Waits until there may be events to read; an error if the node ends.
    pub async fn wait(&mut self) -> Result<()> {
        let grown = self.grown.changed().await;
        grown.map_err(|_| Error::new(Kind::Unavailable, "the node is ending"))
    }
}

impl Node {
    /// Records an event: in the log, and for the API and followers.
    pub(super) fn tell(&mut self, event: Event) {
        log::event(self.events.add(event));
    }

    /// Whose request is carried out from now on.
    pub fn set_actor(&mut self, by: Option<String>) {
        self.events.by = by;
    }

    /// Tells that a resource was created, changed or removed by command.
    pub fn tell_change(
        &mut self,
        topic: Topic,
        name: &str,
        happened: Happened,
        note: Option<String>,
    ) {
        let event = Event::of(topic, name, happened);
        self.tell(Event { note, ..event });
    }

    /// Tells that a wire was made what its file says, in so many steps.
    pub fn tell_wire(&mut self, name: &str, steps: usize) {
        let happened = match Wire::one(self, name) {
            Ok(_) => Happened::Applied,
            Err(_) => Happened::Removed,
        };
        let event = Event::of(Topic::Wire, name, happened);
        let s = if steps == 1 { "" } else { "s" };
        self.tell(event.note(format_args!("{steps} step{s}")));
    }

    /// Reports changes to up or down since the last call.
    pub fn tell_faults(&mut self) {
        for (subject, fault) in self.host.take_noted() {
            let (topic, name) = match &subject {
                Subject::Link(name) => (Topic::Link, name),
                Subject::Vnic(name) => (Topic::Vnic, name),
                Subject::Patch(name) => (Topic::Patch, name),
                Subject::Flow(name) => (Topic::Flow, name),
                Subject::Namespace(name) => (Topic::Namespace, name),
                // Told where they happen; entries come with their port.
                Subject::Switch
                | Subject::ControlStore
                | Subject::State
                | Subject::CoreEngine
                | Subject::Nsm(_)
                | Subject::Application(_)
                | Subject::Guest(_)
                | Subject::Entries(_) => continue,
            };
            self.tell(match fault {
                Some(reason) => Event::of(topic, name, Happened::Down).because(&reason),
                None => Event::of(topic, name, Happened::Up),
            });
        }
    }

    /// The events that are kept.
    pub fn all_events(&self, query: &EventsQuery) -> Result<Vec<Event>> {
        let filter = Filter::new(query)?;
        let wanted = self.events.kept.iter().filter(|event| filter.wants(event));
        Ok(wanted.map(|(_, event)| event.clone()).collect())
    }

    /// A follower of events: of the kept events behind the number `after`, and of future ones.
    pub fn follow_events(&mut self, query: &EventsQuery, after: u64) -> Result<EventFollower> {
        if self.events.grown.receiver_count() >= FOLLOWERS_MAX {
            return Err(Error::new(
                Kind::Unavailable,
                format_args!(
                    "{FOLLOWERS_MAX} clients follow events already: end one of them first"
                ),
            ));
        }
        Ok(EventFollower {
            filter: Filter::new(query)?,
            // One that has read nothing has lost nothing.
            next: if after == 0 {
                self.events.first()
            } else {
                after + 1
            },
            grown: self.events.grown.subscribe(),
        })
    }

    /// The events that are new to a follower.
    pub fn read_events(&self, follower: &mut EventFollower) -> Vec<Event> {
        let mut read = Vec::new();
        let lost = self.events.first().saturating_sub(follower.next);
        // Of an earlier node's numbers, it is not known how many were events.
        let is_known = lost < u64::from(u32::MAX);
        if lost > 0 {
            let count = if is_known {
                format!("{lost} events")
            } else {
                "events".into()
            };
            let event = Event::of(Topic::Node, "", Happened::Lost);
            let event = event.note(format_args!("{count} are not kept any more"));
            read.push(Event {
                number: self.events.first() - 1,
                time: rfc3339(SystemTime::now()),
                ..event
            });
        }
        let new = self.events.from(follower.next);
        let wanted = new.filter(|event| follower.filter.wants(event));
        read.extend(wanted.map(|(_, event)| event.clone()));
        follower.next = self.events.next;
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_their_numbers_grow() {
        let mut events = Events::default();
        let first = events.next;
        for i in 0..KEPT + 10 {
            events.add(Event::of(Topic::Guest, &format!("g{i}"), Happened::Created));
        }
        assert_eq!(events.kept.len(), KEPT);
        assert_eq!(events.kept[0].1.name, "g10");
        assert_eq!(events.kept[0].1.number, events.first());
        let after: Vec<_> = events.from(events.next - 2).collect();
        assert_eq!(after.len(), 2);
        assert_eq!(after[0].1.name, format!("g{}", KEPT + 8));
        assert_eq!(events.from(0).count(), KEPT);
        assert_eq!(events.from(u64::MAX).count(), 0);
        assert!(Events::default().next > first, "numbers grow over nodes");
    }

    #[test]
    fn a_filter_has_names_and_a_time() {
        let event = |name: &str| {
            (
                SystemTime::now(),
                Event::of(Topic::Guest, name, Happened::Up),
            )
        };
        let query = |name: &str, since: Option<&str>| EventsQuery {
            name: Some(name.into()),
            since: since.map(|since| since.parse().unwrap()),
            follow: false,
        };
        let filter = Filter::new(&query("nat,fw-*", Some("1h"))).unwrap();
        assert!(filter.wants(&event("nat")) && filter.wants(&event("fw-2")));
        assert!(!filter.wants(&event("nat-2")));
        let (_, old) = event("nat");
        assert!(!filter.wants(&(SystemTime::UNIX_EPOCH, old)));
        assert!(Filter::new(&query("fw-[", None)).is_err());
    }
}
