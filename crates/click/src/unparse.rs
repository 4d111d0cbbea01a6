//! The text of a flat graph, as Click's `flatconfig` handler gives it.

use crate::config::quote;
use crate::text::encode;
use crate::{Connection, FlatGraph};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Display, Write};

impl FlatGraph {
    /// The graph as a configuration that parses to it.
    pub fn unparse(&self) -> String {
        let mut text = String::new();
        // Writing to a String never fails.
        let _ = self.write_to(&mut text);
        text
    }

    fn write_to(&self, out: &mut impl Write) -> fmt::Result {
        self.write_requirements(out)?;
        self.write_declarations(out)?;
        self.write_connections(out)
    }

    fn write_requirements(&self, out: &mut impl Write) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            out.write_str(if i == 0 { "require(" } else { ", " })?;
            out.write_str(&requirement.kind)?;
            if !requirement.value.is_empty() {
                write!(out, " {}", quote(&encode(&requirement.value)))?;
            }
        }
        if !self.requirements.is_empty() {
            out.write_str(");\n\n")?;
        }
        Ok(())
    }

    fn write_declarations(&self, out: &mut impl Write) -> fmt::Result {
        for element in &self.elements {
            write!(out, "{} :: {}", element.name, element.class)?;
            if !element.config.is_empty() {
                write!(out, "({})", element.config)?;
            }
            out.write_str(";\n")?;
        }
        if !self.elements.is_empty() {
            out.write_str("\n")?;
        }
        Ok(())
    }

    /// Writes the connections as chains. A chain goes on through port 0 of
    /// each element it enters; one that only closes a cycle is begun last.
    fn write_connections(&self, out: &mut impl Write) -> fmt::Result {
        let next = self.successors();
        let mut starts = vec![true; self.connections.len()];
        for &successor in next.iter().flatten() {
            starts[successor] = false;
        }
        let mut used = vec![false; self.connections.len()];
        for first in (0..starts.len()).filter(|&i| starts[i]) {
            self.write_chain(out, first, &next, &mut used)?;
        }
        // Only cycles are left.
        for first in 0..self.connections.len() {
            if !used[first] {
                self.write_chain(out, first, &next, &mut used)?;
            }
        }
        Ok(())
    }

    /// For each connection the one that continues its chain: out of the same
    /// port number 0 that it enters, preferably into a port 0.
    fn successors(&self) -> Vec<Option<usize>> {
        let mut leaving: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (i, connection) in self.connections.iter().enumerate() {
            leaving.entry(connection.from).or_default().push(i);
        }
        let best = |candidates: &[usize], but: Option<usize>| {
            let mut others = candidates.iter().copied().filter(|&i| Some(i) != but);
            let last = others.clone().next_back();
            others.find(|&i| self.connections[i].to.1 == 0).or(last)
        };
        let usual: BTreeMap<_, _> = leaving
            .iter()
            .map(|(&port, candidates)| (port, best(candidates, None)))
            .collect();
        let successor = |(i, connection): (usize, &Connection)| {
            if connection.to.1 != 0 {
                None
            } else if connection.to == connection.from {
                best(&leaving[&connection.from], Some(i))
            } else {
                usual.get(&connection.to).copied().flatten()
            }
        };
        self.connections.iter().enumerate().map(successor).collect()
    }

    fn write_chain(
        &self,
        out: &mut impl Write,
        first: usize,
        next: &[Option<usize>],
        used: &mut [bool],
    ) -> fmt::Result {
        let (element, port) = self.connections[first].from;
        out.write_str(&self.elements[element].name)?;
        if port != 0 {
            write!(out, " [{port}]")?;
        }
        let mut arrow = " -> ";
        let mut link = Some(first);
        while let Some(i) = link.filter(|&i| !used[i]) {
            used[i] = true;
            out.write_str(arrow)?;
            arrow = "\n    -> ";
            let (element, port) = self.connections[i].to;
            if port != 0 {
                write!(out, "[{port}] ")?;
            }
            out.write_str(&self.elements[element].name)?;
            link = next[i];
        }
        out.write_str(";\n")
    }
}

impl Display for FlatGraph {
    /// As [`FlatGraph::unparse`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}
