//! The boot area: the parameters of a guest's boot.
//!
//! The wall writes the page-aligned area with [`write()`] before the guest's first instruction. The guest can
//! only read it, through [`BootArea`]. The area starts with [`BootPage`]. The guest's name and configuration
//! text follow at offsets in the page. The guest's interfaces are described in the data region's header
//! ([`crate::region`]).

use core::mem::{align_of, offset_of, size_of};

/// First word of the boot page.
pub const BOOT_MAGIC: u64 = u64::from_le_bytes(*b"WEIRBOOT");
/// Version of this layout. A guest refuses another one.
pub const BOOT_VERSION: u32 = 3;
/// Longest guest name, in bytes.
pub const NAME_MAX: usize = 255;
/// Longest configuration text at boot, in bytes.
pub const CONFIG_MAX: usize = 16 << 20;
/// [`BootPage::wall`]: the guest runs under KVM; doorbells are addresses.
pub const WALL_KVM: u32 = 1;
/// [`BootPage::wall`]: the guest is a process under seccomp; doorbells are descriptors.
pub const WALL_PROCESS: u32 = 2;

/// A range of the guest's address space. A length of 0 means "absent".
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Span {
    /// Address one past the last byte.
    pub const fn end(&self) -> u64 {
        self.address + self.length
    }

    /// Whether `address` lies in the range.
    pub const fn contains(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.length
    }
}

/// A piece of the boot area: offset from its first byte, and length in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Offset from the start of the boot area.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
}

/// The guest's doorbells.
///
/// Under KVM each is an address: an 8-byte store there rings the doorbell. In a process the first two are
/// descriptors of eventfds (`u64::MAX`: none), and so is the last. The others are unused there, since waiting, halting
/// and waking are system calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doorbells {
    /// Tells the switch that a ring it sleeps on has changed.
    pub switch: u64,
    /// Tells the control plane that the control region has changed.
    pub control: u64,
    /// Puts the CPU that rings it to sleep until it is woken. The value stored is the longest sleep in nanoseconds
    /// (`u64::MAX`: no limit).
    pub wait: u64,
    /// Ends the guest cleanly.
    pub halt: u64,
    /// Wakes the guest's first CPU. The doorbell of each further CPU is 8 bytes behind the previous one.
    /// Bump the CPU's word in the control region first.
    pub wake: u64,
    /// Tells CoreEngine that a ring of socket calls that it sleeps on has changed.
    pub sockets: u64,
}

/// The first bytes of the boot area.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootPage {
    /// [`BOOT_MAGIC`].
    pub magic: u64,
    /// [`BOOT_VERSION`].
    pub version: u32,
    /// [`WALL_KVM`] or [`WALL_PROCESS`].
    pub wall: u32,
    /// The guest's number on its host.
    pub guest_id: u64,
    /// Seed of the guest's random numbers, fresh for each boot.
    pub seed: [u64; 4],
    /// Ticks of the guest's time stamp counter in a millisecond.
    pub tsc_khz: u64,
    /// Wall-clock time just before the guest's first instruction, in nanoseconds since 1970.
    pub wall_clock_ns: u64,
    /// This area.
    pub boot: Span,
    /// The control region ([`crate::control`]).
    pub control: Span,
    /// The data region (packet rings and buffers).
    pub data: Span,
    /// Memory for the allocator, zeroed.
    pub heap: Span,
    /// The first CPU's stack; the page below it is never mapped.
    pub stack: Span,
    /// Bytes from one CPU's stack to the next one's.
    pub stack_stride: u64,
    /// Number of the guest's CPUs, from 1 to [`crate::CPUS_MAX`]. Each starts at the image's entry, with its
    /// number as second argument.
    pub cpus: u64,
    /// Doorbells.
    pub doorbells: Doorbells,
    /// The guest's name, UTF-8.
    pub name: Piece,
    /// Its configuration, bytes of no particular encoding.
    pub config: Piece,
    /// Address of the word by which the switch wakes the guest's first CPU; the words of the others follow. 0
    /// if there is no data region.
    pub data_wake: u64,
    /// The sockets' memory ([`crate::tenant::GUEST_BYTES`]).
    pub sockets: Span,
}

const _: () = {
    assert!(size_of::<Span>() == 16);
    assert!(size_of::<Piece>() == 8);
    assert!(size_of::<Doorbells>() == 48);
    assert!(align_of::<BootPage>() == 8);
    assert!(size_of::<BootPage>() == 256);
    assert!(offset_of!(BootPage, guest_id) == 16);
    assert!(offset_of!(BootPage, tsc_khz) == 56);
    assert!(offset_of!(BootPage, boot) == 72);
    assert!(offset_of!(BootPage, doorbells) == 168);
    assert!(offset_of!(BootPage, name) == 216);
    assert!(offset_of!(BootPage, data_wake) == 232);
};

/// Why a boot area can't be written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootError {
    /// The name is longer than [`NAME_MAX`].
    NameTooLong(usize),
    /// The configuration is longer than [`CONFIG_MAX`].
    ConfigTooLong(usize),
    /// The area is shorter than [`area_length`].
    AreaTooShort,
    /// The first word is not [`BOOT_MAGIC`].
    NotABootPage,
    /// The version is not [`BOOT_VERSION`].
    Version(u32),
    /// A piece lies outside the area.
    Layout,
}

impl core::fmt::Display for BootError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NameTooLong(n) => {
                write!(
                    f,
                    "the guest's name has {n} bytes, and the maximum is {NAME_MAX}"
                )
            }
            Self::ConfigTooLong(n) => {
                write!(
                    f,
                    "the configuration has {n} bytes, and the maximum is {CONFIG_MAX}"
                )
            }
            Self::AreaTooShort => f.write_str("the boot area is too short for its contents"),
            Self::NotABootPage => f.write_str("there is no boot page at this address"),
            Self::Version(v) => write!(
                f,
                "the boot page has version {v}, and this image knows {BOOT_VERSION}: build both from one tree"
            ),
            Self::Layout => f.write_str("the boot page has an offset outside its area"),
        }
    }
}

