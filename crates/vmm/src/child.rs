//! The guest's process, from the fork to the wall.
//!
//! Everything here runs in the child. It lays out the guest's memory, lets go of all that it inherited, and
//! ends in one of the walls. It never returns.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use abi::boot::{Doorbells, Span};
use abi::control::Region;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use rustix::process::{
    Pid, Signal as RustixSignal, getppid, set_parent_process_death_signal, setsid,
};
use rustix::thread::{CpuSet, sched_setaffinity, set_name};

use crate::control::FILE_BYTES;
use crate::error::{Context, Error, Result};
use crate::image::{Access, Image};
use crate::jail::Jail;
use crate::kvm::Kvm;
use crate::layout::Layout;
use crate::process::ProcessWall;
use crate::report::Reporter;
use crate::{GuestSpec, watchdog};

/// What the child has to do.
pub(crate) struct Plan<'a> {
    pub(crate) spec: &'a GuestSpec<'a>,
    pub(crate) layout: &'a Layout,
    pub(crate) image: &'a Image,
    pub(crate) boot_area: &'a [u8],
    /// KVM, if that is the wall.
    pub(crate) kvm: Option<&'a Kvm>,
    pub(crate) process: &'a ProcessWall,
    pub(crate) jail: &'a Jail,
    pub(crate) parent: Pid,
}

/// Exit status of a child that could not even say why it failed.
const SPEECHLESS: i32 = 71;

/// Signals that programs are wont to handle. A handler of the parent would meet the jail.
const HANDLED: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGPIPE,
    Signal::SIGCHLD,
];

/// Descriptors of the doorbells in a guest's process: the first two numbers.
pub(crate) const SWITCH_DOORBELL: RawFd = 0;
pub(crate) const CONTROL_DOORBELL: RawFd = 1;

/// The doorbells of a guest behind the process wall.
pub(crate) fn process_doorbells(spec: &GuestSpec<'_>) -> Doorbells {
    let number = |doorbell: Option<BorrowedFd<'_>>, number: RawFd| match doorbell {
        Some(_) => number as u64,
        None => u64::MAX,
    };
    Doorbells {
        switch: number(spec.switch_doorbell, SWITCH_DOORBELL),
        control: number(spec.control_doorbell, CONTROL_DOORBELL),
        wait: u64::MAX,
        halt: u64::MAX,
    }
}

/// The child's whole life.
pub(crate) fn run(plan: &Plan<'_>) -> ! {
    let status = match map_control(plan) {
        Err(_) => SPEECHLESS,
        Ok((control, reporter)) => {
            // Nothing may unwind into the parent's code, of which this is a copy.
            let outcome = catch_unwind(AssertUnwindSafe(|| live(plan, control, reporter)));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(error)) => reporter.write_setup(&error.to_string()),
                Err(_) => {
                    reporter.write_setup("the program that runs guests panicked, which is a bug")
                }
            }
            0
        }
    };
    end(status)
}

/// Ends the process without running the parent's exit handlers.
fn end(status: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(status) }
}

fn live(plan: &Plan<'_>, control: Region<'static>, reporter: Reporter) -> Result<()> {
    detach(plan)?;
    map_memory(plan)?;
    plan.jail.leave_files()?;
    if let Some(kvm) = plan.kvm {
        let spec = plan.spec;
        keep_only(&[
            Some(kvm.device()),
            spec.switch_doorbell,
            spec.control_doorbell,
        ]);
        let mut machine = kvm.create(plan)?;
        watchdog::start()?;
        lock(plan)?;
        plan.jail.filter()?;
        machine.run(control, reporter);
        // The jail leaves no way to tear the machine down; the kernel does it.
        end(0)
    } else {
        keep_doorbells(plan)?;
        let vault = plan.process.prepare_entry(plan)?;
        watchdog::start()?;
        lock(plan)?;
        vault.enter()
    }
}

/// Drops what running needs no more, but for system calls.
fn lock(plan: &Plan<'_>) -> Result<()> {
    plan.jail.enter()?;
    if plan.spec.end_with_parent {
        // Losing privileges takes this back, so it comes after the jail.
        set_parent_process_death_signal(Some(RustixSignal::KILL))
            .context("tying the guest to its parent")?;
        if getppid() != Some(plan.parent) {
            // It ended before it could be tied to.
            end(SPEECHLESS);
        }
    }
    Ok(())
}

/// Leaves the parent's terminal, signal handlers and, if asked for, its CPUs.
fn detach(plan: &Plan<'_>) -> Result<()> {
    let name: Vec<u8> = plan
        .spec
        .name
        .bytes()
        .filter(|&b| b != 0)
        .take(15)
        .collect();
    if let Ok(name) = std::ffi::CString::new(name) {
        // A label for ps only.
        let _ = set_name(&name);
    }
    // Ctrl-C at the parent's terminal is the parent's affair.
    setsid().context("a session for the guest's process")?;
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in HANDLED {
        // SAFETY: the default action runs no code.
        unsafe { sigaction(signal, &default) }.context("resetting a signal")?;
    }
    SigSet::empty()
        .thread_set_mask()
        .context("unblocking signals")?;
    if let Some(cpu) = plan.spec.cpu {
        let mut cpus = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            cpus.set(cpu);
        }
        sched_setaffinity(None, &cpus).context("running the guest on the CPU asked for")?;
    }
    Ok(())
}

