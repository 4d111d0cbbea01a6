//! The control store's process, which outlives the node's, and the guests that it is told of.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::guests::RunningGuest;
use super::process::{await_end, boot, find, has_ended, listen, poll, reap, told_end};
use super::{CONTROL_STORE, CONTROL_STORE_TOLD, Host, Router, TIMEOUT};
use crate::control_store::message::{
    BYTES_MAX, CONFIG_MAX, Change, Introduction, Request, Told, VERSION, parts,
};
use crate::control_store::process::spawn;
use crate::error::{Error, Result};
use crate::model::Record;

/// How long a store has to run so that another takes its place at once.
const SETTLED: Duration = Duration::from_secs(1);
/// Most requests of the store that are taken at once.
const REQUESTS_MAX: usize = 64;

/// By what a store is found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRun {
    /// Its name: there is one.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// When that was started (field 22 of `/proc/PID/stat`).
    pub started: u64,
    /// Which boot of the machine that was on.
    pub boot: String,
    /// What messages it takes, and of which program it is.
    pub version: (u32, String),
}

impl StoreRun {
    /// The name of the one that there is.
    pub const NAME: &'static str = "store";
}

impl Record for StoreRun {
    const TABLE: &'static str = "stores";
    fn key(&self) -> &str {
        &self.name
    }
}

fn version() -> (u32, String) {
    (VERSION, env!("CARGO_PKG_VERSION").into())
}

/// A store that runs.
pub(super) struct StoreProcess {
    run: StoreRun,
    pidfd: OwnedFd,
    socket: OwnedFd,
    /// What it was not told yet, each in JSON.
    pending: VecDeque<String>,
    /// The parts of the configuration of its next request.
    text: String,
    start: Instant,
}

impl StoreProcess {
    /// Tells it what it was not told, as far as it takes that now.
    fn tell(&mut self) {
        while !self.pending.is_empty() {
            let mut length = 1;
            let fit = self.pending.iter().take_while(|change| {
                length += change.len() + 1;
                length <= BYTES_MAX
            });
            // One alone is shorter.
            let count = fit.count().max(1);
            let some: Vec<&str> = self
                .pending
                .iter()
                .take(count)
                .map(String::as_str)
                .collect();
            match tell(&self.socket, &some) {
                Ok(_) => drop(self.pending.drain(..count)),
                Err(Errno::INTR) => {}
                // It takes more later, or has ended, which is an event.
                Err(_) => return,
            }
        }
    }

    /// What it asks for, with the configuration that is to be run.
    fn requests(&mut self, events: &OwnedFd) -> Vec<(Request, String)> {
        let mut requests = Vec::new();
        let mut buffer = vec![0; BYTES_MAX];
        while requests.len() < REQUESTS_MAX {
            let told = match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Ok((length @ 1.., _)) => buffer.get(..length).map(serde_json::from_slice),
                _ => None,
            };
            match told {
                Some(Ok(Told::Part(part))) if self.text.len() <= CONFIG_MAX => {
                    self.text += &part;
                }
                Some(Ok(Told::Request(request))) => {
                    requests.push((request, std::mem::take(&mut self.text)));
                }
                // It has ended, which is told elsewhere, or says what it never says.
                _ => {
                    let _ = epoll::delete(events, &self.socket);
                    break;
                }
            }
        }
        requests
    }
}

fn json(change: &Change) -> String {
    // Strings and numbers: they have a form in JSON.
    serde_json::to_string(change).unwrap_or_default()
}

fn tell(socket: &OwnedFd, changes: &[&str]) -> std::result::Result<usize, Errno> {
    let message = format!("[{}]", changes.join(","));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    send(socket, message.as_bytes(), flags)
}

/// What identifies a guest: the number of this boot, with the guest's own in it.
fn uuid(guest: u64) -> String {
    let (rest, last) = boot().rsplit_once('-').unwrap_or_default();
    let last = u64::from_str_radix(last, 16).unwrap_or(0);
    format!("{rest}-{:012x}", (last ^ guest) & 0xffff_ffff_ffff)
}

