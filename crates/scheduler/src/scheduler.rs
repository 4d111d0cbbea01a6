//! Decisions: a policy whose units are made, at work on an inventory.

use std::sync::Arc;

use crate::balancers::{BALANCERS, Balancer};
use crate::error::{Error, Failure, Result};
use crate::facts::{Guest, HostState};
use crate::filters::{FILTERS, Filter, MAINTENANCE};
use crate::inventory::{HostSet, Inventory, Placed, Thresholds};
use crate::plugins::{Method, Plugin, PluginUnit};
use crate::policy::Policy;
use crate::properties::{self as p, Values};
use crate::unit::{self, Occasion, Request};
use crate::weights::{WEIGHTS, Weight};

/// Guests that are tried in one look for a move.
const TRIES: usize = 64;

/// Where a guest is to run.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Its name.
    pub name: String,
    /// Its facts.
    pub guest: Arc<Guest>,
    /// Why it needs a host.
    pub occasion: Occasion,
    /// The host.
    pub host: String,
    /// The host's revision that this was decided on.
    pub revision: u64,
}

/// A placement, and plugins that were left out of it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The placement.
    pub placement: Placement,
    /// Plugins that failed.
    pub failures: Vec<Failure>,
}

/// Hosts that may sleep, or should wake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Power {
    /// Hosts without guests, beyond those in reserve.
    pub may_sleep: Vec<String>,
    /// Hosts that are asleep, as many as the reserve lacks.
    pub should_wake: Vec<String>,
}

pub(crate) struct NamedFilter {
    pub(crate) name: String,
    pub(crate) filter: Box<dyn Filter>,
}

pub(crate) struct NamedWeight {
    pub(crate) name: String,
    pub(crate) factor: u32,
    pub(crate) weight: Box<dyn Weight>,
}

/// A policy at work.
pub struct Scheduler {
    name: String,
    policy: Policy,
    /// Built-in filters, then plugins.
    pub(crate) filters: Vec<NamedFilter>,
    /// How many of them are built in.
    pub(crate) built_in: usize,
    pub(crate) weights: Vec<NamedWeight>,
    balancer: Box<dyn Balancer>,
    reserve: Option<usize>,
    at_a_time: usize,
    thresholds: Thresholds,
}

