//! The control plane of one host: specifications, running processes and interfaces, and the service
//! that reconciles them.
//!
//! ```text
//! weir ──client──> api ──jobs──> node ──> store   specifications (redb)
//!                  (axum)          │
//!                                  └────> host    the switch, guests, interfaces
//! ```
//!
//! A module uses only modules above it: [`error`], [`model`] (specification, status and record of
//! each resource), [`store`], [`wire`] (files, the planner), [`host`], [`node`] (reconciles `host`
//! with `store`), [`service`] (jobs), [`operation`] (each operation of the API, declared once),
//! [`api`], [`client`], [`server`] (the process).
//!
//! [`node::Node`] is synchronous and owned by one thread: it forks guests and the switch, which a
//! process with threads cannot. The [`service`] gives it one job at a time. A job that waits for a
//! guest polls in later jobs: first without a pause, since most answers take microseconds, then
//! every millisecond. Each operation is checked ([`model`]), done on the [`host`] and then kept in
//! the [`store`]; an error undoes what was done. [`node::Node::reconcile`] restores what the host
//! lacks after a restart of the node, the switch or the machine.
//!
//! A fork takes about 0.4 ms (strace, 30 guests, 31 MB resident), independent of the number of
//! guests, whose memory is not mapped into children. A pre-forked process takes it off the path of
//! a guest with the shape of the one before.
#![forbid(unsafe_code)]

pub mod api;
pub mod audit;
pub mod chain;
pub mod check;
pub mod client;
pub mod config;
mod control_store;
pub mod error;
pub mod files;
pub mod function;
pub mod host;
pub mod kept;
pub mod limits;
pub mod log;
mod migration;
pub mod model;
pub mod node;
pub mod operation;
pub mod paths;
mod saved;
pub mod server;
pub mod service;
pub mod store;
pub mod tls;
pub mod wire;
