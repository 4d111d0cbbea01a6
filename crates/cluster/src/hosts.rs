//! What commands do with hosts.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use node::client::Client;
use node::error::{Error, Kind as ErrorKind, Result};
use node::kept;
use node::model::check_name;
use node::paths::Paths;
use scheduler::Policy;
use scheduler::facts::{Memory, TEXT_MAX};
use serde::Serialize;

use crate::agent::guard;
use crate::agent::verbs::{check_clearable, clear_host};
use crate::context::{self, Context, Identity, folder};
use crate::etcd::{Outcome, Store, members};
use crate::keys::{self, Kind};
use crate::leader;
use crate::model::{HostRecord, LEASE_MAX_S, LEASE_MIN_S, Settings, VERSION, new_id, now_ms};
use crate::own_etcd::Own;
use crate::transaction::Transaction;
use crate::view::View;
use crate::wireguard::Wireguard;

/// Longest that the agent of a host that leaves may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A host that joins.
#[derive(Clone, Debug, Default)]
pub struct Joining {
    /// Its name.
    pub name: String,
    /// Where its node is reached by the others.
    pub address: Option<String>,
    /// Its labels.
    pub labels: BTreeSet<String>,
    /// Where it stands.
    pub site: String,
    /// The group of hosts that it is in; empty: none.
    pub group: String,
    /// Memory that guests may have.
    pub memory: Option<Memory>,
    /// Most guests.
    pub max_guests: Option<u32>,
}

impl Joining {
    /// Refuses what cannot be.
    fn check(&self) -> Result<()> {
        check_name("host", &self.name)?;
        if !self.group.is_empty() {
            check_name("group", &self.group)?;
        }
        self.labels
            .iter()
            .try_for_each(|label| check_label(label))?;
        if self.site.len() > TEXT_MAX {
            return Err(Error::invalid(format_args!(
                "a site of {} bytes cannot be: it has up to {TEXT_MAX}",
                self.site.len()
            )));
        }
        let Some(address) = &self.address else {
            return Ok(());
        };
        if is_address(address) {
            return Ok(());
        }
        Err(Error::invalid(format_args!(
            "‘{}’ is no address of a node: write HOST:PORT, as `weir node --listen` has it",
            address.escape_debug()
        )))
    }

    fn record(&self, id: &str) -> HostRecord {
        HostRecord {
            id: id.into(),
            address: self.address.clone(),
            labels: self.labels.clone(),
            site: self.site.clone(),
            group: self.group.clone(),
            maintenance: false,
            memory: self.memory,
            max_guests: self.max_guests,
            joined_ms: now_ms(),
        }
    }
}

