//! The layouts of memory shared across a wall.
//!
//! A guest and the host share two memory files. The switch maps the *data region*: packet rings and
//! the buffer pool ([`region`], [`ring`]). The guest's control plane maps the *control region*
//! ([`control`], [`bytes`], [`message`]), and the control store its connection in there ([`store`],
//! [`xenstore`]). Applications and network stack modules pass [`nqe`]s over [`ring`]s. The *boot page*
//! ([`boot`]) tells a starting guest the addresses of its regions. Only this crate accesses shared
//! memory through raw pointers. Every value that it returns has been masked, bounded and read exactly
//! once.
//!
//! Both ends are built from one source tree. Every layout carries a version, checked when a region
//! is opened, so fields may move between versions.
#![no_std]

pub mod boot;
pub mod bytes;
pub mod chain;
pub mod control;
pub mod message;
pub mod nqe;
pub mod region;
pub mod ring;
pub mod settle;
mod shared_bytes;
pub mod store;
pub mod tenant;
pub mod xenstore;

pub use shared_bytes::SharedBytes;

/// Size of a cache line, the least distance between cursors of different writers.
pub const CACHE_LINE: usize = 64;

/// Size of a page. A memory file has whole pages.
pub const PAGE: usize = 4096;

/// Most CPUs of a guest.
pub const CPUS_MAX: usize = 8;

/// Prefetches the cache line at `at` for reading.
#[inline(always)]
fn prefetch_read<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault at any address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
}

/// Prefetches the cache line at `at` for writing. The intrinsic would be compiled to a prefetch for
/// reading, since PREFETCHW is not in the baseline; it is a no-op on processors without it (Intel
/// SDM, volume 2, PREFETCHW).
#[inline(always)]
fn prefetch_write<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch writes nothing and cannot fault at any address.
    unsafe {
        core::arch::asm!(
            "prefetchw [{at}]",
            at = in(reg) at,
            options(nostack, preserves_flags)
        );
    }
}
