//! Guests saved, restored, cloned and made templates: each waits until its guest stands still.

use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, Stream, StreamExt};

use super::{ANSWER, Handle, pause};
use crate::error::{Error, Kind, Result};
use crate::model::{Clones, Guest, GuestOutcome, Object, Restore, Save, Saved};
use crate::node::Purpose;
use crate::node::resource::Resource;
use crate::service::verbs::AT_ONCE;

impl Handle {
    /// Saves a guest to a file.
    pub async fn save_guest(&self, name: String, save: Save) -> Result<Saved> {
        let handle = self.clone();
        let work = async move {
            let Save { file, keep } = save;
            let saving = name.clone();
            let work = move |node: &mut crate::node::Node| node.save_guest(&saving, &file, keep);
            handle.suspended(name, work).await
        };
        finish(work).await
    }

    /// Makes a guest a template.
    pub(super) async fn make_template(&self, name: String) -> Result<Object<Guest>> {
        let made = name.clone();
        let work = move |node: &mut crate::node::Node| {
            node.make_template(&made)?;
            Guest::one(node, &made)
        };
        self.suspended(name, work).await
    }

    /// Restores a saved guest: into a stopped guest, or as a new one.
    pub async fn restore_guest(&self, restore: Restore) -> Result<Object<Guest>> {
        let handle = self.clone();
        finish(async move {
            let file = restore.file;
            let read = handle.run(move |node| node.read_saved(&file)).await?;
            let (saved_name, spec, copy) = read;
            let same = restore.name.as_ref().is_none_or(|name| *name == saved_name);
            let name = restore.name.unwrap_or(saved_name);
            let (wanted, its, from) = (name.clone(), spec.clone(), Arc::clone(&copy));
            let restored =
                handle.run(move |node| Ok(same && node.restore_stopped(&wanted, &its, &from)?));
            if restored.await? {
                return handle.has_started(name).await;
            }
            handle.create_guest_from(name, spec, Some(copy)).await
        })
        .await
    }

    /// Makes copies of a guest, which goes on.
    pub async fn clone_guest(
        &self,
        name: String,
        clones: Clones,
    ) -> Result<impl Stream<Item = GuestOutcome> + Send + use<>> {
        let names = clones.names()?;
        let handle = self.clone();
        let copied = name.clone();
        let copy = finish(async move {
            let work = move |node: &mut crate::node::Node| node.copy_guest(&copied);
            handle.suspended(name, work).await
        });
        let (spec, copy) = copy.await?;
        let handle = self.clone();
        let create = move |(name, number): (String, u32)| {
            let (handle, copy) = (handle.clone(), Arc::clone(&copy));
            let spec = spec.numbered(number);
            async move {
                let called = name.clone();
                let created =
                    finish(async move { handle.create_guest_from(name, spec, Some(copy)).await });
                GuestOutcome::of(called, created.await.map(Some))
            }
        };
        let names = self.wanted(names);
        Ok(stream::iter(names).map(create).buffered(AT_ONCE))
    }

    /// Does something with a guest while it stands still. It goes on then, unless that made it something else.
    async fn suspended<R: Send + 'static>(
        &self,
        name: String,
        work: impl FnOnce(&mut crate::node::Node) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        self.suspend(&name, Purpose::Copy).await?;
        let done = self.run(work).await;
        let ended = self.go_on(&name).await;
        let result = done?;
        ended.map(|()| result)
    }

    /// Suspends a guest for `purpose`. If that fails, the guest goes on.
    pub(crate) async fn suspend(&self, name: &str, purpose: Purpose) -> Result<()> {
        let begun = name.to_string();
        let begin = move |node: &mut crate::node::Node| node.begin_suspension(&begun, purpose);
        let asked = self.run(begin).await?;
        let stands = async {
            if let Some(asked) = asked {
                self.answered(asked).await?;
            }
            self.stands_still(name).await
        };
        if let Err(error) = stands.await {
            self.go_on(name).await?;
            return Err(error);
        }
        Ok(())
    }

    /// Resumes a guest that was asked to suspend.
    pub(crate) async fn go_on(&self, name: &str) -> Result<()> {
        let name = name.to_string();
        self.run(move |node| node.end_suspension(&name)).await
    }

    async fn stands_still(&self, name: &str) -> Result<()> {
        let start = Instant::now();
        for look in 0.. {
            let wanted = name.to_string();
            if self.run(move |node| node.is_suspended(&wanted)).await? {
                return Ok(());
            }
            if start.elapsed() > ANSWER {
                break;
            }
            pause(look).await;
        }
        Err(Error::new(
            Kind::Unavailable,
            format_args!(
                "guest ‘{name}’ did not stand still within {} s",
                ANSWER.as_secs()
            ),
        ))
    }
}

/// Runs work to its end, also if the client has disconnected: no guest is left suspended.
pub(crate) async fn finish<R: Send + 'static>(
    work: impl Future<Output = Result<R>> + Send + 'static,
) -> Result<R> {
    tokio::spawn(work).await.map_err(Error::failed)?
}
