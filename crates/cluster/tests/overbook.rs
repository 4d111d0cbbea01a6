//! Any number of schedulers at once place no more than fits: by any order of their steps on a model of etcd, and side by
//! side on a real one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::context::Context;
use cluster::etcd::lease::{self, Lease};
use cluster::etcd::{Outcome, Store};
use cluster::keys::{self, Kind};
use cluster::leader::candidacy;
use cluster::model::{Alive, Demand, End, GuestRecord, HostRecord, Order, Report, Role};
use cluster::own_etcd::Own;
use cluster::planner::{Planner, Schedulers};
use cluster::transaction::{self, Transaction};
use cluster::view::View;
use node::error::Result;
use node::model::{Guest, Memory};
use proptest::prelude::*;
use scheduler::facts::{self, Affinity, Membership, Processors, Wall};
use scheduler::{Policy, Scheduler};
use tokio::sync::Barrier;

/// etcd, as far as transactions go: keys with the revisions of their last change.
#[derive(Default)]
struct Keys {
    revision: i64,
    entries: BTreeMap<String, (i64, Vec<u8>)>,
    changes: Vec<(String, Option<Vec<u8>>, i64)>,
}

impl Keys {
    fn commit(&mut self, transaction: &Transaction) -> Option<i64> {
        let is_as = |(key, revision): &(String, i64)| {
            self.entries.get(key).map_or(0, |(revision, _)| *revision) == *revision
        };
        if !transaction.expected.iter().all(is_as) {
            return None;
        }
        self.revision += 1;
        let mut written = std::collections::BTreeSet::new();
        for (key, value) in &transaction.writes {
            assert!(
                written.insert(key),
                "{key} is written twice, which etcd refuses"
            );
            match value {
                Some(value) => {
                    let entry = (self.revision, value.clone());
                    self.entries.insert(key.clone(), entry);
                }
                None => _ = self.entries.remove(key),
            }
            self.changes
                .push((key.clone(), value.clone(), self.revision));
        }
        Some(self.revision)
    }

    fn view(&self) -> View {
        let mut view = View::default();
        for (key, (revision, value)) in &self.entries {
            view.apply(key, Some(value), *revision);
        }
        view
    }
}

const MIB: u64 = 1 << 20;
/// Memory of a host: four guests of the smaller size.
const ROOM: u64 = 4 * 6 * MIB;

fn host(number: usize) -> String {
    format!("h{number}")
}

/// A host that is there.
fn join(number: usize) -> Transaction {
    let name = host(number);
    let record = HostRecord {
        id: name.clone(),
        ..HostRecord::default()
    };
    let facts = facts::Host {
        memory: facts::Memory(ROOM),
        processors: Processors(64_000),
        walls: [Wall::Process].into(),
        build: "1".into(),
        ..facts::Host::default()
    };
    Transaction::default()
        .puts(Kind::Host.of(&name), &record)
        .puts(Kind::Facts.of(&name), &facts)
        .puts(Kind::Alive.of(&name), &alive(&name))
}

fn alive(name: &str) -> Alive {
    Alive {
        id: name.into(),
        since_ms: 0,
    }
}

fn guest(number: usize, affinity: Option<Affinity>) -> GuestRecord {
    // Every third is twice as large.
    let memory = if number.is_multiple_of(3) { 10 } else { 4 };
    let member = affinity.map(|affinity| Membership {
        group: "g".into(),
        affinity,
        hard: true,
    });
    GuestRecord {
        id: number.to_string(),
        created_ms: 0,
        guest: Guest {
            config: "Idle;".into(),
            memory: Some(Memory(memory * MIB)),
            ..Guest::default()
        },
        demand: Demand {
            affinity: member.into_iter().collect(),
            ..Demand::default()
        },
        wire: None,
        vnics: BTreeMap::new(),
        removing: false,
    }
}

fn schedulers() -> Schedulers {
    let scheduler = Scheduler::new("none", Policy::default(), &[]).unwrap();
    [(String::new(), scheduler)].into()
}

