//! The control store's process, which outlives the node's, and the guests that the node reports to it.

use std::collections::VecDeque;
use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::guests::RunningGuest;
use super::process::{await_end, boot, find, has_ended, listen, poll, reap, told_end};
use super::wakers::Waker;
use super::{CONTROL_STORE, CONTROL_STORE_ROOM, CONTROL_STORE_TOLD, Host, Router, TIMEOUT};
use crate::control_store::message::{
    BYTES_MAX, CONFIG_MAX, Change, FromStore, Introduction, MESSAGE_FILES, Request, VERSION, parts,
};
use crate::control_store::process::spawn;
use crate::error::{Error, Result};
use crate::model::Record;

/// How long a store has to run so that another takes its place at once.
const SETTLED: Duration = Duration::from_secs(1);
/// The pause before a second try to connect to a store that dropped the connection; it doubles up to the other.
pub const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(32)];
/// Most requests of the store that are taken at once.
const REQUESTS_MAX: usize = 64;

/// The identity of a store, by which it is found again.
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

/// A message to the store that waits.
enum Pending {
    /// A change, in JSON.
    Change(String),
    /// Connect the guest with a number. Without its waker and the file of its control region, they are taken from its
    /// process.
    Connect(u64, Option<(Waker, OwnedFd)>),
}

/// Most connections that wait with their files.
const FILES_MAX: usize = 64;
/// Most guests whose files are got from their processes at a time: other work goes on in between.
const REACHED_MAX: usize = 128;

/// A store that runs.
pub(super) struct StoreProcess {
    run: StoreRun,
    pidfd: OwnedFd,
    socket: OwnedFd,
    /// The same connection, watched for room for the pending messages.
    room: OwnedFd,
    /// Messages that were not sent yet.
    pending: VecDeque<Pending>,
    /// The parts of the configuration of its next request.
    text: String,
    start: Instant,
    /// When it was last connected to.
    connected: Instant,
    /// When it is connected to again, if it dropped the connection.
    lost: Option<Instant>,
    /// The pause before that.
    pause: Duration,
}

impl StoreProcess {
    /// It dropped the connection: it is connected to again, at once if the last connection lasted.
    fn lose(&mut self, events: &OwnedFd) {
        let _ = epoll::delete(events, &self.socket);
        if self.lost.is_none() {
            let lasted = self.connected.elapsed() >= SETTLED;
            self.retry(if lasted {
                Duration::ZERO
            } else {
                self.next_pause()
            });
        }
    }

    fn next_pause(&self) -> Duration {
        (self.pause * 2).clamp(PAUSES[0], PAUSES[1])
    }

    fn retry(&mut self, pause: Duration) {
        self.pause = pause;
        self.lost = Some(Instant::now() + pause);
    }

    /// Sends pending messages, as many as the store takes now, and for a bounded time. An event follows when it has
    /// room for more. `find` finds a running guest.
    fn tell<'g>(&mut self, find: impl Fn(u64) -> Option<&'g RunningGuest>) {
        let mut reached = 0;
        while reached < REACHED_MAX {
            let told = match self.pending.front_mut() {
                None => return,
                Some(Pending::Change(_)) => self.tell_changes(),
                Some(Pending::Connect(id, files)) => {
                    let guest = find(*id);
                    if files.is_none() {
                        reached += 1;
                        *files = guest.and_then(files_of);
                    }
                    match guest.zip(files.as_ref()) {
                        Some((guest, (waker, file))) => {
                            connect_guest(&self.socket, guest.launch.domain_id, waker, file)
                        }
                        // It has ended, or has none.
                        None => Ok(1),
                    }
                }
            };
            match told {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(Errno::INTR) => {}
                // It takes more later, or has ended, which is an event.
                Err(_) => break,
            }
        }
        for pending in self.pending.iter_mut().skip(FILES_MAX) {
            if let Pending::Connect(_, files) = pending {
                *files = None;
            }
        }
    }

    /// Tells it the changes in front, as many as are in a message. Returns how many.
    fn tell_changes(&mut self) -> std::result::Result<usize, Errno> {
        let mut length = 1;
        let changes = self.pending.iter().map_while(|pending| match pending {
            Pending::Change(change) => Some(change.as_str()),
            Pending::Connect(..) => None,
        });
        let some = changes.take_while(|change| {
            // One alone is shorter.
            let first = length == 1;
            length += change.len() + 1;
            first || length <= BYTES_MAX
        });
        let some: Vec<&str> = some.collect();
        tell(&self.socket, &some, &[])?;
        Ok(some.len())
    }

    /// The store's requests, each with the configuration to run.
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
                Some(Ok(FromStore::Part(part))) if self.text.len() <= CONFIG_MAX => {
                    self.text += &part;
                }
                Some(Ok(FromStore::Request(request))) => {
                    requests.push((request, std::mem::take(&mut self.text)));
                }
                // It has ended, which another event reports, has dropped the connection, or breaks the protocol.
                _ => {
                    self.lose(events);
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

fn tell(
    socket: &OwnedFd,
    changes: &[&str],
    files: &[BorrowedFd<'_>],
) -> std::result::Result<usize, Errno> {
    let message = format!("[{}]", changes.join(","));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(files));
    }
    let message = [IoSlice::new(message.as_bytes())];
    sendmsg(socket, &message, &mut ancillary, flags)
}

/// Tells the store how to reach a guest. Returns the number of changes told.
fn connect_guest(
    socket: &OwnedFd,
    domain: u16,
    waker: &Waker,
    file: &OwnedFd,
) -> std::result::Result<usize, Errno> {
    let connect = json(&Change::Connect {
        domain,
        waker: waker.number,
    });
    let files = [file.as_fd(), waker.as_fd()];
    tell(socket, &[&connect], &files).map(|_| 1)
}

