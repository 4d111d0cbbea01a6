//! A configuration's graph for Graphviz.

use std::fmt::Write as _;

use router::Graph;

use crate::graph::escape;

/// The graph in the DOT language: a record for each element with its ports.
pub fn draw(graph: &Graph) -> String {
    let mut text = String::from(
        "digraph configuration {\n  rankdir=LR;\n  node [shape=plain, fontname=\"sans-serif\"];\n",
    );
    for (i, element) in graph.elements.iter().enumerate() {
        let _ = write!(
            text,
            "  e{i} [label=<<table border=\"1\" cellborder=\"0\" cellspacing=\"0\"><tr>"
        );
        ports(&mut text, &element.inputs, 'i');
        let (name, class) = (escape(&element.name), escape(element.class.name));
        let _ = write!(text, "<td>{name} :: {class}</td>");
        ports(&mut text, &element.outputs, 'o');
        text.push_str("</tr></table>>];\n");
    }
    for connection in &graph.wiring {
        let ((from, out), (to, into)) = (connection.from, connection.to);
        let _ = writeln!(text, "  e{from}:o{out}:e -> e{to}:i{into}:w;");
    }
    text.push_str("}\n");
    text
}

/// A column of ports: filled if push, open if pull.
fn ports(text: &mut String, ports: &[bool], side: char) {
    if ports.is_empty() {
        return;
    }
    text.push_str("<td><table border=\"0\" cellborder=\"0\" cellspacing=\"2\">");
    for (i, push) in ports.iter().enumerate() {
        let sign = match (side, push) {
            ('i', true) => '▶',
            ('i', false) => '▷',
            (_, true) => '■',
            (_, false) => '□',
        };
        let _ = write!(text, "<tr><td port=\"{side}{i}\">{sign}</td></tr>");
    }
    text.push_str("</table></td>");
}
