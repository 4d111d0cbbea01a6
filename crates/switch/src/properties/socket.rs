//! Properties of network stack modules and of the applications that they serve.

use super::declare::properties;
use super::table;
use super::text::PropertyError;
use super::units::Bandwidth;
use super::values::Range;

/// Most sockets of an application.
const CONNS: Range = Range {
    least: 1,
    most: 65_536,
    must: "it is a number from {}",
    unit: "sockets",
};
const WEIGHT: Range = Range {
    least: 1,
    most: 100,
    must: "it is a number from {}",
    unit: "",
};

properties! {
    /// What an application may have of a network stack module.
    pub struct ApplicationProperties {
        /// Highest rate of its payload, both directions together; default: no limit.
        maxbw: Option<Bandwidth> = "maxbw";
        /// Most sockets at a time; default: as many as there can be.
        conns: Option<u32> = "conns", in CONNS;
        /// Weight among the applications that have socket calls to pass on.
        weight: u32 = "weight", default 1, in WEIGHT;
    }
}

impl ApplicationProperties {
    /// Checks values that came by another way than the command line.
    pub fn check(&self) -> Result<(), PropertyError> {
        table::check(Self::ROWS, self)
    }
}

/// Most sockets of a network stack module.
const NSM_CONNS: Range = Range {
    least: 1,
    most: 1_000_000,
    must: "it is a number from {}",
    unit: "sockets",
};

properties! {
    /// What a network stack module may have, for all its applications together.
    pub struct NsmProperties {
        /// Highest rate of payload, both directions together; default: no limit.
        maxbw: Option<Bandwidth> = "maxbw";
        /// Most sockets at a time; default: as many as there can be.
        conns: Option<u32> = "conns", in NSM_CONNS;
    }
}

impl NsmProperties {
    /// Checks values that came by another way than the command line.
    pub fn check(&self) -> Result<(), PropertyError> {
        table::check(Self::ROWS, self)
    }
}
