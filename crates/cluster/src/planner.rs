//! What is placed where, as a scheduler sees it: a view of the keys, and the inventory that follows from it. Each group
//! of hosts has an inventory and a scheduler of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scheduler::facts::{self, ENTRIES_MAX, GuestState, HostState, Rate};
use scheduler::{Failure, Inventory, Millis, Occasion, Scheduler};

use crate::keys::{self, Kind};
use crate::model::{GuestRecord, Member, Placement};
use crate::transaction::{self, Seen, Transaction};
use crate::view::View;

/// The schedulers of all groups of hosts. The group without a name is that of hosts that are in no other.
pub type Schedulers = BTreeMap<String, Scheduler>;

/// A group of hosts, and what its scheduler decides on.
struct Pool {
    inventory: Inventory,
    scheduler: Scheduler,
}

/// A view of the keys, and what schedulers decide on.
pub struct Planner {
    view: View,
    pools: BTreeMap<String, Pool>,
    now: Millis,
    /// Guests that are placed on each host, or move there.
    placed: BTreeMap<String, BTreeSet<String>>,
    /// The hosts of each of them.
    hosts: BTreeMap<String, Vec<String>>,
    /// Guests that no host runs.
    waiting: BTreeSet<String>,
    /// Guests whose move failed, until the leader takes note.
    failed: Vec<String>,
    /// Guests that a host has saved for the first time, until the leader takes note.
    saved: BTreeSet<String>,
    /// Keys of hosts that changed, until the leader takes note.
    said: BTreeSet<String>,
    /// Plugins that were left out of decisions, until the leader takes note.
    failures: Vec<Failure>,
}

impl Planner {
    /// Of these keys.
    pub fn new(view: View, schedulers: Schedulers) -> Planner {
        let pools = schedulers.into_iter().map(|(group, scheduler)| {
            let mut inventory = Inventory::default();
            scheduler.watch(&mut inventory);
            let pool = Pool {
                inventory,
                scheduler,
            };
            (group, pool)
        });
        let mut planner = Planner {
            pools: pools.collect(),
            view,
            now: Millis(0),
            placed: BTreeMap::new(),
            hosts: BTreeMap::new(),
            waiting: BTreeSet::new(),
            failed: Vec::new(),
            saved: BTreeSet::new(),
            said: BTreeSet::new(),
            failures: Vec::new(),
        };
        let names = |kind| -> Vec<String> {
            let names = planner.view.names(kind);
            names.map(String::from).collect()
        };
        let (hosts, guests) = (names(Kind::Host), names(Kind::Guest));
        let keys = planner.view.keys("").filter(|key| is_said(key));
        planner.said = keys.map(String::from).collect();
        for host in hosts {
            planner.sync_host(&host);
        }
        for guest in guests {
            planner.sync_guest(&guest);
        }
        planner
    }

    /// The keys.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What the schedulers decide on.
    pub fn inventories(&self) -> impl Iterator<Item = &Inventory> {
        self.pools.values().map(|pool| &pool.inventory)
    }

    /// Follows other policies from now on.
    pub fn follow(&mut self, schedulers: Schedulers) {
        let same = schedulers.keys().eq(self.pools.keys());
        if !same {
            let (view, now) = (std::mem::take(&mut self.view), self.now);
            let failed = std::mem::take(&mut self.failed);
            *self = Planner::new(view, schedulers);
            self.failed = failed;
            self.set_now(now.0);
            return;
        }
        for (pool, scheduler) in self.pools.values_mut().zip(schedulers.into_values()) {
            pool.scheduler = scheduler;
            pool.scheduler.watch(&mut pool.inventory);
        }
    }

    /// Whether there is a scheduler for the group of a host.
    pub fn has_group_of(&self, host: &str) -> bool {
        let record = self.view.host(host);
        record.is_none_or(|record| self.pools.contains_key(&record.group))
    }

