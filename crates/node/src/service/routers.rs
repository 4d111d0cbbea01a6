//! The control store's requests for guests' routers: install and uninstall configurations, read and write handlers.

use std::sync::Arc;

use abi::xenstore::PAYLOAD_MAX;

use super::Handle;
use crate::audit::Audit;
use crate::control_store::message::{Action, Request};
use crate::error::{Fault, Kind, Result};
use crate::model::{Configuration, Event, Guest, Happened, Topic};

/// Most bytes of a sentence that the store is told.
const SENTENCE_MAX: usize = 2048;

impl Handle {
    /// Carries out a request of the store, and answers it.
    pub async fn serve_router(self, request: Request, config: String, audit: Arc<Audit>) {
        let named = {
            let request = request.clone();
            self.run(move |node| node.guest_asked_for(&request)).await
        };
        let done = match &named {
            Ok(guest) => self.on_router(guest, &request, config).await,
            Err(error) => Err(error.clone()),
        };
        if let Some(what) = change(&request, named.as_deref().unwrap_or("?")) {
            audit.note("store", &what, done.as_ref().map(drop));
        }
        // An error of a handler is an entry.
        let is_of_router = matches!(request.action, Action::Start { .. } | Action::Stop);
        if let (Err(error), Ok(guest), true) = (&done, &named, is_of_router) {
            let (router, error) = (request.router, &error.error);
            tracing::warn!(
                guest,
                router,
                "guest ‘{guest}’, router {router} of the control store: {error}"
            );
        }
        let outcome = match done {
            Ok(value) if value.len() > PAYLOAD_MAX => Err(format!(
                "the value has {} bytes, and an entry holds less than {PAYLOAD_MAX}",
                value.len()
            )),
            Ok(value) => Ok(value),
            Err(error) => {
                let length = error.error.floor_char_boundary(SENTENCE_MAX);
                Err(error.error[..length].to_string())
            }
        };
        let answer = self.run(move |node| {
            node.answer_store(&request, outcome);
            Ok(())
        });
        // If the node ends, the store asks the next one.
        let _ = answer.await;
    }

    async fn on_router(&self, guest: &str, request: &Request, config: String) -> Result<String> {
        let (name, router) = (guest.to_string(), request.router);
        match request.action.clone() {
            Action::Start { name: file } if router == 0 => {
                let edit = move |guest: &Guest| {
                    Ok(Guest {
                        config: config.clone(),
                        file: Some(file.clone().into()),
                        ..guest.clone()
                    })
                };
                let event = Event::of(Topic::Guest, guest, Happened::Changed);
                self.edit_guest(name, edit, event).await.map(none)
            }
            Action::Start { name: file } => {
                let configuration = Configuration {
                    file: Some(file.into()),
                    config,
                    ..Configuration::default()
                };
                let installed = self.install(name, router.to_string(), configuration);
                installed.await.map(none)
            }
            Action::Stop if router == 0 => Err(Fault::OwnRouter { guest: name }.into()),
            Action::Stop => match self.uninstall(name, router.to_string()).await {
                // It is as it should be.
                Err(error) if error.kind == Kind::NotFound => Ok(String::new()),
                done => done.map(none),
            },
            Action::Read { handler } => self.ask(move |node| node.ask_read(&name, &handler)).await,
            Action::Write { handler, value } => {
                let ask = self.ask(move |node| node.ask_write(&name, &handler, &value));
                ask.await.map(none)
            }
            Action::Describe => {
                let told = self.run(move |node| node.describe_routers(&name));
                told.await.map(none)
            }
        }
    }
}

fn none<T>(_: T) -> String {
    String::new()
}

/// A phrase for the change of a request; `None` if it changes nothing.
fn change(request: &Request, guest: &str) -> Option<String> {
    let router = request.router;
    match &request.action {
        Action::Start { .. } => Some(format!("start router {router} of guest ‘{guest}’")),
        Action::Stop => Some(format!("stop router {router} of guest ‘{guest}’")),
        Action::Write { handler, .. } => Some(format!("write {handler} of guest ‘{guest}’")),
        Action::Read { .. } | Action::Describe => None,
    }
}
