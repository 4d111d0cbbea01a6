//! The store: answers requests, keeps watches, transactions and domains. It knows nothing of
//! sockets and rings.

mod administration;
mod nodes;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::connection::ConnectionId;
use crate::domain::{Domain, Quotas};
use crate::path::{ABSOLUTE_MAX, Path};
use crate::permission::{Actor, Permissions, READ};
use crate::transaction::{Change, Done, Transaction};
use crate::tree::{Lookup, Tree};
use crate::watch::{Event, Queue, Target, Watch, Watches};
use crate::wire::{DomainId, Errno, Header, Kind, PAYLOAD_MAX};

/// Most bytes of a watch's token: an event holds it and a path.
const TOKEN_MAX: usize = PAYLOAD_MAX - ABSOLUTE_MAX - 2;

struct Connection {
    domain: DomainId,
    watches: BTreeSet<(Target, Arc<[u8]>)>,
    transactions: HashMap<u32, Transaction>,
    /// The number of the last transaction.
    transaction: u32,
    events: Queue,
}

/// A special event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Introduce,
    Release,
}

impl Special {
    const fn name(self) -> &'static str {
        match self {
            Special::Introduce => "@introduceDomain",
            Special::Release => "@releaseDomain",
        }
    }

    /// The special event whose permissions `name` stands for.
    fn from_name(name: &[u8]) -> Option<Special> {
        let all = [Special::Introduce, Special::Release];
        all.into_iter()
            .find(|special| special.name().as_bytes() == name)
    }
}

/// The store.
pub struct Store {
    tree: Tree,
    /// The number of the last change.
    generation: u64,
    domains: HashMap<DomainId, Domain>,
    quotas: Quotas,
    watches: Watches,
    connections: HashMap<ConnectionId, Connection>,
    /// The number of the last connection.
    connection: u64,
    /// The permissions to watch each special event.
    special: [Permissions; 2],
    /// Connections for which an event came that had none.
    woken: Vec<ConnectionId>,
}

impl Default for Store {
    fn default() -> Store {
        Store::new(Quotas::default())
    }
}

impl Store {
    /// An empty store, whose guests have these quotas.
    pub fn new(quotas: Quotas) -> Store {
        Store {
            tree: Tree::new(),
            generation: 0,
            domains: HashMap::new(),
            quotas,
            watches: Watches::default(),
            connections: HashMap::new(),
            connection: 0,
            special: [Permissions::of_control(), Permissions::of_control()],
            woken: Vec::new(),
        }
    }

    /// Connects a client of `domain`.
    pub fn connect(&mut self, domain: DomainId) -> ConnectionId {
        self.connection += 1;
        let id = ConnectionId::new(self.connection);
        let connection = Connection {
            domain,
            watches: BTreeSet::new(),
            transactions: HashMap::new(),
            transaction: 0,
            events: Queue::default(),
        };
        self.connections.insert(id, connection);
        if domain != DomainId::CONTROL {
            let domain = self.domains.entry(domain).or_default();
            domain.connections.push(id);
        }
        id
    }

