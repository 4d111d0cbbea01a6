//! Where IPPrint prints to: a channel of what elements say, or on a host a file.

use crate::prelude::*;

#[cfg(feature = "host")]
use std::{fs::File, io::BufWriter, io::Write};

/// The arguments that say where, and the file.
#[derive(Component)]
pub struct Output {
    /// A file to print to instead of the console. On a host only.
    #[arg(name = "OUTFILE", with = FilenameArg, kind = "file name")]
    name: String,
    /// The channel of the lines. The console prints the default channel; other channels go to
    /// ChatterSockets only.
    #[arg(with = WordArg, kind = "word", default_text = "default")]
    channel: String,
    #[cfg(feature = "host")]
    file: Option<BufWriter<File>>,
}

impl Output {
    /// The file called `name`, or the default channel if that is empty.
    pub fn named(name: String) -> Output {
        Output {
            name,
            ..Output::default()
        }
    }

    /// Opens the file; the error says why that cannot be done.
    #[cfg(feature = "host")]
    pub fn open(&mut self) -> Result<(), String> {
        if self.name.is_empty() {
            return Ok(());
        }
        let name = &self.name;
        let file = File::create(router::args::path(name))
            .map_err(|error| alloc::format!("{name}: {}", crate::userlevel::os_error(&error)))?;
        self.file = Some(BufWriter::new(file));
        Ok(())
    }

    /// Opens nothing: a guest has no files.
    #[cfg(not(feature = "host"))]
    pub fn open(&mut self) -> Result<(), String> {
        if self.name.is_empty() {
            return Ok(());
        }
        Err("OUTFILE needs a host's file system: leave it out to print to the console".into())
    }

    /// Prints a line, to which it may add its end.
    pub fn print(&mut self, cx: &mut Cx<'_>, line: &mut String) {
        #[cfg(feature = "host")]
        if let Some(file) = &mut self.file {
            line.push('\n');
            // A full disk is not the packets' fault.
            let _ = file.write_all(&click::text::encode(line));
            return;
        }
        match self.channel.as_str() {
            "" => cx.chatter_on(DEFAULT_CHANNEL, line),
            channel => cx.chatter_on(channel, line),
        }
    }

    /// Flushes and closes the file.
    pub fn close(&mut self) {
        #[cfg(feature = "host")]
        if let Some(mut file) = self.file.take() {
            let _ = file.flush();
        }
    }
}