fn introduction(running: &RunningGuest) -> Vec<Change> {
    let launch = &running.launch;
    let introduction = Change::Introduce(Introduction {
        domain: launch.domain_id,
        pid: running.guest.pid(),
        name: launch.name.clone(),
        uuid: uuid(launch.id),
        memory: launch.memory >> 10,
        config_name: launch
            .routers
            .first()
            .map_or_else(String::new, |own| own.name.clone()),
    });
    let routers = launch.routers.iter().skip(1);
    let routers = routers.flat_map(|router| described(launch.domain_id, router));
    [introduction].into_iter().chain(routers).collect()
}

/// A router that runs.
fn described(domain: u16, router: &Router) -> Vec<Change> {
    let text = match router.config.len() > CONFIG_MAX {
        true => "",
        false => &router.config,
    };
    let parts = parts(text).into_iter().map(Change::Part);
    let runs = Change::Router {
        domain,
        router: router.number,
        name: router.name.clone(),
    };
    parts.chain([runs]).collect()
}

impl Host {
    /// Takes over the store that an earlier node started, if it is of this version. Says whether there is one.
    pub fn adopt_store(&mut self, run: &StoreRun) -> bool {
        let Some(pidfd) = find(run.pid, run.started, &run.boot) else {
            return false;
        };
        let taken = match run.version == version() {
            true => self.connect_store(run.clone(), &pidfd),
            false => Err(Error::failed("it is of another version")),
        };
        if taken.is_err() {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            await_end(&pidfd);
        }
        taken.is_ok()
    }

    /// Starts a store, and tells it of the guests that run. `note` is told by what it is found again.
    pub fn start_store(&mut self, note: impl FnOnce(&StoreRun)) -> Result<()> {
        let paths = &self.store_sockets;
        self.end_unknown_store()?;
        let programs = listen(&paths.programs, SocketType::STREAM)?;
        let node = listen(&paths.node, SocketType::SEQPACKET)?;
        let failed = |error: Errno| {
            Error::failed(format_args!(
                "cannot start the control store's process: {error}"
            ))
        };
        let pid = spawn(programs, node).map_err(failed)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
        let pid = pid.as_raw_nonzero().get() as u32;
        let run = StoreRun {
            name: StoreRun::NAME.into(),
            pid,
            started: vmm::started(pid).unwrap_or(0),
            boot: boot().into(),
            version: version(),
        };
        note(&run);
        self.connect_store(run, &pidfd)?;
        self.introduce_all();
        Ok(())
    }

    /// Ends a store at our socket that nobody noted: its node was killed in that moment. One of another program stays.
    fn end_unknown_store(&self) -> Result<()> {
        if let Ok(socket) = self.reach_store() {
            // It says nothing: the socket ends with it.
            let _ = tell(&socket, &[&json(&Change::End)]);
            poll(&socket, TIMEOUT);
        }
        let path = &self.store_sockets.programs;
        match UnixStream::connect(path) {
            Ok(_) => Err(Error::failed(format_args!(
                "{}: another program serves a store there: end it, or give it another socket",
                path.display()
            ))),
            Err(_) => Ok(()),
        }
    }

