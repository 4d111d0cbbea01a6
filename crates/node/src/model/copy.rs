//! Guests saved, restored and cloned.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::object::is_default;
use super::verb::numbered;
use crate::error::Result;

/// Where a guest is saved to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Save {
    /// The file, by its path on the node's host. An existing one is replaced.
    #[schema(value_type = String)]
    pub file: PathBuf,
    /// Whether the guest goes on. Otherwise it is stopped, and can be restored as if nothing had happened but time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
}

/// A file that a guest was saved to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Saved {
    /// Its path.
    #[schema(value_type = String)]
    pub file: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A saved guest that is to go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// The file, by its path on the node's host.
    #[schema(value_type = String)]
    pub file: PathBuf,
    /// Another name for the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Copies of a guest that are to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Clones {
    /// Their name, with `{}` for the number. One copy needs none.
    pub name: String,
    /// How many; at most 100 000.
    #[schema(minimum = 1, maximum = 100_000)]
    pub count: u32,
    /// The first one's number.
    #[serde(default = "first")]
    pub first: u32,
}

fn first() -> u32 {
    1
}

impl Clones {
    /// Their names and numbers.
    pub fn names(&self) -> Result<impl Iterator<Item = (String, u32)> + Send + use<>> {
        let numbers = match self.count {
            // One needs no number.
            1 => {
                super::name::check_name(
                    "guest",
                    &self.name.replace(super::NUMBER, &self.first.to_string()),
                )?;
                self.first..self.first.saturating_add(1)
            }
            _ => numbered(&self.name, self.first, self.count)?,
        };
        let name = self.name.clone();
        Ok(numbers.map(move |number| {
            let name = name.replace(super::NUMBER, &number.to_string());
            (name, number)
        }))
    }
}
