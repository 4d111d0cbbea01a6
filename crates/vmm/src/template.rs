//! What all guests of a program have in common, made ready once; and pre-forked processes, which wait for a
//! guest.
//!
//! Behind KVM most of a start is done before the guest is known: the process drops what it inherited,
//! maps the image, and creates the machine, its processors and its memory slot. That takes a shape:
//! memory size, CPUs and doorbells. The guest itself comes later as an [order](crate::order). So a
//! host that keeps a pre-forked process starts guests in about half the time.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use abi::boot::{self, Span};
use nix::unistd::{ForkResult, fork};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

use crate::child::{self, Ground};
use crate::error::{Context, Error, Result};
use crate::guest::Process;
use crate::image::Image;
use crate::jail::Jail;
use crate::kvm::Kvm;
use crate::layout::{Layout, doorbell};
use crate::order;
use crate::process::ProcessWall;
use crate::{Guest, GuestSpec, Isolation, Shape, Trace, Wall, started};

/// The image, the walls' prepared parts, and the power to make guests of them.
pub struct Template {
    image: Rc<Image>,
    kvm: Result<Kvm>,
    process: ProcessWall,
    jail: Jail,
}

impl Template {
    /// Prepares guests of an image: [`crate::IMAGE`], or another one built like it.
    ///
    /// Succeeds without KVM; [`Self::wall`] says then what is missing.
    pub fn new(image: &[u8]) -> Result<Self> {
        Ok(Self {
            image: Rc::new(Image::parse(image)?),
            kvm: Kvm::open(),
            process: ProcessWall::prepare()?,
            jail: Jail::prepare()?,
        })
    }

    /// Which wall a guest gets that asks for `isolation`.
    pub fn wall(&self, isolation: Isolation) -> Result<Wall> {
        match (isolation, &self.kvm) {
            (Isolation::Process, _) | (Isolation::Auto, Err(_)) => Ok(Wall::Process),
            (_, Ok(_)) => Ok(Wall::Vm),
            (Isolation::Vm, Err(error)) => Err(match error {
                Error::NoKvm => Error::NoKvm,
                Error::KvmPermission => Error::KvmPermission,
                Error::KvmUnusable(reason) => Error::KvmUnusable(reason.clone()),
                other => Error::KvmUnusable(other.to_string()),
            }),
        }
    }

    /// Starts a guest. Returns when its process exists and has its order; whether the guest in it runs shows in
    /// its state, and why not in its exit.
    ///
    /// The calling program has one thread: the guest's process is forked from it.
    pub fn spawn(&self, spec: &GuestSpec<'_>) -> Result<Guest> {
        // What is wrong with the guest is found out before there is a process.
        self.check(spec)?;
        self.prepare(&spec.shape())?.start(spec)
    }

    /// Whether a guest can be what it is to be: whether there is its wall, and room in its memory. Of descriptors,
    /// none is used.
    pub fn check(&self, spec: &GuestSpec<'_>) -> Result<()> {
        Layout::new(&self.image, spec, self.wall(spec.isolation)?).map(drop)
    }

