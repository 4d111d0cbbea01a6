//! Any bytes as a configuration: reading them must end, soon, without a panic,
//! in a graph or in errors; and a graph's text must read as the same graph.
//!
//! `cargo +nightly fuzz run click_language fuzz/corpus/click_language
//! fuzz/seeds/click_language -- -dict=fuzz/click_language.dict`

#![no_main]

use click::config::{self, Reference, Style};
use click::{Diagnostics, Environment, FlatGraph, Library, Limits, Location, Options};
use libfuzzer_sys::fuzz_target;

struct World;

impl Environment for World {
    fn library(&self, name: &str, from: &str) -> Result<Option<Library>, String> {
        match name {
            "bad" => Err("bad: unreadable".to_owned()),
            "deep" => Ok(Some(Library {
                path: format!("{from}/deep"),
                source: b"require(library deep) elementclass L { -> }".to_vec(),
            })),
            "lib" => Ok(Some(Library {
                path: "lib".to_owned(),
                source: b"elementclass L { $a | -> Null($a) -> }".to_vec(),
            })),
            _ => Ok(None),
        }
    }
}

fn parse(source: &[u8]) -> (Option<FlatGraph>, Diagnostics) {
    let variables = [("v".to_owned(), "\"x\" $v ${w-y}".to_owned())];
    let options = Options {
        variables: &variables,
        limits: Limits {
            elements: 3000,
            connections: 3000,
            port: 300,
            text: 1 << 18,
        },
        ..Options::new(&World)
    };
    let mut diagnostics = Diagnostics::new();
    let graph = click::parse(source, "fuzz.click", &options, &mut diagnostics);
    assert_eq!(graph.is_none(), diagnostics.errors() > 0);
    (graph, diagnostics)
}

/// Checks what `parse` promises of a graph.
fn check_shape(graph: &FlatGraph) {
    let mut names: Vec<&str> = graph.elements.iter().map(|e| &*e.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(names.iter().all(|name| config::is_identifier(name)));
    let order =
        |pair: &[click::Connection]| (pair[0].to, pair[0].from) < (pair[1].to, pair[1].from);
    assert!(graph.connections.windows(2).all(order));
    assert_eq!(graph.port_counts().len(), graph.elements.len());
}

fn without_places(mut graph: FlatGraph) -> FlatGraph {
    for element in &mut graph.elements {
        element.location = Location::unknown();
    }
    for connection in &mut graph.connections {
        connection.location = Location::unknown();
    }
    graph
}

fn check_config(text: &str) {
    for arg in config::split_args(text) {
        assert_eq!(config::uncomment(&arg), arg);
        config::split_space(&arg);
        config::keyword(&arg);
        let data = config::unquote(&arg);
        assert_eq!(config::unquote(&config::quote(&data)), data);
    }
    let mut lookup = |reference: &Reference<'_>| Some(reference.name.to_owned());
    for style in [Style::Bare, Style::Quoted] {
        let _ = config::expand(text, style, &mut lookup);
    }
}

fuzz_target!(|source: &[u8]| {
    check_config(&String::from_utf8_lossy(source));
    let (graph, diagnostics) = parse(source);
    let _ = diagnostics.to_string();
    let Some(graph) = graph else {
        return;
    };
    check_shape(&graph);
    // Variables can take a configuration string apart at places where its
    // parentheses then don't match; and what a class is called says what it
    // is here, so that element names with capitals don't read back.
    let plain = !source.contains(&b'$');
    let names_are_not_classes = graph.elements.iter().all(|e| !World.has_class(&e.name));
    if plain && names_are_not_classes && graph.requirements.is_empty() {
        let (again, diagnostics) = parse(graph.unparse().as_bytes());
        assert_eq!(
            again.map(without_places),
            Some(without_places(graph)),
            "{diagnostics}"
        );
    }
});
