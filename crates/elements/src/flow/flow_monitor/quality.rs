//! What a TCP connection's packets tell of its path: round-trip times and retransmissions.

use crate::prelude::*;

const MICROSECOND: u64 = 1_000;

/// Round-trip times between the monitor and one side, in microseconds.
#[derive(Clone, Copy, Default)]
pub struct RoundTrips {
    /// Measurements.
    pub count: u32,
    /// The least.
    pub least: u32,
    /// The smoothed one (RFC 6298: each new one counts for an eighth).
    pub smoothed: u32,
}

impl RoundTrips {
    fn measure(&mut self, nanoseconds: u64) {
        let time = u32::try_from(nanoseconds / MICROSECOND).unwrap_or(u32::MAX);
        match self.count {
            0 => (self.least, self.smoothed) = (time, time),
            _ => {
                self.least = self.least.min(time);
                let sum = u64::from(self.smoothed) * 7 + u64::from(time);
                self.smoothed = (sum / 8) as u32;
            }
        }
        self.count = self.count.saturating_add(1);
    }
}

/// What came from one side.
#[derive(Clone, Copy, Default)]
pub struct Half {
    /// Segments with data that came before, or behind later data.
    pub retransmitted: u32,
    /// Round trips from the monitor to this side and back.
    pub round_trips: RoundTrips,
    /// The number behind the highest byte; none before the first segment.
    next: Option<TcpSequence>,
    /// The newest timestamp, and when it came first; 0 if it was answered.
    newest: Option<(u32, u64)>,
}

/// A TCP connection's quality; of each direction, the forward one first.
#[derive(Clone, Copy, Default)]
pub struct Quality {
    /// Of both sides: the one that began the connection, and the other.
    pub halves: [Half; 2],
    /// When the SYN and its answer came, unless it came twice.
    opened: [Option<u64>; 2],
    /// Round-trip times of the handshake in microseconds: to the side that answers, and to the one that
    /// began.
    pub handshake: [Option<u32>; 2],
}

impl Quality {
    /// A segment came, of direction 0 (forward) or 1, at a time.
    pub fn see(&mut self, segment: &TcpPacket<&[u8]>, direction: usize, now: u64) {
        let (own, other) = match direction {
            0 => (0, 1),
            _ => (1, 0),
        };
        self.see_handshake(segment.flags(), own, now);
        let mut options = segment.options();
        let stamps = options.find_map(|option| match option {
            Ok(TcpOption::Timestamps { value, echo }) => Some((value, echo)),
            _ => None,
        });
        if let Some((value, echo)) = stamps {
            self.halves[own].stamp(value, now);
            if segment.flags().contains(TcpFlags::ACK) {
                // The answer to what the other side sent shows how far this side is.
                let newest = &mut self.halves[other].newest;
                if let Some((sent, at)) = *newest
                    && at > 0
                    && echo.wrapping_sub(sent) as i32 >= 0
                {
                    *newest = Some((sent, 0));
                    if echo == sent {
                        self.halves[own].round_trips.measure(now.saturating_sub(at));
                    }
                }
            }
        }
        self.halves[own].count(segment);
    }

    fn see_handshake(&mut self, flags: TcpFlags, own: usize, now: u64) {
        if flags.contains(TcpFlags::SYN) {
            // Of a SYN that comes twice, the answer may be to either.
            let repeated = self.halves[own].next.is_some();
            self.opened[own] = (!repeated).then_some(now);
        }
        let answers = match own {
            1 => flags.contains(TcpFlags::SYN | TcpFlags::ACK),
            _ => flags.contains(TcpFlags::ACK) && !flags.intersects(TcpFlags::SYN | TcpFlags::RST),
        };
        let other = 1 - own;
        let slot = if own == 1 { 0 } else { 1 };
        if answers
            && self.handshake[slot].is_none()
            && let Some(opened) = self.opened[other].take()
        {
            let time = now.saturating_sub(opened) / MICROSECOND;
            self.handshake[slot] = Some(u32::try_from(time).unwrap_or(u32::MAX));
        }
    }
}

impl Half {
    /// Keeps the time of the first segment with a timestamp.
    fn stamp(&mut self, value: u32, now: u64) {
        let is_new = match self.newest {
            None => true,
            // The one before waits for its answer first: a clock that ticks with each segment
            // would never be measured else.
            Some((newest, at)) => at == 0 && (value.wrapping_sub(newest) as i32) > 0,
        };
        if is_new {
            self.newest = Some((value, now));
        }
    }

    fn count(&mut self, segment: &TcpPacket<&[u8]>) {
        let flags = segment.flags();
        let control = flags.intersects(TcpFlags::SYN | TcpFlags::FIN);
        let length = segment.payload().len() as u32 + u32::from(control);
        let sequence = segment.sequence();
        let end = sequence + length;
        let Some(next) = self.next else {
            self.next = Some(end);
            return;
        };
        if length > 0 && sequence.is_before(next) {
            // A keep-alive carries the last byte once more (RFC 9293, section 3.8.4).
            let keeps_alive = length == 1 && sequence + 1 == next;
            self.retransmitted += u32::from(!keeps_alive);
        }
        if next.is_before(end) {
            self.next = Some(end);
        }
    }
}
