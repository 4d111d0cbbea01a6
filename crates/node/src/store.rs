//! The desired state, kept over restarts: a redb database with one table for each kind of record.
//!
//! A record is JSON under its name, so that a later version can add a field, with a checksum before
//! it. One operation changes its records in one transaction ([`Store::change`]); a transaction that
//! is not committed leaves nothing. A damaged record is set aside and named; the others are not
//! affected.

mod migration;
mod sealed;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    StorageError, TableDefinition, TableError, WriteTransaction,
};

use crate::error::Error;
use crate::model::Record;

/// Name of the database's file in the state folder.
const FILE: &str = "node.redb";
/// A file that reserves room on the disk. When the disk is full, it makes room for the transactions
/// that remove records.
const SPARE: &str = "node.redb.spare";
const SPARE_BYTES: u64 = 512 << 10;
/// Records that were set aside, by the names of their tables and their own.
const DAMAGED: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("damaged");
/// The pause between two looks at a store that another process has.
const PAUSE: Duration = Duration::from_millis(1);
/// Numbers that are given once.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

type RecordTable<'a> = TableDefinition<'a, &'static str, &'static [u8]>;

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
    #[error("{path} is damaged ({why}): restore a copy of it, or move it away; if you move it away, end the running guests by `weir node --end-unknown`, since the next node does not know them", path = path.display())]
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
const fn table<T: Record>() -> RecordTable<'static> {
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
    let json = sealed::open(T::TABLE, name, bytes);
    let record =
        json.and_then(|json| serde_json::from_slice(json).map_err(|error| error.to_string()));
    record.map_err(|why| StoreError::Record {
        name: sealed::place(T::TABLE, name),
        why,
    })
}

/// The store.
pub struct Store {
    /// None while it cannot be opened.
    database: RefCell<Option<Database>>,
    folder: PathBuf,
    /// Records that cannot be read, and why not.
    unreadable: RefCell<BTreeMap<String, String>>,
}

/// Opens the file, which only its user may read.
fn open_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false);
    let file = file.mode(0o600).open(path)?;
    crate::paths::protect(path, None, 0o600, 0o600)?;
    Ok(file)
}

fn open(folder: &Path) -> Result<Database> {
    let path = folder.join(FILE);
    // It would be taken for a new one, and what runs for unknown.
    if std::fs::metadata(&path).is_ok_and(|file| file.len() == 0) {
        let why = "it is empty".into();
        return Err(StoreError::Damaged { path, why });
    }
    let file = match open_file(&path) {
        Ok(file) => file,
        Err(error) => {
            let source = Box::new(redb::Error::Io(error));
            return Err(StoreError::Open { path, source });
        }
    };
    let backend = match FileBackend::new(file) {
        Ok(backend) => backend,
        Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse { path }),
        Err(error) => {
            let source = Box::new(error.into());
            return Err(StoreError::Open { path, source });
        }
    };
    // redb panics when it trusts a damaged page.
    let opened = Database::builder()
        .set_check_integrity_on_open(true)
        .create_with_backend(backend);
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

/// Whether an error is of the file's content, and not of reading it.
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
        let ours = |name: &str| name.starts_with(FILE);
        let made = crate::paths::make_private(folder, None, ours);
        made.map_err(|source| StoreError::Folder {
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
        sealed::set_aside(&write)?;
        write.commit().map_err(writing)?;
        let store = Store {
            database: RefCell::new(Some(database)),
            folder: folder.into(),
            unreadable: RefCell::default(),
        };
        store.keep_spare();
        for name in store.damaged()? {
            tell_damage(&name, "its checksum is wrong");
        }
        Ok(store)
    }

    /// Reserves room on the disk, if there is enough.
    pub fn keep_spare(&self) {
        let path = self.folder.join(SPARE);
        if path.exists() || self.room() < 2 * SPARE_BYTES {
            return;
        }
        let kept = open_file(&path).and_then(|file| {
            let flags = rustix::fs::FallocateFlags::empty();
            Ok(rustix::fs::fallocate(&file, flags, 0, SPARE_BYTES)?)
        });
        if kept.is_err() {
            // A file system that cannot keep it has the rest as well.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Does something that removes records. If the disk is full, it has the room that was kept.
    pub fn with_spare<R, E>(
        &self,
        mut work: impl FnMut() -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let done = work();
        let is_full = done.is_err() && self.room() < SPARE_BYTES;
        if is_full && std::fs::remove_file(self.folder.join(SPARE)).is_ok() {
            return work();
        }
        done
    }

    /// Room on the disk, in bytes.
    fn room(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.folder);
        disk.map_or(0, |disk| disk.f_bavail * disk.f_frsize)
    }

    /// Removes all files of the store.
    pub fn remove_files(folder: &Path) {
        for file in [FILE, SPARE] {
            let _ = std::fs::remove_file(folder.join(file));
        }
    }

    /// Records that are not as they were written, or cannot be parsed: `guests/fw`.
    pub fn damaged(&self) -> Result<Vec<String>> {
        let mut names = self.with(|database| {
            let read = database.begin_read().map_err(reading)?;
            let table = match read.open_table(DAMAGED) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                Err(error) => return Err(reading(error)),
            };
            let rows = table.iter().map_err(reading)?;
            let name = |row: std::result::Result<(redb::AccessGuard<'_, &str>, _), _>| {
                row.map(|(name, _): (_, redb::AccessGuard<'_, &[u8]>)| name.value().to_string())
            };
            rows.map(name)
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(reading)
        })?;
        names.extend(self.unreadable.borrow().keys().cloned());
        Ok(names)
    }

    /// Forgets the records that were set aside.
    pub fn forget_damaged(&self) -> Result<()> {
        let change = self.change()?;
        let deleted = change.write.delete_table(DAMAGED);
        deleted.map_err(writing)?;
        change.commit()?;
        self.unreadable.borrow_mut().clear();
        Ok(())
    }

    /// Notes a record that cannot be read, and reports it once.
    fn note_unreadable(&self, error: StoreError) -> Result<()> {
        let StoreError::Record { name, why } = error else {
            return Err(error);
        };
        if !self.unreadable.borrow().contains_key(&name) {
            tell_damage(&name, &why);
            self.unreadable.borrow_mut().insert(name, why);
        }
        Ok(())
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

    /// All records of a kind, by name. One that cannot be read is left out, and named by
    /// [`damaged`](Self::damaged).
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
            let mut records = Vec::new();
            for row in rows.map(record) {
                match row {
                    Ok(record) => records.push(record),
                    Err(error) => self.note_unreadable(error)?,
                }
            }
            Ok(records)
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

fn tell_damage(name: &str, why: &str) {
    tracing::error!(
        record = name,
        reason = why,
        "the record ‘{name}’ of the node's state is damaged ({why}) and is left out: create the resource again, then `weir node --forget-damaged`"
    );
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
        let bytes = sealed::seal(T::TABLE, record.key(), &bytes);
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
