//! Policies: named sets of filters, weights with factors, one balancer, and properties.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::balancers::BALANCERS;
use crate::error::{Error, Result};
use crate::filters::FILTERS;
use crate::plugins::{Method, Plugin};
use crate::properties::{self, Property};
use crate::unit;
use crate::weights::WEIGHTS;

/// Largest factor of a weight.
pub const FACTOR_MAX: u32 = 1000;

/// Whether decisions may be made at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concurrency {
    /// A decision waits until the one before it is booked.
    #[default]
    OneAtATime,
    /// Decisions are made side by side. One whose host is no longer right when it is booked is made again.
    Parallel,
}

/// When hosts are not weighed: the first host that the filters leave is taken, from a start that the guest's name
/// gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipWeights {
    /// Hosts are always weighed.
    #[default]
    Never,
    /// When more guests than this wait for a host.
    Above(u32),
    /// Hosts are never weighed.
    Always,
}

impl SkipWeights {
    /// Whether hosts are weighed while so many guests wait.
    pub fn weighs(self, waiting: u32) -> bool {
        match self {
            SkipWeights::Never => true,
            SkipWeights::Above(most) => waiting <= most,
            SkipWeights::Always => false,
        }
    }
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Policy {
    /// Filters, by their names; a plugin by its class.
    pub filters: Vec<String>,
    /// Weights, and the factor of each.
    pub weights: BTreeMap<String, u32>,
    /// The balancer.
    pub balancer: String,
    /// Properties of the filters and the balancer, and of plugins.
    pub properties: BTreeMap<String, String>,
    /// Whether decisions may be made at once.
    pub concurrency: Concurrency,
    /// When hosts are not weighed.
    pub skip_weights: SkipWeights,
}

impl Default for Policy {
    fn default() -> Policy {
        BUILT_IN[0].policy()
    }
}

/// A policy that is built in.
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it does, a sentence.
    pub description: &'static str,
    /// Filters beside the common ones.
    filters: &'static [&'static str],
    /// Weights beside the common ones.
    weights: &'static [(&'static str, u32)],
    balancer: &'static str,
}

/// The filters of every built-in policy.
const FILTERS_OF_ALL: &[&str] = &[
    "memory",
    "processor",
    "overload",
    "maximum-guests",
    "wall",
    "link",
    "rate",
    "lanes",
    "pinned-host",
    "labels",
    "anti-labels",
    "affinity",
    "anti-affinity",
    "migration",
    "maintenance",
];

/// The weights of every built-in policy: what a guest asks for counts more than how hosts are used.
const WEIGHTS_OF_ALL: &[(&str, u32)] = &[
    ("affinity", 10),
    ("anti-affinity", 10),
    ("preferred-host", 20),
    ("warm-image", 1),
    ("chain-distance", 2),
];

/// The policies that are built in; the first is the default.
pub static BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "none",
        description: "Guests start on the hosts that are used least, and stay there.",
        filters: &[],
        weights: &[("even-processor", 1), ("even-memory", 1)],
        balancer: "none",
    },
    BuiltIn {
        name: "evenly_distributed",
        description: "Guests start on the hosts that are used least, and leave hosts that are used too much.",
        filters: &[],
        weights: &[("even-processor", 2), ("even-memory", 1)],
        balancer: "even-distribution",
    },
    BuiltIn {
        name: "vm_evenly_distributed",
        description: "Hosts have about the same number of guests.",
        filters: &[],
        weights: &[("even-guests", 3)],
        balancer: "even-guests",
    },
    BuiltIn {
        name: "power_saving",
        description: "Guests share few hosts; the others are emptied, and may sleep.",
        filters: &[],
        weights: &[("power-saving-processor", 2), ("power-saving-memory", 1)],
        balancer: "power-saving",
    },
    BuiltIn {
        name: "maintenance",
        description: "No new guests start. Guests that run may move, and highly available guests of hosts that \
                      failed start elsewhere.",
        filters: &["no-new-guests"],
        weights: &[("even-processor", 1), ("even-memory", 1)],
        balancer: "none",
    },
];

