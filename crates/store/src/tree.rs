//! The nodes. A tree is copied in no time: copies share what neither has changed since.

use std::sync::Arc;

use imbl::OrdMap;

use crate::path::Path;
use crate::permission::Permissions;
use crate::wire::DomainId;

/// A node.
#[derive(Clone)]
pub struct Node {
    /// Its value.
    pub value: Arc<[u8]>,
    /// Who may read and write it.
    pub permissions: Permissions,
    /// When it was made, or its value or permissions last set. Every change has another number.
    pub generation: u64,
    /// When a child was last made or removed.
    pub listing: u64,
    children: OrdMap<Arc<str>, Arc<Node>>,
}

impl Node {
    fn new(permissions: Permissions, generation: u64) -> Node {
        Node {
            value: Arc::new([]),
            permissions,
            generation,
            listing: generation,
            children: OrdMap::new(),
        }
    }

    /// The children's names, each with a zero byte, in order.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.children.keys().map(|name| &**name)
    }
}

/// A node that was made or removed.
pub struct Changed {
    /// Its path.
    pub path: Path,
    /// Its permissions.
    pub permissions: Permissions,
}

/// A tree of nodes.
#[derive(Clone)]
pub struct Tree {
    root: Arc<Node>,
}

impl Tree {
    /// A tree whose only node is the root.
    pub fn new() -> Tree {
        Tree {
            root: Arc::new(Node::new(Permissions::of_control(), 0)),
        }
    }

    /// The node at `path`.
    pub fn get(&self, path: &Path) -> Option<&Node> {
        let mut node = &self.root;
        for name in path.names() {
            node = node.children.get(name)?;
        }
        Some(node)
    }

    /// The nearest node that exists on the way to `path`, and its path.
    pub fn nearest<'p>(&self, path: &'p Path) -> (&'p str, &Node) {
        let mut nearest = ("/", &*self.root);
        for (path, name) in path.lineage().skip(1).zip(path.names()) {
            match nearest.1.children.get(name) {
                Some(node) => nearest = (path, node),
                None => break,
            }
        }
        nearest
    }

    fn get_mut(&mut self, path: &Path) -> Option<&mut Node> {
        let mut node = Arc::make_mut(&mut self.root);
        for name in path.names() {
            node = Arc::make_mut(node.children.get_mut(name)?);
        }
        Some(node)
    }

    /// Makes the nodes on the way to `path` that are missing, and `path` itself. They inherit their
    /// parents' permissions. Returns the nodes made.
    pub fn make(&mut self, path: &Path, creator: DomainId, generation: u64) -> Vec<Changed> {
        let mut made = Vec::new();
        let mut node = Arc::make_mut(&mut self.root);
        for (name, path) in path.names().zip(path.lineage().skip(1)) {
            if !node.children.contains_key(name) {
                let permissions = node.permissions.inherited(creator);
                let new = Node::new(permissions.clone(), generation);
                node.children.insert(name.into(), Arc::new(new));
                node.listing = generation;
                made.push(Changed {
                    path: Path::known(path),
                    permissions,
                });
            }
            let Some(child) = node.children.get_mut(name) else {
                break;
            };
            node = Arc::make_mut(child);
        }
        made
    }

    /// Sets a node's value; returns whether it exists.
    pub fn set_value(&mut self, path: &Path, value: Arc<[u8]>, generation: u64) -> bool {
        let node = self.get_mut(path);
        node.map(|node| (node.value, node.generation) = (value, generation))
            .is_some()
    }

    /// Sets a node's permissions; returns those it had.
    pub fn set_permissions(
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
    pub fn remove(&mut self, path: &Path, generation: u64) -> Vec<Changed> {
        let mut removed = Vec::new();
        if let (Some(parent), Some(name)) = (path.parent(), path.names().last())
            && self.get(path).is_some()
            && let Some(parent) = self.get_mut(&parent)
            && let Some(node) = parent.children.remove(name)
        {
            parent.listing = generation;
            collect(path.clone(), &node, &mut removed);
        }
        removed
    }

    /// All nodes, parents first.
    pub fn all(&self) -> Vec<Changed> {
        let mut all = Vec::new();
        collect(Path::root(), &self.root, &mut all);
        all
    }
}

/// Adds a node and those below it. A path's length bounds the depth.
fn collect(path: Path, node: &Node, all: &mut Vec<Changed>) {
    let below = node.children.iter();
    let below: Vec<(Path, &Arc<Node>)> =
        below.map(|(name, node)| (path.child(name), node)).collect();
    all.push(Changed {
        path,
        permissions: node.permissions.clone(),
    });
    for (path, node) in below {
        collect(path, node, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text.as_bytes(), DomainId::CONTROL).unwrap()
    }

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut tree = Tree::new();
        let made = tree.make(&path("/a/b/c"), DomainId(3), 1);
        let paths: Vec<&str> = made.iter().map(|made| made.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(made[0].permissions.owner(), DomainId(3));
        let copy = tree.clone();
        assert!(tree.set_value(&path("/a/b"), (*b"x").into(), 2));
        tree.make(&path("/a/d"), DomainId(3), 3);
        let removed = tree.remove(&path("/a/b"), 4);
        assert_eq!(removed.len(), 2);
        assert!(tree.get(&path("/a/b/c")).is_none());
        assert!(copy.get(&path("/a/b/c")).is_some());
        assert_eq!(&*copy.get(&path("/a/b")).unwrap().value, b"");
        let listed = |tree: &Tree| tree.get(&path("/a")).map(|a| a.list().collect::<String>());
        assert_eq!(
            (listed(&copy), listed(&tree)),
            (Some("b".into()), Some("d".into()))
        );
        assert_eq!(copy.get(&path("/a")).unwrap().listing, 1);
        assert_eq!(tree.get(&path("/a")).unwrap().listing, 4);
        assert_eq!(tree.get(&path("/a")).unwrap().generation, 1);
    }

    #[test]
    fn the_nearest_node_is_found() {
        let mut tree = Tree::new();
        tree.make(&path("/a/b"), DomainId(0), 1);
        assert_eq!(tree.nearest(&path("/a/b/c/d")).0, "/a/b");
        assert_eq!(tree.nearest(&path("/x/b")).0, "/");
        assert_eq!(tree.nearest(&Path::root()).0, "/");
    }

    #[test]
    fn the_root_stays() {
        let mut tree = Tree::new();
        assert!(tree.remove(&Path::root(), 1).is_empty());
        assert!(tree.remove(&path("/a/b"), 1).is_empty());
        assert_eq!(tree.all().len(), 1);
    }
}
