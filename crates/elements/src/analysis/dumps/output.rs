//! Text files that are written.

use std::fs::File;
use std::io::{self, Write};

use crate::prelude::*;
use crate::userlevel::os_error;
use router::args::path;

/// Bytes that are held back before they are written.
const BUFFER: usize = 64 << 10;

/// A file, or the standard output.
#[derive(Default)]
pub struct Output {
    name: String,
    to: To,
    buffer: Vec<u8>,
}

#[derive(Default)]
enum To {
    /// After an error: what is written is lost.
    #[default]
    Nowhere,
    File(File),
    Stdout,
}

impl Output {
    /// Makes the file; `-` is the standard output.
    ///
    /// # Errors
    /// The system's reason, with the file's name in front.
    pub fn create(name: &str) -> Result<Output, String> {
        let (to, name) = match name {
            "-" => (To::Stdout, "<stdout>".to_string()),
            name => match File::create(path(name)) {
                Ok(file) => (To::File(file), name.to_string()),
                Err(error) => return Err(format!("{name}: {}", os_error(&error))),
            },
        };
        Ok(Output {
            name,
            to,
            buffer: Vec::new(),
        })
    }

    /// Whether there is somewhere to write to.
    pub fn is_open(&self) -> bool {
        !matches!(self.to, To::Nowhere)
    }

    /// Whether it is the standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }

    /// What is to be written next: to be added to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes what was added if it is much, or if somebody may be looking.
    pub fn written(&mut self, cx: &mut Cx<'_>) {
        if self.buffer.len() >= BUFFER || !matches!(self.to, To::File(_)) {
            self.flush(cx);
        }
    }

    /// Writes what was added. After an error, which is told once, nothing more is written.
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        if self.buffer.is_empty() {
            return;
        }
        let written = match &mut self.to {
            To::Nowhere => Ok(()),
            To::File(file) => file.write_all(&self.buffer),
            To::Stdout => {
                cx.print(&self.buffer);
                Ok(())
            }
        };
        self.buffer.clear();
        if let Err(error) = written {
            self.fail(cx, &error);
        }
    }

    #[cold]
    fn fail(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        self.to = To::Nowhere;
        let (class, name) = (cx.declaration(), &self.name);
        let error = format!("{class}: {name}: {}", os_error(error));
        cx.chatter(error);
    }
}
