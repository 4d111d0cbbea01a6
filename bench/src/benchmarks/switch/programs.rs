//! Child programs, and their temporary folders.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::Failure;

/// Time for a program to end after SIGTERM.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A program that ends when this value does, or this process.
pub struct Program(Child);

impl Program {
    /// Starts a program, and waits for a line of its output that contains `sign`, if given.
    pub fn start(command: Command, sign: Option<&str>) -> Result<Program, Failure> {
        let mut mortal = Command::new("setpriv");
        mortal.args(["--pdeathsig", "KILL"]);
        mortal.arg(command.get_program()).args(command.get_args());
        let set = |(name, value): (&OsStr, Option<&OsStr>)| {
            value.map(|value| (name.to_owned(), value.to_owned()))
        };
        mortal.envs(command.get_envs().filter_map(set));
        let shown = format!("{command:?}");
        mortal.stdin(Stdio::null()).stderr(Stdio::piped());
        mortal.stdout(match sign {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        });
        if sign.is_none() {
            mortal.stderr(Stdio::null());
        }
        let mut program = Program(mortal.spawn()?);
        if let (Some(sign), Some(output)) = (sign, program.0.stdout.take()) {
            let mut lines = BufReader::new(output).lines();
            if !lines.any(|line| line.is_ok_and(|line| line.contains(sign))) {
                let mut said = String::new();
                if let Some(errors) = program.0.stderr.take() {
                    let _ = { errors }.read_to_string(&mut said);
                }
                return Err(format!("{shown} did not start: {}", said.trim()).into());
            }
            // Later output is not read; it fits a pipe.
            std::mem::forget(lines);
        }
        Ok(program)
    }
}

impl Drop for Program {
    /// Sends SIGTERM, so that the program can clean up, and waits for a while.
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM);
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && asked.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary folder.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Result<Folder, Failure> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-bench{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
