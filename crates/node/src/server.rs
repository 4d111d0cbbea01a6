//! A node's process: its lock, its API on a socket, and a loop that gives it one job after the
//! other. Between two jobs, it handles the ends of processes.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Gid;
use switch::process::Options;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::rustls::ServerConfig;

use crate::api::{self, clients::Clients};
use crate::audit::Audit;
use crate::client::Client;
use crate::config::Config;
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::migration;
use crate::model::Purge;
use crate::node::{LOCK, Node};
use crate::paths::{self, Paths, clear_socket};
use crate::service::Handle;
use crate::tls::{self, Files};

/// How often resources that are down are retried.
const TICK: Duration = Duration::from_secs(1);
/// How long a node may take to end that has removed everything.
const END: Duration = Duration::from_secs(5);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// How a node is to run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The switch's; none: as the last one ran.
    pub switch: Option<Options>,
    /// The group that may use the API, too.
    pub group: Option<String>,
    /// Where clients of the network are served, and by which certificates.
    pub listen: Option<(SocketAddr, Files)>,
    /// What stands in the file of settings.
    pub config: Config,
}

/// Runs a node until it is asked to end (SIGTERM, SIGINT). Guests and the switch go on; the next
/// node takes them over. This process has one thread. `ready` is called when the API can be asked.
pub fn run(paths: Paths, settings: &Settings, ready: impl FnOnce(&Node)) -> Result<()> {
    let failed = |what: &str, error: io::Error| Error::failed(format_args!("{what}: {error}"));
    let socket = paths.api();
    let audit = Audit::new(settings.config.audit.file.as_deref())?;
    let group = settings.group.as_deref().map(group_number).transpose()?;
    paths.make_run(group)?;
    let lock_file = paths.lock();
    let _lock = lock(&paths)?;
    // Before anything is forked, so that the switch has as many.
    let descriptors = limits::raise_descriptors();
    // A killed node left the existing socket: this process holds the lock.
    clear_socket(&socket).map_err(|e| failed(&socket.display().to_string(), e))?;
    let mut node = Node::open(paths, settings.switch.clone())?;
    node.set_identity(settings.listen.as_ref().map(|(_, files)| files.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| failed("the event loop", e))?;
    let served = runtime.block_on(async {
        let listener =
            bind(&socket, group).map_err(|e| failed(&socket.display().to_string(), e))?;
        let network = match &settings.listen {
            Some((address, files)) => {
                let at = |e| failed(&address.to_string(), e);
                let listener = TcpListener::bind(address).await.map_err(at)?;
                node.set_listens(listener.local_addr().map_err(at)?);
                Some(Network {
                    listener,
                    tls: tls::server(files)?,
                    config: Arc::new(settings.config.clone()),
                })
            }
            None => None,
        };
        ready(&node);
        if let Some(advice) = limits::advice(descriptors) {
            tracing::info!("{advice}");
        }
        if let Some(reason) = node.lacks_kvm() {
            tracing::warn!("{reason}; guests with isolation ‘auto’ have the process wall");
        }
        let clients = Clients::new(descriptors, audit);
        serve(node, listener, network, clients).await
    });
    // While the lock is ours, the socket and the lock's file are no other node's.
    let _ = fs::remove_file(&socket);
    let _ = fs::remove_file(&lock_file);
    served
}

/// Ends and removes everything: through the running node, or directly if none runs. Nothing of the
/// node is left then.
pub fn purge(paths: Paths, switch: Option<Options>) -> Result<()> {
    let (socket, lock_file) = (paths.api(), paths.lock());
    let client = Client::new(socket.clone());
    if client.is_there() {
        let held = || fs::metadata(&lock_file).map(|file| file.ino()).ok();
        let its = held();
        client.purge(&Purge { confirm: true })?;
        let start = Instant::now();
        // The last thing that it removes; another node has a file of its own.
        while its.is_some() && held() == its {
            if start.elapsed() > END {
                return Err(Error::failed(format_args!(
                    "everything was removed, but the node did not end within {} s",
                    END.as_secs()
                )));
            }
            std::thread::sleep(PAUSE);
        }
        return Ok(());
    }
    paths.make_run(None)?;
    let _lock = lock(&paths)?;
    let purged = Node::open(paths, switch).and_then(|mut node| node.purge());
    let _ = fs::remove_file(&socket);
    let _ = fs::remove_file(&lock_file);
    purged
}

/// Takes the run folder for this node. The former holder removes the file, so the locked file must
/// still have its name. A killed holder may have left a child that is about to release the lock.
fn lock(paths: &Paths) -> Result<fs::File> {
    let path = paths.lock();
    let refuse = |error: io::Error| Error::failed(format_args!("{}: {error}", path.display()));
    let start = Instant::now();
    loop {
        let file = fs::File::create(&path).map_err(refuse)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) if start.elapsed() < LOCK => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Error::new(
                    Kind::Exists,
                    format_args!(
                        "a node is already running at {}: end it first, or set WEIR_RUN and WEIR_STATE for a second one",
                        paths.run.display()
                    ),
                ));
            }
            Err(fs::TryLockError::Error(error)) => return Err(refuse(error)),
        }
        let ours = file.metadata().map_err(refuse)?;
        if fs::metadata(&path).is_ok_and(|there| there.ino() == ours.ino()) {
            return Ok(file);
        }
    }
}

