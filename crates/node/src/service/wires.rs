//! Applying wires: all of one or none of it.

use std::time::Duration;

use super::Handle;
use crate::error::{Error, Result};
use crate::model::WireChange;
use crate::node::Node;
use crate::wire::file::Wire;
use crate::wire::plan::{Part, Step};

/// How often a step back is tried.
const TRIES: u32 = 5;
/// The pause between.
const PAUSE: Duration = Duration::from_millis(100);

impl Handle {
    /// Makes of a wire what `new` says, or leaves it as it was. Once begun it is brought to its
    /// end, whether the caller waits for that or not.
    pub async fn apply_wire(&self, new: Wire) -> Result<WireChange> {
        let handle = self.clone();
        let applied = tokio::spawn(async move { handle.apply(new).await });
        let broken = |error: tokio::task::JoinError| Error::failed(error);
        applied.await.map_err(broken)?
    }

    /// Removes a wire and all that belongs to it.
    pub async fn delete_wire(&self, name: String) -> Result<()> {
        // One that is not there is told so.
        let wanted = name.clone();
        self.run(move |node| node.wire(&wanted)).await?;
        let nothing = Wire {
            wire: name,
            ..Wire::default()
        };
        self.apply_wire(nothing).await.map(drop)
    }

    /// Takes back what a node before did not live to finish, or could not.
    pub(super) async fn finish_wires(&self) -> Result<()> {
        let mut finished = Ok(());
        for (name, steps) in self.run(|node| node.unfinished_wires()).await? {
            for step in steps {
                self.take_back(&name, step).await;
            }
            let ended = self.run(move |node| node.end_wire(&name, false)).await;
            finished = finished.and(ended);
        }
        finished
    }

    async fn apply(&self, new: Wire) -> Result<WireChange> {
        let name = new.wire.clone();
        let wanted = new.clone();
        // One whose end could not be kept, on a full disk, is taken back now.
        self.finish_wires().await?;
        let change = self.run(move |node| node.compare_wire(&wanted)).await?;
        let steps = self.run(move |node| node.begin_wire(new)).await?;
        let mut taken: Vec<Step> = Vec::new();
        let mut failed = None;
        for step in steps {
            match self.step(&name, step.clone()).await {
                Ok(()) => taken.push(step),
                Err(error) => {
                    failed = Some(Error::new(
                        error.kind,
                        format_args!(
                            "wire ‘{name}’, {}: {error}; nothing was changed",
                            step.part()
                        ),
                    ));
                    break;
                }
            }
        }
        if failed.is_some() {
            for step in taken.into_iter().rev() {
                self.take_back(&name, step.back()).await;
            }
        }
        let done = failed.is_none();
        let wanted = name.clone();
        let ended = self.run(move |node| node.end_wire(&wanted, done)).await;
        if done && ended.is_err() {
            // It cannot be kept, so it is not to be; where that cannot be kept either, whoever
            // changes a wire next takes it back.
            let _ = self.finish_wires().await;
        }
        match (failed, ended) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(change),
            (None, Err(error)) => Err(Error::new(
                error.kind,
                format_args!("wire ‘{name}’: {error}; nothing was changed"),
            )),
        }
    }

    /// Takes a step back: what there is already needs none. An interface that was removed a moment
    /// ago may still have its name, so this is tried a few times; what cannot be brought back shows
    /// as missing when the wire is applied again.
    async fn take_back(&self, wire: &str, step: Step) {
        for _ in 0..TRIES {
            let (name, wanted) = (wire.to_string(), step.clone());
            let is_there = self.run(move |node| Ok(node.has_made(&name, &wanted)));
            if is_there.await.unwrap_or(false) {
                return;
            }
            if self.step(wire, step.clone()).await.is_ok() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn step(&self, wire: &str, step: Step) -> Result<()> {
        if let Some(guest) = Node::guest_of_step(&step) {
            return self.create_guest(guest).await.map(drop);
        }
        if let (Some(Part::Guest(_)), Some(Part::Guest(guest))) = (&step.from, &step.to) {
            let (name, config) = (step.name.clone(), guest.config.clone());
            let written = self.ask(move |node| node.ask_write(&name, "hotconfig", &config));
            return written.await.map(drop);
        }
        let wire = wire.to_string();
        self.run(move |node| node.take_step(&wire, &step)).await
    }
}
