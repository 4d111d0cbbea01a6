//! Every layout that is shared across a wall.
//!
//! A guest and the host share two memory files: the *data region* (packet rings and the buffer
//! pool, [`region`] and [`ring`]), which the switch maps, and the *control region* ([`control`],
//! [`bytes`], [`message`]), which whoever runs the guest's control plane maps. The *boot page* ([`boot`]) tells
//! a starting guest where everything is. This crate is the only place that touches shared memory
//! through raw pointers; what it hands out has been masked, bounded and read exactly once.
//!
//! Both ends are always built from one source tree, and every layout carries a version that is
//! checked when a region is opened, so fields may move between versions.
#![no_std]

pub mod boot;
pub mod bytes;
pub mod chain;
pub mod control;
pub mod message;
pub mod region;
pub mod ring;

/// Size of a cache line: shared cursors of different writers stand this far apart at least.
pub const CACHE_LINE: usize = 64;

/// Pages are what a memory file is made of.
pub const PAGE: usize = 4096;

/// Most CPUs of a guest.
pub const CPUS_MAX: usize = 8;

/// Asks for the cache line at `at`, to be read.
#[inline(always)]
fn prefetch_read<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
}

/// Asks for the cache line at `at` to be this core's alone, to be written. The intrinsic would be
/// compiled to a prefetch for reading, since PREFETCHW is not in the baseline; processors without
/// it take it for a no-op (Intel SDM, volume 2, PREFETCHW).
#[inline(always)]
fn prefetch_write<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch writes nothing and cannot fault, whatever the address.
    unsafe {
        core::arch::asm!(
            "prefetchw [{at}]",
            at = in(reg) at,
            options(nostack, preserves_flags)
        );
    }
}