    /// Ends a connection, with its watches and transactions.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.forget_watches(id);
        self.forget_transactions(id);
        if let Some(connection) = self.connections.remove(&id)
            && let Some(domain) = self.domains.get_mut(&connection.domain)
        {
            domain.connections.retain(|other| *other != id);
        }
    }

    /// Answers a request: the kind of the reply, and its payload.
    pub fn request(&mut self, id: ConnectionId, header: Header, payload: &[u8]) -> (Kind, Vec<u8>) {
        let answer = match Kind::from_number(header.kind) {
            Some(kind) if payload.len() <= PAYLOAD_MAX => self
                .answer(id, kind, header.transaction, payload)
                .map(|reply| (kind, reply)),
            Some(_) => Err(Errno::EINVAL),
            None => Err(Errno::ENOSYS),
        };
        let checked = answer.and_then(|(kind, reply)| match reply.len() <= PAYLOAD_MAX {
            true => Ok((kind, reply)),
            false => Err(Errno::E2BIG),
        });
        checked.unwrap_or_else(|errno| (Kind::Error, [errno.name().as_bytes(), &[0]].concat()))
    }

    fn answer(
        &mut self,
        id: ConnectionId,
        kind: Kind,
        transaction: u32,
        payload: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let actor = self.actor(id).ok_or(Errno::EINVAL)?;
        match kind {
            Kind::Read
            | Kind::Directory
            | Kind::DirectoryPart
            | Kind::GetPerms
            | Kind::Write
            | Kind::Mkdir
            | Kind::Rm
            | Kind::SetPerms => {
                let mut taken = self.take_transaction(id, transaction)?;
                let reply = self.on_nodes(actor, taken.as_mut(), kind, payload);
                if let (Some(taken), Some(connection)) = (taken, self.connections.get_mut(&id)) {
                    connection.transactions.insert(transaction, taken);
                }
                reply
            }
            Kind::TransactionStart => self.start_transaction(id, actor, transaction),
            Kind::TransactionEnd => self.end_transaction(id, actor, transaction, payload),
            Kind::Watch => self.watch(id, actor, payload),
            Kind::Unwatch => self.unwatch(id, actor, payload),
            Kind::ResetWatches => {
                self.forget_watches(id);
                self.forget_transactions(id);
                Ok(ok())
            }
            _ => self.administer(actor, kind, payload),
        }
    }

    /// For whom a connection acts.
    fn actor(&self, id: ConnectionId) -> Option<Actor> {
        let domain = self.connections.get(&id)?.domain;
        let target = self.domains.get(&domain).and_then(|domain| domain.target);
        Some(Actor { domain, target })
    }

    fn quotas(&self, domain: DomainId) -> Quotas {
        let own = self.domains.get(&domain).and_then(|domain| domain.quotas);
        own.unwrap_or(self.quotas)
    }
}

fn ok() -> Vec<u8> {
    b"OK\0".to_vec()
}

/// Transactions.
impl Store {
    fn take_transaction(
        &mut self,
        id: ConnectionId,
        transaction: u32,
    ) -> Result<Option<Transaction>, Errno> {
        if transaction == 0 {
            return Ok(None);
        }
        let connection = self.connections.get_mut(&id).ok_or(Errno::EINVAL)?;
        let taken = connection.transactions.remove(&transaction);
        taken.map(Some).ok_or(Errno::ENOENT)
    }

    fn start_transaction(
        &mut self,
        id: ConnectionId,
        actor: Actor,
        transaction: u32,
    ) -> Result<Vec<u8>, Errno> {
        if transaction != 0 {
            return Err(Errno::EBUSY);
        }
        let quota = self.quotas(actor.domain).transactions;
        let domain = self.domains.entry(actor.domain).or_default();
        if !actor.is_privileged() && crate::domain::exceeds(domain.transactions + 1, quota) {
            return Err(Errno::ENOSPC);
        }
        domain.transactions += 1;
        let connection = self.connections.get_mut(&id).ok_or(Errno::EINVAL)?;
        loop {
            connection.transaction = connection.transaction.wrapping_add(1);
            let number = connection.transaction;
            if number != 0 && !connection.transactions.contains_key(&number) {
                connection
                    .transactions
                    .insert(number, Transaction::new(self.generation));
                self.tree.open();
                return Ok(format!("{number}\0").into_bytes());
            }
        }
    }

