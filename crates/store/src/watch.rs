//! Watches, and the events that wait for their connections.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::connection::ConnectionId;
use crate::path::{Path, levels_below};

/// Most events that wait for a connection. If there are more, they are dropped, and each watch is
/// fired once when the connection takes events again.
pub const EVENTS_MAX: usize = 1024;

/// The target of a watch: a node and the nodes below it, or a special event such as
/// `@releaseDomain`.
pub type Target = Arc<str>;

/// A watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The connection that gets the events.
    pub connection: ConnectionId,
    /// What the connection calls the watch.
    pub token: Arc<[u8]>,
    /// How many levels below the target count; all if `None`.
    pub depth: Option<u32>,
    /// Bytes in front of a path that its connection does not see, since it named a relative one.
    pub hidden: usize,
}

/// The event of a change, for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The path, as the connection sees it.
    pub path: String,
    /// The watch's token.
    pub token: Arc<[u8]>,
}

impl Watch {
    fn event(&self, path: &str) -> Event {
        Event {
            path: path.get(self.hidden..).unwrap_or_default().to_string(),
            token: self.token.clone(),
        }
    }
}

/// All watches, by what they watch.
#[derive(Default)]
pub struct Watches {
    by_target: HashMap<Target, Vec<Watch>>,
}

impl Watches {
    /// Adds a watch; returns whether there was none with this connection, target and token.
    pub fn add(&mut self, target: Target, watch: Watch) -> bool {
        let watches = self.by_target.entry(target).or_default();
        let same = |w: &Watch| (w.connection, &w.token) == (watch.connection, &watch.token);
        let new = !watches.iter().any(same);
        if new {
            watches.push(watch);
        }
        new
    }

    /// Removes a watch; returns whether it was there.
    pub fn remove(&mut self, target: &str, connection: ConnectionId, token: &[u8]) -> bool {
        let Some(watches) = self.by_target.get_mut(target) else {
            return false;
        };
        let before = watches.len();
        watches.retain(|w| (w.connection, &*w.token) != (connection, token));
        let removed = watches.len() < before;
        if watches.is_empty() {
            self.by_target.remove(target);
        }
        removed
    }

    /// The watches of a target.
    pub fn of(&self, target: &str) -> &[Watch] {
        self.by_target.get(target).map_or(&[], |watches| watches)
    }

    /// The watches of a node and of those above it that a change of the node concerns.
    pub fn concerned(&self, path: &Path) -> impl Iterator<Item = &Watch> {
        path.lineage().flat_map(move |target| {
            let near = move |watch: &&Watch| {
                let depth = watch.depth.map(|depth| depth as usize);
                depth.is_none_or(|depth| levels_below(target, path) <= depth)
            };
            self.of(target).iter().filter(near)
        })
    }
}

/// The events that wait for a connection.
#[derive(Default)]
pub struct Queue {
    events: VecDeque<Event>,
    /// Events were dropped: all watches must fire.
    pub overflowed: bool,
}

impl Queue {
    /// Adds the event of `watch` for `path`; returns whether it is the first that waits.
    pub fn add(&mut self, watch: &Watch, path: &str) -> bool {
        if self.overflowed {
            return false;
        }
        if self.events.len() >= EVENTS_MAX {
            self.events.clear();
            self.overflowed = true;
            return true;
        }
        self.events.push_back(watch.event(path));
        self.events.len() == 1
    }

    /// Adds what `watch` tells when it is set up, however many wait.
    pub fn add_first(&mut self, watch: &Watch, target: &str) {
        self.events.push_back(watch.event(target));
    }

    /// Takes the event that waits longest.
    pub fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DomainId;

    fn watch(number: u32, depth: Option<u32>) -> Watch {
        Watch {
            connection: ConnectionId::new(number.into()),
            token: Arc::new([number as u8]),
            depth,
            hidden: 0,
        }
    }

    #[test]
    fn a_change_concerns_the_watches_above() {
        let mut watches = Watches::default();
        for (number, target, depth) in [
            (1, "/", None),
            (2, "/a", Some(1)),
            (3, "/a/b/c", None),
            (4, "/a/bb", None),
            (5, "/a", Some(2)),
            (6, "/a/b/c/d", None),
        ] {
            assert!(watches.add(target.into(), watch(number, depth)));
        }
        let path = Path::parse(b"/a/b/c", DomainId(0)).unwrap();
        let told: Vec<u8> = watches
            .concerned(&path)
            .map(|watch| watch.token[0])
            .collect();
        assert_eq!(told, [1, 5, 3]);
        assert!(!watches.add("/".into(), watch(1, None)));
        assert!(watches.remove("/", ConnectionId::new(1), &[1]));
        assert!(!watches.remove("/", ConnectionId::new(1), &[1]));
        assert_eq!(watches.concerned(&path).count(), 2);
    }

    #[test]
    fn a_queue_is_bounded() {
        let mut queue = Queue::default();
        let watch = watch(1, None);
        assert!(queue.add(&watch, "/a"));
        for _ in 1..EVENTS_MAX {
            assert!(!queue.add(&watch, "/a"));
        }
        assert!(queue.add(&watch, "/a") && queue.overflowed);
        assert!(!queue.add(&watch, "/a"));
        assert_eq!(queue.next(), None);
    }
}
