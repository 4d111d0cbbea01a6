//! The command line that `ps` shows of a process: a guest's, or another one that was forked from the program.

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

    /// Makes the kernel show a text as the command line of this process, which was forked from the one with this map.
    /// The text ends with a NUL byte and must not move. If the kernel refuses, the command line stays.
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

/// Makes `ps` show a text as the command line of this process, which was forked from another one. If the kernel
/// refuses, the command line stays.
pub fn show_title(text: &CStr) {
    if let Some(map) = MemoryMap::own() {
        // The kernel shows anonymous memory only, which the program's constants are not in.
        let text = Box::leak(CString::from(text).into_boxed_c_str());
        map.show(place(text));
    }
}

/// What the command line of a guest begins with.
const GUEST: &str = "weir-guest: ";

/// The command line of a guest, with its owner if it has one.
pub(crate) fn of_guest(name: &str, owner: &str) -> CString {
    let owner = match owner {
        "" => String::new(),
        owner => format!(" ({owner})"),
    };
    // Without NUL bytes there is always one.
    CString::new(format!("{GUEST}{name}{owner}").replace('\0', "")).unwrap_or_default()
}

/// The name of a guest, if a command line is that of one of this owner's.
pub fn guest_of(command: &[u8], owner: &str) -> Option<String> {
    let text = std::str::from_utf8(command).ok()?.trim_end_matches('\0');
    let name = text.strip_prefix(GUEST)?.strip_suffix(')')?;
    let name = name.strip_suffix(owner)?.strip_suffix(" (")?;
    Some(name.to_string())
}

/// Where a text lies, with the NUL byte at its end.
pub(crate) fn place(text: &CStr) -> Span {
    Span {
        address: text.as_ptr() as u64,
        length: text.count_bytes() as u64 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_told_from_another_owners() {
        let title = of_guest("fw", "/run/weir");
        assert_eq!(title.to_bytes(), b"weir-guest: fw (/run/weir)");
        let command = title.as_bytes_with_nul();
        assert_eq!(guest_of(command, "/run/weir").as_deref(), Some("fw"));
        for other in ["/run/weir2", "weir", "/run", "/x/run/weir"] {
            assert_eq!(guest_of(command, other), None, "{other}");
        }
        assert_eq!(guest_of(b"weir-guest: fw\0", "/run/weir"), None);
    }
}
