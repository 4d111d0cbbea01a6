//! Where IPPrint prints to: a channel of what elements say, or on a host a file.

use alloc::string::String;

use router::{Cx, DEFAULT_CHANNEL};

#[cfg(feature = "host")]
use std::{fs::File, io::BufWriter, io::Write};

/// See the module.
#[derive(Default)]
pub struct Output {
    /// The file's name; empty: the channel.
    name: String,
    /// The channel; empty: the default one, which the console has.
    channel: String,
    #[cfg(feature = "host")]
    file: Option<BufWriter<File>>,
}

impl Output {
    /// The file called `name`, or the channel if that is empty.
    pub fn named(name: String, channel: String) -> Output {
        Output {
            name,
            channel,
            #[cfg(feature = "host")]
            file: None,
        }
    }

    /// Opens the file; the error says why that cannot be done.
    #[cfg(feature = "host")]
    pub fn open(&mut self) -> Result<(), String> {
        if self.name.is_empty() {
            return Ok(());
        }
        let name = &self.name;
        let file = File::create(name).map_err(|error| alloc::format!("{name}: {error}"))?;
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
            let _ = file.write_all(line.as_bytes());
            return;
        }
        match self.channel.as_str() {
            "" => cx.chatter_on(DEFAULT_CHANNEL, line),
            channel => cx.chatter_on(channel, line),
        }
    }

    /// Writes out what is left, and closes the file.
    pub fn close(&mut self) {
        #[cfg(feature = "host")]
        if let Some(mut file) = self.file.take() {
            let _ = file.flush();
        }
    }
}
