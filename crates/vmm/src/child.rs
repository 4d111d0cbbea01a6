//! The guest's process, from the fork to the wall.
//!
//! Everything here runs in the child. It releases inherited resources, sets up the state that all guests of a shape
//! share, waits for its guest, maps the guest's memory, and enters one of the walls. It never returns.

mod memory;

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use abi::boot::{Doorbells, Span};
use abi::control::Region;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::getsid;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    Pid, Signal as RustixSignal, getppid, set_parent_process_death_signal, setsid,
};
use rustix::thread::{CpuSet, sched_setaffinity, set_name};

use crate::error::{Context, Error, Result};
use crate::image::Image;
use crate::jail::Jail;
use crate::kvm::{Kvm, Machine, Processor};
use crate::launch::{self, Launch};
use crate::process::ProcessWall;
use crate::report::Reporter;
use crate::title::{self, MemoryMap};
use crate::{GuestSpec, tracking, watchdog};
pub(crate) use memory::populate;
use memory::{map_control, map_image, map_memory, set_clock};

/// The parameters of a pre-forked process.
pub(crate) struct ChildSetup<'a> {
    pub(crate) image: &'a Image,
    /// All of the guest's addresses.
    pub(crate) range: Span,
    /// Number of the guest's CPUs.
    pub(crate) cpus: u64,
    /// KVM, if that is the wall.
    pub(crate) kvm: Option<&'a Kvm>,
    pub(crate) process: &'a ProcessWall,
    pub(crate) jail: &'a Jail,
    /// Of the process that forks it; none if that is not known.
    pub(crate) memory: Option<MemoryMap>,
    pub(crate) switch_doorbell: Option<BorrowedFd<'a>>,
    pub(crate) control_doorbell: Option<BorrowedFd<'a>>,
    /// Socket by which the launch message comes.
    pub(crate) launches: BorrowedFd<'a>,
    pub(crate) parent: Pid,
}

/// Exit status of a child that could not report its failure.
const EXIT_UNREPORTED: i32 = 71;

/// Signals that programs often handle, and the standard library for stacks that overflow. A handler of the parent would
/// run into the jail, and the process would end by the jail's signal instead.
const HANDLED: [Signal; 10] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
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
/// Descriptor of the launch socket in a pre-forked process; of the doorbell to CoreEngine in one of a guest with sockets.
const LAUNCHES: RawFd = 2;
pub(crate) const SOCKETS_DOORBELL: RawFd = LAUNCHES;
/// Descriptors from here on have no fixed meaning.
const FREE: RawFd = 3;

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
        sockets: number(
            spec.sockets.map(|sockets| sockets.doorbell),
            SOCKETS_DOORBELL,
        ),
    }
}

/// The main function of a child that sends no report.
pub(crate) fn run_to_end(work: impl FnOnce() -> Result<()>) -> ! {
    end(catch(work).map_or(EXIT_UNREPORTED, |()| 0))
}