impl BuiltIn {
    /// The policy itself.
    pub fn policy(&self) -> Policy {
        let filters = FILTERS_OF_ALL.iter().chain(self.filters);
        let weights = WEIGHTS_OF_ALL.iter().chain(self.weights);
        Policy {
            filters: filters.map(|name| name.to_string()).collect(),
            weights: weights
                .map(|(name, factor)| (name.to_string(), *factor))
                .collect(),
            balancer: self.balancer.into(),
            properties: BTreeMap::new(),
            concurrency: Concurrency::default(),
            skip_weights: SkipWeights::default(),
        }
    }
}

impl Policy {
    /// The built-in policy of this name.
    pub fn built_in(name: &str) -> Result<Policy> {
        let row = BUILT_IN.iter().find(|row| row.name == name);
        row.map(BuiltIn::policy).ok_or_else(|| Error::Unknown {
            kind: "policy",
            name: name.into(),
            known: BUILT_IN.iter().map(|row| row.name.to_string()).collect(),
        })
    }

    /// The properties of its built-in units.
    pub fn declared(&self) -> Vec<&'static Property> {
        let filters = self
            .filters
            .iter()
            .filter_map(|name| unit::find(FILTERS, name));
        let weights = self
            .weights
            .keys()
            .filter_map(|name| unit::find(WEIGHTS, name));
        let balancer = unit::find(BALANCERS, &self.balancer);
        let declared = filters
            .flat_map(|row| row.properties)
            .chain(weights.flat_map(|row| row.properties))
            .chain(balancer.into_iter().flat_map(|row| row.properties));
        let names: Vec<_> = declared.map(|property| property.name).collect();
        let all = properties::ALL.iter().copied();
        let own = all.filter(|property| {
            // Every policy bounds its migrations.
            names.contains(&property.name) || property.name == properties::MIGRATIONS_AT_A_TIME.name
        });
        own.collect()
    }

    /// The units that are not built in: each with the method that its plugin has.
    pub fn plugins(&self) -> BTreeSet<(Method, String)> {
        let filters = self.filters.iter();
        let filters = filters.filter(|name| unit::find(FILTERS, name).is_none());
        let weights = self.weights.keys();
        let weights = weights.filter(|name| unit::find(WEIGHTS, name).is_none());
        let balancer = Some(&self.balancer);
        let balancer = balancer.filter(|name| unit::find(BALANCERS, name).is_none());
        let filters = filters.map(|name| (Method::Filter, name.clone()));
        let weights = weights.map(|name| (Method::Score, name.clone()));
        let balancer = balancer.map(|name| (Method::Balance, name.clone()));
        filters.chain(weights).chain(balancer).collect()
    }

    /// The policy without the plugins that are not among these, and the classes of these missing ones.
    pub fn with_only(mut self, plugins: &[Plugin]) -> (Policy, BTreeSet<String>) {
        let is_there = |class: &str, method| plugins.iter().any(|it| it.offers(class, method));
        let mut missing = self.plugins();
        missing.retain(|(method, class)| !is_there(class, *method));
        let stays = |method, name: &String| !missing.contains(&(method, name.clone()));
        self.filters.retain(|name| stays(Method::Filter, name));
        self.weights.retain(|name, _| stays(Method::Score, name));
        if !stays(Method::Balance, &self.balancer) {
            self.balancer = Policy::default().balancer;
        }
        if !missing.is_empty() {
            // A property may be that of a missing plugin.
            let built_in = self.declared();
            let used = self.plugins();
            let used = used
                .iter()
                .filter_map(|(_, class)| plugins.iter().find(|it| it.class == *class));
            let used: Vec<_> = used.collect();
            self.properties.retain(|name, _| {
                built_in.iter().any(|it| it.name == name)
                    || used.iter().any(|it| it.properties.contains_key(name))
            });
        }
        let missing = missing.into_iter().map(|(_, class)| class);
        (self, missing.collect())
    }

    /// Refuses filters that are named twice, and factors beyond the limits.
    pub fn check(&self, name: &str) -> Result {
        for (index, filter) in self.filters.iter().enumerate() {
            if self.filters[..index].contains(filter) {
                return Err(Error::Twice {
                    policy: name.into(),
                    kind: "filter",
                    name: filter.clone(),
                });
            }
        }
        for (weight, factor) in &self.weights {
            if !(1..=FACTOR_MAX).contains(factor) {
                return Err(Error::Factor {
                    policy: name.into(),
                    weight: weight.clone(),
                    factor: *factor,
                });
            }
        }
        Ok(())
    }
}
