//! Keeping the host's kernel from packets that a router handles.

use std::path::Path;
use std::process::Command;

use crate::prelude::*;

/// What was asked of the kernel, until it is dropped: to drop what comes in by an interface.
pub struct KernelFilter {
    iptables: &'static str,
    interface: String,
}

impl KernelFilter {
    /// Lets the kernel drop what comes in by `interface`.
    pub fn install(interface: &str) -> Result<KernelFilter, String> {
        let places = ["/sbin/iptables", "/usr/sbin/iptables"];
        let found = places.into_iter().find(|place| Path::new(place).exists());
        let filter = KernelFilter {
            iptables: found.ok_or("no 'iptables' executable found")?,
            interface: interface.to_string(),
        };
        match filter.run("-A") {
            Ok(()) => Ok(filter),
            Err(error) => {
                // There is nothing to take back.
                core::mem::forget(filter);
                Err(error)
            }
        }
    }

    fn run(&self, action: &str) -> Result<(), String> {
        let rule = [action, "INPUT", "-i", &self.interface, "-j", "DROP"];
        let ran = Command::new(self.iptables).args(rule).output();
        let ran = ran.map_err(|error| format!("{}: {}", self.iptables, super::os_error(&error)))?;
        if ran.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        Err(format!("{}: {}", self.iptables, said.trim()))
    }
}

impl Drop for KernelFilter {
    fn drop(&mut self) {
        let _ = self.run("-D");
    }
}
