//! A guest that goes to another host, by the migration of the nodes.

use std::time::{Duration, Instant};

use node::error::{Error, Kind as ErrorKind, Result};
use node::model::{Guest, GuestState, Migrate};

use super::Agent;
use super::reports::Ordered;
use super::verbs::destroy;
use crate::keys::{self, Kind};
use crate::model::{End, Order, Role};
use crate::view::View;

/// How long the other host may take to prepare.
const PREPARE: Duration = Duration::from_secs(10);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A guest, and the host that it goes to.
pub struct Journey {
    /// The order to send it.
    pub ordered: Ordered,
    /// The host.
    pub to: String,
}

/// Sends a guest to another host, and reports where it is then. Also after this agent was started again meanwhile.
pub async fn send(agent: &Agent, journey: &Journey) -> Result<()> {
    let Journey { ordered, to } = journey;
    let name = &ordered.name;
    if !ordered.is_open(agent).await? {
        return Ok(());
    }
    let end = match go(agent, journey).await {
        Ok(()) => End::Moved,
        // Without the node, nobody knows where the guest is.
        Err(error) if state(agent, name).await.is_err() => return Err(error),
        Err(error) => {
            tracing::warn!("guest {name} stays: {error}");
            End::Stayed
        }
    };
    if ordered.report(agent, end).await? && end == End::Moved {
        tracing::info!("guest {name} moved to host {to}");
    }
    Ok(())
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
    let Journey { ordered, to } = journey;
    let Ordered { name, id, .. } = ordered;
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
