//! Where a node's sockets and files are.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use netkernel::protocol::Token;
use rustix::process::Gid;

use crate::error::{Error, Result};

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
        lock_beside(&self.api())
    }

    /// Makes the folder of sockets, if it is not there: for this user, and for a group to pass through.
    pub fn make_run(&self, group: Option<Gid>) -> Result<()> {
        let ours = |name: &str| name.ends_with(".sock") || RUN_FILES.contains(&name);
        let made = make_private(&self.run, group, ours);
        made.map_err(|error| {
            Error::failed(format_args!(
                "{}: {error}: set WEIR_RUN to a writable folder",
                self.run.display()
            ))
        })
    }

    /// The switch's control socket.
    pub fn switch(&self) -> PathBuf {
        self.run.join("switch.control")
    }

    /// CoreEngine's files, in a folder that every user may pass through.
    pub fn sock(&self) -> SockPaths {
        let folder = self.run.join("sock");
        SockPaths {
            door: folder.join("door"),
            operator: folder.join("operator"),
            library: folder.join("libweir_sock.so"),
            folder,
        }
    }

    /// The control store's sockets.
    pub fn store(&self) -> StoreSockets {
        StoreSockets {
            programs: self.run.join("store.sock"),
            node: self.run.join("store.control"),
        }
    }
}

/// The sockets of the control store.
#[derive(Clone, Debug)]
pub struct StoreSockets {
    /// For programs of the host.
    pub programs: PathBuf,
    /// For the node.
    pub node: PathBuf,
}

/// CoreEngine's files.
#[derive(Clone, Debug)]
pub struct SockPaths {
    /// Their folder.
    pub folder: PathBuf,
    /// The socket for applications' processes and NSMs.
    pub door: PathBuf,
    /// The socket for the node.
    pub operator: PathBuf,
    /// The library that redirects the sockets of programs.
    pub library: PathBuf,
}

impl SockPaths {
    /// `WEIR_SOCK` of the application with this token.
    pub fn sock_of(&self, token: Token) -> String {
        format!("{}:{token}", self.door.display())
    }
}

/// The files in the folder of sockets besides sockets of that ending.
const RUN_FILES: [&str; 4] = ["node.lock", "switch.control", "store.control", "sock"];

/// Makes a folder that is this user's alone, but for a group that may pass through it. One that is there becomes so if
/// it holds nothing but files that are `ours`: others may need what else is there.
pub fn make_private(
    folder: &Path,
    group: Option<Gid>,
    ours: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    let is_own = fs::metadata(folder)?.uid() == rustix::process::geteuid().as_raw();
    let mut entries = fs::read_dir(folder)?;
    let all_ours =
        entries.all(|entry| entry.is_ok_and(|it| it.file_name().to_str().is_some_and(&ours)));
    if is_own && all_ours {
        protect(folder, group, 0o700, 0o710)?;
    }
    Ok(())
}

/// Gives a file to this user, with mode `own`, or to a group as well, with mode `shared`.
pub fn protect(path: &Path, group: Option<Gid>, own: u32, shared: u32) -> io::Result<()> {
    let mode = match group {
        Some(group) => {
            rustix::fs::chown(path, None, Some(group))?;
            shared
        }
        None => own,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// The lock of the node whose API is at `socket`.
pub fn lock_beside(socket: &Path) -> PathBuf {
    socket.with_file_name("node.lock")
}

/// Makes room for a socket at `path`: removes one that was left there, and nothing else.
pub fn clear_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::other(
            "the file there is not a socket: move it away, or name another path",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Where sockets are: `$WEIR_RUN`, or `/run/weir` for root, or `weir` in the user's own runtime folder. Where everybody
/// can make files, another user could take their places.
pub fn run_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("WEIR_RUN") {
        let folder = PathBuf::from(folder);
        return std::path::absolute(&folder).unwrap_or(folder);
    }
    if rustix::process::geteuid().is_root() {
        return "/run/weir".into();
    }
    let number = rustix::process::getuid();
    let usual = || format!("/run/user/{}", number.as_raw()).into();
    let user = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(usual, PathBuf::from);
    user.join("weir")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_private_unless_it_holds_what_is_not_ours() {
        let folder = std::env::temp_dir().join(format!("weir-paths-{}", std::process::id()));
        let run = folder.join("a/run");
        let mode = || fs::metadata(&run).unwrap().mode() & 0o777;
        let ours = |name: &str| name == "node.sock";
        make_private(&run, None, ours).unwrap();
        assert_eq!(mode(), 0o700);
        let own = Some(rustix::process::getegid());
        make_private(&run, own, ours).unwrap();
        assert_eq!(mode(), 0o710);
        fs::write(run.join("node.sock"), "").unwrap();
        make_private(&run, None, ours).unwrap();
        assert_eq!(mode(), 0o700);
        fs::write(run.join("others"), "").unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
        make_private(&run, None, ours).unwrap();
        assert_eq!(mode(), 0o755);
        fs::remove_dir_all(&folder).unwrap();
    }
}
