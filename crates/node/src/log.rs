//! What the node tells whoever runs it, a line each on standard error: what ended, how, and what is
//! done about it.

use std::fmt::Display;
use std::io::Write;

/// Tells that something has ended. Of `how`, whose further lines are what it printed, the first
/// line is told.
pub fn ended(what: &dyn Display, how: &str, remedy: impl Display) {
    let how = how.lines().next().unwrap_or("it ended");
    say(format_args!("{what}: {how}: {remedy}"));
}

/// Tells something. That nobody listens any more is no reason to end.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "weir: {line}");
}
