//! What is known of a flow, and what bytes may be the beginning of.

use super::name::{Alpn, Name};
use super::protocol::Protocol;

/// What was found of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The protocol.
    pub protocol: Protocol,
    /// The server's name, as the client gives it.
    pub name: Name,
    /// The first protocol that the client offers in TLS.
    pub alpn: Alpn,
    /// Whether the client gives other names too.
    pub is_ambiguous: bool,
}

impl Found {
    /// A protocol without names.
    pub fn new(protocol: Protocol) -> Found {
        Found {
            protocol,
            ..Found::default()
        }
    }
}

/// What bytes may be the beginning of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// None of the protocols begins like this.
    None,
    /// Further bytes tell more. If none come, it is this.
    More(Option<Found>),
    /// It is this.
    Found(Found),
}

impl Guess {
    /// The better one of two guesses about the same bytes.
    pub fn or(self, other: Guess) -> Guess {
        match (self, other) {
            (Guess::Found(_), _) | (Guess::More(Some(_)), Guess::More(_)) | (_, Guess::None) => {
                self
            }
            _ => other,
        }
    }
}

/// What `then` guesses if bytes begin with a prefix; more are needed if they are part of it.
pub fn begins(bytes: &[u8], prefix: &[u8], then: impl FnOnce() -> Guess) -> Guess {
    if bytes.starts_with(prefix) {
        return then();
    }
    match prefix.starts_with(bytes) {
        true => Guess::More(None),
        false => Guess::None,
    }
}
