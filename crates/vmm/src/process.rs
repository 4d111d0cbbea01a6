//! The process wall: the same image, run by the child itself under a strict filter.
//!
//! Before the first instruction of the guest, a piece of code in a page of its own (the vault, below) unmaps
//! everything that the child inherited: program, libraries, stack, heap. Then it installs the filter and jumps.
//! What is left is the guest's memory, the vault and stacks for signals. The guest may sleep on a futex, wake
//! one, read the clock, ring its two doorbells, return from a signal and exit; any other system call ends it.
//!
//! A guest's CPUs are threads. Those beside the first come to the vault too, and say that they have left what
//! is about to go; the first waits for them, unmaps it, and lets them on. Each has a signal stack of its own, by
//! whose place the vault knows which CPU a signal came to, and installs the filter for itself.
//!
//! Faults arrive as signals at the vault, which copies what the kernel says of them into the report and exits.
//! A guest that goes wrong in earnest can write to the report and to the signal stack, since they are in its
//! address space: it can lie about its own end, and that is all.

use std::arch::{global_asm, x86_64::_rdtsc};
use std::cell::OnceCell;
use std::fs;
use std::time::{Duration, Instant};

use abi::boot::Span;
use abi::control::{HEARTBEAT_OFFSET, HEARTBEAT_STRIDE};
use abi::{CPUS_MAX, PAGE};
use rustix::mm::{MprotectFlags, mprotect};
use seccompiler::{BpfProgram, SeccompAction};

use crate::child::{CONTROL_DOORBELL, SWITCH_DOORBELL};
use crate::error::{Context, Error, Result};
use crate::image::Image;
use crate::jail::{argument, compile};
use crate::layout::Layout;
use crate::report::kind;
use crate::watchdog;

/// Bytes of the vault and of the stacks for signals.
pub(crate) const fn private_bytes(cpus: u64) -> u64 {
    VAULT_BYTES + cpus * SIGNAL_STACK_BYTES
}

const VAULT_BYTES: u64 = PAGE as u64;
/// A signal frame with all of AVX-512 and AMX takes 11 KiB.
const SIGNAL_STACK_BYTES: u64 = 1 << SIGNAL_STACK_SHIFT;
const SIGNAL_STACK_SHIFT: u32 = 15;
/// Pauses that a CPU makes for another's report to be written, some milliseconds.
const PAUSES: u32 = 1 << 18;

const _: () = assert!(CPUS_MAX == 8 && HEARTBEAT_STRIDE == 1 << 6);

/// End of a process's address space.
const ADDRESS_END: u64 = 0x7fff_ffff_f000;

