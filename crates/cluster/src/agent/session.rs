//! A host's lease, and what it says of itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use node::error::{Error, Kind, Result};
use node::model::Guest;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::facts::{self, Machine};
use super::{Agent, RETRY, guard};
use crate::etcd::lease::{Lease, Renewal};
use crate::etcd::{Outcome, members};
use crate::keys::{self, Kind as Key};
use crate::model::{Alive, LEASE_S, Loads, now_ms};
use crate::transaction::Transaction;
use crate::view::View;

/// The pause between two looks at what the host has. What changed enough is told at once.
const LOOK: Duration = Duration::from_millis(500);

/// Keeps the host in the cluster. One that was removed stays out.
pub async fn run(agent: Agent) {
    let mut said = None;
    let machine = OnceCell::new();
    loop {
        let ended = match register(&agent, &machine).await {
            Ok(lease) => {
                tracing::info!("host {} is in the cluster", agent.host.name);
                said = None;
                agent.set_lease(lease.id);
                let facts = publish(&agent, &machine);
                let ended = tokio::select! {
                    ended = keep(&agent, lease) => ended,
                    never = facts => never,
                };
                agent.set_lease(0);
                ended
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ended
            && said.as_ref() != Some(&error.error)
        {
            tracing::warn!("{error}");
            said = Some(error.error);
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// This machine. It is looked at when that is needed first: it takes seconds if the processor is busy, for which the
/// lease of an agent that was restarted does not wait.
async fn look(machine: &OnceCell<Arc<Machine>>) -> Result<Arc<Machine>> {
    let look = || spawn_blocking(|| Arc::new(Machine::look()));
    let machine = machine.get_or_try_init(look).await;
    machine.cloned().map_err(Error::failed)
}

/// What is said of a host that was removed.
const REMOVED: &str = "was removed from the cluster";

/// That the host was removed from the cluster.
pub fn removed(host: &str) -> Error {
    Error::not_found(format_args!(
        "host {host} {REMOVED}: `weir cluster leave` and `weir cluster join` add it again"
    ))
}

/// Whether this is that the host was removed.
pub fn is_removed(error: &Error) -> bool {
    error.kind == Kind::NotFound && error.error.contains(REMOVED)
}

/// Gets a lease, and puts the host's sign of life under it.
async fn register(agent: &Agent, machine: &OnceCell<Arc<Machine>>) -> Result<Lease> {
    let Agent { store, host, .. } = agent;
    let mut view = View::default();
    let record = Key::Host.of(&host.name);
    store.read_key(&mut view, &record).await?;
    store.read_key(&mut view, keys::SETTINGS).await?;
    if view.host(&host.name).is_none_or(|it| it.id != host.id) {
        return Err(removed(&host.name));
    }
    // A host is up when it is known what it has.
    let facts = Key::Facts.of(&host.name);
    store.read_key(&mut view, &facts).await?;
    if view.facts(&host.name).is_none() {
        let machine = look(machine).await?;
        let has = agent.ask(move |node| facts::host(&machine, node)).await?;
        store
            .commit(&Transaction::default().puts(facts, &has))
            .await?;
    }
    let seconds = view.settings().map_or(LEASE_S, |it| it.lease_s);
    let lease = Lease::grant(store, seconds).await?;
    let alive = Alive {
        id: host.id.clone(),
        since_ms: now_ms(),
    };
    let sign = Transaction::default()
        .as_seen(&view, record)
        .puts(Key::Alive.of(&host.name), &alive)
        .under(lease.id);
    match store.commit(&sign).await? {
        Outcome::Done(_) => {
            tell(agent, lease.renewed, lease.life)?;
            Ok(lease)
        }
        Outcome::Changed => {
            lease.revoke(store).await?;
            Err(Error::failed("the host's record changed: it is read again"))
        }
    }
}

/// Tells the guard until when guests may run: the lease less a margin, in which they are stopped.
fn tell(agent: &Agent, renewed: Instant, life: Duration) -> Result<()> {
    if agent.context.keep {
        return Ok(());
    }
    let until = guard::at(renewed + life - margin(life));
    guard::tell(until).map_err(|error| Error::failed(format_args!("the guard ended: {error}")))
}

/// How long before the lease's end guests are stopped.
fn margin(life: Duration) -> Duration {
    life * 3 / 10
}

/// Renews the lease until it ends.
async fn keep(agent: &Agent, mut lease: Lease) -> Result<()> {
    let store = &agent.store;
    let (mut is_silent, mut is_led) = (false, true);
    loop {
        // Leases go on as soon as etcd does: it is asked often then.
        tokio::time::sleep(lease.life / if is_silent { 20 } else { 6 }).await;
        match lease.renew(store, lease.life / 4).await {
            Ok(Renewal::Renewed) => {
                if std::mem::take(&mut is_silent) {
                    tracing::info!("etcd answers again");
                }
                tell(agent, lease.renewed, lease.life)?;
            }
            Ok(Renewal::Ended) => {
                return Err(Error::failed("the host's lease ended, and it gets another"));
            }
            Err(error) => {
                if !std::mem::replace(&mut is_silent, true) {
                    tracing::warn!("the lease cannot be renewed: {error}");
                    is_led = true;
                }
                // As long as etcd has no quorum, no lease ends.
                if let Some(since) = members::without_quorum(&agent.context).await {
                    if std::mem::take(&mut is_led) {
                        tracing::warn!("etcd has no quorum: guests go on as they are");
                    }
                    tell(agent, since, lease.life)?;
                }
            }
        }
    }
}

/// Says what the host has, when that changes.
async fn publish(agent: &Agent, machine: &OnceCell<Arc<Machine>>) -> Result<()> {
    let machine = look(machine).await?;
    let mut meter = facts::Meter::default();
    let (mut said, mut loads_said) = (None, Loads::default());
    loop {
        let machine = machine.clone();
        let look = move |node: &node::client::Client| {
            Ok((facts::host(&machine, node)?, node.list::<Guest>()?))
        };
        if let Ok((host, guests)) = agent.ask(look).await {
            let name = &agent.host.name;
            let mut news = Transaction::default();
            let loads = meter.look(guests.iter()).unwrap_or_default();
            let (is_new, differ) = (
                said.as_ref() != Some(&host),
                facts::differ(&loads, &loads_said),
            );
            if is_new {
                news = news.puts(Key::Facts.of(name), &host);
            }
            if differ {
                news = news.puts(Key::Loads.of(name), &loads);
            }
            if (is_new || differ) && agent.store.commit(&news).await.is_ok() {
                said = Some(host);
                loads_said = loads;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
