//! A guest that goes to another host, by the migration of the nodes.

use std::time::{Duration, Instant};

use node::error::{Error, Kind as ErrorKind, Result};
use node::model::{Guest, GuestState, Migrate};

use super::Agent;
use super::verbs::destroy;
use crate::keys::{self, Kind};
use crate::model::{Order, Role};
use crate::transaction;
use crate::view::View;

/// How long the other host may take to prepare.
const PREPARE: Duration = Duration::from_secs(10);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A guest, and the host that it goes to.
pub struct Journey {
    /// The guest.
    pub name: String,
    /// Tells it from another guest of that name.
    pub id: String,
    /// The host.
    pub to: String,
}

/// Sends a guest to another host, and notes where it is then. Also after this agent was started again meanwhile.
pub async fn send(agent: &Agent, journey: &Journey) -> Result<()> {
    let Journey { name, id, to } = journey;
    let mut view = View::default();
    let key = Kind::Placement.of(name);
    agent.store.read_key(&mut view, &key).await?;
    let Some(placement) = view.placement(name) else {
        return Ok(());
    };
    if placement.id != *id || placement.target.as_ref() != Some(to) {
        return Ok(());
    }
    let moved = match go(agent, journey).await {
        Ok(()) => true,
        // Without the node, nobody knows where the guest is.
        Err(error) if state(agent, name).await.is_err() => return Err(error),
        Err(error) => {
            tracing::warn!("guest {name} stays: {error}");
            false
        }
    };
    let end = transaction::end_move(name, view.revision_of(&key), &placement, moved);
    agent.store.commit(&end).await?;
    if moved {
        tracing::info!("guest {name} moved to host {to}");
    }
    Ok(())
}

/// Notes that a guest, which this host never had, is at the host that it goes to.
pub async fn pass_on(agent: &Agent, name: &str, id: &str) -> Result<()> {
    let mut view = View::default();
    let key = Kind::Placement.of(name);
    agent.store.read_key(&mut view, &key).await?;
    let placement = view.placement(name).filter(|it| it.id == id);
    let Some(placement) = placement.filter(|it| it.host == agent.host.name) else {
        return Ok(());
    };
    let end = transaction::end_move(name, view.revision_of(&key), &placement, true);
    agent.store.commit(&end).await.map(drop)
}

/// Whether this node has the guest, and how it is.
async fn state(agent: &Agent, name: &str) -> Result<Option<GuestState>> {
    let name = name.to_string();
    agent
        .ask(move |node| match node.show::<Guest>(&name) {
            Ok(guest) => Ok(Some(guest.status.state)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
        .await
}

/// Has the guest go on at the other host; when this returns, it is there, or can be made there.
async fn go(agent: &Agent, journey: &Journey) -> Result<()> {
    let Journey { name, id, to } = journey;
    let start = Instant::now();
    let order = keys::order(to, name);
    loop {
        let mut view = View::default();
        agent.store.read_key(&mut view, &order).await?;
        match view.get::<Order>(&order) {
            Some(order) if order.id == *id && order.role == Role::Receive(true) => break,
            _ if start.elapsed() > PREPARE => {
                return Err(Error::refused(format_args!("host {to} does not prepare")));
            }
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    loop {
        match state(agent, name).await? {
            None => return Ok(()),
            // One without state is made there.
            Some(GuestState::Stopped | GuestState::Halted | GuestState::Crashed) => {
                let guests = vec![name.clone()];
                return agent.ask(|node| destroy(node, guests)).await;
            }
            Some(_) => {}
        }
        let Err(error) = migrate(agent, name, to).await else {
            return Ok(());
        };
        match state(agent, name).await? {
            None => return Ok(()),
            // An earlier agent began it.
            Some(_) if error.error.contains("migrates to another node") => {
                tokio::time::sleep(PAUSE * 4).await;
            }
            Some(_) => return Err(error),
        }
    }
}

async fn migrate(agent: &Agent, name: &str, to: &str) -> Result<()> {
    let mut view = View::default();
    let key = Kind::Host.of(to);
    agent.store.read_key(&mut view, &key).await?;
    let address = view.host(to).and_then(|host| host.address);
    let address = address.ok_or_else(|| {
        Error::refused(format_args!(
            "host {to} has no address: `weir cluster join --address` gives it one"
        ))
    })?;
    let (name, migrate) = (
        name.to_string(),
        Migrate {
            to: address,
            links: Default::default(),
        },
    );
    agent
        .ask(move |node| node.migrate(&name, &migrate).map(drop))
        .await
}
