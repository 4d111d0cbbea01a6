//! Which part of a capture file is wanted.

use crate::prelude::*;

/// Which part of the file is wanted, in nanoseconds since 1970.
#[derive(Clone, Copy, Default)]
pub struct Times {
    pub first: Option<i64>,
    pub first_is_relative: bool,
    pub last: Option<i64>,
    pub last_is_relative: bool,
    pub last_is_interval: bool,
    /// Relative times are made absolute by the first packet.
    pub known: bool,
    /// The end time as it is extended; kept when the end was reached.
    pub end: i64,
    /// What to add to a packet's time for its moment on the steady clock.
    pub offset: i64,
}

impl Times {
    /// Takes the first packet's time.
    pub fn start(&mut self, time: i64, steady: Steady) {
        let first = self.first.unwrap_or(0);
        let start = if self.first_is_relative || self.first.is_none() {
            first.saturating_add(time)
        } else {
            first
        };
        self.first = self.first.map(|_| start);
        if self.last_is_relative {
            self.end = self.end.saturating_add(time);
        } else if self.last_is_interval {
            self.end = self.end.saturating_add(start);
        }
        self.last = self.last.map(|_| self.end);
        self.offset = (steady.0 as i64).saturating_sub(time);
        self.known = true;
    }
}
