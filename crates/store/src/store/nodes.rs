//! Requests that read and change nodes, within a transaction or outside.

use super::{Special, Store, ok};
use crate::domain::{exceeds, number};
use crate::path::Path;
use crate::permission::{Access, Actor, Permissions, READ, WRITE};
use crate::transaction::{Change, Done, Edited, Looked, Transaction};
use crate::tree::{Lookup, Node};
use crate::wire::{DomainId, Errno, Kind, PAYLOAD_MAX, first_string, strings};

impl Store {
    /// Carries out a request on nodes.
    pub(super) fn on_nodes(
        &mut self,
        actor: Actor,
        transaction: Option<&mut Transaction>,
        kind: Kind,
        payload: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if let Some(transaction) = &transaction
            && !actor.is_privileged()
            && exceeds(
                transaction.accesses + 1,
                self.quotas(actor.domain).transaction_nodes,
            )
        {
            return Err(Errno::ENOSPC);
        }
        let (name, rest) = first_string(payload).ok_or(Errno::EINVAL)?;
        if let Some(special) = Special::from_name(name) {
            return self.on_special(actor, special, kind, rest);
        }
        let path = Path::parse(name, actor.domain)?;
        match kind {
            Kind::Read => {
                let node = self.readable(actor, transaction, &path)?;
                Ok(node.value.to_vec())
            }
            Kind::GetPerms => {
                let node = self.readable(actor, transaction, &path)?;
                Ok(node.permissions.show())
            }
            Kind::Directory => {
                let node = self.listed(actor, transaction, &path)?;
                Ok(listing(node))
            }
            Kind::DirectoryPart => {
                let offset = rest.strip_suffix(&[0]).and_then(number);
                let offset = offset.ok_or(Errno::EINVAL)?;
                let node = self.listed(actor, transaction, &path)?;
                Ok(listing_part(node, offset))
            }
            Kind::Write => {
                self.check_value(actor, rest)?;
                let change = Change::Write {
                    path,
                    value: rest.into(),
                    creator: actor.domain,
                };
                self.change(actor, transaction, change)
            }
            Kind::Mkdir => {
                let creator = actor.domain;
                self.change(actor, transaction, Change::Make { path, creator })
            }
            Kind::Rm => self.remove(actor, transaction, path),
            _ => {
                let permissions = self.parse_permissions(actor, rest)?;
                self.change(actor, transaction, Change::Permit { path, permissions })
            }
        }
    }

    /// A node that the actor may read.
    fn readable<'s>(
        &'s self,
        actor: Actor,
        transaction: Option<&'s mut Transaction>,
        path: &Path,
    ) -> Result<&'s Node, Errno> {
        match transaction {
            Some(transaction) => {
                transaction.touch(&self.tree, path);
                find(Looked(transaction, &self.tree), actor, path, READ)
            }
            None => find(&self.tree, actor, path, READ),
        }
    }

    /// A node whose children the actor may list.
    fn listed<'s>(
        &'s self,
        actor: Actor,
        mut transaction: Option<&'s mut Transaction>,
        path: &Path,
    ) -> Result<&'s Node, Errno> {
        if let Some(transaction) = &mut transaction {
            transaction.list(&self.tree, path);
        }
        self.readable(actor, transaction, path)
    }

    fn remove(
        &mut self,
        actor: Actor,
        mut transaction: Option<&mut Transaction>,
        path: Path,
    ) -> Result<Vec<u8>, Errno> {
        let parent = path.parent().ok_or(Errno::EINVAL)?;
        let (found, has_parent) = match &mut transaction {
            Some(transaction) => {
                transaction.touch(&self.tree, &path);
                found(Looked(transaction, &self.tree), actor, &path, &parent)
            }
            None => found(&self.tree, actor, &path, &parent),
        };
        match found {
            Ok(()) => self.change(actor, transaction, Change::Remove { path }),
            // The removal of a missing node is no error if its parent exists.
            Err(Errno::ENOENT) if has_parent => Ok(ok()),
            Err(errno) => Err(errno),
        }
    }

    /// Checks a change and makes it.
    fn change(
        &mut self,
        actor: Actor,
        transaction: Option<&mut Transaction>,
        change: Change,
    ) -> Result<Vec<u8>, Errno> {
        let path = change.path();
        let (made, owned) = match &transaction {
            Some(transaction) => {
                let made = check(Looked(transaction, &self.tree), actor, &change)?;
                (made, transaction.owned)
            }
            None => (check(&self.tree, actor, &change)?, 0),
        };
        if made > 0
            && !actor.is_privileged()
            && self.owns_too_many(actor.domain, owned + made as isize)
        {
            return Err(Errno::ENOSPC);
        }
        let Some(transaction) = transaction else {
            let done = self.apply(&change);
            self.tell(&change, &done);
            return Ok(ok());
        };
        transaction.touch(&self.tree, path);
        self.generation += 1;
        let done = change.apply(&mut Edited(transaction, &self.tree), self.generation);
        transaction.owned += change_of_owned(actor.domain, &change, &done);
        transaction.changes.push(change);
        Ok(ok())
    }

    /// Commits a change, and notes the owners of the nodes.
    pub(super) fn apply(&mut self, change: &Change) -> Done {
        self.generation += 1;
        self.tree.begin(self.generation);
        let done = change.apply(&mut self.tree, self.generation);
        for made in &done.made {
            self.own(made.permissions.owner(), &made.path);
        }
        for removed in &done.removed {
            self.disown(removed.permissions.owner(), &removed.path);
        }
        if let (Change::Permit { path, permissions }, Some(former)) = (change, &done.replaced) {
            self.disown(former.owner(), path);
            self.own(permissions.owner(), path);
        }
        done
    }

    fn own(&mut self, owner: DomainId, path: &Path) {
        if owner != DomainId::CONTROL {
            let domain = self.domains.entry(owner).or_default();
            domain.owned.insert(path.clone());
        }
    }

    fn disown(&mut self, owner: DomainId, path: &Path) {
        if let Some(domain) = self.domains.get_mut(&owner) {
            domain.owned.remove(path);
        }
    }

    /// Whether a domain would own more nodes than it may, with `more` than now.
    pub(super) fn owns_too_many(&self, domain: DomainId, more: isize) -> bool {
        let owned = self.domains.get(&domain).map_or(0, |d| d.owned.len());
        exceeds(owned.saturating_add_signed(more), self.quotas(domain).nodes)
    }

    fn check_value(&self, actor: Actor, value: &[u8]) -> Result<(), Errno> {
        let quota = self.quotas(actor.domain).node_size;
        match !actor.is_privileged() && exceeds(value.len(), quota) {
            true => Err(Errno::ENOSPC),
            false => Ok(()),
        }
    }

    fn parse_permissions(&self, actor: Actor, rest: &[u8]) -> Result<Permissions, Errno> {
        let texts = strings(rest).ok_or(Errno::EINVAL)?;
        let permissions = Permissions::parse(&texts)?;
        let quota = self.quotas(actor.domain).permissions;
        match !actor.is_privileged() && exceeds(permissions.len(), quota) {
            true => Err(Errno::ENOSPC),
            false => Ok(permissions),
        }
    }

    /// Shows or sets the permissions to watch a special event.
    fn on_special(
        &mut self,
        actor: Actor,
        special: Special,
        kind: Kind,
        rest: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if !actor.is_privileged() {
            return Err(Errno::EACCES);
        }
        match kind {
            Kind::GetPerms => Ok(self.special[special as usize].show()),
            Kind::SetPerms => {
                self.special[special as usize] = self.parse_permissions(actor, rest)?;
                Ok(ok())
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The node at `path`, if the actor may do there what `wanted` says. Of a missing node learns who
/// may do so with the nearest one above it.
fn find<'t>(
    nodes: impl Lookup<'t>,
    actor: Actor,
    path: &Path,
    wanted: Access,
) -> Result<&'t Node, Errno> {
    let found = nodes.get(path.as_str());
    // There is always the root.
    let node = found.or_else(|| nodes.nearest(path).1);
    match node.is_some_and(|node| actor.may(wanted, &node.permissions)) {
        false => Err(Errno::EACCES),
        true => found.ok_or(Errno::ENOENT),
    }
}

/// Whether a node is there that the actor may remove, and whether its parent is.
fn found<'t>(
    nodes: impl Lookup<'t>,
    actor: Actor,
    path: &Path,
    parent: &Path,
) -> (Result<(), Errno>, bool) {
    let found = find(nodes, actor, path, WRITE).map(|_| ());
    (found, nodes.get(parent.as_str()).is_some())
}

