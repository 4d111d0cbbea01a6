//! What commands do with guests of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use node::check::check_guest;
use node::error::{Error, Kind as ErrorKind, Result};
use node::model::{Guest, check_name, is_pattern};
use serde::Serialize;
use tokio::time::error::Elapsed;

use crate::etcd::{Change, Outcome, Store, Watch};
use crate::hosts;
use crate::keys::{self, Kind};
use crate::leader;
use crate::model::{CHECKPOINT_S, Demand, GuestRecord, Placement, Status};
use crate::planner::Planner;
use crate::plugins;
use crate::transaction::{self, Transaction};
use crate::view::View;

/// Guests of one transaction: etcd takes 128 operations in one.
const BATCH: usize = 60;
/// Bytes of one transaction.
const BATCH_BYTES: usize = 1 << 20;
/// Longest that guests may take to come or go without any of them doing so.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause after which is said what is waited for.
const NOTICE: Duration = Duration::from_secs(5);

/// A guest as it is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GuestRow {
    /// Its name.
    pub guest: String,
    /// The host that runs it.
    pub host: Option<String>,
    /// The host that it moves to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A state of the node, or `waiting`, `placed`, `moving`, `removing`, `lost`, `failed`.
    pub state: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<GuestRecord>,
}

/// How a guest is.
pub fn row(view: &View, name: &str) -> Option<GuestRow> {
    let record = view.guest(name)?;
    let placement = view.placement(name);
    let status = view.status(name).filter(|it| it.id == record.id);
    let host = placement.as_ref().map(|it| it.host.clone());
    let target = placement.as_ref().and_then(|it| it.target.clone());
    let alive = host.as_ref().is_some_and(|host| view.alive(host).is_some());
    let told = status.as_ref().filter(|it| it.host == host);
    let (state, reason) = match (&host, told) {
        _ if record.removing => ("removing", None),
        (Some(_), _) if !alive => (
            "lost",
            Some("its host is down; it starts where it fits".into()),
        ),
        (_, Some(told)) if target.is_none() => (told.state.as_str(), told.reason.clone()),
        (Some(_), _) if target.is_some() => ("moving", None),
        (Some(_), _) => ("placed", None),
        (None, _) => ("waiting", None),
    };
    Some(GuestRow {
        guest: name.into(),
        host,
        target,
        state: state.into(),
        reason,
        record: Some(record),
    })
}

/// The guests that names and patterns select; without any, all. A name that no guest has is refused.
pub fn select(view: &View, names: &[String]) -> Result<Vec<String>> {
    let all = view.names(Kind::Guest);
    if names.is_empty() {
        return Ok(all.map(String::from).collect());
    }
    let all: Vec<&str> = all.collect();
    let mut selected = BTreeSet::new();
    for name in names {
        let pattern = is_pattern(name).then(|| glob::Pattern::new(name));
        let fits: Box<dyn Fn(&str) -> bool> = match pattern {
            None => Box::new(|it| it == name),
            Some(Ok(pattern)) => Box::new(move |it| pattern.matches(it)),
            Some(Err(error)) => {
                return Err(Error::invalid(format_args!(
                    "‘{name}’ is no pattern: {error}"
                )));
            }
        };
        let before = selected.len();
        let found: Vec<_> = all.iter().filter(|it| fits(it)).collect();
        if found.is_empty() && before == selected.len() {
            return Err(Error::not_found(match is_pattern(name) {
                true => format!("no guest of the cluster matches ‘{name}’"),
                false => format!("there is no guest ‘{name}’ in the cluster"),
            }));
        }
        selected.extend(found.into_iter().map(|name| name.to_string()));
    }
    Ok(selected.into_iter().collect())
}

