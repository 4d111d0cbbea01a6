//! A wire as a drawing: SVG, or DOT for Graphviz.
//!
//! Switches are bars, what is connected to them boxes, VNICs and patches the lines between. Parts
//! stand in columns by their distance from an end of the network.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use super::file::{Vnic, Wire};

/// What stands in the drawing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Switch(String),
    Host(String),
}

/// One thing in the drawing.
struct Part {
    /// The lines in it: its name, then what is said of it.
    lines: Vec<String>,
    node: Node,
}

/// One line from part to part.
struct Edge {
    ends: [usize; 2],
    lines: Vec<String>,
}

struct Drawing {
    parts: Vec<Part>,
    edges: Vec<Edge>,
}

impl Drawing {
    fn new(wire: &Wire) -> Drawing {
        let mut drawing = Drawing {
            parts: Vec::new(),
            edges: Vec::new(),
        };
        for (name, stub) in &wire.stubs {
            let speed = stub.properties.speed.map(|speed| speed.to_string());
            drawing.part(Node::Switch(name.clone()), "stub", name, speed);
        }
        for (name, link) in &wire.links {
            drawing.part(
                Node::Switch(name.clone()),
                "link",
                name,
                Some(match &link.vxlan {
                    Some(tunnel) => format!("vxlan {tunnel}"),
                    None => link.device.clone(),
                }),
            );
        }
        for name in wire.namespaces.keys() {
            drawing.part(
                Node::Host(format!("namespace {name}")),
                "namespace",
                name,
                None,
            );
        }
        for name in wire.guests.keys() {
            drawing.part(Node::Host(format!("guest {name}")), "guest", name, None);
        }
        for (name, vnic) in &wire.vnics {
            let guest = wire.guests.iter().find_map(|(guest, it)| {
                let mut interfaces = it.interfaces.iter();
                let (interface, _) = interfaces.find(|(_, vnic)| *vnic == name)?;
                Some((guest, interface))
            });
            let host = match (&vnic.namespace, guest) {
                (Some(namespace), _) => Some(format!("namespace {namespace}")),
                (None, Some((guest, _))) => Some(format!("guest {guest}")),
                (None, None) if vnic.host => {
                    drawing.part(Node::Host("host".into()), "", "host", None);
                    Some("host".into())
                }
                (None, None) => vnic.vhost_user.as_ref().map(|socket| {
                    let name = socket.display().to_string();
                    drawing.part(Node::Host(name.clone()), "vhost-user", &name, None);
                    name
                }),
            };
            if let Some(host) = host {
                let lines = vnic_lines(name, vnic, guest.map(|(_, interface)| interface.as_str()));
                drawing.edge(Node::Switch(vnic.link.clone()), Node::Host(host), lines);
            }
        }
        for (name, patch) in &wire.patches {
            let [a, b] = patch.between.clone().map(Node::Switch);
            drawing.edge(a, b, vec![name.clone()]);
        }
        drawing
    }

    fn part(&mut self, node: Node, kind: &str, name: &str, more: Option<String>) {
        if self.parts.iter().all(|part| part.node != node) {
            let mut lines = vec![name.to_string()];
            let kind = Some(kind.to_string()).filter(|kind| !kind.is_empty());
            let second: Vec<_> = kind.into_iter().chain(more).collect();
            if !second.is_empty() {
                lines.push(second.join(" "));
            }
            self.parts.push(Part { lines, node });
        }
    }

    fn edge(&mut self, a: Node, b: Node, lines: Vec<String>) {
        let place = |node: Node| self.parts.iter().position(|part| part.node == node);
        // A wire that was checked names no part that is not there.
        if let (Some(a), Some(b)) = (place(a), place(b)) {
            self.edges.push(Edge {
                ends: [a, b],
                lines,
            });
        }
    }

    fn neighbours(&self, part: usize) -> impl Iterator<Item = usize> {
        self.edges.iter().filter_map(move |edge| match edge.ends {
            [a, b] if a == part => Some(b),
            [a, b] if b == part => Some(a),
            _ => None,
        })
    }

    /// Column and row of each part.
    fn layout(&self) -> Vec<(usize, usize)> {
        let mut columns: Vec<Option<usize>> = vec![None; self.parts.len()];
        let mut starts: Vec<usize> = (0..self.parts.len()).collect();
        // An end of the network is a good place to begin.
        starts.sort_by_key(|&part| self.neighbours(part).count());
        let mut order = Vec::new();
        for start in starts {
            if columns[start].is_some() {
                continue;
            }
            columns[start] = Some(0);
            let mut queue = VecDeque::from([start]);
            while let Some(part) = queue.pop_front() {
                order.push(part);
                let next = columns[part].unwrap_or(0) + 1;
                for neighbour in self.neighbours(part).collect::<Vec<_>>() {
                    if columns[neighbour].is_none() {
                        columns[neighbour] = Some(next);
                        queue.push_back(neighbour);
                    }
                }
            }
        }
        // Breadth first order keeps neighbours of one part together in their column.
        let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
        let mut places = vec![(0, 0); self.parts.len()];
        for part in order {
            let column = columns[part].unwrap_or(0);
            let row = rows.entry(column).or_default();
            places[part] = (column, *row);
            *row += 1;
        }
        places
    }
}

