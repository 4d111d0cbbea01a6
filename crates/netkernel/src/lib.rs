//! Network stacks as infrastructure: an application keeps its BSD sockets, and the stack behind them
//! is the operator's. (The idea and the terms are NetKernel's, Niu et al. 2020.)
//!
//! ```text
//! application + GuestLib ── queue set ── CoreEngine ── queue set ── NSM (ServiceLib + a stack)
//!         └───────────────────── payload file of the tenant ─────────────────┘
//! ```
//!
//! GuestLib (the crate `sock`) turns socket calls into [queue elements](abi::nqe). [CoreEngine](core)
//! switches them between tenants and network stack modules by its connection table, and reads no
//! payload. An NSM is a program with [ServiceLib](service) and a network stack: Linux's in [`kernel`], one of its
//! own in [`user`], none at all in [`shm`]. Each runs in a process of its own. A virtual machine can be an
//! application, too: [`guest`].
#![deny(unsafe_code)]

pub mod calls;
pub mod core;
pub mod guest;
pub mod intercept;
pub mod kernel;
mod options;
mod outbox;
mod pairs;
mod ports;
pub mod process;
pub mod protocol;
pub mod service;
mod serving;
pub mod shm;
mod sockets;
mod sys;
pub mod user;

/// GuestLib, to be preloaded into programs.
pub static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweir_sock.so"));
