//! The guest's process, from the fork to the wall.
//!
//! Everything here runs in the child. It lets go of all that it inherited, makes ready whatever all guests have
//! in common, waits for its order, lays out the guest's memory, and ends in one of the walls. It never returns.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::thread;

use abi::PAGE;
use abi::boot::{Doorbells, Span};
use abi::control::Region;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rustix::fs::{SeekFrom, seek};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use rustix::process::{
    Pid, Signal as RustixSignal, getppid, set_parent_process_death_signal, setsid,
};
use rustix::thread::{CpuSet, sched_setaffinity, set_name};

use crate::control::FILE_BYTES;
use crate::error::{Context, Error, Result};
use crate::image::{Access, IMAGE_BASE, Image};
use crate::jail::Jail;
use crate::kvm::{Kvm, Processor, Vacant};
use crate::layout::{CLUSTER, STACK_AHEAD};
use crate::order::{self, Order};
use crate::process::ProcessWall;
use crate::report::Reporter;
use crate::{GuestSpec, watchdog};

/// What a process is made ready from.
pub(crate) struct Ground<'a> {
    pub(crate) image: &'a Image,
    /// Addresses of all that the guest will have.
    pub(crate) range: Span,
    /// CPUs that the guest will have.
    pub(crate) cpus: u64,
    /// KVM, if that is the wall.
    pub(crate) kvm: Option<&'a Kvm>,
    pub(crate) process: &'a ProcessWall,
    pub(crate) jail: &'a Jail,
    pub(crate) switch_doorbell: Option<BorrowedFd<'a>>,
    pub(crate) control_doorbell: Option<BorrowedFd<'a>>,
    /// Where the order comes from.
    pub(crate) orders: BorrowedFd<'a>,
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
/// Descriptor of the orders in a process that waits for its guest, behind the process wall.
const ORDERS: RawFd = 2;

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
        wake: u64::MAX,
    }
}

/// The child's whole life.
pub(crate) fn run(ground: &Ground<'_>) -> ! {
    // Nothing may unwind into the parent's code, of which this is a copy.
    let ready = catch(|| Ready::make(ground));
    // What went wrong is told to whoever wants a guest: then there is a place for it.
    let orders = ready.as_ref().map_or(ground.orders, |ready| ready.orders);
    let Ok(Some(order)) = order::take(orders) else {
        end(SPEECHLESS);
    };
    let Ok((control, reporter)) = map_control(&order) else {
        end(SPEECHLESS);
    };
    let outcome = ready.and_then(|ready| catch(|| ready.start(ground, order, control, reporter)));
    if let Err(error) = outcome {
        reporter.write_setup(&error.to_string());
    }
    end(0)
}

fn catch<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Panicked))
}

/// Ends the process without running the parent's exit handlers.
fn end(status: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(status) }
}

/// A process that waits for its guest: all that can be done without knowing which.
struct Ready<'a> {
    /// The machine, if KVM is the wall.
    machine: Option<Vacant>,
    orders: BorrowedFd<'a>,
}

