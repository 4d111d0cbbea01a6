//! Chains: functions in a row, as a wire's file has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Guest;

/// Functions in a row between two switches: a wire's file has it, and a wire gets the stubs, VNICs
/// and guests that it stands for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The functions, or files of configurations, from the first side to the second:
    /// `NAME[:INTERFACE]`, where the interface is the one towards the first side.
    pub functions: Vec<String>,
    /// The stubs or links at its sides; a function at an end that has one interface needs none.
    #[serde(default)]
    pub between: Vec<String>,
    /// Whether one guest runs all functions.
    #[serde(default)]
    pub fuse: bool,
    /// Values of each function's parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, BTreeMap<String, String>>,
    /// By function, the stub or link of each of its interfaces besides the two in the row.
    #[serde(default)]
    pub interfaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Memory, CPUs and the like of each guest.
    #[serde(default)]
    pub guest: Guest,
}
