//! What is told to whoever runs a program, a line each on standard error: by the node what ended,
//! how, and what is done about it.

use std::fmt::Display;
use std::io::Write;

/// Tells that something has ended. Of `how`, whose further lines are what it printed, the first
/// line is told.
pub fn ended(what: &dyn Display, how: &str, remedy: impl Display) {
    let how = how.lines().next().unwrap_or("it ended");
    say(format_args!("{what}: {how}: {remedy}"));
}

/// Tells something, in one write: others may write to the same file. That nobody listens any more is
/// no reason to end.
pub fn say(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("weir: {line}\n").as_bytes());
}
