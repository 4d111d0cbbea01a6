//! Explanations: which filter excludes which host, and the table of weights.

use std::sync::Arc;

use serde::Serialize;

use crate::error::Failure;
use crate::facts::{Guest, HostState};
use crate::inventory::{HostSet, Inventory};
use crate::scheduler::{NamedFilter, Scale, Scheduler, best, start};
use crate::unit::{Occasion, Request};

/// A host that a filter excludes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Exclusion {
    /// The host.
    pub host: String,
    /// The filter; none for a host that takes no part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Why, a sentence about the host.
    pub reason: String,
}

/// A score of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Score {
    /// The weight.
    pub weight: String,
    /// The weight's score: lower is better.
    pub score: f64,
    /// The score normalized, times the factor: from 0 to the factor.
    pub cost: f64,
}

/// The scores of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WeightRow {
    /// The host.
    pub host: String,
    /// Its scores, in the order of the weights' names.
    pub scores: Vec<Score>,
    /// The sum of their costs.
    pub sum: f64,
}

/// A decision, explained.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Explanation {
    /// The guest.
    pub guest: String,
    /// The policy.
    pub policy: String,
    /// The host that is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Hosts that are excluded: by each filter that excludes them.
    pub excluded: Vec<Exclusion>,
    /// The hosts that are left, the best first.
    pub weights: Vec<WeightRow>,
    /// Plugins that were left out.
    pub failures: Vec<Failure>,
}

impl Scheduler {
    /// Explains the decision that [`decide`](Self::decide) makes with weights.
    pub fn explain(
        &self,
        inventory: &Inventory,
        name: &str,
        guest: &Arc<Guest>,
        occasion: Occasion,
    ) -> Explanation {
        let hosts = &inventory.hosts;
        let request = Request {
            name,
            guest,
            occasion,
            from: inventory.guest(name).map(|placed| placed.host),
        };
        let candidates = self.candidates(inventory, &request);
        let mut explanation = Explanation {
            guest: name.into(),
            policy: self.name().into(),
            host: None,
            excluded: absent(inventory, &request, &candidates),
            weights: Vec::new(),
            failures: Vec::new(),
        };
        let mut may = candidates.clone();
        let (built_in, plugins) = self.filters.split_at(self.built_in);
        for (filters, asked) in [(built_in, Some(candidates)), (plugins, None)] {
            // Plugins are asked about the hosts that the built-in filters leave.
            let asked = asked.unwrap_or_else(|| may.clone());
            for filter in filters {
                self.explain_filter(
                    inventory,
                    &request,
                    filter,
                    &asked,
                    &mut may,
                    &mut explanation,
                );
            }
        }
        // Of one host, in the order of the filters.
        explanation.excluded.sort_by(|a, b| a.host.cmp(&b.host));
        let sums = self.explain_weights(inventory, &request, &may, &mut explanation);
        let chosen = best(&may, &sums, start(name, hosts.slots()));
        explanation.host = chosen.map(|slot| hosts.name(slot).into());
        let first = explanation.host.clone();
        explanation.weights.sort_by(|a, b| {
            let key = |row: &WeightRow| (first.as_ref() != Some(&row.host), row.sum);
            let ((a_later, a_sum), (b_later, b_sum)) = (key(a), key(b));
            a_later.cmp(&b_later).then(a_sum.total_cmp(&b_sum))
        });
        explanation
    }

    fn explain_filter(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        NamedFilter { name, filter }: &NamedFilter,
        asked: &HostSet,
        may: &mut HostSet,
        explanation: &mut Explanation,
    ) {
        let mut left = asked.clone();
        match filter.filter(inventory, request, &mut left) {
            Ok(()) => may.intersect(&left),
            Err(failure) => return explanation.failures.push(failure),
        }
        let mut excluded = asked.clone();
        excluded.subtract(&left);
        let exclusions = excluded.iter().map(|slot| Exclusion {
            host: inventory.hosts.name(slot).into(),
            filter: Some(name.clone()),
            reason: filter.reason(inventory, request, slot),
        });
        explanation.excluded.extend(exclusions);
    }

    fn explain_weights(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        may: &HostSet,
        explanation: &mut Explanation,
    ) -> Vec<f64> {
        let hosts = &inventory.hosts;
        let mut sums = vec![0.0; hosts.slots()];
        let row = |slot| WeightRow {
            host: hosts.name(slot).into(),
            scores: Vec::new(),
            sum: 0.0,
        };
        let mut rows: Vec<_> = may.iter().map(row).collect();
        let mut scores = vec![0.0; hosts.slots()];
        for named in &self.weights {
            scores.fill(0.0);
            if let Err(failure) = named.weight.score(inventory, request, may, &mut scores) {
                explanation.failures.push(failure);
                continue;
            }
            let scale = Scale::of(may, &scores, named.factor);
            for (slot, row) in may.iter().zip(&mut rows) {
                let cost = scale.cost(scores[slot]);
                sums[slot] += cost;
                row.sum += cost;
                row.scores.push(Score {
                    weight: named.name.clone(),
                    score: scores[slot],
                    cost,
                });
            }
        }
        explanation.weights = rows;
        sums
    }
}

/// The hosts that filters are not asked about.
fn absent(inventory: &Inventory, request: &Request<'_>, candidates: &HostSet) -> Vec<Exclusion> {
    let hosts = &inventory.hosts;
    let absent = hosts
        .by_name()
        .into_iter()
        .filter(|slot| !candidates.contains(*slot));
    let reason = |slot| match hosts.state(slot) {
        HostState::Asleep => "is asleep",
        HostState::Down => "is down",
        _ if request.from == Some(slot) => "runs the guest",
        _ => "takes no part",
    };
    absent
        .map(|slot| Exclusion {
            host: hosts.name(slot).into(),
            filter: None,
            reason: reason(slot).into(),
        })
        .collect()
}
