//! What is placed where, as a scheduler sees it: a view of the keys, and the inventory that follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scheduler::facts::{self, GuestState, HostState};
use scheduler::{Inventory, Millis, Occasion, Scheduler};

use crate::keys::{self, Kind};
use crate::model::{GuestRecord, Placement};
use crate::transaction::{self, Seen, Transaction};
use crate::view::View;

/// A view of the keys, and what a scheduler decides on.
pub struct Planner {
    view: View,
    inventory: Inventory,
    scheduler: Scheduler,
    /// Guests that are placed on each host, or move there.
    placed: BTreeMap<String, BTreeSet<String>>,
    /// The hosts of each of them.
    hosts: BTreeMap<String, Vec<String>>,
    /// Guests that no host runs.
    waiting: BTreeSet<String>,
    /// Guests whose move failed, until the leader takes note.
    failed: Vec<String>,
}

impl Planner {
    /// Of these keys.
    pub fn new(view: View, scheduler: Scheduler) -> Planner {
        let mut planner = Planner {
            view,
            inventory: Inventory::default(),
            scheduler,
            placed: BTreeMap::new(),
            hosts: BTreeMap::new(),
            waiting: BTreeSet::new(),
            failed: Vec::new(),
        };
        planner.scheduler.watch(&mut planner.inventory);
        let names = |kind| -> Vec<String> {
            let names = planner.view.names(kind);
            names.map(String::from).collect()
        };
        let (hosts, guests) = (names(Kind::Host), names(Kind::Guest));
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

    /// What the scheduler decides on.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Follows another policy from now on.
    pub fn follow(&mut self, scheduler: Scheduler) {
        self.scheduler = scheduler;
        self.scheduler.watch(&mut self.inventory);
    }

    /// Tells the time, from any start, in milliseconds.
    pub fn set_now(&mut self, now: u64) {
        self.inventory.hosts.set_now(Millis(now));
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
        self.inventory.hosts.slot(host).is_ok_and(|slot| {
            matches!(
                self.inventory.hosts.state(slot),
                HostState::Up | HostState::Maintenance
            )
        })
    }

    /// Takes in a change of a key.
    pub fn apply(&mut self, key: &str, value: Option<&[u8]>, revision: i64) {
        let before = match keys::parse(key) {
            Some((Kind::Placement, name)) => self.view.placement(name),
            _ => None,
        };
        if !self.view.apply(key, value, revision) {
            return;
        }
        match keys::parse(key) {
            Some((Kind::Host | Kind::Alive | Kind::Facts, name)) => self.sync_host(name),
            Some((Kind::Loads, name)) => self.sync_loads(name),
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

    /// Keeps a guest where it is, or no longer.
    pub fn hold(&mut self, name: &str, held: bool) {
        // One that is booked nowhere does not move.
        let _ = self.inventory.hold(name, held);
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

    fn sync_host(&mut self, name: &str) {
        let was_alive = self.is_alive(name);
        let (record, facts) = (self.view.host(name), self.view.facts(name));
        match record {
            Some(record) => {
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
                if let Err(error) = self.inventory.set_host(name, facts) {
                    tracing::warn!("{error}");
                }
            }
            // Its guests are booked nowhere then.
            None => drop(self.inventory.remove_host(name)),
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
            let _ = self.inventory.set_load(&guest, load);
        }
    }

    /// What the scheduler knows of a guest on a host.
    fn facts(&self, record: &GuestRecord, host: Option<&str>) -> facts::Guest {
        let mut facts = record.facts();
        let slot = host.and_then(|host| self.inventory.hosts.slot(host).ok());
        if let Some(slot) = slot {
            let host = self.inventory.hosts.facts(slot);
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
        let _ = self.inventory.set_home(name, home);
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
        let hosts = [Some(&placement.host), placement.target.as_ref()];
        let hosts: Vec<_> = hosts.into_iter().flatten().cloned().collect();
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
        let hosts = &self.inventory.hosts;
        let booked = self.inventory.guest(name).map(|placed| {
            let target = placed.target.map(|slot| hosts.name(slot).to_string());
            (hosts.name(placed.host).to_string(), target)
        });
        if booked == booking {
            return Ok(());
        }
        let (Some(record), Some((host, target))) = (record, booking) else {
            return match booked {
                Some(_) => self.inventory.release(name).map(drop),
                None => Ok(()),
            };
        };
        match booked {
            Some((at, None)) if at == host => {}
            Some((at, Some(_))) if at == host => self.inventory.cancel_move(name)?,
            Some((_, Some(to))) if to == host => self.inventory.finish_move(name)?,
            before => {
                if before.is_some() {
                    self.inventory.release(name)?;
                }
                let mut facts = self.facts(record, Some(&host));
                facts.load = self.view.loads(&host).guests.get(name).copied();
                let slot = self.inventory.hosts.slot(&host)?;
                self.inventory.book(name, Arc::new(facts), slot)?;
            }
        }
        if let Some(target) = target {
            let slot = self.inventory.hosts.slot(&target)?;
            self.inventory.begin_move(name, slot)?;
        }
        Ok(())
    }

    /// Decides where a guest that waits runs: the host, and the transaction that books it.
    pub fn place(
        &self,
        name: &str,
        weigh: bool,
    ) -> scheduler::Result<Option<(String, Transaction)>> {
        let Some(record) = self.view.guest(name) else {
            return Ok(None);
        };
        let placement = self.view.placement(name);
        let occasion = match placement {
            Some(_) => Occasion::Recover,
            None => Occasion::Start,
        };
        let facts = Arc::new(self.facts(&record, None));
        let decision = self
            .scheduler
            .decide(&self.inventory, name, &facts, occasion, weigh)?;
        for failure in &decision.failures {
            tracing::warn!("{failure}");
        }
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
    pub fn next_move(&self) -> Option<(String, String, Transaction)> {
        let (next, failures) = self.scheduler.next_move(&self.inventory);
        for failure in failures {
            tracing::warn!("{failure}");
        }
        let next = next?;
        self.begin_move(&next.name, &next.host)
            .map(|transaction| (next.name, next.host, transaction))
    }

    /// The transaction that begins a guest's move to this host, if the filters let it run there.
    pub fn move_to(&self, name: &str, host: &str) -> scheduler::Result<Option<Transaction>> {
        let (record, placement) = (self.view.guest(name), self.view.placement(name));
        let (Some(record), Some(placement)) = (record, placement) else {
            return Ok(None);
        };
        self.inventory.hosts.slot(host)?;
        let mut facts = self.facts(&record, Some(&placement.host));
        let may = facts.pinned.is_empty() || facts.pinned.contains(host);
        if may {
            facts.pinned = [host.to_string()].into();
        }
        let facts = Arc::new(facts);
        let decided =
            self.scheduler
                .decide(&self.inventory, name, &facts, Occasion::Move, false)?;
        // One that is pinned to others goes nowhere by this.
        let right = decided.placement.host == host;
        Ok(self.begin_move(name, host).filter(|_| right))
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

    /// What the end of hosts leaves: guests that are to be removed, and moves from or to them.
    pub fn remains(&self) -> Vec<(String, Transaction)> {
        let gone = self.placed.iter().filter(|(_, guests)| !guests.is_empty());
        let gone = gone.filter(|(host, _)| !self.is_alive(host));
        let guests: BTreeSet<_> = gone.flat_map(|(_, guests)| guests).collect();
        let left = guests.into_iter().filter_map(|name| {
            let (record, placement) = (self.view.guest(name)?, self.view.placement(name)?);
            let revision = self.view.revision_of(&Kind::Placement.of(name));
            let at_host = self.is_alive(&placement.host);
            let at_target = placement.target.as_deref().map(|it| self.is_alive(it));
            let transaction = match (at_host, at_target) {
                (true, Some(false)) => transaction::end_move(name, revision, &placement, false)
                    .expects(Kind::Alive.of(placement.target.as_deref()?), 0),
                (false, Some(true)) => transaction::end_move(name, revision, &placement, true)
                    .expects(Kind::Alive.of(&placement.host), 0),
                (false, _) if record.removing => transaction::remove(name, &placement)
                    .expects(Kind::Placement.of(name), revision)
                    .expects(Kind::Alive.of(&placement.host), 0),
                _ => return None,
            };
            Some((name.clone(), transaction))
        });
        left.collect()
    }
}
