//! TCP streams, put together from their segments in constant memory.
//!
//! A stream has a buffer: the last bytes that are in order, and room for as many that came too early. Of
//! segments that overlap, the bytes that came first stay. Bytes too far ahead for the buffer are not kept. When the
//! receiver acknowledges them, it has the bytes before them too, which did not come by here: they are left out, and
//! the stream goes on where the receiver is. So a sender alone moves no stream.

use crate::prelude::*;

/// Pieces that came too early, of one stream.
const PIECES: usize = 8;
/// How far ahead bytes may be whose receiver is not heard, for the stream to go on there.
const AHEAD: usize = 1 << 20;

/// The streams of an element.
#[derive(Default)]
pub struct Streams {
    buffers: Vec<u8>,
    streams: Vec<Stream>,
    free: Vec<u32>,
    /// Bytes in order that are kept of a stream; its buffer has twice as many.
    window: usize,
    /// Gaps left out.
    pub gaps: u64,
}

#[derive(Clone, Copy, Default)]
struct Stream {
    /// The sequence number of the buffer's first byte.
    sequence: u32,
    /// Its position in the stream.
    position: u64,
    /// Bytes in order.
    length: usize,
    /// Pieces behind them, in order, with gaps between: where they begin and end in the buffer.
    pieces: [(usize, usize); PIECES],
    count: usize,
    /// Whether there are bytes in order that were not passed on.
    grown: bool,
}

impl Streams {
    /// Allocates memory for so many streams; false if there is none.
    pub fn reserve(&mut self, streams: usize, window: usize) -> bool {
        self.window = window;
        let bytes = streams * 2 * window;
        let reserved = self.buffers.try_reserve_exact(bytes).is_ok()
            && self.streams.try_reserve_exact(streams).is_ok()
            && self.free.try_reserve_exact(streams).is_ok();
        if reserved {
            self.buffers.resize(bytes, 0);
            self.streams.resize(streams, Stream::default());
            self.free.extend((0..streams as u32).rev());
        }
        reserved
    }

    /// Begins a stream with the byte of a sequence number; `None` if all are in use.
    pub fn begin(&mut self, sequence: u32) -> Option<u32> {
        let number = self.free.pop()?;
        *self.streams.get_mut(number as usize)? = Stream {
            sequence,
            ..Stream::default()
        };
        Some(number)
    }

    /// Ends a stream.
    pub fn end(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Whether a segment goes on where the stream ends, and no piece is behind it.
    pub fn is_next(&self, number: u32, sequence: u32) -> bool {
        let stream = self.streams.get(number as usize);
        stream.is_some_and(|it| {
            it.count == 0 && sequence == it.sequence.wrapping_add(it.length as u32)
        })
    }

    /// Whether data differ from what came before at the same place, and the receiver has not acknowledged.
    pub fn conflicts(
        &self,
        number: u32,
        sequence: u32,
        data: &[u8],
        acknowledged: Option<u32>,
    ) -> bool {
        let (index, capacity) = (number as usize, 2 * self.window);
        let buffer = self.buffers.get(index * capacity..(index + 1) * capacity);
        let (Some(stream), Some(buffer)) = (self.streams.get(index), buffer) else {
            return false;
        };
        let at = stream.offset(sequence);
        let settled = acknowledged.map_or(0, |it| stream.offset(it).max(0));
        let pieces = stream.pieces[..stream.count].iter().copied();
        core::iter::once((0, stream.length))
            .chain(pieces)
            .any(|(low, high)| {
                let low = (low as i64).max(at).max(settled);
                let high = (high as i64).min(at + data.len() as i64);
                low < high && {
                    let had = buffer.get(low as usize..high as usize);
                    had != data.get((low - at) as usize..(high - at) as usize)
                }
            })
    }

    /// Whether data can be kept: there are few enough pieces.
    pub fn has_room(&self, number: u32, sequence: u32, length: usize) -> bool {
        self.streams.get(number as usize).is_none_or(|stream| {
            let from = usize::try_from(stream.offset(sequence)).unwrap_or(0);
            from >= 2 * self.window || stream.has_room(from, from + length)
        })
    }

    /// Adds a segment's data, whose receiver has acknowledged all before a number, if it is heard. `grown` gets
    /// the bytes in order, and the position of the first, each time that there are more.
    pub fn add(
        &mut self,
        number: u32,
        mut sequence: u32,
        mut data: &[u8],
        acknowledged: Option<u32>,
        mut grown: impl FnMut(&[u8], u64),
    ) {
        let (window, capacity) = (self.window, 2 * self.window);
        let index = number as usize;
        let buffer = self
            .buffers
            .get_mut(index * capacity..(index + 1) * capacity);
        let (Some(stream), Some(buffer)) = (self.streams.get_mut(index), buffer) else {
            return;
        };
        while !data.is_empty() {
            let at = stream.offset(sequence);
            // What is in order already stays as it is.
            let old = (stream.length as i64 - at).max(0) as usize;
            if old >= data.len() {
                return;
            }
            data = &data[old..];
            sequence = sequence.wrapping_add(old as u32);
            let at = (at + old as i64) as usize;
            if at >= capacity {
                let next = match acknowledged {
                    Some(acknowledged) => stream.offset(acknowledged),
                    None if at < AHEAD => at as i64,
                    None => 0,
                };
                if next <= stream.length as i64 {
                    return;
                }
                self.gaps += 1;
                *stream = Stream {
                    sequence: stream.sequence.wrapping_add(next as u32),
                    position: stream.position + next as u64,
                    ..Stream::default()
                };
                continue;
            }
            let most = data.len().min(capacity - at);
            let (part, rest) = data.split_at(most);
            if !stream.fill(buffer, at, part) {
                return;
            }
            if core::mem::take(&mut stream.grown) {
                grown(&buffer[..stream.length], stream.position);
                stream.forget(buffer, window);
            }
            data = rest;
            sequence = sequence.wrapping_add(most as u32);
        }
    }
}

impl Stream {
    /// Where a sequence number is in the buffer, or before or behind it.
    fn offset(&self, sequence: u32) -> i64 {
        i64::from(sequence.wrapping_sub(self.sequence) as i32)
    }

