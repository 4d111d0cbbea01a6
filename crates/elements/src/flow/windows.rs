//! The sequence numbers of a TCP connection, as seen from between: which segments a receiver takes.
//!
//! A direction has the numbers that its sender used, and what the receiver said of them: its last
//! acknowledgment, and how much it takes beyond (Van Rooij: Real Stateful TCP Packet Filtering in IP Filter, 2001).
//! What is not known yet fits.

use packet::Passed;

use super::state::{ACK, FIN, RST, SYN};
use super::upper::Upper;
use crate::prelude::*;
use crate::rewriter::flow::Direction;

/// How far a number may be behind the last acknowledgment, and an acknowledgment from what was seen: segments
/// are sent again and overtake each other, and an element behind may lengthen what it passes on.
const SLACK: u32 = 1 << 16;

/// The numbers of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentNumbers {
    /// TCP's flags.
    pub flags: u8,
    /// The number of its first byte.
    pub sequence: u32,
    /// The number that it acknowledges all before.
    pub acknowledgment: u32,
    /// The window, as it stands there.
    pub window: u16,
    /// How many numbers it takes up: its data, SYN and FIN.
    pub length: u32,
    /// The window scale, of a SYN.
    pub scale: Option<u8>,
    /// Bytes, at most, of the segments before it that were passed on elsewhere.
    pub missed: u32,
}

impl SegmentNumbers {
    /// Reads a TCP segment's header; `None` if it is cut short.
    #[inline]
    pub fn of(packet: &Packet) -> Option<SegmentNumbers> {
        let upper = Upper::of(packet)?;
        let transport = upper.bytes;
        let header: &[u8; 20] = transport.first_chunk()?;
        let number = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let flags = header[13];
        let header_length = u32::from(header[12] >> 4) * 4;
        let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        Some(SegmentNumbers {
            flags,
            sequence: number(4),
            acknowledgment: number(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            length: (upper.length as u32).saturating_sub(header_length) + controls,
            scale: match flags & SYN {
                0 => None,
                _ => scale(transport),
            },
            missed: missed(packet.passed()),
        })
    }
}

/// Bytes that packets passed on elsewhere have at most; their length is rounded down.
#[inline]
fn missed(passed: Passed) -> u32 {
    passed
        .packets
        .saturating_mul(u32::from(passed.length).saturating_add(1))
}

/// The window scale among the options of a SYN.
#[cold]
fn scale(transport: &[u8]) -> Option<u8> {
    let tcp = TcpPacket::new_checked(transport).ok()?;
    tcp.options()
        .map_while(Result::ok)
        .find_map(|option| match option {
            TcpOption::WindowScale(scale) => Some(scale),
            _ => None,
        })
}

/// The largest window scale (RFC 7323, section 2.3).
const SCALE_MAX: u8 = 14;

/// By how much a sender scales its windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scale(u8);

impl Scale {
    /// Its SYN was not seen.
    const UNKNOWN: Scale = Scale(0);
    /// Its SYN has no such option.
    const NONE: Scale = Scale(1);

    fn new(scale: Option<u8>) -> Scale {
        scale.map_or(Scale::NONE, |scale| Scale(2 + scale.min(SCALE_MAX)))
    }
}

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
struct HalfWindow {
    /// The number behind the last that was sent.
    end: u32,
    /// The first number that is not acknowledged.
    acknowledged: u32,
    /// How much the receiver takes from there on, in its scale.
    window: u16,
    /// The sender's scale, for the windows of the other direction.
    scale: Scale,
    /// [`SENT`] and [`ANSWERED`].
    known: u8,
}

const _: () = assert!(size_of::<HalfWindow>() == 12);

/// The sender's numbers are known.
const SENT: u8 = 1;
/// The receiver's are.
const ANSWERED: u8 = 2;

impl HalfWindow {
    fn has(&self, known: u8) -> bool {
        self.known & known != 0
    }

    /// The direction of a SYN.
    fn begin(segment: &SegmentNumbers) -> HalfWindow {
        HalfWindow {
            end: segment.sequence.wrapping_add(segment.length),
            acknowledged: segment.sequence,
            scale: Scale::new(segment.scale),
            known: SENT,
            ..HalfWindow::default()
        }
    }

    /// Whether the receiver takes a number, if its windows are scaled so.
    #[inline]
    fn takes(&self, sequence: u32, scale: u8) -> bool {
        // One unit more: windows are rounded down.
        let window = (u32::from(self.window) + 1) << scale;
        let offset = sequence.wrapping_sub(self.acknowledged.wrapping_sub(SLACK));
        !self.has(ANSWERED) || offset <= SLACK + window
    }

