//! The store's end of a guest's connection, in the store's process.
//!
//! The process maps the guest's control region, and uses only the connection and the wake word. It
//! keeps no descriptor of the region.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use abi::bytes::Corrupt;
use abi::control::{REGION_BYTES, Region};
use abi::store::{RING_BYTES, StoreEnd};
use rustix::mm::munmap;

use crate::control::{check, map, wake};
use crate::error::Result;

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for StoreConnection {}

/// A guest's connection to the store.
pub struct StoreConnection {
    memory: NonNull<u8>,
    end: StoreEnd<'static>,
}

impl StoreConnection {
    /// Begins a connection with the guest of this control region, and wakes the guest if it uses the store.
    pub fn begin(file: OwnedFd) -> Result<Self> {
        check(&file)?;
        let memory = map(&file, REGION_BYTES)?;
        // SAFETY: page aligned, mapped until drop, accessed through regions only.
        let region: Region<'static> = unsafe { Region::new(memory) };
        let end = region.store().connect();
        if end.is_wanted() {
            wake(region);
        }
        Ok(Self { memory, end })
    }

    fn region(&self) -> Region<'_> {
        // SAFETY: mapped as long as `self` lives, accessed through regions only.
        unsafe { Region::new(self.memory) }
    }

    /// Whether there are bytes of requests, or the guest broke the ring.
    pub fn has_requests(&mut self) -> bool {
        self.end.has_requests()
    }

    /// Reads bytes of requests and returns how many. A guest that may wait for room is woken.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        let read = self.end.read(into)?;
        if read == RING_BYTES && self.region().guest_sleeps() {
            wake(self.region());
        }
        Ok(read)
    }

    /// Writes as many bytes of replies as fit and returns how many; wakes the guest if it sleeps.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Corrupt> {
        let written = self.end.write(bytes)?;
        if written > 0 && self.region().guest_sleeps() {
            wake(self.region());
        }
        Ok(written)
    }

    /// Sets whether the guest rings its doorbell when it has read replies. Write once more after setting it.
    pub fn set_waits(&self, waits: bool) {
        self.end.set_waits(waits);
    }
}

impl Drop for StoreConnection {
    fn drop(&mut self) {
        // SAFETY: mapped in `begin`; the end, which points into it, is not used any more.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), REGION_BYTES) };
    }
}
