//! Properties of domains.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::declare::properties;
use super::quantity::{Invalid, Quantity};
use super::table;
use super::text::PropertyError;
use super::units::Bandwidth;
use super::values::Range;

/// The lookup function of a domain: what says where a frame goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LookupKind {
    /// An Ethernet bridge that learns which address is behind which port.
    #[default]
    Learning,
    /// Frames are spread over the ports by a hash of their addresses and ports.
    Hash,
    /// Entries by addresses, protocol and ports say where a flow goes.
    FlowTable,
    /// A Click configuration is asked.
    Click {
        /// Its text.
        config: String,
    },
}

impl LookupKind {
    /// Its name, as users write it.
    pub const fn name(&self) -> &'static str {
        match self {
            LookupKind::Learning => "learning",
            LookupKind::Hash => "hash",
            LookupKind::FlowTable => "flow-table",
            LookupKind::Click { .. } => "click",
        }
    }
}

impl Quantity for LookupKind {
    const MUST: &'static str = "a lookup function is learning, hash, flow-table or click";
}

impl FromStr for LookupKind {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "learning" => Ok(LookupKind::Learning),
            "hash" => Ok(LookupKind::Hash),
            "flow-table" => Ok(LookupKind::FlowTable),
            "click" => Err(Invalid::new("a Click configuration is given by its file")),
            _ => Err(Invalid::new(Self::MUST)),
        }
    }
}

impl fmt::Display for LookupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

properties! {
    /// How a domain works.
    pub struct DomainProperties {
        /// Lookup function: it decides where frames go.
        lookup: LookupKind = "lookup";
        /// Seconds after which an unused address is removed.
        aging: u32 = "aging", default AGING, in AGINGS;
        /// Highest number of addresses learned for one port.
        mac_limit: u32 = "mac-limit", default MAC_LIMIT, in MAC_LIMITS;
        /// Highest rate in each direction of each port without a `maxbw` of its own.
        speed: Option<Bandwidth> = "speed";
    }
}

/// As 802.1D recommends.
const AGING: u32 = 300;
/// 802.1D has the same as the most.
const AGINGS: Range = Range {
    least: 1,
    most: 1_000_000,
    must: "it is a number from {}",
    unit: "seconds",
};
const MAC_LIMIT: u32 = 1024;
/// The most is a whole table.
const MAC_LIMITS: Range = Range {
    least: 1,
    most: 65_536,
    must: "it is a number from {}",
    unit: "addresses",
};

impl DomainProperties {
    /// Checks values that came by another way than the command line.
    pub fn check(&self) -> Result<(), PropertyError> {
        table::check(Self::ROWS, self)
    }
}
