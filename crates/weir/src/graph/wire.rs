//! A wire as a drawing: SVG, or DOT for Graphviz.
//!
//! Switches are bars, connected parts are boxes, and VNICs and patches are labelled lines between
//! them. Parts are in columns by their distance from an end of the network.

use std::collections::VecDeque;
use std::fmt::Write;

use node::model::{Vnic, Wire};

use super::escape;
use super::layout::{Edge, Node, layout, path};

/// What stands in the drawing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Switch(String),
    Host(String),
}

/// A labelled part of the drawing: its name, then its properties.
struct Labelled {
    lines: Vec<String>,
    part: Part,
}

/// One line from part to part.
struct Cable {
    ends: [usize; 2],
    lines: Vec<String>,
}

struct Drawing {
    parts: Vec<Labelled>,
    edges: Vec<Cable>,
}

impl Drawing {
    fn new(wire: &Wire) -> Drawing {
        let mut drawing = Drawing {
            parts: Vec::new(),
            edges: Vec::new(),
        };
        for (name, stub) in &wire.stubs {
            let speed = stub.properties.speed.map(|speed| speed.to_string());
            drawing.part(Part::Switch(name.clone()), "stub", name, speed);
        }
        for (name, link) in &wire.links {
            drawing.part(
                Part::Switch(name.clone()),
                "link",
                name,
                Some(link.leads_to()),
            );
        }
        for name in &wire.existing {
            drawing.part(Part::Switch(name.clone()), "existing", name, None);
        }
        for name in wire.namespaces.keys() {
            let part = Part::Host(format!("namespace {name}"));
            drawing.part(part, "namespace", name, None);
        }
        for name in wire.guests.keys() {
            drawing.part(Part::Host(format!("guest {name}")), "guest", name, None);
        }
        for (name, vnic) in &wire.vnics {
            drawing.vnic(wire, name, vnic);
        }
        for (name, nsm) in &wire.nsms {
            let part = Part::Host(format!("nsm {name}"));
            drawing.part(part.clone(), "nsm", name, None);
            if let Some(link) = &nsm.link {
                let addresses = nsm.addresses.iter().map(ToString::to_string);
                let lines = [name.clone()].into_iter().chain(addresses).collect();
                drawing.edge(&Part::Switch(link.clone()), &part, lines);
            } else if let Some(namespace) = &nsm.namespace {
                let namespace = Part::Host(format!("namespace {namespace}"));
                drawing.edge(&namespace, &part, Vec::new());
            }
        }
        for (name, application) in &wire.applications {
            let part = Part::Host(format!("app {name}"));
            drawing.part(part.clone(), "app", name, None);
            let nsm = Part::Host(format!("nsm {}", application.nsm));
            drawing.edge(&nsm, &part, Vec::new());
        }
        for (name, patch) in &wire.patches {
            let [a, b] = patch.between.clone().map(Part::Switch);
            drawing.edge(&a, &b, vec![name.clone()]);
        }
        drawing
    }

    fn vnic(&mut self, wire: &Wire, name: &str, vnic: &Vnic) {
        let guest = wire.guests.iter().find_map(|(guest, it)| {
            let mut interfaces = it.interfaces.iter();
            let (interface, _) = interfaces.find(|(_, vnic)| *vnic == name)?;
            Some((guest, interface.as_str()))
        });
        let host = match (vnic.location().described(), guest) {
            (Some((kind, name)), _) => {
                let host = format!("{kind} {name}");
                self.part(Part::Host(host.clone()), kind, &name, None);
                host
            }
            (None, Some((guest, _))) => format!("guest {guest}"),
            (None, None) => return,
        };
        let lines = vnic_lines(name, vnic, guest.map(|(_, interface)| interface));
        self.edge(&Part::Switch(vnic.link.clone()), &Part::Host(host), lines);
    }

    fn part(&mut self, part: Part, kind: &str, name: &str, more: Option<String>) {
        if self.parts.iter().all(|there| there.part != part) {
            let kind = Some(kind.to_string()).filter(|kind| !kind.is_empty());
            let second: Vec<_> = kind.into_iter().chain(more).collect();
            let second = Some(second.join(" ")).filter(|second| !second.is_empty());
            let lines = [name.to_string()].into_iter().chain(second).collect();
            self.parts.push(Labelled { lines, part });
        }
    }

    fn edge(&mut self, a: &Part, b: &Part, lines: Vec<String>) {
        let index = |part: &Part| self.parts.iter().position(|there| there.part == *part);
        // A wire that was checked names no part that is not there.
        if let (Some(a), Some(b)) = (index(a), index(b)) {
            let ends = [a, b];
            self.edges.push(Cable { ends, lines });
        }
    }

    fn neighbours(&self, part: usize) -> impl Iterator<Item = usize> {
        self.edges.iter().filter_map(move |edge| match edge.ends {
            [a, b] if a == part => Some(b),
            [a, b] if b == part => Some(a),
            _ => None,
        })
    }

