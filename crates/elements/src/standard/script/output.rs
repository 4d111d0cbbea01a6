//! What scripts print, and where to.

use click::config::shift_space;

use crate::prelude::*;

/// Where `print` prints to.
pub(super) enum PrintOutput {
    Standard,
    #[cfg(feature = "host")]
    File(std::fs::File),
}

impl PrintOutput {
    /// Takes `>FILE` or `>>FILE` off the front of `text`; returns the output and the rest.
    pub fn open(text: &str) -> Result<(PrintOutput, &str), String> {
        let Some(redirected) = text.strip_prefix('>') else {
            return Ok((PrintOutput::Standard, text));
        };
        let (append, redirected) = match redirected.strip_prefix('>') {
            Some(rest) => (true, rest),
            None => (false, redirected),
        };
        let (file, rest) = shift_space(redirected);
        match file {
            "" | "-" => Ok((PrintOutput::Standard, rest)),
            _ => open_file(file, append).map(|output| (output, rest)),
        }
    }

    /// Writes `data`.
    pub fn write(&mut self, cx: &mut Cx<'_>, data: &[u8]) -> Result<(), String> {
        match self {
            PrintOutput::Standard => cx.print(data),
            #[cfg(feature = "host")]
            PrintOutput::File(file) => {
                use alloc::string::ToString;
                use std::io::Write;
                file.write_all(data).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

#[cfg(feature = "host")]
fn open_file(name: &str, append: bool) -> Result<PrintOutput, String> {
    let mut options = std::fs::OpenOptions::new();
    options
        .create(true)
        .append(append)
        .write(true)
        .truncate(!append);
    let file = options.open(router::args::path(name));
    file.map(PrintOutput::File)
        .map_err(|error| alloc::format!("{name}: {}", reason(&error)))
}

#[cfg(not(feature = "host"))]
fn open_file(_name: &str, _append: bool) -> Result<PrintOutput, String> {
    Err("file redirection not supported here".into())
}

/// An error's reason without its number.
#[cfg(feature = "host")]
fn reason(error: &std::io::Error) -> String {
    use alloc::string::ToString;
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_string(),
        None => text,
    }
}

/// The handlers that only a host has: files and processes.
#[cfg(feature = "host")]
pub(super) mod host {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use std::fs::File;
    use std::io::{self, Read};

    use router::Cx;
    use router::args::{Argument, FilenameArg};
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    use super::super::signal;
    use super::super::words::Words;

    /// Names of the handlers that [`read`] answers.
    pub const NAMES: &[&str] = &["cat", "catq", "kill"];
    /// Most bytes of a file that a handler gives.
    const FILE_MAX: u64 = 256 << 20;

    pub fn read(cx: &Cx<'_>, name: &str, text: &str) -> Result<String, String> {
        match name {
            "kill" => kill(cx, text),
            _ => {
                let file = cx.names().parse_with(FilenameArg, text.trim_start());
                let file = file.map_err(|_| "bad FILE")?;
                let data = match file.as_str() {
                    "-" => read_all(std::io::stdin().lock()),
                    file => File::open(router::args::path(file)).and_then(read_all),
                };
                let data = data.map_err(|e| format!("{file}: {}", super::reason(&e)))?;
                Ok(match name {
                    "catq" => click::config::quote(&data),
                    _ => click::text::decode(&data).into_owned(),
                })
            }
        }
    }

    /// All that a file has. Some files have no end.
    fn read_all(file: impl Read) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        file.take(FILE_MAX + 1).read_to_end(&mut data)?;
        match data.len() as u64 > FILE_MAX {
            true => Err(io::Error::other(format!(
                "more than {} MiB: name a shorter file",
                FILE_MAX >> 20
            ))),
            false => Ok(data),
        }
    }

    /// Sends a signal to processes: `SIGNAL PID...`.
    fn kill(cx: &Cx<'_>, text: &str) -> Result<String, String> {
        let mut words = Words(text);
        let number = signal::number(words.next()).ok_or("bad SIGNO")?;
        for word in words {
            let pid = i32::parse(word, &cx.names()).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or("bad PID")?;
            let sent = match Signal::from_named_raw(number) {
                Some(signal) => kill_process(pid, signal),
                None => test_kill_process(pid),
            };
            sent.map_err(|error| {
                let reason = super::reason(&error.into());
                format!("kill({pid}, {number}): {reason}")
            })?;
        }
        Ok(String::new())
    }
}