/// The main function of a guest's process.
pub(crate) fn run(setup: &ChildSetup<'_>) -> ! {
    // Nothing may unwind into the parent's code, of which this is a copy.
    let preforked = catch(|| Preforked::make(setup));
    // An error of the setup is reported once there is a guest, and so a report page.
    let launches = preforked
        .as_ref()
        .map_or(setup.launches, |preforked| preforked.launches);
    let Ok(Some(launch)) = launch::receive(launches) else {
        end(EXIT_UNREPORTED);
    };
    let Ok((control, reporter)) = map_control(&launch) else {
        end(EXIT_UNREPORTED);
    };
    let outcome =
        preforked.and_then(|preforked| catch(|| preforked.start(setup, launch, control, reporter)));
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

/// A process that waits for its guest, with everything set up that is the same for all guests.
struct Preforked {
    /// The machine, if KVM is the wall.
    machine: Option<Machine>,
    launches: BorrowedFd<'static>,
}

impl Preforked {
    fn make(setup: &ChildSetup<'_>) -> Result<Preforked> {
        detach()?;
        map_image(setup.image)?;
        setup.jail.leave_files()?;
        let descriptors = keep_descriptors(setup)?;
        tracking::offer();
        let machine = setup.kvm.map(|kvm| kvm.create(setup, &descriptors));
        Ok(Preforked {
            machine: machine.transpose()?,
            launches: descriptors.launches,
        })
    }

    /// Runs the guest to its end.
    fn start(
        self,
        setup: &ChildSetup<'_>,
        mut launch: Launch,
        control: Region<'static>,
        reporter: Reporter,
    ) -> Result<()> {
        let (image, layout, pins) = (
            setup.image,
            launch.parameters.layout,
            launch.parameters.pins,
        );
        set_thread_name(&launch.parameters.name);
        let title = title::of_guest(&launch.parameters.name, &launch.parameters.owner);
        let show = |title| setup.memory.map(|memory| memory.show(title));
        map_memory(image, &launch)?;
        let sockets = launch.sockets.take();
        match self.machine {
            None => {
                set_clock(&layout);
                let vault = setup.process.prepare_entry(image, &layout, &title)?;
                show(vault.title);
                keep_sockets(self.launches, sockets)?;
                confine(setup, launch)?;
                let cpus = (0..layout.cpus).zip(pins);
                let run = |(cpu, pin)| {
                    vault.use_signal_stack(cpu)?;
                    start_thread(pin)?;
                    vault.enter(cpu)
                };
                run_all(cpus.collect(), reporter, run)
            }
            Some(machine) => {
                let doorbell = sockets.as_ref().map(|sockets| sockets.doorbell.as_fd());
                let processors = machine.enter(image, &layout, doorbell)?;
                // The kernel reads it as long as the process lives.
                show(title::place(Box::leak(title.into_boxed_c_str())));
                keep_sockets(self.launches, sockets)?;
                set_clock(&layout);
                confine(setup, launch)?;
                let run = |(mut processor, pin): (Processor, _)| {
                    start_thread(pin)?;
                    setup.jail.filter()?;
                    processor.run(control, reporter);
                    // The jail leaves no way to tear the machine down; the kernel does it.
                    end(0)
                };
                run_all(processors.into_iter().zip(pins).collect(), reporter, run)
            }
        }
    }
}

/// Bytes of the stack of a thread that runs a CPU. The guest has a stack of its own.
const THREAD_STACK: usize = 64 << 10;

/// Runs a guest's CPUs, the first in this thread, each of the others in a thread of its own. They return only
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
        // The other threads don't end by themselves.
        reporter.write_setup(&error.to_string());
        end(0)
    })
}

/// Binds a CPU's thread to a CPU of the host, if one was requested, and starts its watchdog.
fn start_thread(pin: Option<usize>) -> Result<()> {
    if let Some(pin) = pin {
        let mut cpus = CpuSet::new();
        if pin < CpuSet::MAX_CPU {
            cpus.set(pin);
        }
        sched_setaffinity(None, &cpus).context("running the guest on the CPU asked for")?;
    }
    watchdog::start()
}

/// Drops all privileges that a running guest does not need, except for system calls.
fn confine(setup: &ChildSetup<'_>, launch: Launch) -> Result<()> {
    setup.jail.enter()?;
    if launch.parameters.end_with_parent {
        // A loss of privileges resets this, so it comes after the jail.
        set_parent_process_death_signal(Some(RustixSignal::KILL))
            .context("tying the guest to its parent")?;
        if getppid() != Some(setup.parent) {
            // The parent ended before.
            end(EXIT_UNREPORTED);
        }
    }
    Ok(())
}

