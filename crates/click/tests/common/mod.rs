//! An environment with the element classes that the tests use.

#![allow(dead_code, unused_macros, reason = "each test file uses a part")]

use click::{Diagnostics, Environment, FlatGraph, Library, Options};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct World {
    pub libraries: BTreeMap<&'static str, &'static str>,
}

impl Environment for World {
    fn has_class(&self, name: &str) -> bool {
        ["Idle", "Null", "Discard", "Queue", "Tee", "Paint"].contains(&name)
    }

    fn nearest_class(&self, name: &str) -> Option<String> {
        (name == "Quue").then(|| "Queue".to_owned())
    }

    fn has_package(&self, name: &str) -> bool {
        name == "click"
    }

    fn library(&self, name: &str, _from: &str) -> Result<Option<Library>, String> {
        if name == "unreadable" {
            return Err("unreadable: Permission denied".to_owned());
        }
        Ok(self.libraries.get(name).map(|source| Library {
            path: format!("/lib/{name}"),
            source: source.as_bytes().to_vec(),
        }))
    }
}

pub fn parse_in(world: &World, source: &str) -> (Option<FlatGraph>, String) {
    let mut diagnostics = Diagnostics::new();
    let graph = click::parse(
        source.as_bytes(),
        "config",
        &Options::new(world),
        &mut diagnostics,
    );
    (graph, diagnostics.to_string())
}

pub fn parse(source: &str) -> (Option<FlatGraph>, String) {
    parse_in(&World::default(), source)
}

/// Tests by name: a configuration, and what is expected of it, from its second line on if the first
/// is empty.
macro_rules! cases {
    ($check:ident: $($(#[$doc:meta])* $name:ident: $source:expr => $expected:expr;)+) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let expected: &str = $expected;
            $check($source, expected.strip_prefix('\n').unwrap_or(expected));
        }
    )+};
}

/// Asserts what a configuration becomes, and that this is a fixed point.
#[track_caller]
pub fn flattens(source: &str, expected: &str) {
    let (graph, messages) = parse(source);
    let graph = graph.unwrap_or_else(|| panic!("{messages}"));
    assert_eq!(graph.unparse(), expected);
    let (again, messages) = parse(expected);
    let again = again.unwrap_or_else(|| panic!("{messages}"));
    assert_eq!(again.port_counts(), graph.port_counts());
    assert_eq!(again.unparse(), expected);
}

/// Asserts that a configuration is wrong, and what is said about it.
#[track_caller]
pub fn complains(source: &str, expected: &str) {
    let (graph, messages) = parse(source);
    assert_eq!(messages, expected);
    assert!(graph.is_none());
}
