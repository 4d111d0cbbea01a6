//! The control store as a process of its own, `weir-store`: a Xenstore server in which each guest that runs is a
//! domain.
//!
//! Programs of the host reach it by a socket. The node reports guests to it by another socket, one or more in a
//! message, and waits for no answer. The process keeps no durable state: after its end, the node reports all guests to
//! the next one.
//!
//! Guests' routers are installed, started, stopped, read and written by entries of the store, as in ClickOS. The
//! process watches these entries, and sends the node requests for them.

mod domains;
mod layout;
pub mod message;
pub mod process;
mod rings;
mod routers;
mod writer;

pub use layout::number;
