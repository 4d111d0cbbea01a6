//! The vault's code.

use std::arch::global_asm;

use std::mem::offset_of;

use abi::boot::Span;
use abi::control::HEARTBEAT_STRIDE;
use abi::{CPUS_MAX, PAGE};
use kvm_bindings::{KVM_EXIT_MMIO, KVM_EXIT_SHUTDOWN, kvm_regs, kvm_run, kvm_sregs};

use super::SIGNAL_STACK_SHIFT;
use crate::kvm::ioctl;
use crate::layout::doorbell;
use crate::report::{NO_FAULT, REFUSED, SENT, kind, register};
use crate::watchdog;

/// Pauses that a CPU makes for another's report to be written, some milliseconds.
const PAUSES: u32 = 1 << 18;

const _: () = assert!(CPUS_MAX == 8 && HEARTBEAT_STRIDE == 1 << 6 && PAGE == 1 << 12);
/// The doorbells below those that wake CPUs are in this order.
const _: () = {
    assert!(doorbell::SWITCH < doorbell::WAIT && doorbell::CONTROL < doorbell::WAIT);
    assert!(doorbell::HALT == doorbell::WAIT + 8 && doorbell::WAKE == doorbell::HALT + 8);
};

/// Offset in the control region of the first CPU's wake word; the next ones follow.
pub(super) const WAKE_OFFSET: usize = 64;
/// Offsets from a CPU's heartbeat to the fields of its request to sleep ([`abi::control::Sleep`]), in their order.
const SLEEP_OFFSETS: [usize; 3] = [12, 16, 24];
/// Offsets in an exit page of an access to memory that is not there: address, length, whether it is a store.
const ACCESS: [usize; 3] = {
    let access = offset_of!(kvm_run, __bindgen_anon_1);
    [access, access + 16, access + 20]
};
/// The stack of the code that runs a virtual processor: what it sleeps on, a time, registers, special registers.
const TIME: usize = 2 * size_of::<libc::futex_waitv>();
const REGISTERS: usize = TIME + size_of::<libc::timespec>();
const SPECIAL: usize = REGISTERS + size_of::<kvm_regs>();
const FRAME: usize = (SPECIAL + size_of::<kvm_sregs>()).next_multiple_of(64);
/// Number of registers that KVM tells.
const TOLD: usize = size_of::<kvm_regs>() / 8;

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
    "50: .quad 0", // the first exit page; then, under KVM:
    "51: .quad 0", // the doorbells' physical address
    "52: .quad 0", // their address
    "53: .quad 0", // the first CPU's wake word
    "54: .quad 0", // its wake word in the data region, or 0
    "55: .fill 8, 4, 0", // descriptors of the virtual processors
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
    // The same under KVM: if it is time, virtual processor and report are left to the interrupted code.
    ".globl weir_vault_alarm",
    "weir_vault_alarm:",
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
    "jne 42b",
    "inc qword ptr [r10 + 224]",
    "ret",
    // Runs a virtual processor, whose number is in RSI.
    ".globl weir_vault_run",
    "weir_vault_run:",
    "mov r15, rsi",
    "sub rsp, {frame}",
    "lea rax, [rip + 55b]",
    "mov ebp, [rax + r15 * 4]",
    "mov r14, r15",
    "shl r14, 4",
    "add r14, [rip + 20b]",
    "mov r13, r15",
    "shl r13, 12",
    "add r13, [rip + 50b]",
    "mov r12, r15",
    "shl r12, 6",
    "add r12, [rip + 21b]",
    "mov rax, [rip + 53b]",
    "lea rax, [rax + r15 * 4]",
    "mov [rsp + 8], rax",
    "mov qword ptr [rsp + 16], {word_of_32_bits}",
    "mov rax, [rip + 54b]",
    "lea rax, [rax + r15 * 4]",
    "mov [rsp + 32], rax",
    "mov qword ptr [rsp + 40], {word_of_32_bits}",
    "60:",
    "mov eax, {ioctl}",
    "mov edi, ebp",
    "mov esi, {run}",
    "xor edx, edx",
    "syscall",
    // Has the watchdog counted enough ticks without a heartbeat?
    "mov ecx, {ticks}",
    "mov edx, {long_work_ticks}",
    "mov rsi, [r14 + 216]",
    "shr rsi, {long_work_shift}",
    "cmp esi, {long_work}",
    "cmove ecx, edx",
    "cmp [r14 + 224], rcx",
    "jae 70f",
    "test rax, rax",
    "js 68f",
    "mov eax, [r13 + {exit_reason}]",
    "cmp eax, {exit_mmio}",
    "jne 67f",
    // An access of the doorbell page: is it a store of 8 bytes to a doorbell?
    "mov rcx, [r13 + {access}]",
    "sub rcx, [rip + 51b]",
    "cmp rcx, {page}",
    "jae 66f",
    "test cl, 7",
    "jnz 66f",
    "cmp dword ptr [r13 + {access_length}], 8",
    "jne 66f",
    "cmp byte ptr [r13 + {access_stores}], 0",
    "je 66f",
    "cmp ecx, {wait}",
    // A doorbell without an eventfd.
    "jb 60b",
    "je 63f",
    "sub ecx, {wake}",
    "jb 65f",
    "shr ecx, 3",
    "cmp rcx, [rip + 29b]",
    "jae 66f",
    // Wake another CPU. The futex is not private: other processes wake the same words.
    "mov rdi, [rip + 53b]",
    "lea rdi, [rdi + rcx * 4]",
    "mov eax, {futex}",
    "mov esi, {futex_wake}",
    "mov edx, 1",
    "syscall",
    "jmp 60b",
    // Sleep as the guest asked. Woken, changed already, timed out, interrupted: in every case it checks its rings.
    "63:",
    "mov eax, [r12 + {sleep_control}]",
    "mov [rsp], rax",
    "mov eax, [r12 + {sleep_data}]",
    "mov [rsp + 24], rax",
    "mov rbx, [r12 + {sleep_time}]",
    "xor r10d, r10d",
    "cmp rbx, -1",
    "je 64f",
    "mov eax, {clock_gettime}",
    "mov edi, {monotonic}",
    "lea rsi, [rsp + {time}]",
    "syscall",
    "mov rax, rbx",
    "xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "add [rsp + {time}], rax",
    "add rdx, [rsp + {time} + 8]",
    "cmp rdx, rcx",
    "jb 61f",
    "sub rdx, rcx",
    "inc qword ptr [rsp + {time}]",
    "61:",
    "mov [rsp + {time} + 8], rdx",
    "lea r10, [rsp + {time}]",
    "64:",
    "mov eax, {futex_waitv}",
    "mov rdi, rsp",
    "mov esi, 1",
    "cmp qword ptr [rip + 54b], 0",
    "je 62f",
    "inc esi",
    "62:",
    "xor edx, edx",
    "mov r8d, {monotonic}",
    "syscall",
    "mov qword ptr [r14 + 224], 0",
    "jmp 60b",
    // How it ended: kind in EBX, detail in R12, address in R13.
    "65:",
    "mov ebx, {kind_halted}",
    "jmp 71f",
    "66:",
    "mov ebx, {kind_doorbell}",
    "xor r12d, r12d",
    "mov r13, [r13 + {access}]",
    "sub r13, [rip + 51b]",
    "add r13, [rip + 52b]",
    "jmp 72f",
    "67:",
    "mov ebx, {kind_exception}",
    "cmp eax, {exit_shutdown}",
    "je 71f",
    "jmp 69f",
    "68:",
    "cmp eax, -{interrupted}",
    "je 60b",
    "neg eax",
    "or eax, {refused}",
    "69:",
    "mov ebx, {kind_unexpected}",
    "mov r12d, eax",
    "xor r13d, r13d",
    "jmp 72f",
    "70:",
    "mov ebx, {kind_watchdog}",
    "71:",
    "xor r12d, r12d",
    "xor r13d, r13d",
    // The first CPU to come here reports.
    "72:",
    "mov r14, [rip + 20b]",
    "mov ecx, 1",
    "xchg [r14 + 200], ecx",
    "test ecx, ecx",
    "jnz 43b",
    "mov eax, {ioctl}",
    "mov edi, ebp",
    "mov esi, {get_registers}",
    "lea rdx, [rsp + {registers}]",
    "syscall",
    "mov eax, {ioctl}",
    "mov edi, ebp",
    "mov esi, {get_special}",
    "lea rdx, [rsp + {special}]",
    "syscall",
    "test rax, rax",
    "movabs rax, {no_fault}",
    "jnz 73f",
    "mov rax, [rsp + {special} + {cr2}]",
    "73:",
    "mov [r14 + 16 + 8 * {report_cr2}], rax",
    "lea rsi, [rip + 75f]",
    "xor ecx, ecx",
    "74:",
    "movzx eax, byte ptr [rsi + rcx]",
    "mov rax, [rsp + rax * 8 + {registers}]",
    "mov [r14 + rcx * 8 + 16], rax",
    "inc ecx",
    "cmp ecx, {told}",
    "jb 74b",
    "mov [r14 + 204], r15d",
    "mov [r14 + 4], r12d",
    "mov [r14 + 8], r13",
    "mov [r14], ebx",
    "jmp 45b",
    // KVM's places of the registers in a report.
    "75: .byte 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 7, 1, 3, 0, 2, 6, 16, 17",
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
    frame = const FRAME,
    time = const TIME,
    registers = const REGISTERS,
    special = const SPECIAL,
    told = const TOLD,
    cr2 = const offset_of!(kvm_sregs, cr2),
    report_cr2 = const register::CR2,
    no_fault = const NO_FAULT,
    ioctl = const libc::SYS_ioctl,
    run = const ioctl::RUN,
    get_registers = const ioctl::GET_REGS,
    get_special = const ioctl::GET_SREGS,
    exit_reason = const offset_of!(kvm_run, exit_reason),
    exit_mmio = const KVM_EXIT_MMIO,
    exit_shutdown = const KVM_EXIT_SHUTDOWN,
    access = const ACCESS[0],
    access_length = const ACCESS[1],
    access_stores = const ACCESS[2],
    page = const PAGE,
    wait = const doorbell::WAIT,
    wake = const doorbell::WAKE,
    sleep_control = const SLEEP_OFFSETS[0],
    sleep_data = const SLEEP_OFFSETS[1],
    sleep_time = const SLEEP_OFFSETS[2],
    futex = const libc::SYS_futex,
    futex_wake = const libc::FUTEX_WAKE,
    futex_waitv = const libc::SYS_futex_waitv,
    word_of_32_bits = const 2,
    clock_gettime = const libc::SYS_clock_gettime,
    monotonic = const libc::CLOCK_MONOTONIC,
    interrupted = const libc::EINTR,
    refused = const REFUSED,
    kind_halted = const kind::HALTED,
    kind_doorbell = const kind::DOORBELL,
    kind_exception = const kind::EXCEPTION,
    kind_unexpected = const kind::UNEXPECTED,
);

