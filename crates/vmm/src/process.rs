//! The process wall: the same image, run by the child itself under a strict filter.
//!
//! Before the first instruction of the guest, code in a page of its own (the [vault]) unmaps everything that the
//! child inherited: program, libraries, stack, heap. Then it installs the filter and jumps. Only the guest's
//! memory, the vault and signal stacks remain. The guest may sleep on a futex, wake one, read the clock, ring its
//! doorbells, return from a signal and exit; any other system call ends it.
//!
//! A guest's CPUs are threads. The further ones enter the vault too, and report that they have left the memory to
//! be unmapped; the first waits for them, unmaps it, and lets them continue. Each has its own signal stack, by
//! whose address the vault knows which CPU got a signal, and installs the filter for itself.
//!
//! Faults arrive as signals at the vault, which copies the signal's information into the report and exits. A
//! hostile guest can write to the report and to the signal stack, since they are in its address space: it can
//! falsify the report of its own end, and nothing else.

mod vault;

use std::arch::x86_64::_rdtsc;
use std::cell::OnceCell;
use std::ffi::CStr;
use std::fs;
use std::time::{Duration, Instant};

use abi::PAGE;
use abi::boot::Span;
use abi::control::HEARTBEAT_OFFSET;
use rustix::mm::{MprotectFlags, mprotect};
use seccompiler::{BpfProgram, SeccompAction};
use vault::{
    Slots, weir_vault_end, weir_vault_enter, weir_vault_fault, weir_vault_return, weir_vault_start,
    weir_vault_tick,
};

use crate::child::{CONTROL_DOORBELL, SOCKETS_DOORBELL, SWITCH_DOORBELL};
use crate::error::{Context, Error, Result};
use crate::image::Image;
use crate::jail::{argument, compile};
use crate::layout::Layout;
use crate::watchdog;

