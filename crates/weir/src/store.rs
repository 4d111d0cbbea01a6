//! `weir store`: the control store, as a server of its own.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use clap::Args;
use node::log;
use node::paths::{clear_socket, run_folder};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use store::Store;
use store::server::{Server, Shared};

/// Runs the control store: a Xenstore server for the programs of this host.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir store --socket /run/store.sock
  XENSTORED_PATH=/run/store.sock xenstore-ls")]
pub struct StoreArgs {
    /// The socket. Programs that use libxenstore find it by XENSTORED_PATH [default:
    /// $WEIR_RUN/store.sock].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Why the store cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The socket cannot be made.
    #[error("{path}: {error}")]
    Socket {
        /// Where it was to be.
        path: String,
        /// Why not.
        error: io::Error,
    },
    /// Another server has it.
    #[error("{path}: a store runs there already: choose another socket with --socket")]
    Taken {
        /// The socket.
        path: String,
    },
    /// The system refuses a thread, a descriptor or a signal.
    #[error("the store: {0}")]
    Start(#[from] io::Error),
}

/// Runs `weir store`, until SIGINT, SIGTERM or SIGHUP.
pub fn run(args: &StoreArgs) -> Result<(), StoreError> {
    let socket = args.socket.clone();
    let socket = socket.unwrap_or_else(|| run_folder().join("store.sock"));
    let path = socket.display().to_string();
    if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
        return Err(StoreError::Taken { path });
    }
    let bound = || {
        if let (None, Some(folder)) = (&args.socket, socket.parent()) {
            fs::create_dir_all(folder)?;
        }
        clear_socket(&socket)?;
        let listener = UnixListener::bind(&socket)?;
        // A program that can connect may do everything.
        fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let listener = bound().map_err(|error| StoreError::Socket {
        path: path.clone(),
        error,
    })?;
    let server = Server::start(listener, Shared::new(Store::default())?)?;
    log::say(format_args!("the store is ready at {path}"));
    signals.forever().next();
    drop(server);
    // Another program may have removed it.
    let _ = fs::remove_file(&socket);
    Ok(())
}
