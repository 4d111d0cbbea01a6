//! Where the members of affinity groups are.

use hashbrown::HashMap;

/// For each group, the hosts of its members, with how many each has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    members: HashMap<String, HashMap<usize, u32>>,
}

impl Groups {
    /// The hosts where a group has members, with how many each has.
    pub fn hosts(&self, group: &str) -> impl Iterator<Item = (usize, u32)> + '_ {
        let hosts = self.members.get(group).into_iter().flatten();
        hosts.map(|(slot, count)| (*slot, *count))
    }

    pub(super) fn add(&mut self, group: &str, slot: usize) {
        *self
            .members
            .entry_ref(group)
            .or_default()
            .entry(slot)
            .or_default() += 1;
    }

    pub(super) fn remove(&mut self, group: &str, slot: usize) {
        let Some(hosts) = self.members.get_mut(group) else {
            return;
        };
        if let Some(count) = hosts.get_mut(&slot) {
            *count -= 1;
            if *count == 0 {
                hosts.remove(&slot);
            }
        }
        if hosts.is_empty() {
            self.members.remove(group);
        }
    }
}
