//! NSMs and the programs that they serve.

use super::Look;

impl Look<'_> {
    pub(super) fn stacks(&mut self) {
        let wire = self.wire;
        for (name, nsm) in &wire.nsms {
            if let Err(error) = nsm.check() {
                self.error(format!("nsm.{name}"), format!("nsm ‘{name}’: {error}"));
            }
            if let Some(link) = nsm.link.as_ref().filter(|link| !self.is_switch(link)) {
                self.missing("nsm", name, "stub or link", link);
            }
            if nsm.link.is_some() && wire.vnics.contains_key(name) {
                self.error(format!("nsm.{name}"), format!(
                    "nsm ‘{name}’: its VNIC has its name, which is that of vnic ‘{name}’ already: rename one"
                ));
            }
            if let Some(namespace) = &nsm.namespace
                && !wire.namespaces.contains_key(namespace)
            {
                self.missing("nsm", name, "namespace", namespace);
            }
        }
        for (name, application) in &wire.applications {
            let properties = application.properties.check();
            let checked = application.check_run().and(properties.map_err(Into::into));
            if let Err(error) = checked {
                self.error(format!("app.{name}"), format!("app ‘{name}’: {error}"));
            }
            if !wire.nsms.contains_key(&application.nsm) {
                self.missing("app", name, "nsm", &application.nsm);
            }
        }
    }
}
