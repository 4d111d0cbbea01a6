//! The programs that run a configuration: Weir, and its peers that are named.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::cpu_time;

/// A program that runs a configuration.
pub struct Program {
    /// Its name in results.
    pub name: String,
    command: PathBuf,
    before: Vec<String>,
}

impl Program {
    /// Weir, which `WEIR` names, then Click and FastClick, if `CLICK` and `FASTCLICK` name them.
    pub fn all() -> Vec<Program> {
        let mut programs = vec![Program {
            name: "Weir".into(),
            command: weir(),
            before: vec!["click".into()],
        }];
        for (name, variable) in [("Click", "CLICK"), ("FastClick", "FASTCLICK")] {
            if let Some(command) = std::env::var_os(variable) {
                programs.push(Program {
                    name: name.into(),
                    command: command.into(),
                    before: Vec::new(),
                });
            }
        }
        programs
    }

    /// The command that runs a configuration.
    pub fn command(&self, config: &Path) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.before).arg(config);
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(limit_time) };
        command
    }

    /// The numbers of these read handlers when a configuration has stopped. It has 20 seconds.
    ///
    /// # Errors
    /// How the program failed, and what it said.
    pub fn counts(
        &self,
        config: &Path,
        handlers: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Vec<u64>, String> {
        let run = self.command(config);
        let mut command = Command::new("timeout");
        command
            .arg("20")
            .arg(run.get_program())
            .args(run.get_args());
        for handler in handlers {
            command.args(["-h", handler.as_ref()]);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} failed ({}): {said}", self.name, output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Seconds of CPU time of a run of a configuration.
    pub fn seconds(&self, config: &Path) -> Result<f64, String> {
        Ok(cpu_time(&mut self.command(config))?.as_secs_f64())
    }
}

/// Has the kernel end this process after so many seconds of CPU time: some configurations run for ever in a peer.
fn limit_time() -> std::io::Result<()> {
    const SECONDS: u64 = 120;
    let limit = Rlimit {
        current: Some(SECONDS),
        maximum: Some(SECONDS),
    };
    Ok(setrlimit(Resource::Cpu, limit)?)
}

/// The program `weir`, which `WEIR` names.
pub fn weir() -> PathBuf {
    std::env::var_os("WEIR")
        .unwrap_or_else(|| "target/release/weir".into())
        .into()
}

/// How often each program runs: `ROUNDS`, else `usual`.
pub fn rounds(usual: usize) -> usize {
    setting("ROUNDS", usual)
}

/// The number in an environment variable.
pub fn setting<T: std::str::FromStr>(name: &str, usual: T) -> T {
    let value = std::env::var(name).ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(usual)
}