    /// Tells the time, from any start, in milliseconds.
    pub fn set_now(&mut self, now: u64) {
        self.now = Millis(now);
        for pool in self.pools.values_mut() {
            pool.inventory.hosts.set_now(self.now);
        }
    }

    /// The group that a host is in, and the host's slot there.
    fn find_host(&self, host: &str) -> Option<(&String, usize)> {
        let mut pools = self.pools.iter();
        pools.find_map(|(group, pool)| Some((group, pool.inventory.hosts.slot(host).ok()?)))
    }

    /// The inventory that a guest is booked in.
    fn booked_in(&mut self, guest: &str) -> Option<&mut Inventory> {
        let pools = self.pools.values_mut();
        let mut inventories = pools.map(|pool| &mut pool.inventory);
        inventories.find(|inventory| inventory.guest(guest).is_some())
    }

    /// Guests that no host runs, in the order of their names.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &String> {
        self.waiting.iter()
    }

    /// Guests that are placed on a host, or move there.
    pub fn placed_on(&self, host: &str) -> Vec<String> {
        let placed = self.placed.get(host);
        placed.map_or_else(Vec::new, |guests| guests.iter().cloned().collect())
    }

    /// Whether a host answers.
    pub fn is_alive(&self, host: &str) -> bool {
        self.find_host(host).is_some_and(|(group, slot)| {
            let hosts = &self.pools[group].inventory.hosts;
            matches!(hosts.state(slot), HostState::Up | HostState::Maintenance)
        })
    }

    /// Takes in a change of a key.
    pub fn apply(&mut self, key: &str, value: Option<&[u8]>, revision: i64) {
        let before = match keys::parse(key) {
            Some((Kind::Placement, name)) => self.view.placement(name),
            _ => None,
        };
        let was_faulty = self.is_faulty(key);
        let is_new = self.view.revision_of(key) == 0;
        if !self.view.apply(key, value, revision) {
            return;
        }
        if value.is_some() && is_said(key) {
            self.said.insert(key.into());
        }
        match keys::parse(key) {
            Some((Kind::Network, _)) => {
                let hosts: Vec<_> = self.view.names(Kind::Host).map(String::from).collect();
                hosts.iter().for_each(|host| self.sync_host(host));
            }
            Some((Kind::Member, name)) if self.is_faulty(key) != was_faulty => {
                if let Some((host, _)) = keys::parse_of_host(name) {
                    self.sync_host(host);
                }
            }
            Some((kind @ (Kind::Host | Kind::Alive | Kind::Facts), name)) => {
                if kind == Kind::Host && value.is_none() {
                    self.said.insert(Kind::Booked.of(name));
                }
                self.sync_host(name);
            }
            Some((Kind::Loads, name)) => self.sync_loads(name),
            Some((Kind::Checkpoint, name)) if is_new => {
                let guest = keys::parse_of_host(name).map(|(_, guest)| guest.into());
                self.saved.extend(guest);
            }
            Some((Kind::Guest | Kind::Placement, name)) => {
                self.sync_guest(name);
                let now = self.view.placement(name);
                let stays = before.zip(now).is_some_and(|(before, now)| {
                    before.target.is_some() && now.target.is_none() && now.host == before.host
                });
                if stays {
                    self.failed.push(name.into());
                }
            }
            _ => {}
        }
    }

    /// Guests whose move failed since the last look.
    pub fn take_failed_moves(&mut self) -> Vec<String> {
        std::mem::take(&mut self.failed)
    }

    /// Plugins that were left out of decisions since the last look.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failures)
    }

    /// Keeps a guest where it is, or no longer.
    pub fn hold(&mut self, name: &str, held: bool) {
        // One that is booked nowhere does not move.
        if let Some(inventory) = self.booked_in(name) {
            let _ = inventory.hold(name, held);
        }
    }

    /// Takes in what a transaction wrote, which was carried out at this revision.
    pub fn wrote(&mut self, transaction: &Transaction, revision: i64) {
        for (key, value) in &transaction.writes {
            self.apply(key, value.as_deref(), revision);
        }
    }

    /// The watch has come to this revision.
    pub fn seen_to(&mut self, revision: i64) {
        self.view.seen_to(revision);
    }

    /// Whether a key says that a host has no link for a network.
    fn is_faulty(&self, key: &str) -> bool {
        let is_member = matches!(keys::parse(key), Some((Kind::Member, _)));
        is_member
            && self
                .view
                .get::<Member>(key)
                .is_some_and(|it| it.fault.is_some())
    }

    /// Adds the networks to a host's links: each host has them all, or says why it has not.
    fn add_networks(&self, host: &str, links: &mut BTreeMap<String, Rate>) {
        for network in self.view.names(Kind::Network) {
            match self.is_faulty(&keys::of_host(Kind::Member, host, network)) {
                true => _ = links.remove(network),
                false if links.len() < ENTRIES_MAX => {
                    links.entry(network.into()).or_default();
                }
                false => {}
            }
        }
    }

    fn sync_host(&mut self, name: &str) {
        let was_alive = self.is_alive(name);
        let (record, facts) = (self.view.host(name), self.view.facts(name));
        // The guests of one that is gone, or went to another group, are booked nowhere then.
        for (group, pool) in &mut self.pools {
            if record.as_ref().is_none_or(|record| record.group != *group) {
                let _ = pool.inventory.remove_host(name);
            }
        }
        if let Some(record) = record {
            let alive = self.view.alive(name).is_some_and(|it| it.id == record.id);
            // It is unknown what one has that has not said so.
            let alive = alive && facts.is_some();
            let mut facts = facts.unwrap_or_default();
            facts.state = match (alive, record.maintenance) {
                (false, _) => HostState::Down,
                (true, true) => HostState::Maintenance,
                (true, false) => HostState::Up,
            };
            facts.labels = record.labels;
            facts.memory = record.memory.unwrap_or(facts.memory);
            facts.max_guests = record.max_guests;
            facts.site = record.site;
            facts.load = self.view.loads(name).host;
            self.add_networks(name, &mut facts.links);
            let pool = self.pools.get_mut(&record.group);
            let set = pool.map_or(Ok(()), |pool| pool.inventory.set_host(name, facts));
            if let Err(error) = set {
                tracing::warn!("{error}");
            }
        }
        if self.is_alive(name) != was_alive {
            for guest in self.placed_on(name) {
                self.sync_guest(&guest);
            }
        }
    }

    fn sync_loads(&mut self, name: &str) {
        self.sync_host(name);
        for (guest, load) in self.view.loads(name).guests {
            // One that has gone meanwhile has no load.
            if let Some(inventory) = self.booked_in(&guest) {
                let _ = inventory.set_load(&guest, load);
            }
        }
    }

    /// What the scheduler knows of a guest on a host.
    fn facts(&self, record: &GuestRecord, host: Option<&str>) -> facts::Guest {
        let mut facts = record.facts();
        if let Some((group, slot)) = host.and_then(|host| self.find_host(host)) {
            let host = self.pools[group].inventory.hosts.facts(slot);
            facts.state = Some(GuestState {
                build: host.build.clone(),
                features: host.features.clone(),
            });
        }
        facts
    }

    fn sync_guest(&mut self, name: &str) {
        let (record, placement) = (self.view.guest(name), self.view.placement(name));
        self.locate(name, placement.as_ref());
        let booking = placement
            .as_ref()
            .filter(|_| record.is_some())
            .and_then(|placement| {
                let target = placement.target.clone();
                let target = target.filter(|target| self.is_alive(target));
                match self.is_alive(&placement.host) {
                    true => Some((placement.host.clone(), target)),
                    false => target.map(|target| (target, None)),
                }
            });
        let is_wanted = record.as_ref().is_some_and(|record| !record.removing);
        match is_wanted && booking.is_none() {
            true => self.waiting.insert(name.into()),
            false => self.waiting.remove(name),
        };
        if let Err(error) = self.book(name, record.as_ref(), booking) {
            tracing::warn!("guest {name}: {error}");
        }
        let home = placement.and_then(|placement| placement.home);
        // One that is booked nowhere has no home.
        if let Some(inventory) = self.booked_in(name) {
            let _ = inventory.set_home(name, home);
        }
    }

    /// Notes on which hosts a guest is.
    fn locate(&mut self, name: &str, placement: Option<&Placement>) {
        for host in self.hosts.remove(name).unwrap_or_default() {
            if let Some(guests) = self.placed.get_mut(&host) {
                guests.remove(name);
            }
        }
        let Some(placement) = placement else {
            return;
        };
        let hosts: Vec<_> = placement.hosts().cloned().collect();
        for host in &hosts {
            let guests = self.placed.entry(host.clone()).or_default();
            guests.insert(name.into());
        }
        self.hosts.insert(name.into(), hosts);
    }

    /// Books a guest where it is: on a host, and on the one that it moves to.
    fn book(
        &mut self,
        name: &str,
        record: Option<&GuestRecord>,
        booking: Option<(String, Option<String>)>,
    ) -> scheduler::Result {
        let booked = self.booked_in(name).and_then(|inventory| {
            let (placed, hosts) = (inventory.guest(name)?, &inventory.hosts);
            let target = placed.target.map(|slot| hosts.name(slot).to_string());
            Some((hosts.name(placed.host).to_string(), target))
        });
        if booked == booking {
            return Ok(());
        }
        let mut facts = None;
        if let (Some(record), Some((host, _))) = (record, &booking) {
            let mut of_host = self.facts(record, Some(host));
            of_host.load = self.view.loads(host).guests.get(name).copied();
            facts = Some(of_host);
        }
        let stays = match (&booked, &booking) {
            (Some((at, to)), Some((host, _))) => at == host || to.as_ref() == Some(host),
            _ => false,
        };
        if let Some(inventory) = self.booked_in(name).filter(|_| !stays) {
            inventory.release(name)?;
        }
        let (Some(facts), Some((host, target))) = (facts, booking) else {
            return Ok(());
        };
        let group = self.find_host(&host).map(|(group, _)| group.clone());
        let pool = group.and_then(|group| self.pools.get_mut(&group));
        let inventory = &mut pool.ok_or_else(|| unknown_host(&host))?.inventory;
        match booked.filter(|_| stays) {
            Some((at, None)) if at == host => {}
            Some((at, Some(_))) if at == host => inventory.cancel_move(name)?,
            Some(_) => inventory.finish_move(name)?,
            None => {
                let slot = inventory.hosts.slot(&host)?;
                inventory.book(name, Arc::new(facts), slot)?;
            }
        }
        if let Some(target) = target {
            let slot = inventory.hosts.slot(&target)?;
            inventory.begin_move(name, slot)?;
        }
        Ok(())
    }

    /// Decides where a guest that waits, as one of so many, runs: the host, and the transaction that books it.
    pub fn place(
        &mut self,
        name: &str,
        waiting: usize,
    ) -> scheduler::Result<Option<(String, Transaction)>> {
        let Some(record) = self.view.guest(name) else {
            return Ok(None);
        };
        let placement = self.view.placement(name);
        let occasion = match placement {
            Some(_) => Occasion::Recover,
            None => Occasion::Start,
        };
        let mut facts = self.facts(&record, None);
        // Its state is there already.
        if record.demand.checkpoint_s.is_some() {
            let checkpoint = self.view.checkpoint(name, &record.id);
            facts.preferred.extend(checkpoint.map(|it| it.keeper));
        }
        let facts = Arc::new(facts);
        let Pool {
            inventory,
            scheduler,
        } = self.pool_of(name, &record)?;
        let skip = scheduler.policy().skip_weights;
        let weigh = skip.weighs(u32::try_from(waiting).unwrap_or(u32::MAX));
        let decision = scheduler.decide(inventory, name, &facts, occasion, weigh)?;
        self.failures.extend(decision.failures);
        let host = decision.placement.host;
        let seen = Seen {
            name,
            record: &record,
            placement: placement.as_ref(),
            facts: &facts,
        };
        let transaction = transaction::place(&self.view, &seen, &host);
        Ok(Some((host, transaction)))
    }

    /// The next guest to move, if one should: its name, the host, and the transaction that begins it.
    pub fn next_move(&mut self) -> Option<(String, String, Transaction)> {
        let mut failures = Vec::new();
        let mut moves = self.pools.values().filter_map(|pool| {
            let (next, failed) = pool.scheduler.next_move(&pool.inventory);
            failures.extend(failed);
            let next = next?;
            let begin = self.begin_move(&next.name, &next.host)?;
            Some((next.name, next.host, begin))
        });
        let next = moves.next();
        self.failures.append(&mut failures);
        next
    }

    /// The group that a guest demands.
    fn pool_of(&self, name: &str, record: &GuestRecord) -> scheduler::Result<&Pool> {
        let group = &record.demand.group;
        self.pools
            .get(group)
            .ok_or_else(|| scheduler::Error::NoHost {
                guest: name.into(),
                why: vec![format!("no host is of group {group}")],
            })
    }

    /// The transaction that begins a guest's move to this host, if the filters let it run there.
    pub fn move_to(&self, name: &str, host: &str) -> scheduler::Result<Option<Transaction>> {
        let (record, placement) = (self.view.guest(name), self.view.placement(name));
        let (Some(record), Some(placement)) = (record, placement) else {
            return Ok(None);
        };
        let pool = self.pool_of(name, &record)?;
        pool.inventory.hosts.slot(host)?;
        let mut facts = self.facts(&record, Some(&placement.host));
        let may = facts.pinned.is_empty() || facts.pinned.contains(host);
        if may {
            facts.pinned = [host.to_string()].into();
        }
        let facts = Arc::new(facts);
        let decided =
            pool.scheduler
                .decide(&pool.inventory, name, &facts, Occasion::Move, false)?;
        // One that is pinned to others goes nowhere by this.
        let right = decided.placement.host == host;
        Ok(self.begin_move(name, host).filter(|_| right))
    }

    /// Another host for a guest that its own fails to run, none of these, and the transaction that has it made there.
    pub fn move_off(
        &mut self,
        name: &str,
        hosts: &BTreeSet<String>,
    ) -> Option<(String, Transaction)> {
        let record = self.view.guest(name)?;
        // It has no state, and may run on any build.
        let mut facts = self.facts(&record, None);
        let pool = self.pool_of(name, &record).ok()?;
        if facts.pinned.is_empty() {
            let all = self.view.names(Kind::Host);
            let of_pool = all.filter(|host| pool.inventory.hosts.slot(host).is_ok());
            facts.pinned = of_pool.map(String::from).collect();
        }
        facts.pinned.retain(|host| !hosts.contains(host));
        if facts.pinned.is_empty() {
            return None;
        }
        let facts = Arc::new(facts);
        let decided = pool
            .scheduler
            .decide(&pool.inventory, name, &facts, Occasion::Move, true);
        let decided = decided.ok()?;
        self.failures.extend(decided.failures);
        let to = decided.placement.host;
        // A policy without the filter of pinned hosts takes any.
        let is_other = !hosts.contains(&to);
        let begin = self.begin_move(name, &to).filter(|_| is_other)?;
        Some((to, begin))
    }

    /// The transaction that begins a guest's move to a host.
    pub fn begin_move(&self, name: &str, host: &str) -> Option<Transaction> {
        let (record, placement) = (self.view.guest(name)?, self.view.placement(name)?);
        if record.removing || placement.target.is_some() {
            return None;
        }
        let facts = self.facts(&record, Some(&placement.host));
        let seen = Seen {
            name,
            record: &record,
            placement: Some(&placement),
            facts: &facts,
        };
        Some(transaction::begin_move(&self.view, &seen, &placement, host))
    }

    /// What follows from the reports of hosts, and checkpoints that newer ones replaced: guests, and the transactions.
    pub fn reported(&mut self) -> Vec<(String, Transaction)> {
        let reports = self.view.names(Kind::Report);
        let reports = reports.filter_map(keys::parse_of_host);
        let said = &mut self.said;
        let ends = reports.filter_map(|(host, name)| {
            let Some(follows) = transaction::follow(&self.view, host, name) else {
                said.insert(keys::of_host(Kind::Report, host, name));
                return None;
            };
            Some((name.to_string(), follows))
        });
        let ends: Vec<_> = ends.collect();
        let saved = std::mem::take(&mut self.saved).into_iter();
        let replaced = saved.filter_map(|name| {
            let keys = transaction::checkpoints(&self.view, &name);
            let newest = keys.max_by_key(|key| self.view.revision_of(key))?;
            let old = transaction::checkpoints(&self.view, &name).filter(|key| *key != newest);
            let gone = old.fold(Transaction::default(), |gone, key| {
                gone.as_seen(&self.view, key.clone()).removes(key)
            });
            (!gone.writes.is_empty()).then_some((name, gone))
        });
        replaced.chain(ends).collect()
    }

    /// The transaction that removes keys that hosts wrote of what they have nothing to do with, at most so many.
    pub fn strays(&mut self, most: usize) -> Transaction {
        let mut all = Transaction::default();
        while all.writes.len() < most
            && let Some(key) = self.said.pop_first()
        {
            if let Some(gone) = transaction::stray(&self.view, &key) {
                all.expected.extend(gone.expected);
                all.writes.extend(gone.writes);
            }
        }
        all
    }

    /// Has these keys be looked at again.
    pub fn suspect(&mut self, keys: impl Iterator<Item = String>) {
        self.said.extend(keys);
    }

    /// What the end of hosts leaves: guests that are to be removed, and moves from or to them.
    pub fn remains(&self) -> Vec<(String, Transaction)> {
        let gone = self.placed.iter().filter(|(_, guests)| !guests.is_empty());
        let gone = gone.filter(|(host, _)| !self.is_alive(host));
        let guests: BTreeSet<_> = gone.flat_map(|(_, guests)| guests).collect();
        let left = guests.into_iter().filter_map(|name| {
            let (record, placement) = (self.view.guest(name)?, self.view.placement(name)?);
            let at_host = self.is_alive(&placement.host);
            let at_target = placement.target.as_deref().map(|it| self.is_alive(it));
            let transaction = match (at_host, at_target) {
                (true, Some(false)) => transaction::end_move(&self.view, name, false)
                    .expects(Kind::Alive.of(placement.target.as_deref()?), 0),
                (false, Some(true)) => transaction::end_move(&self.view, name, true)
                    .expects(Kind::Alive.of(&placement.host), 0),
                (false, _) if record.removing => transaction::remove(&self.view, name)
                    .expects(Kind::Alive.of(&placement.host), 0),
                _ => return None,
            };
            Some((name.clone(), transaction))
        });
        left.collect()
    }
}

/// Whether a key may be a stray one.
fn is_said(key: &str) -> bool {
    keys::parse_order(key).is_some()
        || matches!(
            keys::parse(key),
            Some((
                Kind::Status | Kind::Checkpoint | Kind::Member | Kind::Report | Kind::Booked,
                _
            ))
        )
}

fn unknown_host(host: &str) -> scheduler::Error {
    scheduler::Error::Unknown {
        kind: "host",
        name: host.into(),
        known: Vec::new(),
    }
}
