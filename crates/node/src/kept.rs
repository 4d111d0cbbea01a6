//! Saved guests that are kept here for other hosts: files of the state, which are bytes until one is restored.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;

use crate::error::{Error, Kind, Result};
use crate::model::check_name;
use crate::paths::Paths;

/// Largest saved guest, in bytes.
pub const BYTES_MAX: u64 = 64 << 20;
/// Most saved guests.
const FILES_MAX: usize = 4096;
/// Longest that one may take to come.
const PATIENCE: Duration = Duration::from_secs(20);
/// The end of the name of a file that is being written.
const PART: &str = "part";

/// The folder of saved guests.
pub fn folder(paths: &Paths) -> PathBuf {
    paths.state.join("kept")
}

/// Keeps a saved guest, in place of an earlier one of this name.
pub async fn put(folder: &Path, name: &str, body: Body) -> Result<()> {
    check_name("saved guest", name)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| failed(folder, &error))?;
    let (path, part) = (folder.join(name), folder.join(format!("{name}~{PART}")));
    let count = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    if count.count() >= FILES_MAX && !path.exists() {
        return Err(Error::refused(format_args!(
            "{FILES_MAX} saved guests are kept here already"
        )));
    }
    let written = tokio::time::timeout(PATIENCE, write(&part, body)).await;
    let late = |_| Error::new(Kind::Late, format_args!("it came too slowly: {PATIENCE:?}"));
    let kept = written.map_err(late).and_then(|written| {
        written?;
        fs::rename(&part, &path).map_err(|error| failed(&path, &error))
    });
    kept.inspect_err(|_| drop(fs::remove_file(&part)))
}

async fn write(path: &Path, mut body: Body) -> Result<()> {
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).map_err(|error| failed(path, &error))?;
    let mut left = BYTES_MAX;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::invalid(format_args!("it ended: {error}")))?;
        let Some(bytes) = frame.data_ref() else {
            continue;
        };
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            Error::new(
                Kind::TooLarge,
                format_args!("a saved guest of at most {} MiB is kept", BYTES_MAX >> 20),
            )
        })?;
        file.write_all(bytes)
            .map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

/// A saved guest that is kept.
pub fn get(folder: &Path, name: &str) -> Result<Vec<u8>> {
    check_name("saved guest", name)?;
    fs::read(folder.join(name)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format_args!("no saved guest ‘{name}’ is kept here"))
        }
        _ => failed(folder, &error),
    })
}

/// The names of the saved guests that are kept.
pub fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter(|name| !name.contains('~')).collect()
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::failed(format_args!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_guest_is_kept_as_a_whole_or_not_at_all() {
        let at = std::env::temp_dir().join(format!("weir-kept-{}", std::process::id()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            put(&at, "fw.1", Body::from("one")).await.unwrap();
            put(&at, "fw.1", Body::from("two")).await.unwrap();
            assert_eq!(get(&at, "fw.1").unwrap(), b"two");
            let long = Body::from(vec![0; BYTES_MAX as usize + 1]);
            let error = put(&at, "fw.1", long).await.unwrap_err();
            assert_eq!(error.error, "a saved guest of at most 64 MiB is kept");
            assert_eq!(get(&at, "fw.1").unwrap(), b"two");
            assert_eq!(names(&at), ["fw.1"]);
            for wrong in ["../x", "", "a/b"] {
                assert!(put(&at, wrong, Body::from("x")).await.is_err(), "{wrong}");
                assert!(get(&at, wrong).is_err(), "{wrong}");
            }
            let error = get(&at, "nat.1").unwrap_err();
            assert_eq!(error.error, "no saved guest ‘nat.1’ is kept here");
        });
        fs::remove_dir_all(&at).unwrap();
    }
}
