//! The guest image: checked, laid out once in a memory file that all guests map, symbols for crash reports.

use std::cell::OnceCell;
use std::os::fd::OwnedFd;
use std::time::Duration;

use abi::PAGE;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{Errno, pwrite};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Context, Error, Result};

/// Link address of every image.
pub(crate) const IMAGE_BASE: u64 = 0x40_0000;
/// Largest image, in bytes of memory.
const IMAGE_MAX: u64 = 64 << 20;
/// How often, and after what pauses, sealing is tried again while somebody has the pages.
const SEAL_TRIES: usize = 100;
const SEAL_PAUSE: Duration = Duration::from_millis(10);

/// Permissions of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Execute,
    Read,
    Write,
}

/// Bytes of a large page.
pub(crate) const LARGE_PAGE: u64 = 2 << 20;

/// A part of the image with one kind of access. Whole pages; whole large pages where it is not writable and the
/// host has one for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) access: Access,
}

/// An image, ready to be mapped.
pub(crate) struct Image {
    /// The image's memory as a file: offset 0 is [`IMAGE_BASE`].
    pub(crate) file: OwnedFd,
    /// Bytes from the base to the end, whole pages.
    pub(crate) length: u64,
    pub(crate) entry: u64,
    pub(crate) segments: Vec<Segment>,
    /// The ELF file: a symbol is looked up when it is asked for.
    bytes: &'static [u8],
    fingerprint: OnceCell<u64>,
}

impl Image {
    pub(crate) fn parse(bytes: &'static [u8]) -> Result<Self> {
        let broken = |_| Error::Image("it is not a complete ELF file");
        let header = FileHeader64::<LE>::parse(bytes).map_err(broken)?;
        let little = header.endian().map_err(broken)?;
        if header.e_machine(little) != elf::EM_X86_64 || header.e_type(little) != elf::ET_EXEC {
            return Err(Error::Image("it is not a static x86-64 program"));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("weir-image", flags).context("a memory file for the image")?;
        let mut segments: Vec<Segment> = Vec::new();
        for part in header.program_headers(little, bytes).map_err(broken)? {
            if part.p_type(little) != elf::PT_LOAD || part.p_memsz(little) == 0 {
                continue;
            }
            let segment = segment(part)?;
            if segments
                .last()
                .is_some_and(|last| last.address + last.length > segment.address)
            {
                return Err(Error::Image("its segments overlap"));
            }
            let content = part
                .data(little, bytes)
                .map_err(|()| Error::Image("a segment lies outside the file"))?;
            if content.len() as u64 > segment.length {
                return Err(Error::Image(
                    "a segment is longer in the file than in memory",
                ));
            }
            let offset = segment.address - IMAGE_BASE;
            ftruncate(&file, offset + segment.length).context("growing the image's memory file")?;
            write_all(&file, content, offset)?;
            segments.push(segment);
        }
        let last = segments
            .last()
            .ok_or(Error::Image("it has nothing to load"))?;
        let length = last.address + last.length - IMAGE_BASE;
        let entry = header.e_entry(little);
        let starts = |s: &Segment| {
            s.access == Access::Execute && entry >= s.address && entry - s.address < s.length
        };
        if !segments.iter().any(starts) {
            return Err(Error::Image("its entry point is not in its code"));
        }
        for segment in &mut segments {
            if segment.access != Access::Write && use_large_pages(&file, segment) {
                segment.length = segment.length.next_multiple_of(LARGE_PAGE);
            }
        }
        seal(&file)?;
        Ok(Self {
            file,
            length,
            entry,
            segments,
            bytes,
            fingerprint: OnceCell::new(),
        })
    }

    /// A number by which it is told from other images. What the memory file holds says less: which of its holes are
    /// filled is by the pages that the host had, and by what was read.
    pub(crate) fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let mut hash = crc32fast::Hasher::new();
            let header = FileHeader64::<LE>::parse(self.bytes);
            let parts = header.and_then(|header| header.program_headers(LE, self.bytes));
            for part in parts.unwrap_or_default() {
                if part.p_type(LE) == elf::PT_LOAD {
                    hash.update(&part.p_vaddr(LE).to_le_bytes());
                    hash.update(part.data(LE, self.bytes).unwrap_or_default());
                }
            }
            self.length << 32 | u64::from(hash.finalize())
        })
    }

    /// Bytes of the image that are private to each guest.
    pub(crate) fn private(&self) -> u64 {
        let written = self.segments.iter().filter(|s| s.access == Access::Write);
        written.map(|s| s.length).sum()
    }

    /// The function at an address, and the offset in it; none for an image without symbols.
    pub(crate) fn symbol(&self, address: u64) -> Option<String> {
        let header = FileHeader64::<LE>::parse(self.bytes).ok()?;
        let sections = header.sections(LE, self.bytes).ok()?;
        let table = sections.symbols(LE, self.bytes, elf::SHT_SYMTAB).ok()?;
        let is_code =
            |symbol: &&_| matches!(Sym::st_type(*symbol), elf::STT_FUNC | elf::STT_NOTYPE);
        let start = |symbol: &elf::Sym64<LE>| symbol.st_value(LE);
        let starts = |symbol: &&_| (IMAGE_BASE..=address).contains(&start(symbol));
        let all = table.iter().filter(is_code).filter(starts);
        let symbol = all.max_by_key(|symbol| start(symbol))?;
        let offset = address - start(symbol);
        let name = String::from_utf8_lossy(symbol.name(LE, table.strings()).ok()?);
        let is_inside = offset < symbol.st_size(LE).max(1);
        is_inside.then(|| format!("{:#}+{offset:#x}", rustc_demangle::demangle(&name)))
    }

    /// The image's permissions at an address.
    pub(crate) fn access(&self, address: u64) -> Option<Access> {
        self.segments
            .iter()
            .find(|s| address >= s.address && address - s.address < s.length)
            .map(|s| s.access)
    }
}

