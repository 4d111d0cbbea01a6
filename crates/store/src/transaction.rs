//! Changes of the tree, and transactions: groups of changes that are made together or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use crate::path::Path;
use crate::permission::Permissions;
use crate::tree::{Changed, Edit, Lookup, Node, Tree};
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
    pub fn apply(&self, tree: &mut impl Edit, generation: u64) -> Done {
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

/// A transaction: what it changed, beside the nodes as they were when it began.
pub struct Transaction {
    /// The number of the last change before it.
    start: u64,
    /// The nodes as it sees them, where it changed them.
    own: HashMap<Path, Own>,
    /// Whether some of those hide nodes that were below.
    hides: bool,
    /// What it depends on.
    seen: HashMap<Path, Seen>,
    /// Its changes, in order.
    pub changes: Vec<Change>,
    /// Nodes that its domain owns more than when it began, or fewer.
    pub owned: isize,
    /// How often it read, listed or changed a node.
    pub accesses: usize,
}

/// What a transaction made of a node.
enum Own {
    /// It has changed it.
    Changed(Node),
    /// It has made it: nothing is below but what it made.
    Made(Node),
    /// It has removed it, with all below.
    Removed,
}

impl Own {
    fn node(&self) -> Option<&Node> {
        match self {
            Own::Changed(node) | Own::Made(node) => Some(node),
            Own::Removed => None,
        }
    }
}

/// How a node was when the transaction saw it first; `None` if it was missing.
struct Seen {
    generation: Option<u64>,
    listing: Option<u64>,
    /// Whether it depends on the node.
    read: bool,
    /// Whether it depends on the children.
    listed: bool,
}

impl Transaction {
    /// A transaction that begins after the change of a number.
    pub fn new(start: u64) -> Transaction {
        Transaction {
            start,
            own: HashMap::new(),
            hides: false,
            seen: HashMap::new(),
            changes: Vec::new(),
            owned: 0,
            accesses: 0,
        }
    }

    /// Takes note that a node is read or changed. If it is missing, what can be done depends on the
    /// nearest node above it.
    pub fn touch(&mut self, tree: &Tree, path: &Path) {
        self.accesses += 1;
        if self.seen.get(path).is_some_and(|seen| seen.read) {
            return;
        }
        self.see(tree, path.clone()).read = true;
        let view = Looked(self, tree);
        if view.get(path.as_str()).is_none() {
            let (nearest, _) = view.nearest(path);
            let missing = path.lineage().skip_while(|above| *above != nearest).take(2);
            for path in missing.map(Path::known) {
                self.see(tree, path).read = true;
            }
        }
    }

    /// Takes note that a node's children are listed.
    pub fn list(&mut self, tree: &Tree, path: &Path) {
        self.see(tree, path.clone()).listed = true;
    }

    fn see(&mut self, tree: &Tree, path: Path) -> &mut Seen {
        let start = self.start;
        self.seen.entry(path).or_insert_with_key(|path| {
            let node = tree.as_of(start, path.as_str());
            Seen {
                generation: node.map(|node| node.generation),
                listing: node.map(|node| node.listing),
                read: false,
                listed: false,
            }
        })
    }

    /// Whether another client changed a node that the transaction depends on, so that it must be
    /// tried again.
    pub fn conflicts(&self, now: &Tree) -> bool {
        self.seen.iter().any(|(path, seen)| {
            let node = now.get(path.as_str());
            (seen.read && node.map(|node| node.generation) != seen.generation)
                || (seen.listed && node.map(|node| node.listing) != seen.listing)
        })
    }
}

/// The nodes as a transaction sees them.
#[derive(Clone, Copy)]
pub struct Looked<'t>(pub &'t Transaction, pub &'t Tree);

impl<'t> Lookup<'t> for Looked<'t> {
    fn get(self, path: &str) -> Option<&'t Node> {
        let Looked(transaction, tree) = self;
        if let Some(own) = transaction.own.get(path) {
            return own.node();
        }
        if transaction.hides {
            let above = path.match_indices('/').map(|(at, _)| &path[..at]);
            let hides = |above| {
                let own = transaction.own.get(above);
                own.is_some_and(|own| !matches!(own, Own::Changed(_)))
            };
            if above.into_iter().any(hides) {
                return None;
            }
        }
        tree.as_of(transaction.start, path)
    }
}

/// A transaction that changes nodes, for itself.
pub struct Edited<'t>(pub &'t mut Transaction, pub &'t Tree);

impl Edit for Edited<'_> {
    fn get_mut(&mut self, path: &Path) -> Option<&mut Node> {
        let Edited(transaction, tree) = self;
        if !transaction.own.contains_key(path) {
            let node = Looked(transaction, tree).get(path.as_str())?.clone();
            // Later reads see the node as it is now.
            transaction.see(tree, path.clone());
            transaction.own.insert(path.clone(), Own::Changed(node));
        }
        match transaction.own.get_mut(path)? {
            Own::Changed(node) | Own::Made(node) => Some(node),
            Own::Removed => None,
        }
    }

    fn insert(&mut self, path: Path, node: Node) {
        self.0.hides = true;
        self.0.own.insert(path, Own::Made(node));
    }

    fn take(&mut self, path: &Path) -> Option<Node> {
        let Edited(transaction, tree) = self;
        let node = Looked(transaction, tree).get(path.as_str())?.clone();
        transaction.hides = true;
        transaction.own.insert(path.clone(), Own::Removed);
        Some(node)
    }
}
