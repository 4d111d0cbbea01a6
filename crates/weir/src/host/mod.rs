//! The host as a router's embedding: clocks, console, random numbers, names, and the loop that sleeps
//! until something happens.

mod clock;
mod events;
mod names;

pub use clock::{Clock, Warp};
pub use events::{Events, Woken};
pub use names::Machine;

use std::io::{IsTerminal, Write};

use click::{Diagnostics, Quotes};

/// Prints a line where Click's `click_chatter` does: on standard error, at once.
pub fn chatter(line: &str) {
    // One write a line, so that lines of several processes do not mix. A closed standard error
    // is no reason to stop.
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = [&*click::text::encode(line), b"\n"].concat();
    let _ = std::io::stderr().write_all(&line);
}

/// A random number from the kernel.
pub fn seed() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_ne_bytes(bytes),
        // Only before the kernel's generator is ready, which it is long before any program runs.
        Err(_) => rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_nsec as u64,
    }
}

/// The quotation marks of messages on standard error: curly ones on a terminal whose language has
/// them, as Click decides it.
pub fn quotes() -> Quotes {
    let has_them = |language: String| {
        ["UTF-8", "UTF8", "utf8"]
            .iter()
            .any(|s| language.contains(s))
    };
    if std::io::stderr().is_terminal() && std::env::var("LANG").is_ok_and(has_them) {
        Quotes::Curly
    } else {
        Quotes::Ascii
    }
}

/// Prints diagnostics on standard error, as Click does.
pub fn chatter_all(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        chatter(&quotes().apply(&format!("{diagnostics:#}")));
    }
}

/// Prints to standard output; its reader may close the pipe at any time.
pub fn print(text: &str) -> std::io::Result<()> {
    print_on(text).map(drop)
}

/// Prints text of a continuing output to standard output; returns whether its reader is still
/// there.
pub fn print_on(text: &str) -> std::io::Result<bool> {
    let mut output = std::io::stdout();
    let printed = output.write_all(text.as_bytes());
    match printed.and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}