    /// The rank of each part in a walk from the ends of the network, breadth first. Lines lead from
    /// the lower rank to the higher.
    fn ranks(&self) -> Vec<usize> {
        let mut ranks: Vec<Option<usize>> = vec![None; self.parts.len()];
        let mut starts: Vec<usize> = (0..self.parts.len()).collect();
        starts.sort_by_key(|&part| self.neighbours(part).count());
        let mut next = 0;
        for start in starts {
            let mut queue = VecDeque::from([start]);
            while let Some(part) = queue.pop_front() {
                if ranks[part].is_none() {
                    ranks[part] = Some(next);
                    next += 1;
                    queue.extend(self.neighbours(part));
                }
            }
        }
        ranks.into_iter().map(Option::unwrap_or_default).collect()
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

/// Size of the letters of parts and of labels, in pixels.
const LETTERS: [f64; 2] = [12.0, 10.0];
/// Width of a letter, in its size.
const WIDTH: f64 = 0.62;

/// The room that lines of text take, with some around them.
fn room(lines: &[String], letters: f64) -> Node {
    let longest = lines.iter().map(|line| line.chars().count()).max();
    Node {
        width: longest.unwrap_or(0) as f64 * letters * WIDTH + 20.0,
        height: lines.len() as f64 * (letters + 3.0) + 14.0,
    }
}

/// The wire as an SVG document.
pub fn svg(wire: &Wire) -> String {
    let drawing = Drawing::new(wire);
    let ranks = drawing.ranks();
    let parts = drawing.parts.iter();
    let mut boxes: Vec<Node> = parts.map(|part| room(&part.lines, LETTERS[0])).collect();
    let labels = boxes.len();
    let mut lines = Vec::new();
    for (i, edge) in drawing.edges.iter().enumerate() {
        boxes.push(room(&edge.lines, LETTERS[1]));
        let [mut from, mut to] = edge.ends;
        if ranks[from] > ranks[to] {
            (from, to) = (to, from);
        }
        let middle = |at: usize| (at, boxes[at].height / 2.0);
        for (from, to) in [(from, labels + i), (labels + i, to)] {
            lines.push(Edge {
                from: middle(from),
                to: middle(to),
            });
        }
    }
    let placed = layout(&boxes, &lines);
    let (width, height) = placed.size;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        escape(&wire.wire)
    );
    for line in &placed.lines {
        let _ = writeln!(
            out,
            "<path d=\"{}\" fill=\"none\" stroke=\"#607080\" stroke-width=\"1.5\"/>",
            path(line)
        );
    }
    let texts = drawing
        .parts
        .iter()
        .map(|part| (Some(&part.part), &part.lines));
    let texts = texts.chain(drawing.edges.iter().map(|edge| (None, &edge.lines)));
    for ((part, lines), (room, (x, y))) in texts.zip(boxes.iter().zip(&placed.corners)) {
        let (fill, stroke, round) = match part {
            Some(Part::Switch(_)) => ("#dce8f4", "#304050", 4),
            Some(Part::Host(_)) => ("#f4ecdc", "#304050", 14),
            None => ("white", "none", 0),
        };
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round}\" fill=\"{fill}\" stroke=\"{stroke}\"/>",
            room.width, room.height
        );
        let letters = LETTERS[usize::from(part.is_none())];
        text(&mut out, x + room.width / 2.0, *y + 7.0, lines, letters);
    }
    out.push_str("</svg>\n");
    out
}

/// Lines of text below a point; the first is bold.
fn text(out: &mut String, x: f64, y: f64, lines: &[String], letters: f64) {
    for (i, line) in lines.iter().enumerate() {
        let weight = if i == 0 { " font-weight=\"bold\"" } else { "" };
        let at = y + letters + i as f64 * (letters + 3.0);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{at:.1}\" text-anchor=\"middle\" font-size=\"{letters}\"{weight}>{}</text>",
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
    let name = quoted(std::slice::from_ref(&wire.wire));
    let mut out = format!("graph {name} {{\n  rankdir=LR;\n");
    for (i, part) in drawing.parts.iter().enumerate() {
        let shape = match part.part {
            Part::Switch(_) => "box",
            Part::Host(_) => "ellipse",
        };
        let label = quoted(&part.lines);
        let _ = writeln!(out, "  n{i} [label={label}, shape={shape}];");
    }
    for edge in &drawing.edges {
        let [a, b] = edge.ends;
        let _ = writeln!(out, "  n{a} -- n{b} [label={}];", quoted(&edge.lines));
    }
    out.push_str("}\n");
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const WIRE: &str = r#"
        wire = "two-subnets"
        stub = { office = { speed = "1G" }, lab = {} }
        namespace = { desk = {}, bench = {} }
        [vnic]
        desk0 = { link = "office", namespace = "desk", addresses = ["10.0.1.2/24"] }
        bench0 = { link = "lab", namespace = "bench", interface = "eth0" }
        router0 = { link = "office" }
        router1 = { link = "lab" }
        [guest.router]
        config = "Idle -> Discard;"
        interfaces = { inside = "router0", outside = "router1" }
    "#;

    fn wire(text: &str) -> Wire {
        Wire::parse(text, Path::new("w.toml")).unwrap()
    }

    #[test]
    fn drawings_show_every_part() {
        let svg = svg(&wire(WIRE));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in [
            "office",
            "lab",
            "desk",
            "bench",
            "router",
            "bench0 (eth0)",
            "router0 (inside)",
            "10.0.1.2/24",
        ] {
            assert!(svg.contains(&format!(">{part}<")), "{part}");
        }
        let odd = wire(&WIRE.replace("two-subnets", "a<b"));
        assert!(super::svg(&odd).contains("a&lt;b"));
        assert_eq!(dot(&wire(WIRE)).matches(" -- ").count(), 4);
    }
}
