//! What is done with many guests of a node at once.

use std::ops::ControlFlow;

use node::client::Client;
use node::error::{Error, Kind, Result};
use node::model::{Action, Guest, GuestAction, Vnic};
use node::paths::Paths;

use super::ledger::Ledger;
use super::{networks, vnics};
use crate::context::Context;
use crate::wireguard::Wireguard;

/// Refuses to leave a cluster while VNICs of the host's own are on links of its networks.
pub fn check_clearable(paths: &Paths, node: &Client) -> Result<()> {
    let networks = Ledger::networks(paths)?;
    if networks.is_empty() {
        return Ok(());
    }
    let (guests, vnics) = (Ledger::guests(paths)?, Ledger::vnics(paths)?);
    let is_clusters = |name: &str| {
        // That of a guest's interface is made and removed with the guest.
        let guest = name.rsplit_once('.').map(|(guest, _)| guest);
        vnics.id(name).is_some() || guest.is_some_and(|guest| guests.id(guest).is_some())
    };
    let all = node.list::<Vnic>()?.into_iter();
    let own = all.filter(|it| networks.id(&it.spec.link).is_some() && !is_clusters(&it.name));
    let own: Vec<_> = own.map(|it| it.name).collect();
    match own.is_empty() {
        true => Ok(()),
        false => Err(Error::new(
            Kind::InUse,
            format_args!(
                "VNICs of this host are on networks of the cluster: delete them first: {}",
                own.join(", ")
            ),
        )),
    }
}

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
    // Also if links stay, because VNICs of the host's own are on them.
    if let Some(host) = Context::find(None, paths)?.host {
        Wireguard::of(paths, &host).close();
    }
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
