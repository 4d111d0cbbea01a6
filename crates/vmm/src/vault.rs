//! The vault: code in a page of its own, which a guest's process enters and never leaves.
//!
//! The process is a fork of a large program. The vault unmaps all of that (program, libraries, stack, heap), installs
//! the filter, and starts the guest. Only the guest's memory, the vault and its stacks remain. A guest that escapes
//! finds no other code, and the kernel keeps neither page tables for the program in each guest's process, nor pages of
//! the program that all guests map: to find out whether such a page is in use, it looks at every guest.
//!
//! Behind the process wall, the guest is then run by the process itself. Behind KVM, the vault runs the virtual
//! processors: it deals with the doorbells that exit, sleeps as the guest asked, and reports how the guest ended.
//!
//! A guest's CPUs are threads. The further ones enter the vault too, and report that they have left the memory to be
//! unmapped; the first waits for them, unmaps it, and lets them continue. Each installs the filter for itself. Each has
//! its own stack for signals, by whose address the vault knows which CPU got one; under KVM it is the thread's only one.

mod code;

use std::ffi::CStr;
use std::fs;
use std::os::fd::RawFd;

use abi::boot::Span;
use abi::control::HEARTBEAT_OFFSET;
use abi::{CPUS_MAX, PAGE};
use code::{
    Machine, Slots, WAKE_OFFSET, weir_vault_alarm, weir_vault_end, weir_vault_enter,
    weir_vault_fault, weir_vault_return, weir_vault_run, weir_vault_start, weir_vault_tick,
};
use rustix::mm::{MprotectFlags, mprotect};
use seccompiler::BpfProgram;

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::watchdog;

/// Bytes of the vault and of the stacks for signals.
pub(crate) const fn bytes(cpus: u64) -> u64 {
    VAULT_BYTES + cpus * SIGNAL_STACK_BYTES
}

const VAULT_BYTES: u64 = PAGE as u64;
/// A signal frame with all of AVX-512 and AMX takes 11 KiB.
const SIGNAL_STACK_BYTES: u64 = 1 << SIGNAL_STACK_SHIFT;
const SIGNAL_STACK_SHIFT: u32 = 15;
/// End of a process's address space.
const ADDRESS_END: u64 = 0x7fff_ffff_f000;

/// The kernel's form of a signal action.
#[repr(C)]
struct KernelAction {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

const SA_RESTORER: u64 = 0x0400_0000;

/// What the vaults of all guests have in common.
pub(crate) struct VaultTemplate {
    /// The kernel's pages in every process, vvar and vDSO; newer kernels refuse to unmap them.
    kernel_pages: Span,
}

/// What the vault starts.
pub(crate) enum Start<'a> {
    /// The guest's image, at its entry.
    Image(u64),
    /// Virtual processors, by their descriptors.
    Machine(&'a [RawFd]),
}

/// The entry of the vault in the guest's process.
pub(crate) struct Vault {
    enter: u64,
    signal_stacks: u64,
    /// Where the process's command line is kept; empty if there is no room for it.
    pub(crate) title: Span,
}

impl VaultTemplate {
    pub(crate) fn prepare() -> Result<VaultTemplate> {
        Ok(VaultTemplate {
            kernel_pages: kernel_pages()?,
        })
    }

    /// Writes the vault and directs the process's signals to it.
    pub(crate) fn prepare_entry(
        &self,
        start: &Start<'_>,
        layout: &Layout,
        filter: &BpfProgram,
        title: &CStr,
    ) -> Result<Vault> {
        let vault = layout.vault();
        let first = (&raw const weir_vault_start) as u64;
        let address = |symbol: *const u8| vault.address + (symbol as u64 - first);
        let mut slots = self.slots(layout);
        let tick = match start {
            Start::Image(entry) => {
                slots.entry = *entry;
                slots.stack = layout.stack(0).end();
                slots.stack_stride = layout.stack_stride();
                for signal in FAULTS {
                    handle(
                        signal,
                        address(&raw const weir_vault_fault),
                        address(&raw const weir_vault_return),
                    )?;
                }
                &raw const weir_vault_tick
            }
            Start::Machine(processors) => {
                slots.entry = address(&raw const weir_vault_run);
                slots.stack = vault.end() + SIGNAL_STACK_BYTES;
                slots.stack_stride = SIGNAL_STACK_BYTES;
                for (slot, processor) in slots.machine.processors.iter_mut().zip(*processors) {
                    *slot = *processor;
                }
                &raw const weir_vault_alarm
            }
        };
        handle(
            watchdog::SIGNAL as i32,
            address(tick),
            address(&raw const weir_vault_return),
        )?;
        Ok(Vault {
            enter: address(&raw const weir_vault_enter),
            signal_stacks: vault.end(),
            title: write(vault, slots, filter, title)?,
        })
    }

