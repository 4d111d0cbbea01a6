//! Suspension: a guest stops at a point where its memory alone holds its whole state, and resumes from there in any
//! process.
//!
//! A CPU that suspends saves the registers that a call preserves on its stack, and the stack's address in [`SLOTS`]. A
//! copy of the memory is then a copy of the whole guest. In a process with such a copy, each CPU finds its slot at the
//! image's entry, before it has used its stack, and returns from the call that saved its registers. In the original,
//! the call returns when the control plane makes a request.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use abi::CPUS_MAX;
use abi::control::State;

use crate::agent::Agent;
use crate::{Cpu, Platform};

/// For each CPU the end of its stack while it stands still; 0 otherwise.
pub(crate) static SLOTS: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];

/// Whether all CPUs are to stand still.
static SUSPENDED: AtomicBool = AtomicBool::new(false);
/// CPUs other than the first that stand still.
static STANDING: AtomicUsize = AtomicUsize::new(0);

/// Saves the registers that a call preserves on the stack and its end in `slot`, and calls `wait` with `argument`.
/// Returns 0 when that returns, and 1 in a copy.
#[unsafe(naked)]
unsafe extern "C" fn stand(
    slot: *const AtomicU64,
    wait: unsafe extern "C" fn(*const ()),
    argument: *const (),
) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rdi, rdx",
        "call rsi",
        "xor eax, eax",
        "jmp {go_on}",
        go_on = sym go_on,
    )
}

/// Where a CPU goes on: the stack's end is that of its slot, and RAX what [`stand`] returns.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn go_on() -> u64 {
    naked_asm!(
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Stands still on a CPU while `wait` runs. Whether this is a copy, in which `wait` did not return.
fn stand_still<F: FnMut()>(cpu: Cpu, mut wait: F) -> bool {
    unsafe extern "C" fn call<F: FnMut()>(wait: *const ()) {
        // SAFETY: the closure below, which the caller keeps and which has no other user.
        unsafe { (*wait.cast::<F>().cast_mut())() }
    }
    let slot = &SLOTS[cpu.number()];
    // SAFETY: `wait` is valid for the call. In a copy all memory is as it was here.
    let copied = unsafe { stand(slot, call::<F>, (&raw mut wait).cast_const().cast()) };
    slot.store(0, Ordering::Relaxed);
    copied == 1
}

/// Whether all CPUs are to stand still: the CPUs other than the first look at it and [stand](stand_by).
pub(crate) fn is_wanted() -> bool {
    SUSPENDED.load(Ordering::Acquire)
}

/// Stands still on a CPU other than the first until all go on.
pub(crate) fn stand_by(cpu: Cpu) {
    let sleep = || {
        while is_wanted() {
            let seen = cpu.wakes();
            if is_wanted() {
                cpu.sleep(seen, None);
            }
        }
    };
    stand_still(cpu, || {
        STANDING.fetch_add(1, Ordering::Release);
        sleep();
    });
    // In a copy, the first CPU may not have set the clock.
    sleep();
    STANDING.fetch_sub(1, Ordering::Release);
}

/// Suspends all CPUs until the control plane makes a request, or forever: then this returns in a copy, and the answer
/// is true. Called by the first CPU. The others have nothing to do, or wait for it.
pub(crate) fn suspend(platform: &'static Platform, agent: &Agent) -> bool {
    let (control, first) = (platform.control(), platform.cpu(0));
    let others = || (1..platform.cpus()).map(|number| platform.cpu(number));
    SUSPENDED.store(true, Ordering::Release);
    others().for_each(|cpu| cpu.wake());
    while STANDING.load(Ordering::Acquire) < platform.cpus() - 1 {
        first.beat();
        core::hint::spin_loop();
    }
    let last = platform.clock().now();
    let copied = stand_still(first, || {
        platform.set_state(State::Suspended, "");
        platform.ring_control();
        control.set_guest_sleeps(true);
        while !agent.has_work() {
            let seen = first.wakes();
            if !agent.has_work() {
                first.sleep(seen, None);
            }
        }
    });
    control.set_guest_sleeps(false);
    if copied {
        let page = platform.boot();
        platform
            .clock()
            .restart(page.tsc_khz, page.wall_clock_ns, last);
    }
    SUSPENDED.store(false, Ordering::Release);
    others().for_each(|cpu| cpu.wake());
    platform.set_state(State::Running, "");
    platform.ring_control();
    copied
}
