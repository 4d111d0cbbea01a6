//! What can be wrong, a sentence each.

use serde::Serialize;

/// A result of the scheduler.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why a plugin was left out of a decision, or could not be loaded.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("plugin {plugin}: {why}")]
pub struct Failure {
    /// The plugin: its class, or its file.
    pub plugin: String,
    /// What it did, or what is wrong with it.
    pub why: String,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A name that is no name.
    #[error(
        "‘{name}’ is not a valid name for a {kind}: write 1 to 256 letters, digits, ‘.’, ‘_’ and ‘-’"
    )]
    Name {
        /// Of what.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A fact beyond the limits.
    #[error("{kind} {name}: {field}: {why}")]
    Fact {
        /// A host's or a guest's.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A name that nothing has.
    #[error("there is no {kind} {name}{}", hint(.known))]
    Unknown {
        /// A host, guest, policy, filter, weight or balancer.
        kind: &'static str,
        /// The name.
        name: String,
        /// Names that there are, if they are few.
        known: Vec<String>,
    },
    /// A name that is taken.
    #[error("there is a guest {0} already; choose another name")]
    Taken(String),
    /// A policy names a unit twice.
    #[error("policy {policy} names {kind} {name} twice; name it once")]
    Twice {
        /// The policy.
        policy: String,
        /// A filter.
        kind: &'static str,
        /// The unit.
        name: String,
    },
    /// A factor beyond the limits.
    #[error(
        "policy {policy}: weight {weight} has factor {factor}: a factor is a whole number from 1 to 1000"
    )]
    Factor {
        /// The policy.
        policy: String,
        /// The weight.
        weight: String,
        /// The factor.
        factor: u32,
    },
    /// A property that no unit of the policy has.
    #[error("policy {policy} has no property {name}{}", hint(.known))]
    NoProperty {
        /// The policy.
        policy: String,
        /// The property.
        name: String,
        /// Properties that it has.
        known: Vec<String>,
    },
    /// A value that the property refuses.
    #[error("policy {policy}: {name} is ‘{value}’: {must}")]
    Property {
        /// The policy.
        policy: String,
        /// The property.
        name: String,
        /// The value.
        value: String,
        /// What is right.
        must: String,
    },
    /// No host may run the guest.
    #[error("no host may run guest {guest}: {}", .why.join("; "))]
    NoHost {
        /// The guest.
        guest: String,
        /// How many hosts each filter excludes, with one reason.
        why: Vec<String>,
    },
    /// The host changed after the decision.
    #[error("host {host} changed, and may not run guest {guest} any more: {why}; decide again")]
    Stale {
        /// The guest.
        guest: String,
        /// The host.
        host: String,
        /// Which filter excludes it, and why.
        why: String,
    },
    /// A guest that moves already, or does not move.
    #[error("guest {guest} {why}")]
    Move {
        /// The guest.
        guest: String,
        /// What is the case.
        why: &'static str,
    },
    /// A plugin that could not be used.
    #[error(transparent)]
    Plugin(#[from] Failure),
}

fn hint(known: &[String]) -> String {
    match known {
        [] => String::new(),
        known => format!(": there are {}", known.join(", ")),
    }
}
