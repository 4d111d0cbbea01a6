//! Memory files: a guest's data region, and the switch's counters.
//!
//! Unsafe code in the switch is here and in `sys` only. The types that leave this module are safe
//! to use: rings and pools check what they read (`abi`), and counters are atomics.
#![allow(unsafe_code)]

mod collapse;
mod counter_file;
mod mapping;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use abi::region::{Geometry, GeometryError, Interface, Region};
use abi::ring::{Consumer, Producer};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::ProtFlags;

pub(crate) use collapse::Collapser;
pub use counter_file::{CounterFile, LanePorts};
pub(crate) use mapping::Mapping;

/// The name of a data region's file, by which it is found in the guest's process.
const NAME: &str = "weir-data";

/// Why a memory file could not be made or mapped.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel refused.
    #[error("cannot {action} a memory file of {bytes} bytes: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// Size of the file.
        bytes: usize,
        /// Why not.
        source: Errno,
    },
    /// The file is shorter than its geometry says.
    #[error("the memory file has {found} bytes, and its geometry needs {needed}")]
    Short {
        /// Size found.
        found: u64,
        /// Size needed.
        needed: usize,
    },
    /// The file could be made shorter while it is mapped.
    #[error("the memory file can still change its size: seal it against shrinking and growing")]
    Unsealed,
    /// The geometry and the interfaces do not go together.
    #[error("{0}")]
    Geometry(GeometryError),
}

fn system(action: &'static str, bytes: usize, source: Errno) -> MemoryError {
    MemoryError::System {
        action,
        bytes,
        source,
    }
}

/// Makes a memory file of `bytes` bytes that can change its size no more.
pub(crate) fn sealed_file(name: &str, bytes: usize) -> Result<OwnedFd, MemoryError> {
    let make = || {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(file)
    };
    make().map_err(|source| system("make", bytes, source))
}

/// A guest's data region, mapped into this process.
///
/// Each side of each interface's rings can be taken once; the sides keep the mapping.
pub struct SharedRegion {
    mapping: Mapping,
    geometry: Geometry,
    /// Bit `2 i`: the switch's side of interface `i` is taken; bit `2 i + 1`: the guest's.
    taken: AtomicU64,
    /// Whether the region is in steady use.
    busy: AtomicBool,
    /// Collapses it into huge pages then.
    collapser: Option<Collapser>,
}

impl SharedRegion {
    /// The file of a data region that will get another region's content: see
    /// [`become_copy`](Self::become_copy).
    pub fn blank(geometry: Geometry) -> Result<OwnedFd, MemoryError> {
        sealed_file(NAME, geometry.bytes())
    }

    /// Makes the data region of a guest that is yet to start, with all its rings empty. Hand the
    /// file to the guest's VMM and to the switch.
    pub fn create(
        geometry: Geometry,
        interfaces: &[Interface],
    ) -> Result<(SharedRegion, OwnedFd), MemoryError> {
        let file = SharedRegion::blank(geometry)?;
        let region = SharedRegion::map(file.as_fd(), geometry)?;
        // SAFETY: the mapping is of the geometry's size and page aligned; the file has no other
        // user yet. The Region is dropped here.
        unsafe { Region::format(region.mapping.base(), geometry, interfaces) }
            .map_err(MemoryError::Geometry)?;
        region.mapping.provide(geometry.first_buffers());
        Ok((region, file))
    }

    /// Makes this region, which no guest runs on and to which another one's content was written, that of a copy with
    /// its own interfaces, and with empty rings unless it `carries` the frames in them.
    pub fn become_copy(&self, interfaces: &[Interface], carries: bool) {
        // SAFETY: mapped with the geometry's size; the content is untrusted, like a guest's.
        let region = unsafe { Region::adopt(self.mapping.base(), self.geometry) };
        region.describe(interfaces);
        if !carries {
            region.forget_frames();
        }
    }

