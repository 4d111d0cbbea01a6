//! The leader: of all agents, the one that places guests and moves them. Which one leads is decided by a key of etcd,
//! under a lease of its own; each transaction of a leader compares this key, so that one that no longer leads changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use node::error::{Error, Result};
use scheduler::plugins::{Folder, Limits, Plugin};
use scheduler::{Inventory, Policy, Scheduler};

use crate::etcd::lease::{Lease, Renewal};
use crate::etcd::{Outcome, Store, Watch};
use crate::keys::{self, Kind};
use crate::metrics::Metrics;
use crate::model::{LEASE_MIN_S, Status};
use crate::planner::{Planner, Schedulers};
use crate::transaction::Transaction;
use crate::view::View;

/// The folder of plugins.
const PLUGINS: &str = "/etc/weir/plugins";
/// The pause between two looks at what is to be done, if nothing changes.
const TICK: Duration = Duration::from_millis(200);
/// How long a guest that no host may run waits, if nothing changes.
const RETRY: Duration = Duration::from_secs(2);
/// How long a guest stays whose move failed.
const MOVE_RETRY: Duration = Duration::from_secs(10);
/// How long the pause before a candidacy may be: all candidates see at once that there is no leader.
const JITTER_MS: u64 = 200;

/// Takes part in elections and leads, until this future is dropped.
pub async fn run(store: Store, host: String, metrics: &Metrics, told: impl Fn(Option<i64>)) {
    loop {
        told(None);
        metrics.change(|it| it.leads = false);
        match candidacy(&store, &host).await {
            Ok((lease, revision)) => {
                told(Some(lease.id));
                tracing::info!("host {host} leads");
                if let Err(error) = Leader::lead(&store, metrics, lease.clone(), revision).await {
                    tracing::warn!("host {host} no longer leads: {error}");
                }
                // Another need not wait for its end.
                let _ = lease.revoke(&store).await;
            }
            Err(error) => tracing::debug!("no election: {error}"),
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Waits until there is no leader and becomes it: its lease, and the key's revision.
async fn candidacy(store: &Store, host: &str) -> Result<(Lease, i64)> {
    loop {
        let mut view = View::default();
        let revision = store.read(&mut view, keys::LEADER).await?;
        if view.revision_of(keys::LEADER) == 0 {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..JITTER_MS))).await;
            let lease = Lease::grant(store, LEASE_MIN_S).await?;
            let claim = Transaction::default()
                .expects(keys::LEADER.into(), 0)
                .puts(keys::LEADER.into(), &host)
                .under(lease.id);
            if let Outcome::Done(revision) = store.commit(&claim).await? {
                return Ok((lease, revision));
            }
            lease.revoke(store).await?;
            continue;
        }
        let mut watch = store.watch(keys::LEADER, revision + 1).await?;
        while !watch
            .next()
            .await?
            .0
            .iter()
            .any(|change| change.value.is_none())
        {}
    }
}

/// The schedulers of all groups of hosts, by the policies that the settings name.
pub fn schedulers(view: &View, plugins: &[Plugin]) -> Result<Schedulers> {
    let settings = view.settings().ok_or_else(no_cluster)?;
    let hosts = view.names(Kind::Host).filter_map(|host| view.host(host));
    let groups = hosts.map(|host| host.group).chain([String::new()]);
    let groups: BTreeSet<_> = groups.collect();
    let schedulers = groups.into_iter().map(|group| {
        let name = settings.policy_of(&group);
        let scheduler = Scheduler::new(name, policy(view, name)?, plugins);
        Ok((group, scheduler.map_err(Error::invalid)?))
    });
    schedulers.collect()
}

/// A policy by its name: one of the cluster's own, or a built-in one.
pub fn policy(view: &View, name: &str) -> Result<Policy> {
    match view.get(&Kind::Policy.of(name)) {
        Some(policy) => Ok(policy),
        None => Policy::built_in(name).map_err(Error::not_found),
    }
}

/// That there is no cluster in this etcd.
pub fn no_cluster() -> Error {
    Error::not_found("there is no cluster in this etcd: `weir cluster init` makes one")
}

