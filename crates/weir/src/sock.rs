//! `weir sock`: programs whose sockets a network stack module serves.

mod program;
mod trace;

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use netkernel::core::CoreEngine;
use netkernel::intercept::InterceptError;
use netkernel::kernel::KernelNsm;
use netkernel::protocol::{Operator, Request, TOKEN_VARIABLE, Token};
use netkernel::service::Service;
use netkernel::user::{Network, UserNsm};
use netkernel::{calls, intercept};
use node::model::{Admission, Application, Object, Socket};
use node::paths::run_folder;
use rustix::process::{Pid, Signal, WaitOptions};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use switch::confine;
use switch::properties::ApplicationProperties;

use crate::nouns::output::{Column, Output, made, maybe, name};
use crate::nouns::{client, is_remote, properties, set};

/// Runs programs whose sockets a network stack module (NSM) serves
#[derive(Debug, Subcommand)]
pub enum SockCommand {
    /// Runs a program whose sockets an NSM serves, its children's too
    ///
    /// With --nsm, the program is an application of the node from then on. Without, no node is
    /// needed: the command makes a kernel NSM for the program, Linux's TCP/IP in the network
    /// namespace that it runs in, which ends when the program and its children have ended.
    Run(RunArgs),
    /// Lists applications, or the sockets of one
    #[command(after_help = "Examples:
  weir sock ls
  weir sock ls -p -o application,sent,received
  weir sock ls curl-4711
  weir sock ls --json")]
    Ls {
        /// The application whose sockets to list; default: list the applications
        application: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Changes what an application may have, at once
    #[command(after_help = format!("Properties:
{}
Examples:
  weir sock set -p maxbw=100M curl-4711
  weir sock set -p weight=10,conns=100 curl-4711", ApplicationProperties::help()))]
    Set {
        /// PROPERTY=VALUE, separated by commas
        #[arg(short, long = "prop", required = true, value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
        properties: Vec<String>,
        /// The application
        application: String,
        /// Print the application as JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints what the sockets of an application do, until interrupted
    ///
    /// A line for each socket call that reaches the NSM (>), and for each answer or event of the NSM
    /// (<): the time, the socket, the call, and of an answer how long it took. While it is printed,
    /// the application's payload passes CoreEngine more slowly.
    #[command(after_help = "Examples:
  weir sock trace curl-4711
  weir sock trace --count 100 site")]
    Trace {
        /// The application
        application: String,
        /// End after so many lines
        #[arg(short, long, value_name = "LINES")]
        count: Option<u64>,
        /// Print a JSON object for each line
        #[arg(long)]
        json: bool,
    },
    /// Runs CoreEngine
    #[command(hide = true)]
    Core {
        /// The socket for processes and NSMs
        door: PathBuf,
        /// The operator's socket
        operator: PathBuf,
        /// Outlive the process that started it
        #[arg(long)]
        detached: bool,
    },
    /// Runs a kernel NSM, or, with addresses, a user NSM, whose VNIC's data region and doorbell are the standard input and
    /// output
    #[command(hide = true)]
    Nsm {
        /// CoreEngine's socket
        door: PathBuf,
        /// Outlive the process that started it, with no privilege but a kernel NSM's to serve any port
        #[arg(long)]
        detached: bool,
        /// Connections between its own sockets go through shared memory
        #[arg(long)]
        local: bool,
        /// An address of the NSM, with its prefix length
        #[arg(long = "address", conflicts_with = "local")]
        addresses: Vec<IpNet>,
        /// A router
        #[arg(long = "gateway", requires = "addresses")]
        gateways: Vec<IpAddr>,
    },
    /// Becomes a program whose socket calls are intercepted
    #[command(hide = true)]
    Intercept {
        /// GuestLib
        library: PathBuf,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// Serves the socket calls of the program at its standard input
    #[command(hide = true)]
    Supervise,
}

/// `weir sock run`.
#[derive(Debug, Args)]
#[command(after_help = format!("Properties:
{}
Examples:
  weir sock run -- curl http://192.0.2.1/
  weir sock run -p maxbw=100M -- nginx -g 'daemon off;'
  weir sock run --nsm web -- nginx -g 'daemon off;'
  weir sock run --nsm web --intercept syscall -- sh -c './server-in-go & exec busybox httpd -f'
  weir sock run --nsm web --name shop -p conns=1000 -- python3 -m http.server 80", ApplicationProperties::help()))]
pub struct RunArgs {
    /// The NSM of the node that serves the sockets
    #[arg(long, value_name = "NSM")]
    nsm: Option<String>,
    /// With --nsm, the application's name; default: the program's, with the number of its process
    #[arg(long, value_name = "NAME", requires = "nsm")]
    name: Option<String>,
    /// PROPERTY=VALUE, separated by commas
    #[arg(short, long = "prop", value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
    properties: Vec<String>,
    /// Without --nsm, connections of the program to itself and its children go through shared
    /// memory, not TCP
    #[arg(long, conflicts_with = "nsm")]
    local: bool,
    /// How socket calls come to the NSM
    #[arg(long, value_enum, default_value_t)]
    intercept: Intercept,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// `--intercept`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Intercept {
    /// By the program's file: preload for one with glibc, syscall for Go, static ones and others
    #[default]
    Auto,
    /// By a library that is loaded before the C library; programs without one keep the kernel's sockets
    Preload,
    /// By a filter of system calls, for all programs and children, Go and static ones too
    Syscall,
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
    /// The node did not do what was asked.
    #[error(transparent)]
    Node(#[from] node::error::Error),
    /// The program is none that an NSM can serve.
    #[error(transparent)]
    Unserved(#[from] program::Unserved),
    /// The program's calls are not intercepted.
    #[error(transparent)]
    Intercept(#[from] InterceptError),
    /// A process of ours cannot give up what it does not need.
    #[error(transparent)]
    Confine(#[from] confine::ConfineError),
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

/// How long CoreEngine and an NSM may take to come up.
const START: Duration = Duration::from_secs(5);
/// How often is looked for the end of a program's children.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a command of `weir sock`.
pub fn run(command: &SockCommand) -> Result<ExitCode, SockError> {
    match command {
        SockCommand::Run(args) => match &args.nsm {
            Some(nsm) => return run_application(args, nsm),
            None => return run_program(args),
        },
        SockCommand::Ls {
            application: None,
            output,
        } => output.show(&client().list::<Application>()?, COLUMNS)?,
        SockCommand::Ls {
            application: Some(application),
            output,
        } => output.show(&client().sockets(application)?, SOCKETS)?,
        SockCommand::Set {
            properties,
            application,
            json,
        } => {
            let patch = json!({ "properties": set::<ApplicationProperties>(properties)? });
            made(*json, &client().patch::<Application>(application, &patch)?)?;
        }
        SockCommand::Trace {
            application,
            count,
            json,
        } => trace::run(application, count.unwrap_or(u64::MAX), *json)?,
        SockCommand::Core {
            door,
            operator,
            detached,
        } => {
            begin(*detached)?;
            let core = CoreEngine::listen(door, operator)?;
            if *detached {
                leave_file_system(door)?;
                confine::drop_privileges()?;
                confine::filter_system_calls(calls::CORE_ENGINE)?;
            }
            core.run()?;
        }
        SockCommand::Nsm {
            door,
            detached,
            local,
            addresses,
            gateways,
        } => {
            begin(*detached)?;
            let wrong = || io::Error::other(format!("{TOKEN_VARIABLE} is not set to a token"));
            let token = std::env::var(TOKEN_VARIABLE).map_err(|_| wrong())?;
            let token = Token::try_from(token).map_err(|_| wrong())?;
            if !addresses.is_empty() {
                let addresses = addresses.iter().map(|it| (it.addr(), it.prefix_len()));
                let network = Network {
                    addresses: addresses.collect(),
                    gateways: gateways.clone(),
                };
                run_user_nsm(door, token, *detached, network)?;
                return Ok(ExitCode::SUCCESS);
            }
            let nsm = KernelNsm::join(door, token, *local)?;
            if *detached {
                leave_file_system(door)?;
                keep_ports()?;
                confine::filter_system_calls(calls::KERNEL_NSM)?;
            }
            nsm.run()?;
        }
        SockCommand::Intercept { library, program } => return become_program(library, program),
        SockCommand::Supervise => intercept::serve()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a user NSM, with no privilege at all.
fn run_user_nsm(
    door: &Path,
    token: Token,
    detached: bool,
    network: Network,
) -> Result<(), SockError> {
    let service = Service::join(door, token)?;
    let [region, doorbell] =
        [io::stdin().as_fd(), io::stdout().as_fd()].map(|it| it.try_clone_to_owned());
    if detached {
        leave_file_system(door)?;
        confine::drop_privileges()?;
    }
    // It starts a thread, which has as little privilege and no less of a filter.
    let nsm = UserNsm::new(service, region?, doorbell?, network)?;
    if detached {
        confine::filter_system_calls(calls::USER_NSM)?;
    }
    Ok(nsm.run()?)
}

const COLUMNS: &[Column<Object<Application>>] = &[
    Column::new("application", |a| a.name.clone()),
    Column::new("nsm", |a| a.spec.nsm.clone()),
    Column::new("processes", |a| a.status.processes.to_string()),
    Column::new("sockets", |a| a.status.sockets.to_string()),
    Column::new("sent", |a| a.status.sent.to_string()),
    Column::new("received", |a| a.status.received.to_string()),
    Column::new("connections", |a| a.status.connections.to_string()),
    Column::new("properties", |a| a.spec.properties.to_string()),
    Column::extra("pid", |a| a.status.pid.to_string()),
    Column::extra("violations", |a| a.status.violations.to_string()),
];

const SOCKETS: &[Column<Socket>] = &[
    Column::new("socket", |s| s.number.to_string()),
    Column::new("transport", |s| name(&s.transport)),
    Column::new("state", |s| name(&s.state)),
    Column::new("local", |s| maybe(s.local.or(s.bound).as_ref())),
    Column::new("peer", |s| maybe(s.peer.as_ref())),
    Column::new("sent", |s| s.sent.to_string()),
    Column::new("received", |s| s.received.to_string()),
    Column::new("nsm", |s| s.nsm.clone()),
    Column::extra("bound", |s| maybe(s.bound.as_ref())),
    Column::extra("shares", |s| s.shares.to_string()),
];

/// Detaches this process from its parent, or makes it end with its parent.
fn begin(detached: bool) -> io::Result<()> {
    if detached {
        // A Ctrl-C at the parent's terminal is the parent's to deal with.
        rustix::process::setsid()?;
        return Ok(());
    }
    end_with_parent()
}

/// Makes an empty folder, which has no name any more, the root of this process, if it is root's. `near` is in a folder
/// where it may be made.
fn leave_file_system(near: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let root = near.with_file_name(format!("root-{}", std::process::id()));
    fs::create_dir(&root)?;
    let left = std::env::set_current_dir(&root);
    fs::remove_dir(&root)?;
    left?;
    Ok(rustix::process::chroot(".")?)
}

/// Gives up all privileges but that to serve ports below 1024.
fn keep_ports() -> Result<(), SockError> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    if !rustix::process::geteuid().is_root() {
        return Ok(confine::drop_privileges()?);
    }
    let system = |error: rustix::io::Errno| SockError::System(error.into());
    rustix::thread::set_keep_capabilities(true).map_err(system)?;
    confine::drop_privileges()?;
    let kept = CapabilitySets {
        effective: CapabilitySet::NET_BIND_SERVICE,
        permitted: CapabilitySet::NET_BIND_SERVICE,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, kept).map_err(system)
}

/// Makes this process end with its parent.
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
    nsm: Helper,
    core: Helper,
}

impl Stack {
    /// Its processes.
    fn own(&self) -> [u32; 2] {
        [self.nsm.0.id(), self.core.0.id()]
    }

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
            nsm,
            core,
        })
    }
}

/// Starts a process of ours.
fn ours(words: &[&str], paths: &[&Path], token: Option<Token>) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).args(paths);
    if let Some(token) = token {
        command.env(TOKEN_VARIABLE, token.to_string());
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

impl RunArgs {
    fn application(&self, nsm: &str) -> Result<Application, SockError> {
        Ok(Application {
            nsm: nsm.to_owned(),
            properties: properties(&self.properties, None)?,
        })
    }

    /// Whether the program's system calls are intercepted, not the functions of its C library.
    fn by_system_call(&self) -> Result<bool, SockError> {
        let program = self.program.first().map(Path::new).unwrap_or(Path::new(""));
        let kind = program::Kind::of(program)?;
        Ok(match self.intercept {
            Intercept::Auto => kind == program::Kind::WithoutLibrary,
            Intercept::Preload => false,
            Intercept::Syscall => true,
        })
    }

    /// The program, with the environment in which `library` has its sockets go to where `sock` says.
    fn command(&self, library: &Path, sock: &OsStr) -> Result<Command, SockError> {
        let mut command;
        if self.by_system_call()? {
            command = Command::new("/proc/self/exe");
            command
                .args(["sock", "intercept"])
                .arg(library)
                .arg("--")
                .args(&self.program);
        } else {
            let (program, words) = split(&self.program)?;
            let mut preload = library.as_os_str().to_owned();
            if let Some(others) = std::env::var_os("LD_PRELOAD") {
                preload.push(":");
                preload.push(others);
            }
            command = Command::new(program);
            command.args(words).env("LD_PRELOAD", preload);
        }
        command.env("WEIR_SOCK", sock);
        Ok(command)
    }

    fn failed(&self, error: io::Error) -> SockError {
        failed(&self.program, error)
    }
}

fn split(program: &[OsString]) -> io::Result<(&OsString, &[OsString])> {
    program
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput.into())
}

fn failed(program: &[OsString], error: io::Error) -> SockError {
    let program = program.first().cloned().unwrap_or_default();
    SockError::Program(program.to_string_lossy().into_owned(), error)
}

/// Has this process be a program whose socket calls a supervisor serves, which has GuestLib.
fn become_program(library: &Path, program: &[OsString]) -> Result<ExitCode, SockError> {
    let mut supervisor = Command::new("/proc/self/exe");
    supervisor
        .args(["sock", "supervise"])
        .env("LD_PRELOAD", library);
    intercept::enter(supervisor)?;
    let (name, words) = split(program)?;
    let error = Command::new(name)
        .args(words)
        .env_remove("WEIR_SOCK")
        .exec();
    Err(failed(program, error))
}

/// Has this process be the program, as an application of the node.
fn run_application(args: &RunArgs, nsm: &str) -> Result<ExitCode, SockError> {
    if is_remote() {
        return Err(node::error::Error::invalid(
            "an application runs where its NSM does: without --node, or on that host",
        )
        .into());
    }
    let Application { nsm, properties } = args.application(nsm)?;
    let pid = std::process::id();
    let program = args
        .program
        .first()
        .map(Path::new)
        .and_then(Path::file_name);
    let program = program.unwrap_or_default().to_string_lossy();
    let name = args.name.clone();
    let admitted = client().admit(&Admission {
        name: name.unwrap_or_else(|| format!("{}-{pid}", plain(&program))),
        nsm,
        properties,
        pid,
    })?;
    let mut program = args.command(&admitted.library, OsStr::new(&admitted.sock))?;
    Err(args.failed(program.exec()))
}

/// What an application's name can have of its program's.
fn plain(program: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = program.chars().filter(|c| plain(*c)).take(48).collect();
    match plain.trim_start_matches(['.', '-']) {
        "" => "program".into(),
        plain => plain.into(),
    }
}

/// Whether this process, to which orphans of its children fall, has children but its own.
fn others_run(own: [u32; 2]) -> io::Result<bool> {
    let pids = fs::read_to_string("/proc/thread-self/children")?;
    let pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
    let mut run = false;
    for pid in pids.filter(|pid: &i32| !own.contains(&(*pid as u32))) {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
        let ended = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)?;
        run |= ended.is_none();
    }
    Ok(run)
}

fn run_program(args: &RunArgs) -> Result<ExitCode, SockError> {
    // Orphans of the program's fall to this process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(io::Error::from)?;
    let folder = Folder::make()?;
    let library = folder.0.join("libweir_sock.so");
    fs::write(&library, netkernel::LIBRARY).map_err(|e| SockError::File(library.clone(), e))?;
    let stack = Stack::start(&folder.0, args.local)?;
    let token = Token::random().map_err(io::Error::from)?;
    let application = args.application("kernel")?;
    stack.operator.ask(&Request::AddTenant {
        name: "program".to_owned(),
        token,
        limits: application.limits(),
        nsm: application.nsm,
    })?;
    let mut door = stack.door.clone().into_os_string();
    door.push(format!(":{token}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let mut child = args.command(&library, &door)?;
    let mut child = child.spawn().map_err(|error| args.failed(error))?;
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
    // Children that run on keep their NSM, and a socket sends what it has.
    let user = || Some(stack.operator.status().ok()?.tenants.first()?.clone());
    while others_run(stack.own())? || user().is_some_and(|user| user.sockets > 0) {
        std::thread::sleep(LOOK);
    }
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(ExitCode::from(code.unwrap_or(1) as u8))
}