/// Bytes of the vault and of the stacks for signals.
pub(crate) const fn private_bytes(cpus: u64) -> u64 {
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

/// The wall's prepared parts.
pub(crate) struct ProcessWall {
    filter: BpfProgram,
    /// The kernel's pages in every process, vvar and vDSO; newer kernels refuse to unmap them.
    kernel_pages: Span,
    tsc_khz: OnceCell<u64>,
    rseq: Option<isize>,
}

/// The entry of the vault in the guest's process.
pub(crate) struct Vault {
    enter: u64,
    signal_stacks: u64,
    rseq: Option<isize>,
    /// Where the process's command line is kept; empty if there is no room for it.
    pub(crate) title: Span,
}

impl ProcessWall {
    pub(crate) fn prepare() -> Result<Self> {
        let ring = |doorbell: i32| vec![argument(0, doorbell as u32), argument(2, 8)];
        let filter = compile(
            &[
                (libc::SYS_futex_waitv, vec![]),
                (
                    libc::SYS_futex,
                    vec![vec![argument(1, libc::FUTEX_WAKE as u32)]],
                ),
                (libc::SYS_clock_gettime, vec![]),
                (
                    libc::SYS_write,
                    [SWITCH_DOORBELL, CONTROL_DOORBELL, SOCKETS_DOORBELL]
                        .map(ring)
                        .into(),
                ),
                (libc::SYS_rt_sigreturn, vec![]),
                (libc::SYS_exit_group, vec![]),
            ],
            // Not KILL: the signal leads to a report.
            SeccompAction::Trap,
        )?;
        Ok(Self {
            filter,
            kernel_pages: kernel_pages()?,
            tsc_khz: OnceCell::new(),
            rseq: rseq_offset(),
        })
    }

    /// Ticks of the time stamp counter in a millisecond, measured once against the system's clock.
    pub(crate) fn tsc_khz(&self) -> u64 {
        *self.tsc_khz.get_or_init(|| {
            let (time, ticks) = time_and_ticks();
            std::thread::sleep(Duration::from_millis(20));
            let (later, more) = time_and_ticks();
            let nanoseconds = (later - time).as_nanos().max(1);
            (u128::from(more - ticks) * 1_000_000 / nanoseconds) as u64
        })
    }

    /// Writes the vault and directs the process's signals to it.
    pub(crate) fn prepare_entry(
        &self,
        image: &Image,
        layout: &Layout,
        title: &CStr,
    ) -> Result<Vault> {
        let vault = Span {
            address: layout.private.address,
            length: VAULT_BYTES,
        };
        let start = (&raw const weir_vault_start) as u64;
        let address = |symbol: *const u8| vault.address + (symbol as u64 - start);
        let title = self.write(image, layout, vault, title)?;
        let faults = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
            libc::SIGSYS,
        ];
        for signal in faults {
            handle(
                signal,
                address(&raw const weir_vault_fault),
                address(&raw const weir_vault_return),
            )?;
        }
        let tick = address(&raw const weir_vault_tick);
        handle(
            watchdog::SIGNAL as i32,
            tick,
            address(&raw const weir_vault_return),
        )?;
        Ok(Vault {
            enter: address(&raw const weir_vault_enter),
            signal_stacks: vault.end(),
            rseq: self.rseq,
            title,
        })
    }

    /// Copies the vault to its page, fills in its first words, and makes it unwritable. Behind it are the filter and
    /// a title, whose place is returned.
    fn write(&self, image: &Image, layout: &Layout, vault: Span, title: &CStr) -> Result<Span> {
        let start = &raw const weir_vault_start;
        let code = (&raw const weir_vault_end) as usize - start as usize;
        let filter_bytes = size_of_val(self.filter.as_slice());
        let filter = code.next_multiple_of(8);
        assert!(
            filter + filter_bytes <= vault.length as usize,
            "the vault is one page"
        );
        let title = title.to_bytes_with_nul();
        let title_at = filter + filter_bytes;
        let title = if title_at + title.len() <= vault.length as usize {
            title
        } else {
            &[]
        };
        let (low, high) = (self.kernel_pages.address, self.kernel_pages.end());
        let range = |start: u64, end: u64| Span {
            address: start,
            length: end - start,
        };
        let slots = Slots {
            report: layout.report.address,
            heartbeat: layout.control.address + HEARTBEAT_OFFSET as u64,
            stack: layout.stack(0).end(),
            stack_stride: layout.stack_stride(),
            signal_stacks: vault.end(),
            cpus: layout.cpus,
            entry: image.entry,
            boot: layout.boot.address,
            filter_length: self.filter.len() as u64,
            filter: vault.address + filter as u64,
            unmap: [
                range(0, layout.start()),
                range(layout.end(), low),
                range(high, ADDRESS_END),
                // Last, since some kernels refuse it.
                range(low, high),
            ],
        };
        // SAFETY: the page is mapped writable and has room for all four; the sources are elsewhere.
        unsafe {
            let to = vault.address as *mut u8;
            std::ptr::copy_nonoverlapping(start, to, code);
            to.cast::<Slots>().write(slots);
            let from = self.filter.as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(from, to.add(filter), filter_bytes);
            std::ptr::copy_nonoverlapping(title.as_ptr(), to.add(title_at), title.len());
            mprotect(
                to.cast(),
                vault.length as usize,
                MprotectFlags::READ | MprotectFlags::EXEC,
            )
        }
        .context("protecting the process wall's code")?;
        // Read-only from here on, as its guest expects.
        // SAFETY: it is not written to any more.
        unsafe {
            let boot = layout.boot.address as *mut libc::c_void;
            mprotect(boot, layout.boot.length as usize, MprotectFlags::READ)
        }
        .context("protecting the boot area")?;
        Ok(Span {
            address: vault.address + title_at as u64,
            length: title.len() as u64,
        })
    }
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

    /// Becomes CPU `cpu` of the guest, once all its CPUs' threads have called this.
    pub(crate) fn enter(&self, cpu: u64) -> Result<()> {
        forget_thread(self.rseq);
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
    Err(std::io::Error::last_os_error()).context("preparing the process wall")
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

/// Where the C library keeps the area that it registers with the kernel for a thread (rseq), from the thread's pointer
/// on; `None` if it registers none. The symbol is looked up here, once: that takes a new process 0.1 ms.
fn rseq_offset() -> Option<isize> {
    // SAFETY: the name is a C string.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    // SAFETY: the symbol is a `ptrdiff_t`.
    (!offset.is_null()).then(|| unsafe { offset.cast::<isize>().read() })
}

/// Unregisters this thread's memory with the kernel before it is unmapped: the kernel writes to it (rseq) whenever
/// the thread is preempted. rustix and nix have neither call.
fn forget_thread(rseq: Option<isize>) {
    const UNREGISTER: i32 = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    // SAFETY: null is allowed: no thread waits for this one's end.
    unsafe { libc::syscall(libc::SYS_set_tid_address, 0usize) };
    let Some(offset) = rseq else {
        return;
    };
    // SAFETY: FS:0 holds the thread pointer's own value on x86-64.
    let area = unsafe {
        let thread: u64;
        std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly));
        thread.wrapping_add_signed(offset as i64)
    };
    // The length must be that of the registration, which the library doesn't report: 32 in the first version,
    // later the kernel's, rounded up. If none fits, it was never registered (an old kernel, or disabled), or in an
    // unknown way; then the guest's first milliseconds end in a report of a fault.
    for length in (32..=256).step_by(4) {
        // SAFETY: asks the kernel to forget an area.
        let result = unsafe { libc::syscall(libc::SYS_rseq, area, length, UNREGISTER, SIGNATURE) };
        if result == 0 {
            return;
        }
    }
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

/// The system's clock and the time stamp counter at one moment: the fastest of several readings, since a thread may
/// lose its CPU between the two.
fn time_and_ticks() -> (Instant, u64) {
    // SAFETY: reads a counter.
    let ticks = || unsafe { _rdtsc() };
    let reading = |_| {
        let before = ticks();
        let time = Instant::now();
        let after = ticks();
        (after.wrapping_sub(before), (time, after))
    };
    let least = (0..10).map(reading).min_by_key(|(took, _)| *took);
    least.expect("some readings").1
}