    /// Makes a process ready for a guest of a shape, whichever it will be: most of what it takes to start a
    /// guest, done ahead. The calling program has one thread.
    pub fn prepare(&self, shape: &Shape<'_>) -> Result<Prepared<'_>> {
        let wall = self.wall(shape.isolation)?;
        check_threads()?;
        let (orders, taker) = order::channel()?;
        let range = Layout::range(&self.image, shape, wall);
        let ground = Ground {
            image: &self.image,
            range,
            cpus: shape.cpus.clamp(1, abi::CPUS_MAX) as u64,
            kvm: self.kvm.as_ref().ok().filter(|_| wall == Wall::Vm),
            process: &self.process,
            jail: &self.jail,
            switch_doorbell: shape.switch_doorbell,
            control_doorbell: shape.control_doorbell,
            orders: taker.as_fd(),
            parent: getpid(),
        };
        // SAFETY: one thread, so the child finds no lock taken.
        let child = match unsafe { fork() }.context("starting a process for the guest")? {
            ForkResult::Child => child::run(&ground),
            ForkResult::Parent { child } => child,
        };
        let pid = Pid::from_raw(child.as_raw()).expect("a child's number is not 0");
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                abandon(pid);
                return Err(error).context("a descriptor for the guest's process");
            }
        };
        Ok(Prepared {
            template: self,
            process: Process::child(pid, pidfd),
            orders,
            wall,
            range,
            cpus: shape.cpus,
            doorbells: doorbells(shape),
        })
    }

    pub(crate) fn image(&self) -> &Rc<Image> {
        &self.image
    }

    fn boot_area(&self, spec: &GuestSpec<'_>, layout: &Layout, wall: Wall) -> Result<Vec<u8>> {
        let mut page = layout.boot_page();
        page.guest_id = spec.id;
        let now = clock_gettime(ClockId::Realtime);
        page.wall_clock_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let mut seed = [0; 32];
        getrandom(&mut seed, GetRandomFlags::empty()).context("a random seed")?;
        for (word, bytes) in page.seed.iter_mut().zip(seed.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"));
        }
        match wall {
            Wall::Vm => {
                let place = |offset| layout.doorbells.address + offset;
                page.wall = boot::WALL_KVM;
                page.tsc_khz = self.kvm.as_ref().map_or(0, |kvm| kvm.tsc_khz);
                page.doorbells.switch = place(doorbell::SWITCH);
                page.doorbells.control = place(doorbell::CONTROL);
                page.doorbells.wait = place(doorbell::WAIT);
                page.doorbells.halt = place(doorbell::HALT);
                page.doorbells.wake = place(doorbell::WAKE);
            }
            Wall::Process => {
                page.wall = boot::WALL_PROCESS;
                page.tsc_khz = match &self.kvm {
                    Ok(kvm) => kvm.tsc_khz,
                    Err(_) => self.process.tsc_khz(),
                };
                page.doorbells = child::process_doorbells(spec);
            }
        }
        let mut area = vec![0; boot::area_length(spec.name.len(), spec.config.len())];
        boot::write(&mut area, &page, spec.name, spec.config).map_err(|source| Error::Boot {
            name: spec.name.to_owned(),
            source,
        })?;
        Ok(area)
    }
}

/// A process that waits for its guest. Dropping it ends it.
pub struct Prepared<'t> {
    template: &'t Template,
    process: Process,
    orders: OwnedFd,
    wall: Wall,
    range: Span,
    cpus: usize,
    doorbells: [Option<RawFd>; 2],
}

impl Prepared<'_> {
    /// By what its guest will be found again. To be noted before the guest is started, so that no guest runs
    /// that nobody knows of.
    pub fn trace(&self) -> Result<Trace> {
        let pid = self.process.pid.as_raw_nonzero().get() as u32;
        Ok(Trace {
            pid,
            started: started(pid).ok_or(Error::Ended)?,
            wall: self.wall,
            switch_doorbell: self.switch_doorbell(),
        })
    }

    /// Number that the process has the switch's doorbell by.
    fn switch_doorbell(&self) -> Option<RawFd> {
        let [switch, _] = self.doorbells;
        match self.wall {
            Wall::Vm => switch,
            Wall::Process => switch.map(|_| child::SWITCH_DOORBELL),
        }
    }

    /// Starts a guest of the shape that the process was made ready for; otherwise like [`Template::spawn`].
    pub fn start(self, spec: &GuestSpec<'_>) -> Result<Guest> {
        let template = self.template;
        let layout = Layout::new(&template.image, spec, self.wall)?;
        let fits = template.wall(spec.isolation)? == self.wall
            && layout.end() == self.range.end()
            && spec.cpus == self.cpus
            && doorbells(&spec.shape()) == self.doorbells;
        if !fits {
            return Err(Error::Unlike(spec.name.to_owned()));
        }
        let boot_area = template.boot_area(spec, &layout, self.wall)?;
        order::give(self.orders.as_fd(), spec, &layout, &boot_area)?;
        let switch_doorbell = self.switch_doorbell();
        let mut process = self.process;
        process.outlives = !spec.end_with_parent;
        Ok(Guest {
            process,
            switch_doorbell,
            wall: self.wall,
            image: Rc::clone(&template.image),
            layout,
        })
    }
}

fn doorbells(shape: &Shape<'_>) -> [Option<RawFd>; 2] {
    [shape.switch_doorbell, shape.control_doorbell].map(|doorbell| Some(doorbell?.as_raw_fd()))
}

/// Ends a child that nothing can refer to safely but its number, which is its own until it is waited for.
fn abandon(pid: Pid) {
    use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// The number of threads is that of entries in the task folder: its links but two.
fn check_threads() -> Result<()> {
    let threads = fs::metadata("/proc/self/task")
        .map(|task| task.nlink().saturating_sub(2) as usize)
        .context("counting this program's threads")?;
    if threads > 1 {
        Err(Error::Threads(threads))
    } else {
        Ok(())
    }
}
