//! What is done with many guests of a node at once.

use std::ops::ControlFlow;

use node::client::Client;
use node::error::{Kind, Result};
use node::model::{Action, Guest, GuestAction};
use node::paths::Paths;

use super::ledger::Ledger;
use super::{networks, vnics};

/// Has a node remove all guests of the cluster, and then its VNICs and links.
pub fn clear_host(paths: &Paths, node: &Client) -> Result<()> {
    let mut ledger = Ledger::guests(paths)?;
    let guests: Vec<_> = ledger.entries().map(|(name, _)| name.clone()).collect();
    if !guests.is_empty() {
        let there = node.list::<Guest>()?.into_iter().map(|guest| guest.name);
        destroy(node, there.filter(|name| guests.contains(name)).collect())?;
        ledger.change([], &guests)?;
    }
    vnics::clear(&mut Ledger::vnics(paths)?, node)?;
    networks::clear(&mut Ledger::networks(paths)?, node)
}

/// Has a node remove guests.
pub fn destroy(node: &Client, guests: Vec<String>) -> Result<()> {
    act(node, Action::Destroy, guests)
}

/// Does something with guests of a node; one that is gone is no error.
pub fn act(node: &Client, action: Action, guests: Vec<String>) -> Result<()> {
    if guests.is_empty() {
        return Ok(());
    }
    let action = GuestAction { action, guests };
    let mut failed = None;
    node.act(&action, |outcome| {
        let error = outcome.error.filter(|error| error.kind != Kind::NotFound);
        failed = failed.take().or(error);
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(()), Err)
}
