//! Lines and records of a file.

use std::io;

use crate::prelude::*;
use crate::userlevel::capture::{Input, Source};

/// Longest line or record, in bytes; of a longer one, the rest is passed over.
pub const LINE_MAX: usize = 1 << 20;

/// A file that is read by lines, or by records.
pub struct Lines {
    input: Input,
    /// The line that was peeked at.
    line: Vec<u8>,
    peeked: bool,
    /// Where the peeked line starts.
    position: u64,
}

impl Lines {
    pub fn new(source: Box<dyn Source>) -> Lines {
        Lines {
            input: Input::new(source),
            line: Vec::new(),
            peeked: false,
            position: 0,
        }
    }

    /// Where in the file the next line is.
    pub fn position(&self) -> u64 {
        if self.peeked {
            self.position
        } else {
            self.input.position()
        }
    }

    /// The next line, without its end; `None` at the end of the file.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        if core::mem::take(&mut self.peeked) || self.read()? {
            return Ok(Some(&self.line));
        }
        Ok(None)
    }

    /// The same line, which is next again afterwards.
    pub fn peek(&mut self) -> io::Result<Option<&[u8]>> {
        if !self.peeked {
            self.position = self.input.position();
            self.peeked = self.read()?;
        }
        Ok(self.peeked.then_some(&self.line))
    }

    fn read(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut any = false;
        loop {
            let chunk = self.input.available()?;
            if chunk.is_empty() {
                return Ok(any);
            }
            any = true;
            let end = memchr::memchr2(b'\n', b'\r', chunk);
            let length = end.unwrap_or(chunk.len());
            let keep = length.min(LINE_MAX - self.line.len());
            self.line.extend_from_slice(&chunk[..keep]);
            let ended = end.map(|at| chunk[at]);
            self.input.consume(length + usize::from(end.is_some()));
            match ended {
                None => {}
                Some(b'\r') => {
                    if self.input.available()?.first() == Some(&b'\n') {
                        self.input.consume(1);
                    }
                    return Ok(true);
                }
                Some(_) => return Ok(true),
            }
        }
    }

    /// The next `n` bytes, `None` if the file ends before.
    pub fn bytes(&mut self, n: usize) -> io::Result<Option<&[u8]>> {
        self.peeked = false;
        if self.input.peek(n)?.is_none() {
            return Ok(None);
        }
        Ok(self.input.peek_and_consume(n, 0))
    }
}
