//! Memory that may be short: a handler whose work needs much of it asks first, and refuses.
//!
//! In a guest, an allocation that fails ends the guest. Its heap is small, and handlers that list or
//! replace large tables are called by users at any time.

use core::fmt::{self, Write};

use crate::handler::{FailureKind, HandlerError};
use crate::prelude::*;

/// Bytes that a handler leaves to others: a table that grows stops before it takes the last ones.
pub const RESERVE: usize = 32 << 10;

/// What a user can do about it.
pub const MORE_MEMORY: &str = "give the guest more memory, as in --memory 32M";

/// Whether so many bytes can be allocated in one piece now.
pub fn spare(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// How many bytes can be allocated in one piece now, up to `most`: at least half of what is there.
pub fn spare_of(most: usize) -> usize {
    let halves = (0..usize::BITS).map(|halvings| most >> halvings);
    halves
        .take_while(|bytes| *bytes > 0)
        .find(|bytes| spare(*bytes))
        .unwrap_or(0)
}

/// Counts bytes and lines.
#[derive(Default)]
struct Measure {
    bytes: usize,
    lines: usize,
}

impl Write for Measure {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes += text.len();
        self.lines += text.bytes().filter(|byte| *byte == b'\n').count();
        Ok(())
    }
}

/// Fills the memory that a text has, and no more.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.capacity() - self.0.len() < text.len() {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The text of a table: what `write` writes, the same each time that it is called. Its memory is
/// allocated at once, and a text for which there is none is refused.
pub fn listing(write: impl Fn(&mut dyn Write) -> fmt::Result) -> Result<String, HandlerError> {
    let mut measure = Measure::default();
    let mut text = Bounded(String::new());
    let Measure { bytes, lines } = match write(&mut measure) {
        Ok(()) if text.0.try_reserve_exact(measure.bytes).is_ok() => {
            // It fits as it did when it was measured.
            let _ = write(&mut text);
            return Ok(text.0);
        }
        _ => measure,
    };
    Err(HandlerError::failed(
        FailureKind::NoMemory,
        format!("no memory for the text: {lines} lines, {bytes} bytes; {MORE_MEMORY}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_has_exactly_its_memory() {
        let text = listing(|out| (0..1000).try_for_each(|n| writeln!(out, "row {n}"))).unwrap();
        assert_eq!(text.len(), text.capacity());
        assert_eq!(
            (text.lines().count(), text.lines().last()),
            (1000, Some("row 999"))
        );
        assert_eq!(listing(|_| Ok(())).unwrap(), "");
    }

    #[test]
    fn a_listing_that_grows_meanwhile_is_cut() {
        let calls = core::cell::Cell::new(0);
        let text = listing(|out| {
            calls.set(calls.get() + 1);
            (0..calls.get()).try_for_each(|n| writeln!(out, "row {n}"))
        });
        assert_eq!(text.unwrap(), "row 0\n");
    }

    #[test]
    fn no_memory_is_told_with_what_is_needed() {
        let huge = |out: &mut dyn Write| {
            // As long as no machine has memory for, and counted in no time.
            let block = "x".repeat(1 << 20) + "\n";
            (0..1 << 6).try_for_each(|_| out.write_str(&block))
        };
        assert!(listing(huge).is_ok());
        assert!(spare(1 << 20) && !spare(usize::MAX));
        assert_eq!(spare_of(1 << 20), 1 << 20);
        assert!((1..usize::MAX / 2).contains(&spare_of(usize::MAX)));
    }
}