/// What is wrong with placements, if anything is.
fn fault(view: &View) -> Option<String> {
    let mut booked: BTreeMap<String, u64> = BTreeMap::new();
    let mut apart = Vec::new();
    for name in view.names(Kind::Placement) {
        let placement = view.placement(name)?;
        let Some(record) = view.guest(name) else {
            return Some(format!("guest {name} is placed, and there is none"));
        };
        let facts = record.facts();
        for host in [Some(&placement.host), placement.target.as_ref()]
            .into_iter()
            .flatten()
        {
            *booked.entry(host.clone()).or_default() += facts.memory.0;
            if view.revision_of(&keys::order(host, name)) == 0 {
                return Some(format!(
                    "guest {name} is placed on {host}, which has no order"
                ));
            }
        }
        if !facts.affinity.is_empty() {
            apart.push(placement.target.unwrap_or(placement.host));
        }
    }
    apart.sort();
    if let Some(pair) = apart.windows(2).find(|pair| pair[0] == pair[1]) {
        return Some(format!("two guests that stay apart are on {}", pair[0]));
    }
    for key in view.keys("orders/") {
        let (host, name) = keys::parse_order(key)?;
        let placement = view.placement(name);
        let is_there =
            placement.is_some_and(|it| it.host == host || it.target.as_deref() == Some(host));
        if !is_there {
            return Some(format!(
                "host {host} has an order for guest {name}, which is not there"
            ));
        }
    }
    booked
        .into_iter()
        .find(|(_, memory)| *memory > ROOM)
        .map(|(host, memory)| format!("{memory} bytes are booked on {host}, which has {ROOM}"))
}

/// A step of the schedulers, agents and commands.
#[derive(Clone, Debug)]
enum Step {
    /// A scheduler takes in some of the changes.
    Look(usize, usize),
    /// It places the guest of this number.
    Place(usize, usize),
    /// It begins to move it.
    Move(usize, usize, usize),
    /// It clears what hosts left.
    Clear(usize),
    /// It does what hosts reported.
    Follow(usize),
    /// The host of a guest reports how its order ended; a move succeeded, or did not.
    Report(usize, bool),
    /// A guest is created.
    Create(usize),
    /// Its removal is ordered.
    Remove(usize),
    /// A host's lease ends.
    Lose(usize),
    /// It comes back.
    Return(usize),
}

const SCHEDULERS: usize = 3;
const HOSTS: usize = 3;
const GUESTS: usize = 14;

fn step() -> impl Strategy<Value = Step> {
    let (s, h, g) = (0..SCHEDULERS, 0..HOSTS, 0..GUESTS);
    prop_oneof![
        4 => (s.clone(), 1..12usize).prop_map(|(s, n)| Step::Look(s, n)),
        8 => (s.clone(), g.clone()).prop_map(|(s, g)| Step::Place(s, g)),
        3 => (s.clone(), g.clone(), h.clone()).prop_map(|(s, g, h)| Step::Move(s, g, h)),
        1 => s.clone().prop_map(Step::Clear),
        4 => s.prop_map(Step::Follow),
        4 => (g.clone(), any::<bool>()).prop_map(|(g, moved)| Step::Report(g, moved)),
        3 => g.clone().prop_map(Step::Create),
        2 => g.prop_map(Step::Remove),
        1 => h.clone().prop_map(Step::Lose),
        2 => h.prop_map(Step::Return),
    ]
}

struct World {
    keys: Keys,
    /// Each scheduler, and how many of the changes it has taken in.
    schedulers: Vec<(Planner, usize)>,
}

impl World {
    fn new() -> World {
        let mut keys = Keys::default();
        for number in 0..HOSTS {
            keys.commit(&join(number));
        }
        let seen = keys.changes.len();
        let schedulers = (0..SCHEDULERS)
            .map(|_| (Planner::new(keys.view(), schedulers()), seen))
            .collect();
        World { keys, schedulers }
    }

    fn commit_by(&mut self, scheduler: usize, transaction: Transaction) {
        if let Some(revision) = self.keys.commit(&transaction) {
            self.schedulers[scheduler].0.wrote(&transaction, revision);
        }
    }

    /// The host of a guest reports how its order ended, if there is an end.
    fn report(&mut self, name: &str, moved: bool) {
        let view = self.keys.view();
        let Some(placement) = view.placement(name) else {
            return;
        };
        let order = keys::order(&placement.host, name);
        let end = match view.get::<Order>(&order).map(|order| order.role) {
            Some(Role::Send(_)) if moved => End::Moved,
            Some(Role::Send(_)) => End::Stayed,
            Some(Role::Remove) => End::Removed,
            _ => return,
        };
        let report = Report {
            id: placement.id,
            order: view.revision_of(&order),
            end,
        };
        let key = keys::of_host(Kind::Report, &placement.host, name);
        let told = Transaction::default()
            .as_seen(&view, order)
            .puts(key, &report);
        self.keys.commit(&told);
    }

