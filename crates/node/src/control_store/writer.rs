//! The entries of the store, as the control domain reads and makes them.

use ::store::wire::{Errno, Header, Kind, first_string};
use ::store::{ConnectionId, Store};

/// Reads and makes entries, as the control domain.
pub struct Writer<'a> {
    /// The store.
    pub store: &'a mut Store,
    /// A connection of the control domain.
    pub connection: ConnectionId,
}

impl Writer<'_> {
    /// Makes a request about `path`. Returns the reply, unless it is refused. The control domain is
    /// refused only missing nodes.
    pub fn ask(&mut self, kind: Kind, path: &str, rest: &[u8]) -> Option<Vec<u8>> {
        let header = Header {
            kind: kind as u32,
            ..Header::default()
        };
        let payload = [path.as_bytes(), &[0], rest].concat();
        let (kind, reply) = self.store.request(self.connection, header, &payload);
        if kind != Kind::Error {
            return Some(reply);
        }
        let name = first_string(&reply).map_or(&reply[..], |(name, _)| name);
        debug_assert!(
            Errno::from_name(name) == Errno::ENOENT,
            "{path}: {}",
            String::from_utf8_lossy(name)
        );
        None
    }

    /// Sets a node's value, and makes the node if it is missing.
    pub fn write(&mut self, path: &str, value: &str) {
        self.ask(Kind::Write, path, value.as_bytes());
    }

    /// Makes a node that its domain may read.
    pub fn make_readable(&mut self, path: &str, domain: u16) {
        self.write(path, "");
        self.permit(path, &format!("n0\0r{domain}\0"));
    }

    /// Sets a node's permissions: entries, each with a zero byte.
    pub fn permit(&mut self, path: &str, entries: &str) {
        self.ask(Kind::SetPerms, path, entries.as_bytes());
    }

    /// A node's value.
    pub fn read(&mut self, path: &str) -> Option<Vec<u8>> {
        self.ask(Kind::Read, path, b"")
    }

    /// Whether there is a node.
    pub fn exists(&mut self, path: &str) -> bool {
        self.read(path).is_some()
    }

    /// Whether there is a node that belongs to the control domain.
    pub fn is_of_control(&mut self, path: &str) -> bool {
        let shown = self.ask(Kind::GetPerms, path, b"");
        let owner = shown.as_deref().and_then(first_string);
        owner.is_some_and(|(owner, _)| owner.get(1..) == Some(b"0"))
    }

    /// Removes a node and those below it.
    pub fn remove(&mut self, path: &str) {
        self.ask(Kind::Rm, path, b"");
    }
}
