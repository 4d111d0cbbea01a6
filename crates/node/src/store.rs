//! The desired state, kept over restarts: a redb database with one table for each kind of record.
//!
//! A record is JSON under its name, so that a later version can add a field. What is changed
//! together is changed in one transaction ([`Store::change`]); one that is not committed, whatever
//! the reason, leaves nothing.

mod migration;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    StorageError, TableDefinition, TableError, WriteTransaction,
};

use crate::error::Error;
use crate::model::Record;

/// Names of the database's file in the state folder.
const FILE: &str = "node.redb";
/// The pause between two looks at a store that another process has.
const PAUSE: Duration = Duration::from_millis(1);
/// Numbers that are given once.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

type RecordTable = TableDefinition<'static, &'static str, &'static [u8]>;

/// Why the store did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be made.
    #[error("{path}: {source}: set WEIR_STATE to a writable folder", path = path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("{path} is in use: a node is already running on this state", path = path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be opened.
    #[error("{path} cannot be opened: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<redb::Error>,
    },
    /// Its file is not as it was written.
    #[error("{path} is damaged ({why}): restore a copy of it, or move it away; if you move it away, end the running guests by hand, since the node does not know them", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What shows it.
        why: String,
    },
    /// It cannot be read or written.
    #[error("the node's state cannot be {doing}: {source}")]
    Access {
        /// Read or written.
        doing: &'static str,
        /// Why not.
        source: Box<redb::Error>,
    },
    /// A record is none.
    #[error("the record ‘{name}’ of the node's state cannot be parsed: {why}")]
    Record {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::failed(error)
    }
}

/// The result of using the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The table of a kind of record.
const fn table<T: Record>() -> RecordTable {
    TableDefinition::new(T::TABLE)
}

impl StoreError {
    /// Whether the database gave up after an earlier error, such as a disk that was full, and has to
    /// be reopened before it does anything again.
    fn gave_up(&self) -> bool {
        matches!(self, StoreError::Access { source, .. } if matches!(**source, redb::Error::PreviousIo))
    }
}

fn reading<E: Into<redb::Error>>(error: E) -> StoreError {
    StoreError::Access {
        doing: "read",
        source: Box::new(error.into()),
    }
}

fn writing<E: Into<redb::Error>>(error: E) -> StoreError {
    StoreError::Access {
        doing: "written",
        source: Box::new(error.into()),
    }
}

fn parse<T: Record>(name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::Record {
        name: name.into(),
        why: error.to_string(),
    })
}

/// The store.
pub struct Store {
    /// None while it cannot be opened.
    database: RefCell<Option<Database>>,
    folder: PathBuf,
}

fn open(folder: &Path) -> Result<Database> {
    let path = folder.join(FILE);
    // It would be taken for a new one, and what runs for nobody's.
    if std::fs::metadata(&path).is_ok_and(|file| file.len() == 0) {
        let why = "it is empty".into();
        return Err(StoreError::Damaged { path, why });
    }
    // redb panics when it trusts a damaged page.
    let opened = Database::builder()
        .set_check_integrity_on_open(true)
        .create(&path);
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path },
        DatabaseError::Storage(StorageError::Corrupted(why)) => StoreError::Damaged { path, why },
        DatabaseError::Storage(StorageError::Io(error)) if is_of_contents(&error) => {
            let why = error.to_string();
            StoreError::Damaged { path, why }
        }
        error => StoreError::Open {
            path,
            source: Box::new(error.into()),
        },
    })
}

/// Whether what was read is wrong, and not the reading.
fn is_of_contents(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof
    )
}

impl Store {
    /// Opens the store in `folder`, which is made if it is not there. One process has it at a time;
    /// a child that a killed one had just forked may still hold it for a moment, so `timeout` is
    /// how long it is waited for.
    pub fn open(folder: &Path, timeout: Duration) -> Result<Store> {
        std::fs::create_dir_all(folder).map_err(|source| StoreError::Folder {
            path: folder.into(),
            source,
        })?;
        let start = Instant::now();
        let database = loop {
            match open(folder) {
                Err(StoreError::InUse { .. }) if start.elapsed() < timeout => {
                    std::thread::sleep(PAUSE);
                }
                opened => break opened?,
            }
        };
        let write = database.begin_write().map_err(writing)?;
        migration::migrate(&write)?;
        write.commit().map_err(writing)?;
        Ok(Store {
            database: RefCell::new(Some(database)),
            folder: folder.into(),
        })
    }

