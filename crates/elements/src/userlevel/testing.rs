//! What this group's tests need of the host.

use core::fmt;
use std::fs;
use std::path::PathBuf;
use std::vec::Vec;

/// A file that is gone when the test ends.
pub struct TempFile(PathBuf);

impl TempFile {
    /// A file, not made yet, with `name` in its name.
    pub fn new(name: &str) -> TempFile {
        let name = std::format!("weir-test-{}-{name}.pcap", std::process::id());
        TempFile(std::env::temp_dir().join(name))
    }

    /// What the file holds.
    pub fn read(&self) -> Vec<u8> {
        fs::read(&self.0).expect("the file is there")
    }

    /// Makes the file.
    pub fn write(&self, bytes: &[u8]) {
        fs::write(&self.0, bytes).expect("the file can be written");
    }
}

impl fmt::Display for TempFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
