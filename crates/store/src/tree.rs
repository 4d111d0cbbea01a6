//! The nodes: one table by their paths, so that the cost to reach a node does not grow with their
//! number.
//!
//! Open transactions see the nodes as they were when they began. The former values of changed nodes
//! are kept for them, up to a limit, until the last transaction ends.

use std::collections::HashMap;
use std::sync::Arc;

use imbl::OrdSet;

use crate::path::Path;
use crate::permission::Permissions;
use crate::wire::DomainId;

/// Most versions of nodes that are kept for transactions.
const VERSIONS_MAX: usize = 1 << 14;

/// A node.
#[derive(Clone)]
pub struct Node {
    /// Its value.
    pub value: Arc<[u8]>,
    /// Its permissions.
    pub permissions: Permissions,
    /// When it was made, or its value or permissions last set. Every change has another number.
    pub generation: u64,
    /// When a child was last made or removed.
    pub listing: u64,
    /// The children's names. A copy costs the same however many there are.
    children: OrdSet<Arc<str>>,
}

impl Node {
    fn new(permissions: Permissions, generation: u64) -> Node {
        Node {
            value: Arc::new([]),
            permissions,
            generation,
            listing: generation,
            children: OrdSet::new(),
        }
    }

    /// The children's names, in order.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.children.iter().map(|name| &**name)
    }

    /// Whether nothing of it was changed after a change.
    fn is_as_of(&self, generation: u64) -> bool {
        self.generation.max(self.listing) <= generation
    }
}

/// A node that was made or removed.
pub struct Changed {
    /// Its path.
    pub path: Path,
    /// Its permissions.
    pub permissions: Permissions,
}

/// Where nodes are looked up.
pub trait Lookup<'t>: Copy {
    /// The node at a path.
    fn get(self, path: &str) -> Option<&'t Node>;

    /// The nearest node that exists on the way to `path`, and its path.
    fn nearest<'p>(self, path: &'p Path) -> (&'p str, Option<&'t Node>) {
        let mut lineage: Vec<&str> = path.lineage().collect();
        while let Some(path) = lineage.pop() {
            if let Some(node) = self.get(path) {
                return (path, Some(node));
            }
        }
        ("/", None)
    }
}

/// Where nodes are changed.
pub trait Edit {
    /// The node at a path, to be changed.
    fn get_mut(&mut self, path: &Path) -> Option<&mut Node>;

    /// Adds a node where there is none.
    fn insert(&mut self, path: Path, node: Node);

    /// Removes a node, but not those below it.
    fn take(&mut self, path: &Path) -> Option<Node>;

    /// Makes the nodes on the way to `path` that are missing, and `path` itself. They inherit their
    /// parents' permissions. Returns the nodes made.
    fn make(&mut self, path: &Path, creator: DomainId, generation: u64) -> Vec<Changed> {
        let mut missing = Vec::new();
        let mut nearest = path.clone();
        while self.get_mut(&nearest).is_none() {
            let Some(parent) = nearest.parent() else {
                return Vec::new();
            };
            missing.push(std::mem::replace(&mut nearest, parent));
        }
        let mut made = Vec::with_capacity(missing.len());
        for path in missing.into_iter().rev() {
            let Some(parent) = self.get_mut(&nearest) else {
                break;
            };
            let permissions = parent.permissions.inherited(creator);
            parent.children.insert(path.name().into());
            parent.listing = generation;
            self.insert(path.clone(), Node::new(permissions.clone(), generation));
            nearest.clone_from(&path);
            made.push(Changed { path, permissions });
        }
        made
    }

    /// Sets a node's value; returns whether it exists.
    fn set_value(&mut self, path: &Path, value: Arc<[u8]>, generation: u64) -> bool {
        let node = self.get_mut(path);
        node.map(|node| (node.value, node.generation) = (value, generation))
            .is_some()
    }

    /// Sets a node's permissions; returns its former ones.
    fn set_permissions(
        &mut self,
        path: &Path,
        permissions: Permissions,
        generation: u64,
    ) -> Option<Permissions> {
        let node = self.get_mut(path)?;
        node.generation = generation;
        Some(std::mem::replace(&mut node.permissions, permissions))
    }

