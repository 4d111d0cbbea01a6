//! Processes of applications that have no socket yet, of which CoreEngine does not know: the environment of each names
//! its application.

use std::fs;

use super::Host;
use crate::model::ApplicationRecord;

/// Times that processes are looked at: one that is becoming another program has no environment for a moment.
const LOOKS: usize = 2;

impl Host {
    /// Those of applications that no process is in.
    pub fn without_processes(&self, mut all: Vec<ApplicationRecord>) -> Vec<ApplicationRecord> {
        let variable = |it: &ApplicationRecord| {
            format!("WEIR_SOCK={}", self.sock_paths.sock_of(it.token)).into_bytes()
        };
        for _ in 0..LOOKS {
            // Without a list of processes, all may have some.
            let Ok(processes) = fs::read_dir("/proc") else {
                return Vec::new();
            };
            for process in processes.flatten() {
                if all.is_empty() {
                    return all;
                }
                // Of other entries, and of processes that have ended, there is none.
                let environment = fs::read(process.path().join("environ")).unwrap_or_default();
                all.retain(|it| {
                    let variable = variable(it);
                    !environment
                        .split(|byte| *byte == 0)
                        .any(|is| is == variable)
                });
            }
        }
        all
    }
}
