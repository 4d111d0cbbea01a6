//! Errors before a guest runs.

use std::io;

use abi::boot::BootError;

/// One sentence each: the problem, its place, and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No /dev/kvm on this machine.
    #[error(
        "there is no /dev/kvm on this machine: enable virtualization in its firmware or load the kvm module, or use the process wall (isolation \"process\")"
    )]
    NoKvm,
    /// /dev/kvm exists but may not be opened.
    #[error(
        "no permission to open /dev/kvm: run as root or join the kvm group, or use the process wall (isolation \"process\")"
    )]
    KvmPermission,
    /// /dev/kvm does not do what a guest needs.
    #[error(
        "KVM on this machine cannot run guests ({0}): use the process wall (isolation \"process\")"
    )]
    KvmUnusable(String),
    /// The image is not one.
    #[error("the guest image cannot be used: {0}")]
    Image(&'static str),
    /// Not enough memory for image, stack and the smallest heap.
    #[error(
        "memory too small: guest {name} has {given} KiB and needs at least {needed} KiB for its image, stack and configuration"
    )]
    MemoryTooSmall {
        /// The guest.
        name: String,
        /// What it was given, in KiB.
        given: u64,
        /// The least that would do, in KiB.
        needed: u64,
    },
    /// More memory than the wall lays out.
    #[error("memory too large: guest {name} has {given} MiB, and the maximum is {most} MiB")]
    MemoryTooLarge {
        /// The guest.
        name: String,
        /// What it was given, in MiB.
        given: u64,
        /// The most that would do, in MiB.
        most: u64,
    },
    /// No CPU, or too many.
    #[error("guest {0} cannot have {1} CPUs: give it 1 to {most}", most = abi::CPUS_MAX)]
    Cpus(String, usize),
    /// The user has as many watches as the kernel allows.
    #[error(
        "the kernel watches for no further guest's end: raise the number of watches, `sysctl -w fs.inotify.max_user_watches=200000`"
    )]
    Watches,
    /// The data region's size or wake word is impossible.
    #[error(
        "the data region of guest {0} is not a whole number of pages with its wake words inside"
    )]
    DataRegion(String),
    /// The boot area cannot be written.
    #[error("guest {name} cannot be booted: {source}")]
    Boot {
        /// The guest.
        name: String,
        /// What doesn't fit.
        source: BootError,
    },
    /// A fork would copy a program with several threads.
    #[error(
        "a guest can only be started from a program with one thread, this one has {0}: start guests before other threads, or from a process of their own"
    )]
    Threads(usize),
    /// The guest does not have the shape of the pre-forked process.
    #[error(
        "guest {0} does not fit the pre-forked process: prepare one for its isolation, CPUs, memory, data region and doorbells"
    )]
    Unlike(String),
    /// Its memory would be copied while it changes.
    #[error("the guest is not suspended: suspend it before its memory is copied")]
    NotSuspended,
    /// A snapshot from which no guest can be started.
    #[error("the saved guest cannot be started: {0}")]
    Snapshot(&'static str),
    /// A bug in this program.
    #[error("the program that runs guests panicked, which is a bug")]
    Panicked,
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// What was tried, as a noun.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel does not tell what a guest writes while it is copied.
    #[error(
        "what the guest writes while it is copied cannot be tracked: {what} failed: {source}: {}",
        advice(source)
    )]
    Tracking {
        /// What was tried, as a noun.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The guest wrote something impossible into its control channel.
    #[error("the control channel of the guest is broken: {0}")]
    Channel(#[from] abi::message::ChannelError),
    /// A request is too long for the control channel.
    #[error(
        "the request is {0} bytes long, and the maximum is {most}",
        most = abi::message::CONTENTS_MAX
    )]
    RequestTooLong(usize),
    /// The guest does not take its requests.
    #[error("{0} bytes of requests wait for the guest: ask again when it has answered some")]
    Backlog(usize),
    /// An answer is longer than any request or answer may be.
    #[error(
        "the guest sent an answer of more than {most} bytes",
        most = abi::message::CONTENTS_MAX
    )]
    AnswerTooLong,
    /// The guest ended while its answer was awaited.
    #[error("the guest ended before it answered")]
    Ended,
    /// The guest did not answer.
    #[error("the guest did not answer within {0} ms")]
    NoAnswer(u128),
}

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What helps where the writes of a guest cannot be tracked.
fn advice(error: &io::Error) -> &'static str {
    use nix::errno::Errno;
    match Errno::from_raw(error.raw_os_error().unwrap_or_default()) {
        Errno::EPERM | Errno::EACCES => {
            "the node may not look into processes of guests: run it as root, or give it CAP_SYS_PTRACE"
        }
        Errno::ESRCH | Errno::ENOENT | Errno::EBADF => {
            "the guest's process is ending: start the guest and try again"
        }
        Errno::EBUSY | Errno::EEXIST => {
            "another program tracks its memory, as a debugger may: end that first"
        }
        Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE => {
            "the host is out of memory or descriptors: free some and try again"
        }
        _ => {
            "the kernel of this host does not do it, which Linux 6.7 and later do: `weir save` the guest and `weir restore` it there instead"
        }
    }
}

/// Names the system call that failed.
pub(crate) trait Context<T> {
    fn context(self, what: &'static str) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: &'static str) -> Result<T> {
        self.map_err(|e| Error::System {
            what,
            source: e.into(),
        })
    }
}