    /// Whether the receiver may acknowledge a number; by `more` beyond what was seen.
    #[inline]
    fn may_acknowledge(&self, number: u32, more: u32) -> bool {
        let offset = number.wrapping_sub(self.acknowledged.wrapping_sub(SLACK));
        let sent = self.end.wrapping_sub(self.acknowledged);
        !self.has(SENT) || offset <= sent.saturating_add(SLACK + more)
    }

    /// Notes what was sent.
    #[inline]
    fn send(&mut self, segment: &SegmentNumbers) {
        let end = segment.sequence.wrapping_add(segment.length);
        if self.known == 0 {
            self.acknowledged = segment.sequence;
        }
        if self.known == 0 || is_behind(self.end, end) {
            self.end = end;
        }
        self.known |= SENT;
    }

    /// Notes what the receiver says, if its windows are scaled so.
    #[inline]
    fn answer(&mut self, number: u32, window: u16, scale: u8) {
        if self.known == 0 {
            (self.end, self.acknowledged) = (number, number);
        }
        let number = match is_behind(self.end, number) && self.has(SENT) {
            true => self.end,
            false => number,
        };
        if is_behind(number, self.acknowledged) {
            return;
        }
        // What was promised stays so.
        let advance = number.wrapping_sub(self.acknowledged);
        let promised = (u32::from(self.window) << scale).saturating_sub(advance) >> scale;
        self.window = window.max(promised as u16);
        self.acknowledged = number;
        if is_behind(self.end, number) {
            self.end = number;
        }
        self.known |= ANSWERED;
    }
}

/// Whether a number is before another.
#[inline]
fn is_behind(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) < 0
}

/// What is known of a segment's receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpReceiver {
    /// Whether it takes the segment's data: it begins in the window, and acknowledges what was sent.
    pub takes: bool,
    /// The number that it has acknowledged all before, once that is known.
    pub acknowledged: Option<u32>,
}

impl TcpReceiver {
    /// Nothing is known.
    pub const UNKNOWN: TcpReceiver = TcpReceiver {
        takes: true,
        acknowledged: None,
    };
}

/// Both directions of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpWindows([HalfWindow; 2]);

impl TcpWindows {
    /// Nothing is known.
    pub const NEW: TcpWindows = TcpWindows(
        [HalfWindow {
            end: 0,
            acknowledged: 0,
            window: 0,
            scale: Scale::UNKNOWN,
            known: 0,
        }; 2],
    );

    /// A connection that is open: of each direction the next number, the window that the receiver's SYN, or
    /// the segment that answers it, gave, and the sender's scale.
    pub fn opened(directions: [(u32, u16, Option<u8>); 2]) -> TcpWindows {
        TcpWindows(directions.map(|(next, window, scale)| HalfWindow {
            end: next,
            acknowledged: next,
            window,
            scale: Scale::new(scale),
            known: SENT | ANSWERED,
        }))
    }

    /// By how much the sender of a direction scales its windows.
    #[inline]
    fn scale(&self, direction: Direction) -> u8 {
        let (own, other) = (&self.0[direction as usize], &self.0[1 - direction as usize]);
        match (own.scale, other.scale) {
            (Scale::NONE, _) | (_, Scale::NONE) => 0,
            (Scale::UNKNOWN, _) => SCALE_MAX,
            (Scale(scale), _) => scale - 2,
        }
    }

    #[inline]
    fn is_near(&self, direction: Direction, segment: &SegmentNumbers, more: u32) -> bool {
        let (own, other) = (&self.0[direction as usize], &self.0[1 - direction as usize]);
        own.takes(segment.sequence, self.scale(direction.opposite()))
            && (segment.flags & ACK == 0 || other.may_acknowledge(segment.acknowledgment, more))
    }

    /// What is known of a segment's receiver.
    pub fn receiver(&self, direction: Direction, segment: &SegmentNumbers) -> TcpReceiver {
        let own = &self.0[direction as usize];
        TcpReceiver {
            takes: self.is_near(direction, segment, 0),
            acknowledged: own.has(ANSWERED).then_some(own.acknowledged),
        }
    }

    /// Notes a segment. Returns whether its FIN or RST counts. `is_opening` if there was no handshake yet.
    #[inline]
    pub fn note(
        &mut self,
        direction: Direction,
        segment: &SegmentNumbers,
        is_opening: bool,
    ) -> bool {
        let (own, other) = (direction as usize, 1 - direction as usize);
        if segment.missed > 0 && !is_opening {
            self.catch_up(direction, segment);
        }
        if segment.flags & RST != 0 {
            return self.resets(direction, segment);
        }
        let begins = is_opening && !self.0[own].has(ANSWERED);
        if begins && segment.flags & (SYN | ACK) == SYN {
            self.0[own] = HalfWindow::begin(segment);
            if direction == Direction::Forward {
                self.0[other] = HalfWindow::default();
            }
            return true;
        }
        if !self.is_near(direction, segment, SLACK) {
            return false;
        }
        match is_opening && segment.flags & SYN != 0 {
            true => self.0[own] = HalfWindow::begin(segment),
            false => self.0[own].send(segment),
        }
        if segment.flags & ACK != 0 {
            let scale = self.scale(direction);
            let window = match segment.flags & SYN {
                0 => segment.window,
                // The window of a SYN is not scaled (RFC 7323, section 2.2).
                _ => segment.window >> scale,
            };
            self.0[other].answer(segment.acknowledgment, window, scale);
        }
        true
    }