/// The API's socket: only its user may connect, or a group as well.
fn bind(path: &Path, group: Option<Gid>) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    paths::protect(path, group, 0o600, 0o660)?;
    Ok(listener)
}

/// The number of a group.
fn group_number(name: &str) -> Result<Gid> {
    let found = nix::unistd::Group::from_name(name);
    let found = found.map_err(|error| {
        Error::failed(format_args!(
            "the groups of this host cannot be read: {error}"
        ))
    })?;
    let missing = || {
        Error::invalid(format_args!(
            "there is no group ‘{name}’: `getent group` lists them, `groupadd {name}` makes one"
        ))
    };
    Ok(Gid::from_raw(found.ok_or_else(missing)?.gid.as_raw()))
}

/// Where clients of the network come.
struct Network {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    config: Arc<Config>,
}

async fn serve(
    mut node: Node,
    listener: UnixListener,
    network: Option<Network>,
    clients: Arc<Clients>,
) -> Result<()> {
    let failed = |error: io::Error| Error::failed(format_args!("the event loop: {error}"));
    let (handle, mut queue) = Handle::new();
    let unfinished = handle.clone();
    tokio::spawn(async move { unfinished.finish_wires().await });
    let unfinished = handle.clone();
    tokio::spawn(async move {
        // What cannot be read of the state is told elsewhere.
        let _ = migration::finish_departures(unfinished).await;
    });
    let by_store = handle.clone().of("store".into());
    let api = api::router(handle);
    if let Some(Network {
        listener,
        tls,
        config,
    }) = network
    {
        let (api, clients) = (api.clone(), Arc::clone(&clients));
        tokio::spawn(api::serve::serve_tls(listener, tls, config, api, clients));
    }
    let audit = clients.audit();
    let server = tokio::spawn(api::serve::serve(listener, api, clients));
    let ended: OwnedFd = node.events().try_clone_to_owned().map_err(failed)?;
    #[expect(
        deprecated,
        reason = "its sound sibling is unsafe to call; an OwnedFd is what it asks for"
    )]
    let ended = AsyncFd::new(ended).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !node.is_over() {
        let restart = node.next_restart();
        let kill = node.next_kill();
        let end = node.next_end();
        let check = node.next_check();
        node.look_at_ended();
        let next_look = node.next_look();
        let over = node.next_over();
        node.tell_faults();
        node.look_at_starting();
        let waited = node.awaits_start();
        let starts = node.wants_starts();
        // Each ready branch gets its turn: many guests that end or start do not keep other jobs
        // waiting.
        tokio::select! {
            _ = terminate.recv() => {
                tell_end("SIGTERM");
                break;
            }
            _ = interrupt.recv() => {
                tell_end("SIGINT");
                break;
            }
            ready = ended.readable() => {
                // Readiness is kept until a look finds nothing.
                if !node.take_events() {
                    ready.map_err(failed)?.clear_ready();
                }
                for (request, config) in node.store_requests() {
                    let (handle, audit) = (by_store.clone(), Arc::clone(&audit));
                    tokio::spawn(handle.serve_router(request, config, audit));
                }
            }
            () = until(restart) => node.restart_due(),
            () = until(kill) => node.kill_late(),
            () = until(end) => { node.take_events(); }
            () = until(next_look) => node.look_at_consoles(),
            () = until(over) => node.remove_over(),
            () = until(check) => node.check_health(),
            turn = queue.next() => match turn {
                Some(turn) => turn.carry_out(&mut node),
                None => break,
            },
            () = std::future::ready(()), if starts => node.start_wanted(),
            _ = tick.tick() => node.tick(),
            () = look(waited), if waited.is_some() => {}
        }
    }
    // Pending answers are sent.
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    server.abort();
    Ok(())
}

fn tell_end(signal: &str) {
    tracing::info!(
        signal,
        "the node ends by {signal}; guests and the switch go on"
    );
}

/// The pause before the next look at guests that start, the last one for so long: none at first, since most guests
/// start within a millisecond.
async fn look(waited: Option<Duration>) {
    match waited {
        Some(waited) if waited > PAUSE => tokio::time::sleep(PAUSE).await,
        _ => tokio::task::yield_now().await,
    }
}

/// Waits until a moment, or forever if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
