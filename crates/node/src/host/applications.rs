//! Processes of the applications that the node runs, which outlive it: starting, ending, and what they print.
//!
//! A program is started by this program again (`weir sock launch`), which becomes it. It leads a session and a process
//! group of its own, which its children are in. It prints to a file, so that it can print while there is no node.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::unistd::User;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::process::{Signal, WaitIdStatus, kill_process_group, pidfd_send_signal};
use vmm::printable;

use super::process::{Process, has_ended, poll, reap};
use super::stacks::{PATH, program};
use super::{APPLICATIONS, Host, TIMEOUT};
use crate::error::{Error, Result};
use crate::model::{ApplicationRecord, Intercept};

/// Most bytes of output that are read at a time, after which others' may wait.
const READ_MAX: usize = 64 << 10;
/// Most bytes of output that wait to be read: what is before them is lost.
const WAITING_MAX: u64 = 1 << 20;
/// Longest line in bytes; a longer one is split.
const LINE_MAX: usize = 1024;
/// Longest sentence of a program that did not start.
const SENTENCE_MAX: usize = 4096;

/// The applications whose programs this node watches.
#[derive(Default)]
pub(super) struct Applications {
    running: BTreeMap<String, Process>,
    outputs: BTreeMap<String, Output>,
}

/// What a program prints, as far as it was not read yet.
struct Output {
    path: PathBuf,
    file: File,
    read: u64,
    /// A line without its end.
    partial: Vec<u8>,
}

impl Output {
    /// The file of an application, which is made if it is not there. What was read before has been freed.
    fn open(path: PathBuf) -> io::Result<Output> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).read(true);
        let file = file.mode(0o600).open(&path)?;
        let end = file.metadata()?.len();
        let read = match seek(&file, SeekFrom::Data(0)) {
            Ok(first) => first,
            // There is none.
            Err(_) => end,
        };
        Ok(Output {
            path,
            file,
            read,
            partial: Vec::new(),
        })
    }

    /// New lines; with `all`, an unfinished one too.
    fn lines(&mut self, all: bool) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let end = self.file.metadata()?.len();
        // A program may have truncated it.
        self.read = self.read.min(end);
        if end - self.read > WAITING_MAX {
            let lost = end - self.read - READ_MAX as u64;
            self.read += lost;
            self.partial.clear();
            lines.push(format!(
                "… {lost} bytes lost: it printed more than is kept for the node"
            ));
        }
        let mut bytes = vec![0; (end - self.read).min(READ_MAX as u64) as usize];
        let n = self.file.read_at(&mut bytes, self.read)?;
        if n > 0 {
            self.read += n as u64;
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // A file system that cannot free a part keeps it.
            let _ = fallocate(&self.file, punch, 0, self.read);
        }
        // Of a page that an earlier node had read in part, zeros are left.
        self.partial
            .extend(bytes[..n].iter().filter(|byte| **byte != 0));
        let whole = self.partial.iter().rposition(|byte| *byte == b'\n');
        let taken = match whole {
            _ if all || self.partial.len() > LINE_MAX => self.partial.len(),
            Some(at) => at + 1,
            None => 0,
        };
        for line in self.partial[..taken].split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let parts = line.chunks(LINE_MAX);
            lines.extend(parts.map(|part| printable(&String::from_utf8_lossy(part))));
        }
        self.partial.drain(..taken);
        Ok(lines)
    }
}

impl Host {
    /// Starts the program of an application that CoreEngine knows. Returns its process.
    pub fn start_application(&mut self, application: &ApplicationRecord) -> Result<u32> {
        let name = &application.name;
        let failed = |error: io::Error| {
            Error::refused(format_args!(
                "the program of application ‘{name}’ cannot be started: {error}"
            ))
        };
        let folder = self.sock_paths.folder.join("output");
        fs::create_dir_all(&folder).map_err(failed)?;
        if !self.applications.outputs.contains_key(name) {
            let output = Output::open(folder.join(name)).map_err(failed)?;
            self.applications.outputs.insert(name.clone(), output);
        }
        let output = &self.applications.outputs[name].file;
        let (told, tell) = io::pipe().map_err(failed)?;
        let paths = &self.sock_paths;
        let mut launch = program(&["sock", "launch"], &[&paths.library], None);
        launch.env("PATH", PATH);
        if let Some(name) = &application.user {
            launch.arg("--user").arg(name);
            // One that is not there is told by the launcher.
            if let Ok(Some(user)) = User::from_name(name) {
                launch.env("HOME", user.dir).env("SHELL", user.shell);
                launch.env("USER", name).env("LOGNAME", name);
            }
        }
        if let Some(directory) = &application.directory {
            launch.arg("--directory").arg(directory);
        }
        launch.arg("--intercept").arg(match application.intercept {
            Intercept::Auto => "auto",
            Intercept::Preload => "preload",
            Intercept::Syscall => "syscall",
        });
        launch.arg("--").args(&application.run.0);
        launch.envs(&application.environment);
        launch.env("WEIR_SOCK", paths.sock_of(application.token));
        let clone = || output.try_clone().map_err(failed);
        launch.stdout(clone()?).stderr(clone()?).stdin(tell);
        let child = launch.spawn().map_err(failed)?;
        // This process has the other end as long as it has the command.
        drop(launch);
        let process = Process::of(child.id())?;
        if let Some(why) = sentence(OwnedFd::from(told)) {
            process.end();
            return Err(failed(io::Error::other(why)));
        }
        self.watch(process.pidfd.as_fd(), APPLICATIONS)?;
        let pid = process.pid;
        self.applications.running.insert(name.clone(), process);
        Ok(pid)
    }

