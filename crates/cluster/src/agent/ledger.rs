//! Which of its node's guests are the cluster's: a file that is written before a guest is made, so that no guest of the
//! cluster is ever left, and no other guest is ever touched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use node::error::{Error, Result};
use node::paths::Paths;

use crate::context::folder;
use crate::files::write_private;

/// The guests of the cluster on this host, by name, each with its id.
#[derive(Debug, Default)]
pub struct Ledger {
    path: PathBuf,
    guests: BTreeMap<String, String>,
}

/// The ledger's file.
fn file(paths: &Paths) -> PathBuf {
    folder(paths).join("guests.json")
}

impl Ledger {
    /// Reads the ledger of this host.
    pub fn read(paths: &Paths) -> Result<Ledger> {
        let path = file(paths);
        let guests = read(&path)?;
        Ok(Ledger { path, guests })
    }

    /// The id of a guest of this name.
    pub fn id(&self, name: &str) -> Option<&str> {
        self.guests.get(name).map(String::as_str)
    }

    /// All guests, with their ids.
    pub fn guests(&self) -> impl Iterator<Item = (&String, &String)> {
        self.guests.iter()
    }

    /// Adds and removes guests, all at once.
    pub fn change(
        &mut self,
        added: impl IntoIterator<Item = (String, String)>,
        removed: &[String],
    ) -> Result<()> {
        let mut guests = self.guests.clone();
        guests.retain(|name, _| !removed.contains(name));
        guests.extend(added);
        if guests == self.guests {
            return Ok(());
        }
        let text = serde_json::to_vec(&guests).map_err(Error::failed)?;
        write_private(&self.path, &text)?;
        self.guests = guests;
        Ok(())
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, String>> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| {
            Error::failed(format_args!(
                "{}: {error}: restore it from a copy, or write {{\"GUEST\": \"\"}} with the cluster's guests of this host",
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
        let mut ledger = Ledger::read(&paths).unwrap();
        let added = ["a", "b"].map(|name| (name.to_string(), format!("{name}1")));
        ledger.change(added, &[]).unwrap();
        ledger
            .change([("b".into(), "b2".into())], &["a".into(), "b".into()])
            .unwrap();
        let again = Ledger::read(&paths).unwrap();
        assert_eq!((again.id("a"), again.id("b")), (None, Some("b2")));
        std::fs::write(file(&paths), "{").unwrap();
        assert!(Ledger::read(&paths).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
