//! Doing something in another network namespace.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};

/// The file of a namespace, by its name (as `ip netns` has it) or a path such as
/// `/proc/PID/ns/net`.
fn path(namespace: &str) -> PathBuf {
    match namespace.contains('/') {
        true => namespace.into(),
        false => Path::new("/run/netns").join(namespace),
    }
}

/// Opens a namespace's file.
fn open(namespace: &str) -> Result<File> {
    File::open(path(namespace)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if !namespace.contains('/') => Error::not_found(format_args!(
            "no network namespace ‘{namespace}’: `ip netns add {namespace}` makes one"
        )),
        _ => Error::refused(format_args!(
            "the network namespace ‘{namespace}’ cannot be opened: {error}"
        )),
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