    /// Notes what a segment acknowledges, where the other side's segments are not seen.
    #[inline]
    pub fn note_one_way(&mut self, direction: Direction, segment: &SegmentNumbers) {
        if segment.flags & (ACK | RST) == ACK {
            self.0[1 - direction as usize].answer(segment.acknowledgment, segment.window, 0);
        }
    }

    /// Follows segments that were passed on elsewhere up to this one, if it begins no further than they reach. What it
    /// acknowledges is believed then: how much was missed of the other direction, a segment of that tells.
    #[cold]
    fn catch_up(&mut self, direction: Direction, segment: &SegmentNumbers) {
        let (own, other) = (direction as usize, 1 - direction as usize);
        let (own_known, other_known) = (self.0[own].has(SENT), self.0[other].has(SENT));
        let offset = segment
            .sequence
            .wrapping_sub(self.0[own].end.wrapping_sub(SLACK));
        if !own_known || offset > segment.missed.saturating_add(2 * SLACK) {
            return;
        }
        let mut follow = |d: usize, number: u32| {
            let half = &mut self.0[d];
            half.acknowledged = number;
            if is_behind(half.end, number) {
                half.end = number;
            }
        };
        follow(own, segment.sequence);
        if segment.flags & ACK != 0 && other_known {
            follow(other, segment.acknowledgment);
        }
    }

