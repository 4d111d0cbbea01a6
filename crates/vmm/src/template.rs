//! The process template: the state that all guests of a program share, set up once; and pre-forked processes.
//!
//! Behind KVM most of a start is done before the guest is known: the process drops inherited resources, maps the image,
//! and creates the machine, its processors and its memory slot. That depends on a shape: memory size, CPUs and
//! doorbells. The guest itself comes later as a [launch message](crate::launch). So a host that keeps a pre-forked
//! process starts guests in about half the time.

use std::cell::RefCell;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use abi::boot::{self, Span};
// rustix has no fork.
use nix::unistd::{ForkResult, fork};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::child::{self, ChildSetup};
use crate::error::{Context, Error, Result};
use crate::guest::Process;
use crate::image::Image;
use crate::jail::Jail;
use crate::kvm::Kvm;
use crate::launch;
use crate::layout::{Layout, doorbell};
use crate::process::ProcessWall;
use crate::title::MemoryMap;
use crate::zygote::{self, Request, Zygote};
use crate::{Guest, GuestSpec, Identity, Isolation, Shape, Wall, started};

/// The image and the walls' prepared parts, from which guests are started.
pub struct Template {
    parts: Parts,
    /// Forks guests' processes in this one's place, if it was asked to.
    zygote: Option<RefCell<Zygote>>,
}

/// The inputs of a guest's process.
pub(crate) struct Parts {
    image: Rc<Image>,
    kvm: Result<Kvm>,
    process: ProcessWall,
    jail: Jail,
    memory: Option<MemoryMap>,
}

impl Parts {
    /// Its descriptors.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = Option<BorrowedFd<'_>>> {
        let kvm = self.kvm.as_ref().ok().map(Kvm::device);
        [kvm, Some(self.image.file.as_fd()), self.jail.root()].into_iter()
    }

    /// What a pre-forked process needs to know.
    pub(crate) fn child_setup<'a>(
        &'a self,
        request: &Request,
        [switch_doorbell, control_doorbell]: [Option<BorrowedFd<'a>>; 2],
        launches: BorrowedFd<'a>,
        parent: Pid,
    ) -> ChildSetup<'a> {
        ChildSetup {
            image: &self.image,
            range: request.range,
            cpus: request.cpus,
            kvm: self.kvm.as_ref().ok().filter(|_| request.vm),
            process: &self.process,
            jail: &self.jail,
            memory: self.memory,
            switch_doorbell,
            control_doorbell,
            launches,
            parent,
        }
    }
}

impl Template {
    /// Prepares guests of an image: [`crate::IMAGE`], or another one built like it.
    ///
    /// Succeeds without KVM: [`Self::wall`] then gives the reason.
    pub fn new(image: &'static [u8]) -> Result<Self> {
        let parts = Parts {
            image: Rc::new(Image::parse(image)?),
            kvm: Kvm::open(),
            process: ProcessWall::prepare()?,
            jail: Jail::prepare()?,
            memory: MemoryMap::own(),
        };
        Ok(Self {
            parts,
            zygote: None,
        })
    }

    /// As [`Self::new`], for a program with many guests: a [zygote](crate::zygote) forks their processes. It is
    /// forked here, so the calling program has one thread and, best, little memory.
    pub fn with_zygote(image: &'static [u8]) -> Result<Self> {
        let mut template = Self::new(image)?;
        template.zygote = Some(RefCell::new(Zygote::start(&template.parts)?));
        Ok(template)
    }