/// The waker of a guest that runs, and the file of its control region, from its process.
fn files_of(running: &RunningGuest) -> Option<(Waker, OwnedFd)> {
    let waker = Waker::of_a_guest(running.guest.control_doorbell().ok()?)?;
    Some((waker, running.guest.control_file().ok()?))
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

fn unreachable(error: Errno) -> Error {
    Error::failed(format_args!("cannot reach the control store: {error}"))
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

    /// Starts a store, and reports the running guests to it. `note` gets its identity.
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

    /// Ends an unrecorded store at our socket: its node was killed before it recorded the store. A store of another
    /// program stays.
    fn end_unknown_store(&self) -> Result<()> {
        if let Ok(socket) = self.reach_store() {
            // It says nothing: the socket ends with it.
            let _ = tell(&socket, &[&json(&Change::End)], &[]);
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
        let [socket, room] = self.connection()?;
        let pidfd = rustix::io::fcntl_dupfd_cloexec(pidfd, 0).map_err(unreachable)?;
        self.watch(pidfd.as_fd(), CONTROL_STORE)?;
        self.control_store = Some(StoreProcess {
            run,
            pidfd,
            socket,
            room,
            pending: VecDeque::new(),
            text: String::new(),
            start: Instant::now(),
            connected: Instant::now(),
            lost: None,
            pause: Duration::ZERO,
        });
        Ok(())
    }

    /// A connection to the store, and a duplicate: one is watched for messages, the other for room.
    fn connection(&self) -> Result<[OwnedFd; 2]> {
        let socket = self.reach_store().map_err(unreachable)?;
        self.watch(socket.as_fd(), CONTROL_STORE_TOLD)?;
        let room = rustix::io::fcntl_dupfd_cloexec(&socket, 0).map_err(unreachable)?;
        let number = epoll::EventData::new_u64(CONTROL_STORE_ROOM);
        let never = epoll::EventFlags::ONESHOT;
        epoll::add(&self.events, &room, number, never).map_err(unreachable)?;
        Ok([socket, room])
    }

    /// Reconnects to a running store that dropped the connection, if the pause is over. Returns the result and the
    /// pause. The store then gets the messages of all guests.
    pub fn reconnect_store(&mut self) -> Option<(Result<()>, Duration)> {
        let store = self.control_store.as_ref()?;
        let due = store.lost.is_some_and(|due| due <= Instant::now());
        if !due || has_ended(&store.pidfd) {
            return None;
        }
        let pause = store.pause;
        let connection = self.connection();
        let store = self.control_store.as_mut()?;
        let connected = match connection {
            Ok([socket, room]) => {
                (store.socket, store.room) = (socket, room);
                store.pending.clear();
                store.text.clear();
                store.connected = Instant::now();
                store.lost = None;
                self.introduce_all();
                Ok(())
            }
            Err(error) => {
                store.retry(store.next_pause());
                Err(error)
            }
        };
        Some((connected, pause))
    }

    /// Tells the store of all guests that run, and that there are no others.
    pub fn introduce_all(&mut self) {
        let running = self.guests.values().chain(self.ending.guests());
        let all = running.flat_map(|guest| {
            let changes = introduction(guest).into_iter();
            let changes = changes.map(|change| Pending::Change(json(&change)));
            changes.chain([Pending::Connect(guest.launch.id, None)])
        });
        let complete = Pending::Change(json(&Change::Complete));
        let all: Vec<Pending> = all.chain([complete]).collect();
        self.add_pending(all);
    }

    /// Tells the store that a guest runs. `files` are its waker and the file of its control region, if they are there.
    pub(super) fn introduce(&mut self, id: u64, files: Option<(Waker, OwnedFd)>) {
        let introduced = self.guests.get(&id).map(introduction);
        let introduced = introduced.into_iter().flatten();
        let changes = introduced.map(|change| Pending::Change(json(&change)));
        let connect = Pending::Connect(id, files);
        self.add_pending(changes.chain([connect]).collect());
    }

    /// Notes which routers a guest has now, and reports the changed ones to the store.
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

    /// The store's requests, each with the configuration to run.
    pub fn store_requests(&mut self) -> Vec<(Request, String)> {
        let store = self.control_store.as_mut();
        store.map_or_else(Vec::new, |store| store.requests(&self.events))
    }

    /// The process of a guest that runs.
    pub fn pid_of(&self, id: u64) -> Option<u32> {
        self.guests.get(&id).map(|running| running.guest.pid())
    }

    /// Sends the store the messages that it did not take before.
    pub fn tell_pending(&mut self) {
        self.tell_store(None);
    }

    /// Tells the store something.
    pub fn tell_store(&mut self, changes: impl IntoIterator<Item = Change>) {
        let changes = changes.into_iter();
        let changes = changes.map(|change| Pending::Change(json(&change)));
        self.add_pending(changes.collect());
    }

    fn add_pending(&mut self, pending: Vec<Pending>) {
        let Host {
            control_store,
            guests,
            ending,
            events,
            ..
        } = self;
        // After a reconnection, the store gets the messages of all guests.
        if let Some(store) = control_store.as_mut().filter(|store| store.lost.is_none()) {
            store.pending.extend(pending);
            store.tell(|id| guests.get(&id).or_else(|| ending.get(id)));
            if !store.pending.is_empty() {
                let number = epoll::EventData::new_u64(CONTROL_STORE_ROOM);
                let flags = epoll::EventFlags::OUT | epoll::EventFlags::ONESHOT;
                // Should it fail, the rest is told within a second.
                let _ = epoll::modify(events, &store.room, number, flags);
            }
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

    /// The store's identity, if there is one.
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