    /// Maps a region that another process made, trusting only its size, and that only because it is
    /// sealed.
    pub fn map(file: BorrowedFd<'_>, geometry: Geometry) -> Result<SharedRegion, MemoryError> {
        let needed = geometry.bytes();
        let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(MemoryError::Unsealed);
        }
        let stat = rustix::fs::fstat(file).map_err(|e| system("look at", needed, e))?;
        let found = u64::try_from(stat.st_size).unwrap_or(0);
        if found < needed as u64 {
            return Err(MemoryError::Short { found, needed });
        }
        Ok(SharedRegion {
            mapping: Mapping::aligned(file, needed, ProtFlags::READ | ProtFlags::WRITE)?,
            geometry,
            taken: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            collapser: None,
        })
    }

    /// Sets the `collapser` that collapses the region into huge pages once it is in steady use.
    pub(crate) fn collapsed_by(mut self, collapser: Collapser) -> SharedRegion {
        self.collapser = Some(collapser);
        self
    }

    /// Says that the region is in steady use: its buffers have been round the rings many times.
    #[cold]
    fn say_busy(self: &Arc<Self>) {
        if !self.busy.swap(true, Ordering::Relaxed)
            && let Some(collapser) = &self.collapser
        {
            collapser.submit(self);
        }
    }

    /// Collapses the region into huge pages, as far as it fills them; its content stays. Returns
    /// how many huge pages it has then.
    fn collapse(&self) -> usize {
        self.mapping.collapse()
    }

    /// Sizes and offsets.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The switch's side of interface `i`: `None` if there is no such interface or it is taken.
    pub fn switch_side(self: &Arc<Self>, i: usize) -> Option<SwitchSide> {
        let region = self.take(i, 0)?;
        // SAFETY: `i` is an interface and `take` gives each side out once.
        let (receive, transmit) =
            unsafe { (region.receive_producer(i), region.transmit_consumer(i)) };
        Some(SwitchSide {
            receive,
            transmit,
            region,
            interface: i,
            keep: Arc::clone(self),
        })
    }

    /// The guest's side of interface `i`, for what plays a guest in this process.
    pub fn guest_side(self: &Arc<Self>, i: usize) -> Option<GuestSide> {
        let region = self.take(i, 1)?;
        // SAFETY: `i` is an interface and `take` gives each side out once.
        let (receive, transmit) =
            unsafe { (region.receive_consumer(i), region.transmit_producer(i)) };
        Some(GuestSide {
            receive,
            transmit,
            region,
            _keep: Arc::clone(self),
        })
    }

    /// Slots of each interface's receive ring that its guest has not emptied. A copy of the region
    /// counts them first: frames that come later are no part of the copy.
    pub fn received(&self) -> Vec<u32> {
        let region = self.look_on();
        let interfaces = 0..self.geometry.interfaces();
        interfaces.map(|i| region.received(i)).collect()
    }

    /// Whether the switch has taken all frames of the guest.
    pub fn is_drained(&self) -> bool {
        let region = self.look_on();
        (0..self.geometry.interfaces()).all(|i| region.transmitted(i) == 0)
    }

    /// Leaves only so many filled slots in each interface's receive ring of a copied region, which no guest runs on.
    pub fn keep_received(&self, slots: &[u32]) {
        let region = self.look_on();
        for (i, slots) in slots.iter().enumerate().take(self.geometry.interfaces()) {
            region.keep_received(i, *slots);
        }
    }

    /// The receive ring of an interface whose guest stands still.
    pub(crate) fn receive_ring(&self, i: usize) -> Option<(Region, Consumer)> {
        if i >= self.geometry.interfaces() {
            return None;
        }
        let region = self.look_on();
        // SAFETY: `i` is an interface, and the caller drops the ring before this region.
        let ring = unsafe { region.receive_consumer(i) };
        Some((region, ring))
    }

    fn look_on(&self) -> Region {
        // SAFETY: mapped with the geometry's size, as long as this lives.
        unsafe { Region::adopt(self.mapping.base(), self.geometry) }
    }

    fn take(&self, i: usize, side: usize) -> Option<Region> {
        if i >= self.geometry.interfaces() {
            return None;
        }
        let bit = 1u64 << (2 * i + side);
        if self.taken.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            return None;
        }
        // SAFETY: mapped with the geometry's size, and kept by the side that gets the Region.
        Some(unsafe { Region::adopt(self.mapping.base(), self.geometry) })
    }
}

/// The switch's side of one interface.
pub struct SwitchSide {
    /// Where frames for the guest go.
    pub(crate) receive: Producer,
    /// Where frames of the guest come from.
    pub(crate) transmit: Consumer,
    /// The pool. What is read from it lives no longer than this side.
    pub(crate) region: Region,
    /// Which of the region's interfaces this is.
    pub(crate) interface: usize,
    keep: Arc<SharedRegion>,
}

