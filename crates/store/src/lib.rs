//! The control store: a tree of named values that the host and its guests share. It speaks the
//! Xenstore protocol, so that Xen's own tools and libraries work with it.
//!
//! - [`Store`] answers requests, independent of sockets and rings.
//! - [`server`] passes it the requests of host programs, from a Unix socket, and of guests.
//! - [`client`] asks such a server.
//! - [`wire`] has the protocol's messages.
//!
//! Except for lists, the cost of a request does not grow with the number of domains. A node is
//! found by its path in one table, a change finds its watches on the changed path, and a
//! transaction keeps its changes beside the existing nodes.
#![forbid(unsafe_code)]

pub mod client;
mod connection;
mod domain;
mod path;
mod permission;
pub mod server;
mod session;
mod store;
mod transaction;
mod tree;
mod watch;
pub mod wire;

pub use connection::ConnectionId;
pub use domain::Quotas;
pub use session::Stream;
pub use store::Store;
pub use watch::{EVENTS_MAX, Event};
pub use wire::DomainId;