    /// Removes a node and those below it, but not the root; returns them, parents first.
    fn remove(&mut self, path: &Path, generation: u64) -> Vec<Changed> {
        let mut removed = Vec::new();
        let Some(parent) = path.parent() else {
            return removed;
        };
        let mut rest = vec![path.clone()];
        while let Some(path) = rest.pop() {
            if let Some(node) = self.take(&path) {
                let below = node.children.iter().rev();
                rest.extend(below.map(|name| path.child(name)));
                let permissions = node.permissions;
                removed.push(Changed { path, permissions });
            }
        }
        if !removed.is_empty()
            && let Some(parent) = self.get_mut(&parent)
        {
            parent.children.remove(path.name());
            parent.listing = generation;
        }
        removed
    }
}

/// The nodes of all.
pub struct Tree {
    nodes: HashMap<Path, Node>,
    versions: Versions,
}

/// Nodes as they were, for the transactions that are open.
#[derive(Default)]
struct Versions {
    /// Transactions that are open.
    open: usize,
    /// The number of the last change.
    generation: u64,
    /// What nodes were, each before the change of a number, in their order.
    kept: HashMap<Path, Vec<(u64, Option<Node>)>>,
    count: usize,
    /// Values before this change are not kept.
    lost: u64,
}

impl Versions {
    fn keep(&mut self, path: &Path, node: Option<Node>) {
        if self.count >= VERSIONS_MAX {
            self.forget();
            self.lost = self.generation;
        }
        let kept = self.kept.entry(path.clone()).or_default();
        // Only the first version of a change is as it was before.
        if kept.last().is_none_or(|(last, _)| *last < self.generation) {
            kept.push((self.generation, node));
            self.count += 1;
        }
    }

    fn forget(&mut self) {
        self.kept = HashMap::new();
        self.count = 0;
    }
}

impl<'t> Lookup<'t> for &'t Tree {
    fn get(self, path: &str) -> Option<&'t Node> {
        self.nodes.get(path)
    }
}

impl Edit for Tree {
    fn get_mut(&mut self, path: &Path) -> Option<&mut Node> {
        let node = self.nodes.get_mut(path.as_str())?;
        if self.versions.open > 0 {
            self.versions.keep(path, Some(node.clone()));
        }
        Some(node)
    }

    fn insert(&mut self, path: Path, node: Node) {
        if self.versions.open > 0 {
            self.versions.keep(&path, None);
        }
        self.nodes.insert(path, node);
    }

    fn take(&mut self, path: &Path) -> Option<Node> {
        let node = self.nodes.remove(path.as_str())?;
        if self.versions.open > 0 {
            self.versions.keep(path, Some(node.clone()));
        }
        Some(node)
    }
}

impl Tree {
    /// A tree whose only node is the root.
    pub fn new() -> Tree {
        let root = Node::new(Permissions::of_control(), 0);
        Tree {
            nodes: HashMap::from([(Path::root(), root)]),
            versions: Versions::default(),
        }
    }

    /// The change of this number is about to be made. Each has a higher one.
    pub fn begin(&mut self, generation: u64) {
        self.versions.generation = generation;
    }

    /// The node at `path` as it was after the change of a number, for a transaction that is open.
    pub fn as_of(&self, generation: u64, path: &str) -> Option<&Node> {
        let now = self.nodes.get(path);
        let is_same = now.is_some_and(|node| node.is_as_of(generation));
        if is_same || self.versions.count == 0 || generation < self.versions.lost {
            return now;
        }
        let kept = self.versions.kept.get(path).map_or(&[][..], |kept| kept);
        let later = kept.partition_point(|(change, _)| *change <= generation);
        match kept.get(later) {
            Some((_, was)) => was.as_ref(),
            None => now,
        }
    }

    /// A transaction begins.
    pub fn open(&mut self) {
        self.versions.open += 1;
    }

    /// So many transactions have ended.
    pub fn close(&mut self, ended: usize) {
        self.versions.open -= ended;
        if self.versions.open == 0 && self.versions.count > 0 {
            self.versions.forget();
        }
    }

