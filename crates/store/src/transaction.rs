//! Changes of the tree, and transactions: changes that are made together or not at all.

use std::collections::HashSet;
use std::sync::Arc;

use crate::path::Path;
use crate::permission::Permissions;
use crate::tree::{Changed, Tree};
use crate::wire::DomainId;

/// A change of one node.
pub enum Change {
    /// Sets the value; makes the node if it is missing.
    Write {
        /// The node.
        path: Path,
        /// Its value.
        value: Arc<[u8]>,
        /// Whose the node is if it is made.
        creator: DomainId,
    },
    /// Makes the node if it is missing.
    Make {
        /// The node.
        path: Path,
        /// Whose it is.
        creator: DomainId,
    },
    /// Removes the node and those below it.
    Remove {
        /// The node.
        path: Path,
    },
    /// Sets the permissions of a node that exists.
    Permit {
        /// The node.
        path: Path,
        /// Its permissions.
        permissions: Permissions,
    },
}

/// What a change did.
#[derive(Default)]
pub struct Done {
    /// Nodes that were made, parents first.
    pub made: Vec<Changed>,
    /// Nodes that were removed, parents first.
    pub removed: Vec<Changed>,
    /// The permissions that were replaced.
    pub replaced: Option<Permissions>,
}

impl Change {
    /// The node that it is about.
    pub fn path(&self) -> &Path {
        match self {
            Change::Write { path, .. }
            | Change::Make { path, .. }
            | Change::Remove { path }
            | Change::Permit { path, .. } => path,
        }
    }

    /// Makes the change, as number `generation` of all.
    pub fn apply(&self, tree: &mut Tree, generation: u64) -> Done {
        let mut done = Done::default();
        match self {
            Change::Write {
                path,
                value,
                creator,
            } => {
                if !tree.set_value(path, value.clone(), generation) {
                    done.made = tree.make(path, *creator, generation);
                    tree.set_value(path, value.clone(), generation);
                }
            }
            Change::Make { path, creator } => done.made = tree.make(path, *creator, generation),
            Change::Remove { path } => done.removed = tree.remove(path, generation),
            Change::Permit { path, permissions } => {
                done.replaced = tree.set_permissions(path, permissions.clone(), generation);
            }
        }
        done
    }
}

/// A transaction.
pub struct Transaction {
    /// The nodes as they were when it began.
    base: Tree,
    /// The nodes as it sees them.
    pub tree: Tree,
    /// Nodes that it read or changed, or found missing.
    touched: HashSet<Path>,
    /// Nodes whose children it listed.
    listed: HashSet<Path>,
    /// Its changes, in order.
    pub changes: Vec<Change>,
    /// Nodes that its domain owns more than when it began, or fewer.
    pub owned: isize,
    /// How often it read, listed or changed a node.
    pub accesses: usize,
}

impl Transaction {
    /// A transaction that begins with the nodes of `base`.
    pub fn new(base: &Tree) -> Transaction {
        Transaction {
            base: base.clone(),
            tree: base.clone(),
            touched: HashSet::new(),
            listed: HashSet::new(),
            changes: Vec::new(),
            owned: 0,
            accesses: 0,
        }
    }

    /// Takes note that a node is read or changed. If it is missing, what can be done depends on the
    /// nearest node above it.
    pub fn touch(&mut self, path: &Path) {
        self.accesses += 1;
        if self.touched.contains(path) {
            return;
        }
        self.touched.insert(path.clone());
        if self.tree.get(path).is_none() {
            let (nearest, _) = self.tree.nearest(path);
            let missing = path.lineage().skip_while(|above| *above != nearest).take(2);
            self.touched.extend(missing.map(Path::known));
        }
    }

    /// Takes note that a node's children are listed.
    pub fn list(&mut self, path: &Path) {
        self.listed.insert(path.clone());
    }

    /// Whether somebody else changed what it depends on, so that it has to be tried again.
    pub fn conflicts(&self, now: &Tree) -> bool {
        let changed = |path: &Path| {
            let generation = |tree: &Tree| tree.get(path).map(|node| node.generation);
            generation(&self.base) != generation(now)
        };
        let listed = |path: &Path| {
            let listing = |tree: &Tree| tree.get(path).map(|node| node.listing);
            listing(&self.base) != listing(now)
        };
        self.touched.iter().any(changed) || self.listed.iter().any(listed)
    }
}
