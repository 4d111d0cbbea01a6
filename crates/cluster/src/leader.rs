//! The leader: of all agents, the one that places guests and moves them. Which one leads is decided by a key of etcd,
//! under a lease of its own; each transaction of a leader compares this key, so that one that no longer leads changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use node::error::{Error, Result};
use scheduler::plugins::{Folder, Plugin};
use scheduler::{Failure, Inventory, Policy, Scheduler};
use tokio::task::{JoinHandle, JoinSet, block_in_place, spawn_blocking};

use crate::etcd::lease::{self, Lease, Renewal};
use crate::etcd::{Outcome, Store, Watch};
use crate::keys::{self, Kind};
use crate::metrics::Metrics;
use crate::model::{LEASE_MIN_S, PluginFault, Status, now_ms};
use crate::planner::{Planner, Schedulers};
use crate::plugins;
use crate::rescue::Rescue;
use crate::transaction::Transaction;
use crate::view::View;

/// The pause between two looks at what is to be done, if nothing changes.
const TICK: Duration = Duration::from_millis(200);
/// How long a guest that no host may run waits, if nothing changes.
const RETRY: Duration = Duration::from_secs(2);
/// How long a guest stays whose move failed.
const MOVE_RETRY: Duration = Duration::from_secs(10);
/// The pause before plugins that are missing are looked for again.
const RELOAD: Duration = Duration::from_secs(10);
/// The pause before a plugin that fails is told of again.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// How long the pause before a candidacy may be: all candidates see at once that there is no leader.
const JITTER_MS: u64 = 200;
/// The pause between two looks of all candidates whether the leader is silent.
const LOOK_MS: u64 = 100;
/// Most stray keys that are removed at once: etcd compares 128 revisions in a transaction.
const STRAYS_MAX: usize = 60;
/// The pause between two renewals of the leader's lease.
const RENEWAL: Duration = Duration::from_millis(250);

