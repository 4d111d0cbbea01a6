//! Reports of guests that crashed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::object::record;

/// How a guest crashed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CrashReport {
    /// Its number, which no other report has.
    pub number: u64,
    /// The guest.
    pub guest: String,
    /// When the node noticed the crash (RFC 3339).
    pub time: String,
    /// How it ended: a sentence.
    pub reason: String,
    /// The element that it reported to run, with its line in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
    /// The vCPU, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Function and offset of the instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Registers by their names, in hexadecimal. A list leaves them out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub registers: BTreeMap<String, String>,
    /// Seconds that it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<f64>,
    /// CRC-32 of the configuration with its variables, in hexadecimal: equal configurations have equal ones.
    pub config_hash: String,
    /// The version of the node.
    pub version: String,
    /// The last lines that it printed. A list leaves them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
}

impl CrashReport {
    /// Without what lists leave out.
    pub(crate) fn listed(mut self) -> CrashReport {
        self.registers.clear();
        self.console.clear();
        self
    }
}

/// Which crash reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashesQuery {
    /// Names and patterns of guests such as `fw-*`, separated by commas; without any, all guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A crash report as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrashRecord {
    /// Its number, with as many digits as any.
    pub name: String,
    /// The report.
    pub report: CrashReport,
}

impl CrashRecord {
    /// Its key by its number.
    pub fn key_of(number: u64) -> String {
        format!("{number:020}")
    }
}

impl From<CrashReport> for CrashRecord {
    fn from(report: CrashReport) -> CrashRecord {
        CrashRecord {
            name: CrashRecord::key_of(report.number),
            report,
        }
    }
}

record!(CrashRecord: "crashes");
