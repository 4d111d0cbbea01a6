//! Buffered bytes of a file.

use std::io::{self, ErrorKind};

use super::Source;
use crate::prelude::*;

/// Bytes read at a time.
const CHUNK: usize = 128 << 10;

/// A file read in large pieces, of which so many bytes as are wanted can be seen at once.
pub struct Input {
    source: Box<dyn Source>,
    buffer: Vec<u8>,
    /// What of the buffer was consumed, and what of it holds bytes.
    start: usize,
    end: usize,
    /// Where in the file the buffer starts.
    offset: u64,
}

impl Input {
    pub fn new(source: Box<dyn Source>) -> Input {
        Input {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Where in the file the next byte is.
    pub fn position(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// The next `n` bytes; `None` if the file ends before.
    #[inline]
    pub fn peek(&mut self, n: usize) -> io::Result<Option<&[u8]>> {
        if self.end - self.start < n && !self.fill(n)? {
            return Ok(None);
        }
        Ok(Some(&self.buffer[self.start..self.start + n]))
    }

    /// The bytes that follow and need not be read from the file.
    #[inline]
    pub fn at_hand(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next bytes, as many as are at hand; none at the end of the file.
    pub fn available(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.fill(1)?;
        }
        Ok(self.at_hand())
    }

    /// Passes over `n` bytes that were seen.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }

    /// Passes over `n` bytes that follow, as far as there are so many.
    pub fn skip(&mut self, mut n: usize) -> io::Result<()> {
        loop {
            let here = n.min(self.end - self.start);
            self.consume(here);
            n -= here;
            if n == 0 || !self.fill(1)? {
                return Ok(());
            }
        }
    }

    /// Goes to another place in the file.
    pub fn go_to(&mut self, position: u64) -> io::Result<()> {
        let ahead = position.checked_sub(self.offset);
        if let Some(ahead) = ahead.filter(|ahead| *ahead <= self.end as u64) {
            self.start = ahead as usize;
            return Ok(());
        }
        if self.source.go_to(position)? {
            (self.start, self.end, self.offset) = (0, 0, position);
            return Ok(());
        }
        match position.checked_sub(self.position()) {
            Some(ahead) => self.skip(usize::try_from(ahead).unwrap_or(usize::MAX)),
            None => Err(ErrorKind::NotSeekable.into()),
        }
    }

    /// Reads on until there are `n` bytes; false if the file ends before.
    #[cold]
    fn fill(&mut self, n: usize) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.offset += self.start as u64;
        (self.start, self.end) = (0, self.end - self.start);
        let size = n.max(CHUNK);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        while self.end < n {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Input {
    /// The next `n` bytes, which were peeked at before, passing over them and `more` after them.
    #[inline]
    pub fn peek_and_consume(&mut self, n: usize, more: usize) -> Option<&[u8]> {
        let from = self.start;
        let to = from.checked_add(n).filter(|to| *to <= self.end)?;
        self.start = to.saturating_add(more).min(self.end);
        self.buffer.get(from..to)
    }
}
