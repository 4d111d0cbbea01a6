//! One host: what is wanted of it, what runs on it, and the service that brings the one to the
//! other.
//!
//! ```text
//! weir ──client──> api ──jobs──> node ──> store   what is wanted (redb)
//!                  (axum)          │
//!                                  └────> host    what runs: the switch, guests, interfaces
//! ```
//!
//! [`node::Node`] is plain, synchronous code on one thread: it forks guests and the switch, which
//! a process with threads cannot, and nothing else has to be locked. The [`service`] around it
//! hands it one job after the other and waits where there is something to wait for. Whatever is
//! asked is checked ([`model`]), done on the [`host`], and then kept in the [`store`]; what fails
//! on the way is undone, so nothing is half done. What the host does not have any more, or not
//! yet, the node brings back ([`node::Node::reconcile`]): after a restart of its own, of the
//! switch, or of the machine.
#![forbid(unsafe_code)]

pub mod api;
pub mod check;
pub mod client;
pub mod error;
pub mod host;
pub mod log;
pub mod model;
pub mod node;
pub mod operation;
pub mod places;
pub mod server;
pub mod service;
pub mod store;
pub mod wire;
