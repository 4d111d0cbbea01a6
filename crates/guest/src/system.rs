//! The system calls of a guest behind the process wall. A guest under KVM makes none.

use core::arch::asm;

use core::sync::atomic::AtomicU32;

use abi::control::Sleep;

const WRITE: u64 = 1;
const EXIT_GROUP: u64 = 231;
const CLOCK_GETTIME: u64 = 228;
const FUTEX: u64 = 202;
const FUTEX_WAKE: u64 = 1;
const FUTEX_WAITV: u64 = 449;
const CLOCK_MONOTONIC: u64 = 1;
/// `FUTEX2_SIZE_U32`, shared between processes.
const FUTEX_WORD: u32 = 2;

/// An element of `futex_waitv`'s list.
#[repr(C)]
#[derive(Clone, Copy)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// # Safety
/// As the system call demands.
unsafe fn call(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64) -> i64 {
    let result: i64;
    // SAFETY: by the caller's promise; the kernel clobbers rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Adds one to an eventfd.
pub(crate) fn ring(descriptor: u64) {
    let one = 1u64;
    // SAFETY: reads eight valid bytes. An eventfd at its limit is already readable, so errors are ignored.
    unsafe { call(WRITE, descriptor, (&raw const one) as u64, 8, 0, 0) };
}

/// Sleeps until one of the words of the control region, the data region and the sockets is woken or differs from its
/// value in `sleep`, or until the timeout. An address of 0 stands for no word.
pub(crate) fn sleep([control, data, sockets]: [u64; 3], sleep: Sleep) {
    let waiter = |address, value: u32| Waiter {
        value: value.into(),
        address,
        flags: FUTEX_WORD,
        reserved: 0,
    };
    let mut waiters = [waiter(control, sleep.control); 3];
    let mut count = 1;
    for (word, value) in [(data, sleep.data), (sockets, sleep.sockets)] {
        if word != 0 {
            waiters[count] = waiter(word, value);
            count += 1;
        }
    }
    let mut until = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    let mut timeout = 0;
    if sleep.nanoseconds != u64::MAX {
        // SAFETY: writes one valid timespec.
        unsafe {
            call(
                CLOCK_GETTIME,
                CLOCK_MONOTONIC,
                (&raw mut until) as u64,
                0,
                0,
                0,
            )
        };
        let nanoseconds = until.nanoseconds as u64 + sleep.nanoseconds % 1_000_000_000;
        until.seconds += (sleep.nanoseconds / 1_000_000_000 + nanoseconds / 1_000_000_000) as i64;
        until.nanoseconds = (nanoseconds % 1_000_000_000) as i64;
        timeout = (&raw const until) as u64;
    }
    // SAFETY: list and timeout are valid; waiting touches no memory.
    unsafe {
        call(
            FUTEX_WAITV,
            (&raw const waiters) as u64,
            count as u64,
            0,
            timeout,
            CLOCK_MONOTONIC,
        );
    }
}

/// Wakes a CPU that sleeps on a word.
pub(crate) fn wake(word: &AtomicU32) {
    let address = core::ptr::from_ref(word) as u64;
    // SAFETY: touches no memory. A word without sleepers is no error.
    unsafe { call(FUTEX, address, FUTEX_WAKE, 1, 0, 0) };
}

/// Ends the process.
pub(crate) fn exit() -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(EXIT_GROUP, 0, 0, 0, 0, 0) };
    }
}