unsafe extern "C" {
    pub(super) static weir_vault_start: u8;
    pub(super) static weir_vault_enter: u8;
    pub(super) static weir_vault_fault: u8;
    pub(super) static weir_vault_tick: u8;
    pub(super) static weir_vault_alarm: u8;
    pub(super) static weir_vault_run: u8;
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
    pub(super) machine: Machine,
}

/// What running virtual processors needs.
#[repr(C)]
pub(super) struct Machine {
    pub(super) exits: u64,
    pub(super) doorbells_physical: u64,
    pub(super) doorbells: u64,
    pub(super) wake: u64,
    pub(super) data_wake: u64,
    pub(super) processors: [i32; CPUS_MAX],
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use abi::control::{HEARTBEAT_OFFSET, REGION_BYTES, Region, Sleep};

    use super::*;

    #[test]
    fn the_vault_reads_what_a_cpu_writes() {
        let words = vec![0u64; REGION_BYTES.next_multiple_of(PAGE) / 8 + PAGE / 8];
        let base = words.as_ptr() as usize;
        let base = base.next_multiple_of(PAGE) as *mut u8;
        // SAFETY: page aligned, long enough, zero, and alive as long as the region is used.
        let region = unsafe { Region::new(NonNull::new(base).unwrap()) };
        let at = |offset: usize| base as usize + offset;
        for cpu in 0..CPUS_MAX {
            region.set_sleep(
                cpu,
                Sleep {
                    control: 1 + cpu as u32,
                    data: 100 + cpu as u32,
                    nanoseconds: 1 << 40 | cpu as u64,
                },
            );
            let own = at(HEARTBEAT_OFFSET + cpu * HEARTBEAT_STRIDE);
            let [control, data, time] = SLEEP_OFFSETS.map(|offset| own + offset);
            // SAFETY: inside the region, aligned.
            let read = unsafe {
                (
                    (control as *const u32).read_volatile(),
                    (data as *const u32).read_volatile(),
                    (time as *const u64).read_volatile(),
                )
            };
            assert_eq!(
                read,
                (1 + cpu as u32, 100 + cpu as u32, 1 << 40 | cpu as u64)
            );
            let word = std::ptr::from_ref(region.wake_word(cpu)) as usize;
            assert_eq!(word, at(WAKE_OFFSET + 4 * cpu));
        }
    }
}