// The vault's code is copied to another address, so it refers to itself only. Its first words are filled in
// then (`Slots`).
global_asm!(
    ".pushsection .rodata.weir_vault, \"a\", @progbits",
    ".balign 16",
    ".globl weir_vault_start",
    "weir_vault_start:",
    "20: .quad 0", // report
    "21: .quad 0", // the first CPU's heartbeat
    "22: .quad 0", // its stack
    "27: .quad 0", // bytes to the next CPU's stack
    "28: .quad 0", // the first signal stack
    "29: .quad 0", // CPUs
    "23: .quad 0", // its entry
    "24: .quad 0", // its boot area
    "25: .quad 0", // the filter: length, then address of the instructions
    ".quad 0",
    "26: .fill 8, 8, 0", // four ranges to unmap: address and length
    ".balign 16",
    // Unmap, install the filter, start the guest. The CPU's number is in RDI.
    ".globl weir_vault_enter",
    "weir_vault_enter:",
    "mov r15, rdi",
    "mov rsp, [rip + 27b]",
    "imul rsp, r15",
    "add rsp, [rip + 22b]",
    "mov rbx, [rip + 20b]",
    "lock inc dword ptr [rbx + 208]",
    "test r15, r15",
    "jnz 35f",
    "33:",
    "mov eax, [rbx + 208]",
    "cmp eax, [rip + 29b]",
    "jae 34f",
    "mov eax, {sched_yield}",
    "syscall",
    "jmp 33b",
    "34:",
    "lea r12, [rip + 26b]",
    "mov r13d, 4",
    "30:",
    "mov rdi, [r12]",
    "mov rsi, [r12 + 8]",
    "test rsi, rsi",
    "jz 31f",
    "mov eax, {munmap}",
    "syscall",
    "31:",
    "add r12, 16",
    "dec r13d",
    "jnz 30b",
    "mov dword ptr [rbx + 212], 1",
    "jmp 36f",
    "37:",
    "mov eax, {sched_yield}",
    "syscall",
    "35:",
    "cmp dword ptr [rbx + 212], 0",
    "je 37b",
    "36:",
    "mov eax, {arch_prctl}",
    "mov edi, {set_fs}",
    "xor esi, esi",
    "syscall",
    "mov eax, {seccomp}",
    "mov edi, {set_filter}",
    "xor esi, esi",
    "lea rdx, [rip + 25b]",
    "syscall",
    "test rax, rax",
    "jnz 32f",
    "mov rdi, [rip + 24b]",
    "mov rsi, r15",
    "mov rax, [rip + 23b]",
    "xor ebx, ebx",
    "xor ecx, ecx",
    "xor edx, edx",
    "xor ebp, ebp",
    "xor r8d, r8d",
    "xor r9d, r9d",
    "xor r10d, r10d",
    "xor r11d, r11d",
    "xor r12d, r12d",
    "xor r13d, r13d",
    "xor r14d, r14d",
    "xor r15d, r15d",
    "jmp rax",
    "32:",
    "ud2",
    // A fault: signal in EDI, siginfo at RSI, ucontext at RDX. The first CPU to come here reports.
    ".globl weir_vault_fault",
    "weir_vault_fault:",
    "mov eax, {kind_signal}",
    "40:",
    "mov r10, rsp",
    "sub r10, [rip + 28b]",
    "shr r10, {signal_stack_shift}",
    "and r10d, 7",
    "mov r8, [rip + 20b]",
    "mov ecx, 1",
    "xchg [r8 + 200], ecx",
    "test ecx, ecx",
    "jnz 43f",
    "mov [r8 + 204], r10d",
    "mov [r8 + 4], edi",
    "mov r9, [rsi + 16]",
    "mov [r8 + 8], r9",
    "xor ecx, ecx",
    "41:",
    "mov r9, [rdx + rcx * 8 + 40]",
    "mov [r8 + rcx * 8 + 16], r9",
    "inc ecx",
    "cmp ecx, 23",
    "jb 41b",
    "mov [r8], eax",
    "45:",
    "mov eax, {exit_group}",
    "xor edi, edi",
    "syscall",
    "ud2",
    "43:",
    "mov ecx, {pauses}",
    "44:",
    "pause",
    "dec ecx",
    "jnz 44b",
    "jmp 45b",
    // A tick of the watchdog: has the heart beaten since the last?
    ".globl weir_vault_tick",
    "weir_vault_tick:",
    "mov r10, rsp",
    "sub r10, [rip + 28b]",
    "shr r10, {signal_stack_shift}",
    "and r10d, 7",
    "mov r9, r10",
    "shl r9, 6",
    "add r9, [rip + 21b]",
    "mov r9, [r9]",
    "shl r10, 4",
    "add r10, [rip + 20b]",
    "cmp r9, [r10 + 216]",
    "jne 42f",
    "inc qword ptr [r10 + 224]",
    "mov eax, {kind_watchdog}",
    "cmp qword ptr [r10 + 224], {ticks}",
    "jae 40b",
    "ret",
    "42:",
    "mov [r10 + 216], r9",
    "mov qword ptr [r10 + 224], 0",
    "ret",
    ".globl weir_vault_return",
    "weir_vault_return:",
    "mov eax, {rt_sigreturn}",
    "syscall",
    ".globl weir_vault_end",
    "weir_vault_end:",
    ".popsection",
    munmap = const libc::SYS_munmap,
    sched_yield = const libc::SYS_sched_yield,
    arch_prctl = const libc::SYS_arch_prctl,
    set_fs = const 0x1002,
    seccomp = const libc::SYS_seccomp,
    set_filter = const libc::SECCOMP_SET_MODE_FILTER,
    exit_group = const libc::SYS_exit_group,
    rt_sigreturn = const libc::SYS_rt_sigreturn,
    kind_signal = const kind::SIGNAL,
    kind_watchdog = const kind::WATCHDOG,
    ticks = const watchdog::TICKS,
    signal_stack_shift = const SIGNAL_STACK_SHIFT,
    pauses = const PAUSES,
);

unsafe extern "C" {
    static weir_vault_start: u8;
    static weir_vault_enter: u8;
    static weir_vault_fault: u8;
    static weir_vault_tick: u8;
    static weir_vault_return: u8;
    static weir_vault_end: u8;
}

/// The vault's first words.
#[repr(C)]
struct Slots {
    report: u64,
    heartbeat: u64,
    stack: u64,
    stack_stride: u64,
    signal_stacks: u64,
    cpus: u64,
    entry: u64,
    boot: u64,
    filter_length: u64,
    filter: u64,
    unmap: [Span; 4],
}

