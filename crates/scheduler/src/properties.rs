//! Properties of policies: numbers that filters and balancers obey. Each is declared here once.

use std::collections::BTreeMap;

/// A property.
#[derive(Debug)]
pub struct Property {
    /// Its name, as oVirt has it where oVirt has it.
    pub name: &'static str,
    /// What it says, a sentence.
    pub description: &'static str,
    /// Its value where a policy says nothing.
    pub default: u64,
    /// Smallest value.
    pub least: u64,
    /// Largest value.
    pub most: u64,
}

macro_rules! properties {
    ($($(#[doc = $doc:literal])* $constant:ident = $name:literal, $default:literal in $least:literal..=$most:literal;)*) => {
        $($(#[doc = $doc])*
        pub static $constant: Property = Property {
            name: $name,
            description: concat!($($doc),*).trim_ascii(),
            default: $default,
            least: $least,
            most: $most,
        };)*

        /// All properties.
        pub static ALL: &[&Property] = &[$(&$constant),*];
    };
}

properties! {
    /// Memory that guests may have on a host, in percent of its memory.
    MEMORY_OVER_COMMIT = "MemoryOverCommit", 100 in 1..=10_000;
    /// Processors that may be reserved on a host, in percent of its processors.
    CPU_OVER_COMMIT = "CpuOverCommit", 100 in 1..=100_000;
    /// Use of a host's processors, in percent, above which it is used too much.
    HIGH_UTILIZATION = "HighUtilization", 80 in 1..=100;
    /// Use of a host's processors, in percent, below which it is used too little.
    LOW_UTILIZATION = "LowUtilization", 20 in 0..=99;
    /// Minutes that a host is used too much, or too little, before anything is done.
    CPU_OVER_COMMIT_DURATION = "CpuOverCommitDurationMinutes", 2 in 0..=1440;
    /// Guests of a host above which it has too many.
    HIGH_VM_COUNT = "HighVmCount", 10 in 0..=1_000_000;
    /// Guests that the fullest host has more than another, from which on one moves.
    MIGRATION_THRESHOLD = "MigrationThreshold", 5 in 2..=1_000_000;
    /// Hosts without guests that stay awake.
    HOSTS_IN_RESERVE = "HostsInReserve", 0 in 0..=100_000;
    /// Guests that move at a time.
    MIGRATIONS_AT_A_TIME = "MigrationsAtATime", 4 in 1..=10_000;
    /// Most guests of a host.
    MAXIMUM_GUESTS = "MaximumGuests", 1_000_000 in 0..=1_000_000;
}

impl Property {
    /// What a value must be.
    pub fn must(&self) -> String {
        format!("it is a whole number from {} to {}", self.least, self.most)
    }

    /// The value that `text` is, if it is one.
    pub fn read(&self, text: &str) -> Option<u64> {
        let value = text.parse().ok()?;
        (self.least..=self.most).contains(&value).then_some(value)
    }
}

/// The properties that a policy sets, checked.
#[derive(Clone, Debug, Default)]
pub struct Values {
    set: BTreeMap<&'static str, u64>,
}

impl Values {
    /// The value of a property.
    pub fn get(&self, property: &Property) -> u64 {
        self.set
            .get(property.name)
            .copied()
            .unwrap_or(property.default)
    }

    pub(crate) fn set(&mut self, property: &'static Property, value: u64) {
        self.set.insert(property.name, value);
    }
}
