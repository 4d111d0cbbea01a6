//! Properties of domains.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::is_default;
use super::text::{PropertyError, read};
use super::units::{Bandwidth, Unfit};

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

impl FromStr for LookupKind {
    type Err = Unfit;

    fn from_str(text: &str) -> Result<Self, Unfit> {
        match text {
            "learning" => Ok(LookupKind::Learning),
            "hash" => Ok(LookupKind::Hash),
            "flow-table" => Ok(LookupKind::FlowTable),
            "click" => Err(Unfit::new("a Click configuration is given by its file")),
            _ => Err(Unfit::new(
                "a lookup function is learning, hash, flow-table or click",
            )),
        }
    }
}

impl fmt::Display for LookupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a domain works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct DomainProperties {
    /// What says where frames go.
    #[serde(skip_serializing_if = "is_default")]
    pub lookup: LookupKind,
    /// Seconds after which an address that was not seen again is forgotten.
    #[serde(skip_serializing_if = "is_default_aging")]
    pub aging: u32,
    /// Addresses that are learned behind one port.
    #[serde(skip_serializing_if = "is_default_mac_limit")]
    pub mac_limit: u32,
    /// Highest rate of each of its ports that has no `maxbw` of its own, in each direction: the
    /// speed of the switch that it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Bandwidth>,
}

/// As 802.1D recommends.
const AGING: u32 = 300;
const MAC_LIMIT: u32 = 1024;

fn is_default_aging(aging: &u32) -> bool {
    *aging == AGING
}

fn is_default_mac_limit(limit: &u32) -> bool {
    *limit == MAC_LIMIT
}

impl Default for DomainProperties {
    fn default() -> Self {
        DomainProperties {
            lookup: LookupKind::Learning,
            aging: AGING,
            mac_limit: MAC_LIMIT,
            speed: None,
        }
    }
}

impl DomainProperties {
    /// Serializes them with those that are as they are when not given, which the usual form leaves
    /// out.
    pub fn serialize_whole<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "kebab-case")]
        struct Whole<'a> {
            lookup: &'a LookupKind,
            aging: u32,
            mac_limit: u32,
            #[serde(skip_serializing_if = "Option::is_none")]
            speed: Option<Bandwidth>,
        }
        let whole = Whole {
            lookup: &self.lookup,
            aging: self.aging,
            mac_limit: self.mac_limit,
            speed: self.speed,
        };
        whole.serialize(serializer)
    }

    /// The properties' names, in the order in which they are shown.
    pub const NAMES: [&str; 4] = ["lookup", "aging", "mac-limit", "speed"];

    /// Sets one property to a value as the command line has it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), PropertyError> {
        let number = |most: u32| {
            let number = value.parse().ok();
            let number = number.filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| {
                PropertyError::value(name, value, format!("it is a number from 1 to {most}"))
            })
        };
        match name {
            "lookup" => self.lookup = read(name, value)?,
            "aging" => self.aging = number(AGING_MAX)?,
            "mac-limit" => self.mac_limit = number(MAC_LIMIT_MAX)?,
            "speed" => self.speed = Some(read(name, value)?),
            _ => return Err(PropertyError::unknown(name, &Self::NAMES)),
        }
        Ok(())
    }

    /// Sets one property to what it is when it is not given.
    pub fn reset(&mut self, name: &str) -> Result<(), PropertyError> {
        let without = DomainProperties::default();
        match name {
            "lookup" => self.lookup = without.lookup,
            "aging" => self.aging = without.aging,
            "mac-limit" => self.mac_limit = without.mac_limit,
            "speed" => self.speed = None,
            _ => return Err(PropertyError::unknown(name, &Self::NAMES)),
        }
        Ok(())
    }

    /// The value of one property as the command line has it; `None` if it has none, or there is no
    /// such property.
    pub fn get(&self, name: &str) -> Option<String> {
        match name {
            "lookup" => Some(self.lookup.to_string()),
            "aging" => Some(self.aging.to_string()),
            "mac-limit" => Some(self.mac_limit.to_string()),
            "speed" => self.speed.map(|speed| speed.to_string()),
            _ => None,
        }
    }

    /// What a message or a file may say where the command line could not.
    pub fn check(&self) -> Result<(), PropertyError> {
        let mut same = self.clone();
        same.set("aging", &self.aging.to_string())?;
        same.set("mac-limit", &self.mac_limit.to_string())
    }
}

/// Longest aging, in seconds: what 802.1D has as the most.
const AGING_MAX: u32 = 1_000_000;
/// Most addresses behind one port: a whole table.
const MAC_LIMIT_MAX: u32 = 65_536;

text_form!(DomainProperties);
