//! Settled flows: where they are wanted.

use switch::properties::Settle;

use super::Node;
use crate::error::{InField, Result};
use crate::model::{Class, LinkRecord, Vnic, VnicRecord};

impl Node {
    /// Lets guests settle flows, if a new or changed VNIC wants that.
    pub(super) fn settle_for(&mut self, vnic: &Vnic) -> Result<()> {
        if vnic.properties.settle == Settle::On {
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

    fn provide_settling(&mut self) -> Result<()> {
        let links = self.store.all::<LinkRecord>()?;
        let links = links.into_iter().filter(|link| link.class == Class::Nic);
        let links: Vec<_> = links.map(|link| link.name).collect();
        self.host.provide_settling(&links)
    }
}
