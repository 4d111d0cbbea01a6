//! Capture files: reading pcap and pcapng, writing pcap.
//!
//! What is read may come from anywhere: every length is bounded before it is used, and a file
//! that makes no sense ends the reading with an error, never with a panic.

mod compression;
mod input;
mod pcap;
mod pcapng;
pub(crate) mod source;
mod writer;

use std::io::{self, Read};

pub(crate) use compression::Compression;
pub(crate) use input::Input;
use pcapng::Section;
pub use writer::{Record, file_header, record_header};

use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// Longest packet that a file may hold, in bytes.
pub const PACKET_MAX: usize = 65535;

/// Why a capture file cannot be read.
#[derive(Debug)]
pub enum CaptureError {
    /// The system refused.
    System(io::Error),
    /// The file is not what it should be; the text is Click's where Click has one.
    Format(String),
}

impl core::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CaptureError::System(error) => f.write_str(&super::os_error(error)),
            CaptureError::Format(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for CaptureError {}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> CaptureError {
        CaptureError::System(error)
    }
}

fn format_error(text: &str) -> CaptureError {
    CaptureError::Format(text.into())
}

/// A source of bytes that may know how to go to a place in it.
pub trait Source: Read + Send {
    /// Goes to `position`, in bytes from the start. False if it cannot.
    fn go_to(&mut self, position: u64) -> io::Result<bool>;
}

impl Source for std::fs::File {
    fn go_to(&mut self, position: u64) -> io::Result<bool> {
        use std::io::{Seek, SeekFrom};
        match self.seek(SeekFrom::Start(position)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotSeekable => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Source for std::io::Stdin {
    fn go_to(&mut self, _position: u64) -> io::Result<bool> {
        Ok(false)
    }
}

impl<T: AsRef<[u8]> + Send> Source for io::Cursor<T> {
    fn go_to(&mut self, position: u64) -> io::Result<bool> {
        self.set_position(position);
        Ok(true)
    }
}

/// One packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'f> {
    /// When it was captured, in nanoseconds since 1970.
    pub time: i64,
    /// What was captured of it.
    pub data: &'f [u8],
    /// Bytes it had on its link beyond those captured.
    pub missing: u32,
    /// What its first header is.
    pub link: LinkType,
}

enum Format {
    Pcap(pcap::Format),
    Pcapng(Section),
}

/// A capture file that is read.
pub struct Capture {
    input: Input,
    format: Format,
    link: LinkType,
    /// What follows is no packet.
    has_failed: bool,
}

impl Capture {
    /// Reads the head of a file.
    pub fn open(source: Box<dyn Source>) -> Result<Capture, CaptureError> {
        let mut input = Input::new(source);
        if input.available()?.is_empty() {
            return Err(format_error("empty file"));
        }
        let Some(magic) = input.peek(4)? else {
            return Err(format_error("not a tcpdump file (too short)"));
        };
        let magic = [magic[0], magic[1], magic[2], magic[3]];
        if magic == pcapng::MAGIC {
            let (section, link) = Section::open(&mut input)?;
            return Ok(Capture {
                input,
                format: Format::Pcapng(section),
                link: link.canonical(),
                has_failed: false,
            });
        }
        if Compression::of_start(&magic).is_some() {
            return Err(format_error("compressed file; unpack it first"));
        }
        let Some(head) = input.peek(pcap::HEADER)? else {
            return Err(format_error("not a tcpdump file (too short)"));
        };
        let (format, link) = pcap::Format::parse(head)?;
        input.consume(pcap::HEADER);
        Ok(Capture {
            input,
            format: Format::Pcap(format),
            link: link.canonical(),
            has_failed: false,
        })
    }

    /// What the packets' first header is; with several interfaces, that of the first.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Offset of the next packet in the file, in bytes.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Goes to another place in the file, where a packet had better start.
    pub fn go_to(&mut self, position: u64) -> Result<(), CaptureError> {
        self.has_failed = false;
        Ok(self.input.go_to(position)?)
    }

    /// Passes over what is left where the file was cut off.
    pub fn end(&mut self) {
        if !self.has_failed {
            // What cannot be read is not read later either.
            let _ = self.input.skip(usize::MAX);
        }
    }

    /// Reads no more, until it [goes](Self::go_to) to another place.
    pub fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// The next packet, if the file need not be read for it and nothing is unusual about it. If not,
    /// [`next_frame`](Self::next_frame) says what follows.
    #[inline]
    pub fn at_hand(&mut self) -> Option<Frame<'_>> {
        if self.has_failed {
            return None;
        }
        match &self.format {
            Format::Pcap(format) => pcap::at_hand(&mut self.input, format, self.link),
            Format::Pcapng(section) => section.at_hand(&mut self.input),
        }
    }

    /// The next packet; `None` at the end, which is also where the file was cut off.
    ///
    /// # Errors
    /// What follows is no packet.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        if self.has_failed {
            return Ok(None);
        }
        match &mut self.format {
            Format::Pcap(format) => pcap::next(&mut self.input, format, self.link),
            Format::Pcapng(section) => section.next(&mut self.input),
        }
    }
}

#[cfg(test)]
mod tests;
