//! Guests that their host fails to run: another is tried, each once in a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::view::View;

/// How long a guest may fail on its host before another is tried: the host tries again every two seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a host is not tried again.
const MEMORY: Duration = Duration::from_secs(600);

/// A guest that fails.
struct Failing {
    since: Instant,
    /// Hosts that were tried, and when.
    tried: BTreeMap<String, Instant>,
}

/// All guests that fail.
#[derive(Default)]
pub struct Rescue {
    guests: BTreeMap<String, Failing>,
}

/// The host that fails to run a guest, if one does.
fn fails_on(view: &View, name: &str) -> Option<String> {
    let (status, placement) = (view.status(name)?, view.placement(name)?);
    let fails = status.state == "failed"
        && status.id == placement.id
        && status.host.as_ref() == Some(&placement.host)
        && placement.target.is_none();
    fails.then_some(placement.host)
}

impl Rescue {
    /// Takes note of how a guest is.
    pub fn note(&mut self, view: &View, name: &str, now: Instant) {
        if fails_on(view, name).is_some() {
            self.guests.entry(name.into()).or_insert_with(|| Failing {
                since: now,
                tried: BTreeMap::new(),
            });
        } else if view.status(name).is_none_or(|it| it.state == "running") {
            self.guests.remove(name);
        }
    }

    /// Guests that have failed for long enough, each with the hosts that were tried.
    pub fn due(&mut self, view: &View, now: Instant) -> Vec<(String, BTreeSet<String>)> {
        let due = self.guests.iter_mut().filter_map(|(name, failing)| {
            let host = fails_on(view, name)?;
            if now.duration_since(failing.since) < PATIENCE {
                return None;
            }
            failing.since = now;
            failing
                .tried
                .retain(|_, at| now.duration_since(*at) < MEMORY);
            failing.tried.insert(host, now);
            Some((name.clone(), failing.tried.keys().cloned().collect()))
        });
        due.collect()
    }

    /// Takes note of the host that is tried next.
    pub fn tries(&mut self, name: &str, host: &str, now: Instant) {
        if let Some(failing) = self.guests.get_mut(name) {
            failing.tried.insert(host.into(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Kind;
    use crate::model::{Placement, Status};

    #[test]
    fn each_host_is_tried_once_in_a_while() {
        let (mut view, mut rescue) = (View::default(), Rescue::default());
        let mut revision = 0;
        let mut is = |view: &mut View, host: &str, state: &str| {
            let placement = Placement {
                id: "1".into(),
                host: host.into(),
                target: None,
                home: None,
                since_ms: 0,
            };
            let status = Status {
                id: "1".into(),
                host: Some(host.into()),
                state: state.into(),
                reason: None,
            };
            revision += 1;
            let value = serde_json::to_vec(&placement).unwrap();
            view.apply(&Kind::Placement.of("g"), Some(&value), revision);
            let value = serde_json::to_vec(&status).unwrap();
            view.apply(
                &Kind::Status.of(&format!("{host}/g")),
                Some(&value),
                revision,
            );
        };
        let start = Instant::now();
        let tried = |hosts: &[&str]| {
            let hosts = hosts.iter().map(ToString::to_string);
            vec![("g".to_string(), hosts.collect::<BTreeSet<_>>())]
        };
        is(&mut view, "a", "failed");
        rescue.note(&view, "g", start);
        assert!(rescue.due(&view, start).is_empty());
        let later = start + PATIENCE;
        assert_eq!(rescue.due(&view, later), tried(&["a"]));
        rescue.tries("g", "b", later);
        is(&mut view, "b", "starting");
        rescue.note(&view, "g", later);
        assert!(rescue.due(&view, later + PATIENCE).is_empty());
        is(&mut view, "b", "failed");
        let later = later + 2 * PATIENCE;
        assert_eq!(rescue.due(&view, later), tried(&["a", "b"]));
        assert_eq!(rescue.due(&view, later + MEMORY), tried(&["b"]));
        is(&mut view, "b", "running");
        rescue.note(&view, "g", later);
        is(&mut view, "b", "failed");
        assert!(rescue.due(&view, later + MEMORY).is_empty());
    }
}