impl<'a> Ready<'a> {
    fn make(ground: &Ground<'a>) -> Result<Ready<'a>> {
        detach()?;
        map_image(ground.image)?;
        ground.jail.leave_files()?;
        let Some(kvm) = ground.kvm else {
            return Ok(Ready {
                machine: None,
                orders: keep_doorbells(ground)?,
            });
        };
        keep_only(&[
            Some(kvm.device()),
            ground.switch_doorbell,
            ground.control_doorbell,
            Some(ground.orders),
        ]);
        Ok(Ready {
            machine: Some(kvm.create(ground)?),
            orders: ground.orders,
        })
    }

    /// Runs the guest to its end.
    fn start(
        self,
        ground: &Ground<'_>,
        order: Order,
        control: Region<'static>,
        reporter: Reporter,
    ) -> Result<()> {
        let (image, layout, pins) = (ground.image, order.layout, order.pins);
        settle(&order);
        map_memory(&order)?;
        match self.machine {
            None => {
                let vault = ground.process.prepare_entry(image, &layout)?;
                lock(ground, order)?;
                close(self.orders);
                let cpus = (0..layout.cpus).zip(pins);
                let run = |(cpu, pin)| {
                    vault.use_signal_stack(cpu)?;
                    begin(pin)?;
                    vault.enter(cpu)
                };
                run_all(cpus.collect(), reporter, run)
            }
            Some(machine) => {
                let processors = machine.enter(image, &layout)?;
                lock(ground, order)?;
                close(self.orders);
                let run = |(mut processor, pin): (Processor, _)| {
                    begin(pin)?;
                    ground.jail.filter()?;
                    processor.run(control, reporter);
                    // The jail leaves no way to tear the machine down; the kernel does it.
                    end(0)
                };
                run_all(processors.into_iter().zip(pins).collect(), reporter, run)
            }
        }
    }
}

/// Bytes of the stack of a thread that runs a CPU. The guest runs on another.
const THREAD_STACK: usize = 64 << 10;

/// Runs a guest's CPUs, the first in this thread, each of the others in one of its own. They come back only
/// with an error.
fn run_all<C: Send>(
    cpus: Vec<C>,
    reporter: Reporter,
    run: impl Fn(C) -> Result<()> + Sync,
) -> Result<()> {
    let mut cpus = cpus.into_iter();
    let Some(first) = cpus.next() else {
        return Ok(());
    };
    let run = &run;
    thread::scope(|threads| {
        for cpu in cpus {
            let other = move || {
                if let Err(error) = catch(|| run(cpu)) {
                    reporter.write_setup(&error.to_string());
                }
                end(0)
            };
            let thread = thread::Builder::new().stack_size(THREAD_STACK);
            thread
                .spawn_scoped(threads, other)
                .context("a thread for one of the guest's CPUs")?;
        }
        let Err(error) = run(first) else {
            end(0);
        };
        // The other threads don't end of themselves.
        reporter.write_setup(&error.to_string());
        end(0)
    })
}

/// Ties a CPU's thread to a CPU of the host, if one was asked for, and starts its watchdog.
fn begin(pin: Option<usize>) -> Result<()> {
    if let Some(pin) = pin {
        let mut cpus = CpuSet::new();
        if pin < CpuSet::MAX_CPU {
            cpus.set(pin);
        }
        sched_setaffinity(None, &cpus).context("running the guest on the CPU asked for")?;
    }
    watchdog::start()
}

/// Drops what running needs no more, but for system calls.
fn lock(ground: &Ground<'_>, order: Order) -> Result<()> {
    ground.jail.enter()?;
    if order.end_with_parent {
        // Losing privileges takes this back, so it comes after the jail.
        set_parent_process_death_signal(Some(RustixSignal::KILL))
            .context("tying the guest to its parent")?;
        if getppid() != Some(ground.parent) {
            // It ended before it could be tied to.
            end(SPEECHLESS);
        }
    }
    Ok(())
}

/// Leaves the parent's terminal and signal handlers.
fn detach() -> Result<()> {
    // Ctrl-C at the parent's terminal is the parent's affair.
    setsid().context("a session for the guest's process")?;
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in HANDLED {
        // SAFETY: the default action runs no code.
        unsafe { sigaction(signal, &default) }.context("resetting a signal")?;
    }
    SigSet::empty()
        .thread_set_mask()
        .context("unblocking signals")
}

/// Takes the guest's name.
fn settle(order: &Order) {
    let name = order.name.iter().copied();
    let name: Vec<u8> = name.filter(|&b| b != 0).take(15).collect();
    if let Ok(name) = std::ffi::CString::new(name) {
        // A label for ps only.
        let _ = set_name(&name);
    }
}

fn map_control(order: &Order) -> Result<(Region<'static>, Reporter)> {
    let span = Span {
        address: order.layout.control.address,
        length: FILE_BYTES as u64,
    };
    let file = order.control.as_fd();
    let at = map_file(span, Access::Write, MapFlags::SHARED, file, 0)?;
    // SAFETY: just mapped, for good; both parts lie inside and are page aligned.
    unsafe {
        let report = at.add(order.layout.control.length as usize);
        Ok((Region::new(at), Reporter::new(report.cast())))
    }
}

fn map_image(image: &Image) -> Result<()> {
    for segment in &image.segments {
        let span = Span {
            address: segment.address,
            length: segment.length,
        };
        let offset = segment.address - IMAGE_BASE;
        // Private: pages that no guest writes are the file's own, shared by all guests.
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        map_file(span, segment.access, flags, image.file.as_fd(), offset)?;
        if segment.access == Access::Write {
            populate(span, 0, 2);
        }
    }
    Ok(())
}

/// Maps everything but the image and the control region.
///
/// The pages that every guest touches when it starts are provided: the heads of the control region, of the
/// console and of the heap, the end of the stack, and what there is of the data region already. That is cheaper
/// than a fault for each inside the guest, and KVM maps neighbours that are there along with a page that faults
/// (see [`crate::layout`]).
fn map_memory(order: &Order) -> Result<()> {
    let layout = &order.layout;
    let spans = [layout.boot, layout.heap, layout.private].into_iter();
    for span in spans.chain(layout.stacks()) {
        map_anonymous(span)?;
    }
    if let Some(file) = &order.data {
        let file = file.as_fd();
        map_file(layout.data, Access::Write, MapFlags::SHARED, file, 0)?;
        populate_present(layout.data, file);
    }
    // SAFETY: just mapped, writable, and long enough.
    unsafe {
        let to = layout.boot.address as *mut u8;
        std::ptr::copy_nonoverlapping(order.boot_area.as_ptr(), to, order.boot_area.len());
    }
    populate(layout.control, 0, 2);
    populate(layout.heap, 0, CLUSTER / PAGE as u64);
    for stack in layout.stacks() {
        let ahead = STACK_AHEAD / PAGE as u64;
        populate(stack, stack.length / PAGE as u64 - ahead, ahead);
    }
    Ok(())
}

/// Maps the parts of a memory file that have memory already, without giving any to the rest. Whoever made the
/// file decides so what the guest finds at hand. Of long parts it is the beginnings, as these are cheap.
fn populate_present(span: Span, file: BorrowedFd<'_>) {
    const PARTS: usize = 4;
    const PAGES: u64 = 64;
    let mut end = 0;
    for _ in 0..PARTS {
        // A failure means that there is no more, or a kernel that doesn't tell.
        let Ok(start) = seek(file, SeekFrom::Data(end)) else {
            return;
        };
        end = seek(file, SeekFrom::Hole(start)).unwrap_or(start);
        if start >= end || start >= span.length {
            return;
        }
        let pages = (end.min(span.length) - start) / PAGE as u64;
        populate(span, start / PAGE as u64, pages.min(PAGES));
    }
}

/// Provides some pages of a span ahead.
fn populate(span: Span, first: u64, pages: u64) {
    let page = PAGE as u64;
    let length = (pages * page).min(span.length);
    // SAFETY: inside the guest's memory, mapped writable. If it fails, the guest's faults do it.
    let _ = unsafe {
        let at = (span.address + first * page) as *mut c_void;
        madvise(at, length as usize, Advice::LinuxPopulateWrite)
    };
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

fn close(descriptor: BorrowedFd<'_>) {
    close_range(descriptor.as_raw_fd(), descriptor.as_raw_fd());
}

/// Moves doorbells and orders to their numbers and closes all other descriptors.
fn keep_doorbells(ground: &Ground<'_>) -> Result<BorrowedFd<'static>> {
    const FREE: RawFd = 3;
    let moves = [
        (ground.switch_doorbell, SWITCH_DOORBELL),
        (ground.control_doorbell, CONTROL_DOORBELL),
        (Some(ground.orders), ORDERS),
    ];
    let mut copies = Vec::new();
    for (descriptor, number) in moves {
        if let Some(descriptor) = descriptor {
            let copy = fcntl_dupfd_cloexec(descriptor, FREE).context("a doorbell")?;
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
    // SAFETY: just put there; open until the guest starts, when nobody takes orders any more.
    Ok(unsafe { BorrowedFd::borrow_raw(ORDERS) })
}