/// The kernel's own form of a signal action.
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
    /// The kernel's pages in every process, vvar and vDSO; newer kernels don't let go of them.
    kernel_pages: Span,
    tsc_khz: OnceCell<u64>,
}

/// The guest's process, ready to become the guest.
pub(crate) struct Vault {
    enter: u64,
    signal_stacks: u64,
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
                    vec![ring(SWITCH_DOORBELL), ring(CONTROL_DOORBELL)],
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
        })
    }

    /// Ticks of the time stamp counter in a millisecond, measured once against the system's clock.
    pub(crate) fn tsc_khz(&self) -> u64 {
        *self.tsc_khz.get_or_init(|| {
            // SAFETY: reads a counter.
            let sample = || (Instant::now(), unsafe { _rdtsc() });
            let (time, ticks) = sample();
            std::thread::sleep(Duration::from_millis(20));
            let (later, more) = sample();
            let nanoseconds = (later - time).as_nanos().max(1);
            (u128::from(more - ticks) * 1_000_000 / nanoseconds) as u64
        })
    }

    /// Writes the vault and hands the process's signals to it.
    pub(crate) fn prepare_entry(&self, image: &Image, layout: &Layout) -> Result<Vault> {
        let vault = Span {
            address: layout.private.address,
            length: VAULT_BYTES,
        };
        let start = (&raw const weir_vault_start) as u64;
        let place = |symbol: *const u8| vault.address + (symbol as u64 - start);
        self.write(image, layout, vault)?;
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
                place(&raw const weir_vault_fault),
                place(&raw const weir_vault_return),
            )?;
        }
        let tick = place(&raw const weir_vault_tick);
        handle(
            watchdog::SIGNAL as i32,
            tick,
            place(&raw const weir_vault_return),
        )?;
        Ok(Vault {
            enter: place(&raw const weir_vault_enter),
            signal_stacks: vault.end(),
        })
    }

    /// Copies the vault to its page, fills in its first words, and makes it unwritable.
    fn write(&self, image: &Image, layout: &Layout, vault: Span) -> Result<()> {
        let start = &raw const weir_vault_start;
        let code = (&raw const weir_vault_end) as usize - start as usize;
        let filter_bytes = size_of_val(self.filter.as_slice());
        let filter = code.next_multiple_of(8);
        assert!(
            filter + filter_bytes <= vault.length as usize,
            "the vault is one page"
        );
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
        // SAFETY: the page is mapped writable and has room for all three; the sources are elsewhere.
        unsafe {
            let to = vault.address as *mut u8;
            std::ptr::copy_nonoverlapping(start, to, code);
            to.cast::<Slots>().write(slots);
            let from = self.filter.as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(from, to.add(filter), filter_bytes);
            mprotect(
                to.cast(),
                vault.length as usize,
                MprotectFlags::READ | MprotectFlags::EXEC,
            )
        }
        .context("protecting the process wall's code")?;
        // Read-only from here on, as its guest expects.
        // SAFETY: nothing writes to it any more.
        unsafe {
            let boot = layout.boot.address as *mut libc::c_void;
            mprotect(boot, layout.boot.length as usize, MprotectFlags::READ)
        }
        .context("protecting the boot area")
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

    /// Becomes CPU `cpu` of the guest, when all its CPUs' threads have come here.
    pub(crate) fn enter(&self, cpu: u64) -> Result<()> {
        forget_thread()?;
        // SAFETY: the vault is complete; what it unmaps is not needed by what it starts.
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

/// Hands a signal to the vault. The C library's own way names a return path in the C library.
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

/// Takes back what the C library told the kernel of this thread's memory, which is about to go: the kernel
/// writes to it (rseq) whenever the thread is preempted.
fn forget_thread() -> Result<()> {
    const UNREGISTER: i32 = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    // SAFETY: null is allowed: nobody waits for this thread's end.
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
    // The length must be that of the registration, which the library doesn't tell: 32 in the first version,
    // later what the kernel supports, rounded up.
    for length in (32..=256).step_by(4) {
        // SAFETY: asks the kernel to forget an area.
        let result = unsafe { libc::syscall(libc::SYS_rseq, area, length, UNREGISTER, SIGNATURE) };
        if result == 0 {
            return Ok(());
        }
    }
    // It was never registered (an old kernel, or switched off), or it is something this code doesn't know; a
    // wrong guess ends in a report of a fault in the guest's first milliseconds.
    Ok(())
}

/// Where vvar and vDSO lie; the same in all children.
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
