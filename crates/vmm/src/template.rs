//! The process template: what all guests of a program have in common, set up once; and pre-forked processes.
//!
//! Behind KVM most of a start is done before the guest is known: the process drops what it inherited, maps the
//! image, and creates the machine, its processors and its memory slot. That depends on a shape: memory size, CPUs
//! and doorbells. The guest itself comes later as a [launch message](crate::launch). So a host that keeps a
//! pre-forked process starts guests in about half the time.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use abi::boot::{self, Span};
// rustix has no fork.
use nix::unistd::{ForkResult, fork};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

use crate::child::{self, ChildSetup};
use crate::error::{Context, Error, Result};
use crate::guest::Process;
use crate::image::Image;
use crate::jail::Jail;
use crate::kvm::Kvm;
use crate::launch;
use crate::layout::{Layout, doorbell};
use crate::process::ProcessWall;
use crate::{Guest, GuestSpec, Identity, Isolation, Shape, Wall, started};

/// The image and the walls' prepared parts, from which guests are started.
pub struct Template {
    image: Rc<Image>,
    kvm: Result<Kvm>,
    process: ProcessWall,
    jail: Jail,
}

impl Template {
    /// Prepares guests of an image: [`crate::IMAGE`], or another one built like it.
    ///
    /// Succeeds without KVM: [`Self::wall`] then gives the reason.
    pub fn new(image: &[u8]) -> Result<Self> {
        Ok(Self {
            image: Rc::new(Image::parse(image)?),
            kvm: Kvm::open(),
            process: ProcessWall::prepare()?,
            jail: Jail::prepare()?,
        })
    }

    /// The wall of a guest with `isolation`.
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

    /// Starts a guest. Returns when its process exists and has its launch message. Whether the guest runs shows
    /// in its state; the reason of a failure shows in its exit.
    ///
    /// The calling program has one thread: the guest's process is forked from it.
    pub fn spawn(&self, spec: &GuestSpec<'_>) -> Result<Guest> {
        // An invalid guest is refused before there is a process.
        self.check(spec)?;
        self.prepare(&spec.shape())?.start(spec)
    }

    /// Whether a guest can be started: whether its wall exists, and its memory suffices. Uses none of the
    /// descriptors in `spec`.
    pub fn check(&self, spec: &GuestSpec<'_>) -> Result<()> {
        Layout::new(&self.image, spec, self.wall(spec.isolation)?).map(drop)
    }

    /// Pre-forks a process for any guest of a shape: most of the work of a start, done in advance. The calling
    /// program has one thread.
    pub fn prepare(&self, shape: &Shape<'_>) -> Result<Prepared<'_>> {
        let wall = self.wall(shape.isolation)?;
        check_threads()?;
        let (launches, receiver) = launch::channel()?;
        let range = Layout::range(&self.image, shape, wall);
        let setup = ChildSetup {
            image: &self.image,
            range,
            cpus: shape.cpus.clamp(1, abi::CPUS_MAX) as u64,
            kvm: self.kvm.as_ref().ok().filter(|_| wall == Wall::Vm),
            process: &self.process,
            jail: &self.jail,
            switch_doorbell: shape.switch_doorbell,
            control_doorbell: shape.control_doorbell,
            launches: receiver.as_fd(),
            parent: getpid(),
        };
        // SAFETY: one thread, so the child finds no lock taken.
        let child = match unsafe { fork() }.context("starting a process for the guest")? {
            ForkResult::Child => child::run(&setup),
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
            launches,
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
                let address = |offset| layout.doorbells.address + offset;
                page.wall = boot::WALL_KVM;
                page.tsc_khz = self.kvm.as_ref().map_or(0, |kvm| kvm.tsc_khz);
                page.doorbells.switch = address(doorbell::SWITCH);
                page.doorbells.control = address(doorbell::CONTROL);
                page.doorbells.wait = address(doorbell::WAIT);
                page.doorbells.halt = address(doorbell::HALT);
                page.doorbells.wake = address(doorbell::WAKE);
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

/// A pre-forked process, which waits for its guest. Dropping it ends it.
pub struct Prepared<'t> {
    template: &'t Template,
    process: Process,
    launches: UnixStream,
    wall: Wall,
    range: Span,
    cpus: usize,
    doorbells: [Option<RawFd>; 2],
}

impl Prepared<'_> {
    /// The identity of its future guest, to be recorded before the guest is started, so that no guest runs
    /// unrecorded.
    pub fn identity(&self) -> Result<Identity> {
        let pid = self.process.pid.as_raw_nonzero().get() as u32;
        Ok(Identity {
            pid,
            started: started(pid).ok_or(Error::Ended)?,
            wall: self.wall,
            switch_doorbell: self.switch_doorbell(),
        })
    }

    /// Number of the switch's doorbell in the process.
    fn switch_doorbell(&self) -> Option<RawFd> {
        let [switch, _] = self.doorbells;
        match self.wall {
            Wall::Vm => switch,
            Wall::Process => switch.map(|_| child::SWITCH_DOORBELL),
        }
    }

    /// Starts a guest of the shape that the process was forked for; otherwise like [`Template::spawn`].
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
        launch::send(&self.launches, spec, &layout, &boot_area)?;
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

/// Ends a child without a pidfd. Its number stays its own until it is waited for.
fn abandon(pid: Pid) {
    use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// The number of threads is the number of entries in the task folder: its links minus two.
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