/// Whether the actor may make a change; how many nodes it makes.
fn check<'t>(nodes: impl Lookup<'t>, actor: Actor, change: &Change) -> Result<usize, Errno> {
    let path = change.path();
    match (change, find(nodes, actor, path, WRITE)) {
        (Change::Permit { permissions, .. }, Ok(node)) => {
            if !actor.owns(&node.permissions) {
                return Err(Errno::EACCES);
            }
            if !actor.is_privileged() && permissions.owner() != node.permissions.owner() {
                return Err(Errno::EPERM);
            }
            Ok(0)
        }
        (_, Ok(_)) => Ok(0),
        (Change::Write { .. } | Change::Make { .. }, Err(Errno::ENOENT)) => {
            let (nearest, _) = nodes.nearest(path);
            Ok(crate::path::levels_below(nearest, path))
        }
        (_, Err(errno)) => Err(errno),
    }
}

/// By how many nodes a change makes `domain` own more.
fn change_of_owned(domain: DomainId, change: &Change, done: &Done) -> isize {
    let owned = |nodes: &[crate::tree::Changed]| {
        let owned = nodes
            .iter()
            .filter(|node| node.permissions.owner() == domain);
        owned.count() as isize
    };
    let mut more = owned(&done.made) - owned(&done.removed);
    if let (Change::Permit { permissions, .. }, Some(former)) = (change, &done.replaced) {
        more += isize::from(permissions.owner() == domain);
        more -= isize::from(former.owner() == domain);
    }
    more
}

/// The children's names, each with a zero byte; more than a payload holds is cut.
fn listing(node: &Node) -> Vec<u8> {
    let mut list = Vec::new();
    for name in node.list() {
        list.extend_from_slice(name.as_bytes());
        list.push(0);
        if list.len() > PAYLOAD_MAX {
            break;
        }
    }
    list
}

/// The number of the last change of the list of children, then as much of the list from byte
/// `offset` on as a payload holds; an empty name marks its end.
fn listing_part(node: &Node, offset: usize) -> Vec<u8> {
    let mut part = format!("{}\0", node.listing).into_bytes();
    let mut at = 0;
    for name in node.list() {
        let end = at + name.len() + 1;
        if at >= offset {
            if part.len() + name.len() + 2 > PAYLOAD_MAX {
                return part;
            }
            part.extend_from_slice(name.as_bytes());
            part.push(0);
        }
        at = end;
    }
    part.push(0);
    part
}