    fn end_transaction(
        &mut self,
        id: ConnectionId,
        actor: Actor,
        transaction: u32,
        payload: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let commit = match payload {
            b"T\0" => true,
            b"F\0" => false,
            _ => return Err(Errno::EINVAL),
        };
        let taken = self.take_transaction(id, transaction)?;
        let taken = taken.ok_or(Errno::ENOENT)?;
        self.count_transactions(actor.domain, 1);
        self.tree.close(1);
        if !commit {
            return Ok(ok());
        }
        if taken.conflicts(&self.tree) {
            return Err(Errno::EAGAIN);
        }
        if !actor.is_privileged() && self.owns_too_many(actor.domain, taken.owned) {
            return Err(Errno::ENOSPC);
        }
        let done: Vec<(Change, Done)> = taken
            .changes
            .into_iter()
            .map(|change| {
                let done = self.apply(&change);
                (change, done)
            })
            .collect();
        for (change, done) in &done {
            self.tell(change, done);
        }
        Ok(ok())
    }

    fn forget_transactions(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let (domain, forgotten) = (connection.domain, connection.transactions.len());
            connection.transactions.clear();
            self.tree.close(forgotten);
            self.count_transactions(domain, forgotten);
        }
    }

    /// `ended` transactions of a domain are over.
    fn count_transactions(&mut self, domain: DomainId, ended: usize) {
        if let Some(domain) = self.domains.get_mut(&domain) {
            domain.transactions = domain.transactions.saturating_sub(ended);
        }
    }
}

/// Watches and events.
impl Store {
    /// The next event that waits for a connection.
    pub fn next_event(&mut self, id: ConnectionId) -> Option<Event> {
        let connection = self.connections.get_mut(&id)?;
        let event = connection.events.next();
        if event.is_some() || !std::mem::take(&mut connection.events.overflowed) {
            return event;
        }
        for (target, token) in &connection.watches {
            let watches = self.watches.of(target).iter();
            for watch in watches.filter(|w| (w.connection, &w.token) == (id, token)) {
                connection.events.add_first(watch, target);
            }
        }
        connection.events.next()
    }

