//! Text from untrusted writers.

/// A line with its control characters escaped: they may be hostile to the terminal.
pub fn printable(line: &str) -> String {
    let shown = |c: char| match c {
        '\t' => "\t".to_string(),
        // Bytes that are not UTF-8 (`click::text`): the first 32 drive terminals of Latin-1.
        '\u{ef80}'..='\u{ef9f}' => format!("\\x{:02x}", u32::from(c) & 0xff),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    line.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_drive_the_terminal() {
        assert_eq!(printable("no \x1b[2Jmemory\n"), "no \\u{1b}[2Jmemory\\n");
        assert_eq!(printable("a\tb\x1b[2Jc"), "a\tb\\u{1b}[2Jc");
        assert_eq!(printable("\u{ef9b}2J\u{efe9}"), "\\x9b2J\u{efe9}");
    }
}
