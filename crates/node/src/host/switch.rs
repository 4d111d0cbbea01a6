//! The switch's process, which outlives the node's.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal,
    waitid,
};
use serde::{Deserialize, Serialize};
use switch::client::SwitchClient;
use switch::process::{Options, Switch};
use switch::protocol::PortDescription;

use super::interfaces::turn_off_gro;
use super::{Host, Port, SWITCH, TIMEOUT};
use crate::error::{Error, Result};
use crate::model::Record;
use crate::paths::clear_socket;

/// By what a switch is found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchRun {
    /// Its name: there is one.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// When that was started (field 22 of `/proc/PID/stat`).
    pub started: u64,
    /// Which boot of the machine that was on.
    pub boot: String,
    /// How it runs.
    #[serde(default)]
    pub options: Options,
}

impl SwitchRun {
    /// The name of the one that there is.
    pub const NAME: &'static str = "switch";
}

impl Record for SwitchRun {
    const TABLE: &'static str = "switches";
    fn key(&self) -> &str {
        &self.name
    }
}

/// A switch that runs.
pub(super) struct SwitchProcess {
    pub(super) client: SwitchClient,
    pidfd: OwnedFd,
    run: SwitchRun,
}

impl Host {
    /// Takes over the switch that an earlier node started, with its ports. Says whether there is
    /// one: one that does not answer, or speaks another version, is ended.
    pub fn adopt_switch(&mut self, run: &SwitchRun) -> Result<bool> {
        let Some(pidfd) = find(run) else {
            return Ok(false);
        };
        let found = SwitchClient::connect(&self.socket, TIMEOUT);
        let taken = found.and_then(|client| client.ports().map(|ports| (client, ports)));
        let Ok((client, ports)) = taken else {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            await_end(&pidfd);
            return Ok(false);
        };
        self.watch(pidfd.as_fd(), SWITCH)?;
        let port = |p: &PortDescription| {
            (
                p.name.clone(),
                Port {
                    id: p.id,
                    kind: p.kind,
                    domain: p.domain,
                },
            )
        };
        self.ports = ports.iter().map(port).collect();
        self.switch = Some(SwitchProcess {
            client,
            pidfd,
            run: run.clone(),
        });
        for port in ports {
            self.hold(&port);
        }
        let answers = self.adopt_flows().is_ok();
        if !answers {
            self.end_switch();
        }
        Ok(answers)
    }

    /// Starts a switch. `note` is told by what it is found again before it is asked anything. One of
    /// which that is not kept is ended by the next node, which finds it at its socket.
    pub fn start_switch(&mut self, note: impl FnOnce(&SwitchRun)) -> Result<()> {
        self.end_unknown_switch();
        let listener = listen(&self.socket)?;
        let failed = |error: &dyn std::fmt::Display| Error::failed(error);
        let process =
            Switch::spawn_detached(&self.options, listener).map_err(|error| failed(&error))?;
        let pid = process.pid().as_raw_nonzero().get() as u32;
        let pidfd = process.ended().try_clone_to_owned();
        let pidfd = pidfd.map_err(|error| failed(&error))?;
        let run = SwitchRun {
            name: SwitchRun::NAME.into(),
            pid,
            started: vmm::started(pid).unwrap_or(0),
            boot: boot(),
            options: self.options.clone(),
        };
        note(&run);
        let client = SwitchClient::connect(&self.socket, TIMEOUT)?;
        self.watch(pidfd.as_fd(), SWITCH)?;
        self.ports.clear();
        self.flows.clear();
        self.entries.clear();
        self.switch = Some(SwitchProcess { client, pidfd, run });
        Ok(())
    }

    /// How the switch ended, if it has; it is released then.
    pub fn switch_ended(&mut self) -> Option<String> {
        let switch = self.switch.as_ref()?;
        if !has_ended(&switch.pidfd) {
            return None;
        }
        let (pid, status) = (switch.run.pid, reap(&switch.pidfd));
        self.switch = None;
        self.ports.clear();
        self.flows.clear();
        self.entries.clear();
        self.restarts += 1;
        let how = match status.map(|status| (status.terminating_signal(), status.exit_status())) {
            Some((Some(signal), _)) => format!("was killed by signal {signal}"),
            Some((None, Some(code))) => format!("ended with code {code}"),
            // Its parent was another node.
            _ => "ended".into(),
        };
        Some(format!("its process {pid} {how}"))
    }