/// The plugins of this host.
pub fn plugins() -> Vec<Plugin> {
    if !Path::new(PLUGINS).is_dir() {
        return Vec::new();
    }
    match Folder::new(PLUGINS.into(), Limits::default()).plugins() {
        Ok((plugins, failures)) => {
            failures
                .iter()
                .for_each(|failure| tracing::warn!("{failure}"));
            plugins
        }
        Err(error) => {
            tracing::warn!("{PLUGINS}: {error}");
            Vec::new()
        }
    }
}

/// One that leads.
struct Leader<'a> {
    store: &'a Store,
    metrics: &'a Metrics,
    planner: Planner,
    plugins: Vec<Plugin>,
    /// The revision of its key.
    revision: i64,
    start: Instant,
    /// Guests that no host may run, and when they are tried again.
    stuck: BTreeMap<String, Instant>,
    /// Guests whose move failed, and until when they stay.
    held: BTreeMap<String, Instant>,
}

impl Leader<'_> {
    /// Leads as long as the lease lives.
    async fn lead(store: &Store, metrics: &Metrics, mut lease: Lease, revision: i64) -> Result<()> {
        let plugins = plugins();
        let mut view = View::default();
        let seen = store.read(&mut view, "").await?;
        let schedulers = schedulers(&view, &plugins)?;
        let mut leader = Leader {
            store,
            metrics,
            planner: Planner::new(view, schedulers),
            plugins,
            revision,
            start: Instant::now(),
            stuck: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        let mut watch = store.watch("", seen + 1).await?;
        loop {
            let work = async {
                leader.take_in(&mut watch).await?;
                leader.step().await
            };
            // The lease is renewed also while much is to be placed.
            tokio::select! {
                done = work => done?,
                renewed = renew_forever(store, &mut lease) => renewed?,
            }
            leader.measure();
            if lease.renewed.elapsed() > lease.life / 4 {
                renew(store, &mut lease).await?;
            }
        }
    }

    /// Takes in what changed, and waits for that for at most a tick.
    async fn take_in(&mut self, watch: &mut Watch) -> Result<()> {
        let mut wait = match self.planner.waiting().len() > self.stuck.len() {
            true => Duration::ZERO,
            false => TICK,
        };
        while let Ok(changes) = tokio::time::timeout(wait, watch.next()).await {
            let (changes, seen) = changes?;
            let mut policy = false;
            for change in changes {
                policy |=
                    change.key == keys::SETTINGS || change.key.starts_with(Kind::Policy.folder());
                // A host that changed may run what none could.
                if matches!(
                    keys::parse(&change.key),
                    Some((
                        Kind::Booked | Kind::Host | Kind::Alive | Kind::Facts | Kind::Network,
                        _
                    ))
                ) {
                    self.stuck.clear();
                }
                let value = change.value.as_deref();
                self.planner.apply(&change.key, value, change.revision);
                if let Some((Kind::Host, host)) = keys::parse(&change.key) {
                    policy |= !self.planner.has_group_of(host);
                }
            }
            self.planner.seen_to(seen);
            if policy {
                self.stuck.clear();
                match schedulers(self.planner.view(), &self.plugins) {
                    Ok(schedulers) => self.planner.follow(schedulers),
                    Err(error) => tracing::warn!("the policy stays as it was: {error}"),
                }
            }
            wait = Duration::ZERO;
        }
        self.planner
            .set_now(self.start.elapsed().as_millis() as u64);
        Ok(())
    }

    /// Carries out a transaction as the leader; whether it was carried out.
    async fn commit(&mut self, transaction: Transaction) -> Result<bool> {
        let transaction = transaction.expects(keys::LEADER.into(), self.revision);
        let outcome = self.store.commit(&transaction).await?;
        if let Outcome::Done(revision) = outcome {
            self.planner.wrote(&transaction, revision);
        }
        Ok(outcome != Outcome::Changed)
    }

    /// Notes how many hosts and guests there are.
    fn measure(&self) {
        let count = |of: fn(&Inventory) -> usize| -> u64 {
            let inventories = self.planner.inventories();
            inventories.map(of).sum::<usize>() as u64
        };
        let (running, up) = (
            count(|it| it.hosts.running.len()),
            count(|it| it.hosts.up.len()),
        );
        let hosts = self.planner.view().names(Kind::Host).count() as u64;
        self.metrics.change(|it| {
            it.leads = true;
            it.up = up;
            it.maintenance = running - up;
            it.down = hosts.saturating_sub(running);
            it.placed = count(Inventory::guest_count);
            it.waiting = self.planner.waiting().len() as u64;
            it.moving = count(|it| it.moving().len());
        });
    }

    /// Does what is to be done now.
    async fn step(&mut self) -> Result<()> {
        for (name, transaction) in self.planner.remains() {
            if self.commit(transaction).await? {
                tracing::info!("guest {name}: what its host left is cleared");
            }
        }
        self.place().await?;
        self.balance().await
    }

    async fn place(&mut self) -> Result<()> {
        let now = Instant::now();
        let waiting: Vec<_> = self.planner.waiting().cloned().collect();
        self.stuck.retain(|_, until| *until > now);
        let count = waiting.len();
        for name in waiting {
            if self.stuck.contains_key(&name) {
                continue;
            }
            let is_lost = self.planner.view().placement(&name).is_some();
            match self.planner.place(&name, count) {
                Ok(Some((host, transaction))) => {
                    match self.commit(transaction).await? {
                        true => {
                            tracing::info!("guest {name} is placed on host {host}");
                            self.metrics.change(|it| match is_lost {
                                true => it.recoveries += 1,
                                false => it.placements += 1,
                            });
                        }
                        // Something changed that the watch tells.
                        false => _ = self.stuck.insert(name, now + TICK),
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    self.stuck.insert(name.clone(), now + RETRY);
                    self.wait(&name, &error).await?;
                }
            }
        }
        Ok(())
    }

    /// Says why a guest waits.
    async fn wait(&mut self, name: &str, error: &scheduler::Error) -> Result<()> {
        let Some(record) = self.planner.view().guest(name) else {
            return Ok(());
        };
        let status = Status {
            id: record.id,
            host: None,
            state: "waiting".into(),
            reason: Some(error.to_string()),
        };
        if self.planner.view().status(name).as_ref() == Some(&status) {
            return Ok(());
        }
        let said = Transaction::default()
            .as_seen(self.planner.view(), Kind::Guest.of(name))
            .puts(Kind::Status.of(name), &status);
        self.commit(said).await?;
        Ok(())
    }

    /// Moves guests as the policy has it.
    async fn balance(&mut self) -> Result<()> {
        let now = Instant::now();
        for name in self.planner.take_failed_moves() {
            self.planner.hold(&name, true);
            self.held.insert(name, now + MOVE_RETRY);
        }
        let planner = &mut self.planner;
        self.held.retain(|name, until| {
            let held = *until > now;
            if !held {
                planner.hold(name, false);
            }
            held
        });
        while let Some((name, host, transaction)) = self.planner.next_move() {
            let view = self.planner.view();
            let from = view.placement(&name).and_then(|it| view.host(&it.host));
            let is_left = from.is_some_and(|host| host.maintenance);
            if !self.commit(transaction).await? {
                break;
            }
            tracing::info!("guest {name} moves to host {host}");
            self.metrics.change(|it| match is_left {
                true => it.evacuations += 1,
                false => it.moves += 1,
            });
        }
        Ok(())
    }
}

/// Renews a lease; an error, if it has ended.
async fn renew(store: &Store, lease: &mut Lease) -> Result<()> {
    let within = lease.life / 2;
    match lease.renew(store, within).await {
        Ok(Renewal::Renewed) => Ok(()),
        Ok(Renewal::Ended) => Err(Error::failed("its lease ended")),
        Err(error) if lease.renewed.elapsed() > lease.life => Err(error),
        Err(_) => Ok(()),
    }
}

/// Renews a lease again and again, until it ends.
async fn renew_forever(store: &Store, lease: &mut Lease) -> Result<()> {
    loop {
        tokio::time::sleep(lease.life / 4).await;
        renew(store, lease).await?;
    }
}
