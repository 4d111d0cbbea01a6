//! Graphs for the tests of passes, made of edges and declarations alone.

use packet::Edit;

use super::{EffectTable, Optimizer};
use crate::effects::Effects;
use crate::prelude::*;
use crate::topology::Connection;
use crate::walk::Walk;
use crate::walk::edges::Edges;
use crate::walk::numbers::{EdgeId, Optimization};

/// The edges of a graph: for each element where its outputs lead. All connections are push, and come
/// to input 0.
pub fn graph(outputs: &[&[usize]]) -> Edges {
    let ports = outputs.iter().map(|outputs| (1, outputs.len()));
    let mut edges = Edges::new(ports);
    let connections = outputs.iter().enumerate().flat_map(|(from, outputs)| {
        let outputs = outputs.iter().enumerate();
        outputs.map(move |(port, to)| Connection {
            from: (ElementId::new(from), port),
            to: (ElementId::new(*to), 0),
            push: true,
        })
    });
    edges.connect(connections);
    edges
}

/// An element that declares nothing.
pub fn opaque() -> Option<Effects> {
    Some(Effects::default())
}

/// An element that removes bytes in front and preserves no facts.
pub fn strips(bytes: usize) -> Option<Effects> {
    Some(Effects {
        edit: Edit::pull(bytes),
        ..Effects::default()
    })
}

/// The edge of an element's output.
pub fn edge(edges: &Edges, element: usize, port: usize) -> EdgeId {
    let edge = edges.output(ElementId::new(element), port);
    edge.expect("the element has the output")
}

#[test]
fn an_invalidated_walk_is_as_before_and_has_counted_what_passed() {
    // source 0 -> strips 1 -> strips 2 -> sink 3
    let mut walk = Walk::new(graph(&[&[1], &[2], &[3], &[]]), 64);
    let effects = [opaque(), strips(14), strips(20), opaque()];
    let mut optimizer = Optimizer::default();
    optimizer.run(&mut walk, EffectTable(&effects));
    let start = edge(&walk.edges, 0, 0);
    assert!(optimizer.is_valid());
    assert_eq!(walk.edges[start].optimization.as_path(), Some(0));
    walk.paths.0[0].packets = 5;
    optimizer.invalidate(&mut walk);
    assert!(!optimizer.is_valid() && walk.paths.0.is_empty());
    let counts: Vec<_> = walk
        .edges
        .ids()
        .map(|edge| walk.edges[edge].packets)
        .collect();
    assert_eq!(counts, [5, 5, 0]);
    assert_eq!(walk.edges[start].optimization, Optimization::NONE);
}