    /// Takes over the program of an application that an earlier node started, and that runs.
    pub fn adopt_application(&mut self, application: &ApplicationRecord) -> Result<()> {
        let name = &application.name;
        let process = Process::of(application.pid)?;
        let path = self.sock_paths.folder.join("output").join(name);
        if let Ok(output) = Output::open(path) {
            self.applications.outputs.insert(name.clone(), output);
        }
        self.watch(process.pidfd.as_fd(), APPLICATIONS)?;
        self.applications.running.insert(name.clone(), process);
        Ok(())
    }

    /// Whether the node watches the program of an application.
    pub fn runs_application(&self, name: &str) -> bool {
        self.applications.running.contains_key(name)
    }

    /// Asks the program of an application to end.
    pub fn ask_application_to_end(&self, name: &str) {
        if let Some(process) = self.applications.running.get(name) {
            let _ = pidfd_send_signal(&process.pidfd, Signal::TERM);
        }
    }

    /// Ends the program of an application, with its children, and forgets what it printed.
    pub fn kill_application(&mut self, name: &str) {
        if let Some(process) = self.applications.running.remove(name) {
            process.kill_group();
            process.end();
        }
        if let Some(output) = self.applications.outputs.remove(name) {
            let _ = fs::remove_file(output.path);
        }
    }

    /// The applications whose programs have ended, each with its process and how; what is left of their children is
    /// ended.
    pub fn ended_applications(&mut self) -> Vec<(String, u32, Option<WaitIdStatus>)> {
        let running = &mut self.applications.running;
        let ended = running.extract_if(.., |_, it| has_ended(&it.pidfd));
        let ended = ended.map(|(name, process)| {
            // Before its number is free.
            process.kill_group();
            (name, process.pid, reap(&process.pidfd))
        });
        ended.collect()
    }

    /// What applications printed since the last call, by lines; of ended applications, unfinished lines too.
    pub fn application_lines(&mut self) -> Vec<(String, String)> {
        let Applications { running, outputs } = &mut self.applications;
        let mut all = Vec::new();
        for (name, output) in outputs {
            // A file that cannot be read now can be later.
            let lines = output.lines(!running.contains_key(name));
            all.extend(
                lines
                    .unwrap_or_default()
                    .into_iter()
                    .map(|line| (name.clone(), line)),
            );
        }
        all
    }
}

impl Process {
    /// Kills the group that the process leads.
    fn kill_group(&self) {
        if let Some(leader) = self.number() {
            // There may be none any more.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Why a program did not start, as its launcher tells; none: it did.
fn sentence(told: OwnedFd) -> Option<String> {
    let mut said = Vec::new();
    while poll(&told, TIMEOUT) {
        let mut bytes = [0; 512];
        match rustix::io::read(&told, &mut bytes) {
            Ok(n) if n > 0 && said.len() < SENTENCE_MAX => said.extend(&bytes[..n]),
            _ => {
                let said = String::from_utf8_lossy(&said);
                return Some(printable(said.trim())).filter(|said| !said.is_empty());
            }
        }
    }
    Some("it did not begin in time".into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn output_is_read_by_lines_once_and_freed() {
        let path = std::env::temp_dir().join(format!("weir-output-{}", std::process::id()));
        let mut output = Output::open(path.clone()).unwrap();
        let mut program = output.file.try_clone().unwrap();
        let mut print = |text: &[u8]| program.write_all(text).unwrap();
        print(b"one\ntw");
        assert_eq!(output.lines(false).unwrap(), ["one"]);
        print(b"o\n\x1b[1m\n");
        assert_eq!(output.lines(false).unwrap()[0], "two");
        assert!(output.lines(false).unwrap().is_empty());
        print(b"three");
        // Another node reads on where the last one stood.
        let mut output = Output::open(path.clone()).unwrap();
        print(b"\nfour");
        assert_eq!(output.lines(false).unwrap(), ["three"]);
        assert_eq!(output.lines(true).unwrap(), ["four"]);
        print(&vec![b'x'; 2 << 20]);
        let lines = output.lines(false).unwrap();
        assert!(lines[0].contains("bytes lost"), "{}", lines[0]);
        assert_eq!(lines.len(), 1 + READ_MAX / LINE_MAX);
        std::fs::remove_file(path).unwrap();
    }
}