/// Refuses a guest that no node would make.
pub(crate) fn check(name: &str, record: &GuestRecord, view: &View) -> Result<()> {
    check_name("guest", name)?;
    record.guest.check_config(name)?;
    record.guest.check_limits()?;
    let group = &record.demand.group;
    for host in &record.demand.on {
        let is_in = view.host(host).map(|host| host.group == *group);
        if !is_in.ok_or_else(|| Error::not_found(format_args!("there is no host {host}")))? {
            return Err(Error::invalid(format_args!(
                "host {host} is not among {}: --group names that of the guest's hosts",
                hosts::group_name(group)
            )));
        }
    }
    let mut hosts = view.names(Kind::Host).filter_map(|host| view.host(host));
    if !group.is_empty() && !hosts.any(|host| host.group == *group) {
        return Err(Error::not_found(format_args!(
            "there is no host of group {group}: `weir host group HOST {group}` adds one"
        )));
    }
    if let Some(seconds) = record.demand.checkpoint_s
        && !CHECKPOINT_S.contains(&seconds)
    {
        let (least, most) = (CHECKPOINT_S.start(), CHECKPOINT_S.end());
        return Err(Error::invalid(format_args!(
            "a checkpoint every {seconds} s cannot be: it has {least} to {most} s between two"
        )));
    }
    if record.demand.checkpoint_s.is_some() && record.guest.nsm.is_some() {
        return Err(Error::invalid(format_args!(
            "guest ‘{name}’ has its sockets from an NSM, and cannot be saved: leave --checkpoint out"
        )));
    }
    record.facts().check(name).map_err(Error::invalid)
}

/// Refuses a configuration that no node would run.
pub(crate) fn check_program(name: &str, record: &GuestRecord) -> Result<()> {
    let interfaces = record.guest.interfaces.iter();
    let interfaces: Vec<_> = interfaces
        .map(|(interface, on)| {
            let mac = record.vnics.get(on).and_then(|vnic| vnic.mac);
            (
                interface.clone(),
                mac.map_or([2, 0, 0, 0, 0, 0], |mac| mac.0),
            )
        })
        .collect();
    let found = check_guest(&record.guest, &interfaces, "LINK", None);
    match found.errors() {
        0 => Ok(()),
        _ => Err(Error::invalid(format_args!(
            "guest ‘{name}’: {}",
            found.to_string().trim_end()
        ))),
    }
}

/// Creates guests, all or none.
pub async fn create(store: &Store, guests: &[(String, Guest)], demand: &Demand) -> Result<()> {
    let view = store.view().await?;
    view.settings().ok_or_else(leader::no_cluster)?;
    let taken = |name: &str| {
        Error::new(
            ErrorKind::Exists,
            format_args!("there is a guest ‘{name}’ in the cluster already: choose another name"),
        )
    };
    let record = |name: &str, guest: &Guest| {
        GuestRecord::new(guest.clone(), demand.clone()).with_vnics(name)
    };
    let mut checked: Option<(&String, Vec<&String>)> = None;
    for (name, guest) in guests {
        let record = record(name, guest);
        check(name, &record, &view)?;
        // Most are alike.
        let program = (&guest.config, guest.interfaces.keys().collect::<Vec<_>>());
        if checked.as_ref() != Some(&program) {
            check_program(name, &record)?;
            checked = Some(program);
        }
        if view.guest(name).is_some() {
            return Err(taken(name));
        }
    }
    let (mut batch, mut bytes, mut names) = (Transaction::default(), 0, Vec::new());
    let mut made: Vec<String> = Vec::new();
    for (index, (name, guest)) in guests.iter().enumerate() {
        let key = Kind::Guest.of(name);
        batch = batch
            .expects(key.clone(), 0)
            .puts(key, &record(name, guest));
        let written = batch.writes.last().and_then(|(_, value)| value.as_ref());
        let size = written.map_or(0, Vec::len);
        bytes += size;
        names.push(name.clone());
        let next = guests.get(index + 1).is_some();
        if next && names.len() < BATCH && bytes + size < BATCH_BYTES {
            continue;
        }
        let done = store.commit(&std::mem::take(&mut batch)).await;
        let failed = match done {
            Ok(Outcome::Done(_)) => {
                made.append(&mut names);
                bytes = 0;
                continue;
            }
            Ok(Outcome::Changed) => taken(name),
            Err(error) => error,
        };
        if !made.is_empty() {
            destroy(store, &made).await?;
        }
        return Err(failed);
    }
    Ok(())
}

/// How long a command waits for changes, and whether it has said what for.
struct Patience {
    /// When what it waits for last came nearer.
    start: Instant,
    noticed: bool,
}

impl Patience {
    fn new() -> Patience {
        Patience {
            start: Instant::now(),
            noticed: false,
        }
    }

    /// Something came nearer.
    fn renew(&mut self) {
        self.start = Instant::now();
    }

    /// The next changes; none, if it takes too long. If it takes a while, `what` is said once.
    async fn changes(
        &mut self,
        watch: &mut Watch,
        what: impl FnOnce() -> String,
    ) -> Result<Option<Vec<Change>>> {
        if !self.noticed {
            if let Ok(changes) = self.within(NOTICE, watch).await {
                return changes.map(Some);
            }
            self.noticed = true;
            node::log::say(what());
        }
        self.within(PATIENCE, watch).await.ok().transpose()
    }