    fn reach_store(&self) -> std::result::Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(&self.store_sockets.node)?)?;
        Ok(socket)
    }

    fn connect_store(&mut self, run: StoreRun, pidfd: &OwnedFd) -> Result<()> {
        let failed =
            |error: Errno| Error::failed(format_args!("cannot reach the control store: {error}"));
        let socket = self.reach_store().map_err(failed)?;
        let pidfd = rustix::io::fcntl_dupfd_cloexec(pidfd, 0).map_err(failed)?;
        self.watch(pidfd.as_fd(), CONTROL_STORE)?;
        self.watch(socket.as_fd(), CONTROL_STORE_TOLD)?;
        self.control_store = Some(StoreProcess {
            run,
            pidfd,
            socket,
            pending: VecDeque::new(),
            text: String::new(),
            start: Instant::now(),
        });
        Ok(())
    }

    /// Tells the store of all guests that run, and that there are no others.
    pub fn introduce_all(&mut self) {
        let running = self.guests.values().chain(self.ending.guests());
        let all: Vec<Change> = running
            .flat_map(introduction)
            .chain([Change::Complete])
            .collect();
        self.tell_store(all);
    }

    /// Tells the store that a guest runs.
    pub(super) fn introduce(&mut self, id: u64) {
        let introduced = self.guests.get(&id).map(introduction);
        self.tell_store(introduced.into_iter().flatten());
    }

    /// Notes which routers a guest has now, and tells the store of those that differ.
    pub fn set_routers(&mut self, id: u64, routers: Vec<Router>) {
        let Some(running) = self.guests.get_mut(&id) else {
            return;
        };
        let domain = running.launch.domain_id;
        let had = std::mem::replace(&mut running.launch.routers, routers);
        let has = &running.launch.routers;
        let stays = |router: &&Router| has.iter().any(|other| other.number == router.number);
        let gone = had.iter().filter(|router| !stays(router));
        let gone = gone.map(|router| Change::Halted {
            domain,
            router: router.number,
        });
        let new = has.iter().filter(|router| !had.contains(router));
        let new = new.flat_map(|router| described(domain, router));
        let changes: Vec<Change> = gone.chain(new).collect();
        self.tell_store(changes);
    }

    /// Tells the store of all routers of a guest.
    pub fn describe_routers(&mut self, id: u64) {
        let described = self.guests.get(&id).map(|running| {
            let launch = &running.launch;
            let routers = launch.routers.iter();
            let routers = routers.flat_map(|router| described(launch.domain_id, router));
            routers.collect::<Vec<_>>()
        });
        self.tell_store(described.into_iter().flatten());
    }

    /// What the store asks for, with the configuration that is to be run.
    pub fn store_requests(&mut self) -> Vec<(Request, String)> {
        let store = self.control_store.as_mut();
        store.map_or_else(Vec::new, |store| store.requests(&self.events))
    }

    /// The process of a guest that runs.
    pub fn pid_of(&self, id: u64) -> Option<u32> {
        self.guests.get(&id).map(|running| running.guest.pid())
    }

    /// Tells the store what it was not told, since it took no more.
    pub fn tell_pending(&mut self) {
        self.tell_store(None);
    }

    /// Tells the store something.
    pub fn tell_store(&mut self, changes: impl IntoIterator<Item = Change>) {
        if let Some(store) = &mut self.control_store {
            let changes = changes.into_iter();
            store.pending.extend(changes.map(|change| json(&change)));
            store.tell();
        }
    }

    /// How the store ended, if it has, and whether it ran for a while; it is released then.
    pub fn store_ended(&mut self) -> Option<(String, bool)> {
        let store = self.control_store.take_if(|it| has_ended(&it.pidfd))?;
        let settled = store.start.elapsed() >= SETTLED;
        Some((told_end(store.run.pid, reap(&store.pidfd)), settled))
    }

    /// Ends the store.
    pub fn stop_store(&mut self) {
        if let Some(store) = self.control_store.take() {
            let _ = pidfd_send_signal(&store.pidfd, Signal::KILL);
            await_end(&store.pidfd);
            reap(&store.pidfd);
        }
        for socket in [&self.store_sockets.programs, &self.store_sockets.node] {
            let _ = fs::remove_file(socket);
        }
    }

    /// By what the store is found again, if there is one.
    pub fn store_run(&self) -> Option<&StoreRun> {
        self.control_store.as_ref().map(|store| &store.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_have_identifiers_of_their_own() {
        let (one, two) = (uuid(1), uuid(2));
        assert_ne!(one, two);
        assert_eq!(one, uuid(1));
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
