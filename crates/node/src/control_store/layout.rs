//! ClickOS's layout of a domain's routers: `/local/domain/ID/data/clickos/ROUTER/…`.

use abi::xenstore::PAYLOAD_MAX;

/// Most routers of a guest, as in ClickOS; the guest's own configuration is the first.
pub const ROUTERS: u8 = 64;
/// The node of a value that a handler has read, which says that it is there.
const LOCK: &str = "lock";
/// The node with the error sentence of the node above it.
pub const ERROR: &str = "error";

/// Below a domain's own path.
const BASE: &str = "/data/clickos";
const DOMAINS: &str = "/local/domain/";

/// The path of a domain's routers.
pub fn base_of(domain: u16) -> String {
    format!("{DOMAINS}{domain}{BASE}")
}

/// The path of a router.
pub fn path_of(domain: u16, router: u8) -> String {
    format!("{DOMAINS}{domain}{BASE}/{router}")
}

/// The domain that a path at or below a domain's routers is of, and the rest of the path.
pub fn split(path: &str) -> Option<(u16, &str)> {
    let (domain, _) = path.strip_prefix(DOMAINS)?.split_once('/')?;
    let rest = path.get(DOMAINS.len() + domain.len() + BASE.len()..)?;
    Some((domain.parse().ok()?, rest))
}

/// The number of a router, if a node's name is one.
pub fn number(name: &str) -> Option<u8> {
    let number: u8 = name.parse().ok()?;
    let is_one = number < ROUTERS && number.to_string() == name;
    is_one.then_some(number)
}

/// The meaning of a router's node.
#[derive(Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// The router itself.
    Router,
    /// Whether the router should run.
    Status,
    /// A write to this node reads the handler.
    Read(Handler<'a>),
    /// A handler's value.
    Element(Handler<'a>),
    /// A node without a meaning.
    Other,
    /// An unknown node where a known one should be, with the reason.
    Wrong(&'static str),
}

/// A handler as the layout names it: `ELEMENT/HANDLER`, where the element's name may have more slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler<'a>(&'a str);

impl<'a> Handler<'a> {
    fn parse(text: &'a str) -> Option<Handler<'a>> {
        text.contains('/').then_some(Handler(text))
    }

    /// Its node, seen from the router's.
    pub fn node(self) -> String {
        format!("elements/{}", self.0)
    }

    /// Its name among all of a guest's: `ELEMENT.HANDLER`.
    pub fn name(self, router: u8) -> String {
        let (element, handler) = self.0.rsplit_once('/').unwrap_or((self.0, ""));
        match router {
            0 => format!("{element}.{handler}"),
            _ => format!("{router}/{element}.{handler}"),
        }
    }
}

/// The node behind which a handler's value, or why there is none, is seen to be there.
pub fn lock_of(node: &str) -> String {
    format!("{node}/{LOCK}")
}

/// The meaning of the node at `rest`, a path below a router's node.
pub fn key(rest: &str) -> Key<'_> {
    let (first, below) = rest.split_once('/').unwrap_or((rest, ""));
    match (first, below) {
        ("", _) => Key::Router,
        ("status", "") => Key::Status,
        ("control", "" | "read") => Key::Other,
        ("control", below) => {
            let handler = below.strip_prefix("read/").and_then(Handler::parse);
            handler.map_or(
                Key::Wrong("‘control/read/ELEMENT/HANDLER’ is expected"),
                Key::Read,
            )
        }
        // The entries that the node writes beside a handler's value.
        ("elements", below)
            if below.matches('/').count() >= 2
                && below
                    .rsplit_once('/')
                    .is_some_and(|(_, last)| [LOCK, ERROR].contains(&last)) =>
        {
            Key::Other
        }
        ("elements", below) => Handler::parse(below).map_or(Key::Other, Key::Element),
        _ => Key::Other,
    }
}

/// The longest value that a node of this path can have.
pub fn value_max(path: &str) -> usize {
    PAYLOAD_MAX.saturating_sub(path.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_clickos() {
        let handler = Handler("c/count");
        for (text, is) in [
            ("", Key::Router),
            ("status", Key::Status),
            ("config_name", Key::Other),
            ("config/3", Key::Other),
            ("control", Key::Other),
            ("control/read/c/count", Key::Read(handler)),
            ("elements/c/count", Key::Element(handler)),
            ("elements/c/count/lock", Key::Other),
            ("elements/c/count/error", Key::Other),
            ("elements/c", Key::Other),
            ("elements/a/lock", Key::Element(Handler("a/lock"))),
            ("elements/a/b/c", Key::Element(Handler("a/b/c"))),
        ] {
            assert_eq!(key(text), is, "{text}");
        }
        for text in ["control/x", "control/read/c", "control/write/c/reset"] {
            assert!(matches!(key(text), Key::Wrong(_)), "{text}");
        }
        assert_eq!(handler.name(0), "c.count");
        assert_eq!(Handler("a/b/c").name(3), "3/a/b.c");
        assert_eq!(handler.node(), "elements/c/count");
    }

    #[test]
    fn paths_are_told_apart() {
        assert_eq!(split(&base_of(7)), Some((7, "")));
        assert_eq!(
            split(&(path_of(7, 12) + "/status")),
            Some((7, "/12/status"))
        );
        for path in [
            "/local/domain",
            "/local/domain/x/data/clickos",
            "@releaseDomain",
        ] {
            assert_eq!(split(path), None, "{path}");
        }
        let numbers = ["0", "63", "64", "01", "-1", "", "x"].map(number);
        assert_eq!(numbers, [Some(0), Some(63), None, None, None, None, None]);
    }
}
