//! The software switch: what joins guests, TAP devices and host interfaces at layer 2.
//!
//! A switch is a process ([`process::Switch`]) that is told over a socket what to join
//! ([`client::SwitchClient`]). It holds any number of *domains*, each an L2 segment of its own: a
//! set of [`port`]s and a [`lookup`] function that says where a frame goes. One [`worker`] polls
//! the ports that are busy, sleeps when all are quiet, and copies each frame once, from its source
//! into its destination. Nothing is queued inside: a frame that a port cannot take at once is
//! dropped there, and counted with its reason ([`counters`]). What a port may do are its
//! [`properties`]; limits hold senders back where they can be ([`qos`]).
//!
//! Nothing that a guest writes is believed; see [`port::guest`].
#![deny(unsafe_code)]

pub mod client;
pub mod counters;
pub mod ids;
pub mod lane;
pub mod lanes;
pub mod lookup;
pub mod mac;
pub mod memory;
pub mod pace;
pub mod port;
pub mod process;
pub mod properties;
pub mod protocol;
pub mod qos;
pub mod worker;

pub use port::links;

mod confine;
mod handoff;
mod serve;
mod sys;