    /// The next changes, if they come in time.
    async fn within(
        &self,
        time: Duration,
        watch: &mut Watch,
    ) -> Result<Result<Vec<Change>>, Elapsed> {
        let left = time.saturating_sub(self.start.elapsed());
        let changes = tokio::time::timeout(left, watch.next()).await?;
        Ok(changes.map(|(changes, _)| changes))
    }
}

/// Waits until guests run; `told` gets each as soon as it runs or cannot. Stops when `told` says so.
pub async fn wait(
    store: &Store,
    names: &[String],
    mut told: impl FnMut(&GuestRow) -> bool,
) -> Result<()> {
    let mut left: BTreeSet<_> = names.iter().cloned().collect();
    let mut patience = Patience::new();
    let mut view = View::default();
    let seen = store.read(&mut view, "").await?;
    let mut watch = store.watch("", seen + 1).await?;
    let mut changed = left.clone();
    while !left.is_empty() {
        let settled: Vec<GuestRow> = changed
            .intersection(&left)
            .filter_map(|name| row(&view, name))
            .filter(|row| {
                !matches!(
                    row.state.as_str(),
                    "placed" | "starting" | "moving" | "arriving"
                )
            })
            .filter(|row| row.state != "waiting" || why_waits(&view, &row.guest).is_some())
            .collect();
        for mut row in settled {
            if row.state == "waiting" {
                row.reason = why_waits(&view, &row.guest);
            }
            left.remove(&row.guest);
            patience.renew();
            if !told(&row) {
                return Ok(());
            }
        }
        left.retain(|name| view.revision_of(&Kind::Guest.of(name)) != 0);
        if left.is_empty() {
            break;
        }
        let what = || waits_for(&view, &left, "start");
        let changes = patience.changes(&mut watch, what).await?;
        let changes = changes.ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                format_args!(
                    "none of {} that should start has done so for {} s: `weir cluster status` shows whether a host leads",
                    crate::count(left.len(), "guest"),
                    PATIENCE.as_secs()
                ),
            )
        })?;
        changed.clear();
        for change in changes {
            match guest_of(&change.key) {
                Some(name) => _ = changed.insert(name.into()),
                // A host that is lost has its guests wait.
                None if change.key.starts_with(Kind::Alive.folder()) => changed.clone_from(&left),
                None => {}
            }
            view.apply(&change.key, change.value.as_deref(), change.revision);
        }
    }
    Ok(())
}

/// The guest that a key tells of.
fn guest_of(key: &str) -> Option<&str> {
    match keys::parse(key)? {
        (Kind::Guest | Kind::Placement | Kind::Waiting, name) => Some(name),
        (Kind::Status, name) => keys::parse_of_host(name).map(|(_, guest)| guest),
        _ => None,
    }
}

/// Why a guest waits, as the leader says.
pub fn why_waits(view: &View, name: &str) -> Option<String> {
    let record = view.guest(name)?;
    let runs = |placement: Placement| view.alive(&placement.host).is_some();
    if view.placement(name).is_some_and(runs) {
        return None;
    }
    let status = view.get::<Status>(&Kind::Waiting.of(name));
    status.filter(|it| it.id == record.id)?.reason
}

/// Removes guests, and waits until they are gone.
pub async fn destroy(store: &Store, names: &[String]) -> Result<()> {
    let mut view = View::default();
    let seen = store.read(&mut view, "").await?;
    let mut watch = store.watch("", seen + 1).await?;
    let mut ordered = BTreeMap::new();
    let mut patience = Patience::new();
    let mut left: BTreeSet<String> = names.iter().cloned().collect();
    let mut changed = left.clone();
    loop {
        for name in changed.intersection(&left) {
            let key = Kind::Placement.of(name);
            let revision = view.revision_of(&key);
            let removing = view.guest(name).is_none_or(|it| it.removing);
            // Again, if the guest was placed or moved meanwhile.
            if removing || ordered.get(name) == Some(&revision) {
                continue;
            }
            let Some(removal) = transaction::begin_removal(&view, name) else {
                continue;
            };
            ordered.insert(name.clone(), revision);
            store.commit_to(&mut view, &removal).await?;
        }
        let count = left.len();
        left.retain(|name| view.revision_of(&Kind::Guest.of(name)) != 0);
        if left.is_empty() {
            return Ok(());
        }
        if left.len() < count {
            patience.renew();
        }
        let what = || waits_for(&view, &left, "remove");
        let Some(changes) = patience.changes(&mut watch, what).await? else {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format_args!(
                    "{} still there, to be removed when the hosts answer, or are lost: `weir ls --cluster` shows them",
                    crate::count(left.len(), "guest")
                ),
            ));
        };
        changed.clear();
        for change in changes {
            changed.extend(guest_of(&change.key).map(String::from));
            view.apply(&change.key, change.value.as_deref(), change.revision);
        }
    }
}

