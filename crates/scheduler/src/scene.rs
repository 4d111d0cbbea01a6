//! Hosts and guests as a file describes them, to try a policy on without a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::explain::Explanation;
use crate::facts::{Guest, Host};
use crate::inventory::Inventory;
use crate::plugins::Plugin;
use crate::policy::Policy;
use crate::scheduler::Scheduler;
use crate::unit::Occasion;

/// Hosts, guests, and the policy that places them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scene {
    /// The policy: one of `policies`, or one that is built in; default: `none`.
    pub policy: Option<String>,
    /// Policies of its own.
    pub policies: BTreeMap<String, Policy>,
    /// Hosts, by their names.
    pub hosts: BTreeMap<String, Host>,
    /// Guests, by their names.
    pub guests: BTreeMap<String, Guest>,
    /// Guests that run, each with its host. The other guests are to be placed.
    pub running: BTreeMap<String, String>,
}

impl Scene {
    /// The policy, made with plugins.
    pub fn scheduler(&self, plugins: &[Plugin]) -> Result<Scheduler> {
        let name = self.policy.as_deref().unwrap_or("none");
        let own = self.policies.get(name).cloned();
        let policy = own.map_or_else(|| Policy::built_in(name), Ok)?;
        Scheduler::new(name, policy, plugins)
    }

    /// The hosts, with the guests that run.
    pub fn inventory(&self) -> Result<Inventory> {
        let mut inventory = Inventory::default();
        for (name, host) in &self.hosts {
            inventory.set_host(name, host.clone())?;
        }
        for (name, guest) in &self.guests {
            guest.check(name)?;
        }
        for (name, host) in &self.running {
            let guest = self.guests.get(name).ok_or_else(|| Error::Unknown {
                kind: "guest",
                name: name.clone(),
                known: Vec::new(),
            })?;
            let slot = inventory.hosts.slot(host)?;
            inventory.book(name, Arc::new(guest.clone()), slot)?;
        }
        Ok(inventory)
    }

    /// Explains where each guest that does not run is placed, in the order of their names; each is booked before the
    /// next one is placed. One explanation at a time is made: of many hosts, they are long.
    pub fn explain<'a>(
        &'a self,
        scheduler: &'a Scheduler,
    ) -> Result<impl Iterator<Item = Result<Explanation>> + 'a> {
        let mut inventory = self.inventory()?;
        scheduler.watch(&mut inventory);
        let waiting = self
            .guests
            .iter()
            .filter(|(name, _)| !self.running.contains_key(*name));
        Ok(waiting.map(move |(name, guest)| {
            let guest = Arc::new(guest.clone());
            let explained = scheduler.explain(&inventory, name, &guest, Occasion::Start);
            if let Some(host) = &explained.host {
                let slot = inventory.hosts.slot(host)?;
                inventory.book(name, guest, slot)?;
            }
            Ok(explained)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: &str = "
        policy = 'mine'
        policies.mine = { filters = ['memory', 'labels'], weights = { even-memory = 1 } }
        hosts.a = { memory = '1G', labels = ['edge'] }
        hosts.b = { memory = '2G' }
        guests.fw = { memory = '512M' }
        guests.nat = { memory = '700M', labels = ['edge'] }
        guests.router = { memory = '64M' }
        running.fw = 'a'";

    #[test]
    fn a_scene_is_explained_guest_by_guest() {
        let mut scene: Scene = toml::from_str(SCENE).unwrap();
        let scheduler = scene.scheduler(&[]).unwrap();
        let explained = scene.explain(&scheduler).unwrap();
        let explained: Vec<_> = explained.map(Result::unwrap).collect();
        let hosts: Vec<_> = explained
            .iter()
            .map(|it| (it.guest.as_str(), it.host.as_deref()))
            .collect();
        assert_eq!(hosts, [("nat", None), ("router", Some("b"))]);
        let reasons: Vec<_> = explained[0]
            .excluded
            .iter()
            .map(|it| it.reason.as_str())
            .collect();
        assert_eq!(
            reasons,
            [
                "has 512M of memory left of 1G; the guest needs 700M",
                "lacks label edge"
            ]
        );
        scene.running.insert("fw".into(), "c".into());
        assert_eq!(
            scene.inventory().unwrap_err().to_string(),
            "there is no host c"
        );
        scene.running = [("dns".to_string(), "a".to_string())].into();
        assert_eq!(
            scene.inventory().unwrap_err().to_string(),
            "there is no guest dns"
        );
        scene.policy = Some("theirs".into());
        assert!(scene.scheduler(&[]).is_err());
    }
}
