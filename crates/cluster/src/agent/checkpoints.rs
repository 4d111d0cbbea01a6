//! Checkpoints of guests: each is saved now and then, and another host keeps its state. A guest whose host is lost goes
//! on with it where it is placed then.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use node::client::Client;
use node::error::{Error, Kind as ErrorKind, Result};
use node::kept;
use node::model::{Restore, Save};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Agent;
use crate::context::folder;
use crate::etcd::Outcome;
use crate::files::write_private;
use crate::keys::{self, Kind};
use crate::model::{Checkpoint, Order, now_ms};
use crate::transaction::Transaction;
use crate::view::View;

/// Guests of a host that are saved at a time.
const AT_A_TIME: usize = 2;
/// Longest that it may take to get a saved guest: the other guests of the host wait.
const FETCH: Duration = Duration::from_secs(5);
/// The pause between two looks for saved guests that nobody needs.
const SWEEP: Duration = Duration::from_secs(60);

/// The guests of a host whose state is kept.
pub struct Checkpoints {
    agent: Agent,
    /// The work for each guest, with the guest's id.
    tasks: HashMap<String, (String, JoinHandle<()>)>,
    turns: Arc<Semaphore>,
}

impl Checkpoints {
    pub fn new(agent: Agent) -> Checkpoints {
        Checkpoints {
            agent,
            tasks: HashMap::new(),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Saves a guest that runs from now on, if it is to be.
    pub fn follow(&mut self, name: &str, id: &str) {
        if self.tasks.get(name).is_some_and(|(of, _)| of == id) {
            return;
        }
        let saver = Saver {
            agent: self.agent.clone(),
            name: name.into(),
            id: id.into(),
            turns: Arc::clone(&self.turns),
        };
        let task = tokio::spawn(async move { saver.run().await });
        if let Some((_, before)) = self.tasks.insert(name.into(), (id.into(), task)) {
            before.abort();
        }
    }

    /// Saves no others any more.
    pub fn follow_only(&mut self, is_followed: impl Fn(&str) -> bool) {
        self.tasks.retain(|name, (_, task)| {
            let stays = is_followed(name);
            if !stays {
                task.abort();
            }
            stays
        });
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.tasks.values().for_each(|(_, task)| task.abort());
    }
}

/// What saves a guest.
struct Saver {
    agent: Agent,
    name: String,
    id: String,
    turns: Arc<Semaphore>,
}

impl Saver {
    async fn run(&self) {
        let Some(period) = self.period().await else {
            return;
        };
        let (mut keeper, mut said) = (None, None);
        // Guests that start together are not saved together.
        tokio::time::sleep(period.mul_f64(fastrand::f64())).await;
        loop {
            let turn = self.turns.acquire().await;
            match self.save(&mut keeper).await {
                Ok(()) => said = None,
                Err(error) => {
                    keeper = None;
                    if said.as_ref() != Some(&error.error) {
                        tracing::warn!("guest {} has no checkpoint: {error}", self.name);
                        said = Some(error.error);
                    }
                }
            }
            drop(turn);
            tokio::time::sleep(period).await;
        }
    }

    /// The time between two checkpoints; none: it is not to be saved.
    async fn period(&self) -> Option<Duration> {
        let key = Kind::Guest.of(&self.name);
        loop {
            let mut view = View::default();
            if self.agent.store.read_key(&mut view, &key).await.is_ok() {
                let record = view.guest(&self.name).filter(|it| it.id == self.id)?;
                return record.demand.checkpoint_s.map(Duration::from_secs);
            }
            tokio::time::sleep(super::RETRY).await;
        }
    }

    /// Saves the guest once, and says where its state is.
    async fn save(&self, keeper: &mut Option<Keeper>) -> Result<()> {
        let order = keys::order(&self.agent.host.name, &self.name);
        let mut view = View::default();
        self.agent.store.read_key(&mut view, &order).await?;
        if let Some(before) = keeper {
            let sign = Kind::Alive.of(&before.host);
            self.agent.store.read_key(&mut view, &sign).await?;
            if view.revision_of(&sign) == 0 {
                *keeper = None;
            }
        }
        let at = match keeper {
            Some(keeper) => keeper,
            None => keeper.insert(choose(&self.agent, &self.id).await?),
        };
        let file = file(&self.agent, &format!("{}.saved", self.id))?;
        let (name, id, node) = (self.name.clone(), self.id.clone(), at.node.clone());
        let saved_ms = now_ms();
        let kept = move |own: &Client| {
            let save = Save {
                file: file.clone(),
                keep: true,
            };
            own.save(&name, &save)?;
            let bytes = fs::read(&file).map_err(Error::failed);
            let _ = fs::remove_file(&file);
            let bytes = bytes?;
            let count = bytes.len() as u64;
            node.keep(&id, bytes)?;
            Ok(count)
        };
        let bytes = self.agent.ask(kept).await?;
        let checkpoint = Checkpoint {
            id: self.id.clone(),
            keeper: at.host.clone(),
            bytes,
            saved_ms,
        };
        // One that goes elsewhere meanwhile is saved there.
        let told = Transaction::default()
            .as_seen(&view, order)
            .puts(own_key(&self.agent, &self.name), &checkpoint);
        match self.agent.store.commit(&told).await? {
            Outcome::Done(_) => Ok(()),
            Outcome::Changed => Err(Error::failed("it moves")),
        }
    }
}

/// A file of the agent's, by its path on this host.
fn file(agent: &Agent, name: &str) -> Result<PathBuf> {
    std::path::absolute(folder(&agent.paths).join(name)).map_err(Error::failed)
}

/// A host that keeps the state of guests.
struct Keeper {
    host: String,
    node: Client,
}

/// The host that keeps the state of a guest: one of the others that are up, always the same as long as they are. Without
/// any other, this one.
async fn choose(agent: &Agent, id: &str) -> Result<Keeper> {
    let mut view = View::default();
    agent.store.read(&mut view, Kind::Alive.folder()).await?;
    agent.store.read(&mut view, Kind::Host.folder()).await?;
    let own = &agent.host.name;
    let others = view.names(Kind::Alive).filter(|host| host != own);
    let others = others.filter(|host| view.host(host).is_some_and(|it| it.address.is_some()));
    let best = others.max_by_key(|host| crc32fast::hash(format!("{host}/{id}").as_bytes()));
    let host = best.unwrap_or(own).to_string();
    let node = node_of(agent, &view, &host)?;
    Ok(Keeper { host, node })
}

/// The node of a host.
fn node_of(agent: &Agent, view: &View, host: &str) -> Result<Client> {
    if host == agent.host.name {
        return Ok(agent.node.clone());
    }
    let address = view.host(host).and_then(|it| it.address);
    match (address, &agent.context.node_tls) {
        (Some(address), Some(files)) => Client::remote(&format!("https://{address}"), files),
        (None, _) => Err(Error::refused(format_args!("host {host} has no address"))),
        (_, None) => Err(Error::refused(
            "this host has no certificate to show to other nodes: `weir cluster join --tls-cert` gives it one",
        )),
    }
}

/// The key of what this host has of the saved state of a guest.
fn own_key(agent: &Agent, name: &str) -> String {
    keys::of_host(Kind::Checkpoint, &agent.host.name, name)
}

/// Has the node run a guest with the state of its last checkpoint, if it has one: this host's, or that of the order, of
/// this revision. A stopped guest is started with it. `lease`: that under which this was ordered.
pub async fn restore(
    agent: &Agent,
    name: &str,
    (order, revision): (&Order, i64),
    lease: i64,
) -> Result<bool> {
    let id = &order.id;
    let mut view = View::default();
    let key = own_key(agent, name);
    agent.store.read_key(&mut view, &key).await?;
    let own = view.get::<Checkpoint>(&key).filter(|it| it.id == *id);
    let own = own.filter(|_| view.revision_of(&key) > revision);
    let Some(checkpoint) = own.or_else(|| order.checkpoint.clone()) else {
        return Ok(false);
    };
    let at = &checkpoint.keeper;
    for kind in [Kind::Host, Kind::Alive] {
        agent.store.read_key(&mut view, &kind.of(at)).await?;
    }
    let lost = || Error::failed(format_args!("host {at}, which keeps it, does not answer"));
    view.alive(at).ok_or_else(lost)?;
    let keeper = node_of(agent, &view, at)?;
    let kept = id.clone();
    let fetched = agent.ask(move |_| keeper.kept(&kept));
    let bytes = timeout(FETCH, fetched).await.map_err(|_| lost())??;
    if !agent.may_start(lease) {
        return Err(Error::failed("the host's lease ended meanwhile"));
    }
    let file = file(agent, &format!("{id}.kept"))?;
    let restored = name.to_string();
    agent
        .ask(move |node| {
            write_private(&file, &bytes)?;
            let restore = Restore {
                file: file.clone(),
                name: None,
            };
            let done = node.restore(&restore);
            let _ = fs::remove_file(&file);
            done.map(drop).or_else(|error| match error.kind {
                // An earlier agent did it.
                ErrorKind::Exists if node.show::<node::model::Guest>(&restored).is_ok() => Ok(()),
                _ => Err(error),
            })
        })
        .await?;
    let age = now_ms().saturating_sub(checkpoint.saved_ms) / 1000;
    tracing::info!("guest {name} goes on with its state of {age} s ago");
    Ok(true)
}

/// Removes saved guests that this host keeps and that nobody needs, again and again.
pub async fn sweep(agent: &Agent) {
    loop {
        let mut view = View::default();
        let read = agent.store.read(&mut view, Kind::Checkpoint.folder()).await;
        if read.is_ok() {
            sweep_once(agent, &view);
        }
        tokio::time::sleep(SWEEP).await;
    }
}

fn sweep_once(agent: &Agent, view: &View) {
    let folder = kept::folder(&agent.paths);
    let checkpoints = view.names(Kind::Checkpoint);
    let needed = checkpoints.filter_map(|name| {
        let checkpoint = view.get::<Checkpoint>(&Kind::Checkpoint.of(name))?;
        (checkpoint.keeper == agent.host.name).then_some(checkpoint.id)
    });
    let needed: Vec<_> = needed.collect();
    for name in kept::names(&folder) {
        let path = folder.join(&name);
        let changed = fs::metadata(&path).and_then(|it| it.modified());
        // A new one is told of soon.
        let age = changed
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        if !needed.contains(&name) && age.is_some_and(|age| age > SWEEP) {
            let _ = fs::remove_file(path);
        }
    }
}
