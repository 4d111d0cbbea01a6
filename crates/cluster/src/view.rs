//! What was seen of a cluster's keys, each at its revision.

use std::collections::BTreeMap;

use scheduler::facts;
use serde::de::DeserializeOwned;

use crate::keys::{self, Kind};
use crate::model::{
    Alive, Checkpoint, GuestRecord, HostRecord, Loads, Member, Placement, Settings, Status,
};

/// Longest value that is taken in of what a host says of one guest, in bytes.
const SAID_MAX: usize = 16 << 10;

/// Keys with the revision of their last change and their value.
#[derive(Clone, Debug, Default)]
pub struct View {
    entries: BTreeMap<String, (i64, Vec<u8>)>,
    /// Keys that were removed, until the watch confirms it.
    removed: BTreeMap<String, i64>,
}

impl View {
    /// Takes a change in; false if the view has this or a later one already. Of what a host may write as often as it
    /// likes, a value that is too long is taken as an empty one.
    pub fn apply(&mut self, key: &str, value: Option<&[u8]>, revision: i64) -> bool {
        if self.revision_of(key) >= revision || self.removed.get(key) >= Some(&revision) {
            return false;
        }
        match value {
            Some(value) => {
                let of_guest = keys::parse_order(key).is_some()
                    || matches!(
                        keys::parse(key),
                        Some((Kind::Status | Kind::Report | Kind::Checkpoint, _))
                    );
                let value = match of_guest && value.len() > SAID_MAX {
                    true => &[],
                    false => value,
                };
                self.removed.remove(key);
                self.entries.insert(key.into(), (revision, value.into()));
            }
            None => {
                self.entries.remove(key);
                self.removed.insert(key.into(), revision);
            }
        }
        true
    }

    /// Forgets removed keys: the watch has come to this revision.
    pub fn seen_to(&mut self, revision: i64) {
        self.removed.retain(|_, removed| *removed > revision);
    }

    /// The revision of a key's last change; 0: it is absent.
    pub fn revision_of(&self, key: &str) -> i64 {
        self.entries.get(key).map_or(0, |(revision, _)| *revision)
    }

    /// A key's value. One that is not as it should be is as good as none.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_slice(&self.entries.get(key)?.1).ok()
    }

    /// The names of a kind.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let folder = kind.folder();
        let from = self.entries.range(folder.to_string()..);
        from.map_while(move |(key, _)| key.strip_prefix(folder))
    }

    /// The keys of a folder.
    pub fn keys<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.entries.range(folder.to_string()..);
        let keys = from.map(|(key, _)| key.as_str());
        keys.take_while(move |key| key.starts_with(folder))
    }

    /// The settings.
    pub fn settings(&self) -> Option<Settings> {
        self.get(keys::SETTINGS)
    }

    /// A host, as commands have it.
    pub fn host(&self, name: &str) -> Option<HostRecord> {
        self.get(&Kind::Host.of(name))
    }

    /// A host's sign of life.
    pub fn alive(&self, name: &str) -> Option<Alive> {
        self.get(&Kind::Alive.of(name))
    }

    /// What a host says of itself.
    pub fn facts(&self, name: &str) -> Option<facts::Host> {
        self.get(&Kind::Facts.of(name))
    }

    /// Processor time that is used on a host.
    pub fn loads(&self, name: &str) -> Loads {
        self.get(&Kind::Loads.of(name)).unwrap_or_default()
    }

    /// A guest.
    pub fn guest(&self, name: &str) -> Option<GuestRecord> {
        self.get(&Kind::Guest.of(name))
    }

    /// Where a guest runs.
    pub fn placement(&self, name: &str) -> Option<Placement> {
        self.get(&Kind::Placement.of(name))
    }

    /// How a guest is: as its host says or, if that says nothing, as the leader does.
    pub fn status(&self, name: &str) -> Option<Status> {
        let placement = self.placement(name);
        let key = placement.map(|it| keys::of_host(Kind::Status, &it.host, name));
        let told = key.and_then(|key| self.get(&key));
        told.or_else(|| self.get(&Kind::Waiting.of(name)))
    }

    /// The last checkpoint of this guest, whichever host took it.
    pub fn checkpoint(&self, name: &str, id: &str) -> Option<Checkpoint> {
        let hosts = self.names(Kind::Host);
        let keys = hosts.map(|host| keys::of_host(Kind::Checkpoint, host, name));
        let all = keys.filter_map(|key| {
            let checkpoint = self.get::<Checkpoint>(&key)?;
            (checkpoint.id == id).then_some((self.revision_of(&key), checkpoint))
        });
        all.max_by_key(|(revision, _)| *revision)
            .map(|(_, checkpoint)| checkpoint)
    }

    /// The hosts' parts of a network.
    pub fn members<'a>(&'a self, network: &'a str) -> impl Iterator<Item = (&'a str, Member)> {
        self.names(Kind::Member).filter_map(move |name| {
            let (host, of) = keys::parse_of_host(name)?;
            let member = (of == network).then(|| self.get(&Kind::Member.of(name)))?;
            Some((host, member?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_in_once_and_in_order() {
        let mut view = View::default();
        assert!(view.apply("a", Some(b"1"), 5));
        assert!(!view.apply("a", Some(b"0"), 4));
        assert!(!view.apply("a", Some(b"1"), 5));
        assert!(view.apply("a", None, 7));
        // A change from before the removal comes late.
        assert!(!view.apply("a", Some(b"2"), 6));
        assert_eq!(view.revision_of("a"), 0);
        assert!(view.apply("a", Some(b"3"), 8));
        assert_eq!(view.get::<u32>("a"), Some(3));
        let (said, long) = (
            keys::of_host(Kind::Status, "x", "g"),
            vec![b'1'; SAID_MAX + 1],
        );
        view.apply(&said, Some(&long), 9);
        assert_eq!((view.get::<f64>(&said), view.revision_of(&said)), (None, 9));
        view.apply("hosts/x", Some(b"{}"), 9);
        view.apply("hosts/y", Some(b"{}"), 9);
        assert_eq!(view.names(Kind::Host).collect::<Vec<_>>(), ["x", "y"]);
    }
}
