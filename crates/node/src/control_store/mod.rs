//! The control store as a process of its own, `weir-store`: a Xenstore server in which each guest that runs is a
//! domain.
//!
//! Programs of the host reach it by a socket. The node tells it of guests by another socket, a message for one guest or
//! more, and waits for no answer. The process holds nothing that lasts: after its end the node tells another one of all
//! guests.
//!
//! Guests' routers are installed, started, stopped, read and written by entries of the store, as in ClickOS. The process
//! watches these entries, and asks the node to do what they say.

mod domains;
mod layout;
pub mod message;
pub mod process;
mod rings;
mod routers;
mod writer;

pub use layout::number;
