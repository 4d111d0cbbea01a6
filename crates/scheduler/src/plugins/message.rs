//! Requests to a plugin's process, and its answers. Answers are hostile.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Method, Pattern, pattern};
use crate::facts::{Guest, Host};

/// Largest answer, in bytes.
pub const ANSWER_MAX: usize = 4 << 20;
/// Longest message of a plugin that is passed on, in characters.
const SAID_MAX: usize = 300;
/// Most classes of a file.
const CLASSES_MAX: usize = 64;

/// A host, as a plugin gets it.
#[derive(Serialize)]
pub struct HostFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its facts.
    pub facts: &'a Host,
    /// Memory that is booked.
    pub memory_booked: u64,
    /// Processors that are reserved.
    pub processors_booked: f64,
    /// Processor time that is used.
    pub processors_used: f64,
    /// Guests.
    pub guests: u32,
    /// Rates that are reserved, by link.
    pub rates_booked: BTreeMap<&'a str, u64>,
    /// Its guests: for balancers.
    pub vms: Option<Vec<GuestFacts<'a>>>,
}

/// A guest, as a plugin gets it.
#[derive(Serialize)]
pub struct GuestFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its facts.
    pub facts: &'a Guest,
}

/// A request.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Request<'a> {
    /// Loads a plugin's file.
    Load {
        /// The folder of the file, where it finds modules of its own.
        folder: &'a str,
        /// The file's name, for messages.
        file: &'a str,
        /// What it says.
        source: &'a str,
    },
    /// Calls a method.
    Call {
        /// The class.
        class: &'a str,
        /// The method.
        method: &'static str,
        /// The hosts.
        hosts: Vec<HostFacts<'a>>,
        /// The guest, but not for a balancer.
        vm: Option<GuestFacts<'a>>,
        /// The policy's properties.
        args: &'a BTreeMap<String, String>,
    },
}

impl Request<'_> {
    /// The request as text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("keys are strings and numbers finite")
    }
}

/// A class of a file.
#[derive(Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its methods, and their descriptions.
    pub methods: BTreeMap<Method, String>,
    /// The properties that it takes.
    pub properties: BTreeMap<String, Pattern>,
}

/// A guest that a balancer moves, and where it may go; none: nothing is to be moved.
pub type Move = Option<(String, BTreeSet<String>)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said<T> {
    error: Option<String>,
    result: Option<T>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    name: String,
    methods: BTreeMap<String, String>,
    properties_validation: String,
}

/// What an answer has for a result; `None`: the plugin returned and printed nothing.
fn result<T: for<'de> Deserialize<'de>>(answer: &str, must: &str) -> Result<Option<T>, String> {
    let said: Said<T> = serde_json::from_str(answer).map_err(|_| {
        let shown = shortened(answer);
        format!("answered ‘{shown}’; {must}")
    })?;
    match said.error {
        Some(error) => Err(format!("failed: {}", shortened(&error))),
        None => Ok(said.result),
    }
}

/// The beginning of what a plugin said, in one line and without control characters.
pub(super) fn shortened(text: &str) -> String {
    let text = text.trim();
    let shown = text.chars().take(SAID_MAX);
    let shown: String = shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match text.chars().nth(SAID_MAX) {
        Some(_) => shown + "…",
        None => shown,
    }
}

/// The classes of a file.
pub fn classes(answer: &str) -> Result<Vec<Class>, String> {
    let raw: Option<Vec<RawClass>> = result(answer, "the runner lists classes")?;
    let raw = raw.unwrap_or_default();
    if raw.len() > CLASSES_MAX {
        return Err(format!("has more than {CLASSES_MAX} classes"));
    }
    let class = |raw: RawClass| {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        if raw.name.is_empty() || raw.name.len() > 128 || !raw.name.chars().all(word) {
            return Err(format!("has a class ‘{}’", shortened(&raw.name)));
        }
        let described = |method: Method| {
            let description = raw.methods.get(method.name())?;
            Some((method, shortened(description)))
        };
        let properties = pattern::read(&raw.properties_validation);
        Ok(Class {
            methods: Method::ALL.into_iter().filter_map(described).collect(),
            properties: properties.map_err(|why| format!("class {}: {why}", raw.name))?,
            name: raw.name,
        })
    };
    raw.into_iter().map(class).collect()
}

/// The hosts that `do_filter` accepts; `None`: it says nothing.
pub fn accepted(answer: &str) -> Result<Option<BTreeSet<String>>, String> {
    result(answer, "do_filter answers a list of hosts")
}

/// The scores of `do_score`; `None`: it says nothing.
pub fn scores(answer: &str) -> Result<Option<Vec<(String, f64)>>, String> {
    let must = "do_score answers a list of pairs of host and number";
    let scores: Option<Vec<(String, f64)>> = result(answer, must)?;
    // Beyond, a sum of scores would not be finite.
    let usable = |score: f64| score.is_finite() && score.abs() <= 1e100;
    match scores.iter().flatten().find(|(_, score)| !usable(*score)) {
        Some((_, score)) => Err(format!("answered score {score}; {must}")),
        None => Ok(scores),
    }
}

/// The move of `do_balance`.
pub fn balance(answer: &str) -> Result<Move, String> {
    let must = "do_balance answers a pair of guest and list of hosts";
    let chosen: Move = result(answer, must)?;
    // oVirt's proxy answers an empty name where there is nothing to move.
    Ok(chosen.filter(|(guest, hosts)| !guest.is_empty() && !hosts.is_empty()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_are_checked() {
        let hosts = accepted(r#"{"result": ["a", "b", "a"]}"#).unwrap().unwrap();
        assert_eq!(hosts.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(accepted("{}"), Ok(None));
        let error = accepted(r#"{"error": "boom\nline"}"#).unwrap_err();
        assert_eq!(error, "failed: boom line");
        let error = accepted(r#"{"result": [1]}"#).unwrap_err();
        assert!(
            error.ends_with("do_filter answers a list of hosts"),
            "{error}"
        );
        assert!(
            scores(r#"{"result": [["a", 50], ["b", 1.5]]}"#)
                .unwrap()
                .is_some()
        );
        for wrong in [
            r#"{"result": [["a", 1e300]]}"#,
            r#"{"result": [["a"]]}"#,
            "[1]",
            "",
        ] {
            assert!(scores(wrong).is_err(), "{wrong}");
        }
        assert_eq!(balance(r#"{"result": ["", []]}"#), Ok(None));
        let (guest, hosts) = balance(r#"{"result": ["g", ["h"]]}"#).unwrap().unwrap();
        assert_eq!((guest.as_str(), hosts.len()), ("g", 1));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(answer in ".{0,300}", long in "[a-z]{1,400}") {
            let _ = (classes(&answer), accepted(&answer), scores(&answer), balance(&answer));
            let answer = format!("{{\"error\": \"{long}\"}}");
            let error = accepted(&answer).unwrap_err();
            prop_assert!(error.chars().count() <= SAID_MAX + 10);
        }
    }
}
