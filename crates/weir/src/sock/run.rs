//! `weir sock run`.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use netkernel::protocol::{Operator, Request, TOKEN_VARIABLE, Token};
use node::model::{Admission, Application};
use node::paths::run_folder;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, test_kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use switch::properties::ApplicationProperties;

use super::SockError;
use super::launch::{Intercept, command, failed};
use crate::nouns::{client, is_remote, properties};

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
    pub nsm: Option<String>,
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
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// How long CoreEngine and an NSM may take to come up.
const START: Duration = Duration::from_secs(5);
/// How often is looked for the end of a program's children.
const LOOK: Duration = Duration::from_millis(20);

/// A process of ours, ended when dropped.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the name of a run's folder begins with; the number of its process follows.
const FOLDER: &str = "sock-";

/// The folder of a run, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Folder, SockError> {
        let path = run_folder().join(format!("{FOLDER}{}", std::process::id()));
        Folder::remove_left();
        let made = fs::create_dir_all(&path)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o711)));
        match made {
            Ok(()) => Ok(Folder(path)),
            Err(error) => Err(SockError::File(path, error)),
        }
    }

    /// Removes the folders of processes that were killed.
    fn remove_left() {
        // There may be none, and another run may remove them, too.
        for entry in fs::read_dir(run_folder()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(FOLDER));
            let pid = pid.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
            if pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)) {
                let _ = fs::remove_dir_all(entry.path());
            }
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
            ..Application::default()
        })
    }

    fn command(&self, library: &Path) -> Result<Command, SockError> {
        command(&self.program, self.intercept, library)
    }

    fn failed(&self, error: io::Error) -> SockError {
        failed(&self.program, error)
    }
}

/// Has this process be the program, as an application of the node.
pub fn application(args: &RunArgs, nsm: &str) -> Result<ExitCode, SockError> {
    if is_remote() {
        return Err(node::error::Error::invalid(
            "an application runs where its NSM does: without --node, or on that host",
        )
        .into());
    }
    let Application {
        nsm, properties, ..
    } = args.application(nsm)?;
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
    let mut program = args.command(&admitted.library)?;
    program.env("WEIR_SOCK", admitted.sock);
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

pub fn program(args: &RunArgs) -> Result<ExitCode, SockError> {
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
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])?;
    let mut child = args.command(&library)?;
    child.env("WEIR_SOCK", door);
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
