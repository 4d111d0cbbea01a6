//! One interface of a data region, from the side of a guest.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use abi::region::{Interface, Region};
use abi::ring::{Consumer, Producer};
use rustix::io::Errno;
use rustix::thread::futex;

use super::Mapping;

/// The guest's side of a data region's first interface.
pub(crate) struct RegionInterface {
    /// Where frames come from.
    pub receive: Consumer,
    /// Where frames go.
    pub transmit: Producer,
    /// The buffers.
    pub region: Region,
    mapping: Arc<Mapping>,
}

impl RegionInterface {
    /// Maps the data region, and opens its first interface, which nobody else does. Returns what the interface is, too.
    pub fn map(file: impl AsFd) -> io::Result<(RegionInterface, Interface)> {
        let bytes = rustix::fs::fstat(&file)?.st_size as usize;
        let mapping = Mapping::new(file.as_fd(), bytes)?;
        // SAFETY: page aligned, that long, and kept beside it.
        let region = unsafe { Region::open(mapping.base, mapping.bytes) };
        let region = region.map_err(|error| io::Error::other(error.to_string()))?;
        let described = region.interface(0).ok_or(Errno::NXIO)?;
        // SAFETY: there is such an interface, and the caller opens its guest's side once.
        let (receive, transmit) =
            unsafe { (region.receive_consumer(0), region.transmit_producer(0)) };
        let interface = RegionInterface {
            receive,
            transmit,
            region,
            mapping: Arc::new(mapping),
        };
        Ok((interface, described))
    }

    /// Has an eventfd be rung whenever the switch wakes this guest: a process waits for a futex or for descriptors, not
    /// for both. The thread that does it waits in the kernel as long as this guest does not sleep.
    pub fn forward_wakes(&self, waker: OwnedFd) -> io::Result<Wakes> {
        let (region, mapping) = (self.region, Arc::clone(&self.mapping));
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        // What a thread does at its start, a filter of system calls need not allow.
        let (starts, started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("wakes".into());
        let thread = thread.stack_size(64 << 10).spawn(move || {
            let _mapping = mapping;
            let _ = starts.send(());
            let word = region.wake_word();
            let mut seen = word.load(Ordering::SeqCst);
            while !ended.load(Ordering::SeqCst) {
                // It returns at once if the word has another value. An error is an interrupted call.
                let _ = futex::wait(word, futex::Flags::empty(), seen, None);
                let now = word.load(Ordering::SeqCst);
                if now != seen {
                    seen = now;
                    super::wake(&waker);
                }
            }
        })?;
        // If it has ended already, it panicked, and said so.
        let _ = started.recv();
        Ok(Wakes {
            region: self.region,
            _mapping: Arc::clone(&self.mapping),
            end,
            thread: Some(thread),
        })
    }
}

/// The thread that forwards wakes; it ends when this is dropped.
pub(crate) struct Wakes {
    region: Region,
    _mapping: Arc<Mapping>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        let word = self.region.wake_word();
        word.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(word, futex::Flags::empty(), 1);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been told.
            let _ = thread.join();
        }
    }
}
