//! The vault's code.

use std::arch::global_asm;

use abi::CPUS_MAX;
use abi::boot::Span;
use abi::control::HEARTBEAT_STRIDE;

use super::SIGNAL_STACK_SHIFT;
use crate::report::{SENT, kind};
use crate::watchdog;

/// Pauses that a CPU makes for another's report to be written, some milliseconds.
const PAUSES: u32 = 1 << 18;

const _: () = assert!(CPUS_MAX == 8 && HEARTBEAT_STRIDE == 1 << 6);

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
    // Of a process that sent it, the code is not positive.
    "cmp dword ptr [rsi + 8], 0",
    "jg 40f",
    "or edi, {sent}",
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
    // A tick of the watchdog: has the heartbeat changed since the last?
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
    "mov ecx, {ticks}",
    "mov r11d, {long_work_ticks}",
    "shr r9, {long_work_shift}",
    "cmp r9d, {long_work}",
    "cmove ecx, r11d",
    "cmp [r10 + 224], rcx",
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
    sent = const SENT,
    kind_watchdog = const kind::WATCHDOG,
    ticks = const watchdog::TICKS,
    long_work_ticks = const watchdog::LONG_WORK_TICKS,
    long_work = const abi::control::LONG_WORK,
    long_work_shift = const abi::control::LONG_WORK_SHIFT,
    signal_stack_shift = const SIGNAL_STACK_SHIFT,
    pauses = const PAUSES,
);

unsafe extern "C" {
    pub(super) static weir_vault_start: u8;
    pub(super) static weir_vault_enter: u8;
    pub(super) static weir_vault_fault: u8;
    pub(super) static weir_vault_tick: u8;
    pub(super) static weir_vault_return: u8;
    pub(super) static weir_vault_end: u8;
}

/// The vault's first words.
#[repr(C)]
pub(super) struct Slots {
    pub(super) report: u64,
    pub(super) heartbeat: u64,
    pub(super) stack: u64,
    pub(super) stack_stride: u64,
    pub(super) signal_stacks: u64,
    pub(super) cpus: u64,
    pub(super) entry: u64,
    pub(super) boot: u64,
    pub(super) filter_length: u64,
    pub(super) filter: u64,
    pub(super) unmap: [Span; 4],
}
