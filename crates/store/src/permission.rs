//! Permissions of a node: which domains may read and write it.

use std::sync::Arc;

use crate::wire::{DomainId, Errno};

/// What a domain may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read the value and the children's names.
    pub read: bool,
    /// Write the value, make children, remove the node.
    pub write: bool,
}

impl Access {
    /// Whether it includes `other`.
    fn includes(self, other: Access) -> bool {
        (self.read || !other.read) && (self.write || !other.write)
    }
}

/// To read.
pub const READ: Access = Access {
    read: true,
    write: false,
};
/// To write.
pub const WRITE: Access = Access {
    read: false,
    write: true,
};

/// One entry: what a domain may do. The first entry of a node names its owner, which may do
/// everything; its access is that of all domains without an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    domain: DomainId,
    access: Access,
}

/// The entries of a node, the owner's first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions(Arc<[Entry]>);

impl Permissions {
    /// Permissions of a node of the control domain that no other domain may read or write.
    pub fn of_control() -> Permissions {
        let access = Access {
            read: false,
            write: false,
        };
        let domain = DomainId::CONTROL;
        Permissions(Arc::new([Entry { domain, access }]))
    }

    /// The entries that strings such as `b7` denote, one at least.
    pub fn parse(texts: &[&[u8]]) -> Result<Permissions, Errno> {
        let entry = |text: &&[u8]| {
            let (letter, domain) = text.split_first()?;
            let (read, write) = match letter {
                b'n' => (false, false),
                b'r' => (true, false),
                b'w' => (false, true),
                b'b' => (true, true),
                _ => return None,
            };
            Some(Entry {
                domain: DomainId::parse(domain)?,
                access: Access { read, write },
            })
        };
        let entries: Option<Arc<[Entry]>> = texts.iter().map(entry).collect();
        let entries = entries.filter(|entries| !entries.is_empty());
        entries.map(Permissions).ok_or(Errno::EINVAL)
    }

    /// Its strings, each with a zero byte.
    pub fn show(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for Entry { domain, access } in self.0.iter() {
            let letter = match (access.read, access.write) {
                (false, false) => 'n',
                (true, false) => 'r',
                (false, true) => 'w',
                (true, true) => 'b',
            };
            text.extend(format!("{letter}{domain}\0").into_bytes());
        }
        text
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The owner.
    pub fn owner(&self) -> DomainId {
        self.0
            .first()
            .map_or(DomainId::CONTROL, |entry| entry.domain)
    }

    /// Permissions of a child that `creator` makes: a guest owns the nodes that it makes.
    pub fn inherited(&self, creator: DomainId) -> Permissions {
        if creator == DomainId::CONTROL || creator == self.owner() {
            return self.clone();
        }
        let mut entries: Arc<[Entry]> = self.0.clone();
        for entry in Arc::make_mut(&mut entries).iter_mut().take(1) {
            entry.domain = creator;
        }
        Permissions(entries)
    }

    /// Whether `domain` may do what `wanted` says.
    pub fn allow(&self, domain: DomainId, wanted: Access) -> bool {
        if domain == DomainId::CONTROL || domain == self.owner() {
            return true;
        }
        let own = self.0.iter().skip(1).find(|entry| entry.domain == domain);
        let entry = own.or(self.0.first());
        entry.is_some_and(|entry| entry.access.includes(wanted))
    }
}

/// The domains for which a connection acts: its own and, if it has one, its target.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// Its own.
    pub domain: DomainId,
    /// The domain that it acts for, too.
    pub target: Option<DomainId>,
}

impl Actor {
    /// Whether it may do everything.
    pub fn is_privileged(self) -> bool {
        self.domain == DomainId::CONTROL
    }

    /// Whether it may do what `wanted` says where `permissions` are.
    pub fn may(self, wanted: Access, permissions: &Permissions) -> bool {
        let target = || {
            self.target
                .is_some_and(|target| permissions.allow(target, wanted))
        };
        permissions.allow(self.domain, wanted) || target()
    }

    /// Whether it owns a node with these permissions, or may act as if it did.
    pub fn owns(self, permissions: &Permissions) -> bool {
        let owner = permissions.owner();
        self.is_privileged() || owner == self.domain || Some(owner) == self.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(texts: &[&str]) -> Permissions {
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        Permissions::parse(&texts).unwrap()
    }

    #[test]
    fn the_first_entry_is_the_owners_and_everybodys() {
        let node = permissions(&["r3", "b5", "n6"]);
        assert_eq!(node.show(), b"r3\0b5\0n6\0");
        let may = |domain| {
            let domain = DomainId(domain);
            (node.allow(domain, READ), node.allow(domain, WRITE))
        };
        assert_eq!(may(0), (true, true));
        assert_eq!(may(3), (true, true));
        assert_eq!(may(4), (true, false));
        assert_eq!(may(5), (true, true));
        assert_eq!(may(6), (false, false));
    }

    #[test]
    fn a_guest_owns_what_it_makes() {
        let parent = permissions(&["n0", "b5"]);
        assert_eq!(parent.inherited(DomainId(5)).show(), b"n5\0b5\0");
        assert_eq!(parent.inherited(DomainId(0)), parent);
    }

    #[test]
    fn a_target_lends_its_rights() {
        let node = permissions(&["n3", "r4"]);
        let target = Some(DomainId(3));
        let actor = Actor {
            domain: DomainId(9),
            target,
        };
        assert!(actor.may(WRITE, &node) && actor.owns(&node));
        let target = Some(DomainId(4));
        let actor = Actor { target, ..actor };
        assert!(actor.may(READ, &node) && !actor.may(WRITE, &node) && !actor.owns(&node));
    }

    #[test]
    fn wrong_entries_are_refused() {
        for text in ["", "x1", "r", "r70000", "r-1", "1"] {
            assert_eq!(Permissions::parse(&[text.as_bytes()]), Err(Errno::EINVAL));
        }
        assert_eq!(Permissions::parse(&[]), Err(Errno::EINVAL));
    }
}