    /// The wall of a guest with `isolation`.
    pub fn wall(&self, isolation: Isolation) -> Result<Wall> {
        match (isolation, &self.parts.kvm) {
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
        Layout::new(self.image(), spec, self.wall(spec.isolation)?).map(drop)
    }

    /// Pre-forks a process for any guest of a shape: most of the work of a start, done in advance. The calling
    /// program has one thread.
    pub fn prepare(&self, shape: &Shape<'_>) -> Result<Prepared<'_>> {
        let wall = self.wall(shape.isolation)?;
        let range = Layout::range(self.image(), shape, wall);
        let request = Request::new(shape, wall, range);
        let (launches, receiver) = launch::channel()?;
        let process = match &self.zygote {
            Some(zygote) => {
                self.ask(zygote, request, shape, receiver.as_fd())?;
                Waited::Asked
            }
            None => Waited::Known(self.fork(request, shape, receiver.as_fd())?),
        };
        Ok(Prepared {
            template: self,
            waiting: Waiting { process, launches },
            wall,
            range,
            cpus: shape.cpus,
            doorbells: doorbells(shape),
        })
    }

    /// Asks the zygote for a process; starts another zygote if that has ended.
    fn ask(
        &self,
        zygote: &RefCell<Zygote>,
        request: Request,
        shape: &Shape<'_>,
        launches: BorrowedFd<'_>,
    ) -> Result<()> {
        let asked = zygote.borrow().request(request, shape, launches);
        asked.or_else(|_| {
            zygote.replace(Zygote::start(&self.parts)?);
            zygote.borrow().request(request, shape, launches)
        })
    }

    fn fork(
        &self,
        request: Request,
        shape: &Shape<'_>,
        launches: BorrowedFd<'_>,
    ) -> Result<Process> {
        check_threads()?;
        let doorbells = [shape.switch_doorbell, shape.control_doorbell];
        let setup = self
            .parts
            .child_setup(&request, doorbells, launches, getpid());
        // SAFETY: one thread, so the child finds no lock taken.
        match unsafe { fork() }.context("starting a process for the guest")? {
            ForkResult::Child => child::run(&setup),
            ForkResult::Parent { child } => {
                hold(Pid::from_raw(child.as_raw()).expect("a child's number is not 0"))
            }
        }
    }

    pub(crate) fn image(&self) -> &Rc<Image> {
        &self.parts.image
    }

    fn boot_area(&self, spec: &GuestSpec<'_>, layout: &Layout, wall: Wall) -> Result<Vec<u8>> {
        let mut page = layout.boot_page();
        page.guest_id = spec.id;
        let mut seed = [0; 32];
        getrandom(&mut seed, GetRandomFlags::empty()).context("a random seed")?;
        for (word, bytes) in page.seed.iter_mut().zip(seed.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"));
        }
        match wall {
            Wall::Vm => {
                let address = |offset| layout.doorbells.address + offset;
                page.wall = boot::WALL_KVM;
                page.tsc_khz = self.parts.kvm.as_ref().map_or(0, |kvm| kvm.tsc_khz);
                page.doorbells.switch = address(doorbell::SWITCH);
                page.doorbells.control = address(doorbell::CONTROL);
                page.doorbells.wait = address(doorbell::WAIT);
                page.doorbells.halt = address(doorbell::HALT);
                page.doorbells.wake = address(doorbell::WAKE);
                page.doorbells.sockets = address(doorbell::SOCKETS);
            }
            Wall::Process => {
                page.wall = boot::WALL_PROCESS;
                page.tsc_khz = match &self.parts.kvm {
                    Ok(kvm) => kvm.tsc_khz,
                    Err(_) => self.parts.process.tsc_khz(),
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
    waiting: Waiting,
    wall: Wall,
    range: Span,
    cpus: usize,
    doorbells: [Option<RawFd>; 2],
}

/// A process that waits for its launch message.
struct Waiting {
    process: Waited,
    launches: UnixStream,
}

enum Waited {
    /// The zygote was asked, and has not told its number.
    Asked,
    Known(Process),
    /// It has its launch message, and runs a guest.
    Launched,
}

impl Waiting {
    /// The process; waits for it.
    fn process(&mut self) -> Result<&Process> {
        if let Waited::Asked = self.process {
            self.process = Waited::Launched;
            self.process = Waited::Known(hold(zygote::receive_pid(&self.launches)?)?);
        }
        match &self.process {
            Waited::Known(process) => Ok(process),
            Waited::Asked | Waited::Launched => Err(Error::Ended),
        }
    }

    /// Takes the process out after its launch message was sent.
    fn launched(mut self) -> Result<Process> {
        self.process()?;
        match std::mem::replace(&mut self.process, Waited::Launched) {
            Waited::Known(process) => Ok(process),
            Waited::Asked | Waited::Launched => Err(Error::Ended),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A child of this program whose number is not known could not be waited for.
        let _ = self.process();
    }
}

impl Prepared<'_> {
    /// The identity of its future guest, to be recorded before the guest is started, so that no guest runs
    /// unrecorded. Waits for the process.
    pub fn identity(&mut self) -> Result<Identity> {
        let pid = self.waiting.process()?.pid.as_raw_nonzero().get() as u32;
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
        switch.map(|_| child::SWITCH_DOORBELL)
    }

    /// Starts a guest of the shape that the process was forked for; otherwise like [`Template::spawn`].
    pub fn start(self, spec: &GuestSpec<'_>) -> Result<Guest> {
        let template = self.template;
        let layout = Layout::new(template.image(), spec, self.wall)?;
        let fits = template.wall(spec.isolation)? == self.wall
            && layout.end() == self.range.end()
            && spec.cpus == self.cpus
            && doorbells(&spec.shape()) == self.doorbells;
        if !fits {
            return Err(Error::Unlike(spec.name.to_owned()));
        }
        let boot_area = template.boot_area(spec, &layout, self.wall)?;
        launch::send(&self.waiting.launches, spec, &layout, &boot_area)?;
        let switch_doorbell = self.switch_doorbell();
        let mut process = self.waiting.launched()?;
        process.outlives = !spec.end_with_parent;
        Ok(Guest {
            process,
            switch_doorbell,
            wall: self.wall,
            image: Rc::clone(template.image()),
            layout,
        })
    }
}

fn doorbells(shape: &Shape<'_>) -> [Option<RawFd>; 2] {
    [shape.switch_doorbell, shape.control_doorbell].map(|doorbell| Some(doorbell?.as_raw_fd()))
}

/// Opens a descriptor for a child.
fn hold(pid: Pid) -> Result<Process> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Process::child(pid, pidfd)),
        Err(error) => {
            abandon(pid);
            Err(error).context("a descriptor for the guest's process")
        }
    }
}

/// Ends a child without a pidfd. Its number stays its own until it is waited for.
fn abandon(pid: Pid) {
    use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// The number of threads is the number of entries in the task folder: its links minus two.
pub(crate) fn check_threads() -> Result<()> {
    let threads = fs::metadata("/proc/self/task")
        .map(|task| task.nlink().saturating_sub(2) as usize)
        .context("counting this program's threads")?;
    if threads > 1 {
        Err(Error::Threads(threads))
    } else {
        Ok(())
    }
}
