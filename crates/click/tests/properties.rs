//! What holds for any text, and for any configuration without errors.

mod common;

use click::config::{quote, split_args, split_space, uncomment, unquote};
use click::{Connection, FlatElement, FlatGraph, Location};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Bits of text that mean something to the language.
const TOKENS: [&str; 46] = [
    "a",
    "b",
    "Idle",
    "Null",
    "->",
    "=>",
    "::",
    ",",
    ";",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "[0,1]",
    "[1]",
    "|",
    "||",
    "...",
    "elementclass",
    "A",
    "$a",
    "K",
    "__REST__",
    "define(",
    "require(",
    "library x",
    "input",
    "output",
    "1",
    "-",
    "\n",
    "\n# 3 \"z\"\n",
    "/*",
    "*/",
    "//",
    "\"",
    "'",
    "\\<",
    ">",
    "$",
    "${",
    "$(",
    "é",
    "\0",
];

/// A configuration with compounds, groups and variables, mostly without
/// errors.
fn program() -> impl Strategy<Value = String> {
    let leaf = select(vec![
        "Idle",
        "Null($a)",
        "Tee(1, $b)",
        "a",
        "b",
        "c :: Queue(\"$a\")",
        "A(1)",
        "B",
        "A(1, 2)",
        "{ -> Null(${a-z}) -> }",
        "( -> Null -> )",
        "d :: { $a | -> Paint($a) -> } (3)",
        "( => Null, Idle => )",
        "{ => [0,1] Idle => }",
    ])
    .prop_map(str::to_owned);
    let list = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(|l| l.join(" -> ")),
            vec(inner.clone(), 1..3).prop_map(|l| format!("( -> {} -> )", l.join(" -> "))),
            vec(inner.clone(), 1..3)
                .prop_map(|l| format!("{{ a, b :: Idle; -> {} -> }}", l.join(" -> "))),
            vec(inner, 2..4).prop_map(|l| l.join(", ")),
        ]
    });
    vec(list, 0..6).prop_map(|chains| {
        format!(
            "define($a x, $b 1 \"y\"); a, b :: Idle;
             elementclass B {{ -> q :: Queue -> }}
             elementclass A {{ $a | input -> B -> Paint($a) -> output || $a, $b | input -> output }}
             {};",
            chains.join(";\n")
        )
    })
}

/// A flat graph such as parsing gives.
fn graph() -> impl Strategy<Value = FlatGraph> {
    let config = prop_oneof![
        Just(String::new()),
        vec(any::<u8>(), 0..12).prop_map(|data| quote(&data)),
        "[a-z0-9]{1,8}( [a-z0-9]{1,4})?(, [A-Z]{1,4} [0-9]{1,3})?",
    ];
    let elements = vec((select(vec!["Idle", "Null", "Queue"]), config), 1..8);
    (
        elements,
        vec((0..8usize, 0..3usize, 0..8usize, 0..3usize), 0..12),
    )
        .prop_map(|(elements, links)| {
            let count = elements.len();
            let elements = elements.into_iter().enumerate();
            let elements = elements.map(|(i, (class, config))| FlatElement {
                name: format!("e{i}/x@{i}"),
                class: class.into(),
                config,
                location: Location::unknown(),
            });
            let links = links
                .into_iter()
                .map(|(from, output, to, input)| Connection {
                    from: (from % count, output),
                    to: (to % count, input),
                    location: Location::unknown(),
                });
            let mut graph = FlatGraph {
                elements: elements.collect(),
                connections: links.collect(),
                requirements: Vec::new(),
                parts: Vec::new(),
            };
            graph.connections.sort_by_key(|c| (c.to, c.from));
            graph.connections.dedup_by_key(|c| (c.to, c.from));
            graph
        })
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_are_read(source: Vec<u8>) {
        let mut diagnostics = click::Diagnostics::new();
        let graph = click::parse(&source, "", &click::Options::default(), &mut diagnostics);
        prop_assert_eq!(graph.is_none(), diagnostics.errors() > 0);
    }

    #[test]
    fn any_tokens_are_read(tokens in vec(select(TOKENS.to_vec()), 0..60)) {
        let source = tokens.join(" ");
        let (graph, messages) = common::parse(&source);
        prop_assert!(graph.is_some() || !messages.is_empty());
        if let Some(graph) = graph {
            let (again, messages) = common::parse(&graph.unparse());
            prop_assert_eq!(again.map(without_places), Some(without_places(graph)), "{}", messages);
        }
    }

    #[test]
    fn programs_become_flat_graphs_once(source in program()) {
        if let (Some(graph), _) = common::parse(&source) {
            let (again, messages) = common::parse(&graph.unparse());
            prop_assert_eq!(again.map(without_places), Some(without_places(graph)), "{}", messages);
        }
    }

    #[test]
    fn unparsed_graphs_parse_to_themselves(graph in graph()) {
        let (again, messages) = common::parse(&graph.unparse());
        prop_assert_eq!(again.map(without_places), Some(graph), "{}", messages);
    }

    #[test]
    fn quoted_arguments_split_to_themselves(args in vec(any::<Vec<u8>>(), 0..6)) {
        let quoted: Vec<String> = args.iter().map(|arg| quote(arg)).collect();
        let split = split_args(&quoted.join(", "));
        prop_assert_eq!(&split, &quoted);
        prop_assert_eq!(split_space(&quoted.join(" ")), quoted);
        let data: Vec<Vec<u8>> = split.iter().map(|arg| unquote(arg)).collect();
        prop_assert_eq!(data, args);
    }

    #[test]
    fn splitting_takes_anything(text in r#"([,"'\\<>/* \n()a]|\PC){0,40}"#) {
        for arg in split_args(&text) {
            prop_assert_eq!(&uncomment(&arg), &arg);
        }
        split_space(&text);
    }
}
