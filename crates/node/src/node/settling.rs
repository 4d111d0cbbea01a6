//! Settled flows: where they are wanted.

use glob::Pattern;
use switch::properties::Settle;

use super::Node;
use crate::error::{Fault, InField, Result};
use crate::model::{Class, LinkRecord, Selection, SettledFlow, Vnic, VnicRecord};

impl Node {
    /// Lets guests settle flows, if a new or changed VNIC wants that.
    pub(super) fn settle_for(&mut self, vnic: &Vnic) -> Result<()> {
        if vnic.properties.settle == Settle::On {
            if vnic.has_interface() || vnic.vhost_user.is_some() {
                return Err(Fault::NoGuestToSettle {}.into());
            }
            self.provide_settling().in_field("properties.settle")?;
        }
        Ok(())
    }

    /// Lets guests settle flows, if any VNIC wants that. Where the kernel cannot, all packets go to the guests.
    pub(super) fn bring_settling(&mut self) {
        let vnics = self.store.all::<VnicRecord>().unwrap_or_default();
        if !vnics.iter().any(|it| it.properties.settle == Settle::On) {
            return;
        }
        if let Err(error) = self.provide_settling() {
            tracing::warn!(%error, "flows are not settled: {error}");
        }
    }

    /// The flows of which guests said that they are settled, of the VNICs that names and patterns select; without any,
    /// of all.
    pub fn settled_flows(&self, names: &Selection) -> Result<Vec<SettledFlow>> {
        let patterns = names.patterns().in_field("name")?;
        let mut flows = self.host.settled_flows()?;
        flows.retain(|flow| {
            let is =
                |pattern: &Pattern| pattern.matches(&flow.vnic) || pattern.matches(&flow.to_vnic);
            patterns.is_empty() || patterns.iter().any(is)
        });
        Ok(flows)
    }

    fn provide_settling(&mut self) -> Result<()> {
        let links = self.store.all::<LinkRecord>()?;
        let links = links.into_iter().filter(|link| link.class == Class::Nic);
        let links: Vec<_> = links.map(|link| link.name).collect();
        self.host.provide_settling(&links)
    }
}