fn vnic_lines(name: &str, vnic: &Vnic, interface: Option<&str>) -> Vec<String> {
    let interface = interface.or(vnic.interface.as_deref());
    let mut lines = vec![match interface {
        Some(interface) if interface != name => format!("{name} ({interface})"),
        _ => name.to_string(),
    }];
    lines.extend(vnic.addresses.iter().map(ToString::to_string));
    let properties = vnic.properties.to_string();
    if !properties.is_empty() {
        lines.push(properties);
    }
    lines
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Width and height of a box, and from box to box.
const BOX: (usize, usize) = (150, 44);
const STEP: (usize, usize) = (330, 96);
const MARGIN: usize = 20;

/// The wire as an SVG document.
pub fn svg(wire: &Wire) -> String {
    let drawing = Drawing::new(wire);
    let places = drawing.layout();
    let columns = places
        .iter()
        .map(|(column, _)| column + 1)
        .max()
        .unwrap_or(1);
    let rows = places.iter().map(|(_, row)| row + 1).max().unwrap_or(1);
    // Columns with fewer parts stand in the middle.
    let tall = |column: usize| places.iter().filter(|place| place.0 == column).count();
    let centre = |part: usize| {
        let (column, row) = places[part];
        let above = (rows - tall(column)) * STEP.1 / 2;
        let x = MARGIN + column * STEP.0 + BOX.0 / 2;
        (x, MARGIN + above + row * STEP.1 + STEP.1 / 2)
    };
    let width = 2 * MARGIN + (columns - 1) * STEP.0 + BOX.0;
    let height = 2 * MARGIN + rows * STEP.1;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n",
        escape(&wire.wire)
    );
    for edge in &drawing.edges {
        let [(x1, y1), (x2, y2)] = edge.ends.map(centre);
        let _ = writeln!(
            out,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#607080\" stroke-width=\"1.5\"/>"
        );
    }
    for (i, edge) in drawing.edges.iter().enumerate() {
        let [(x1, y1), (x2, y2)] = edge.ends.map(centre);
        // Lines between the same two parts lie on each other; their labels need not.
        let before = drawing.edges[..i]
            .iter()
            .filter(|other| other.ends == edge.ends);
        let below: usize = before.map(|other| 13 * other.lines.len() + 6).sum();
        label(
            &mut out,
            (x1 + x2) / 2,
            (y1 + y2) / 2 + below,
            &edge.lines,
            "#304050",
            10,
        );
    }
    for (i, part) in drawing.parts.iter().enumerate() {
        let (x, y) = centre(i);
        let (fill, round) = match part.node {
            Node::Switch(_) => ("#dce8f4", 4),
            Node::Host(_) => ("#f4ecdc", 14),
        };
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{round}\" fill=\"{fill}\" stroke=\"#304050\"/>",
            x - BOX.0 / 2,
            y - BOX.1 / 2,
            BOX.0,
            BOX.1
        );
        label(&mut out, x, y, &part.lines, "black", 12);
    }
    out.push_str("</svg>\n");
    out
}

/// Lines of text around a point.
fn label(out: &mut String, x: usize, y: usize, lines: &[String], colour: &str, size: usize) {
    let leading = size + 3;
    let top = (y + size / 2).saturating_sub((lines.len() - 1) * leading / 2);
    for (i, line) in lines.iter().enumerate() {
        let weight = if i == 0 { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"{size}\" fill=\"{colour}\"{weight} paint-order=\"stroke\" stroke=\"white\" stroke-opacity=\"0.8\" stroke-width=\"3\">{}</text>",
            top + i * leading,
            escape(line)
        );
    }
}

/// The wire in Graphviz's language.
pub fn dot(wire: &Wire) -> String {
    let drawing = Drawing::new(wire);
    let quoted = |lines: &[String]| {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| line.replace('\\', "\\\\").replace('"', "\\\""))
            .collect();
        format!("\"{}\"", lines.join("\\n"))
    };
    let mut out = format!(
        "graph {} {{\n  rankdir=LR;\n",
        quoted(std::slice::from_ref(&wire.wire))
    );
    for (i, part) in drawing.parts.iter().enumerate() {
        let shape = match part.node {
            Node::Switch(_) => "box",
            Node::Host(_) => "ellipse",
        };
        let _ = writeln!(
            out,
            "  n{i} [label={}, shape={shape}];",
            quoted(&part.lines)
        );
    }
    for edge in &drawing.edges {
        let [a, b] = edge.ends;
        let _ = writeln!(out, "  n{a} -- n{b} [label={}];", quoted(&edge.lines));
    }
    out.push_str("}\n");
    out
}
