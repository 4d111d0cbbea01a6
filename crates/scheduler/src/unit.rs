//! What filters, weights and balancers have in common: each is a row of a registry.

use crate::error::{Error, Failure, Result};
use crate::facts::Guest;
use crate::properties::{Property, Values};

/// A filter, weight or balancer as it is declared. `Kind` is its trait.
pub struct Unit<Kind: ?Sized + 'static> {
    /// Its name in a policy.
    pub name: &'static str,
    /// What it does, a sentence.
    pub description: &'static str,
    /// Properties that it obeys.
    pub properties: &'static [&'static Property],
    /// Makes one that obeys these values.
    pub make: fn(&Values) -> Box<Kind>,
}

/// Finds the row with this name.
pub fn find<Kind: ?Sized>(rows: &'static [Unit<Kind>], name: &str) -> Option<&'static Unit<Kind>> {
    rows.iter().find(|row| row.name == name)
}

/// Why a unit of this name is unknown.
pub fn unknown<Kind: ?Sized>(kind: &'static str, name: &str, rows: &'static [Unit<Kind>]) -> Error {
    Error::Unknown {
        kind,
        name: name.into(),
        known: rows.iter().map(|row| row.name.to_string()).collect(),
    }
}

/// Why a guest needs a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occasion {
    /// It is new.
    #[default]
    Start,
    /// It runs elsewhere, and is to move.
    Move,
    /// The host that it ran on failed.
    Recover,
}

/// A guest that needs a host.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its facts.
    pub guest: &'a Guest,
    /// Why it needs one.
    pub occasion: Occasion,
    /// The slot of the host that it runs on.
    pub from: Option<usize>,
}

impl Request<'_> {
    /// How many of the `members` of one of its groups on a host are other guests.
    pub fn others(&self, slot: usize, members: u32) -> u32 {
        members - u32::from(self.from == Some(slot))
    }
}

/// What a unit that may fail answers. Only plugins fail.
pub type Answer<T = ()> = Result<T, Failure>;
