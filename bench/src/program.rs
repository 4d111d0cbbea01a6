//! The programs that run a configuration: Weir, and its peers that are named.

use std::path::{Path, PathBuf};
use std::process::Command;

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
        let weir = std::env::var_os("WEIR").unwrap_or_else(|| "target/release/weir".into());
        let mut programs = vec![Program {
            name: "Weir".into(),
            command: weir.into(),
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
        command
    }

    /// Seconds of CPU time of a run of a configuration.
    pub fn seconds(&self, config: &Path) -> Result<f64, String> {
        Ok(cpu_time(&mut self.command(config))?.as_secs_f64())
    }
}

/// How often each program runs: `ROUNDS`, else `usual`.
pub fn rounds(usual: usize) -> usize {
    let rounds = std::env::var("ROUNDS").ok();
    rounds.and_then(|r| r.parse().ok()).unwrap_or(usual)
}
