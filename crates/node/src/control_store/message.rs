//! Messages between the node and the store's process: JSON, one message in each packet of a socket.

use serde::{Deserialize, Serialize};

/// The version of these messages. A process that has another one is replaced.
pub const VERSION: u32 = 3;
/// Files of a message that connects a guest.
pub const MESSAGE_FILES: usize = 2;
/// Most bytes of a message.
pub const BYTES_MAX: usize = 64 << 10;
/// Most bytes of a configuration in the store: the node does not send longer ones.
pub const CONFIG_MAX: usize = 1 << 20;
/// Most bytes of a part of a configuration: in JSON, a byte takes up to six.
const PART_MAX: usize = 4 << 10;

/// A guest that runs, as a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The domain's number.
    pub domain: u16,
    /// The guest's process: in another one, it begins with entries of its own.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What identifies it among the guests of all hosts.
    pub uuid: String,
    /// Its private memory in KiB.
    pub memory: u64,
    /// What its own configuration is called.
    pub config_name: String,
}

/// One change. A message of the node has one or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A guest runs. Nothing happens if that is known.
    Introduce(Introduction),
    /// A domain has another name.
    Rename {
        /// The domain.
        domain: u16,
        /// Its name from now on.
        name: String,
    },
    /// A guest has ended.
    Release {
        /// Its domain.
        domain: u16,
    },
    /// How a guest that was introduced is reached: alone in a message, with the file of its control region and the
    /// eventfd of its waker. Nothing happens if it is connected.
    Connect {
        /// Its domain.
        domain: u16,
        /// The number of its waker.
        waker: u64,
    },
    /// All guests that run were introduced since the node connected: any other domain is released.
    Complete,
    /// A part of the configuration of the next [`Router`](Self::Router).
    Part(String),
    /// A guest runs a router. Nothing happens if it is known to run this configuration.
    Router {
        /// Its domain.
        domain: u16,
        /// The router.
        router: u8,
        /// What its configuration is called.
        name: String,
    },
    /// A guest runs a router no more.
    Halted {
        /// Its domain.
        domain: u16,
        /// The router.
        router: u8,
    },
    /// The answer to a request: a handler's value, or the reason of a failure.
    Answer {
        /// The domain of the request.
        domain: u16,
        /// Its number.
        number: u64,
        /// Its outcome.
        outcome: Result<String, String>,
    },
    /// The store is to end.
    End,
}

/// A message from the store to the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromStore {
    /// A part of the configuration of the next [`Request`].
    Part(String),
    /// A request to the node.
    Request(Request),
}

/// A request for an action on a guest's router. A guest has one request at a time, which the node
/// answers. If the node ends first, the store asks the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its number.
    pub number: u64,
    /// The guest's domain.
    pub domain: u16,
    /// The guest's process.
    pub pid: u32,
    /// The router.
    pub router: u8,
    /// The action.
    pub action: Action,
}

/// An action on a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Run the configuration whose parts came before.
    Start {
        /// The configuration's name.
        name: String,
    },
    /// Stop it.
    Stop,
    /// Read a handler.
    Read {
        /// `ELEMENT.HANDLER`, with the router's name in front if it has one.
        handler: String,
    },
    /// Write a handler.
    Write {
        /// As for `Read`.
        handler: String,
        /// The value.
        value: String,
    },
    /// Describe the guest's routers again: their entries are gone.
    Describe,
}

/// The parts of a text, each short enough for a message.
pub fn parts(mut text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (part, rest) = text.split_at(text.floor_char_boundary(PART_MAX));
        parts.push(part.to_string());
        text = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_in_parts() {
        let text = "ä".repeat(5000);
        let parts = parts(&text);
        assert_eq!((parts.len(), parts.concat()), (3, text));
        assert!(super::parts("").is_empty());
    }
}
