//! From compounds to a flat graph: compound elements are expanded where they
//! are used, then the tunnels this leaves are removed.

mod expand;
mod tunnels;

use crate::classes::Classes;
use crate::compound::Compound;
use crate::config::Fuel;
use crate::parser::Program;
use crate::{Connection, Diagnostics, FlatElement, FlatGraph, Location, Options, Requirement};
use alloc::vec::Vec;
use core::fmt::Display;
use tunnels::Tunnels;

/// Makes the flat graph of a program. It is of use only if no errors were
/// reported.
pub(crate) fn elaborate(
    program: Program,
    options: &Options<'_>,
    diagnostics: &mut Diagnostics,
) -> FlatGraph {
    let mut elaborator = Elaborator {
        classes: program.classes,
        flat: program.main,
        tunnels: Tunnels::default(),
        options,
        diagnostics,
        fuel: Fuel::new(options.limits.text.saturating_mul(2)),
        text: 0,
        halted: false,
    };
    elaborator.find_groups();
    elaborator.expand_all();
    elaborator.flatten(program.requirements)
}

struct Elaborator<'a> {
    classes: Classes,
    /// The file, to which the elements inside compound elements are added.
    flat: Compound,
    tunnels: Tunnels,
    options: &'a Options<'a>,
    diagnostics: &'a mut Diagnostics,
    fuel: Fuel,
    /// Bytes of names and configuration strings added.
    text: usize,
    /// A limit was met: nothing more is done or reported.
    halted: bool,
}

impl Elaborator<'_> {
    fn error(&mut self, location: &Location, text: impl Display) {
        if !self.halted {
            self.diagnostics.error(location, text);
        }
    }

    fn halt(&mut self, location: &Location, text: impl Display) {
        self.error(location, text);
        self.halted = true;
    }

    /// Notes the tunnels of the groups at file scope. A group is three nodes in
    /// a row: itself, its inputs and its outputs.
    fn find_groups(&mut self) {
        let mut node = 0;
        while node < self.flat.nodes.len() {
            if self.flat.nodes[node].class == Classes::TUNNEL {
                self.tunnels.add(node, [node + 1, node + 2]);
                node += 2;
            }
            node += 1;
        }
    }

    fn flatten(mut self, requirements: Vec<Requirement>) -> FlatGraph {
        let mut graph = FlatGraph {
            requirements,
            ..FlatGraph::default()
        };
        if self.halted {
            return graph;
        }
        let links = self.remove_tunnels();
        let mut index = Vec::with_capacity(self.flat.nodes.len());
        for node in self.flat.nodes {
            index.push(graph.elements.len());
            if node.class != Classes::TUNNEL {
                graph.elements.push(FlatElement {
                    name: node.name,
                    class: self.classes.primitive_name(node.class),
                    config: node.config,
                    location: node.location,
                });
            }
        }
        graph.connections = links
            .into_iter()
            .map(|link| Connection {
                from: (index[link.from.0], link.from.1 as usize),
                to: (index[link.to.0], link.to.1 as usize),
                location: link.location,
            })
            .collect();
        graph.connections.sort_by_key(|c| (c.to, c.from));
        graph.connections.dedup_by_key(|c| (c.to, c.from));
        graph
    }
}
