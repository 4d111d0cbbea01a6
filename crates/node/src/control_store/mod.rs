//! The control store as a process of its own, `weir-store`: a Xenstore server in which each guest that runs is a
//! domain.
//!
//! Programs of the host reach it by a socket. The node tells it of guests by another socket, a message for one guest or
//! more, and waits for no answer. The process holds nothing that lasts: after its end the node tells another one of all
//! guests.

mod domains;
pub mod message;
pub mod process;
