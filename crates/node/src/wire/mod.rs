//! Virtual wires: whole networks, each described by one file.
//!
//! A [`Wire`](crate::model::Wire) is the specification, read from a [`mod@file`]; [`check`] finds inconsistencies in
//! it, [`plan`] makes the steps from one wire to another. [`capture`] makes a wire of an existing Linux network.

pub mod capture;
mod chain;
pub mod check;
pub mod file;
pub mod plan;

#[cfg(test)]
mod tests;
