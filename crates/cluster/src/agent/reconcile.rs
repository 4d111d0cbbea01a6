//! Orders compared with the node: guests that are ordered and lacking are made, guests of the cluster that are not
//! ordered are removed.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use node::error::{Error, Kind as ErrorKind, Result};
use node::model::{Action, Guest, GuestState, GuestStatus, Object};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::checkpoints::{self, Checkpoints};
use super::ledger::Ledger;
use super::networks::Networks;
use super::reports::Ordered;
use super::verbs::{act, clear_host, destroy};
use super::vnics::Vnics;
use super::{Agent, RETRY, migration, session};
use crate::context::{self, Context};
use crate::etcd::{Outcome, Watch};
use crate::keys::{self, Kind};
use crate::model::{End, GuestRecord, Network, Order, Role, Status};
use crate::transaction::Transaction;
use crate::view::View;

/// The pause between two looks at the node, if no order changes.
const LOOK: Duration = Duration::from_millis(500);
/// The least time between two passes.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a guest that could not be made waits.
const WAIT: Duration = Duration::from_secs(2);
/// How often a guest's state is asked for, before the guest starts without.
const TRIES: u32 = 3;

/// Follows the orders of this host. An error: the host was removed.
pub async fn run(agent: Agent) -> Result<()> {
    let mut worker = Worker {
        ledger: Ledger::guests(&agent.paths)?,
        networks: Networks::new(agent.clone())?,
        vnics: Vnics::new(agent.clone())?,
        checkpoints: Checkpoints::new(agent.clone()),
        agent,
        view: View::default(),
        lease: 0,
        said: HashMap::new(),
        failed: HashMap::new(),
        tries: HashMap::new(),
        moves: HashMap::new(),
    };
    loop {
        let followed = match worker.check_left() {
            Ok(()) => worker.follow().await,
            left => left,
        };
        match followed {
            Ok(()) => return Ok(()),
            Err(error) if session::is_removed(&error) => {
                worker.leave().await;
                return Err(error);
            }
            Err(error) => tracing::debug!("orders: {error}"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

struct Worker {
    agent: Agent,
    ledger: Ledger,
    networks: Networks,
    vnics: Vnics,
    checkpoints: Checkpoints,
    /// This host's record and its orders, and all networks.
    view: View,
    /// The lease under which they were read.
    lease: i64,
    /// The status of each guest that was told last, with the revision of its order: a status goes when an order changes.
    said: HashMap<String, (Status, i64)>,
    /// Guests that could not be made, and until when they wait.
    failed: HashMap<String, Instant>,
    /// How often the state of each guest that has not begun yet could not be had.
    tries: HashMap<String, u32>,
    /// Guests that are sent to other hosts.
    moves: HashMap<String, JoinHandle<()>>,
}

/// How a guest begins to run.
enum Beginning {
    /// It runs, with the state of its last checkpoint.
    Restored,
    Afresh,
    /// Its state cannot be had now.
    Later,
}

/// The node's guests, by name.
type There = BTreeMap<String, GuestStatus>;

impl Worker {
    /// Follows the orders until the watch of them breaks.
    async fn follow(&mut self) -> Result<()> {
        let store = self.agent.store.clone();
        let host = self.agent.host.name.clone();
        self.view = View::default();
        self.lease = self.agent.lease();
        let orders = keys::orders(&host);
        let seen = store.read(&mut self.view, &orders).await?;
        let record = Kind::Host.of(&host);
        store.read_key(&mut self.view, &record).await?;
        self.check_host()?;
        let mut orders = store.watch(&orders, seen + 1).await?;
        let mut host = store.watch(&record, seen + 1).await?;
        let (networks, members) = (Kind::Network.folder(), Kind::Member.folder());
        store.read(&mut self.view, networks).await?;
        store.read(&mut self.view, members).await?;
        let mut networks = store.watch(networks, seen + 1).await?;
        let mut members = store.watch(members, seen + 1).await?;
        loop {
            self.check_left()?;
            if self.agent.lease() != self.lease {
                return Err(Error::failed("the host has another lease"));
            }
            let start = Instant::now();
            self.reconcile().await?;
            // However often others write, the node is left in peace meanwhile.
            tokio::time::sleep(PAUSE.saturating_sub(start.elapsed())).await;
            tokio::select! {
                changed = changes_of(&mut networks) => self.apply(changed?),
                changed = changes_of(&mut members) => self.apply(changed?),
                changed = changes_of(&mut orders) => self.apply(changed?),
                changed = changes_of(&mut host) => {
                    self.apply(changed?);
                    self.check_host()?;
                }
                () = tokio::time::sleep(LOOK) => {}
            }
            // All that came meanwhile is one pass.
            for watch in [&mut orders, &mut networks, &mut members] {
                while let Ok(changed) = timeout(Duration::ZERO, changes_of(watch)).await {
                    self.apply(changed?);
                }
            }
        }
    }

    fn apply(&mut self, changes: Vec<crate::etcd::Change>) {
        for change in changes {
            let value = change.value.as_deref();
            self.view.apply(&change.key, value, change.revision);
        }
    }

    /// Refuses to go on, if the host has left by a command that did not reach etcd.
    fn check_left(&self) -> Result<()> {
        let Agent { host, paths, .. } = &self.agent;
        let has_left = match Context::find(None, paths) {
            Ok(now) => now.host.as_ref() != Some(host),
            // One that cannot be read says nothing.
            Err(_) => !context::file(paths).exists(),
        };
        match has_left {
            true => Err(session::removed(&host.name)),
            false => Ok(()),
        }
    }

    /// Refuses to go on, if the host was removed.
    fn check_host(&self) -> Result<()> {
        let host = &self.agent.host;
        match self.view.host(&host.name) {
            Some(record) if record.id == host.id => Ok(()),
            _ => Err(session::removed(&host.name)),
        }
    }

    fn orders(&self) -> BTreeMap<String, Order> {
        let folder = keys::orders(&self.agent.host.name);
        let keys = self.view.keys(&folder);
        let orders = keys.filter_map(|key| {
            let name = key.strip_prefix(&folder)?;
            Some((name.to_string(), self.view.get(key)?))
        });
        orders.collect()
    }

    fn order_key(&self, name: &str) -> String {
        keys::order(&self.agent.host.name, name)
    }

    /// The node's guests.
    async fn there(&self) -> Result<There> {
        let guests = self.agent.ask(|node| node.list::<Guest>()).await?;
        Ok(guests
            .into_iter()
            .map(|guest| (guest.name, guest.status))
            .collect())
    }

    /// Makes the node's guests what the orders say.
    async fn reconcile(&mut self) -> Result<()> {
        let orders = self.orders();
        let is_coming = |guest: &str| {
            let role = orders.get(guest).map(|order| &order.role);
            matches!(role, Some(Role::Receive(_)))
        };
        self.networks.expect_only(is_coming);
        self.networks.reconcile(&self.view).await?;
        let mut there = self.there().await?;
        self.remove_others(&orders, &mut there).await?;
        self.take_on(&orders, &there).await?;
        self.remove_ordered(&orders, &there).await?;
        self.vnics.keep_only_of(&self.ledger).await?;
        self.moves.retain(|_, task| !task.is_finished());
        for (name, order) in &orders {
            if self.ledger.id(name) != Some(&order.id) {
                continue;
            }
            let status = there.get(name);
            match &order.role {
                Role::Run => self.run(name, order, status).await?,
                Role::Receive(true) => {}
                Role::Receive(false) => self.prepare(name, order).await?,
                Role::Send(to) => self.send(name, order, to),
                Role::Remove => {}
            }
        }
        let runs = |name: &str| orders.get(name).is_some_and(|it| it.role == Role::Run);
        self.checkpoints.follow_only(runs);
        self.said.retain(|name, _| orders.contains_key(name));
        self.failed.retain(|name, _| orders.contains_key(name));
        self.tries.retain(|name, _| orders.contains_key(name));
        Ok(())
    }

    /// Removes the cluster's guests that are not ordered, those too in whose place another of their name is.
    async fn remove_others(
        &mut self,
        orders: &BTreeMap<String, Order>,
        there: &mut There,
    ) -> Result<()> {
        let is_other = |(name, id): &(&String, &String)| {
            orders.get(*name).is_none_or(|order| order.id != **id)
        };
        let others = self.ledger.entries().filter(is_other);
        let others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
        let running = others.iter().filter(|name| there.contains_key(*name));
        self.destroy(running.cloned().collect()).await?;
        for name in &others {
            there.remove(name);
        }
        self.ledger.change([], &others)
    }

    async fn destroy(&self, guests: Vec<String>) -> Result<()> {
        if guests.is_empty() {
            return Ok(());
        }
        tracing::info!("guests {} are removed", guests.join(", "));
        self.agent.ask(|node| destroy(node, guests)).await
    }

    /// Notes ordered guests as the cluster's, before anything of them is made. A guest of the host's own stays.
    async fn take_on(&mut self, orders: &BTreeMap<String, Order>, there: &There) -> Result<()> {
        let new = orders
            .iter()
            .filter(|(name, _)| self.ledger.id(name).is_none());
        let (taken, free): (Vec<_>, Vec<_>) = new.partition(|(name, _)| there.contains_key(*name));
        let added = free
            .into_iter()
            .map(|(name, order)| (name.clone(), order.id.clone()));
        self.ledger.change(added.collect::<Vec<_>>(), &[])?;
        for (name, order) in taken {
            match order.role {
                Role::Remove => continue,
                // It was never here.
                Role::Send(_) => {
                    self.report(name, order, End::Moved).await?;
                    continue;
                }
                Role::Run | Role::Receive(_) => {}
            }
            let why = "the host has a guest of this name that is not the cluster's: rename or destroy it there";
            self.say(name, order, "failed", Some(why.into())).await?;
        }
        Ok(())
    }

    /// Tells how a guest is, if that is news.
    async fn say(
        &mut self,
        name: &str,
        order: &Order,
        state: &str,
        reason: Option<String>,
    ) -> Result<()> {
        let host = &self.agent.host.name;
        let status = Status {
            id: order.id.clone(),
            host: Some(host.clone()),
            state: state.into(),
            reason,
        };
        let order = self.order_key(name);
        let now = (status, self.view.revision_of(&order));
        if self.said.get(name) == Some(&now) {
            return Ok(());
        }
        let news = Transaction::default()
            .as_seen(&self.view, order)
            .puts(keys::of_host(Kind::Status, host, name), &now.0);
        // An order that changed is seen soon.
        if self.agent.store.commit(&news).await? != Outcome::Changed {
            self.said.insert(name.into(), now);
        }
        Ok(())
    }

    /// Has the node run a guest.
    async fn run(&mut self, name: &str, order: &Order, status: Option<&GuestStatus>) -> Result<()> {
        let now = Instant::now();
        if self.failed.get(name).is_some_and(|until| *until > now) {
            return Ok(());
        }
        let made = match status {
            None => self.begin(name, order, false).await,
            // The guard stopped it.
            Some(status) if status.state == GuestState::Stopped => {
                self.begin(name, order, true).await
            }
            Some(status) => {
                if status.state == GuestState::Running {
                    self.checkpoints.follow(name, &order.id);
                }
                let state = serde_json::to_value(status.state).map_err(Error::failed)?;
                let state = state.as_str().unwrap_or_default();
                return self.say(name, order, state, status.reason.clone()).await;
            }
        };
        match made {
            Ok(true) => self.say(name, order, "running", None).await,
            Ok(false) => Ok(()),
            Err(error) if error.kind == ErrorKind::Unavailable => Err(error),
            Err(error) => {
                self.failed.insert(name.into(), now + WAIT);
                self.say(name, order, "failed", Some(error.error)).await
            }
        }
    }

    /// An ordered guest, as commands have it.
    async fn record(&self, name: &str, order: &Order) -> Result<GuestRecord> {
        let mut view = View::default();
        let key = Kind::Guest.of(name);
        self.agent.store.read_key(&mut view, &key).await?;
        let record = view.guest(name).filter(|record| record.id == order.id);
        record.ok_or_else(|| Error::failed("its record is gone"))
    }

    /// Takes in the networks of a guest. One that is as new as the guest's order is not in the view, perhaps.
    async fn read_networks(&mut self, record: &GuestRecord) -> Result<()> {
        for link in record.links() {
            let key = Kind::Network.of(link);
            self.agent.store.read_key(&mut self.view, &key).await?;
        }
        Ok(())
    }

    /// Makes sure that the networks of a guest are here.
    async fn bring_networks(&mut self, record: &GuestRecord) -> Result<()> {
        self.read_networks(record).await?;
        let view = &self.view;
        let is_right = |link: &String| self.networks.is_right(view, link);
        if !record.links().all(is_right) {
            self.networks.reconcile(view).await?;
        }
        let fault = record.links().find_map(|link| self.networks.fault(link));
        fault.map_or(Ok(()), |fault| Err(Error::refused(fault)))
    }

    /// Has the node run a guest that is stopped there or not there; false, if it may not run now.
    async fn begin(&mut self, name: &str, order: &Order, is_there: bool) -> Result<bool> {
        if !self.agent.may_start(self.lease) {
            return Ok(false);
        }
        let record = match is_there {
            true => None,
            false => Some(self.ready(name, order).await?),
        };
        match self.go_on(name, order).await {
            Beginning::Restored => return Ok(true),
            Beginning::Later => return Ok(false),
            Beginning::Afresh if !self.agent.may_start(self.lease) => return Ok(false),
            Beginning::Afresh => {}
        }
        match record {
            Some(record) => self.create(name, record).await?,
            None => {
                tracing::info!("guest {name} is started");
                let guests = vec![name.to_string()];
                let started = self.agent.ask(|node| act(node, Action::Start, guests));
                started.await?;
            }
        }
        self.tries.remove(name);
        Ok(true)
    }

    /// Makes what an ordered guest is connected to.
    async fn ready(&mut self, name: &str, order: &Order) -> Result<GuestRecord> {
        let record = self.record(name, order).await?;
        self.bring_networks(&record).await?;
        self.vnics.create(&record).await?;
        Ok(record)
    }

    /// Has a guest go on with the state of its last checkpoint, if it has one that can be had.
    async fn go_on(&mut self, name: &str, order: &Order) -> Beginning {
        let revision = self.view.revision_of(&self.order_key(name));
        let restored = checkpoints::restore(&self.agent, name, (order, revision), self.lease).await;
        let error = match restored {
            Ok(is_restored) => {
                self.tries.remove(name);
                return match is_restored {
                    true => Beginning::Restored,
                    false => Beginning::Afresh,
                };
            }
            Err(error) => error,
        };
        let tries = self.tries.entry(name.into()).or_default();
        *tries += 1;
        if *tries < TRIES {
            tracing::info!("guest {name} waits for its state: {error}");
            return Beginning::Later;
        }
        tracing::warn!("guest {name} starts without its state: {error}");
        Beginning::Afresh
    }

    /// Has the node make a guest.
    async fn create(&mut self, name: &str, record: GuestRecord) -> Result<()> {
        let on_links = record
            .links()
            .any(|link| self.view.get::<Network>(&Kind::Network.of(link)).is_none());
        let guest = Object::new(name, record.guest);
        tracing::info!("guest {name} is created");
        let created = self.agent.ask(move |node| node.create(&guest));
        created.await?;
        // It may have run elsewhere before. Where VNICs of a network are, hosts tell each other.
        if on_links {
            let guests = vec![name.to_string()];
            let announced = self.agent.ask(|node| act(node, Action::Announce, guests));
            if let Err(error) = announced.await {
                tracing::debug!("guest {name} is not announced: {error}");
            }
        }
        Ok(())
    }

    /// Says that the guest may come.
    async fn prepare(&mut self, name: &str, order: &Order) -> Result<()> {
        // One whose record is gone does not come.
        let Ok(record) = self.record(name, order).await else {
            return Ok(());
        };
        // They come with it.
        self.vnics.note(&record)?;
        self.read_networks(&record).await?;
        let links = record.links().cloned().collect();
        self.networks.expect(&self.view, name, links).await?;
        let ready = Order {
            role: Role::Receive(true),
            ..order.clone()
        };
        let key = self.order_key(name);
        let said = Transaction::default()
            .as_seen(&self.view, key.clone())
            .puts(key, &ready);
        self.agent
            .store
            .commit_to(&mut self.view, &said)
            .await
            .map(drop)
    }

    /// Begins to send a guest to another host, if that is not under way.
    fn send(&mut self, name: &str, order: &Order, to: &str) {
        if self.moves.contains_key(name) {
            return;
        }
        let journey = migration::Journey {
            ordered: Ordered::seen(&self.agent, &self.view, name, order),
            to: to.into(),
        };
        let agent = self.agent.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = migration::send(&agent, &journey).await {
                tracing::warn!("guest {} moves later: {error}", journey.ordered.name);
            }
        });
        self.moves.insert(name.into(), task);
    }

    /// Removes guests that are ordered to be removed, and then all keys of them.
    async fn remove_ordered(
        &mut self,
        orders: &BTreeMap<String, Order>,
        there: &There,
    ) -> Result<()> {
        let removed = orders
            .iter()
            .filter(|(_, order)| order.role == Role::Remove);
        let (here, names): (Vec<_>, Vec<_>) = removed
            .map(|(name, order)| {
                let own = self.ledger.id(name) == Some(&order.id);
                (
                    (own && there.contains_key(name)).then(|| name.clone()),
                    name,
                )
            })
            .unzip();
        self.destroy(here.into_iter().flatten().collect()).await?;
        for name in names {
            self.report(name, &orders[name], End::Removed).await?;
        }
        Ok(())
    }

    /// Reports how the order for a guest ended.
    async fn report(&self, name: &str, order: &Order, end: End) -> Result<()> {
        let ordered = Ordered::seen(&self.agent, &self.view, name, order);
        ordered.report(&self.agent, end).await.map(drop)
    }

    /// Removes all guests of the cluster, of which this host is no part any more.
    async fn leave(&mut self) {
        let paths = self.agent.paths.clone();
        let left = async {
            self.agent.ask(move |node| clear_host(&paths, node)).await?;
            let sign = Kind::Alive.of(&self.agent.host.name);
            let gone = Transaction::default().removes(sign);
            self.agent.store.commit(&gone).await
        };
        if let Err(error) = left.await {
            tracing::warn!("guests of the cluster are left: {error}");
        }
    }
}

/// The next changes of a watch.
async fn changes_of(watch: &mut Watch) -> Result<Vec<crate::etcd::Change>> {
    Ok(watch.next().await?.0)
}
