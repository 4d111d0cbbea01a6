//! The process wall: the same image, run by the child itself under a strict filter.
//!
//! The [vault](crate::vault) leaves the guest's memory and itself. The guest may sleep on a futex, wake one, read the
//! clock, ring its two doorbells, return from a signal and exit; any other system call ends it.
//!
//! Faults arrive as signals at the vault, which copies the signal's information into the report and exits. A
//! hostile guest can write to the report and to the signal stack, since they are in its address space: it can
//! falsify the report of its own end, and nothing else.

use std::arch::x86_64::_rdtsc;
use std::cell::OnceCell;
use std::ffi::CStr;
use std::time::{Duration, Instant};

use rustix::mm::{MprotectFlags, mprotect};
use seccompiler::{BpfProgram, SeccompAction};

use crate::child::{CONTROL_DOORBELL, SWITCH_DOORBELL};
use crate::error::{Context, Result};
use crate::image::Image;
use crate::jail::{argument, compile};
use crate::layout::Layout;
use crate::vault::{Start, Vault, VaultTemplate};

/// The wall's prepared parts.
pub(crate) struct ProcessWall {
    filter: BpfProgram,
    tsc_khz: OnceCell<u64>,
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
            tsc_khz: OnceCell::new(),
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

    /// Prepares the vault to start a guest whose memory is mapped.
    pub(crate) fn enter(
        &self,
        vaults: &VaultTemplate,
        image: &Image,
        layout: &Layout,
        title: &CStr,
    ) -> Result<Vault> {
        // Read-only from here on, as its guest expects.
        // SAFETY: it is not written to any more.
        unsafe {
            let boot = layout.boot.address as *mut libc::c_void;
            mprotect(boot, layout.boot.length as usize, MprotectFlags::READ)
        }
        .context("protecting the boot area")?;
        vaults.prepare_entry(&Start::Image(image.entry), layout, &self.filter, title)
    }
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
