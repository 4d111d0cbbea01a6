//! Texts of the router's handlers about its graph and what passed through it.

use alloc::collections::BTreeMap;
use core::fmt::Write;

use super::Engine;
use super::ports::{Processing, processing};
use crate::prelude::*;

impl Engine {
    /// Packets that each element let pass or took in, in the graph's order.
    pub fn packet_counts(&mut self) -> Vec<u64> {
        self.walk.flush_counts();
        // A push is counted where it arrives, a pull where it comes from.
        let mut counts = alloc::vec![0; self.graph.elements.len()];
        for edge in self.walk.edges.iter() {
            if let Some((id, _)) = edge.target.as_port() {
                counts[id.index()] += edge.packets;
            }
        }
        counts
    }

    pub fn flat_config(&mut self) -> String {
        let ids: Vec<_> = self.graph.present().map(|(id, _)| id).collect();
        let mut configs = BTreeMap::new();
        for id in ids {
            // An element may tell its configuration as it has become.
            let read = self.read_handler(Some(id), "config", "");
            let config = read.unwrap_or_else(|_| self.config(id).to_string());
            configs.insert(id, config);
        }
        let flat = |id| configs.get(&id).map_or("", |it| it.trim_end_matches('\n'));
        self.graph.flat(|id| flat(id).to_string()).unparse()
    }

    /// The ports that start a transfer, or what passed through them, one a line.
    pub fn active_ports(&self, names: bool) -> String {
        let mut text = String::new();
        for (id, info) in self.graph.present() {
            let inputs = info.inputs.iter().enumerate().filter(|(_, push)| !**push);
            for (port, _) in inputs {
                let edge = self.walk.edges.input(id, port);
                let packets = edge.map_or(0, |edge| self.walk.edges[edge].packets);
                let _ = if names {
                    writeln!(text, "{}\ti{port}", info.name)
                } else {
                    writeln!(text, "{packets}")
                };
            }
            let outputs = info.outputs.iter().enumerate().filter(|(_, push)| **push);
            for (port, _) in outputs {
                let edge = self.walk.edges.output(id, port);
                let packets = edge.map_or(0, |edge| self.walk.edges[edge].packets);
                let _ = if names {
                    writeln!(text, "{}\to{port}", info.name)
                } else {
                    writeln!(text, "{packets}")
                };
            }
        }
        text
    }

    /// An element's ports as Click's `ports` handler shows them; `~` marks agnostic ports, which
    /// could push as well as pull.
    pub fn ports_text(&self, id: ElementId) -> String {
        let info = self.graph.info(id);
        let mut text = String::new();
        let (inputs, outputs) = (info.inputs.len(), info.outputs.len());
        let (inputs, outputs) = processing(info.class.processing, inputs, outputs);
        let side = |text: &mut String, ports: &[bool], codes: &[Processing], input: bool| {
            let word = if input { "input" } else { "output" };
            let plural = if ports.len() == 1 { "" } else { "s" };
            let _ = writeln!(text, "{} {word}{plural}", ports.len());
            for (port, (push, code)) in ports.iter().zip(codes).enumerate() {
                let kind = if *push { "push" } else { "pull" };
                let agnostic = match code {
                    Processing::Agnostic => "~",
                    _ => "",
                };
                let _ = write!(text, "{kind}{agnostic}\t-\t");
                let mut others: Vec<(ElementId, usize)> = if input {
                    self.graph.upstream(id, port).collect()
                } else {
                    self.graph.downstream(id, port).collect()
                };
                others.sort_unstable();
                for (i, (other, at)) in others.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    let name = self.name(*other);
                    let _ = if input {
                        write!(text, "{comma}{name} [{at}]")
                    } else {
                        write!(text, "{comma}[{at}] {name}")
                    };
                }
                text.push('\n');
            }
        };
        side(&mut text, &info.inputs, &inputs, true);
        side(&mut text, &info.outputs, &outputs, false);
        text
    }
}
