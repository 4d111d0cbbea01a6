//! A packet that waits for its delay to end: the head of the line of DelayShaper and DelayUnqueue.

use crate::prelude::*;

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// The packet at the head of the line.
#[derive(Default)]
pub(super) struct Head {
    /// The packet that waits; its timestamp is when it may leave.
    waiting: Option<Packet>,
}

/// The packet at the head of the line, if there is one.
pub(super) enum Next {
    /// There is none.
    None,
    /// It may leave; its timestamp is the end of its delay.
    Due(Packet),
    /// It waits, for so many nanoseconds more.
    Early(u64),
}

impl Head {
    /// The packet that waits.
    pub fn next(&mut self, now: i64) -> Next {
        let Some(packet) = self.waiting.take() else {
            return Next::None;
        };
        let early = packet.timestamp().saturating_sub(now);
        if early <= 0 {
            return Next::Due(packet);
        }
        self.waiting = Some(packet);
        Next::Early(early.unsigned_abs())
    }

    /// Lets a packet wait: it may leave a `delay` after its timestamp, or if it has none, after now.
    pub fn put(&mut self, mut packet: Packet, now: i64, delay: Timestamp) {
        // As in Click, a time in the first second of 1970 is none: captures and summaries whose times
        // start at 0 have such times.
        let came = match packet.timestamp() {
            0..SECOND => now,
            came => came,
        };
        packet.set_timestamp(came.saturating_add(delay.0));
        self.waiting = Some(packet);
    }

    /// Drops the packet that waits.
    pub fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.waiting.take() {
            cx.kill(packet);
        }
    }
}

/// A delay as handlers show it.
pub(super) fn interval(delay: &Timestamp) -> String {
    unparse::interval(*delay)
}
