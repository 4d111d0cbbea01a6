//! What commands do with policies.

use node::error::{Error, Kind as ErrorKind, Result};
use node::model::check_name;
use scheduler::{BUILT_IN, Policy, Scheduler};
use serde::Serialize;

use crate::etcd::{Outcome, Store};
use crate::hosts;
use crate::keys::{self, Kind};
use crate::leader;
use crate::planner::Planner;
use crate::plugins;
use crate::transaction::{self, Transaction};
use crate::view::View;

/// Most moves that are shown.
const MOVES_MAX: usize = 1000;

/// Gives a cluster a policy, or replaces it.
pub async fn create(store: &Store, name: &str, policy: &Policy) -> Result<()> {
    check_name("policy", name)?;
    if BUILT_IN.iter().any(|row| row.name == name) {
        return Err(Error::new(
            ErrorKind::Exists,
            format_args!("policy {name} is built in: choose another name"),
        ));
    }
    let plugins = plugins::of([policy].into_iter());
    Scheduler::new(name, policy.clone(), &plugins).map_err(Error::invalid)?;
    let put = Transaction::default().puts(Kind::Policy.of(name), policy);
    store.commit(&put).await.map(drop)
}

/// Has a cluster follow a policy, or a group of its hosts.
pub async fn set(store: &Store, name: &str, group: Option<&str>) -> Result<()> {
    let view = store.view().await?;
    let mut settings = view.settings().ok_or_else(leader::no_cluster)?;
    let policy = plugins::named(&view, name)?;
    let plugins = plugins::of([&policy].into_iter());
    Scheduler::new(name, policy, &plugins).map_err(Error::invalid)?;
    match group {
        None => settings.policy = name.into(),
        Some(group) => {
            hosts::check_group(&view, group)?;
            settings.policies.insert(group.into(), name.into());
        }
    }
    let put = Transaction::default()
        .as_seen(&view, keys::SETTINGS.into())
        .as_seen(&view, Kind::Policy.of(name))
        .puts(keys::SETTINGS.into(), &settings);
    match store.commit(&put).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Changed => Err(Error::new(
            ErrorKind::InUse,
            "the settings changed meanwhile: try again",
        )),
    }
}

/// A guest that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The guest.
    pub guest: String,
    /// The host that it leaves.
    pub from: String,
    /// The host that it goes to.
    pub to: String,
}

/// The moves that the leader would begin one after the other, until nothing moves any more. What lasts shorter than the
/// policy demands counts as if it lasted.
pub fn balance(view: View) -> Result<Vec<Move>> {
    let plugins = plugins::of(plugins::policies(&view).iter());
    let (schedulers, _) = leader::schedulers(&view, &plugins)?;
    let mut planner = Planner::new(view, schedulers);
    planner.set_now(u64::from(u32::MAX));
    let mut moves = Vec::new();
    let mut revision = i64::MAX - 2 * MOVES_MAX as i64 - 2;
    while moves.len() < MOVES_MAX {
        let Some((guest, to, begin)) = planner.next_move() else {
            break;
        };
        revision += 1;
        let from = planner.view().placement(&guest).map(|it| it.host);
        planner.wrote(&begin, revision);
        revision += 1;
        let end = transaction::end_move(planner.view(), &guest, true);
        planner.wrote(&end, revision);
        let from = from.unwrap_or_default();
        moves.push(Move { guest, from, to });
    }
    Ok(moves)
}
