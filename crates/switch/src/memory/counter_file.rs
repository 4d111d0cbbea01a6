//! Counters of a switch's ports, as a memory file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::SealFlags;
use rustix::mm::ProtFlags;

use super::{Mapping, MemoryError, sealed_file, system};
use crate::counters::{PORT_COUNTERS_BYTES, PortCounters, PortStats};
use crate::ids::{PORTS_MAX, PortIndex};

/// Counters of a switch's ports in shared memory: one writer, any number of readers.
pub struct CounterFile {
    mapping: Mapping,
}

impl CounterFile {
    /// Makes counters for `ports` ports, all 0, and the file by which others may read them. Pages
    /// take memory only once a port in them counts.
    pub fn create(ports: usize) -> Result<(CounterFile, OwnedFd), MemoryError> {
        let bytes = ports * PORT_COUNTERS_BYTES;
        let file = sealed_file("weir-counters", bytes)?;
        let mapping = Mapping::new(file.as_fd(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        // From here on the file can be mapped for reading only.
        rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
            .map_err(|e| system("seal", bytes, e))?;
        Ok((CounterFile { mapping }, file))
    }

    /// Maps another process's counters for reading.
    pub fn open(file: BorrowedFd<'_>) -> Result<CounterFile, MemoryError> {
        let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(MemoryError::Unsealed);
        }
        let stat = rustix::fs::fstat(file).map_err(|e| system("look at", 0, e))?;
        let bytes = usize::try_from(stat.st_size).unwrap_or(0);
        Ok(CounterFile {
            mapping: Mapping::new(file, bytes, ProtFlags::READ)?,
        })
    }

    /// A port's counters on all lanes, added up, if the file is a switch's: a lane's ports are
    /// followed by the next lane's.
    pub fn sum(&self, port: PortIndex) -> PortStats {
        let mut sum = PortStats::default();
        self.by_lane(port).for_each(|lane| sum += lane);
        sum
    }

    /// A port's counters on each lane, if the file is a switch's.
    pub fn by_lane(&self, port: PortIndex) -> impl Iterator<Item = PortStats> {
        let lanes = self.mapping.bytes() / PORT_COUNTERS_BYTES / PORTS_MAX;
        let counters = (0..lanes).map(move |lane| self.port(lane * PORTS_MAX + usize::from(port)));
        counters.flatten().map(PortCounters::read)
    }

    /// The `port`-th counters, if the file has so many.
    #[inline]
    pub fn port(&self, port: usize) -> Option<&PortCounters> {
        if port >= self.mapping.bytes() / PORT_COUNTERS_BYTES {
            return None;
        }
        // SAFETY: inside the mapping and aligned, since the base is page aligned; only atomics,
        // which a read-only mapping serves for loads. Writing methods are the worker's, whose
        // mapping is writable.
        Some(unsafe {
            self.mapping
                .base()
                .cast::<PortCounters>()
                .add(port)
                .as_ref()
        })
    }
}

/// One lane's counters of the switch's ports.
pub struct LanePorts {
    file: Arc<CounterFile>,
    first: usize,
}

impl LanePorts {
    /// The counters of the `lane`-th lane, in a file for more than `lane` times [`PORTS_MAX`] ports.
    pub fn new(file: Arc<CounterFile>, lane: usize) -> LanePorts {
        let first = lane * PORTS_MAX;
        assert!(file.port(first + PORTS_MAX - 1).is_some());
        LanePorts { file, first }
    }

    /// The counters of a port below [`PORTS_MAX`].
    #[inline]
    pub fn port(&self, port: PortIndex) -> &PortCounters {
        let counters = self.file.port(self.first + usize::from(port));
        counters.expect("the file has room for as many ports as a switch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_through_the_file_and_not_written() {
        let (ours, file) = CounterFile::create(4).unwrap();
        ours.port(3).unwrap().came_in(2, 120);
        let theirs = CounterFile::open(file.as_fd()).unwrap();
        assert_eq!(theirs.port(3).unwrap().read().bytes_in, 120);
        assert!(theirs.port(4).is_none());
        assert!(
            Mapping::new(
                file.as_fd(),
                PORT_COUNTERS_BYTES,
                ProtFlags::READ | ProtFlags::WRITE
            )
            .is_err()
        );
    }
}
