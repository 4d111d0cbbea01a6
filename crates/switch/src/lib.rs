//! The software switch: it joins guests, TAP devices, host interfaces and other hosts at layer 2.
//!
//! A switch is a process ([`process::Switch`]) that a client controls over a socket
//! ([`client::SwitchClient`]). It holds any number of *domains*, each an L2 segment of its own: a
//! set of [`port`]s and a [`lookup`] function that says where a frame goes. Each [`lane`] is a
//! thread with a [`worker`], which polls the lane's busy queues, sleeps when all are quiet, and
//! copies each frame once, from its source into its destination. Nothing is queued inside: a frame
//! that a port cannot take at once is dropped there, and counted with its reason ([`counters`]).
//! [`properties`] set limits and permissions of a port. A limit holds senders back where possible
//! ([`qos`]).
//!
//! Tables have their full size when they are made, so a lane allocates nothing while frames flow. A
//! full table floods (addresses), drops and counts (backlogs, delay lines), or serves a queue a
//! little later (queues that wait for a port's rate).
//!
//! Nothing that a guest writes is trusted; see [`port::guest`].
#![deny(unsafe_code)]

pub mod client;
pub mod counters;
pub mod ids;
pub mod lane;
pub mod lanes;
pub mod late;
pub mod lookup;
pub mod mac;
pub mod memory;
pub mod netlink;
pub mod nftables;
pub mod pace;
pub mod port;
pub mod process;
pub mod properties;
pub mod protocol;
pub mod qos;
pub mod settled;
pub mod worker;

pub use port::links;

pub mod confine;
mod doorbell;
mod handoff;
mod serve;
mod sys;