/// What is waited for: hosts that have to do something with guests, or a leader.
fn waits_for(view: &View, guests: &BTreeSet<String>, what: &str) -> String {
    let hosts = guests.iter().filter_map(|name| view.placement(name));
    let hosts: BTreeSet<_> = hosts.map(|placement| placement.host).collect();
    let count = crate::count(guests.len(), "guest");
    match hosts.len() {
        0 => format!("this waits for a leader to place {count}"),
        1..=5 => {
            let hosts: Vec<_> = hosts.into_iter().collect();
            format!(
                "this waits for {count} to {what}, by the nodes of hosts {}, which their agents ask again and again",
                hosts.join(", ")
            )
        }
        hosts => format!("this waits for {count} to {what} on {hosts} hosts"),
    }
}

/// Moves a guest to a host, and waits until it is there.
pub async fn migrate(store: &Store, name: &str, to: &str) -> Result<()> {
    let mut view = View::default();
    let seen = store.read(&mut view, "").await?;
    let at = find(&view, name)?.host;
    if at == to {
        return Err(Error::refused(format_args!(
            "guest ‘{name}’ runs on host {to} already"
        )));
    }
    let (record, host) = (view.guest(name), view.host(to));
    if let (Some(record), Some(host)) = (record, host)
        && record.demand.group != host.group
    {
        return Err(Error::refused(format_args!(
            "guest ‘{name}’ runs on {}, and host {to} is not among them",
            hosts::group_name(&record.demand.group)
        )));
    }
    let plugins = plugins::of(plugins::policies(&view).iter());
    let (schedulers, _) = leader::schedulers(&view, &plugins)?;
    let planner = Planner::new(view.clone(), schedulers);
    let begin = planner.move_to(name, to).map_err(Error::refused)?;
    let begin = begin.ok_or_else(|| {
        Error::new(
            ErrorKind::InUse,
            format_args!("guest ‘{name}’ moves already, is removed, or is pinned to other hosts"),
        )
    })?;
    if store.commit_to(&mut view, &begin).await? == Outcome::Changed {
        return Err(Error::new(
            ErrorKind::InUse,
            format_args!("guest ‘{name}’ or host {to} changed meanwhile: try again"),
        ));
    }
    let mut watch = store.watch(&Kind::Placement.of(name), seen + 1).await?;
    let mut patience = Patience::new();
    loop {
        let placement = view.placement(name);
        if placement.as_ref().is_none_or(|it| it.target.is_none()) {
            return match placement.is_some_and(|it| it.host == to) {
                true => Ok(()),
                false => Err(Error::refused(format_args!(
                    "guest ‘{name}’ stays on host {at}: the log of its agent says why"
                ))),
            };
        }
        let what =
            || format!("this waits for the nodes of hosts {at} and {to} to move guest ‘{name}’");
        let Some(changes) = patience.changes(&mut watch, what).await? else {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format_args!(
                    "guest ‘{name}’ still moves to host {to}: `weir ls --cluster {name}` shows where it is"
                ),
            ));
        };
        for change in changes {
            view.apply(&change.key, change.value.as_deref(), change.revision);
        }
    }
}

/// Where a guest's node is.
pub struct Whereabouts {
    /// The host.
    pub host: String,
    /// Where its node is reached.
    pub address: Option<String>,
}

/// The host that runs a guest.
pub fn find(view: &View, name: &str) -> Result<Whereabouts> {
    select(view, &[name.to_string()])?;
    let Some(placement) = view.placement(name) else {
        let why = match why_waits(view, name) {
            Some(why) => format!(": {why}"),
            None if view.revision_of(keys::LEADER) == 0 => {
                " for a leader: `weir cluster agent` runs a host's agent".into()
            }
            None => String::new(),
        };
        return Err(Error::refused(format_args!("guest ‘{name}’ waits{why}")));
    };
    let record = view.host(&placement.host);
    Ok(Whereabouts {
        address: record.and_then(|record| record.address),
        host: placement.host,
    })
}