fn segment(part: &elf::ProgramHeader64<LE>) -> Result<Segment> {
    let address = part.p_vaddr(LE);
    let size = part.p_memsz(LE);
    if !address.is_multiple_of(PAGE as u64) {
        return Err(Error::Image("a segment does not start on a page"));
    }
    if address < IMAGE_BASE || size > IMAGE_MAX || address - IMAGE_BASE > IMAGE_MAX - size {
        return Err(Error::Image("a segment lies outside the image's range"));
    }
    let access = match part.p_flags(LE) & (elf::PF_R | elf::PF_W | elf::PF_X) {
        flags if flags == elf::PF_R | elf::PF_X => Access::Execute,
        elf::PF_R => Access::Read,
        flags if flags == elf::PF_R | elf::PF_W => Access::Write,
        _ => {
            return Err(Error::Image(
                "a segment is both writable and executable, or neither readable",
            ));
        }
    };
    Ok(Segment {
        address,
        length: size.next_multiple_of(PAGE as u64),
        access,
    })
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<()> {
    while !bytes.is_empty() {
        let written = pwrite(file, bytes, offset).context("writing the image's memory file")?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Collapses a segment's part of the memory file into huge pages. A guest then maps it with one entry, and starts
/// without a fault for each page, which under KVM takes longer than all the rest. Where that is not possible, or
/// the next segment is too close, the part keeps its ordinary pages.
fn use_large_pages(file: &OwnedFd, segment: &Segment) -> bool {
    let length = segment.length.next_multiple_of(LARGE_PAGE);
    let offset = segment.address - IMAGE_BASE;
    let size = rustix::fs::fstat(file).map_or(0, |stat| stat.st_size as u64);
    if !offset.is_multiple_of(LARGE_PAGE) || offset + length > size {
        return false;
    }
    let at = segment.address as *mut libc::c_void;
    let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: replaces nothing, and is unmapped again before any other use of the address.
    unsafe {
        let Ok(mapped) = mmap(at, length as usize, access, flags, file, offset) else {
            return false;
        };
        let collapsed = libc::madvise(mapped, length as usize, libc::MADV_COLLAPSE) == 0;
        munmap(mapped, length as usize).is_ok() && collapsed
    }
}

/// Makes the pages that all guests share permanently read-only. A process that was forked while they were mapped has
/// them mapped until its own program runs, and the kernel may hold a page for a moment: both pass.
fn seal(file: &OwnedFd) -> Result<()> {
    use rustix::fs::{SealFlags, fcntl_add_seals};
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    let mut sealed = fcntl_add_seals(file, seals);
    for _ in 0..SEAL_TRIES {
        if sealed != Err(Errno::BUSY) {
            break;
        }
        std::thread::sleep(SEAL_PAUSE);
        sealed = fcntl_add_seals(file, seals);
    }
    sealed.context("sealing the image's memory file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_mapped_for_a_moment_are_sealed() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("seal", flags).unwrap();
        rustix::fs::ftruncate(&file, PAGE as u64).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address that the kernel chooses; nothing uses the mapping.
        let mapped = unsafe {
            let none = std::ptr::null_mut();
            mmap(none, PAGE, access, MapFlags::SHARED, &file, 0).unwrap()
        };
        let at = mapped.expose_provenance();
        let unmaps = std::thread::spawn(move || {
            std::thread::sleep(SEAL_PAUSE * 3);
            // SAFETY: the mapping above.
            unsafe { munmap(std::ptr::with_exposed_provenance_mut(at), PAGE) }
        });
        seal(&file).unwrap();
        unmaps.join().unwrap().unwrap();
        assert!(write_all(&file, &[1], 0).is_err());
    }

    #[test]
    fn the_built_image_is_write_xor_execute_and_small() {
        let image = Image::parse(crate::IMAGE).unwrap();
        let header = FileHeader64::<LE>::parse(crate::IMAGE).unwrap();
        let parts = header.program_headers(LE, crate::IMAGE).unwrap();
        let loaded = parts.iter().filter(|part| part.p_type(LE) == elf::PT_LOAD);
        // Code is in one large page and constants are in another, once for all guests of a host.
        // An image for debugging is built in less time, and is larger.
        let most = if cfg!(debug_assertions) { 2 } else { 1 } * LARGE_PAGE;
        for part in loaded {
            let bytes = part.p_memsz(LE);
            assert!(bytes <= most, "{bytes} bytes");
        }
        assert_eq!(image.access(image.entry), Some(Access::Execute));
        assert_eq!(image.access(IMAGE_BASE + image.length), None);
        assert!(image.symbol(image.entry).unwrap().starts_with("_start"));
    }

    #[test]
    fn the_fingerprint_is_of_the_program() {
        let image = Image::parse(crate::IMAGE).unwrap();
        let before = image.fingerprint();
        // A read fills a hole of the file.
        let length = image.length as usize;
        // SAFETY: the address is the kernel's choice.
        let memory = unsafe {
            let at = std::ptr::null_mut();
            mmap(
                at,
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                &image.file,
                0,
            )
            .unwrap()
        };
        for page in (0..length).step_by(PAGE) {
            // SAFETY: the byte is mapped.
            unsafe { memory.cast::<u8>().add(page).read_volatile() };
        }
        // SAFETY: nothing refers to it any more.
        unsafe { munmap(memory, length) }.unwrap();
        let image = Image {
            fingerprint: OnceCell::new(),
            ..image
        };
        assert_eq!(image.fingerprint(), before);
        let mut other = crate::IMAGE.to_vec();
        let header = FileHeader64::<LE>::parse(crate::IMAGE).unwrap();
        let parts = header.program_headers(LE, crate::IMAGE).unwrap();
        let code = parts.iter().find(|part| {
            let start = part.p_vaddr(LE);
            part.p_type(LE) == elf::PT_LOAD
                && (start..start + part.p_filesz(LE)).contains(&image.entry)
        });
        let code = code.unwrap();
        let place = code.p_offset(LE) + image.entry - code.p_vaddr(LE);
        other[place as usize] ^= 1;
        assert_ne!(Image::parse(other.leak()).unwrap().fingerprint(), before);
    }

    #[test]
    fn damaged_images_are_refused_in_a_sentence() {
        for length in [0, 10, 64, 200, 5000] {
            assert!(Image::parse(&crate::IMAGE[..length]).is_err());
        }
        let mut image = crate::IMAGE.to_vec();
        image[16] = 3; // ET_DYN
        let error = Image::parse(image.leak()).err().unwrap().to_string();
        assert!(error.contains("not a static x86-64 program"), "{error}");
    }
}
