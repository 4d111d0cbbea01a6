//! Runs a closure in another network namespace.

use std::fs::{File, Metadata};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};

/// The file of a namespace, by its name (as `ip netns` has it) or a path such as
/// `/proc/PID/ns/net`.
fn path(namespace: &str) -> PathBuf {
    if namespace.contains('/') {
        namespace.into()
    } else {
        Path::new("/run/netns").join(namespace)
    }
}

/// The identity of a namespace among all that exist at the same time: device and inode.
pub(super) type Id = (u64, u64);

/// Which namespace has this name now; `None` if none has.
pub(super) fn id(namespace: &str) -> Option<Id> {
    std::fs::metadata(path(namespace))
        .ok()
        .map(|file| id_of(&file))
}

/// Which namespace a TAP device was made in, by a descriptor of it; `None` if the kernel does not
/// tell.
pub(super) fn of_tap(tap: BorrowedFd<'_>) -> Option<Id> {
    let namespace = ::switch::links::tap_namespace(tap).ok()?;
    File::from(namespace)
        .metadata()
        .ok()
        .map(|file| id_of(&file))
}

fn id_of(file: &Metadata) -> Id {
    (file.dev(), file.ino())
}

/// Opens a namespace's file.
fn open(namespace: &str) -> Result<File> {
    File::open(path(namespace)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if !namespace.contains('/') => Error::not_found(format_args!(
            "no network namespace ‘{namespace}’: `ip netns add {namespace}` makes one"
        ))
        .of_field("namespace"),
        _ => Error::refused(format_args!(
            "the network namespace ‘{namespace}’ cannot be opened: {error}"
        ))
        .of_field("namespace"),
    })
}

/// Does `work` with this thread in `namespace`, and comes back. The process has this thread only,
/// and `work` makes no other.
pub fn within<T>(namespace: &str, work: impl FnOnce() -> T) -> Result<T> {
    let there = open(namespace)?;
    let refused = |error: &dyn std::fmt::Display| {
        Error::refused(format_args!(
            "the network namespace ‘{namespace}’ cannot be entered: {error}"
        ))
        .of_field("namespace")
    };
    let here = File::open("/proc/self/ns/net").map_err(|error| refused(&error))?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(there.as_fd(), network).map_err(|error| refused(&error))?;
    let done = work();
    // Everything that came after would happen in the wrong place.
    move_into_link_name_space(here.as_fd(), network)
        .expect("a thread can go back to the namespace that it came from");
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_not_there_is_told_with_its_remedy() {
        let error = within("weir-none9", || ()).unwrap_err();
        assert_eq!(
            error.error,
            "no network namespace ‘weir-none9’: `ip netns add weir-none9` makes one"
        );
        assert!(within("/dev/null", || ()).is_err());
    }
}
