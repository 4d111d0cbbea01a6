//! Configurations made to grow end in an error, soon.

mod common;

use click::{Diagnostics, Limits, Options};
use common::World;

/// Asserts that `expected` is part of what is said about a configuration.
#[track_caller]
fn exceeds(source: &str, expected: &str) {
    let world = World::default();
    let options = Options {
        limits: Limits {
            elements: 2000,
            connections: 5000,
            port: 500,
            text: 1 << 20,
        },
        ..Options::new(&world)
    };
    let mut diagnostics = Diagnostics::new();
    let graph = click::parse(source.as_bytes(), "", &options, &mut diagnostics);
    assert!(graph.is_none());
    let said = |text: &str| {
        diagnostics
            .entries()
            .iter()
            .any(|e| e.text().contains(text))
    };
    assert!(said(expected), "{diagnostics}");
}

/// Classes `A0` to `An`, each but the first made of two of the one before.
fn doubling(first: &str, next: impl Fn(usize) -> String) -> String {
    let classes = (1..40).map(|i| format!("elementclass A{i} {{ {} }}\n", next(i - 1)));
    format!(
        "elementclass A0 {{ {first} }}\n{}",
        classes.collect::<String>()
    )
}

#[test]
fn exponential_expansion() {
    let classes = doubling("Idle", |i| format!("A{i}; A{i}"));
    exceeds(
        &format!("{classes} A39"),
        "expand to more than 2000 elements",
    );
    let classes = doubling("", |i| format!("A{i}; A{i}"));
    exceeds(
        &format!("{classes} A39"),
        "expand to more than 2000 elements",
    );
}

#[test]
fn connections() {
    exceeds(
        "a, b :: Idle; a [0-99] -> { -> } -> [0-99] b",
        "expand to more than 5000 connections",
    );
    let source = format!("a :: Idle; {}", "a -> a;".repeat(9000));
    exceeds(&source, "more than 5000 connections");
}

#[test]
fn elements() {
    exceeds(&"Idle;".repeat(2001), "more than 2000 elements");
}

#[test]
fn ports() {
    exceeds(
        "a :: Idle; a [501] -> a",
        "port number 501 is more than 500",
    );
    exceeds("a :: Idle; a [0-2147483647] -> a", "is more than 500");
    exceeds(
        "a, b :: Idle; a [499,] => [0,1,2] b",
        "port number 501 is more than 500",
    );
}

#[test]
fn text() {
    let classes = doubling(&format!("Idle({})", "x".repeat(9000)), |i| {
        format!("A{i}; A{i}")
    });
    exceeds(&format!("{classes} A9"), "bytes of text");
}

#[test]
fn variables() {
    let define = |value: &dyn Fn(usize) -> String| -> String {
        let all = (0..12).map(|i| format!("$a{i} {}", value(i)));
        format!("define({}) Idle($a0)", all.collect::<Vec<_>>().join(","))
    };
    exceeds(
        &define(&|i| format!("$a{}", i + 1).repeat(20)),
        "too much text",
    );
    exceeds(
        &define(&|i| format!("${{a{}-}}", i + 1).repeat(20)),
        "too much text",
    );
    let many = (0..5000).map(|i| format!("$a{i} {i}"));
    exceeds(
        &format!("define({})", many.collect::<Vec<_>>().join(",")),
        "more than 4096 variables",
    );
}

#[test]
fn nesting() {
    exceeds(&"{".repeat(9000), "depth exceeded");
    exceeds(&"(".repeat(9000), "depth exceeded");
    exceeds(&"elementclass A {".repeat(9000), "depth exceeded");
}

/// Only the language's own nesting is limited, not how deep classes go.
#[test]
fn deep_classes_are_fine() {
    let classes =
        (1..400).map(|i| format!("elementclass A{i} {{ input -> A{} -> output }}\n", i - 1));
    let classes: String = classes.collect();
    let source = format!(
        "elementclass A0 {{ input -> Idle -> output }} {classes} a :: Idle -> A399 -> b :: Idle"
    );
    let (graph, messages) = common::parse(&source);
    assert_eq!(messages, "");
    assert_eq!(graph.expect("no errors").connections.len(), 2);
    let source = format!("Idle -> {} Idle", "{ -> } -> ".repeat(9000));
    assert!(common::parse(&source).0.is_some());
}

/// The deepest nesting needs a stack of moderate size even without
/// optimization (about 250 KiB; a third of that with).
#[test]
fn nesting_fits_a_small_stack() {
    let source = format!("{}Idle{}", "{(".repeat(30), ")}".repeat(30));
    let parse = move || assert!(common::parse(&source).0.is_none());
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread
        .spawn(parse)
        .expect("a thread")
        .join()
        .expect("no overflow");
}
