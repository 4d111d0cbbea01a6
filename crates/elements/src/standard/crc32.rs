//! The checksum of SetCRC32 and CheckCRC32.

use crc::{CRC_32_MPEG_2, Crc, Table};

use crate::prelude::*;

/// Bytes of a checksum.
pub(super) const BYTES: usize = 4;

/// The sum: Ethernet's polynomial, the highest bit first, from all ones, not inverted. An element
/// computes its 16 KiB of tables when it is created: they would grow the program by as much.
pub(super) struct Sum(Box<Crc<u32, Table<16>>>);

impl Default for Sum {
    fn default() -> Self {
        Sum(Box::new(Crc::<u32, Table<16>>::new(&CRC_32_MPEG_2)))
    }
}

impl Sum {
    #[inline]
    pub fn of(&self, bytes: &[u8]) -> [u8; BYTES] {
        self.0.checksum(bytes).to_ne_bytes()
    }
}
