//! Where a node's sockets and files are.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Where a node's sockets are, and where its state.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The folder of sockets: `$WEIR_RUN`.
    pub run: PathBuf,
    /// The folder of the state: `$WEIR_STATE`.
    pub state: PathBuf,
}

impl Paths {
    /// As the environment says, or the usual ones.
    pub fn from_environment() -> Paths {
        let state = std::env::var_os("WEIR_STATE");
        Paths {
            run: run_folder(),
            state: state.map_or_else(|| "/var/lib/weir".into(), PathBuf::from),
        }
    }

    /// The node's API.
    pub fn api(&self) -> PathBuf {
        self.run.join("node.sock")
    }

    /// Locked by the node that runs.
    pub fn lock(&self) -> PathBuf {
        self.run.join("node.lock")
    }

    /// The switch's control socket.
    pub fn switch(&self) -> PathBuf {
        self.run.join("switch.control")
    }
}

/// Makes room for a socket at `path`: removes one that was left there, and nothing else.
pub fn clear_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::other(
            "the file there is not a socket: move it away, or set WEIR_RUN to another folder",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Where sockets are: `$WEIR_RUN`, or `/run/weir` for root, or the user's own runtime folder.
pub fn run_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("WEIR_RUN") {
        return folder.into();
    }
    if rustix::process::geteuid().is_root() {
        return "/run/weir".into();
    }
    let user = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    user.join("weir")
}
