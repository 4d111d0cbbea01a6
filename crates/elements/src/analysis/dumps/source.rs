//! Opening files that are read.

use std::boxed::Box;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::string::{String, ToString};

use crate::userlevel::capture::Source;
use crate::userlevel::os_error;

/// A file to be read.
pub struct Opened {
    pub source: Box<dyn Source>,
    /// Its length in bytes, if it is known.
    pub size: Option<u64>,
}

/// The name of a file as messages show it.
pub fn shown(name: &str) -> &str {
    match name {
        "" | "-" => "<stdin>",
        name => name,
    }
}

/// Opens a file; `-` is the standard input. `None` if there is none and it may be missing.
///
/// # Errors
/// The system's reason, with the file's name in front.
pub fn open(name: &str, may_be_missing: bool) -> Result<Option<Opened>, String> {
    if shown(name) == "<stdin>" {
        return Ok(Some(Opened {
            source: Box::new(io::stdin()),
            size: None,
        }));
    }
    match File::open(name) {
        Ok(file) => {
            let meta = file.metadata().ok().filter(std::fs::Metadata::is_file);
            Ok(Some(Opened {
                size: meta.map(|meta| meta.len()),
                source: Box::new(file),
            }))
        }
        Err(error) if error.kind() == ErrorKind::NotFound && may_be_missing => Ok(None),
        Err(error) => Err([name, &os_error(&error)].join(": ").to_string()),
    }
}
