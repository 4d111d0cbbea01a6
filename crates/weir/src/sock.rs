//! `weir sock`: programs whose sockets a network stack module serves.

mod launch;
mod program;
mod run;
mod trace;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use ipnet::IpNet;
use netkernel::core::CoreEngine;
use netkernel::intercept::InterceptError;
use netkernel::kernel::KernelNsm;
use netkernel::protocol::{TOKEN_VARIABLE, Token};
use netkernel::service::Service;
use netkernel::shm::ShmNsm;
use netkernel::user::{Network, UserNsm};
use netkernel::{calls, intercept};
use node::model::{Application, Object, Socket};
use rustix::process::{Pid, Signal};
use serde_json::json;
use switch::confine;
use switch::properties::ApplicationProperties;

use crate::nouns::nsm::{KindArg, OthersArg};
use crate::nouns::output::{Column, Output, made, maybe, name};
use crate::nouns::{client, reset, set};
use launch::LaunchArgs;
use run::RunArgs;

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
    /// Takes limits away: properties have their defaults again, at once
    #[command(after_help = "Examples:
  weir sock reset -p maxbw curl-4711")]
    Reset {
        /// Property names, separated by commas
        #[arg(
            short,
            long = "prop",
            required = true,
            value_delimiter = ',',
            value_name = "PROPERTIES"
        )]
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
    /// Runs an NSM. A user NSM's VNIC has its data region and doorbell at the standard input and output
    #[command(hide = true)]
    Nsm {
        /// CoreEngine's socket
        door: PathBuf,
        /// Its kind
        #[arg(long, value_enum, default_value_t)]
        kind: KindArg,
        /// Outlive the process that started it, with no privilege but a kernel NSM's to serve any port
        #[arg(long)]
        detached: bool,
        /// Connections between its own sockets go through shared memory
        #[arg(long)]
        local: bool,
        /// An address of the NSM, with its prefix length
        #[arg(long = "address")]
        addresses: Vec<IpNet>,
        /// A router
        #[arg(long = "gateway")]
        gateways: Vec<IpAddr>,
        /// What connections to addresses that are not the NSM's fail with
        #[arg(long, value_enum, default_value_t)]
        others: OthersArg,
        /// Of a kernel NSM: how many workers it has
        #[arg(long, default_value_t = 1)]
        cores: u8,
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
    /// Becomes the program of an application that the node runs
    #[command(hide = true)]
    Launch(LaunchArgs),
    /// Serves the socket calls of the program at its standard input
    #[command(hide = true)]
    Supervise,
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
    /// There is no such user.
    #[error("there is no user ‘{0}’: `getent passwd` lists them")]
    NoUser(String),
    /// The program cannot run as a user.
    #[error("the program cannot run as user ‘{0}’: {1}")]
    User(String, io::Error),
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

impl SockError {
    /// The exit code of the command: of a program that cannot be started, a shell's.
    pub fn code(&self) -> ExitCode {
        match self {
            SockError::Program(_, error) if error.kind() == io::ErrorKind::NotFound => {
                ExitCode::from(127)
            }
            SockError::Program(..) => ExitCode::from(126),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Runs a command of `weir sock`.
pub fn run(command: &SockCommand) -> Result<ExitCode, SockError> {
    match command {
        SockCommand::Run(args) => match &args.nsm {
            Some(nsm) => return run::application(args, nsm),
            None => return run::program(args),
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
        SockCommand::Reset {
            properties,
            application,
            json,
        } => {
            let patch = json!({ "properties": reset(properties, ApplicationProperties::reset)? });
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
                confine::filter_system_calls(calls::CORE_ENGINE, &[])?;
            }
            core.run()?;
        }
        SockCommand::Nsm {
            door,
            kind,
            detached,
            local,
            addresses,
            gateways,
            others,
            cores,
        } => {
            begin(*detached)?;
            let wrong = || io::Error::other(format!("{TOKEN_VARIABLE} is not set to a token"));
            let token = std::env::var(TOKEN_VARIABLE).map_err(|_| wrong())?;
            let token = Token::try_from(token).map_err(|_| wrong())?;
            match kind {
                KindArg::Kernel => {
                    let workers = KernelNsm::join_all(door, token, *local, *cores)?;
                    if *detached {
                        leave_file_system(door)?;
                        keep_ports()?;
                    }
                    let nsm = KernelNsm::start(workers)?;
                    if *detached {
                        confine::filter_system_calls(calls::KERNEL_NSM, &[])?;
                    }
                    nsm.map_or(Ok(()), KernelNsm::run)?;
                }
                KindArg::User => {
                    let addresses = addresses.iter().map(|it| (it.addr(), it.prefix_len()));
                    let network = Network {
                        addresses: addresses.collect(),
                        gateways: gateways.clone(),
                    };
                    run_user_nsm(door, token, *detached, network)?;
                }
                KindArg::Shm => {
                    let addresses = addresses.iter().map(IpNet::addr).collect();
                    let nsm = ShmNsm::join(door, token, addresses, (*others).into())?;
                    if *detached {
                        leave_file_system(door)?;
                        confine::drop_privileges()?;
                        confine::filter_system_calls(calls::USER_NSM, &[])?;
                    }
                    nsm.run()?;
                }
                // It is itself.
                KindArg::Program => return Ok(ExitCode::FAILURE),
            }
        }
        SockCommand::Intercept { library, program } => {
            match launch::become_program(library, program)? {}
        }
        SockCommand::Launch(args) => return launch::run(args),
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
        confine::filter_system_calls(calls::USER_NSM, &[])?;
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
    Column::extra("state", |a| name(&a.status.state)),
    Column::extra("reason", |a| maybe(a.status.reason.as_ref())),
    Column::extra("restarts", |a| a.status.restarts.to_string()),
    Column::extra("run", |a| a.spec.run.to_string()),
    Column::extra("pid", |a| a.status.pid.to_string()),
    Column::extra("refused", |a| a.status.refused.to_string()),
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
    Column::new("rtt-ms", |s| milliseconds(s.rtt_ms)),
    Column::new("nsm", |s| s.nsm.clone()),
    Column::extra("rtt-variance-ms", |s| milliseconds(s.rtt_variance_ms)),
    Column::extra("retransmits", |s| maybe(s.retransmits.as_ref())),
    Column::extra("bound", |s| maybe(s.bound.as_ref())),
    Column::extra("shares", |s| s.shares.to_string()),
];

/// Milliseconds, as `ss -i` shows them.
fn milliseconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".into(), |ms| format!("{ms:.3}"))
}

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
