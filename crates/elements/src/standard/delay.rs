//! What elements that delay packets share: the packet that waits, and how long.

use alloc::string::String;

use packet::Packet;
use router::args::{Timestamp, unparse};
use router::{Cx, HandlerError};

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// A delay, and the packet that waits until it is over.
#[derive(Default)]
pub(super) struct Delay {
    pub delay: Timestamp,
    /// The packet that waits; its timestamp is when it may leave.
    waiting: Option<Packet>,
}

/// The next packet of an input that delays packets.
pub(super) enum Next {
    /// There is none.
    None,
    /// It may leave; its timestamp is when it was to.
    Due(Packet),
    /// It waits, for so many nanoseconds more.
    Early(u64),
}

impl Delay {
    /// The packet that waits, or else the next from input 0: one may leave at its timestamp, or if
    /// it has none, now, and the delay.
    pub fn next(&mut self, cx: &mut Cx<'_>, now: i64) -> Next {
        let waiting = self.waiting.take();
        let Some(packet) = waiting.or_else(|| self.pull(cx, now)) else {
            return Next::None;
        };
        let early = packet.timestamp().saturating_sub(now);
        if early <= 0 {
            return Next::Due(packet);
        }
        self.waiting = Some(packet);
        Next::Early(early.unsigned_abs())
    }

    fn pull(&self, cx: &mut Cx<'_>, now: i64) -> Option<Packet> {
        let mut packet = cx.pull_one(0)?;
        // As Click has it, a time in the first second of 1970 is none: captures and summaries whose
        // times start at 0 have such.
        let came = match packet.timestamp() {
            0..SECOND => now,
            came => came,
        };
        packet.set_timestamp(came.saturating_add(self.delay.0));
        Some(packet)
    }

    /// Drops the packet that waits.
    pub fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.waiting.take() {
            cx.kill(packet);
        }
    }

    pub fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "delay" => Ok(unparse::interval(self.delay)),
            _ => Err(HandlerError::Unknown),
        }
    }

    /// Writes the handler; `expected` says what a wrong value should have been.
    pub fn write(
        &mut self,
        cx: &Cx<'_>,
        name: &str,
        value: &str,
        expected: &str,
    ) -> Result<(), HandlerError> {
        if name != "delay" {
            return Err(HandlerError::Unknown);
        }
        self.delay = cx.names().parse(value).map_err(|_| expected)?;
        Ok(())
    }
}