    /// The vault's first words, but for what depends on what it starts.
    fn slots(&self, layout: &Layout) -> Slots {
        let (low, high) = (self.kernel_pages.address, self.kernel_pages.end());
        let range = |start: u64, end: u64| Span {
            address: start,
            length: end - start,
        };
        let control = layout.control.address;
        Slots {
            report: layout.report.address,
            heartbeat: control + HEARTBEAT_OFFSET as u64,
            stack: 0,
            stack_stride: 0,
            signal_stacks: layout.vault().end(),
            cpus: layout.cpus,
            entry: 0,
            boot: layout.boot.address,
            filter_length: 0,
            filter: 0,
            unmap: [
                range(0, layout.start()),
                range(layout.end(), low),
                range(high, ADDRESS_END),
                // Last, since some kernels refuse it.
                range(low, high),
            ],
            machine: Machine {
                exits: layout.exit_page(0),
                doorbells_physical: layout.doorbells_physical(),
                doorbells: layout.doorbells.address,
                wake: control + WAKE_OFFSET as u64,
                data_wake: layout.data_wake,
                processors: [-1; CPUS_MAX],
            },
        }
    }
}

/// Signals of a guest's faults behind the process wall.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Copies the vault to its page, fills in its first words, and makes it unwritable. Behind it are the filter and a
/// title, whose place is returned.
fn write(vault: Span, mut slots: Slots, filter: &BpfProgram, title: &CStr) -> Result<Span> {
    let start = &raw const weir_vault_start;
    let code = (&raw const weir_vault_end) as usize - start as usize;
    let instructions = filter.as_slice();
    let filter_at = code.next_multiple_of(8);
    let title_at = filter_at + size_of_val(instructions);
    assert!(title_at <= vault.length as usize, "the vault is one page");
    let title = title.to_bytes_with_nul();
    let title = if title_at + title.len() <= vault.length as usize {
        title
    } else {
        &[]
    };
    slots.filter_length = instructions.len() as u64;
    slots.filter = vault.address + filter_at as u64;
    // SAFETY: the page is mapped writable and has room for all four; the sources are elsewhere.
    unsafe {
        let to = vault.address as *mut u8;
        std::ptr::copy_nonoverlapping(start, to, code);
        to.cast::<Slots>().write(slots);
        let from = instructions.as_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(from, to.add(filter_at), size_of_val(instructions));
        std::ptr::copy_nonoverlapping(title.as_ptr(), to.add(title_at), title.len());
        mprotect(
            to.cast(),
            vault.length as usize,
            MprotectFlags::READ | MprotectFlags::EXEC,
        )
    }
    .context("protecting the vault")?;
    Ok(Span {
        address: vault.address + title_at as u64,
        length: title.len() as u64,
    })
}

impl Vault {
    /// Gives this thread the signal stack of CPU `cpu`.
    pub(crate) fn use_signal_stack(&self, cpu: u64) -> Result<()> {
        let stack = libc::stack_t {
            ss_sp: (self.signal_stacks + cpu * SIGNAL_STACK_BYTES) as *mut libc::c_void,
            ss_flags: 0,
            ss_size: SIGNAL_STACK_BYTES as usize,
        };
        // SAFETY: the stack is mapped, and nothing else uses it.
        check(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }.into())
    }

    /// Becomes CPU `cpu` of the guest, once the threads of all its CPUs have called this.
    pub(crate) fn enter(&self, cpu: u64) -> Result<()> {
        forget_thread()?;
        // SAFETY: the vault is complete; the guest does not need the memory that it unmaps.
        let enter: extern "C" fn(u64) -> ! =
            unsafe { std::mem::transmute(self.enter as *const ()) };
        enter(cpu)
    }
}

fn check(result: i64) -> Result<()> {
    if result == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error()).context("preparing the wall")
}

/// Directs a signal to the vault. nix and libc would set a return path in the C library.
fn handle(signal: i32, handler: u64, restorer: u64) -> Result<()> {
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | SA_RESTORER;
    let action = KernelAction {
        handler,
        flags,
        restorer,
        mask: 0,
    };
    // SAFETY: the kernel reads one action; the handler is in the vault.
    check(unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const action,
            0usize,
            8usize,
        )
    })
}

/// Unregisters this thread's memory with the kernel before it is unmapped: the kernel writes to it (rseq) whenever
/// the thread is preempted. rustix and nix have neither call.
fn forget_thread() -> Result<()> {
    const UNREGISTER: i32 = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    // SAFETY: null is allowed: no thread waits for this one's end.
    unsafe { libc::syscall(libc::SYS_set_tid_address, 0usize) };
    // SAFETY: the name is a C string; a library without the symbol has registered nothing.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    if offset.is_null() {
        return Ok(());
    }
    // SAFETY: the symbol is a `ptrdiff_t`; FS:0 holds the thread pointer's own value on x86-64.
    let area = unsafe {
        let thread: u64;
        std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly));
        thread.wrapping_add_signed(offset.cast::<i64>().read() as i64)
    };
    // The length must be that of the registration, which the library doesn't report: 32 in the first version,
    // later the kernel's, rounded up.
    for length in (32..=256).step_by(4) {
        // SAFETY: asks the kernel to forget an area.
        let result = unsafe { libc::syscall(libc::SYS_rseq, area, length, UNREGISTER, SIGNATURE) };
        if result == 0 {
            return Ok(());
        }
    }
    // It was never registered (an old kernel, or disabled), or in an unknown way; then the guest's first
    // milliseconds end in a report of a fault.
    Ok(())
}

/// The addresses of vvar and vDSO, the same in all children.
fn kernel_pages() -> Result<Span> {
    let maps = fs::read_to_string("/proc/self/maps").context("reading this program's mappings")?;
    let mut pages: Option<Span> = None;
    for line in maps
        .lines()
        .filter(|l| l.contains("[vvar") || l.contains("[vdso]"))
    {
        let range = line.split(' ').next().unwrap_or("");
        let Some((low, high)) = range.split_once('-') else {
            continue;
        };
        let number = |text| u64::from_str_radix(text, 16);
        let (Ok(low), Ok(high)) = (number(low), number(high)) else {
            continue;
        };
        let (start, end) = pages.map_or((low, high), |p| (p.address.min(low), p.end().max(high)));
        pages = Some(Span {
            address: start,
            length: end - start,
        });
    }
    let none = Span {
        address: ADDRESS_END,
        length: 0,
    };
    let pages = pages.unwrap_or(none);
    if pages.end() > ADDRESS_END {
        return Err(Error::Image(
            "this program's address space is of an unknown kind",
        ));
    }
    Ok(pages)
}