    /// A scheduler that has seen everything does what hosts reported.
    fn follow(&mut self) {
        self.take(&Step::Look(0, usize::MAX));
        self.take(&Step::Follow(0));
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Look(scheduler, count) => {
                let (planner, seen) = &mut self.schedulers[scheduler];
                for (key, value, revision) in self.keys.changes[*seen..].iter().take(count) {
                    planner.apply(key, value.as_deref(), *revision);
                    *seen += 1;
                }
            }
            Step::Place(scheduler, guest) => {
                let placed = self.schedulers[scheduler].0.place(&guest.to_string(), 1);
                if let Ok(Some((_, transaction))) = placed {
                    self.commit_by(scheduler, transaction);
                }
            }
            Step::Move(scheduler, guest, to) => {
                let planner = &self.schedulers[scheduler].0;
                let name = guest.to_string();
                let Some(placement) = planner.view().placement(&name) else {
                    return;
                };
                if placement.host == host(to) || !fits(planner, &name, &host(to)) {
                    return;
                }
                if let Some(begin) = planner.begin_move(&name, &host(to)) {
                    self.commit_by(scheduler, begin);
                }
            }
            Step::Clear(scheduler) => {
                for (_, transaction) in self.schedulers[scheduler].0.remains() {
                    self.commit_by(scheduler, transaction);
                }
            }
            Step::Follow(scheduler) => {
                for (_, transaction) in self.schedulers[scheduler].0.reported() {
                    self.commit_by(scheduler, transaction);
                }
            }
            Step::Report(guest, moved) => self.report(&guest.to_string(), moved),
            Step::Create(number) => {
                let key = Kind::Guest.of(&number.to_string());
                let new = Transaction::default()
                    .expects(key.clone(), 0)
                    .puts(key, &guest(number, None));
                self.keys.commit(&new);
            }
            Step::Remove(guest) => {
                if let Some(removal) =
                    transaction::begin_removal(&self.keys.view(), &guest.to_string())
                {
                    self.keys.commit(&removal);
                }
            }
            Step::Lose(number) => {
                let gone = Transaction::default().removes(Kind::Alive.of(&host(number)));
                self.keys.commit(&gone);
            }
            Step::Return(number) => {
                let name = host(number);
                let there = Transaction::default().puts(Kind::Alive.of(&name), &alive(&name));
                self.keys.commit(&there);
            }
        }
    }
}

