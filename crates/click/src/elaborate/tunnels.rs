//! Removal of tunnels.
//!
//! A tunnel leads from the input ports of a compound element to the output
//! ports of `input` inside it, or from the input ports of `output` inside to
//! the output ports of the compound element, port by port. An end is a node,
//! a side and a port number; what is connected to one end of a tunnel is
//! connected to all that the other end is connected to.

use super::Elaborator;
use crate::compound::{INPUT, Link, OUTPUT, Port, SIDES};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// One end of a tunnel, at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    node: usize,
    side: usize,
    port: u32,
}

/// The ends that a tunnel end leads to, on the far side.
#[derive(Clone, Debug)]
enum Far {
    /// As connected, possibly tunnels again.
    Direct(Vec<Port>),
    /// Being found; meeting this again means a loop of tunnels.
    Searching,
    /// Ports of real elements.
    Found(Vec<Port>),
}

/// All tunnels.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    /// The far node of the tunnels at a side of a node.
    far: BTreeMap<(usize, usize), usize>,
}

impl Tunnels {
    /// Adds the tunnels of the compound element or group `node` with these
    /// inner nodes.
    pub(super) fn add(&mut self, node: usize, [input, output]: [usize; 2]) {
        for (near, far) in [
            ((node, INPUT), (input, OUTPUT)),
            ((output, INPUT), (node, OUTPUT)),
        ] {
            self.far.insert(near, far.0);
            self.far.insert(far, near.0);
        }
    }

    /// The other end of the tunnel at `end`.
    fn other(&self, end: End) -> Option<End> {
        let &node = self.far.get(&(end.node, end.side))?;
        Some(End {
            node,
            side: 1 - end.side,
            port: end.port,
        })
    }
}

/// A tunnel end whose far side is being found.
struct Search {
    end: End,
    direct: Vec<Port>,
    next: usize,
    found: Vec<Port>,
}

impl Elaborator<'_> {
    /// The connections between real elements.
    pub(super) fn remove_tunnels(&mut self) -> Vec<Link> {
        let links = core::mem::take(&mut self.flat.links);
        let mut reach = self.direct_reach(&links);
        let mut result = Vec::new();
        let limit = self.options.limits.connections;
        for link in links {
            if !self.is_tunnel(link.from) && !self.is_tunnel(link.to) {
                result.push(link);
                continue;
            }
            let from = self.reach(link.from, OUTPUT, &mut reach);
            let to = self.reach(link.to, INPUT, &mut reach);
            if self.halted || from.len().saturating_mul(to.len()) > limit - result.len().min(limit)
            {
                let text = format!("compound elements expand to more than {limit} connections");
                self.halt(&link.location, text);
                return result;
            }
            for &from in &from {
                result.extend(to.iter().map(|&to| Link {
                    from,
                    to,
                    location: link.location.clone(),
                }));
            }
        }
        result
    }

    fn is_tunnel(&self, port: Port) -> bool {
        self.flat.nodes[port.0].class == crate::classes::Classes::TUNNEL
    }

    /// For each tunnel end, the connections of the far end.
    fn direct_reach(&self, links: &[Link]) -> BTreeMap<End, Far> {
        let mut reach = BTreeMap::new();
        for link in links {
            for (near, side, other) in [(link.to, INPUT, link.from), (link.from, OUTPUT, link.to)] {
                let (node, port) = near;
                let end = End { node, side, port };
                if let Some(far) = self.tunnels.other(end) {
                    let entry = reach.entry(far).or_insert_with(|| Far::Direct(Vec::new()));
                    if let Far::Direct(ports) = entry {
                        ports.push(other);
                    }
                }
            }
        }
        reach
    }

    /// The ports of real elements that `port`, the `side` end of a connection,
    /// stands for.
    fn reach(&mut self, port: Port, side: usize, reach: &mut BTreeMap<End, Far>) -> Vec<Port> {
        let mut found = Vec::new();
        let mut stack: Vec<Search> = Vec::new();
        self.enter(port, side, reach, &mut found, &mut stack);
        while let Some(mut search) = stack.pop() {
            if self.halted {
                return found;
            }
            if let Some(&port) = search.direct.get(search.next) {
                search.next += 1;
                let end = search.end;
                let depth = stack.len();
                stack.push(search);
                let mut ports = Vec::new();
                self.enter(port, end.side, reach, &mut ports, &mut stack);
                stack[depth].found.append(&mut ports);
                continue;
            }
            search.found.sort_unstable();
            search.found.dedup();
            self.count_reach(search.found.len(), search.end);
            let above = stack
                .last_mut()
                .map_or(&mut found, |above| &mut above.found);
            above.extend_from_slice(&search.found);
            reach.insert(search.end, Far::Found(search.found));
        }
        found
    }

    /// Adds what `port` stands for to `found`, or begins a search for it.
    fn enter(
        &mut self,
        port: Port,
        side: usize,
        reach: &mut BTreeMap<End, Far>,
        found: &mut Vec<Port>,
        stack: &mut Vec<Search>,
    ) {
        if !self.is_tunnel(port) {
            return found.push(port);
        }
        let (node, port) = port;
        let end = End { node, side, port };
        let Some(far) = self.tunnels.other(end) else {
            let other_side = End {
                side: 1 - side,
                ..end
            };
            if self.tunnels.other(other_side).is_some() {
                let node = &self.flat.nodes[node];
                let text = format!("‘{}’ used as {}", node.name, SIDES[side]);
                let location = node.location.clone();
                self.error(&location, text);
            }
            return;
        };
        match reach.insert(end, Far::Searching) {
            Some(Far::Found(ports)) => {
                found.extend_from_slice(&ports);
                reach.insert(end, Far::Found(ports));
            }
            Some(Far::Searching) => {}
            Some(Far::Direct(direct)) => stack.push(Search {
                end,
                direct,
                next: 0,
                found: Vec::new(),
            }),
            None => {
                self.complain_about_dead_end(end, far);
                reach.insert(end, Far::Found(Vec::new()));
            }
        }
    }

    /// Bounds the memory that tunnels take.
    fn count_reach(&mut self, ports: usize, end: End) {
        self.text = self.text.saturating_add(ports * size_of::<Port>());
        if self.text > self.options.limits.text {
            let location = self.flat.nodes[end.node].location.clone();
            self.halt(
                &location,
                "compound elements expand to too many connections",
            );
        }
    }

    /// Nothing is connected to the far end of a tunnel.
    fn complain_about_dead_end(&mut self, end: End, far: End) {
        let (entrance, exit) = if end.side == OUTPUT {
            (far, end)
        } else {
            (end, far)
        };
        // The nodes inside a compound element or group come after its own.
        let inward = entrance.node < exit.node;
        let whole = &self.flat.nodes[entrance.node.min(exit.node)];
        let (name, port) = (&whole.name, end.port);
        let text = match (inward, end.side) {
            (true, OUTPUT) => format!("‘{name}’ input {port} unused"),
            (true, _) => format!("‘{name}’ has no input {port}"),
            (false, OUTPUT) => format!("‘{name}’ has no output {port}"),
            (false, _) => format!("‘{name}’ output {port} unused"),
        };
        let place = whole.location.clone();
        self.error(&place, text);
    }
}
