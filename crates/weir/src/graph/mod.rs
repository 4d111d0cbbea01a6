//! Drawings of graphs: one layout for configurations and wires.

pub mod layout;
pub mod wire;

/// Text as it stands in SVG and in Graphviz's HTML-like labels.
pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
