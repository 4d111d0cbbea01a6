//! The command line that `ps` shows of a guest's process.

use std::ffi::{CStr, CString};

use abi::boot::Span;

/// What the kernel shows of any process's memory, as it takes it from this one. The form is the kernel's `prctl_mm_map`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryMap {
    code: [u64; 2],
    data: [u64; 2],
    /// The start of the heap, and its end.
    heap: [u64; 2],
    stack: u64,
    arguments: [u64; 2],
    environment: [u64; 2],
    auxiliary: u64,
    auxiliary_length: u32,
    program: u32,
}

/// No other program.
const SAME: u32 = u32::MAX;

impl MemoryMap {
    /// This process's; `None` if the kernel does not tell it.
    pub(crate) fn own() -> Option<MemoryMap> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name before it may hold blanks and parentheses. The first field behind it is the third.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
        Some(MemoryMap {
            code: [field(26)?, field(27)?],
            stack: field(28)?,
            data: [field(45)?, field(46)?],
            heap: [field(47)?, 0],
            arguments: [field(48)?, field(49)?],
            environment: [field(50)?, field(51)?],
            auxiliary: 0,
            auxiliary_length: 0,
            program: SAME,
        })
    }

    /// Has the kernel show a text, which ends with a NUL byte and stays where it is, as the command line of this
    /// process, which was forked from the one with this map. If the kernel refuses, the command line stays.
    pub(crate) fn show(mut self, text: Span) {
        // SAFETY: asks where the heap ends.
        self.heap[1] = unsafe { libc::sbrk(0) } as u64;
        self.arguments = [text.address, text.end()];
        // rustix has no such call. Unlike the calls for single fields, this one needs no privilege.
        // SAFETY: the kernel reads the map, and changes only what it shows of this process.
        unsafe {
            libc::prctl(
                libc::PR_SET_MM,
                libc::PR_SET_MM_MAP,
                &raw const self,
                size_of::<MemoryMap>(),
                0,
            )
        };
    }
}

/// The command line of a guest.
pub(crate) fn of_guest(name: &str) -> CString {
    // Without NUL bytes there is always one.
    CString::new(format!("weir-guest: {}", name.replace('\0', ""))).unwrap_or_default()
}

/// Where a text lies, with the NUL byte at its end.
pub(crate) fn place(text: &CStr) -> Span {
    Span {
        address: text.as_ptr() as u64,
        length: text.count_bytes() as u64 + 1,
    }
}