    /// All nodes.
    pub fn all(&self) -> Vec<Changed> {
        let changed = |(path, node): (&Path, &Node)| Changed {
            path: path.clone(),
            permissions: node.permissions.clone(),
        };
        self.nodes.iter().map(changed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text.as_bytes(), DomainId::CONTROL).unwrap()
    }

    fn listed(node: Option<&Node>) -> Option<String> {
        node.map(|node| node.list().collect())
    }

    /// Makes a change of a number.
    fn change<R>(tree: &mut Tree, generation: u64, work: impl FnOnce(&mut Tree) -> R) -> R {
        tree.begin(generation);
        work(tree)
    }

    #[test]
    fn what_was_is_seen_as_long_as_a_transaction_is_open() {
        let mut tree = Tree::new();
        let make = |tree: &mut Tree| tree.make(&path("/a/b/c"), DomainId(3), 1);
        let made = change(&mut tree, 1, make);
        let paths: Vec<&str> = made.iter().map(|made| made.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(made[0].permissions.owner(), DomainId(3));
        tree.open();
        let set = |tree: &mut Tree| tree.set_value(&path("/a/b"), (*b"x").into(), 2);
        assert!(change(&mut tree, 2, set));
        tree.open();
        change(&mut tree, 3, |tree| {
            tree.make(&path("/a/d"), DomainId(3), 3)
        });
        let removed = change(&mut tree, 4, |tree| tree.remove(&path("/a/b"), 4));
        assert_eq!(removed.len(), 2);
        change(&mut tree, 5, |tree| {
            tree.make(&path("/a/b"), DomainId(3), 5)
        });
        let value = |tree: &Tree, generation| {
            let node = tree.as_of(generation, "/a/b");
            node.map(|node| node.value.to_vec())
        };
        assert_eq!(value(&tree, 1), Some(Vec::new()));
        assert_eq!(value(&tree, 2), Some(b"x".to_vec()));
        assert_eq!(value(&tree, 4), None);
        assert_eq!(value(&tree, 5), Some(Vec::new()));
        assert!(tree.as_of(3, "/a/b/c").is_some());
        assert!(tree.as_of(5, "/a/b/c").is_none());
        assert_eq!(listed(tree.as_of(2, "/a")), Some("b".into()));
        assert_eq!(listed(tree.as_of(3, "/a")), Some("bd".into()));
        assert_eq!(listed((&tree).get("/a")), Some("bd".into()));
        assert_eq!(
            (&tree).get("/a").map(|a| (a.generation, a.listing)),
            Some((1, 5))
        );
        tree.close(1);
        assert_eq!(value(&tree, 2), Some(b"x".to_vec()));
        tree.close(1);
        assert_eq!(tree.versions.count, 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut tree = Tree::new();
        change(&mut tree, 1, |tree| tree.make(&path("/a"), DomainId(3), 1));
        tree.open();
        for n in 2..3 * VERSIONS_MAX as u64 {
            change(&mut tree, n, |tree| {
                tree.set_value(&path("/a"), (*b"x").into(), n)
            });
            assert!(tree.versions.count <= VERSIONS_MAX);
        }
        // Its transaction conflicts with what it sees.
        assert_ne!(tree.as_of(1, "/a").map(|a| a.generation), Some(1));
    }

    #[test]
    fn the_nearest_node_is_found() {
        let mut tree = Tree::new();
        tree.make(&path("/a/b"), DomainId(0), 1);
        assert_eq!((&tree).nearest(&path("/a/b/c/d")).0, "/a/b");
        assert_eq!((&tree).nearest(&path("/x/b")).0, "/");
        assert_eq!((&tree).nearest(&Path::root()).0, "/");
    }

    #[test]
    fn the_root_stays() {
        let mut tree = Tree::new();
        assert!(tree.remove(&Path::root(), 1).is_empty());
        assert!(tree.remove(&path("/a/b"), 1).is_empty());
        assert_eq!(tree.all().len(), 1);
    }
}