    /// Whether a RST ends the connection: its number is that which the receiver expects next, or one of those
    /// that are under way (RFC 5961, section 3), or it answers the SYN (RFC 9293, section 3.10.7.3).
    #[cold]
    fn resets(&self, direction: Direction, segment: &SegmentNumbers) -> bool {
        let (own, other) = (&self.0[direction as usize], &self.0[1 - direction as usize]);
        let is_under_way = |of: &HalfWindow, number: u32| {
            number.wrapping_sub(of.acknowledged) <= of.end.wrapping_sub(of.acknowledged)
        };
        match (own.known, other.has(SENT)) {
            (0, true) => segment.flags & ACK != 0 && is_under_way(other, segment.acknowledgment),
            (0, false) => true,
            _ => is_under_way(own, segment.sequence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    const ISNS: [u32; 2] = [u32::MAX - 5, 7000];

    /// A segment by its place in its stream, and in the other that it acknowledges.
    fn segment(
        direction: Direction,
        flags: u8,
        (at, of): (u32, u32),
        length: u32,
    ) -> SegmentNumbers {
        let d = direction as usize;
        SegmentNumbers {
            flags,
            sequence: ISNS[d].wrapping_add(at),
            acknowledgment: ISNS[1 - d].wrapping_add(of),
            window: 1000,
            length,
            scale: None,
            missed: 0,
        }
    }

    /// A connection after its handshake: the client scales by 2.
    fn opened() -> TcpWindows {
        let mut windows = TcpWindows::default();
        let (there, back) = (Direction::Forward, Direction::Reply);
        let scaled = |scale, it| SegmentNumbers {
            scale: Some(scale),
            ..it
        };
        let syn = scaled(2, segment(there, SYN, (0, 0), 1));
        let answer = scaled(0, segment(back, SYN | ACK, (0, 1), 1));
        assert!(windows.note(there, &syn, true) && windows.note(back, &answer, true));
        assert!(windows.note(there, &segment(there, ACK, (1, 1), 0), true));
        windows
    }

    fn takes(windows: &TcpWindows, numbers: (u32, u32)) -> bool {
        let there = Direction::Forward;
        let receiver = windows.receiver(there, &segment(there, ACK, numbers, 1));
        receiver.takes
    }

    fn acknowledged(windows: &TcpWindows) -> Option<u32> {
        let there = Direction::Forward;
        let receiver = windows.receiver(there, &segment(there, ACK, (1, 1), 1));
        receiver.acknowledged
    }

    #[test]
    fn what_a_receiver_takes_is_known() {
        let windows = opened();
        let (there, back) = (Direction::Forward, Direction::Reply);
        for (direction, numbers, expected) in [
            (there, (1, 1), true),
            (there, (1001, 1), true),
            (there, (1003, 1), false),
            (there, (1 << 30, 1), false),
            (there, (70_000, 1), false),
            // The server sent nothing yet.
            (there, (1, 2), false),
            (back, (4001, 1), true),
            (back, (4010, 1), false),
            (back, (1, 3), false),
        ] {
            let segment = segment(direction, ACK, numbers, 10);
            assert_eq!(
                windows.receiver(direction, &segment).takes,
                expected,
                "{direction:?} {numbers:?}"
            );
        }
    }

    #[test]
    fn a_reset_must_have_the_number_that_is_next() {
        let mut windows = opened();
        let there = Direction::Forward;
        windows.note(there, &segment(there, ACK, (1, 1), 500), false);
        for (at, expected) in [
            (0, false),
            (1, true),
            (501, true),
            (502, false),
            (1 << 31, false),
        ] {
            let reset = segment(there, RST, (at, 0), 0);
            assert_eq!(windows.note(there, &reset, false), expected, "{at}");
        }
        // A refusal answers the SYN.
        let mut windows = TcpWindows::default();
        windows.note(there, &segment(there, SYN, (0, 0), 1), true);
        for (flags, of, expected) in [(RST, 1, false), (RST | ACK, 2, false), (RST | ACK, 1, true)]
        {
            let reset = segment(Direction::Reply, flags, (0, of), 0);
            assert_eq!(
                windows.note(Direction::Reply, &reset, true),
                expected,
                "{flags} {of}"
            );
        }
    }

    #[test]
    fn a_window_moves_with_acknowledgments_and_does_not_shrink() {
        let mut windows = opened();
        let (there, back) = (Direction::Forward, Direction::Reply);
        windows.note(there, &segment(there, ACK, (1, 1), 600), false);
        let smaller = SegmentNumbers {
            window: 10,
            ..segment(back, ACK, (1, 301), 0)
        };
        windows.note(back, &smaller, false);
        assert_eq!(acknowledged(&windows), Some(ISNS[0].wrapping_add(301)));
        assert!(takes(&windows, (1001, 1)));
        windows.note(back, &segment(back, ACK, (1, 601), 0), false);
        assert!(takes(&windows, (1600, 1)));
    }

    /// How far segments that are passed on elsewhere come, at most, between two that are seen.
    const ELSEWHERE: u32 = 1 << 28;

    #[test]
    fn segments_that_were_passed_on_elsewhere_are_followed() {
        let (there, back) = (Direction::Forward, Direction::Reply);
        let after = |missed, it| SegmentNumbers { missed, ..it };
        // A download: the server's segments, the client's acknowledgments, and both ends of it.
        let mut windows = opened();
        let mut at = 1;
        for _ in 0..15 {
            at += ELSEWHERE;
            let data = after(ELSEWHERE, segment(back, ACK, (at, 1), 1400));
            let answer = after(40 * 1000, segment(there, ACK, (1, at), 0));
            assert!(windows.note(back, &data, false) && windows.note(there, &answer, false));
        }
        let far = segment(back, FIN | ACK, (at + 5_000_000, 1), 1);
        assert!(!windows.note(back, &far, false));
        let fin = after(5_000_000, far);
        assert!(windows.note(back, &fin, false));
        assert!(windows.note(
            there,
            &segment(there, FIN | ACK, (1, at + 5_000_001), 1),
            false
        ));
        // The client closes first, amid the download.
        let mut windows = opened();
        let fin = after(4000, segment(there, FIN | ACK, (1, 9_000_000), 1));
        assert!(windows.note(there, &fin, false));
        let rest = after(9_000_000, segment(back, FIN | ACK, (9_000_000, 2), 1));
        assert!(windows.note(back, &rest, false));
        // A number further than what was passed on is made up.
        let mut windows = opened();
        for flags in [FIN | ACK, RST | ACK, ACK] {
            let forged = after(1_000_000, segment(back, flags, (2_000_000, 1), 1));
            assert!(!windows.note(back, &forged, false));
        }
    }

    proptest! {
        /// Segments with made-up numbers change nothing, but by the chance to hit a window.
        #[test]
        fn far_numbers_are_not_noted(
            forged in prop::collection::vec((any::<bool>(), any::<u32>(), any::<u32>(), 0u8..32), 0..40),
        ) {
            let mut windows = opened();
            for (back, sequence, acknowledgment, flags) in forged {
                let direction = if back { Direction::Reply } else { Direction::Forward };
                let forged = SegmentNumbers {
                    sequence,
                    acknowledgment,
                    ..segment(direction, flags, (0, 0), 10)
                };
                let near = sequence.wrapping_sub(ISNS[direction as usize].wrapping_sub(1 << 17));
                if near > 1 << 18 {
                    prop_assert!(!windows.note(direction, &forged, false));
                }
            }
            let there = Direction::Forward;
            prop_assert_eq!(acknowledged(&windows), Some(ISNS[0].wrapping_add(1)));
            prop_assert!(windows.note(there, &segment(there, FIN | ACK, (1, 1), 1), false));
        }
    }
}