    /// Whether bytes belong to those in order or to a piece, or may be another.
    fn has_room(&self, from: usize, to: usize) -> bool {
        let mut pieces = self.pieces[..self.count].iter();
        self.count < PIECES
            || from <= self.length
            || pieces.any(|(low, high)| *low <= to && from <= *high)
    }

    /// Writes data where there is none yet; false if there are too many pieces.
    fn fill(&mut self, buffer: &mut [u8], at: usize, data: &[u8]) -> bool {
        let (from, to) = (at, at + data.len());
        let touches = |(low, high): &(usize, usize)| *low <= to && from <= *high;
        if !self.has_room(from, to) {
            return false;
        }
        // The gaps between the pieces that are there.
        let mut next = from;
        for (low, high) in self.pieces[..self.count].iter().copied() {
            if low >= to {
                break;
            }
            if low > next {
                buffer[next..low].copy_from_slice(&data[next - from..low - from]);
            }
            next = next.max(high);
        }
        if next < to {
            buffer[next..to].copy_from_slice(&data[next - from..]);
        }
        // One piece instead of the pieces that it touches.
        let mut piece = (from, to);
        let mut pieces = [(0, 0); PIECES + 1];
        let mut count = 0;
        for other in self.pieces[..self.count].iter().copied() {
            if touches(&other) {
                piece = (piece.0.min(other.0), piece.1.max(other.1));
            } else {
                pieces[count] = other;
                count += 1;
            }
        }
        pieces[count] = piece;
        count += 1;
        pieces[..count].sort_unstable();
        // The first one joins the bytes in order, if there is one too many.
        if pieces[0].0 <= self.length {
            self.length = self.length.max(pieces[0].1);
            pieces.copy_within(1..count, 0);
            count -= 1;
            self.grown = true;
        }
        self.pieces.copy_from_slice(&pieces[..PIECES]);
        self.count = count;
        true
    }

