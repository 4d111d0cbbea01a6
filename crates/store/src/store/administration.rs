//! Requests about domains, quotas and the server itself.

use super::{Special, Store, ok};
use crate::domain::{QUOTAS, number};
use crate::path::Path;
use crate::permission::Actor;
use crate::transaction::Change;
use crate::wire::{DomainId, Errno, Kind, strings};

/// What the server can do beyond the basic protocol: watches may have a depth.
const FEATURES: u32 = 4;

impl Store {
    pub(super) fn administer(
        &mut self,
        actor: Actor,
        kind: Kind,
        payload: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let strings = match payload {
            b"" => Vec::new(),
            _ => strings(payload).ok_or(Errno::EINVAL)?,
        };
        if kind == Kind::GetDomainPath {
            let path = Path::of_domain(domain(strings.first())?);
            return Ok(format!("{path}\0").into_bytes());
        }
        if kind == Kind::GetFeature && matches!(strings[..], [] | [b""]) {
            return Ok(format!("{FEATURES}\0").into_bytes());
        }
        if !actor.is_privileged() {
            return Err(Errno::EACCES);
        }
        match kind {
            Kind::Introduce => {
                let guest = domain(strings.first())?;
                if strings.len() < 3 || !guest.is_guest() {
                    return Err(Errno::EINVAL);
                }
                self.introduce(guest);
            }
            Kind::Release => self.release(self.introduced(strings.first())?),
            Kind::IsDomainIntroduced => {
                let id = domain(strings.first())?;
                let there = id == DomainId::CONTROL || self.is_introduced(id);
                return Ok(if there {
                    b"T\0".to_vec()
                } else {
                    b"F\0".to_vec()
                });
            }
            Kind::Resume => {
                self.introduced(strings.first())?;
            }
            Kind::SetTarget => {
                let guest = self.introduced(strings.first())?;
                let target = self.introduced(strings.get(1))?;
                self.set_target(guest, Some(target));
            }
            Kind::GetFeature => {
                domain(strings.first())?;
                return Ok(format!("{FEATURES}\0").into_bytes());
            }
            Kind::GetQuota => return self.get_quota(&strings),
            Kind::SetQuota => self.set_quota(&strings)?,
            Kind::Control => return self.control(&strings),
            _ => return Err(Errno::ENOSYS),
        }
        Ok(ok())
    }

    fn is_introduced(&self, id: DomainId) -> bool {
        self.domains
            .get(&id)
            .is_some_and(|domain| domain.introduced)
    }

    /// The introduced domain that a string names.
    fn introduced(&self, text: Option<&&[u8]>) -> Result<DomainId, Errno> {
        let id = domain(text)?;
        self.is_introduced(id).then_some(id).ok_or(Errno::ENOENT)
    }

    /// A guest is there.
    pub fn introduce(&mut self, guest: DomainId) {
        let domain = self.domains.entry(guest).or_default();
        if !std::mem::replace(&mut domain.introduced, true) {
            self.tell_special(Special::Introduce, guest);
        }
    }

    /// A guest is gone: ends its connections, and removes the nodes that it owns.
    pub fn release(&mut self, guest: DomainId) {
        while let Some(domain) = self.domains.get(&guest)
            && let Some(id) = domain.connections.last().copied()
        {
            self.disconnect(id);
        }
        // Parents come before their children, which go with them.
        while let Some(domain) = self.domains.get(&guest)
            && let Some(path) = domain.owned.first().cloned()
        {
            let change = Change::Remove { path };
            let done = self.apply(&change);
            if done.removed.is_empty() {
                // The root, which stays.
                self.domains.entry(guest).or_default().owned.pop_first();
            }
            self.tell(&change, &done);
        }
        self.set_target(guest, None);
        let Some(domain) = self.domains.remove(&guest) else {
            return;
        };
        for other in domain.target_of {
            if let Some(other) = self.domains.get_mut(&other) {
                other.target = None;
            }
        }
        if domain.introduced {
            self.tell_special(Special::Release, guest);
        }
    }

