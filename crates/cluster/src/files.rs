//! Files that only this user can read.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use node::error::{Error, Result};

/// Makes a folder that is this user's alone.
pub fn make_folder(folder: &Path) -> Result<()> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| Error::failed(format_args!("{}: {error}", folder.display())))
}

/// Replaces a file that only this user can read, as a whole.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("new");
    let write = || {
        let mut options = fs::File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| Error::failed(format_args!("{}: {error}", path.display())))
}