    /// Forgets all but the last bytes in order.
    fn forget(&mut self, buffer: &mut [u8], window: usize) {
        let gone = self.length.saturating_sub(window);
        if gone == 0 {
            return;
        }
        let end = match self.count {
            0 => self.length,
            count => self.pieces[count - 1].1,
        };
        buffer.copy_within(gone..end, 0);
        self.length -= gone;
        self.position += gone as u64;
        self.sequence = self.sequence.wrapping_add(gone as u32);
        for (low, high) in &mut self.pieces[..self.count] {
            *low -= gone;
            *high -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    /// What a stream's bytes in order are, from its beginning, as far as no gap was left out.
    fn assemble(
        segments: &[(u32, Vec<u8>)],
        isn: u32,
        window: usize,
        acknowledged: Option<u32>,
    ) -> (Vec<u8>, u64) {
        let mut streams = Streams::default();
        assert!(streams.reserve(1, window));
        let number = streams.begin(isn).unwrap();
        assert_eq!(streams.begin(0), None);
        let mut all: Vec<u8> = Vec::new();
        for (offset, data) in segments {
            streams.add(
                number,
                isn.wrapping_add(*offset),
                data,
                acknowledged.map(|offset| isn.wrapping_add(offset)),
                |bytes, position| {
                    let position = position as usize;
                    assert!(bytes.len() <= 2 * window);
                    if position <= all.len() {
                        assert_eq!(
                            all[position..],
                            bytes[..all.len() - position],
                            "bytes changed"
                        );
                        all.truncate(position);
                        all.extend(bytes);
                    }
                },
            );
        }
        (all, streams.gaps)
    }

    #[test]
    fn the_first_copy_of_a_byte_stays() {
        let segments = [
            (0, b"ab".to_vec()),
            (4, b"EF".to_vec()),
            (1, b"Xcdxx".to_vec()),
            (3, b"!!!gh".to_vec()),
        ];
        let (all, _) = assemble(&segments, u32::MAX - 2, 64, None);
        assert_eq!(all, b"abcdEFgh");
    }

    #[test]
    fn data_that_differ_are_told() {
        let mut streams = Streams::default();
        assert!(streams.reserve(1, 64));
        let number = streams.begin(100).unwrap();
        for (sequence, data) in [(100, b"abcd"), (110, b"klmn")] {
            streams.add(number, sequence, data, None, |_, _| {});
        }
        for (sequence, data, acknowledged, expected) in [
            (98, &b"xxabcdefghijklmnop"[..], None, false),
            (98, b"xxabcdefghijkl?nop", None, true),
            (112, b"mn", None, false),
            (113, b"?", None, true),
            (104, b"??????", None, false),
            (102, b"c?", None, true),
            // What is acknowledged is settled: one byte of it may keep a connection alive.
            (103, b"?", Some(104), false),
            (103, b"?", Some(103), true),
        ] {
            assert_eq!(
                streams.conflicts(number, sequence, data, acknowledged),
                expected,
                "{sequence} {data:?} {acknowledged:?}"
            );
        }
    }

    #[test]
    fn a_gap_is_left_out_when_the_receiver_is_behind_it() {
        for (acknowledged, expected) in
            [(None, (10, 1)), (Some(10), (10, 0)), (Some(5000), (10, 1))]
        {
            let segments = [(0, vec![1; 10]), (5000, vec![2; 10])];
            let (all, gaps) = assemble(&segments, 7, 64, acknowledged);
            assert_eq!((all.len(), gaps), expected, "{acknowledged:?}");
        }
        // Behind the gap, the stream goes on.
        let mut streams = Streams::default();
        assert!(streams.reserve(1, 64));
        let number = streams.begin(0).unwrap();
        let mut last = None;
        streams.add(number, 5010, b"xyz", Some(5000), |_, _| {
            panic!("not in order")
        });
        streams.add(number, 5000, &[7; 10], Some(5000), |bytes, position| {
            last = Some((bytes.to_vec(), position));
        });
        assert_eq!(
            last,
            Some((
                b"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07xyz".to_vec(),
                5000
            ))
        );
    }

    proptest! {
        /// Segments of one text, cut, repeated and shuffled within the window, make the text.
        #[test]
        fn segments_in_any_order_make_the_stream(
            text in prop::collection::vec(any::<u8>(), 1..400),
            cuts in prop::collection::vec((0usize..400, 1usize..90), 0..60),
            isn: u32,
            turn in 0usize..8,
        ) {
            let mut segments: Vec<(u32, Vec<u8>)> = Vec::new();
            for (from, length) in cuts {
                let from = from.min(text.len() - 1);
                let to = (from + length).min(text.len());
                segments.push((from as u32, text[from..to].to_vec()));
            }
            let plain = text.chunks(37).zip((0u32..).step_by(37));
            let plain: Vec<_> = plain.map(|(data, at)| (at, data.to_vec())).collect();
            let at = turn.min(segments.len());
            segments.splice(at..at, plain);
            let (all, gaps) = assemble(&segments, isn, 512, None);
            prop_assert_eq!(gaps, 0);
            prop_assert_eq!(all, text);
        }

        /// Bytes far ahead, which the receiver does not acknowledge, never change what is delivered.
        #[test]
        fn bytes_far_ahead_change_nothing(
            text in prop::collection::vec(any::<u8>(), 1..400),
            far in prop::collection::vec((0usize..12, 1024u32..1 << 31, 1usize..50), 0..12),
            isn: u32,
        ) {
            let plain = text.chunks(37).zip((0u32..).step_by(37));
            let mut segments: Vec<_> = plain.map(|(data, at)| (at, data.to_vec())).collect();
            for (turn, at, length) in far {
                segments.insert(turn.min(segments.len()), (at, vec![9; length]));
            }
            let (all, gaps) = assemble(&segments, isn, 512, Some(0));
            prop_assert_eq!(gaps, 0);
            prop_assert_eq!(all, text);
        }

        #[test]
        fn any_segments_are_taken(
            segments in prop::collection::vec((any::<u32>().prop_map(|at| at >> 20), prop::collection::vec(any::<u8>(), 0..200)), 0..60),
            isn: u32,
        ) {
            assemble(&segments, isn, 64, None);
            assemble(&segments, isn, 64, Some(1000));
        }
    }
}
