//! Names of running guests: each is a control socket in one folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use node::paths::run_folder;
use switch::links::SOCKET_PATH_MAX;

/// Longest name of a guest, in bytes: a socket's path has to fit.
const NAME_MAX: usize = 64;

/// Why a name cannot be had or found.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// Not a name.
    #[error(
        "‘{0}’ is not a valid name for a guest: use 1 to {NAME_MAX} letters, digits, ‘.’, ‘_’ or ‘-’, not starting with ‘.’ or ‘-’ and not ‘node’"
    )]
    Bad(String),
    /// The socket's path does not fit its address (unix(7)).
    #[error(
        "‘{0}’ is too long for a socket's path, which has at most {SOCKET_PATH_MAX} bytes: set WEIR_RUN to a folder with a shorter path"
    )]
    Long(String),
    /// A guest of that name runs.
    #[error("a guest named ‘{0}’ is already running: choose another --name, or end that guest")]
    InUse(String),
    /// No guest of that name runs.
    #[error("no guest named ‘{0}’ is running: {1}")]
    NotRunning(String, String),
    /// The socket cannot be made or reached.
    #[error("{path}: {source}: set WEIR_RUN to a writable folder")]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Names of sockets in the same folder that are no guest's.
const RESERVED: &str = "node";

fn path(name: &str) -> Result<PathBuf, NameError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let right = (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(letters)
        && !name.starts_with(['.', '-'])
        && name != RESERVED;
    if !right {
        return Err(NameError::Bad(name.into()));
    }
    let path = run_folder().join(format!("{name}.sock"));
    match path.as_os_str().len() {
        0..=SOCKET_PATH_MAX => Ok(path),
        _ => Err(NameError::Long(path.display().to_string())),
    }
}

/// A name that belongs to this process, and the socket where it is asked. Dropping it frees both.
#[derive(Debug)]
pub struct Claim {
    listener: UnixListener,
    path: PathBuf,
    /// Locked as long as the name is taken: only its holder may make or remove the socket.
    _lock: fs::File,
}

impl Claim {
    /// Takes `name`. A socket that a killed process left is taken over.
    pub fn new(name: &str) -> Result<Claim, NameError> {
        let path = path(name)?;
        let failed = |source| NameError::Socket {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(run_folder()).map_err(failed)?;
        let lock = lock(&path.with_extension("lock")).map_err(|error| match error {
            fs::TryLockError::WouldBlock => NameError::InUse(name.into()),
            fs::TryLockError::Error(source) => failed(source),
        })?;
        // A socket that is there was left by a process that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Claim {
            listener,
            path,
            _lock: lock,
        })
    }

    /// Where requests come in.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

/// Makes and locks a file. Its last holder removes it, so the locked file must still have its name.
fn lock(path: &Path) -> Result<fs::File, fs::TryLockError> {
    loop {
        let file = fs::File::create(path).map_err(fs::TryLockError::Error)?;
        file.try_lock()?;
        let ours = file.metadata().map_err(fs::TryLockError::Error)?;
        if fs::metadata(path).is_ok_and(|there| there.ino() == ours.ino()) {
            return Ok(file);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(self.path.with_extension("lock"));
    }
}

/// The names of guests that have a socket.
fn running(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            Some(
                entry
                    .file_name()
                    .to_str()?
                    .strip_suffix(".sock")?
                    .to_string(),
            )
        })
        .filter(|name| path(name).is_ok_and(|path| UnixStream::connect(path).is_ok()))
        .collect();
    names.sort();
    names
}

/// A connection to the guest called `name`.
pub fn connect(name: &str) -> Result<UnixStream, NameError> {
    let path = path(name)?;
    UnixStream::connect(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            let names = running(&run_folder());
            let others = match names.as_slice() {
                [] => "no guest runs".to_string(),
                names => format!("these are: {}", names.join(", ")),
            };
            NameError::NotRunning(name.into(), others)
        }
        _ => NameError::Socket { path, source },
    })
}