impl core::error::Error for BootError {}

/// Bytes that a boot area with these contents needs.
pub const fn area_length(name: usize, config: usize) -> usize {
    size_of::<BootPage>() + name + config
}

/// Writes a boot area: `page` with its magic, version and pieces filled in, then name and configuration.
pub fn write(area: &mut [u8], page: &BootPage, name: &str, config: &[u8]) -> Result<(), BootError> {
    if name.len() > NAME_MAX {
        return Err(BootError::NameTooLong(name.len()));
    }
    if config.len() > CONFIG_MAX {
        return Err(BootError::ConfigTooLong(config.len()));
    }
    if area.len() < area_length(name.len(), config.len()) {
        return Err(BootError::AreaTooShort);
    }
    let mut offset = size_of::<BootPage>();
    let mut put = |bytes: &[u8]| {
        area[offset..offset + bytes.len()].copy_from_slice(bytes);
        let piece = Piece {
            offset: offset as u32,
            length: bytes.len() as u32,
        };
        offset += bytes.len();
        piece
    };
    let page = BootPage {
        magic: BOOT_MAGIC,
        version: BOOT_VERSION,
        name: put(name.as_bytes()),
        config: put(config),
        ..*page
    };
    // SAFETY: the page consists of integers without padding (its size, asserted above, is the sum of its
    // fields' sizes), so every byte of it is initialized.
    let bytes = unsafe {
        core::slice::from_raw_parts((&raw const page).cast::<u8>(), size_of::<BootPage>())
    };
    area[..bytes.len()].copy_from_slice(bytes);
    Ok(())
}

/// A guest's view of its boot area, checked once in [`BootArea::new`].
#[derive(Clone, Copy, Debug)]
pub struct BootArea<'a> {
    page: &'a BootPage,
    bytes: &'a [u8],
}

impl<'a> BootArea<'a> {
    /// The boot area at `address`.
    ///
    /// # Safety
    /// `address` is that of a boot area that stays mapped and unchanged for `'a`. The wall promises both to
    /// its guest: the area is written before the first instruction and read-only from then on.
    pub unsafe fn new(address: *const u8) -> Result<Self, BootError> {
        // SAFETY: as promised by the caller.
        let page = unsafe { &*address.cast::<BootPage>() };
        if page.magic != BOOT_MAGIC {
            return Err(BootError::NotABootPage);
        }
        if page.version != BOOT_VERSION {
            return Err(BootError::Version(page.version));
        }
        let length = usize::try_from(page.boot.length).map_err(|_| BootError::Layout)?;
        // SAFETY: the wall maps this many bytes here, as the page says.
        let bytes = unsafe { core::slice::from_raw_parts(address, length) };
        let area = Self { page, bytes };
        for piece in [page.name, page.config] {
            area.piece(piece).ok_or(BootError::Layout)?;
        }
        Ok(area)
    }

    fn piece(&self, piece: Piece) -> Option<&'a [u8]> {
        let start = piece.offset as usize;
        self.bytes
            .get(start..start.checked_add(piece.length as usize)?)
    }

    /// The fixed part.
    pub fn page(&self) -> &'a BootPage {
        self.page
    }

    /// The guest's name; empty if it is not UTF-8.
    pub fn name(&self) -> &'a str {
        core::str::from_utf8(self.piece(self.page.name).unwrap_or(&[])).unwrap_or("")
    }

    /// The configuration text.
    pub fn config(&self) -> &'a [u8] {
        self.piece(self.page.config).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[repr(align(4096))]
    struct Aligned([u8; 4096]);

    fn page(length: usize) -> BootPage {
        BootPage {
            boot: Span {
                address: 0,
                length: length as u64,
            },
            ..BootPage::default()
        }
    }

    fn open(area: &Aligned) -> Result<BootArea<'_>, BootError> {
        // SAFETY: the array outlives the view and can't be written to while it is borrowed.
        unsafe { BootArea::new(area.0.as_ptr()) }
    }

    #[test]
    fn a_written_area_reads_back() {
        let mut area = Aligned([0; 4096]);
        write(&mut area.0, &page(4096), "fw", b"Idle -> Discard;").unwrap();
        let read = open(&area).unwrap();
        assert_eq!(read.name(), "fw");
        assert_eq!(read.config(), b"Idle -> Discard;");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = write(&mut [0; 260], &page(260), "name", b"config").unwrap_err();
        assert_eq!(error, BootError::AreaTooShort);
        let long = std::string::String::from("n").repeat(NAME_MAX + 1);
        let error = write(&mut [0; 4096], &page(4096), &long, b"").unwrap_err();
        assert_eq!(error, BootError::NameTooLong(NAME_MAX + 1));
        assert!(std::format!("{error}").contains("the maximum is 255"));
    }

    #[test]
    fn a_foreign_page_is_refused() {
        let mut area = Aligned([0; 4096]);
        assert_eq!(open(&area).unwrap_err(), BootError::NotABootPage);
        write(&mut area.0, &page(4096), "x", b"y").unwrap();
        area.0[offset_of!(BootPage, version)] = 9;
        assert_eq!(open(&area).unwrap_err(), BootError::Version(9));
        area.0[offset_of!(BootPage, version)] = BOOT_VERSION as u8;
        area.0[offset_of!(BootPage, config) + 1] = 0xff;
        assert_eq!(open(&area).unwrap_err(), BootError::Layout);
    }
}
