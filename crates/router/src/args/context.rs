//! What names in an argument refer to.

use core::any::Any;
use core::net::Ipv4Addr;

use super::{Argument, EtherAddress, Invalid, Ipv4Prefix, Kind, NameDatabase, Parser};
use crate::prelude::*;

/// Where an argument stands: which names, which elements, seen from which one.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// Addresses, ports and other names.
    pub names: &'c NameDatabase,
    /// The elements of the router.
    pub elements: &'c dyn Elements,
    /// Full name of the element the argument belongs to, `a/b/x`. Names are
    /// looked up in `a/b/` first, then in `a/`, then at top level.
    pub element: &'c str,
}

static NO_NAMES: NameDatabase = NameDatabase::new();

impl Context<'static> {
    /// No element, no names but the built-in ones.
    pub fn blank() -> Self {
        Context {
            names: &NO_NAMES,
            elements: &NoElements,
            element: "",
        }
    }
}

impl<'c> Context<'c> {
    /// Parses `text` as a `T`.
    pub fn parse<T: Argument>(&self, text: &str) -> Result<T, Invalid> {
        T::parse(text, self)
    }

    /// Parses `text` with `parser`.
    pub fn parse_with<T>(&self, parser: impl Parser<T>, text: &str) -> Result<T, Invalid> {
        parser.parse(text, self)
    }

    /// The element that `name` refers to from here, innermost scope first.
    pub fn find_element(&self, name: &str) -> Option<(usize, String)> {
        self.names.scopes(self.element).find_map(|scope| {
            let full = [scope, name].concat();
            self.elements.index_of(&full).map(|index| (index, full))
        })
    }
}

/// The scopes a name is looked up in from `element`: `a/b/x` gives `a/b/`, `a/`
/// and the empty one.
pub(super) fn scopes(element: &str) -> impl Iterator<Item = &str> {
    let innermost = &element[..element.rfind('/').map_or(0, |slash| slash + 1)];
    core::iter::successors(Some(innermost), |scope| {
        let parent = scope.strip_suffix('/')?;
        Some(&parent[..parent.rfind('/').map_or(0, |slash| slash + 1)])
    })
}

/// The elements of a router, as far as arguments refer to them.
pub trait Elements {
    /// Index of the element whose full name is `name`.
    fn index_of(&self, name: &str) -> Option<usize>;

    /// Whether the element can be used as a `class` (an element class or an
    /// interface such as `Storage`).
    fn is_a(&self, index: usize, class: &str) -> bool;

    /// The capability called `name` that the element's class declares, as the engine stores it.
    fn capability(&self, index: usize, name: &str) -> Option<&'static (dyn Any + Sync)> {
        let _ = (index, name);
        None
    }

    /// Whether an element, or with `None` the router itself, has this handler.
    /// False while handlers are not yet defined.
    fn has_handler(&self, element: Option<usize>, handler: &str) -> bool;
}

/// A router without elements.
pub struct NoElements;

impl Elements for NoElements {
    fn index_of(&self, _name: &str) -> Option<usize> {
        None
    }

    fn is_a(&self, _index: usize, _class: &str) -> bool {
        false
    }

    fn has_handler(&self, _element: Option<usize>, _handler: &str) -> bool {
        false
    }
}

/// What the machine around the router knows: its network devices' addresses,
/// which stand for themselves as names (`eth0`, `eth0:gw`), and home
/// directories. A guest has none.
pub trait Host: Send + Sync {
    /// First IPv4 address of a device.
    fn ip(&self, device: &str) -> Option<Ipv4Addr>;

    /// First IPv4 address of a device with its netmask.
    fn ip_prefix(&self, device: &str) -> Option<Ipv4Prefix>;

    /// Next hop of the default route through a device.
    fn gateway(&self, device: &str) -> Option<Ipv4Addr>;

    /// Ethernet address of a device.
    fn ether(&self, device: &str) -> Option<EtherAddress>;

    /// The number that the machine's files of protocols and services have for a name.
    fn number(&self, kind: Kind, name: &str) -> Option<u32> {
        let _ = (kind, name);
        None
    }

    /// Home directory of a user, or with `None` of the one running the router.
    fn home(&self, user: Option<&str>) -> Option<String>;
}

/// A host that knows nothing but its devices' Ethernet addresses: a guest's.
pub struct Interfaces(pub Vec<(String, EtherAddress)>);

impl Host for Interfaces {
    fn ip(&self, _device: &str) -> Option<Ipv4Addr> {
        None
    }

    fn ip_prefix(&self, _device: &str) -> Option<Ipv4Prefix> {
        None
    }

    fn gateway(&self, _device: &str) -> Option<Ipv4Addr> {
        None
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        let known = self.0.iter().find(|(name, _)| name == device);
        known.map(|(_, address)| *address)
    }

    fn home(&self, _user: Option<&str>) -> Option<String> {
        None
    }
}