    /// Takes the connections for which events came since they had none.
    pub fn woken(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.woken)
    }

    fn watch(&mut self, id: ConnectionId, actor: Actor, payload: &[u8]) -> Result<Vec<u8>, Errno> {
        let strings = crate::wire::strings(payload).ok_or(Errno::EINVAL)?;
        let (target, token, depth) = match strings[..] {
            [target, token] => (target, token, None),
            [target, token, depth] => {
                let depth = crate::domain::number(depth).ok_or(Errno::EINVAL)?;
                (target, token, Some(depth))
            }
            _ => return Err(Errno::EINVAL),
        };
        if token.len() > TOKEN_MAX {
            return Err(Errno::EINVAL);
        }
        let (target, hidden) = watch_target(target, actor.domain)?;
        let quota = self.quotas(actor.domain).watches;
        let connection = self.connections.get_mut(&id).ok_or(Errno::EINVAL)?;
        let domain = self.domains.entry(actor.domain).or_default();
        if connection.watches.contains(&(target.clone(), token.into())) {
            return Err(Errno::EEXIST);
        }
        if !actor.is_privileged() && crate::domain::exceeds(domain.watches + 1, quota) {
            return Err(Errno::ENOSPC);
        }
        domain.watches += 1;
        let watch = Watch {
            connection: id,
            token: token.into(),
            depth,
            hidden,
        };
        connection
            .watches
            .insert((target.clone(), watch.token.clone()));
        // The first event comes at once: the client reads the present state.
        connection.events.add_first(&watch, &target);
        self.woken.push(id);
        self.watches.add(target, watch);
        Ok(ok())
    }

    fn unwatch(
        &mut self,
        id: ConnectionId,
        actor: Actor,
        payload: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let strings = crate::wire::strings(payload).ok_or(Errno::EINVAL)?;
        let [target, token] = strings[..] else {
            return Err(Errno::EINVAL);
        };
        let (target, _) = watch_target(target, actor.domain)?;
        let connection = self.connections.get_mut(&id).ok_or(Errno::EINVAL)?;
        if !connection.watches.remove(&(target.clone(), token.into())) {
            return Err(Errno::ENOENT);
        }
        self.watches.remove(&target, id, token);
        self.count_watches(actor.domain, 1);
        Ok(ok())
    }

    fn forget_watches(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let domain = connection.domain;
        let watches = std::mem::take(&mut connection.watches);
        connection.events = Queue::default();
        self.count_watches(domain, watches.len());
        for (target, token) in watches {
            self.watches.remove(&target, id, &token);
        }
    }

    /// `removed` watches of a domain are gone.
    fn count_watches(&mut self, domain: DomainId, removed: usize) {
        if let Some(domain) = self.domains.get_mut(&domain) {
            domain.watches = domain.watches.saturating_sub(removed);
        }
    }

    /// Queues the events of a change that was made.
    fn tell(&mut self, change: &Change, done: &Done) {
        let path = change.path();
        match change {
            Change::Make { .. } if done.made.is_empty() => return,
            Change::Remove { .. } if done.removed.is_empty() => return,
            _ => {}
        }
        let gone = done.removed.first().map(|removed| &removed.permissions);
        let former = gone.or(done.replaced.as_ref());
        let told: Vec<Watch> = self.watches.concerned(path).cloned().collect();
        for watch in told {
            if self.may_know(watch.connection, path, former) {
                self.send(&watch, path.as_str());
            }
        }
        // The removal of a node below concerns the watches of that node alone.
        for removed in done.removed.iter().skip(1) {
            let told = self.watches.of(removed.path.as_str()).to_vec();
            for watch in told {
                if self.may_know(watch.connection, &removed.path, Some(&removed.permissions)) {
                    self.send(&watch, removed.path.as_str());
                }
            }
        }
    }

    /// Whether a connection may learn of a change of a node that has, or had, `former` permissions:
    /// if it may read the node or its parent.
    fn may_know(&self, id: ConnectionId, path: &Path, former: Option<&Permissions>) -> bool {
        let Some(actor) = self.actor(id) else {
            return false;
        };
        let reads = |path: &Path| {
            let node = (&self.tree).get(path.as_str());
            node.is_some_and(|node| actor.may(READ, &node.permissions))
        };
        actor.is_privileged()
            || former.is_some_and(|permissions| actor.may(READ, permissions))
            || reads(path)
            || path.parent().is_some_and(|parent| reads(&parent))
    }

    fn send(&mut self, watch: &Watch, path: &str) {
        if let Some(connection) = self.connections.get_mut(&watch.connection)
            && connection.events.add(watch, path)
        {
            self.woken.push(watch.connection);
        }
    }

    /// Tells of a special event that concerns `domain`.
    fn tell_special(&mut self, special: Special, domain: DomainId) {
        let name = special.name();
        let with_domain = format!("{name}/{domain}");
        let permissions = self.special[special as usize].clone();
        let all = self.watches.of(name).iter();
        let told = all.chain(self.watches.of(&with_domain)).cloned();
        for watch in told.collect::<Vec<Watch>>() {
            let may = self
                .actor(watch.connection)
                .is_some_and(|actor| actor.may(READ, &permissions));
            if may {
                let path = match watch.depth {
                    Some(1) => &with_domain,
                    _ => name,
                };
                self.send(&watch, path);
            }
        }
    }
}

/// What a watch's path stands for, and how many bytes of it the client does not see.
fn watch_target(text: &[u8], domain: DomainId) -> Result<(Target, usize), Errno> {
    if let Some(name) = text.strip_prefix(b"@") {
        // The path of a node below the root cannot begin like this.
        let name = Path::parse(&[b"/", name].concat(), domain)?;
        return Ok((["@", &name.as_str()[1..]].concat().into(), 0));
    }
    let path = Path::parse(text, domain)?;
    let hidden = match text.starts_with(b"/") {
        true => 0,
        false => path.as_str().len() - text.len(),
    };
    Ok((path.as_str().into(), hidden))
}
