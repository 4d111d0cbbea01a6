//! Hosts by a text that they have: a label, an image, a feature.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::HostSet;

/// For each text, the hosts that have it.
#[derive(Clone, Debug, Default)]
pub struct Index {
    hosts: HashMap<String, HostSet>,
}

/// No hosts.
static NONE: HostSet = HostSet::NONE;

impl Index {
    /// The hosts that have `text`.
    pub fn get(&self, text: &str) -> &HostSet {
        self.hosts.get(text).unwrap_or(&NONE)
    }

    /// Has a host have `new` instead of `old`.
    pub(super) fn change(&mut self, slot: usize, old: &BTreeSet<String>, new: &BTreeSet<String>) {
        for text in old.difference(new) {
            if let Some(hosts) = self.hosts.get_mut(text) {
                hosts.remove(slot);
                if hosts.is_empty() {
                    self.hosts.remove(text);
                }
            }
        }
        for text in new.difference(old) {
            self.hosts.entry_ref(text).or_default().insert(slot);
        }
    }
}
