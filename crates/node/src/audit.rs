//! The record of changes: for each one a line with time, client, operation and outcome. It goes to the log, with target
//! `audit`, and to a bounded file if one is named.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use vmm::printable;

use crate::error::{Error, Result};
use crate::model::rfc3339;

/// Longest file, in bytes. A longer one is renamed, in the place of the one before.
const FILE_MAX: u64 = 16 << 20;
/// Longest text of a client's in a line, in bytes.
const TEXT_MAX: usize = 256;

/// Where changes are recorded.
#[derive(Debug, Default)]
pub struct Audit {
    file: Option<Mutex<AuditFile>>,
}

#[derive(Debug)]
struct AuditFile {
    path: PathBuf,
    file: File,
    length: u64,
    most: u64,
    /// Whether a line could not be written, which is told once.
    failed: bool,
}

impl Audit {
    /// Records to the log, and to a file if one is named.
    pub fn new(file: Option<&Path>) -> Result<Audit> {
        let open = |path: &Path| {
            AuditFile::open(path, FILE_MAX)
                .map(Mutex::new)
                .map_err(|error| {
                    Error::failed(format_args!("the audit file {}: {error}", path.display()))
                })
        };
        let file = file.map(open).transpose()?;
        Ok(Audit { file })
    }

    /// Records the outcome of a change.
    pub fn note(&self, who: &str, what: &str, outcome: std::result::Result<(), &Error>) {
        let (who, what) = (shown(who), shown(what));
        let outcome = outcome.map_or_else(|error| shown(&error.error), |()| "done".into());
        tracing::info!(target: "audit", who, what, outcome, "audit: {who}: {what}: {outcome}");
        if let Some(file) = &self.file {
            let time = rfc3339(SystemTime::now());
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.add(&format!("{time} {who}: {what}: {outcome}\n"));
        }
    }
}

/// A text as one line of some length.
fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_MAX);
    let cut = if end < text.len() { "…" } else { "" };
    printable(&text[..end]) + cut
}

impl AuditFile {
    fn open(path: &Path, most: u64) -> io::Result<AuditFile> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(AuditFile {
            path: path.into(),
            file,
            length,
            most,
            failed: false,
        })
    }

    fn add(&mut self, line: &str) {
        let added = self.try_add(line);
        if let (Err(error), false) = (&added, self.failed) {
            let path = self.path.display();
            tracing::error!("{path}: {error}: changes are recorded in the log alone");
        }
        self.failed = added.is_err();
    }

    fn try_add(&mut self, line: &str) -> io::Result<()> {
        if self.length + line.len() as u64 > self.most {
            let mut before = self.path.clone().into_os_string();
            before.push(".1");
            fs::rename(&self.path, before)?;
            *self = AuditFile::open(&self.path, self.most)?;
        }
        self.file.write_all(line.as_bytes())?;
        self.length += line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_bounded_and_any_client_name_fits_one_line() {
        let folder = std::env::temp_dir().join(format!("weir-audit-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit");
        let file = AuditFile::open(&path, 2000).unwrap();
        let file = Some(Mutex::new(file));
        let audit = Audit { file };
        for n in 0..100 {
            audit.note("al\nice", &format!("create-stub s{n}"), Ok(()));
        }
        audit.note(
            "bob",
            "delete-stub s0",
            Err(&Error::refused("x".repeat(5000))),
        );
        let text = fs::read_to_string(&path).unwrap();
        let before = fs::read_to_string(folder.join("audit.1")).unwrap();
        assert!(text.len() <= 2000 && before.len() <= 2000);
        for line in before.lines().chain(text.lines()) {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(humantime::parse_rfc3339(time).is_ok(), "{line}");
            assert!(
                rest.starts_with("al\\nice: create-stub s") || rest.starts_with("bob: "),
                "{line}"
            );
        }
        assert!(text.ends_with("x…\n"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
