//! The ends of any number of guests, by one descriptor.
//!
//! A guest's process has its control region's file open by a file description that no other process has. The kernel
//! releases it with the process's memory, however the process ends, and inotify(7) reports that (`IN_CLOSE_WRITE`). A
//! watch is no descriptor, so a parent of tens of thousands of guests needs none for each. It holds for children and
//! for [adopted](crate::Orphan) guests alike.
//!
//! The process ends within moments, when the kernel has taken down the rest of it. A close of the file by another
//! process is reported as well; [`Guest::is_ending`](crate::Guest::is_ending) tells the difference.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::Control;
use crate::error::{Context, Error, Result};

/// Bytes of events read at a time.
const EVENTS: usize = 4096;

/// Reports of guests' ends. The descriptor is readable when there are any.
pub struct Ends(OwnedFd);

/// A guest that is watched, by the number that the kernel gave the watch. A number is not used again for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watch(i32);

impl Ends {
    /// Watches no guest yet.
    pub fn new() -> Result<Ends> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        inotify
            .map(Ends)
            .context("an inotify instance, by which guests' ends are told")
    }

    /// Watches a guest by its control region, whose file is open. What happened before is not told.
    pub fn watch(&self, control: &Control) -> Result<Watch> {
        let watch = inotify::add_watch(&self.0, control.path(), WatchFlags::CLOSE_WRITE);
        match watch {
            Ok(number) => Ok(Watch(number)),
            Err(Errno::NOSPC) => Err(Error::Watches),
            Err(error) => Err(error).context("watching for the guest's end"),
        }
    }

    /// Watches a guest no more, whose memory file is released so.
    pub fn forget(&self, watch: Watch) {
        // There is nothing to be done about a watch that is not there.
        let _ = inotify::remove_watch(&self.0, watch.0);
    }

    /// The guests that released their memory since the last call, some of them perhaps several times. `None` if the kernel dropped some: then any may have.
    pub fn take(&self) -> Result<Option<Vec<Watch>>> {
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        let mut reader = Reader::new(&self.0, &mut room);
        let mut found = Vec::new();
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => return Ok(None),
                Ok(event) if event.events().contains(ReadFlags::CLOSE_WRITE) => {
                    found.push(Watch(event.wd()));
                }
                // A watch was removed.
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Ok(Some(found)),
                Err(error) => return Err(error).context("reading of guests' ends"),
            }
        }
    }
}

impl AsFd for Ends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