    fn set_target(&mut self, guest: DomainId, target: Option<DomainId>) {
        let Some(domain) = self.domains.get_mut(&guest) else {
            return;
        };
        let former = std::mem::replace(&mut domain.target, target);
        if let Some(former) = former.and_then(|former| self.domains.get_mut(&former)) {
            former.target_of.retain(|other| *other != guest);
        }
        if let Some(target) = target {
            let target = self.domains.entry(target).or_default();
            target.target_of.push(guest);
        }
    }

    fn get_quota(&mut self, strings: &[&[u8]]) -> Result<Vec<u8>, Errno> {
        let (mut quotas, name) = match strings {
            [] => return Ok(format!("{}\0", QUOTAS.join(" ")).into_bytes()),
            [name] => (self.quotas, name),
            [id, name] => (self.quotas(domain(Some(id))?), name),
            _ => return Err(Errno::EINVAL),
        };
        let quota = quotas.get_mut(name).ok_or(Errno::EINVAL)?;
        Ok(format!("{quota}\0").into_bytes())
    }

    fn set_quota(&mut self, strings: &[&[u8]]) -> Result<(), Errno> {
        let (id, name, value) = match strings {
            [name, value] => (None, name, value),
            [id, name, value] => (Some(domain(Some(id))?), name, value),
            _ => return Err(Errno::EINVAL),
        };
        let value = number(value).ok_or(Errno::EINVAL)?;
        let mut quotas = id.map_or(self.quotas, |id| self.quotas(id));
        *quotas.get_mut(name).ok_or(Errno::EINVAL)? = value;
        match id {
            Some(id) => self.domains.entry(id).or_default().quotas = Some(quotas),
            None => self.quotas = quotas,
        }
        Ok(())
    }

    /// What `xenstore-control` asks for. The answers are for people.
    fn control(&mut self, strings: &[&[u8]]) -> Result<Vec<u8>, Errno> {
        let text = match strings {
            [b"help"] => "check, help, quota\n".to_string(),
            [b"check"] => self.check(),
            [b"quota"] => {
                let mut quotas = self.quotas;
                let shown = QUOTAS.iter().map(|name| {
                    let value = quotas.get_mut(name.as_bytes());
                    format!("{name}: {}\n", value.copied().unwrap_or(0))
                });
                shown.collect()
            }
            [b"quota", b"set", name, value] => {
                self.set_quota(&[name, value])?;
                return Ok(ok());
            }
            [b"quota", id] => {
                let id = domain(Some(id))?;
                let none = Default::default();
                let domain = self.domains.get(&id).unwrap_or(&none);
                format!(
                    "nodes: {}\nwatches: {}\ntransactions: {}\n",
                    domain.owned.len(),
                    domain.watches,
                    domain.transactions
                )
            }
            _ => return Err(Errno::EINVAL),
        };
        Ok([text.as_bytes(), &[0]].concat())
    }

    /// Compares the domains' records with the nodes.
    fn check(&self) -> String {
        let nodes = self.tree.all();
        let guests = nodes
            .iter()
            .filter(|n| n.permissions.owner() != DomainId::CONTROL);
        let noted = |node: &&crate::tree::Changed| {
            let owner = self.domains.get(&node.permissions.owner());
            owner.is_some_and(|owner| owner.owned.contains(&node.path))
        };
        let (owned, missing): (Vec<_>, Vec<_>) = guests.partition(noted);
        let all: usize = self.domains.values().map(|domain| domain.owned.len()).sum();
        format!(
            "{} nodes, {} domains, {} nodes without a note of their owner, {} notes without a \
             node\n",
            nodes.len(),
            self.domains.len(),
            missing.len(),
            all - owned.len(),
        )
    }
}

/// The domain that a string names.
fn domain(text: Option<&&[u8]>) -> Result<DomainId, Errno> {
    let parsed = text.and_then(|text| DomainId::parse(text));
    parsed.ok_or(Errno::EINVAL)
}