/// Takes part in elections and leads, until this future is dropped. It blocks its thread while plugins decide: it is a
/// task of its own.
pub async fn run(store: Store, host: String, metrics: Metrics, told: impl Fn(Option<i64>)) {
    loop {
        told(None);
        metrics.change(|it| it.leads = false);
        match candidacy(&store, &host).await {
            Ok((lease, revision)) => {
                told(Some(lease.id));
                tracing::info!("host {host} leads");
                let leads = Leader::lead(&store, &host, &metrics, lease.clone(), revision);
                if let Err(error) = leads.await {
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

/// Waits until there is no leader, or one that is silent, and becomes it: its lease, and the key's revision. An agent
/// whose host leads already is the next one of a host whose agent was killed: it leads at once.
pub async fn candidacy(store: &Store, host: &str) -> Result<(Lease, i64)> {
    loop {
        let mut view = View::default();
        let revision = store.read(&mut view, keys::LEADER).await?;
        match view.get::<String>(keys::LEADER) {
            None => tokio::time::sleep(Duration::from_millis(fastrand::u64(..JITTER_MS))).await,
            Some(leader) if leader == host => {}
            Some(_) => {
                let mut watch = store.watch(keys::LEADER, revision + 1).await?;
                let hosts = store.count(Kind::Host.folder()).await?;
                tokio::select! {
                    changed = change(&mut watch) => {
                        changed?;
                        continue;
                    }
                    silent = silence(store, hosts) => silent?,
                }
            }
        }
        let lease = Lease::grant(store, LEASE_MIN_S).await?;
        let claim = Transaction::default()
            .as_seen(&view, keys::LEADER.into())
            .puts(keys::LEADER.into(), &host)
            .under(lease.id);
        if let Outcome::Done(revision) = store.commit(&claim).await? {
            return Ok((lease, revision));
        }
        lease.revoke(store).await?;
    }
}

/// Waits until something changes.
async fn change(watch: &mut Watch) -> Result<()> {
    // etcd also tells that it watches, and how far it has come.
    while watch.next().await?.0.is_empty() {}
    Ok(())
}

/// Waits until the leader has not renewed its lease for more than a second. etcd tells what is left of a lease in whole
/// seconds, rounded down, and without a write. All candidates together look some times a second, however many they are.
async fn silence(store: &Store, candidates: u64) -> Result<()> {
    loop {
        let between = 2 * LOOK_MS * candidates.max(1);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..between))).await;
        let Some(lease) = store.lease_of(keys::LEADER).await? else {
            return Ok(());
        };
        let (left, granted) = lease::left(store, lease).await?;
        if left + 2 <= granted {
            return Ok(());
        }
    }
}

/// The schedulers of all groups of hosts, by the policies that the settings name, and the plugins that these name and
/// that are missing: decisions are made without them.
pub fn schedulers(view: &View, plugins: &[Plugin]) -> Result<(Schedulers, BTreeSet<String>)> {
    let settings = view.settings().ok_or_else(no_cluster)?;
    let mut missing = BTreeSet::new();
    let schedulers = groups(view).into_iter().map(|group| {
        let name = settings.policy_of(&group);
        let (policy, lacks) = plugins::named(view, name)?.with_only(plugins);
        missing.extend(lacks);
        let scheduler = Scheduler::new(name, policy, plugins);
        Ok((group, scheduler.map_err(Error::invalid)?))
    });
    let schedulers = schedulers.collect::<Result<_>>()?;
    Ok((schedulers, missing))
}

/// The groups of hosts.
fn groups(view: &View) -> BTreeSet<String> {
    let hosts = view.names(Kind::Host).filter_map(|host| view.host(host));
    let groups = hosts.map(|host| host.group);
    groups.chain([String::new()]).collect()
}

/// Schedulers for a cluster whose policies cannot be followed: lost guests start elsewhere all the same.
fn stopgap(view: &View) -> Result<Schedulers> {
    let schedulers = groups(view).into_iter().map(|group| {
        let scheduler = Scheduler::new("none", Policy::default(), &[]);
        Ok((group, scheduler.map_err(Error::invalid)?))
    });
    schedulers.collect()
}

/// That there is no cluster in this etcd.
pub fn no_cluster() -> Error {
    Error::not_found("there is no cluster in this etcd: `weir cluster init` makes one")
}

/// One that leads.
struct Leader<'a> {
    store: &'a Store,
    host: &'a str,
    metrics: &'a Metrics,
    planner: Planner,
    plugins: Vec<Plugin>,
    /// Files of plugins that are being loaded.
    loading: Option<JoinHandle<Loaded>>,
    /// The folder of plugins, unless it is being loaded.
    folder: Option<Folder>,
    /// When plugins are loaded again, since some are missing.
    reload: Option<Instant>,
    /// Plugins that failed, and when that was told.
    told: BTreeMap<String, Instant>,
    /// The revision of its key.
    revision: i64,
    start: Instant,
    /// Guests that no host may run, and when they are tried again.
    stuck: BTreeMap<String, Instant>,
    /// Guests whose move failed, and until when they stay.
    held: BTreeMap<String, Instant>,
    /// Guests that their host fails to run.
    rescue: Rescue,
    /// Most stray keys that are removed at once.
    strays: usize,
}

/// A folder, its plugins, and what is wrong with others.
type Loaded = (Folder, (Vec<Plugin>, Vec<Failure>));

impl Leader<'_> {
    /// Leads as long as the lease lives.
    async fn lead(
        store: &Store,
        host: &str,
        metrics: &Metrics,
        lease: Lease,
        revision: i64,
    ) -> Result<()> {
        // The lease is renewed also while much is to be placed, or a plugin takes its time.
        let mut renewal = JoinSet::new();
        renewal.spawn(renew_forever(store.clone(), lease));
        let mut view = View::default();
        let seen = store.read(&mut view, "").await?;
        let schedulers = stopgap(&view)?;
        let mut leader = Leader {
            store,
            host,
            metrics,
            planner: Planner::new(view, schedulers),
            plugins: Vec::new(),
            loading: None,
            folder: Some(plugins::folder()),
            reload: None,
            told: BTreeMap::new(),
            revision,
            start: Instant::now(),
            stuck: BTreeMap::new(),
            held: BTreeMap::new(),
            rescue: Rescue::default(),
            strays: STRAYS_MAX,
        };
        let now = Instant::now();
        let view = leader.planner.view();
        let told = view.names(Kind::Status).filter_map(keys::parse_of_host);
        told.for_each(|(_, guest)| leader.rescue.note(view, guest, now));
        let mut watch = store.watch("", seen + 1).await?;
        let work = async {
            leader.follow_policies().await?;
            // New guests wait for the plugins of their policy.
            leader.take_plugins(true).await?;
            loop {
                leader.take_in(&mut watch).await?;
                leader.take_plugins(false).await?;
                leader.step().await?;
                leader.measure();
            }
        };
        tokio::select! {
            ended = work => ended,
            ended = renewal.join_next() => ended.unwrap_or(Ok(Ok(()))).map_err(Error::failed)?,
        }
    }

    /// Follows the policies that the settings name now; if they name plugins, as soon as these are loaded.
    async fn follow_policies(&mut self) -> Result<()> {
        let policies = plugins::policies(self.planner.view());
        if policies.iter().all(|policy| policy.plugins().is_empty()) {
            self.plugins.clear();
            return self.follow().await;
        }
        if let Some(mut folder) = self.folder.take() {
            self.loading = Some(spawn_blocking(move || {
                let loaded = plugins::load(&mut folder);
                (folder, loaded)
            }));
        }
        Ok(())
    }

    /// Takes plugins that were loaded.
    async fn take_plugins(&mut self, wait: bool) -> Result<()> {
        let now = Instant::now();
        if self.reload.is_some_and(|at| at <= now) {
            self.reload = None;
            self.follow_policies().await?;
        }
        let Some(loading) = self.loading.take_if(|it| wait || it.is_finished()) else {
            return Ok(());
        };
        let (folder, (plugins, failures)) = loading.await.map_err(Error::failed)?;
        (self.folder, self.plugins) = (Some(folder), plugins);
        self.tell(failures).await?;
        self.follow().await
    }

    /// Follows the policies with the plugins that there are.
    async fn follow(&mut self) -> Result<()> {
        self.stuck.clear();
        let missing = match schedulers(self.planner.view(), &self.plugins) {
            Ok((schedulers, missing)) => {
                self.planner.follow(schedulers);
                missing
            }
            Err(error) => {
                tracing::warn!("the policy stays as it was: {error}");
                return Ok(());
            }
        };
        self.reload = (!missing.is_empty()).then(|| Instant::now() + RELOAD);
        let missing = missing.into_iter().map(|plugin| Failure {
            plugin,
            why: "is in no file of the folder of plugins that can be loaded".into(),
        });
        self.tell(missing.collect()).await
    }

    /// Tells of plugins that were left out.
    async fn tell(&mut self, failures: Vec<Failure>) -> Result<()> {
        for failure in failures {
            let told = self.told.get(&failure.plugin);
            if told.is_some_and(|at| at.elapsed() < TELL_AGAIN) {
                continue;
            }
            tracing::warn!("{failure}");
            let Failure { plugin, why } = failure;
            let fault = PluginFault {
                host: self.host.into(),
                why,
                at_ms: now_ms(),
            };
            let said = Transaction::default().puts(Kind::Plugin.of(&plugin), &fault);
            self.told.insert(plugin, Instant::now());
            self.commit(said).await?;
        }
        Ok(())
    }

    /// Has the planner decide. Plugins may take their time.
    fn decide<T>(&mut self, decide: impl FnOnce(&mut Planner) -> T) -> T {
        match self.plugins.is_empty() {
            true => decide(&mut self.planner),
            false => block_in_place(|| decide(&mut self.planner)),
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
                if change.key == keys::LEADER {
                    return Err(Error::failed("another host leads"));
                }
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
                if let Some((Kind::Status, name)) = keys::parse(&change.key)
                    && let Some((_, guest)) = keys::parse_of_host(name)
                {
                    let view = self.planner.view();
                    self.rescue.note(view, guest, Instant::now());
                }
                if let Some((Kind::Host, host)) = keys::parse(&change.key) {
                    policy |= !self.planner.has_group_of(host);
                }
            }
            self.planner.seen_to(seen);
            if policy {
                self.follow_policies().await?;
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
        self.clear_strays().await;
        for (name, transaction) in self.planner.reported() {
            // One that changed meanwhile is seen soon.
            if !self.commit(transaction).await? {
                tracing::debug!("guest {name}: it changed meanwhile");
            }
        }
        for (name, transaction) in self.planner.remains() {
            if self.commit(transaction).await? {
                tracing::info!("guest {name}: what its host left is cleared");
            }
        }
        self.place().await?;
        self.rescue().await?;
        self.balance().await?;
        let failures = self.planner.take_failures();
        self.tell(failures).await
    }

    /// Removes some of the keys that hosts wrote of what they have nothing to do with. If any of them changes meanwhile,
    /// fewer are removed next time.
    async fn clear_strays(&mut self) {
        let gone = self.planner.strays(self.strays);
        if gone.writes.is_empty() {
            return;
        }
        let keys: Vec<_> = gone.writes.iter().map(|(key, _)| key.clone()).collect();
        let (first, more) = (keys[0].clone(), keys.len() - 1);
        match self.commit(gone).await {
            Ok(true) => {
                self.strays = STRAYS_MAX.min(2 * self.strays);
                tracing::info!(
                    "{first} and {more} more keys, which are of nothing there is, are removed"
                );
            }
            Ok(false) => {
                self.strays = (self.strays / 2).max(1);
                self.planner.suspect(keys.into_iter());
            }
            Err(error) => tracing::warn!("{first}, which is of nothing there is, stays: {error}"),
        }
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
            match self.decide(|planner| planner.place(&name, count)) {
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

    /// Has other hosts run guests that their hosts fail to run.
    async fn rescue(&mut self) -> Result<()> {
        let now = Instant::now();
        for (name, tried) in self.rescue.due(self.planner.view(), now) {
            let moved = self.decide(|planner| planner.move_off(&name, &tried));
            let Some((host, transaction)) = moved else {
                continue;
            };
            self.rescue.tries(&name, &host, now);
            if self.commit(transaction).await? {
                tracing::info!("guest {name}, which its host fails to run, moves to host {host}");
                self.metrics.change(|it| it.moves += 1);
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
        let key = Kind::Waiting.of(name);
        if self.planner.view().get::<Status>(&key).as_ref() == Some(&status) {
            return Ok(());
        }
        let said = Transaction::default()
            .as_seen(self.planner.view(), Kind::Guest.of(name))
            .puts(key, &status);
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
        while let Some((name, host, transaction)) = self.decide(Planner::next_move) {
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
async fn renew_forever(store: Store, mut lease: Lease) -> Result<()> {
    loop {
        tokio::time::sleep(RENEWAL).await;
        renew(&store, &mut lease).await?;
    }
}
