//! How many lanes a switch has, and where they run.

use serde::{Deserialize, Serialize};

use crate::lane::{LANES_MAX, LaneError};

/// How a switch is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Number of lanes, at least 1.
    pub lanes: usize,
    /// The CPUs that lanes run on, in order and from the first again when there are more lanes; if
    /// there are none here, the kernel moves them about.
    pub cpus: Vec<usize>,
}

impl Options {
    /// Whether there can be as many lanes.
    pub fn check(&self) -> Result<(), LaneError> {
        match self.lanes {
            1..=LANES_MAX => Ok(()),
            number => Err(LaneError::Number(number)),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lanes: 1,
            cpus: Vec::new(),
        }
    }
}
