//! What elements that delay packets share: the packet that waits, and how long.

use alloc::string::String;

use packet::Packet;
use router::args::{Timestamp, unparse};
use router::{Cx, HandlerError, HandlerFlags, HandlerList};

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
        let came = match packet.timestamp() {
            0 => now,
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

    pub fn handlers(list: &mut HandlerList) {
        list.read_write("delay").add("delay", HandlerFlags::CALM);
    }

    pub fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "delay" => Ok(unparse::interval(self.delay)),
            _ => Err(HandlerError::Unknown),
        }
    }

    pub fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "delay" {
            return Err(HandlerError::Unknown);
        }
        let delay = cx.names().parse(value);
        self.delay = delay.map_err(|_| "delay must be a timestamp")?;
        Ok(())
    }
}
