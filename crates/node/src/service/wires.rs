//! Applying wires, each as a whole or not at all.

use std::time::Duration;

use super::Handle;
use crate::error::{Error, Kind, Result};
use crate::model::{Guest, Wire, WireChange};
use crate::node::Node;
use crate::node::resource::Resource;
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
        self.run(move |node| Wire::one(node, &wanted)).await?;
        let nothing = Wire {
            wire: name,
            ..Wire::default()
        };
        self.apply_wire(nothing).await.map(drop)
    }

    /// Undoes the unfinished changes of an earlier node.
    pub(crate) async fn finish_wires(&self) -> Result<()> {
        let mut finished = Ok(());
        for (name, steps) in self.run(|node| node.unfinished_wires()).await? {
            let mut unkept = Ok(());
            for step in steps {
                let taken_back = self.take_back(&name, step).await;
                // What cannot be brought back shows as missing. What cannot be kept is tried again.
                unkept = unkept.and(taken_back.or_else(|error| match error.kind {
                    Kind::Failed => Err(error),
                    _ => Ok(()),
                }));
            }
            if unkept.is_err() {
                finished = finished.and(unkept);
                continue;
            }
            let wanted = name.clone();
            let _ = self.run(move |node| node.mend_routes(&wanted)).await;
            let ended = self.run(move |node| node.end_wire(&name, false)).await;
            finished = finished.and(ended);
        }
        finished
    }

    async fn apply(&self, new: Wire) -> Result<WireChange> {
        let name = new.wire.clone();
        // A wire whose end could not be recorded, on a full disk, is rolled back now.
        self.finish_wires().await?;
        let begun = self.run(move |node| node.begin_wire(new)).await;
        let (change, steps) =
            begun.map_err(|error| error.within(|why| format!("{why}; {UNCHANGED}")))?;
        let mut taken: Vec<Step> = Vec::new();
        let mut failed = None;
        for step in steps {
            match self.step(&name, step.clone()).await {
                Ok(()) => taken.push(step),
                Err(error) => {
                    failed = Some((error, step.part()));
                    break;
                }
            }
        }
        let again = started_again(&taken);
        let mut left = Vec::new();
        if failed.is_some() {
            let mut back: Vec<_> = taken.into_iter().rev().map(Step::back).collect();
            // Routes were set behind the VNICs that went, and need those to be there again.
            back.sort_by_key(|step| matches!(step.to, Some(Part::Routes(_))));
            for step in back {
                let part = step.part();
                let taken_back = self.take_back(&name, step).await;
                left.extend(taken_back.err().map(|error| format!("{part} ({error})")));
            }
            let wanted = name.clone();
            let mended = self.run(move |node| node.mend_routes(&wanted)).await;
            left.extend(mended.unwrap_or_else(|error| vec![error.to_string()]));
        }
        let done = failed.is_none();
        let wanted = name.clone();
        let ended = self.run(move |node| node.end_wire(&wanted, done)).await;
        let mut outcome = outcome(&again, &left);
        if done && ended.is_err() && self.finish_wires().await.is_err() {
            // It cannot be kept, so it is not to be, and that cannot be kept either.
            outcome = "what was made is removed by the next change of a wire".into();
        }
        match (failed, ended) {
            (Some((error, part)), _) => {
                Err(error.within(|why| format!("wire ‘{name}’, {part}: {why}; {outcome}")))
            }
            (None, Ok(())) => {
                let steps = change.steps.len();
                let told = self.run(move |node| {
                    node.tell_wire(&name, steps);
                    Ok(())
                });
                told.await?;
                Ok(change)
            }
            (None, Err(error)) => {
                Err(error.within(|why| format!("wire ‘{name}’: {why}; {outcome}")))
            }
        }
    }

    /// Takes a step back: what there is already needs none. An interface that was removed a moment
    /// ago may still have its name, so this is tried a few times; what cannot be brought back shows
    /// as missing when the wire is applied again.
    async fn take_back(&self, wire: &str, step: Step) -> Result<()> {
        let mut tried = Ok(());
        for _ in 0..TRIES {
            let (name, wanted) = (wire.to_string(), step.clone());
            let is_there = self.run(move |node| Ok(node.has_made(&name, &wanted)));
            if is_there.await.unwrap_or(false) {
                return Ok(());
            }
            tried = self.step(wire, step.clone()).await;
            if tried.is_ok() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        tried
    }

    async fn step(&self, wire: &str, step: Step) -> Result<()> {
        if let Some(guest) = Node::guest_of_step(&step) {
            let created = self.create_guest(step.name, guest).await;
            return created.map(drop);
        }
        if let (Some(Part::Guest(old)), Some(Part::Guest(new))) = (&step.from, &step.to) {
            return self.change_guest(&step.name, old, new).await;
        }
        match (&step.from, &step.to) {
            (None, Some(Part::Nsm(nsm))) => {
                let created = self.create_nsm(step.name, nsm.clone()).await;
                return created.map(drop);
            }
            (Some(Part::Application(_)), None) => return self.delete_application(step.name).await,
            _ => {}
        }
        let wire = wire.to_string();
        self.run(move |node| node.take_step(&wire, &step)).await
    }

    /// Swaps another configuration into a running guest; its variables are in front of the text.
    pub(crate) async fn swap_config(&self, name: &str, config: &str) -> Result<()> {
        let (name, config) = (name.to_string(), config.to_string());
        let asked = self.ask(move |node| node.ask_swap(&name, &config));
        asked.await.map(drop)
    }

    /// Changes a guest in use, and keeps that.
    pub(crate) async fn change_guest(&self, name: &str, old: &Guest, new: &Guest) -> Result<()> {
        let (wanted, guest) = (name.to_string(), new.clone());
        let is = self.run(move |node| node.config_of(&wanted)).await?;
        let text = new.text();
        let is_another = [&old.text(), &is] != [&text; 2];
        if is_another {
            self.swap_config(name, &text).await?;
        }
        let wanted = name.to_string();
        let kept = self.run(move |node| node.keep_guest(&wanted, &guest)).await;
        if kept.is_err() && is_another {
            // The change is not recorded, so it is undone. The former configuration is known to be
            // valid for the guest.
            let _ = self.swap_config(name, &is).await;
        }
        kept
    }
}

/// Says that a failed operation left no trace.
const UNCHANGED: &str = "nothing was changed";

/// The guests and programs that steps end, which are restarted if those are taken back.
fn started_again(taken: &[Step]) -> Vec<String> {
    let ends = taken.iter().filter(|step| step.loses_state());
    ends.map(Step::part).collect()
}

/// The outcome of a failed change: the guests and programs that were restarted when steps were undone, and the
/// steps that could not be undone.
fn outcome(again: &[String], left: &[String]) -> String {
    if again.is_empty() && left.is_empty() {
        return UNCHANGED.into();
    }
    let mut outcome = String::from("the changes were undone");
    if !again.is_empty() {
        let lost = match again.len() {
            1 => "was restarted and lost its state",
            _ => "were restarted and lost their state",
        };
        outcome += &format!(", but {} {lost}", again.join(", "));
    }
    if !left.is_empty() {
        outcome += &format!(", except {}: apply the former wire again", left.join(", "));
    }
    outcome
}
