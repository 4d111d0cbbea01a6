//! Text that others wrote.

/// A line with control characters shown, not obeyed: it may be hostile to the terminal.
pub fn printable(line: &str) -> String {
    let shown = |c: char| match c {
        '\t' => "\t".to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    line.chars().map(shown).collect()
}
