//! The control store: a tree of named values that the host and its guests share. It speaks the
//! Xenstore protocol, so that Xen's own tools and libraries work with it.
//!
//! - [`Store`] answers requests, independent of sockets and rings.
//! - [`server`] passes it the requests of host programs, from a Unix socket, and of guests.
//! - [`client`] asks such a server.
//! - [`wire`] has the protocol's messages.
//!
//! Listing apart, no request takes longer as domains grow: a node is found by its path in one table, a
//! change finds its watches on the path that changed, and a transaction keeps what it changes beside
//! the nodes that there are.
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
