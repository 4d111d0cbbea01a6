//! Verbs and creation for one or many guests: a job of the node for each guest, so that other clients' jobs come in
//! between.

use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::oneshot;

use super::{Handle, over};
use crate::error::{Error, Kind, Result};
use crate::model::{Action, Guest, GuestAction, GuestOutcome, GuestSeries, Object, Rename};
use crate::node::resource::Resource;

/// Guests of one request that are under way at a time: two groups ([`super::queue`]).
pub(super) const AT_ONCE: usize = 32;

impl Handle {
    /// Applies a verb to many guests. Each result comes as soon as it is there, in the order of the request. Work that
    /// has begun is finished even if the client is gone; no more is begun then.
    pub async fn act_on_guests(
        &self,
        asked: GuestAction,
    ) -> Result<impl Stream<Item = GuestOutcome> + Send + use<>> {
        let GuestAction { action, guests } = asked;
        let asked: Arc<[String]> = guests.clone().into();
        let selected = self
            .run(move |node| Ok(node.select_guests(&guests)))
            .await?;
        let handle = self.clone();
        let act = move |name: Result<String, (String, Error)>| {
            let (handle, asked) = (handle.clone(), Arc::clone(&asked));
            async move {
                let mut outcome = match name {
                    Ok(name) => handle.finish(name, action).await,
                    Err((pattern, error)) => GuestOutcome::of(pattern, Err(error)),
                };
                // That there is none is wrong with its name in the request.
                if let Some(error) = &mut outcome.error
                    && error.kind == Kind::NotFound
                    && error.field.is_none()
                    && let Some(at) = asked.iter().position(|it| *it == outcome.guest)
                {
                    error.field = Some(format!("guests[{at}]"));
                }
                outcome
            }
        };
        let selected = self.wanted(selected);
        Ok(stream::iter(selected).map(act).buffered(AT_ONCE))
    }

    /// Creates a series of guests, as [`act_on_guests`](Self::act_on_guests) has it.
    pub async fn create_guests(
        &self,
        series: GuestSeries,
    ) -> Result<impl Stream<Item = GuestOutcome> + Send + use<>> {
        let handle = self.clone();
        let create = move |(name, guest): (String, Guest)| {
            let handle = handle.clone();
            async move {
                let called = name.clone();
                let created = tokio::spawn(async move { handle.create_guest(name, guest).await });
                let created = created.await.map_err(Error::failed);
                let created = created.and_then(|created| created.map_err(in_series));
                GuestOutcome::of(called, created.map(Some))
            }
        };
        let guests = self.wanted(series.guests()?);
        Ok(stream::iter(guests).map(create).buffered(AT_ONCE))
    }

    async fn finish(self, name: String, action: Action) -> GuestOutcome {
        let called = name.clone();
        let done = tokio::spawn(async move { self.act(name, action).await });
        let done = done.await.map_err(Error::failed);
        GuestOutcome::of(called, done.and_then(|done| done))
    }

    async fn act(self, name: String, action: Action) -> Result<Option<Object<Guest>>> {
        if action == Action::Destroy {
            self.destroy_guest(name).await?;
            return Ok(None);
        }
        if action == Action::Template {
            return self.make_template(name).await.map(Some);
        }
        if action == Action::Stop {
            return self.stop_guest(name).await.map(Some);
        }
        let acted = self.run(move |node| {
            match action {
                Action::Start => node.start_guest(&name)?,
                Action::Restart => node.restart_guest(&name)?,
                Action::Pause => node.pause_guest(&name)?,
                Action::Resume => node.resume_guest(&name)?,
                Action::Announce => node.announce_guest(&name)?,
                // Done above.
                Action::Template | Action::Stop | Action::Destroy => {}
            }
            Guest::one(node, &name)
        });
        let guest = acted.await?;
        match action {
            Action::Start | Action::Restart => self.has_started(guest.name).await.map(Some),
            _ => Ok(Some(guest)),
        }
    }

    /// Ends a guest, which stays stopped until it is started.
    async fn stop_guest(&self, name: String) -> Result<Object<Guest>> {
        let (tell, told) = oneshot::channel();
        let tell = Box::new(move |gone| drop(tell.send(gone)));
        let stopped = name.clone();
        self.run(move |node| node.stop_and_tell(&stopped, tell))
            .await?;
        told.await.map_err(|_| over())??;
        self.run(move |node| Guest::one(node, &name)).await
    }

    /// Gives a guest another name.
    pub async fn rename_guest(&self, name: String, new: Rename) -> Result<Object<Guest>> {
        let renamed = self.run(move |node| {
            node.rename_guest(&name, &new.name)?;
            Guest::one(node, &new.name)
        });
        renamed.await
    }

    /// Waits until a started guest runs, or has ended normally; an error is the reason of its failure.
    pub(super) async fn has_started(&self, name: String) -> Result<Object<Guest>> {
        let (tell, told) = oneshot::channel();
        let tell = Box::new(move |started| drop(tell.send(started)));
        self.run(move |node| node.await_start(&name, tell)).await?;
        told.await.map_err(|_| over())?
    }
}

/// An error of a guest of a series, whose fields but the name are those of `guest`.
fn in_series(error: Error) -> Error {
    match error.field.clone() {
        Some(field) if field != "name" => error.of_field(&format!("guest.{field}")),
        _ => error,
    }
}
