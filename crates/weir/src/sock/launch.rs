//! Becoming a program whose sockets an NSM serves.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};
use netkernel::intercept;
use nix::unistd::{User, initgroups, setgid, setuid};

use super::{SockError, program};

/// `weir sock launch`.
#[derive(Debug, Args)]
pub struct LaunchArgs {
    /// GuestLib
    library: PathBuf,
    /// The user that the program runs as
    #[arg(long)]
    user: Option<String>,
    /// The folder that it starts in
    #[arg(long, default_value = "/")]
    directory: PathBuf,
    /// How socket calls come to the NSM
    #[arg(long, value_enum, default_value_t)]
    intercept: Intercept,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// `--intercept`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Intercept {
    /// By the program's file: preload for one with glibc, syscall for Go, static ones and others
    #[default]
    Auto,
    /// By a library that is loaded before the C library; programs without one keep the kernel's sockets
    Preload,
    /// By a filter of system calls, for all programs and children, Go and static ones too
    Syscall,
}

/// Has this process be the program of an application that the node runs. The standard input is where the node hears why
/// not; it ends when the program begins.
pub fn run(args: &LaunchArgs) -> Result<ExitCode, SockError> {
    let input = io::stdin();
    let tell = rustix::io::fcntl_dupfd_cloexec(&input, 3).map_err(io::Error::from)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing).map_err(io::Error::from)?;
    let Err(error) = begin(args);
    let mut tell = std::fs::File::from(tell);
    // A node that has ended meanwhile starts the program again.
    let _ = tell.write_all(error.to_string().as_bytes());
    Ok(ExitCode::FAILURE)
}

fn begin(args: &LaunchArgs) -> Result<Infallible, SockError> {
    // Its children are in its group, which the node ends with it.
    rustix::process::setsid().map_err(io::Error::from)?;
    if let Some(name) = &args.user {
        become_user(name)?;
    }
    let entered = std::env::set_current_dir(&args.directory);
    entered.map_err(|error| SockError::File(args.directory.clone(), error))?;
    let (name, _) = split(&args.program)?;
    if by_system_call(Path::new(name), args.intercept)? {
        return become_program(&args.library, &args.program);
    }
    Err(failed(
        &args.program,
        preloaded(&args.program, &args.library)?.exec(),
    ))
}

/// Has this process, which has one thread, be of a user and of the user's groups.
fn become_user(name: &str) -> Result<(), SockError> {
    let none = || SockError::NoUser(name.to_owned());
    let user = User::from_name(name).map_err(|error| SockError::System(error.into()))?;
    let user = user.ok_or_else(none)?;
    let refused = |error: nix::errno::Errno| SockError::User(name.to_owned(), error.into());
    let name = std::ffi::CString::new(name).map_err(|_| none())?;
    // What it prints may be opened again, by /dev/stderr.
    let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
    std::os::unix::fs::fchown(io::stdout().as_fd(), Some(uid), Some(gid))?;
    initgroups(&name, user.gid).map_err(refused)?;
    setgid(user.gid).map_err(refused)?;
    setuid(user.uid).map_err(refused)
}

/// The program, with the environment in which `library` has its sockets go to where `WEIR_SOCK` says.
pub fn command(
    program: &[OsString],
    intercept: Intercept,
    library: &Path,
) -> Result<Command, SockError> {
    let (name, _) = split(program)?;
    if by_system_call(Path::new(name), intercept)? {
        let mut command = Command::new("/proc/self/exe");
        command.args(["sock", "intercept"]).arg(library);
        command.arg("--").args(program);
        return Ok(command);
    }
    Ok(preloaded(program, library)?)
}

/// The program, with GuestLib loaded before its C library.
fn preloaded(program: &[OsString], library: &Path) -> io::Result<Command> {
    let (name, words) = split(program)?;
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        preload.push(":");
        preload.push(others);
    }
    let mut command = Command::new(name);
    command.args(words).env("LD_PRELOAD", preload);
    Ok(command)
}

/// Whether a program's system calls are intercepted, not the functions of its C library.
fn by_system_call(program: &Path, intercept: Intercept) -> Result<bool, SockError> {
    let without = program::Kind::of(program)? == program::Kind::WithoutLibrary;
    match intercept {
        Intercept::Auto => Ok(without),
        Intercept::Preload if without => {
            let program = program.display().to_string();
            Err(program::Unserved::WithoutLibrary(program).into())
        }
        Intercept::Preload => Ok(false),
        Intercept::Syscall => Ok(true),
    }
}

fn split(program: &[OsString]) -> io::Result<(&OsString, &[OsString])> {
    program
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput.into())
}

pub fn failed(program: &[OsString], error: io::Error) -> SockError {
    let program = program.first().cloned().unwrap_or_default();
    SockError::Program(program.to_string_lossy().into_owned(), error)
}

/// Has this process be a program whose socket calls a supervisor serves, which has GuestLib.
pub fn become_program(library: &Path, program: &[OsString]) -> Result<Infallible, SockError> {
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
