//! Virtual wires: whole networks, each described by one file.
//!
//! A [`file::Wire`] says what there is to be; [`check`] finds what does not hold together in it,
//! [`diff`] what tells two apart, [`plan`] the steps from one to the other, [`graph`] draws it.
//! [`capture`] makes one of a Linux network that exists.

pub mod capture;
pub mod check;
pub mod diff;
pub mod file;
pub mod graph;
mod order;
pub mod plan;

#[cfg(test)]
mod tests;
