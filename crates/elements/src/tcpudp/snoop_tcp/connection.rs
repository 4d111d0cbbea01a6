//! One connection: the server's segments that the mobile host has not acknowledged, and what its
//! acknowledgments ask for.

use crate::prelude::*;

/// Duplicate acknowledgments that are ignored: segments may just have changed places.
const THRESHOLD: u32 = 1;
/// Most segments of a connection.
const SEGMENTS_MAX: usize = 1024;
/// From here on, room is kept for segments that fill gaps.
const HIGH_WATER: usize = SEGMENTS_MAX / 10 * 9;
/// How often a segment is sent again before acknowledgments go on to the server, for it to act.
const RETRANSMISSIONS_MAX: u32 = 2;

struct Segment {
    packet: Packet,
    first: TcpSequence,
    /// The number behind its last byte.
    end: TcpSequence,
    /// How often we sent it again.
    retransmissions: u32,
    /// The server sent it again itself: congestion control is at work, and is let alone.
    by_sender: bool,
}

/// What an acknowledgment says.
#[derive(Clone, Copy)]
pub struct Acknowledgment {
    pub number: TcpSequence,
    pub window: u16,
    /// It comes with data, and so says nothing about loss.
    pub with_data: bool,
}

/// What becomes of an acknowledgment.
pub enum Fate<'c> {
    /// On to the server.
    Pass,
    /// The server need not know.
    Suppress,
    /// The same, and this packet is to be sent to the mobile host again.
    Retransmit(&'c Packet),
}

/// See the module.
pub struct Connection {
    segments: VecDeque<Segment>,
    /// The first number not seen from the server.
    next: TcpSequence,
    acknowledged: TcpSequence,
    window: Option<u16>,
    duplicates: u32,
    /// Duplicates that the segments under way will cause.
    expected: u32,
    /// When it was last used, in seconds.
    pub used: u64,
}

impl Connection {
    /// A connection whose first segment, as far as we know, starts at `first`.
    pub fn new(first: TcpSequence, used: u64) -> Connection {
        Connection {
            segments: VecDeque::new(),
            next: first,
            acknowledged: TcpSequence(first.0.wrapping_sub(1)),
            window: None,
            duplicates: 0,
            expected: 0,
            used,
        }
    }

    /// Segments it holds.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there is room for a segment that starts at `first`, and it is of use.
    pub fn wants(&self, first: TcpSequence) -> bool {
        let in_sequence = !first.is_before(self.next);
        let most = if in_sequence {
            HIGH_WATER
        } else {
            SEGMENTS_MAX
        };
        let old = first.is_before(self.acknowledged);
        self.segments.len() < most && !old
    }

    /// Keeps `packet`, a copy of a segment of `length` bytes on its way to the mobile host. Returns
    /// what it takes the place of.
    pub fn keep(&mut self, packet: Packet, first: TcpSequence, length: u32) -> Option<Packet> {
        let in_sequence = !first.is_before(self.next);
        let end = first + length;
        if self.next.is_before(end) {
            self.next = end;
        }
        let at = self
            .segments
            .partition_point(|segment| segment.first.is_before(first));
        let same = self.segments.get_mut(at);
        let mut segment = Segment {
            packet,
            first,
            end,
            retransmissions: 0,
            by_sender: !in_sequence && at == 0,
        };
        if let Some(same) = same.filter(|same| same.first == first) {
            segment.by_sender = true;
            return Some(core::mem::replace(same, segment).packet);
        }
        self.segments.insert(at, segment);
        None
    }

    /// Takes an acknowledgment of the mobile host. Segments that it has go to `done`.
    pub fn acknowledge(&mut self, ack: Acknowledgment, mut done: impl FnMut(Packet)) -> Fate<'_> {
        if ack.number.is_before(self.acknowledged) {
            return Fate::Pass;
        }
        let same_window = self.window.replace(ack.window) == Some(ack.window);
        if ack.number != self.acknowledged {
            self.acknowledged = ack.number;
            (self.duplicates, self.expected) = (0, 0);
            let has = |segment: &mut Segment| !ack.number.is_before(segment.end);
            while let Some(segment) = self.segments.pop_front_if(has) {
                done(segment.packet);
            }
            return Fate::Pass;
        }
        // A change of the window is no duplicate, and neither is what comes with data.
        if ack.with_data || !same_window {
            return Fate::Pass;
        }
        self.duplicate()
    }

    fn duplicate(&mut self) -> Fate<'_> {
        let count = self.segments.len() as u32;
        let Some(segment) = self.segments.front_mut() else {
            return Fate::Pass;
        };
        if self.acknowledged.is_before(segment.first) || segment.by_sender {
            return Fate::Pass;
        }
        self.duplicates += 1;
        if self.duplicates <= THRESHOLD {
            return Fate::Suppress;
        }
        let again = if self.duplicates == THRESHOLD + 1 {
            self.expected = count.saturating_sub(self.duplicates);
            segment.retransmissions == 0
        } else if self.duplicates < self.expected {
            false
        } else if segment.retransmissions < RETRANSMISSIONS_MAX {
            true
        } else {
            return Fate::Pass;
        };
        if !again {
            return Fate::Suppress;
        }
        segment.retransmissions += 1;
        Fate::Retransmit(&segment.packet)
    }
}
