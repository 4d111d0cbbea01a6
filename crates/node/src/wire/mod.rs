//! Virtual wires: whole networks, each described by one file.
//!
//! A [`Wire`](crate::model::Wire) is the specification, read from a [`mod@file`]; [`check`] finds what
//! does not hold together in it, [`plan`] makes the steps from one to another.
//! [`capture`] makes one of a Linux network that exists.

pub mod capture;
pub mod check;
pub mod file;
pub mod plan;

#[cfg(test)]
mod tests;