/// Leaves the parent's terminal and signal handlers.
pub(crate) fn detach() -> Result<()> {
    const SESSION: &str = "a session for the guest's process";
    // Ctrl-C at the parent's terminal must not reach the guest. Guests of a zygote share its session: where the kernel
    // schedules each session as a group (sched(7)), all of them together weigh what one other session does, and many
    // busy ones leave the rest of the host its part. rustix cannot return a session outside this PID namespace.
    let parent = getsid(Some(nix::unistd::getppid())).context(SESSION)?;
    if getsid(None).context(SESSION)? == parent {
        setsid().context(SESSION)?;
    }
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in HANDLED {
        // SAFETY: the default action runs no code.
        unsafe { sigaction(signal, &default) }.context("resetting a signal")?;
    }
    SigSet::empty()
        .thread_set_mask()
        .context("unblocking signals")
}

/// Names the process's thread after its guest.
fn set_thread_name(name: &str) {
    let short: Vec<u8> = name.bytes().filter(|byte| *byte != 0).take(15).collect();
    if let Ok(short) = CString::new(short) {
        // A label for ps only.
        let _ = set_name(&short);
    }
}

/// Closes all descriptors from a number on but these, which are not below it.
pub(crate) fn keep_only(first: RawFd, keep: &[Option<BorrowedFd<'_>>]) {
    let mut keep: Vec<RawFd> = keep.iter().flatten().map(AsRawFd::as_raw_fd).collect();
    keep.sort_unstable();
    let mut next = first;
    for descriptor in keep {
        close_range(next, descriptor - 1);
        next = descriptor + 1;
    }
    close_range(next, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        // rustix and nix have no close_range.
        // SAFETY: the descriptors belong to the parent's code, which won't run again here. The call can't fail
        // for a range that isn't empty.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

fn close(descriptor: BorrowedFd<'_>) {
    close_range(descriptor.as_raw_fd(), descriptor.as_raw_fd());
}

/// The descriptors of a pre-forked process.
pub(crate) struct Descriptors {
    pub(crate) switch_doorbell: Option<BorrowedFd<'static>>,
    pub(crate) control_doorbell: Option<BorrowedFd<'static>>,
    launches: BorrowedFd<'static>,
}

/// Leaves a guest the doorbell to CoreEngine, and its process the connection that ends with it. The launch socket is
/// closed.
fn keep_sockets(launches: BorrowedFd<'_>, sockets: Option<launch::Sockets>) -> Result<()> {
    let Some(sockets) = sockets else {
        close(launches);
        return Ok(());
    };
    // rustix's dup2 takes an owned descriptor for the number, which has none here.
    // SAFETY: replaces the launch socket, which is not used any more.
    if unsafe { libc::dup2(sockets.doorbell.as_raw_fd(), SOCKETS_DOORBELL) } < 0 {
        return Err(std::io::Error::last_os_error()).context("a doorbell");
    }
    // Its number is none that the guest can use.
    let _ = sockets.connection.into_raw_fd();
    Ok(())
}

/// Moves the doorbells and the launch socket to their numbers and closes all other descriptors but KVM's.
fn keep_descriptors(setup: &ChildSetup<'_>) -> Result<Descriptors> {
    let moves = [
        (setup.switch_doorbell, SWITCH_DOORBELL),
        (setup.control_doorbell, CONTROL_DOORBELL),
        (Some(setup.launches), LAUNCHES),
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
        // rustix's dup2 takes an owned descriptor for the number, which has none here.
        // SAFETY: the number was just closed, so nothing is replaced.
        if unsafe { libc::dup2(copy, number) } < 0 {
            return Err(std::io::Error::last_os_error()).context("a doorbell");
        }
    }
    keep_only(FREE, &[setup.kvm.map(Kvm::device)]);
    // SAFETY: just moved there; open until the process ends, or for the socket until the guest starts, when it is
    // not used any more.
    let at = |number| unsafe { BorrowedFd::borrow_raw(number) };
    Ok(Descriptors {
        switch_doorbell: setup.switch_doorbell.map(|_| at(SWITCH_DOORBELL)),
        control_doorbell: setup.control_doorbell.map(|_| at(CONTROL_DOORBELL)),
        launches: at(LAUNCHES),
    })
}
