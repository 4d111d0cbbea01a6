//! The flat graph that a configuration stands for.

use crate::Location;
use crate::configurations::Part;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An element of the flat graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatElement {
    /// Its name, unique in the graph: `compound/inner`, `Class@N` when it was
    /// given none.
    pub name: String,
    /// Its class, never a compound or an alias.
    pub class: Arc<str>,
    /// Its configuration string, variables substituted, otherwise as written.
    pub config: String,
    /// Where it was declared.
    pub location: Location,
}

/// A connection of the flat graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Index of the element it leaves, and the output port there.
    pub from: (usize, usize),
    /// Index of the element it enters, and the input port there.
    pub to: (usize, usize),
    /// Where it was written.
    pub location: Location,
}

/// An entry of `require(…)` other than a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `package` or `compact_config`.
    pub kind: String,
    /// The package's name; empty for `compact_config`.
    pub value: String,
}

/// A configuration with compound elements expanded and connections between
/// real elements only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatGraph {
    /// The elements, in Click's order.
    pub elements: Vec<FlatElement>,
    /// The connections, ordered by `to` and then by `from`, each once.
    pub connections: Vec<Connection>,
    /// The requirements, in the order written.
    pub requirements: Vec<Requirement>,
    /// The configurations that it is made of, in the order of their elements; none if it is one alone.
    pub parts: Vec<Part>,
}

impl FlatGraph {
    /// The index of the element called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|e| e.name == name)
    }

    /// The number of input and output ports each element uses: one more than
    /// the highest port with a connection.
    pub fn port_counts(&self) -> Vec<(usize, usize)> {
        let mut counts = alloc::vec![(0, 0); self.elements.len()];
        for c in &self.connections {
            let outputs = &mut counts[c.from.0].1;
            *outputs = (*outputs).max(c.from.1 + 1);
            let inputs = &mut counts[c.to.0].0;
            *inputs = (*inputs).max(c.to.1 + 1);
        }
        counts
    }

    /// Whether the configuration says `require(compact_config)`, on which its
    /// own text is not kept and `config` shows the flat one.
    pub fn is_compact(&self) -> bool {
        self.requirements.iter().any(|r| r.kind == "compact_config")
    }
}