    /// Does something with the database, which is reopened if it had given up.
    fn with<R>(&self, work: impl Fn(&Database) -> Result<R>) -> Result<R> {
        if let Some(database) = &*self.database.borrow() {
            match work(database) {
                Err(error) if error.gave_up() => {}
                done => return done,
            }
        }
        // The old one is closed before.
        self.database.replace(None);
        let database = open(&self.folder)?;
        let done = work(&database);
        self.database.replace(Some(database));
        done
    }

    /// The file of the store in `folder`.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// The record called `name`.
    pub fn get<T: Record>(&self, name: &str) -> Result<Option<T>> {
        self.with(|database| {
            let read = database.begin_read().map_err(reading)?;
            let table = match read.open_table(table::<T>()) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(None),
                Err(error) => return Err(reading(error)),
            };
            let found = table.get(name).map_err(reading)?;
            found.map(|bytes| parse(name, bytes.value())).transpose()
        })
    }

    /// All records of a kind, by name.
    pub fn all<T: Record>(&self) -> Result<Vec<T>> {
        self.with(|database| {
            let read = database.begin_read().map_err(reading)?;
            let table = match read.open_table(table::<T>()) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                Err(error) => return Err(reading(error)),
            };
            let rows = table.iter().map_err(reading)?;
            let record = |row: std::result::Result<(_, _), redb::StorageError>| {
                let (name, bytes): (redb::AccessGuard<'_, &str>, redb::AccessGuard<'_, &[u8]>) =
                    row.map_err(reading)?;
                parse(name.value(), bytes.value())
            };
            rows.map(record).collect()
        })
    }

    /// Number of records of a kind.
    pub fn count<T: Record>(&self) -> Result<usize> {
        self.with(|database| {
            let read = database.begin_read().map_err(reading)?;
            match read.open_table(table::<T>()) {
                Ok(table) => Ok(table.len().map_err(reading)? as usize),
                Err(TableError::TableDoesNotExist(_)) => Ok(0),
                Err(error) => Err(reading(error)),
            }
        })
    }

    /// Begins a change.
    pub fn change(&self) -> Result<Change> {
        self.with(|database| {
            let write = database.begin_write().map_err(writing)?;
            Ok(Change { write })
        })
    }

    /// Stores one record in a change of its own.
    pub fn put<T: Record>(&self, record: &T) -> Result<()> {
        let change = self.change()?;
        change.put(record)?;
        change.commit()
    }
}

/// A change that is under way. Dropping it undoes it.
pub struct Change {
    write: WriteTransaction,
}

impl Change {
    /// Stores a record, in the place of the one of its name if there is one.
    pub fn put<T: Record>(&self, record: &T) -> Result<()> {
        let bytes = serde_json::to_vec(record).map_err(|error| StoreError::Record {
            name: record.key().into(),
            why: error.to_string(),
        })?;
        let mut table = self.write.open_table(table::<T>()).map_err(writing)?;
        let old = table.insert(record.key(), bytes.as_slice());
        old.map(drop).map_err(writing)
    }

    /// Removes a record.
    pub fn remove<T: Record>(&self, name: &str) -> Result<()> {
        let mut table = self.write.open_table(table::<T>()).map_err(writing)?;
        let old = table.remove(name);
        old.map(drop).map_err(writing)
    }

    /// The next number of a kind, from 1 on.
    pub fn next(&self, kind: &'static str) -> Result<u64> {
        let mut table = self.write.open_table(NUMBERS).map_err(writing)?;
        let last = table.get(kind).map_err(writing)?.map_or(0, |n| n.value());
        table.insert(kind, last + 1).map_err(writing)?;
        Ok(last + 1)
    }

    /// Makes the change last once a later one does: for what can be found out again.
    pub fn commit_later(mut self) -> Result<()> {
        self.write
            .set_durability(Durability::None)
            .map_err(writing)?;
        self.commit()
    }

    /// Makes the change last.
    pub fn commit(self) -> Result<()> {
        self.write.commit().map_err(writing)
    }
}
