//! The guard: the process that stops a host's guests when its lease may end. It starts the agent, which tells it until
//! when the lease lives, and starts it again if it ends. It acts whether the agent is cut off from etcd, hangs, or was
//! killed, and also without a node.
//!
//! The instant is in a file as well, by the clock that counts from the machine's start, so that the next guard goes on
//! where this one was. After a restart of the machine there is no such file, and the guests are stopped at once.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use node::client::Client;
use node::error::{Error, Result};
use node::model::{Action, Guest, GuestAction, GuestState, Object};
use node::paths::Paths;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::ledger::Ledger;

/// The exit code of an agent that is not to be started again.
pub const DONE: u8 = 3;
/// The pause between two looks at guests that must not run.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest that the node may take to stop guests before they are killed.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before an agent is started again; one that ended soon waits longer.
const RESTART: Duration = Duration::from_millis(50);
/// The same, at most.
const RESTART_MAX: Duration = Duration::from_secs(2);

/// An instant that all processes of a host share: milliseconds since the machine's start.
pub fn clock_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The same of an instant of this process.
pub fn at(instant: Instant) -> u64 {
    let now = Instant::now();
    match instant.checked_duration_since(now) {
        Some(ahead) => clock_ms() + ahead.as_millis() as u64,
        None => clock_ms().saturating_sub((now - instant).as_millis() as u64),
    }
}

/// The file that says until when guests may run.
pub fn file(paths: &Paths) -> PathBuf {
    paths.run.join("cluster.until")
}

/// Tells the guard, from the agent's process, until when guests may run.
pub fn tell(until_ms: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{until_ms}")?;
    out.flush()
}

/// Tells the guard that guests may run without a lease.
pub fn tell_keep() -> io::Result<()> {
    tell(u64::MAX)
}

/// Until when the guests of the cluster may run.
fn until(paths: &Paths) -> u64 {
    let text = fs::read_to_string(file(paths));
    let until = text.ok().and_then(|text| text.trim().parse().ok());
    until.unwrap_or(0)
}

/// Whether the guests of the cluster may run.
pub fn may_run(paths: &Paths) -> bool {
    clock_ms() < until(paths)
}

fn write_until(path: &Path, until: u64) -> Result<()> {
    let beside = path.with_extension("new");
    fs::write(&beside, until.to_string())
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| Error::failed(format_args!("{}: {error}", path.display())))
}

/// Keeps an agent running, and stops the cluster's guests when its lease may end, until SIGTERM. `agent` starts the
/// agent, `lingering` the process that [`linger`]s.
pub fn run(
    paths: &Paths,
    agent: impl Fn() -> Command,
    lingering: impl Fn() -> Command,
) -> Result<()> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&end)).map_err(Error::failed)?;
    }
    let mut pause = RESTART;
    loop {
        let start = Instant::now();
        let mut agent = agent()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::failed(format_args!("the agent does not start: {error}")))?;
        let told = listen(&mut agent)?;
        let watched = watch(paths, &told, &end);
        if watched.is_err() || end.load(Ordering::Relaxed) {
            let pid = i32::try_from(agent.id()).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        let ended = agent.wait().map_err(Error::failed)?;
        watched?;
        if end.load(Ordering::Relaxed) {
            leave_lingering(lingering());
            return Ok(());
        }
        if ended.success() || ended.code() == Some(DONE.into()) {
            return match ended.success() {
                true => Ok(()),
                false => Err(Error::refused("the agent ended: its message is above")),
            };
        }
        pause = match start.elapsed() > RESTART_MAX {
            true => RESTART,
            false => (pause * 2).min(RESTART_MAX),
        };
        tracing::warn!("the agent ended ({ended}), and is started again");
        let until = Instant::now() + pause;
        while Instant::now() < until && !end.load(Ordering::Relaxed) {
            fence(paths);
            std::thread::sleep(RESTART.min(pause));
        }
    }
}

/// What the agent says, from a thread.
fn listen(agent: &mut Child) -> Result<Receiver<u64>> {
    let out: ChildStdout = agent
        .stdout
        .take()
        .ok_or_else(|| Error::failed("the agent has no output"))?;
    let (sender, told) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(io::Result::ok) {
            if let Ok(until) = line.parse()
                && sender.send(until).is_err()
            {
                return;
            }
        }
    });
    Ok(told)
}

/// Takes in what the agent says, and fences, until the agent ends.
fn watch(paths: &Paths, told: &Receiver<u64>, end: &AtomicBool) -> Result<()> {
    while !end.load(Ordering::Relaxed) {
        match told.recv_timeout(PAUSE) {
            Ok(until) => write_until(&file(paths), until)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        fence(paths);
    }
    Ok(())
}

/// Waits until the lease may have ended, and stops the guests then, unless another guard has taken over.
pub fn linger(paths: &Paths) {
    let first = until(paths);
    while until(paths) == first && first != u64::MAX {
        if clock_ms() >= first {
            fence(paths);
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Starts the process that [`linger`]s, as this one ends.
fn leave_lingering(mut command: Command) {
    let null = Stdio::null;
    let started = command
        .stdin(null())
        .stdout(null())
        .stderr(null())
        .process_group(0)
        .spawn();
    if let Err(error) = started {
        tracing::warn!("nothing stops the guests when the lease ends: {error}");
    }
}

/// Stops the guests of the cluster, if their time has passed and some run.
fn fence(paths: &Paths) {
    if may_run(paths) {
        return;
    }
    // Without a ledger there are none.
    let Ok(ledger) = Ledger::guests(paths) else {
        return;
    };
    let names: Vec<String> = ledger.entries().map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return;
    }
    let (sender, stopped) = channel();
    let (node, guests) = (Client::new(paths.api()), names.clone());
    std::thread::spawn(move || sender.send(stop(&node, &guests)));
    let why = match stopped.recv_timeout(PATIENCE) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the node does not answer".into(),
    };
    tracing::warn!("{why}: its guests of the cluster are killed");
    kill(paths, &names);
}

/// Has the node stop those of these guests that run.
fn stop(node: &Client, names: &[String]) -> Result<()> {
    let runs = |guest: &Object<Guest>| {
        use GuestState::{Crashed, Halted, Stopped};
        !matches!(guest.status.state, Stopped | Halted | Crashed) && names.contains(&guest.name)
    };
    let guests = node.list::<Guest>()?.into_iter().filter(runs);
    let guests: Vec<_> = guests.map(|guest| guest.name).collect();
    if guests.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        "the lease may end: {} guests of the cluster are stopped",
        guests.len()
    );
    let mut left = Vec::new();
    let action = GuestAction {
        action: Action::Stop,
        guests,
    };
    node.act(&action, |outcome| {
        if outcome.error.is_some() {
            left.push(outcome.guest);
        }
        ControlFlow::Continue(())
    })?;
    // One that moves cannot be stopped; to remove it ends it on both hosts.
    if !left.is_empty() {
        let action = GuestAction {
            action: Action::Destroy,
            guests: left,
        };
        node.act(&action, |_| ControlFlow::Continue(()))?;
    }
    Ok(())
}

/// Kills the processes of guests, without a node.
fn kill(paths: &Paths, names: &[String]) {
    let owner = paths.run.display().to_string();
    let Ok(processes) = fs::read_dir("/proc") else {
        return;
    };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    for pid in pids.filter_map(Pid::from_raw) {
        // The descriptor is that of the process whose command line is read then.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        let command = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        let guest = command.ok().and_then(|it| vmm::guest_of(&it, &owner));
        if guest.is_some_and(|guest| names.contains(&guest)) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}
