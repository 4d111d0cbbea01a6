//! The configurations that a guest runs, one beside the other.

use std::collections::BTreeMap;

use super::Node;
use crate::error::{Fault, Result};
use crate::model::{Configuration, ConfigurationState, Guest, GuestRecord, MAIN};

impl Node {
    /// A guest's specification.
    pub fn spec_of(&self, name: &str) -> Result<Guest> {
        Ok(self.find_guest(name)?.spec)
    }

    /// A configuration that a guest runs beside its main one.
    pub fn configuration(&self, guest: &str, name: &str) -> Result<Configuration> {
        let mut spec = self.find_guest(guest)?.spec;
        let found = spec.configurations.remove(name);
        Ok(found.ok_or_else(|| Fault::NoConfiguration {
            guest: guest.into(),
            name: name.into(),
        })?)
    }

    /// The state of each configuration of a guest that runs several; none, if it runs one or does not run.
    pub(super) fn configuration_states(
        &self,
        guest: &GuestRecord,
    ) -> BTreeMap<String, ConfigurationState> {
        let Some((halted, failed)) = self.host.configurations(guest.id) else {
            return BTreeMap::new();
        };
        let booted = guest.booted.as_ref().and_then(|it| it.config.as_deref());
        let names: Vec<_> = match booted {
            None => guest.configurations.keys().map(String::as_str).collect(),
            Some(text) => {
                let all = click::configurations::split(text.as_bytes());
                all.installed.iter().map(|(name, _)| *name).collect()
            }
        };
        if names.is_empty() {
            return BTreeMap::new();
        }
        let state = |(bit, name): (usize, &str)| {
            let is = |bits: u64| bits >> bit & 1 != 0;
            let state = match (is(failed), is(halted)) {
                (true, _) => ConfigurationState::Error,
                (false, true) => ConfigurationState::Halted,
                (false, false) => ConfigurationState::Running,
            };
            (name.to_string(), state)
        };
        let all = [MAIN].into_iter().chain(names);
        all.take(64).enumerate().map(state).collect()
    }
}