/// Whether a scheduler believes that a guest fits on a host.
fn fits(planner: &Planner, name: &str, host: &str) -> bool {
    let inventory = planner.inventories().next().unwrap();
    let Some(record) = planner.view().guest(name) else {
        return false;
    };
    inventory.hosts.slot(host).is_ok_and(|slot| {
        planner.is_alive(host)
            && inventory.hosts.totals(slot).memory + record.facts().memory.0 <= ROOM
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// However the steps of schedulers whose views are old follow one another, no host is overbooked, and placements and
    /// orders agree.
    #[test]
    fn no_order_of_steps_places_more_than_fits(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for (number, step) in steps.iter().enumerate() {
            world.take(step);
            let fault = fault(&world.keys.view());
            prop_assert!(fault.is_none(), "step {number}: {fault:?}");
        }
        // A scheduler that has seen everything books what one does that begins now.
        let view = world.keys.view();
        for (planner, seen) in &mut world.schedulers {
            for (key, value, revision) in &world.keys.changes[*seen..] {
                planner.apply(key, value.as_deref(), *revision);
            }
            let new = Planner::new(view.clone(), schedulers());
            for number in 0..HOSTS {
                let name = host(number);
                let totals = |planner: &Planner| {
                    let hosts = &planner.inventories().next().unwrap().hosts;
                    hosts.slot(&name).map(|slot| hosts.totals(slot).memory).unwrap()
                };
                prop_assert_eq!(totals(planner), totals(&new), "host {}", name);
            }
            prop_assert!(planner.waiting().eq(new.waiting()));
        }
    }
}

/// A scheduler that has taken in only the first changes of a transaction books no more than fits.
#[test]
fn a_part_of_a_transaction_does_not_pass_for_the_whole() {
    for part in 0.. {
        let mut world = World::new();
        // On the host that is left, two of these guests fit.
        for step in [Step::Lose(1), Step::Lose(2)] {
            world.take(&step);
        }
        for guest in [0, 3, 6] {
            world.take(&Step::Create(guest));
        }
        world.take(&Step::Look(0, 100));
        world.take(&Step::Place(0, 0));
        world.take(&Step::Look(1, 100));
        let seen = world.keys.changes.len();
        world.take(&Step::Place(0, 3));
        let whole = world.keys.changes.len() - seen;
        if part > whole {
            assert!(whole > 1, "a placement changes several keys");
            break;
        }
        world.take(&Step::Look(1, part));
        world.take(&Step::Place(1, 6));
        assert_eq!(fault(&world.keys.view()), None, "{part} of {whole} changes");
    }
}

/// A guest that cannot leave a host in maintenance does not keep the others there.
#[test]
fn a_guest_whose_move_failed_stays_and_others_move() {
    let mut world = World::new();
    for number in [1, 2] {
        world.take(&Step::Create(number));
    }
    world.take(&Step::Look(0, 100));
    world.take(&Step::Place(0, 1));
    world.take(&Step::Look(0, 100));
    let home = world.keys.view().placement("1").unwrap().host;
    let record = HostRecord {
        id: home.clone(),
        maintenance: true,
        ..HostRecord::default()
    };
    // The other one comes to the same host.
    let view = world.keys.view();
    let seen = transaction::Seen {
        name: "2",
        record: &view.guest("2").unwrap(),
        placement: None,
        facts: &view.guest("2").unwrap().facts(),
    };
    world.keys.commit(&transaction::place(&view, &seen, &home));
    let maintained = Transaction::default().puts(Kind::Host.of(&home), &record);
    world.keys.commit(&maintained);
    world.take(&Step::Look(0, 100));

    let (first, _, begin) = world.schedulers[0].0.next_move().unwrap();
    world.commit_by(0, begin);
    world.report(&first, false);
    world.follow();
    world.take(&Step::Look(0, 100));
    let planner = &mut world.schedulers[0].0;
    assert_eq!(planner.take_failed_moves(), std::slice::from_ref(&first));
    planner.hold(&first, true);
    let (second, to, begin) = planner.next_move().unwrap();
    assert_ne!((&second, &to), (&first, &home));
    world.commit_by(0, begin);
    world.report(&second, true);
    world.follow();
    world.take(&Step::Look(0, 100));
    let planner = &mut world.schedulers[0].0;
    assert!(planner.next_move().is_none());
    planner.hold(&first, false);
    assert_eq!(planner.next_move().unwrap().0, first);
    // Both return, when they may.
    assert_eq!(planner.view().placement(&second).unwrap().home, Some(home));
}

/// An etcd that ends with the test.
struct Etcd(Own);

impl Drop for Etcd {
    fn drop(&mut self) {
        self.0.stop();
        let _ = std::fs::remove_dir_all(&self.0.folder);
    }
}

fn start_etcd(name: &str) -> (Etcd, Context) {
    let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
    let etcd = Etcd(Own::new(&folder).unwrap());
    etcd.0.start().unwrap();
    let context = Context {
        etcd: vec![etcd.0.endpoint()],
        prefix: keys::PREFIX.into(),
        tls: Some(etcd.0.files()),
        ..Context::default()
    };
    (etcd, context)
}

/// Host `a` leads under a lease that is far longer than a test.
async fn lead_long(store: &Store) -> Result<(Lease, i64)> {
    let lease = Lease::grant(store, 600).await?;
    let leads = Transaction::default()
        .puts(keys::LEADER.into(), &"a")
        .under(lease.id);
    match store.commit(&leads).await? {
        Outcome::Done(revision) => Ok((lease, revision)),
        Outcome::Changed => panic!("nobody else changes the key"),
    }
}

/// The next agent of a host that leads need not wait for the end of the lease of the one that was killed.
#[test]
fn an_agent_leads_at_once_after_another_of_its_host() {
    let (_etcd, context) = start_etcd("candidacy");
    cluster::block_on(async {
        let store = Store::connect(&context).await?;
        let (_, killed) = lead_long(&store).await?;
        let (lease, revision) = candidacy(&store, "a").await?;
        // The former one can do no more, and its lease takes nothing with it.
        assert!(revision > killed);
        lease.revoke(&store).await?;
        candidacy(&store, "b").await.map(drop)
    })
    .unwrap();
}

/// A leader that does not renew its lease is replaced before the lease ends, and one that does is not.
#[test]
fn a_silent_leader_is_replaced_before_its_lease_ends() {
    let (_etcd, context) = start_etcd("silence");
    cluster::block_on(async {
        let store = Store::connect(&context).await?;
        let (mut lease, dead) = lead_long(&store).await?;
        let renewed = async {
            loop {
                lease.renew(&store, Duration::from_secs(5)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let while_renewed = tokio::time::timeout(Duration::from_secs(3), async {
            tokio::select! {
                _ = candidacy(&store, "b") => {}
                () = renewed => {}
            }
        });
        assert!(
            while_renewed.await.is_err(),
            "it is replaced in spite of renewals"
        );
        let (_, revision) = candidacy(&store, "b").await?;
        assert!(revision > dead);
        let (left, _) = lease::left(&store, lease.id).await?;
        assert!(left > 0, "its lease has ended");
        Ok(())
    })
    .unwrap();
}

#[test]
fn two_schedulers_at_once_fill_the_hosts_of_a_real_etcd_and_no_more() {
    let (_etcd, context) = start_etcd("overbook");
    cluster::block_on(async {
        let store = Store::connect(&context).await?;
        for number in 0..HOSTS {
            store.commit(&join(number)).await?;
        }
        // Far more than fits; the second half stays apart.
        for number in 0..40 {
            let apart = (number >= 20).then_some(Affinity::Apart);
            let new = Transaction::default()
                .puts(Kind::Guest.of(&number.to_string()), &guest(number, apart));
            store.commit(&new).await?;
        }
        let start = Instant::now();
        let both = Arc::new(Barrier::new(2));
        let work = |store: Store, both: Arc<Barrier>| async move {
            let (mut placed, mut refused) = (0, 0);
            let mut view = View::default();
            let seen = store.read(&mut view, "").await?;
            let mut watch = store.watch("", seen + 1).await?;
            let mut planner = Planner::new(view, schedulers());
            both.wait().await;
            loop {
                let waiting: Vec<String> = planner.waiting().cloned().collect();
                let mut tried = false;
                for name in waiting {
                    let Ok(Some((_, transaction))) = planner.place(&name, 1) else {
                        continue;
                    };
                    tried = true;
                    match store.commit(&transaction).await? {
                        Outcome::Done(revision) => {
                            placed += 1;
                            planner.wrote(&transaction, revision);
                        }
                        Outcome::Changed => refused += 1,
                    }
                }
                let wait = Duration::from_millis(if tried { 0 } else { 300 });
                let mut news = false;
                while let Ok(changes) = tokio::time::timeout(wait, watch.next()).await {
                    for change in changes?.0 {
                        news = true;
                        planner.apply(&change.key, change.value.as_deref(), change.revision);
                    }
                    if news {
                        break;
                    }
                }
                if !tried && !news {
                    return Ok::<_, node::error::Error>((placed, refused));
                }
            }
        };
        let other = Store::connect(&context).await?;
        let [one, two] =
            [store.clone(), other].map(|store| tokio::spawn(work(store, both.clone())));
        let (one, two) = (one.await.unwrap()?, two.await.unwrap()?);
        println!(
            "placed and refused: {one:?} and {two:?} in {:?}",
            start.elapsed()
        );
        let view = store.view().await?;
        assert_eq!(fault(&view), None);
        assert_eq!(one.0 + two.0, view.names(Kind::Placement).count());
        // Both began with the same guest, so one of them was refused at least once.
        assert!(one.1 + two.1 > 0, "they did not act at once");
        // What is left fits nowhere.
        let mut planner = Planner::new(view, schedulers());
        let waiting: Vec<String> = planner.waiting().cloned().collect();
        for name in waiting {
            assert!(planner.place(&name, 1).is_err(), "guest {name} fits");
        }
        Ok(())
    })
    .unwrap();
}
