//! TCP streams, put together from their segments in constant memory.
//!
//! A stream has a buffer: the last bytes that are in order, and room for as many that came too early. Of
//! segments that overlap, the bytes that came first stay. A gap that the buffer cannot span is left
//! out: the stream goes on behind it, without the bytes before it.

use crate::prelude::*;

/// Pieces that came too early, of one stream.
const PIECES: usize = 8;

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

    /// Adds a segment's data. `grown` gets the bytes in order, and the position of the first, each time
    /// that there are more.
    pub fn add(
        &mut self,
        number: u32,
        mut sequence: u32,
        mut data: &[u8],
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
            let at = i64::from(sequence.wrapping_sub(stream.sequence) as i32);
            // What is in order already stays as it is.
            let old = (stream.length as i64 - at).max(0) as usize;
            if old >= data.len() {
                return;
            }
            data = &data[old..];
            sequence = sequence.wrapping_add(old as u32);
            let at = (at + old as i64) as usize;
            if at >= capacity {
                self.gaps += 1;
                *stream = Stream {
                    sequence,
                    position: stream.position + at as u64,
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
    /// Writes data where there is none yet; false if there are too many pieces.
    fn fill(&mut self, buffer: &mut [u8], at: usize, data: &[u8]) -> bool {
        let (from, to) = (at, at + data.len());
        let touches = |(low, high): &(usize, usize)| *low <= to && from <= *high;
        let joined = self.pieces[..self.count]
            .iter()
            .filter(|it| touches(it))
            .count();
        if joined == 0 && self.count == PIECES && from > self.length {
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
    fn assemble(segments: &[(u32, Vec<u8>)], isn: u32, window: usize) -> (Vec<u8>, u64) {
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
        assert_eq!(assemble(&segments, u32::MAX - 2, 64).0, b"abcdEFgh");
    }

    #[test]
    fn a_gap_is_left_out() {
        let (all, gaps) = assemble(&[(0, vec![1; 10]), (5000, vec![2; 10])], 7, 64);
        assert_eq!((all.len(), gaps), (10, 1));
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
            let (all, gaps) = assemble(&segments, isn, 512);
            prop_assert_eq!(gaps, 0);
            prop_assert_eq!(all, text);
        }

        #[test]
        fn any_segments_are_taken(
            segments in prop::collection::vec((any::<u32>().prop_map(|at| at >> 20), prop::collection::vec(any::<u8>(), 0..200)), 0..60),
            isn: u32,
        ) {
            assemble(&segments, isn, 64);
        }
    }
}