/// Whether this is HOST:PORT: a name, an IPv4 address, or an IPv6 address in brackets.
fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let is_name = |host: &str| {
        let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
        !host.is_empty() && host.chars().all(fits)
    };
    let inside = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_host = match inside {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => is_name(host),
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Refuses the address of another host: guests would be asked, and sent, where they are not.
fn check_address_free(view: &View, joining: &Joining) -> Result<()> {
    let mut hosts = view.names(Kind::Host);
    let has = |host: &&str| {
        let record = view.host(host);
        joining.address.is_some() && record.is_some_and(|it| it.address == joining.address)
    };
    match (hosts.find(has), &joining.address) {
        (Some(host), Some(address)) => Err(Error::new(
            ErrorKind::Exists,
            format_args!(
                "{address} is the address of host {host}: give this host's own by --address"
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses a label that cannot be.
fn check_label(label: &str) -> Result<()> {
    match (1..=TEXT_MAX).contains(&label.len()) && !label.contains([',', ' ']) {
        true => Ok(()),
        false => Err(Error::invalid(format_args!(
            "‘{}’ is no label: write 1 to {TEXT_MAX} bytes without spaces and commas",
            label.escape_debug()
        ))),
    }
}

/// Refuses a host that is in a cluster.
fn check_free(paths: &Paths) -> Result<()> {
    match context::file(paths).exists() {
        true => Err(Error::new(
            ErrorKind::Exists,
            "this host is in a cluster already: `weir cluster leave` takes it out",
        )),
        false => Ok(()),
    }
}

/// Makes a cluster, of which this host is the first. Without addresses of etcd, this host runs one.
pub async fn init(
    paths: &Paths,
    mut context: Context,
    joining: &Joining,
    settings: Settings,
) -> Result<()> {
    check_free(paths)?;
    joining.check()?;
    let lease_s = settings.lease_s;
    Policy::built_in(&settings.policy).map_err(Error::not_found)?;
    if !(LEASE_MIN_S..=LEASE_MAX_S).contains(&lease_s) {
        return Err(Error::invalid(format_args!(
            "a lease of {lease_s} s cannot be: it has {LEASE_MIN_S} to {LEASE_MAX_S} s"
        )));
    }
    let own = context.etcd.is_empty();
    if own {
        let etcd = Own::new(&folder(paths).join("etcd"))?;
        context.etcd = vec![etcd.endpoint()];
        context.tls = Some(etcd.files());
        context.own = Some(etcd);
    }
    context.lease_s = Some(lease_s);
    context.wireguard = settings.wireguard;
    let made = async {
        if let Some(own) = context.own.clone() {
            let started = tokio::task::spawn_blocking(move || own.start()).await;
            started.map_err(Error::failed)??;
        }
        let store = open(&context).await?;
        let first = Transaction::default()
            .expects(keys::SETTINGS.into(), 0)
            .puts(keys::SETTINGS.into(), &settings);
        let taken = "there is a cluster in this etcd already: `weir cluster join` joins it, --prefix makes another beside it";
        add(paths, &mut context, &store, joining, first, taken).await
    };
    let made = made.await;
    if made.is_err()
        && let Some(own) = &context.own
    {
        own.stop();
        let _ = fs::remove_dir_all(&own.folder);
        let _ = fs::remove_dir(folder(paths));
    }
    made
}

/// Adds this host to a cluster.
pub async fn join(paths: &Paths, mut context: Context, joining: &Joining) -> Result<()> {
    check_free(paths)?;
    joining.check()?;
    let store = open(&context).await?;
    let mut view = View::default();
    store.read_key(&mut view, keys::SETTINGS).await?;
    store.read(&mut view, Kind::Host.folder()).await?;
    let settings = view.settings().ok_or_else(leader::no_cluster)?;
    if settings.version != VERSION {
        return Err(Error::refused(format_args!(
            "the cluster's keys are of version {}, and this program knows version {VERSION}: install the same version on all hosts",
            settings.version
        )));
    }
    context.lease_s = Some(settings.lease_s);
    context.wireguard = settings.wireguard;
    let taken = format!(
        "there is a host {} in the cluster already: give this one another name by --name, or `weir host remove` the other",
        joining.name
    );
    if view.host(&joining.name).is_some() {
        return Err(Error::new(ErrorKind::Exists, taken));
    }
    check_address_free(&view, joining)?;
    let rest = Transaction::default().as_seen(&view, keys::SETTINGS.into());
    add(paths, &mut context, &store, joining, rest, &taken).await
}

/// Notes who this host is, and then adds it; both or none.
async fn add(
    paths: &Paths,
    context: &mut Context,
    store: &Store,
    joining: &Joining,
    transaction: Transaction,
    taken: &str,
) -> Result<()> {
    let id = new_id();
    let host = Identity {
        name: joining.name.clone(),
        id: id.clone(),
    };
    let interface = Wireguard::of(paths, &host);
    context.host = Some(host);
    if let Some(port) = context.wireguard
        && let Err(error) = interface.try_out(port)
    {
        let _ = fs::remove_dir(folder(paths));
        return Err(error);
    }
    context.write(paths)?;
    let key = Kind::Host.of(&joining.name);
    let record = joining.record(&id);
    let transaction = transaction.expects(key.clone(), 0).puts(key, &record);
    let added = match store.commit(&transaction).await {
        Ok(Outcome::Done(_)) => return Ok(()),
        Ok(Outcome::Changed) => Error::new(ErrorKind::Exists, taken),
        Err(error) => error,
    };
    interface.close();
    let _ = fs::remove_file(context::file(paths));
    let _ = fs::remove_dir(folder(paths));
    Err(added)
}

/// Takes this host out of its cluster. Its agent removes the cluster's guests.
pub async fn leave(paths: &Paths, force: bool) -> Result<()> {
    let context = Context::find(None, paths)?;
    let host = context.identity()?;
    let (node, checked) = (Client::new(paths.api()), paths.clone());
    let checked = tokio::task::spawn_blocking(move || check_clearable(&checked, &node)).await;
    checked.map_err(Error::failed)??;
    let gone = async {
        let store = open(&context).await?;
        let view = store.view().await?;
        let is_own = view.host(&host.name).is_some_and(|it| it.id == host.id);
        if is_own || is_damaged(&view, &host.name) {
            remove_from(&store, &view, &host.name, force).await?;
        }
        wait_for_agent(&store, host).await?;
        // The agent may have told of itself until then. The last key is the leader's, where hosts have roles.
        for kind in [Kind::Facts, Kind::Loads, Kind::Booked] {
            let said = Transaction::default().removes(kind.of(&host.name));
            if let Err(error) = store.commit(&said).await {
                tracing::debug!("{error}");
            }
        }
        Ok(())
    };
    match gone.await {
        Err(error) if !force => return Err(error),
        Err(error) => node::log::say(&error),
        Ok(()) => {}
    }
    // What an agent that does not run has left.
    let node = Client::new(paths.api());
    let cleared = paths.clone();
    let cleared = tokio::task::spawn_blocking(move || clear_host(&cleared, &node)).await;
    cleared.map_err(Error::failed)??;
    if let Some(own) = &context.own {
        own.stop();
    }
    let _ = fs::remove_dir_all(folder(paths));
    let _ = fs::remove_dir_all(kept::folder(paths));
    let _ = fs::remove_file(guard::file(paths));
    Ok(())
}

/// Waits until the agent of a host that was removed has ended, or its lease.
async fn wait_for_agent(store: &Store, host: &Identity) -> Result<()> {
    let start = Instant::now();
    loop {
        let mut view = View::default();
        store
            .read_key(&mut view, &Kind::Alive.of(&host.name))
            .await?;
        if view.alive(&host.name).is_none_or(|it| it.id != host.id) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(Error::refused(
                "the agent of this host still removes guests: try again, or give --force",
            ));
        }
        crate::pause(PAUSE).await;
    }
}

/// Connects to etcd; if that fails, the sentence says why.
pub async fn open(context: &Context) -> Result<Store> {
    let answers = members::probe(context).await?;
    let store = Store::connect(context).await?;
    store.prefer(answers);
    Ok(store)
}

fn unknown(name: &str, view: &View) -> Error {
    if is_damaged(view, name) {
        return Error::refused(format_args!(
            "the record of host {name} is damaged: `weir host remove {name}` removes it, and then the host can join again"
        ));
    }
    let known: Vec<_> = view.names(Kind::Host).take(20).collect();
    Error::not_found(format_args!(
        "there is no host {name}: there are {}",
        known.join(", ")
    ))
}

/// Whether a host has a record, of which nothing is known.
fn is_damaged(view: &View, name: &str) -> bool {
    view.revision_of(&Kind::Host.of(name)) != 0 && view.host(name).is_none()
}

/// Guests that are on a host, or come to it.
fn placed(view: &View, host: &str) -> usize {
    let orders = keys::orders(host);
    view.keys(&orders).count()
}

/// Guests on a host that may run on no other.
pub fn pinned(view: &View, host: &str) -> Vec<String> {
    let orders = keys::orders(host);
    let guests = view.keys(&orders).filter_map(|key| keys::parse_order(key));
    let pinned = guests.filter(|(_, guest)| {
        let demand = view.guest(guest).map(|record| record.demand);
        demand.is_some_and(|demand| demand.on.iter().eq([host]))
    });
    pinned.map(|(_, guest)| guest.into()).collect()
}

/// Removes a host.
pub async fn remove(store: &Store, name: &str, force: bool) -> Result<()> {
    let view = store.view().await?;
    if view.revision_of(&Kind::Host.of(name)) == 0 {
        return Err(unknown(name, &view));
    }
    remove_from(store, &view, name, force).await
}

async fn remove_from(store: &Store, view: &View, name: &str, force: bool) -> Result<()> {
    let guests = placed(view, name);
    if guests > 0 && !force {
        return Err(Error::new(
            ErrorKind::InUse,
            format_args!(
                "host {name} has {}: `weir host maintain {name}` moves them away, --force has them start elsewhere",
                crate::count(guests, "guest")
            ),
        ));
    }
    // Its sign of life goes with its agent or its lease; until then, its guests start nowhere else.
    let gone = [Kind::Host, Kind::Facts, Kind::Loads];
    let gone = gone.into_iter().fold(Transaction::default(), |gone, kind| {
        gone.removes(kind.of(name))
    });
    let gone = gone.as_seen(view, Kind::Host.of(name));
    let gone = match force {
        true => gone,
        // No guest came meanwhile.
        false => gone.as_seen(view, Kind::Booked.of(name)),
    };
    match store.commit(&gone).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Changed => Err(Error::new(
            ErrorKind::InUse,
            format_args!("host {name} changed meanwhile: try again"),
        )),
    }
}

/// Changes what commands say of a host; again, if another command does so at this moment.
pub async fn change(
    store: &Store,
    name: &str,
    change: impl Fn(&mut HostRecord) -> Result<()>,
) -> Result<()> {
    loop {
        let mut view = View::default();
        store.read(&mut view, Kind::Host.folder()).await?;
        let mut record = view.host(name).ok_or_else(|| unknown(name, &view))?;
        change(&mut record)?;
        let key = Kind::Host.of(name);
        let put = Transaction::default()
            .as_seen(&view, key.clone())
            .puts(key, &record);
        if store.commit(&put).await? != Outcome::Changed {
            return Ok(());
        }
    }
}

/// Adds and removes labels of a host.
pub async fn label(store: &Store, name: &str, add: &[String], remove: &[String]) -> Result<()> {
    add.iter().try_for_each(|label| check_label(label))?;
    change(store, name, |record| {
        for label in remove {
            if !record.labels.remove(label) {
                return Err(Error::not_found(format_args!(
                    "host {name} has no label {label}"
                )));
            }
        }
        record.labels.extend(add.iter().cloned());
        Ok(())
    })
    .await
}

/// The hosts of a group, in a sentence.
pub fn group_name(group: &str) -> String {
    match group {
        "" => "the hosts without a group".into(),
        group => format!("the hosts of group {group}"),
    }
}

/// Refuses a group that no host is in.
pub(crate) fn check_group(view: &View, group: &str) -> Result<()> {
    let hosts = view.names(Kind::Host).filter_map(|host| view.host(host));
    let mut groups: BTreeSet<_> = hosts.map(|host| host.group).collect();
    groups.remove("");
    if groups.contains(group) {
        return Ok(());
    }
    let known: Vec<_> = groups.into_iter().collect();
    Err(Error::not_found(match known.as_slice() {
        [] => format!("there is no group {group}: `weir host group HOST {group}` makes one"),
        known => format!("there is no group {group}: there are {}", known.join(", ")),
    }))
}

/// Puts a host without guests into a group; an empty name: into none.
pub async fn set_group(store: &Store, name: &str, group: &str) -> Result<()> {
    if !group.is_empty() {
        check_name("group", group)?;
    }
    let view = store.view().await?;
    let mut record = view.host(name).ok_or_else(|| unknown(name, &view))?;
    let guests = placed(&view, name);
    if guests > 0 && record.group != group {
        return Err(Error::new(
            ErrorKind::InUse,
            format_args!(
                "host {name} has {}, and guests stay in their group: `weir host maintain {name}` moves them away",
                crate::count(guests, "guest")
            ),
        ));
    }
    record.group = group.into();
    let key = Kind::Host.of(name);
    let put = Transaction::default()
        .as_seen(&view, key.clone())
        // No guest came meanwhile.
        .as_seen(&view, Kind::Booked.of(name))
        .puts(key, &record);
    match store.commit(&put).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Changed => Err(Error::new(
            ErrorKind::InUse,
            format_args!("host {name} changed meanwhile: try again"),
        )),
    }
}

/// Ends a host's maintenance. `stay`: the guests that left it do not return.
pub async fn activate(store: &Store, name: &str, stay: bool) -> Result<()> {
    if stay {
        let view = store.view().await?;
        for guest in view.names(Kind::Placement) {
            let Some(mut placement) = view.placement(guest) else {
                continue;
            };
            if placement.home.as_deref() == Some(name) {
                placement.home = None;
                let key = Kind::Placement.of(guest);
                let put = Transaction::default()
                    .as_seen(&view, key.clone())
                    .puts(key, &placement);
                // One that changed meanwhile moves for another reason.
                store.commit(&put).await?;
            }
        }
    }
    change(store, name, |record| {
        record.maintenance = false;
        Ok(())
    })
    .await
}

/// How a host is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostRow {
    /// Its name.
    pub host: String,
    /// `up`, `maintenance`, `down`, or `damaged`: its record cannot be read.
    pub state: &'static str,
    /// Whether it leads.
    pub leader: bool,
    /// Guests on it, arriving guests included.
    pub guests: usize,
    /// Memory that guests have.
    pub booked: Memory,
    /// Memory that guests may have.
    pub memory: Memory,
    /// Its processors.
    pub processors: scheduler::facts::Processors,
    /// Where its node is reached.
    pub address: Option<String>,
    /// Its labels.
    pub labels: BTreeSet<String>,
    /// Where it stands.
    pub site: String,
    /// The group that it is in; empty: none.
    pub group: String,
    /// Its links.
    pub links: Vec<String>,
    /// When it joined.
    pub joined_ms: u64,
}

/// All hosts.
pub fn list(view: &View) -> Vec<HostRow> {
    let leader: Option<String> = view.get(keys::LEADER);
    view.names(Kind::Host)
        .map(|name| {
            let record = view.host(name).unwrap_or_default();
            let facts = view.facts(name).unwrap_or_default();
            let alive = view.alive(name).is_some_and(|it| it.id == record.id);
            let orders = keys::orders(name);
            let guests = view.keys(&orders).filter_map(keys::parse_order);
            let booked = guests.filter_map(|(_, guest)| Some(view.guest(guest)?.facts().memory.0));
            HostRow {
                host: name.into(),
                state: match (alive, record.maintenance) {
                    _ if is_damaged(view, name) => "damaged",
                    (false, _) => "down",
                    (true, true) => "maintenance",
                    (true, false) => "up",
                },
                leader: leader.as_deref() == Some(name),
                guests: placed(view, name),
                booked: Memory(booked.sum()),
                memory: record.memory.unwrap_or(facts.memory),
                processors: facts.processors,
                address: record.address,
                labels: record.labels,
                site: record.site,
                group: record.group,
                links: facts.links.into_keys().collect(),
                joined_ms: record.joined_ms,
            }
        })
        .collect()
}

/// One host.
pub fn show(view: &View, name: &str) -> Result<HostRow> {
    let found = list(view).into_iter().find(|row| row.host == name);
    found.ok_or_else(|| unknown(name, view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port() {
        for right in ["10.0.0.1:6640", "node-1.example.org:1", "[fd00::1]:6640"] {
            assert!(is_address(right), "{right}");
        }
        for wrong in [
            "10.0.0.1",
            ":6640",
            "a:0",
            "a:65536",
            "x y:5",
            "https://a:6640",
            "a:b:6640",
            "fd00::1:6640",
            "[::x]:1",
        ] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }
}
