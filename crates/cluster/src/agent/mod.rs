//! A host's agent: it has the host's lease, says what the host has, and makes the node run the guests that are placed
//! on the host. It takes part in elections, too.
//!
//! Three tasks share little: [`session`] renews the lease, [`reconcile`] compares orders with the node, and
//! [`leader`](crate::leader) leads, if this agent is elected. The process beside it, the [`guard`], stops the guests
//! when the lease may end.

mod checkpoints;
pub mod facts;
pub mod guard;
pub mod ledger;
mod migration;
mod networks;
mod reconcile;
mod reports;
mod session;
pub mod verbs;
mod vnics;

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use node::client::Client;
use node::error::{Error, Result};
use node::paths::Paths;
use rustix::fs::{FlockOperation, flock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::context::{Context, Identity, folder};
use crate::etcd::Store;
use crate::etcd::lease;
use crate::leader;
use crate::metrics::Metrics;

/// The pause before etcd is tried again.
const RETRY: Duration = Duration::from_millis(300);

/// What the agent's tasks have in common.
#[derive(Clone)]
struct Agent {
    store: Store,
    context: Arc<Context>,
    host: Identity,
    node: Client,
    paths: Paths,
    /// The number of the host's lease; 0: it has none.
    lease: Arc<AtomicI64>,
}

impl Agent {
    fn lease(&self) -> i64 {
        self.lease.load(Ordering::Relaxed)
    }

    /// Whether a guest may be started by orders that were read under this lease. Under a later one, the guest may run
    /// elsewhere; near its end, the guard is about to stop it.
    fn may_start(&self, lease: i64) -> bool {
        lease != 0 && self.lease() == lease && guard::may_run(&self.paths)
    }

    fn set_lease(&self, lease: i64) {
        self.lease.store(lease, Ordering::Relaxed);
    }

    /// Asks the node, which blocks, on a thread of its own.
    async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Client) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let node = self.node.clone();
        let asked = tokio::task::spawn_blocking(move || what(&node)).await;
        asked.map_err(Error::failed)?
    }
}

/// Why an agent ends whose guard was killed: it becomes the guard then.
pub const GUARD_ENDED: &str = "the guard ended";

/// Waits until the process that started this one has ended.
async fn guard_ends() {
    let guard = rustix::process::getppid();
    while rustix::process::getppid() == guard {
        tokio::time::sleep(RETRY / 3).await;
    }
}

/// One agent a host.
pub fn lock(paths: &Paths) -> Result<File> {
    let path = folder(paths).join("agent.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.map_err(|error| Error::failed(format_args!("{}: {error}", path.display())))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::refused("this host's agent runs already: `weir cluster status` shows its state")
    })?;
    Ok(file)
}

/// Runs the agent of a host that joined, until SIGTERM. An error ends it for good. `metrics`: where it tells its own.
pub async fn run(paths: Paths, context: Context, metrics: Option<SocketAddr>) -> Result<()> {
    let host = context.identity()?.clone();
    if let Some(own) = context.own.clone() {
        let started = tokio::task::spawn_blocking(move || own.start()).await;
        started.map_err(Error::failed)??;
    }
    if context.keep {
        guard::tell_keep().map_err(Error::failed)?;
    }
    let agent = Agent {
        store: Store::connect(&context).await?,
        node: Client::new(paths.api()),
        host: host.clone(),
        context: Arc::new(context),
        paths,
        lease: Arc::default(),
    };
    let mut end = signal(SignalKind::terminate()).map_err(Error::failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::failed)?;
    let (leading, led) = watch::channel(None);
    let figures = Metrics::default();
    // A plugin that takes its time holds up nothing else.
    let mut leader = JoinSet::new();
    let candidate = (agent.store.clone(), host.name.clone(), figures.clone());
    let follows = agent.context.follows;
    leader.spawn(async move {
        if follows {
            return std::future::pending().await;
        }
        let (store, host, figures) = candidate;
        let told = move |lease| {
            leading.send_replace(lease);
        };
        leader::run(store, host, figures, told).await;
    });
    let told = async {
        if let Some(at) = metrics
            && let Err(error) = figures.serve(at).await
        {
            tracing::warn!("{error}: the agent goes on without");
        }
        std::future::pending().await
    };
    let ended = tokio::select! {
        () = session::run(agent.clone()) => Ok(()),
        ended = reconcile::run(agent.clone()) => ended,
        () = checkpoints::sweep(&agent) => Ok(()),
        never = told => never,
        _ = leader.join_next() => Err(Error::failed("the task that leads ended")),
        () = guard_ends() => Err(Error::failed(GUARD_ENDED)),
        _ = end.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    // Another leads at once.
    let leading = *led.borrow();
    if let Some(lease) = leading {
        let _ = tokio::time::timeout(RETRY * 3, lease::revoke(&agent.store, lease)).await;
    }
    ended
}
