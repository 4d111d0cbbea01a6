//! Opening files that packets are read from.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read};

use bzip2::read::MultiBzDecoder;
use click::Location;
use flate2::read::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::{Compression, Source};
use crate::prelude::*;
use crate::userlevel::os_error;
use router::args::path;

/// Why a file is not read.
pub enum OpenError {
    /// It cannot be opened. The file's name is in front.
    Unopened(String),
    /// It was opened, and cannot be read.
    Unreadable(String),
}

impl OpenError {
    /// Tells the user, while the element is initialized. `location` is that of the file.
    pub fn report(self, cx: &mut Cx<'_>, location: &Location) -> Failed {
        match self {
            OpenError::Unopened(text) => cx.error(text),
            OpenError::Unreadable(text) => cx.error_at(location, text),
        }
    }
}

/// The name of a file as messages show it.
pub fn shown(name: &str) -> &str {
    match name {
        "" | "-" => "<stdin>",
        name => name,
    }
}

/// The length of a file as handlers show it.
pub fn shown_size(size: &Option<u64>) -> String {
    size.map_or("-".into(), |size| size.to_string())
}

/// A file to be read.
pub struct Opened {
    pub source: Box<dyn Source>,
    /// The length in bytes of what is read, if it is known.
    pub size: Option<u64>,
}

/// What comes out of a decoder.
struct Unpacked<R>(R);

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read + Send> Source for Unpacked<R> {
    fn go_to(&mut self, _position: u64) -> io::Result<bool> {
        Ok(false)
    }
}

/// The file itself, or what is in it if it is compressed by gzip, bzip2 or Zstandard.
fn unpacked(mut file: File) -> io::Result<Opened> {
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file);
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(4).read_to_end(&mut magic)?;
    let compression = Compression::of_start(&magic);
    if file.go_to(0)? && compression.is_none() {
        return Ok(Opened {
            source: Box::new(file),
            size: meta.map(|meta| meta.len()),
        });
    }
    // What cannot be read twice is put together again.
    let seen = if file.go_to(0)? { Vec::new() } else { magic };
    let whole = Cursor::new(seen).chain(BufReader::new(file));
    let source: Box<dyn Source> = match compression {
        Some(Compression::Gzip) => Box::new(Unpacked(MultiGzDecoder::new(whole))),
        Some(Compression::Bzip2) => Box::new(Unpacked(MultiBzDecoder::new(whole))),
        Some(Compression::Zstd) => Box::new(Unpacked(ZstdDecoder::with_buffer(whole)?)),
        None => Box::new(Unpacked(whole)),
    };
    Ok(Opened { source, size: None })
}

/// Opens a file; `-` is the standard input. What is compressed is read as it was before, but for
/// the standard input. `None` if there is no such file and it may be missing.
///
/// # Errors
/// The system's reason.
pub fn open(name: &str, may_be_missing: bool) -> Result<Option<Opened>, OpenError> {
    if shown(name) == "<stdin>" {
        return Ok(Some(Opened {
            source: Box::new(io::stdin()),
            size: None,
        }));
    }
    match File::open(path(name)) {
        Ok(file) => {
            let opened = unpacked(file);
            opened
                .map(Some)
                .map_err(|error| OpenError::Unreadable(os_error(&error)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound && may_be_missing => Ok(None),
        Err(error) => Err(OpenError::Unopened([name, &os_error(&error)].join(": "))),
    }
}
