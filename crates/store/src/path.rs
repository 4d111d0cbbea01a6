//! Paths of nodes.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::wire::{DomainId, Errno};

/// Most bytes of an absolute path.
pub const ABSOLUTE_MAX: usize = 3072;
/// Most bytes of a relative path.
const RELATIVE_MAX: usize = 2048;

/// The absolute path of a node: `/` or `/a/b`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Arc<str>);

impl Path {
    /// The path that `text` names, seen from `domain`: what does not begin with `/` is below the
    /// domain's own path.
    pub fn parse(text: &[u8], domain: DomainId) -> Result<Path, Errno> {
        let text = std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        let path = match text.starts_with('/') {
            true => Path(text.into()),
            false if text.len() > RELATIVE_MAX => return Err(Errno::EINVAL),
            false => Path([&*Path::of_domain(domain).0, "/", text].concat().into()),
        };
        path.check().then_some(path).ok_or(Errno::EINVAL)
    }

    fn check(&self) -> bool {
        let permitted = |byte: u8| byte.is_ascii_alphanumeric() || b"-/_@".contains(&byte);
        let text = &*self.0;
        text.len() <= ABSOLUTE_MAX
            && text.bytes().all(permitted)
            && !text.contains("//")
            && (text == "/" || !text.ends_with('/'))
    }

    /// The path of this text, which is the path of a node.
    pub fn known(text: &str) -> Path {
        let path = Path(text.into());
        debug_assert!(path.check(), "{text} is a path");
        path
    }

    /// The root.
    pub fn root() -> Path {
        Path("/".into())
    }

    /// The path below which a domain's relative paths are.
    pub fn of_domain(domain: DomainId) -> Path {
        Path(format!("/local/domain/{domain}").into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of the node that this is a child of; `None` of the root.
    pub fn parent(&self) -> Option<Path> {
        let (parent, name) = self.0.rsplit_once('/')?;
        match (parent, name) {
            (_, "") => None,
            ("", _) => Some(Path::root()),
            _ => Some(Path(parent.into())),
        }
    }

    /// Its last name; empty of the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, name)| name)
    }

    /// The path of the child called `name`.
    pub fn child(&self, name: &str) -> Path {
        let parent = if &*self.0 == "/" { "" } else { &*self.0 };
        Path([parent, "/", name].concat().into())
    }

    /// The paths of all nodes above it, the root first, and its own.
    pub fn lineage(&self) -> impl Iterator<Item = &str> {
        let text = &*self.0;
        let ends = text.match_indices('/').map(|(at, _)| at).skip(1);
        let ends = ends.chain((text.len() > 1).then_some(text.len()));
        std::iter::once("/").chain(ends.map(|end| &text[..end]))
    }
}

/// How many levels below `ancestor`, which is in its [lineage](Path::lineage), a path is.
pub fn levels_below(ancestor: &str, path: &Path) -> usize {
    let depth = |path: &str| path.split('/').filter(|name| !name.is_empty()).count();
    depth(path.as_str()) - depth(ancestor)
}

/// A path is hashed and compared as its text.
impl Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, Errno> {
        Path::parse(text.as_bytes(), DomainId(7)).map(|path| path.to_string())
    }

    #[test]
    fn a_relative_path_is_below_the_domain() {
        assert_eq!(parse("/a/b-c_d@e"), Ok("/a/b-c_d@e".into()));
        assert_eq!(parse("data/x"), Ok("/local/domain/7/data/x".into()));
        assert_eq!(parse("/"), Ok("/".into()));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let long = "/a".repeat(1537);
        let relative = "a".repeat(2049);
        for text in [
            "", "/a/", "//", "/a//b", "/a b", "/ä", "/a.b", &long, &relative,
        ] {
            assert_eq!(parse(text), Err(Errno::EINVAL), "{text}");
        }
        assert!(parse(&"/a".repeat(1536)).is_ok());
    }

    #[test]
    fn a_path_has_parents() {
        let path = Path::parse(b"/a/b/c", DomainId(0)).unwrap();
        assert!(path.lineage().eq(["/", "/a", "/a/b", "/a/b/c"]));
        assert!(Path::root().lineage().eq(["/"]));
        assert_eq!(path.parent().unwrap().as_str(), "/a/b");
        assert_eq!(Path::root().child("a").parent(), Some(Path::root()));
        assert_eq!(Path::root().parent(), None);
        assert_eq!(levels_below("/", &path), 3);
        assert_eq!(levels_below("/a/b", &path), 1);
        assert_eq!(levels_below("/", &Path::root()), 0);
    }
}
