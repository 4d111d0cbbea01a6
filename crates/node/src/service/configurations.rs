//! Guests changed while they run: their configurations, and others beside them.

use super::Handle;
use crate::error::{Error, Fault, Result};
use crate::model::{Configuration, Event, Guest, Happened, Object, Topic};

/// How often a change begins again because of others' changes of the same guest.
const TRIES: usize = 8;

impl Handle {
    /// Changes a guest's specification by `edit`: now if that is possible, else from its next start on.
    pub(super) async fn edit_guest(
        &self,
        name: String,
        edit: impl Fn(&Guest) -> Result<Guest> + Send + Sync + Clone + 'static,
        event: Event,
    ) -> Result<Object<Guest>> {
        for _ in 0..TRIES {
            let (wanted, edit) = (name.clone(), edit.clone());
            let checked = self.run(move |node| {
                let old = node.spec_of(&wanted)?;
                let new = edit(&old)?;
                new.check_config(&wanted)?;
                let (swaps, odd) = node.check_change(&wanted, &new)?;
                Ok((old, new, swaps, odd))
            });
            let (old, new, swaps, odd) = checked.await?;
            if swaps {
                self.swap_config(&name, &new.text()).await?;
            }
            let was = old.text();
            let (wanted, event) = (name.clone(), event.clone());
            let kept = self.run(move |node| {
                if node.spec_of(&wanted)? != old {
                    return Ok(None);
                }
                let changed = node.change_guest(&wanted, new, swaps, event);
                changed.map(Some)
            });
            match kept.await {
                Ok(Some(mut guest)) => {
                    guest.status.messages = odd;
                    return Ok(guest);
                }
                // Another change came first: this one begins again with what that made.
                Ok(None) => {}
                Err(error) => {
                    if swaps {
                        // The change is not recorded, so it is undone. The former configuration is known to be valid
                        // for the guest.
                        let _ = self.swap_config(&name, &was).await;
                    }
                    return Err(error);
                }
            }
        }
        Err(Fault::Contended { guest: name }.into())
    }

    /// Installs another configuration on a guest, or replaces the one of that name.
    pub async fn install(
        &self,
        guest: String,
        name: String,
        configuration: Configuration,
    ) -> Result<Object<Guest>> {
        let event = Event::of(Topic::Guest, &guest, Happened::Installed).note(quoted(&name));
        let place = format!("configurations.{name}");
        let edit = move |guest: &Guest| {
            let mut guest = guest.clone();
            guest
                .configurations
                .insert(name.clone(), configuration.clone());
            Ok(guest)
        };
        let installed = self.edit_guest(guest, edit, event).await;
        // The guest's other fields are not in the request.
        installed.map_err(|error| match &error.field {
            Some(field) => {
                let inner = field
                    .strip_prefix(&place)
                    .and_then(|it| it.strip_prefix('.'));
                let field = inner.or_else(|| field.starts_with("interfaces").then_some("config"));
                Error {
                    field: field.map(str::to_string),
                    ..error
                }
            }
            None => error,
        })
    }

    /// Uninstalls a configuration of a guest.
    pub async fn uninstall(&self, guest: String, name: String) -> Result<Object<Guest>> {
        let event = Event::of(Topic::Guest, &guest, Happened::Uninstalled).note(quoted(&name));
        let called = guest.clone();
        let edit = move |guest: &Guest| {
            let mut guest = guest.clone();
            match guest.configurations.remove(&name) {
                Some(_) => Ok(guest),
                None => {
                    let (guest, name) = (called.clone(), name.clone());
                    Err(Fault::NoConfiguration { guest, name }.into())
                }
            }
        };
        self.edit_guest(guest, edit, event).await
    }
}

fn quoted(name: &str) -> String {
    format!("‘{name}’")
}
