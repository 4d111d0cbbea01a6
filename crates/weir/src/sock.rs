//! `weir sock`: programs whose sockets a network stack module serves.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use netkernel::core::CoreEngine;
use netkernel::kernel::KernelNsm;
use netkernel::protocol::{Limits, Operator, Request, Token};
use node::paths::run_folder;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Runs programs whose sockets a network stack module (NSM) serves
#[derive(Debug, Subcommand)]
pub enum SockCommand {
    /// Runs a program whose sockets an NSM serves, its children's too
    ///
    /// It makes a kernel NSM for the program: Linux's TCP/IP in the network namespace that the
    /// command runs in. It ends when the program and its children have ended.
    #[command(after_help = "Examples:
  weir sock run -- curl http://192.0.2.1/
  weir sock run -- nginx -g 'daemon off;'")]
    Run(RunArgs),
    /// Runs CoreEngine
    #[command(hide = true)]
    Core {
        /// The socket for processes and NSMs
        door: PathBuf,
        /// The operator's socket
        operator: PathBuf,
    },
    /// Runs a kernel NSM
    #[command(hide = true)]
    Nsm {
        /// CoreEngine's socket
        door: PathBuf,
        /// Connections between its own sockets go through shared memory
        #[arg(long)]
        local: bool,
    },
}

/// `weir sock run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Most bytes a second that the program's sockets move, both ways together
    #[arg(long, value_name = "BYTES")]
    max_rate: Option<u64>,
    /// Most sockets of the program
    #[arg(long, value_name = "N")]
    max_sockets: Option<u32>,
    /// Connections of the program to itself and its children go through shared memory, not TCP
    #[arg(long)]
    local: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Why a command of `weir sock` failed.
#[derive(Debug, thiserror::Error)]
pub enum SockError {
    /// A file or folder cannot be made.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// The program cannot be started.
    #[error("{0}: {1}")]
    Program(String, io::Error),
    /// CoreEngine cannot run.
    #[error(transparent)]
    Core(#[from] netkernel::core::CoreError),
    /// A process of ours did not come up.
    #[error("{0} did not start: {1}")]
    Start(&'static str, io::Error),
    /// Something else of the system.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The variable by which an NSM gets its token.
const TOKEN: &str = "WEIR_NSM_TOKEN";
/// How long CoreEngine and an NSM may take to come up.
const START: Duration = Duration::from_secs(5);
/// How often is looked for the end of a program's children.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a command of `weir sock`.
pub fn run(command: &SockCommand) -> Result<ExitCode, SockError> {
    match command {
        SockCommand::Run(args) => run_program(args),
        SockCommand::Core { door, operator } => {
            end_with_parent()?;
            CoreEngine::listen(door, operator)?.run()?;
            Ok(ExitCode::SUCCESS)
        }
        SockCommand::Nsm { door, local } => {
            end_with_parent()?;
            let wrong = || io::Error::other(format!("{TOKEN} is not set to a token"));
            let token = std::env::var(TOKEN).map_err(|_| wrong())?;
            let token = Token::try_from(token).map_err(|_| wrong())?;
            KernelNsm::join(door, token, *local)?.run()?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Has this process end when the one that started it does.
fn end_with_parent() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before.
    if rustix::process::getppid().is_some_and(Pid::is_init) {
        return Err(io::Error::other(
            "the process that started this one has ended",
        ));
    }
    Ok(())
}

/// A process of ours, ended when dropped.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder of a run, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Folder, SockError> {
        let path = run_folder().join(format!("sock-{}", std::process::id()));
        let made = fs::create_dir_all(&path)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o711)));
        match made {
            Ok(()) => Ok(Folder(path)),
            Err(error) => Err(SockError::File(path, error)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies in a folder that the next start of the system empties.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// CoreEngine and a kernel NSM of one program's own.
struct Stack {
    operator: Operator,
    door: PathBuf,
    _nsm: Helper,
    _core: Helper,
}

impl Stack {
    fn start(folder: &Path, local: bool) -> Result<Stack, SockError> {
        let (door, operator) = (folder.join("door"), folder.join("operator"));
        let mut core = Helper(ours(&["sock", "core"], &[&door, &operator], None)?);
        let operator = until("CoreEngine", &mut core, || {
            Operator::connect(&operator).ok()
        })?;
        let token = Token::random().map_err(io::Error::from)?;
        let name = "kernel".to_owned();
        operator.ask(&Request::AddNsm { name, token })?;
        let words: &[&str] = if local {
            &["sock", "nsm", "--local"]
        } else {
            &["sock", "nsm"]
        };
        let mut nsm = Helper(ours(words, &[&door], Some(token))?);
        until("the NSM", &mut nsm, || {
            let status = operator.status().ok()?;
            status.nsms.first()?.present.then_some(())
        })?;
        Ok(Stack {
            operator,
            door,
            _nsm: nsm,
            _core: core,
        })
    }
}

/// Starts a process of ours.
fn ours(words: &[&str], paths: &[&Path], token: Option<Token>) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).args(paths);
    if let Some(token) = token {
        command.env(TOKEN, token.to_string());
    }
    // A key that ends the program does not end what serves it.
    command.process_group(0).spawn()
}

/// Waits until a process of ours has done something.
fn until<T>(
    what: &'static str,
    process: &mut Helper,
    mut done: impl FnMut() -> Option<T>,
) -> Result<T, SockError> {
    let end = Instant::now() + START;
    loop {
        if let Some(done) = done() {
            return Ok(done);
        }
        if let Some(status) = process.0.try_wait()? {
            return Err(SockError::Start(what, io::Error::other(status.to_string())));
        }
        if Instant::now() > end {
            return Err(SockError::Start(what, io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn run_program(args: &RunArgs) -> Result<ExitCode, SockError> {
    let folder = Folder::make()?;
    let library = folder.0.join("libweir_sock.so");
    fs::write(&library, netkernel::LIBRARY).map_err(|e| SockError::File(library.clone(), e))?;
    let stack = Stack::start(&folder.0, args.local)?;
    let token = Token::random().map_err(io::Error::from)?;
    stack.operator.ask(&Request::AddTenant {
        name: "program".to_owned(),
        token,
        nsm: "kernel".to_owned(),
        limits: Limits {
            bytes_per_second: args.max_rate,
            sockets: args.max_sockets,
            ..Limits::default()
        },
    })?;
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        preload.push(":");
        preload.push(others);
    }
    let mut door = stack.door.clone().into_os_string();
    door.push(format!(":{token}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (program, words) = args
        .program
        .split_first()
        .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut child = Command::new(program)
        .args(words)
        .env("LD_PRELOAD", preload)
        .env("WEIR_SOCK", door)
        .spawn()
        .map_err(|e| SockError::Program(program.to_string_lossy().into_owned(), e))?;
    let pid = Pid::from_child(&child);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if let Some(signal) = Signal::from_named_raw(signal) {
                // It may have ended.
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    });
    let status = child.wait()?;
    // Children that run on keep their sockets, and a socket sends what it has.
    while let Ok(status) = stack.operator.status() {
        let user = status.tenants.first();
        if user.is_none_or(|user| user.processes == 0 && user.sockets == 0) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(ExitCode::from(code.unwrap_or(1) as u8))
}