impl Scheduler {
    /// A scheduler that follows `policy`. Names that no built-in unit has are looked for among `plugins`.
    pub fn new(name: &str, policy: Policy, plugins: &[Plugin]) -> Result<Scheduler> {
        policy.check(name)?;
        let values = read_properties(name, &policy, plugins)?;
        let plugin = |class: &str, method| {
            let plugin = plugins.iter().find(|plugin| plugin.offers(class, method))?;
            Some(PluginUnit::new(plugin, policy.properties.clone()))
        };
        let (mut filters, mut external) = (Vec::new(), Vec::new());
        for name in policy.filters.clone() {
            if let Some(row) = unit::find(FILTERS, &name) {
                let filter = (row.make)(&values);
                filters.push(NamedFilter { name, filter });
            } else {
                let filter = plugin(&name, Method::Filter);
                let filter = filter.ok_or_else(|| unit::unknown("filter", &name, FILTERS))?;
                let filter = Box::new(filter);
                external.push(NamedFilter { name, filter });
            }
        }
        let built_in = filters.len();
        filters.append(&mut external);
        let mut weights = Vec::new();
        for (name, factor) in policy.weights.clone() {
            let weight = match unit::find(WEIGHTS, &name) {
                Some(row) => (row.make)(&values),
                None => {
                    let weight = plugin(&name, Method::Score);
                    Box::new(weight.ok_or_else(|| unit::unknown("weight", &name, WEIGHTS))?)
                }
            };
            weights.push(NamedWeight {
                name,
                factor,
                weight,
            });
        }
        let row = unit::find(BALANCERS, &policy.balancer);
        let balancer: Box<dyn Balancer> = match row {
            Some(row) => (row.make)(&values),
            None => {
                let name = &policy.balancer;
                let balancer = plugin(name, Method::Balance);
                Box::new(balancer.ok_or_else(|| unit::unknown("balancer", name, BALANCERS))?)
            }
        };
        let reserves = |property: &&p::Property| property.name == p::HOSTS_IN_RESERVE.name;
        let reserves = row.is_some_and(|row| row.properties.iter().any(reserves));
        Ok(Scheduler {
            name: name.into(),
            filters,
            built_in,
            weights,
            balancer,
            reserve: reserves.then(|| values.get(&p::HOSTS_IN_RESERVE) as usize),
            at_a_time: values.get(&p::MIGRATIONS_AT_A_TIME) as usize,
            thresholds: Thresholds {
                high: values.get(&p::HIGH_UTILIZATION),
                low: values.get(&p::LOW_UTILIZATION),
            },
            policy,
        })
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Has the inventory note from when on hosts are used too much or too little, by this policy.
    pub fn watch(&self, inventory: &mut Inventory) {
        inventory.hosts.watch(self.thresholds);
    }

    /// Decides where a guest is to run. `weigh`: by weights; else any host that the filters leave.
    pub fn decide(
        &self,
        inventory: &Inventory,
        name: &str,
        guest: &Arc<Guest>,
        occasion: Occasion,
        weigh: bool,
    ) -> Result<Decision> {
        let placed = inventory.guest(name);
        if placed.is_some() && occasion != Occasion::Move {
            return Err(Error::Taken(name.into()));
        }
        let request = Request {
            name,
            guest,
            occasion,
            from: placed.map(|placed| placed.host),
        };
        let mut failures = Vec::new();
        let may = self.candidates(inventory, &request);
        match self.choose(inventory, &request, may, weigh, &mut failures) {
            Some(slot) => Ok(Decision {
                placement: self.placement(inventory, name, guest, occasion, slot),
                failures,
            }),
            None => Err(self.refusal(inventory, &request)),
        }
    }

    fn placement(
        &self,
        inventory: &Inventory,
        name: &str,
        guest: &Arc<Guest>,
        occasion: Occasion,
        slot: usize,
    ) -> Placement {
        Placement {
            name: name.into(),
            guest: guest.clone(),
            occasion,
            host: inventory.hosts.name(slot).into(),
            revision: inventory.hosts.revision(slot),
        }
    }

    /// The hosts that filters are asked about.
    pub(crate) fn candidates(&self, inventory: &Inventory, request: &Request<'_>) -> HostSet {
        let mut may = inventory.hosts.running.clone();
        if let Some(slot) = request.from {
            may.remove(slot);
        }
        may
    }

    /// The best host of `may`.
    fn choose(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        mut may: HostSet,
        weigh: bool,
        failures: &mut Vec<Failure>,
    ) -> Option<usize> {
        self.filter(inventory, request, &mut may, failures);
        let start = start(request.name, inventory.hosts.slots());
        if !weigh || may.len() < 2 {
            return may.first_from(start);
        }
        let sums = self.weigh(inventory, request, &may, failures);
        best(&may, &sums, start)
    }

    /// Applies all filters. Plugins are asked about the hosts that the built-in filters leave, all about the same.
    fn filter(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        may: &mut HostSet,
        failures: &mut Vec<Failure>,
    ) {
        let (built_in, plugins) = self.filters.split_at(self.built_in);
        for named in built_in {
            // Built-in filters do not fail.
            failures.extend(named.filter.filter(inventory, request, may).err());
        }
        if plugins.is_empty() || may.is_empty() {
            return;
        }
        let left = may.clone();
        for named in plugins {
            let mut own = left.clone();
            match named.filter.filter(inventory, request, &mut own) {
                Ok(()) => may.intersect(&own),
                Err(failure) => failures.push(failure),
            }
        }
    }

    /// The sum of the weighted scores of each host in `may`, by slot.
    fn weigh(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        may: &HostSet,
        failures: &mut Vec<Failure>,
    ) -> Vec<f64> {
        let slots = inventory.hosts.slots();
        let (mut sums, mut scores) = (vec![0.0; slots], vec![0.0; slots]);
        for named in &self.weights {
            scores.fill(0.0);
            match named.weight.score(inventory, request, may, &mut scores) {
                Ok(()) => {
                    let scale = Scale::of(may, &scores, named.factor);
                    if scale.scale > 0.0 {
                        may.iter()
                            .for_each(|slot| sums[slot] += scale.cost(scores[slot]));
                    }
                }
                Err(failure) => failures.push(failure),
            }
        }
        sums
    }

    /// Why no host may run a guest: for each filter, how many hosts it excludes, and why the first.
    fn refusal(&self, inventory: &Inventory, request: &Request<'_>) -> Error {
        let all = self.candidates(inventory, request);
        let mut why = Vec::new();
        if all.is_empty() {
            why.push("no host is up".to_string());
        }
        for named in &self.filters {
            let mut left = all.clone();
            if named.filter.filter(inventory, request, &mut left).is_err() {
                continue;
            }
            let mut excluded = all.clone();
            excluded.subtract(&left);
            let Some(first) = excluded.iter().next() else {
                continue;
            };
            let (host, reason) = (
                inventory.hosts.name(first),
                named.filter.reason(inventory, request, first),
            );
            let others = match excluded.len() - 1 {
                0 => String::new(),
                others => format!(", and {others} more"),
            };
            why.push(format!("{}: host {host} {reason}{others}", named.name));
        }
        let guest = request.name.into();
        Error::NoHost { guest, why }
    }

    /// Books a placement. If the host changed since the decision, or other hosts matter to the guest's groups, the
    /// built-in filters are asked about the host again.
    pub fn commit(&self, inventory: &mut Inventory, placement: &Placement) -> Result {
        let Placement { name, guest, .. } = placement;
        let slot = inventory.hosts.slot(&placement.host)?;
        let placed = inventory.guest(name);
        if placed.is_some() && placement.occasion != Occasion::Move {
            return Err(Error::Taken(name.clone()));
        }
        let together = guest.affinity.iter().any(|member| member.hard);
        if together || inventory.hosts.revision(slot) != placement.revision {
            let request = Request {
                name,
                guest,
                occasion: placement.occasion,
                from: placed.map(|placed| placed.host),
            };
            self.fits(inventory, &request, slot)?;
        }
        match placement.occasion {
            Occasion::Move => inventory.begin_move(name, slot),
            _ => inventory.book(name, guest.clone(), slot),
        }
    }

    /// Refuses a host that may not run the guest, by the built-in filters.
    fn fits(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> Result {
        let stale = |why| Error::Stale {
            guest: request.name.into(),
            host: inventory.hosts.name(slot).into(),
            why,
        };
        if !self.candidates(inventory, request).contains(slot) {
            return Err(stale("it is not up".into()));
        }
        for NamedFilter { name, filter } in &self.filters[..self.built_in] {
            let mut may = HostSet::of(slot);
            // Built-in filters do not fail.
            let _ = filter.filter(inventory, request, &mut may);
            if may.is_empty() {
                let reason = filter.reason(inventory, request, slot);
                return Err(stale(format!("{name}: it {reason}")));
            }
        }
        Ok(())
    }

    /// The next guest to move, if one should: from a host in maintenance, back to a host that was in maintenance, or
    /// as the balancer says. Its placement is booked by [`commit`](Self::commit), and ended by
    /// [`Inventory::finish_move`] or [`Inventory::cancel_move`].
    pub fn next_move(&self, inventory: &Inventory) -> (Option<Placement>, Vec<Failure>) {
        let mut failures = Vec::new();
        if inventory.moving().len() >= self.at_a_time {
            return (None, failures);
        }
        let next = self
            .evacuation(inventory, &mut failures)
            .or_else(|| self.return_home(inventory, &mut failures))
            .or_else(|| self.balance(inventory, &mut failures));
        (next, failures)
    }

    fn evacuation(&self, inventory: &Inventory, failures: &mut Vec<Failure>) -> Option<Placement> {
        let hosts = &inventory.hosts;
        let mut maintained = hosts.running.clone();
        maintained.subtract(&hosts.up);
        let guests = maintained.iter().flat_map(|slot| inventory.guests_on(slot));
        let staying = guests.filter(|placed| placed.target.is_none());
        staying.take(TRIES).find_map(|placed| {
            let all = hosts.up.clone();
            self.moved(inventory, placed, all, failures)
        })
    }

    fn return_home(&self, inventory: &Inventory, failures: &mut Vec<Failure>) -> Option<Placement> {
        let hosts = &inventory.hosts;
        let away = inventory.away().filter(|placed| placed.target.is_none());
        let home = away.filter_map(|placed| {
            let slot = hosts.slot(placed.home.as_deref()?).ok()?;
            (hosts.state(slot) == HostState::Up).then_some((placed, slot))
        });
        home.take(TRIES)
            .find_map(|(placed, slot)| self.moved(inventory, placed, HostSet::of(slot), failures))
    }

    fn balance(&self, inventory: &Inventory, failures: &mut Vec<Failure>) -> Option<Placement> {
        let (mut tries, mut chosen, mut failed) = (0, None, Vec::new());
        let offered = self.balancer.balance(inventory, &mut |placed, hosts| {
            tries += 1;
            chosen = self.moved(inventory, placed, hosts.clone(), &mut failed);
            chosen.is_some() || tries == TRIES
        });
        failures.extend(failed);
        failures.extend(offered.err());
        chosen
    }

    /// Where a guest that should move to one of `may` goes.
    fn moved(
        &self,
        inventory: &Inventory,
        placed: &Placed,
        mut may: HostSet,
        failures: &mut Vec<Failure>,
    ) -> Option<Placement> {
        if placed.held {
            return None;
        }
        let request = Request {
            name: &placed.name,
            guest: &placed.guest,
            occasion: Occasion::Move,
            from: Some(placed.host),
        };
        may.intersect(&self.candidates(inventory, &request));
        let slot = self.choose(inventory, &request, may, true, failures)?;
        let (name, guest) = (request.name, &placed.guest);
        Some(self.placement(inventory, name, guest, Occasion::Move, slot))
    }

    /// Hosts that may sleep or should wake, under a policy that saves power. While a host is used too much, one
    /// without guests stays awake.
    pub fn power(&self, inventory: &Inventory) -> Power {
        let (Some(reserve), hosts) = (self.reserve, &inventory.hosts) else {
            return Power::default();
        };
        let overloaded = hosts.up.iter().any(|slot| hosts.over_for(slot).is_some());
        let reserve = reserve.max(usize::from(overloaded));
        let name = |slot: usize| hosts.name(slot).to_string();
        let empty = hosts.up.iter().filter(|slot| hosts.count[*slot] == 0);
        let empty: Vec<_> = empty.collect();
        let lacking = reserve.saturating_sub(empty.len());
        Power {
            may_sleep: empty.iter().skip(reserve).map(|slot| name(*slot)).collect(),
            should_wake: hosts.asleep.iter().take(lacking).map(name).collect(),
        }
    }

    /// A host that is asleep, and could run the guest if it were awake: for a guest that no other host may run.
    pub fn wake_for(&self, inventory: &Inventory, name: &str, guest: &Guest) -> Option<String> {
        let request = Request {
            name,
            guest,
            occasion: Occasion::Start,
            from: None,
        };
        let mut may = inventory.hosts.asleep.clone();
        let awake = |named: &&NamedFilter| named.name != MAINTENANCE;
        for named in self.filters[..self.built_in].iter().filter(awake) {
            // Built-in filters do not fail.
            let _ = named.filter.filter(inventory, &request, &mut may);
        }
        let slot = may.first_from(0)?;
        Some(inventory.hosts.name(slot).into())
    }
}

/// How the scores of a weight become costs.
pub(crate) struct Scale {
    best: f64,
    scale: f64,
}

impl Scale {
    pub(crate) fn of(may: &HostSet, scores: &[f64], factor: u32) -> Scale {
        let (mut best, mut worst) = (f64::INFINITY, f64::NEG_INFINITY);
        for slot in may.iter() {
            best = best.min(scores[slot]);
            worst = worst.max(scores[slot]);
        }
        let range = worst - best;
        let scale = if range > 0.0 {
            f64::from(factor) / range
        } else {
            0.0
        };
        Scale { best, scale }
    }

    /// The cost of a score: 0 for the best, the factor for the worst.
    pub(crate) fn cost(&self, score: f64) -> f64 {
        (score - self.best) * self.scale
    }
}

/// The host with the lowest sum; of equal hosts, the first from `start` on.
pub(crate) fn best(may: &HostSet, sums: &[f64], start: usize) -> Option<usize> {
    let least = may
        .iter()
        .map(|slot| sums[slot])
        .fold(f64::INFINITY, f64::min);
    let alike = may.iter().filter(|slot| sums[*slot] <= least);
    alike.min_by_key(|slot| slot.wrapping_sub(start))
}

/// Where the search for a guest's host begins: a slot that its name gives, so that guests spread, and an explanation
/// explains the decision.
pub(crate) fn start(name: &str, slots: usize) -> usize {
    // FNV-1a, whose upper bits are alike for names that are: so they are mixed with the lower ones, as in MurmurHash3.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mix = |hash: u64, by: u64| (hash ^ (hash >> 33)).wrapping_mul(by);
    let hash = mix(mix(hash, 0xff51_afd7_ed55_8ccd), 0xc4ce_b9fe_1a85_ec53);
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

/// Reads a policy's properties.
fn read_properties(name: &str, policy: &Policy, plugins: &[Plugin]) -> Result<Values> {
    let declared = policy.declared();
    let used = |plugin: &&Plugin| {
        let named = |class: &String| *class == plugin.class;
        policy.filters.iter().any(named)
            || policy.weights.keys().any(named)
            || policy.balancer == plugin.class
    };
    let used: Vec<_> = plugins.iter().filter(used).collect();
    let mut values = Values::default();
    for (property, value) in &policy.properties {
        let refused = |must| Error::Property {
            policy: name.into(),
            name: property.clone(),
            value: value.clone(),
            must,
        };
        let row = declared.iter().find(|row| row.name == property);
        if let Some(row) = row {
            let value = row.read(value).ok_or_else(|| refused(row.must()))?;
            values.set(row, value);
        }
        let mut known = row.is_some();
        for pattern in used
            .iter()
            .filter_map(|plugin| plugin.properties.get(property))
        {
            known = true;
            if !pattern.accepts(value) {
                return Err(refused(pattern.must()));
            }
        }
        if !known {
            let own = declared.iter().map(|row| row.name.to_string());
            let theirs = used
                .iter()
                .flat_map(|plugin| plugin.properties.keys().cloned());
            return Err(Error::NoProperty {
                policy: name.into(),
                name: property.clone(),
                known: own.chain(theirs).collect(),
            });
        }
    }
    Ok(values)
}