impl SwitchSide {
    /// The frames that the guest has not read.
    pub(crate) fn unread(&self) -> Vec<u8> {
        self.keep.late_frames(self.interface, 0).0
    }

    /// Says that the interface is in steady use.
    pub(crate) fn say_busy(&self) {
        self.keep.say_busy();
    }
}

/// The guest's side of one interface. Its rings and pool cannot be taken out of it:
///
/// ```compile_fail,E0509
/// fn keep(side: switch::memory::GuestSide) -> abi::ring::Producer {
///     side.transmit
/// }
/// ```
pub struct GuestSide {
    /// Where frames for the guest come from.
    pub receive: Consumer,
    /// Where the guest's frames go.
    pub transmit: Producer,
    /// The pool.
    pub region: Region,
    _keep: Arc<SharedRegion>,
}

/// Does nothing, but prevents moves of fields out of the struct: rings and pool would outlive the
/// mapping that they point into.
impl Drop for GuestSide {
    fn drop(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_of_an_interface_is_given_out_once() {
        let geometry = Geometry::new(64, 1).unwrap();
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, 1], 1500).unwrap();
        let (region, file) = SharedRegion::create(geometry, &[interface]).unwrap();
        let region = Arc::new(region);
        assert!(region.switch_side(0).is_some());
        assert!(region.switch_side(0).is_none());
        assert!(region.guest_side(0).is_some());
        assert!(region.guest_side(1).is_none());
        assert!(SharedRegion::map(file.as_fd(), geometry).is_ok());
        let larger = Geometry::new(128, 1).unwrap();
        assert!(matches!(
            SharedRegion::map(file.as_fd(), larger),
            Err(MemoryError::Short { .. })
        ));
    }

    #[test]
    fn collapsing_a_region_keeps_its_content() {
        let geometry = Geometry::new(1024, 1).unwrap();
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, 1], 1500).unwrap();
        let (region, file) = SharedRegion::create(geometry, &[interface]).unwrap();
        let region = Arc::new(region);
        let guest = region.guest_side(0).unwrap();
        let slot = |buffer| abi::ring::Slot {
            len: 60,
            ..abi::ring::Slot::spent(buffer)
        };
        // Some in the first huge page, none in the second.
        for buffer in 0..500 {
            let bytes = guest.region.frame(slot(buffer)).unwrap();
            bytes.write(&[buffer as u8; 60]);
        }
        let collapsed = region.collapse();
        let whole = geometry.bytes() / mapping::HUGE_PAGE;
        println!("{collapsed} of {whole}");
        let other = Arc::new(SharedRegion::map(file.as_fd(), geometry).unwrap());
        let other = other.guest_side(0).unwrap();
        for buffer in 0..geometry.buffers() {
            let mut read = [0; 60];
            other.region.frame(slot(buffer)).unwrap().read(&mut read);
            let wrote = if buffer < 500 { buffer as u8 } else { 0 };
            assert_eq!(read, [wrote; 60], "buffer {buffer}");
        }
        // A kernel may have none to give. What it says it gave is there.
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let large: usize = maps
            .lines()
            .filter_map(|line| line.strip_prefix("ShmemPmdMapped:"))
            .filter_map(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok())
            .sum();
        assert!(large * 1024 >= collapsed * mapping::HUGE_PAGE, "{large} kB");
    }

    #[test]
    fn a_region_in_steady_use_is_collapsed_once() {
        let geometry = Geometry::new(1024, 1).unwrap();
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, 1], 1500).unwrap();
        let (region, _) = SharedRegion::create(geometry, &[interface]).unwrap();
        let (collapser, submitted) = Collapser::channel();
        let region = Arc::new(region.collapsed_by(collapser));
        let side = region.switch_side(0).unwrap();
        side.say_busy();
        side.say_busy();
        let first = submitted.try_recv().unwrap().upgrade().unwrap();
        assert!(Arc::ptr_eq(&first, &region));
        assert!(submitted.try_recv().is_err());
    }

    #[test]
    fn a_file_that_can_shrink_is_refused() {
        let geometry = Geometry::new(64, 1).unwrap();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("loose", flags).unwrap();
        rustix::fs::ftruncate(&file, geometry.bytes() as u64).unwrap();
        let refused = SharedRegion::map(file.as_fd(), geometry);
        assert!(matches!(refused, Err(MemoryError::Unsealed)));
    }
}
