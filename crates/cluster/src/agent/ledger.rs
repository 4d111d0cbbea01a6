//! Which of its node's guests, VNICs and links are the cluster's: files that are written before one is made, so
//! that none of the cluster is ever left, and no other is ever touched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use node::error::{Error, Result};
use node::paths::Paths;

use crate::context::folder;
use crate::files::write_private;

/// What is the cluster's on this host, by name, each with its id.
#[derive(Debug, Default)]
pub struct Ledger {
    path: PathBuf,
    entries: BTreeMap<String, String>,
}

impl Ledger {
    /// Guests.
    pub fn guests(paths: &Paths) -> Result<Ledger> {
        Ledger::read(folder(paths).join("guests.json"))
    }

    /// Networks, whose links have their names.
    pub fn networks(paths: &Paths) -> Result<Ledger> {
        Ledger::read(folder(paths).join("networks.json"))
    }

    /// VNICs, each with the id of its guest.
    pub fn vnics(paths: &Paths) -> Result<Ledger> {
        Ledger::read(folder(paths).join("vnics.json"))
    }

    fn read(path: PathBuf) -> Result<Ledger> {
        let entries = read(&path)?;
        Ok(Ledger { path, entries })
    }

    /// The id of the one of this name.
    pub fn id(&self, name: &str) -> Option<&String> {
        self.entries.get(name)
    }

    /// All, with their ids.
    pub fn entries(&self) -> impl Iterator<Item = (&String, &String)> {
        self.entries.iter()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds and removes some, all at once.
    pub fn change(
        &mut self,
        added: impl IntoIterator<Item = (String, String)>,
        removed: &[String],
    ) -> Result<()> {
        let mut entries = self.entries.clone();
        entries.retain(|name, _| !removed.contains(name));
        entries.extend(added);
        if entries == self.entries {
            return Ok(());
        }
        let text = serde_json::to_vec(&entries).map_err(Error::failed)?;
        write_private(&self.path, &text)?;
        self.entries = entries;
        Ok(())
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, String>> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| {
            Error::failed(format_args!(
                "{}: {error}: restore it from a copy, or write {{\"NAME\": \"\"}} with what is the cluster's on this host",
                path.display()
            ))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(Error::failed(format_args!("{}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_read_as_it_was_left() {
        let folder = std::env::temp_dir().join(format!("weir-ledger-{}", std::process::id()));
        let paths = Paths {
            run: folder.clone(),
            state: folder.clone(),
        };
        std::fs::create_dir_all(folder.join("cluster")).unwrap();
        let mut ledger = Ledger::guests(&paths).unwrap();
        let added = ["a", "b"].map(|name| (name.to_string(), format!("{name}1")));
        ledger.change(added, &[]).unwrap();
        ledger
            .change([("b".into(), "b2".into())], &["a".into(), "b".into()])
            .unwrap();
        let again = Ledger::guests(&paths).unwrap();
        assert_eq!(
            (again.id("a"), again.id("b")),
            (None, Some(&"b2".to_string()))
        );
        std::fs::write(folder.join("cluster/guests.json"), "{").unwrap();
        assert!(Ledger::guests(&paths).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
