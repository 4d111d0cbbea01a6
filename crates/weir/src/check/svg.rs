//! A drawing of a configuration, as drawings of Click configurations are: a box for each element,
//! inputs as triangles on its left side, outputs as squares on its right, filled if push and open
//! if pull.

use std::fmt::Write as _;

use router::{ElementInfo, Graph};

use crate::graph::escape;
use crate::graph::layout::{Edge, Node, layout, path};

/// Height of a port's row.
const PORT: f64 = 16.0;
/// Half a port's size.
const HALF: f64 = 4.0;
/// Width of a letter of the names, in a monospaced font of 12 pixels.
const LETTER: f64 = 7.25;
/// Width of a letter of the configuration strings, of 10 pixels.
const SMALL_LETTER: f64 = 6.05;
/// Longest configuration string that is shown as a whole.
const CONFIG: usize = 28;

const STYLE: &str = "\
text{font-family:ui-monospace,monospace;text-anchor:middle;fill:#111}\
.n{font-size:12px}.c{font-size:10px;fill:#666}\
.e{fill:#fff;stroke:#111}.p{stroke:#111;fill:#fff}.h{fill:#111}\
.l{fill:none;stroke:#4a6da7;stroke-width:1.3}";

/// The graph as an SVG document.
pub fn draw(graph: &Graph) -> String {
    let nodes: Vec<Node> = graph.elements.iter().map(node).collect();
    let edges: Vec<Edge> = graph
        .wiring
        .iter()
        .map(|connection| {
            let ((from, out), (to, into)) = (connection.from, connection.to);
            let outputs = graph.elements[from].outputs.len();
            let inputs = graph.elements[to].inputs.len();
            Edge {
                from: (from, port(out, outputs, nodes[from].height)),
                to: (to, port(into, inputs, nodes[to].height)),
            }
        })
        .collect();
    let placed = layout(&nodes, &edges);
    let (width, height) = placed.size;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for line in &placed.lines {
        let _ = writeln!(text, "<path class=\"l\" d=\"{}\"/>", path(line));
    }
    for ((element, node), corner) in graph.elements.iter().zip(&nodes).zip(&placed.corners) {
        draw_element(&mut text, element, node, *corner);
    }
    text.push_str("</svg>\n");
    text
}

fn node(element: &ElementInfo) -> Node {
    let name = label(element).chars().count() as f64 * LETTER;
    let config = config(element).chars().count() as f64 * SMALL_LETTER;
    let ports = element.inputs.len().max(element.outputs.len()) as f64;
    let lines: f64 = if element.config.is_empty() {
        26.0
    } else {
        38.0
    };
    Node {
        width: name.max(config).max(24.0) + 28.0,
        height: lines.max(ports * PORT + 6.0),
    }
}

/// `name :: Class`; the class alone for an element without a name of its own.
fn label(element: &ElementInfo) -> String {
    let class = element.class.name;
    let last = element.name.rsplit('/').next().unwrap_or("");
    let anonymous = last
        .strip_prefix(class)
        .is_some_and(|rest| rest.starts_with('@'));
    match anonymous {
        true => format!(
            "{}{class}",
            &element.name[..element.name.len() - last.len()]
        ),
        false => format!("{} :: {class}", element.name),
    }
}

/// The configuration string, shortened, on one line.
fn config(element: &ElementInfo) -> String {
    let words: Vec<&str> = element.config.split_whitespace().collect();
    let config = words.join(" ");
    match config.char_indices().nth(CONFIG) {
        Some((end, _)) => format!("{}…", &config[..end]),
        None => config,
    }
}

/// How far a port is below its box's top.
fn port(index: usize, count: usize, height: f64) -> f64 {
    (height - count as f64 * PORT) / 2.0 + (index as f64 + 0.5) * PORT
}

fn draw_element(text: &mut String, element: &ElementInfo, node: &Node, (x, y): (f64, f64)) {
    let Node { width, height } = *node;
    let whole = format!(
        "{} :: {}({})",
        element.name, element.class.name, element.config
    );
    let _ = writeln!(
        text,
        "<g><title>{}</title><rect class=\"e\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\"/>",
        escape(&whole)
    );
    let middle = (x + width / 2.0, y + height / 2.0);
    let name_at = if element.config.is_empty() { 4.0 } else { -3.0 };
    let _ = writeln!(
        text,
        "<text class=\"n\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        middle.0,
        middle.1 + name_at,
        escape(&label(element))
    );
    if !element.config.is_empty() {
        let _ = writeln!(
            text,
            "<text class=\"c\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            middle.0,
            middle.1 + 11.0,
            escape(&config(element))
        );
    }
    for (i, push) in element.inputs.iter().enumerate() {
        let at = y + port(i, element.inputs.len(), height);
        let _ = writeln!(
            text,
            "<path class=\"p{}\" d=\"M{:.1} {:.1}l{:.1} {HALF:.1}l-{:.1} {HALF:.1}z\"/>",
            if *push { " h" } else { "" },
            x,
            at - HALF,
            2.0 * HALF,
            2.0 * HALF,
        );
    }
    for (i, push) in element.outputs.iter().enumerate() {
        let at = y + port(i, element.outputs.len(), height);
        let size = 2.0 * HALF;
        let _ = writeln!(
            text,
            "<rect class=\"p{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{size}\" height=\"{size}\"/>",
            if *push { " h" } else { "" },
            x + width - size,
            at - HALF,
        );
    }
    text.push_str("</g>\n");
}