fn map_control(plan: &Plan<'_>) -> Result<(Region<'static>, Reporter)> {
    let span = Span {
        address: plan.layout.control.address,
        length: FILE_BYTES as u64,
    };
    let at = map_file(
        span,
        Access::Write,
        MapFlags::SHARED,
        plan.spec.control.file(),
        0,
    )?;
    // SAFETY: just mapped, for good; both parts lie inside and are page aligned.
    unsafe {
        let report = at.add(plan.layout.control.length as usize);
        Ok((Region::new(at), Reporter::new(report.cast())))
    }
}

/// Maps everything but the control region.
fn map_memory(plan: &Plan<'_>) -> Result<()> {
    let layout = plan.layout;
    for segment in &plan.image.segments {
        let span = Span {
            address: segment.address,
            length: segment.length,
        };
        let offset = segment.address - layout.image.address;
        let file = plan.image.file.as_fd();
        // Private: pages that no guest writes are the file's own, shared by all guests.
        map_file(
            span,
            segment.access,
            MapFlags::PRIVATE | MapFlags::POPULATE,
            file,
            offset,
        )?;
    }
    for span in [layout.boot, layout.stack, layout.heap, layout.private] {
        map_anonymous(span)?;
    }
    if let Some(data) = plan.spec.data {
        map_file(layout.data, Access::Write, MapFlags::SHARED, data.file, 0)?;
    }
    // SAFETY: just mapped, writable, and long enough.
    unsafe {
        let to = layout.boot.address as *mut u8;
        std::ptr::copy_nonoverlapping(plan.boot_area.as_ptr(), to, plan.boot_area.len());
    }
    populate(plan);
    Ok(())
}

/// Provides the pages that every guest touches when it starts: the image's data, the head of the control
/// region and of the console, the ends of stack and heap. That is cheaper than a fault for each inside the
/// guest, and KVM maps neighbours that are there along with a page that faults.
fn populate(plan: &Plan<'_>) {
    let page = abi::PAGE as u64;
    let layout = plan.layout;
    let data = plan
        .image
        .segments
        .iter()
        .filter(|s| s.access == Access::Write);
    let data = data.map(|s| Span {
        address: s.address,
        length: s.length.min(2 * page),
    });
    let stack = Span {
        address: layout.stack.end() - 4 * page,
        length: 4 * page,
    };
    let heads = [layout.control, layout.heap].map(|s| Span {
        length: 2 * page,
        ..s
    });
    for span in data.chain(heads).chain([stack]) {
        // SAFETY: inside the guest's memory, mapped writable. If it fails, the guest's faults do it.
        let _ = unsafe {
            let at = span.address as *mut c_void;
            madvise(at, span.length as usize, Advice::LinuxPopulateWrite)
        };
    }
}

fn protection(access: Access) -> ProtFlags {
    match access {
        // For the process wall, which runs the image where it is mapped.
        Access::Execute => ProtFlags::READ | ProtFlags::EXEC,
        Access::Read => ProtFlags::READ,
        Access::Write => ProtFlags::READ | ProtFlags::WRITE,
    }
}

fn map_file(
    span: Span,
    access: Access,
    flags: MapFlags,
    file: BorrowedFd<'_>,
    offset: u64,
) -> Result<NonNull<u8>> {
    let flags = flags | MapFlags::FIXED_NOREPLACE;
    let (at, length) = (span.address as *mut c_void, span.length as usize);
    // SAFETY: replaces nothing.
    let at = unsafe { mmap(at, length, protection(access), flags, file, offset) }
        .context("mapping the guest's memory at its place")?;
    check_place(at, span)
}

fn map_anonymous(span: Span) -> Result<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE | MapFlags::NORESERVE;
    let (at, length) = (span.address as *mut c_void, span.length as usize);
    // SAFETY: replaces nothing.
    let at = unsafe { mmap_anonymous(at, length, protection(Access::Write), flags) }
        .context("mapping the guest's memory at its place")?;
    check_place(at, span)
}

/// Kernels before 4.17 take the address for a hint.
fn check_place(at: *mut c_void, span: Span) -> Result<NonNull<u8>> {
    let at = NonNull::new(at.cast::<u8>()).filter(|at| at.as_ptr() as u64 == span.address);
    at.ok_or(Error::Image("its addresses are taken in this program"))
}

/// Closes all descriptors but these.
fn keep_only(keep: &[Option<BorrowedFd<'_>>]) {
    let mut keep: Vec<RawFd> = keep.iter().flatten().map(AsRawFd::as_raw_fd).collect();
    keep.sort_unstable();
    let mut next = 0;
    for descriptor in keep {
        close_range(next, descriptor - 1);
        next = descriptor + 1;
    }
    close_range(next, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        // SAFETY: what is closed belongs to the parent's code, which won't run again here. It can't fail for
        // a range that isn't empty.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// Moves the doorbells to their numbers and closes all other descriptors.
fn keep_doorbells(plan: &Plan<'_>) -> Result<()> {
    const FREE: RawFd = 3;
    let doorbells = [
        (plan.spec.switch_doorbell, SWITCH_DOORBELL),
        (plan.spec.control_doorbell, CONTROL_DOORBELL),
    ];
    let mut copies = Vec::new();
    for (doorbell, number) in doorbells {
        if let Some(doorbell) = doorbell {
            let copy = fcntl_dupfd_cloexec(doorbell, FREE).context("a doorbell")?;
            copies.push((copy.into_raw_fd(), number));
        }
    }
    close_range(0, FREE - 1);
    for (copy, number) in copies {
        // SAFETY: the number was just closed, so nothing is replaced.
        if unsafe { libc::dup2(copy, number) } < 0 {
            return Err(std::io::Error::last_os_error()).context("a doorbell");
        }
    }
    close_range(FREE, RawFd::MAX);
    Ok(())
}