    /// Whether the switch did not answer in time.
    pub fn has_silent_switch(&self) -> bool {
        let switch = self.switch.as_ref();
        switch.is_some_and(|switch| switch.client.is_silent())
    }

    /// Kills the switch; its end is an event as any other's.
    pub fn kill_switch(&self) {
        if let Some(switch) = &self.switch {
            let _ = pidfd_send_signal(&switch.pidfd, Signal::KILL);
        }
    }

    /// Kills the switch, if it runs, so that another can take its place: what is held of interfaces
    /// stays.
    pub fn end_switch(&mut self) {
        self.kill_switch();
        if let Some(switch) = self.switch.take() {
            await_end(&switch.pidfd);
            reap(&switch.pidfd);
        }
        self.ports.clear();
        self.flows.clear();
        self.entries.clear();
    }

    /// Ends the switch, and with it all interfaces that nobody holds; others are as they were.
    pub fn stop_switch(&mut self) {
        self.held.clear();
        self.ports.clear();
        for index in std::mem::take(&mut self.gro).into_values() {
            turn_off_gro(index);
        }
        if let Some(switch) = self.switch.take() {
            let _ = switch.client.stop();
            if !await_end(&switch.pidfd) {
                let _ = pidfd_send_signal(&switch.pidfd, Signal::KILL);
                await_end(&switch.pidfd);
            }
            reap(&switch.pidfd);
        }
        let _ = fs::remove_file(&self.socket);
    }

    /// The switch's process.
    pub fn switch_pid(&self) -> Option<u32> {
        self.switch_run().map(|run| run.pid)
    }

    /// By what the switch is found again, if there is one.
    pub fn switch_run(&self) -> Option<&SwitchRun> {
        self.switch.as_ref().map(|switch| &switch.run)
    }

    /// Times that a switch was started in the place of one that ended.
    pub fn switch_restarts(&self) -> u64 {
        self.restarts
    }

    /// Ends a switch at our socket that nobody noted: its node was killed in that moment.
    fn end_unknown_switch(&self) {
        if let Ok(client) = SwitchClient::connect(&self.socket, TIMEOUT) {
            let _ = client.stop();
        }
    }
}

/// The process of a switch, if it still runs.
fn find(run: &SwitchRun) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(run.pid).ok()?)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let same = run.boot == boot() && vmm::started(run.pid) == Some(run.started);
    (same && !has_ended(&pidfd)).then_some(pidfd)
}

/// A listening socket at `path`, in the place of what is there.
fn listen(path: &Path) -> Result<OwnedFd> {
    let failed =
        |error: &dyn std::fmt::Display| Error::failed(format_args!("{}: {error}", path.display()));
    clear_socket(path).map_err(|error| failed(&error))?;
    let make = || {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
        rustix::net::listen(&socket, 4)?;
        Ok(socket)
    };
    make().map_err(|error: rustix::io::Errno| {
        failed(&format_args!("{error}: set WEIR_RUN to a writable folder"))
    })
}

/// Which boot of the machine this is.
pub fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_string()
}

fn poll(pidfd: &OwnedFd, limit: std::time::Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
    matches!(poll(&mut ended, Some(&limit)), Ok(1))
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    poll(pidfd, std::time::Duration::ZERO)
}

/// Waits for a process's end, for a while; says whether it came.
fn await_end(pidfd: &OwnedFd) -> bool {
    poll(pidfd, TIMEOUT)
}

/// Lets a child that has ended go; one of an earlier node has another parent.
fn reap(pidfd: &OwnedFd) -> Option<WaitIdStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    waitid(WaitId::PidFd(pidfd.as_fd()), options).ok()?
}
