//! The switch's process, which outlives the node's.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::SocketType;
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use switch::client::SwitchClient;
use switch::process::{Options, Switch};
use switch::protocol::{PortDescription, PortId};
use switch::settled::Programs;

use super::interfaces::turn_off_gro;
use super::process::{await_end, boot, find, has_ended, listen, reap, told_end};
use super::{CALLS, Host, Port, SWITCH, TIMEOUT};
use crate::error::{Error, Result};
use crate::model::Record;

/// The identity of a switch, by which it is found again.
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
    /// What passes settled flows on, if any VNIC wants that; and the ports whose interfaces it is on.
    pub(super) programs: Option<Programs>,
    pub(super) passages: HashMap<String, PortId>,
}

impl Host {
    /// Takes over the switch that an earlier node started, with its ports. Says whether there is
    /// one: one that does not answer, or speaks another version, is ended.
    pub fn adopt_switch(&mut self, run: &SwitchRun) -> Result<bool> {
        let Some(pidfd) = find(run.pid, run.started, &run.boot) else {
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
        self.watch(client.calls(), CALLS)?;
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
            programs: None,
            passages: HashMap::new(),
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

    /// Starts a switch. `note` gets its identity before its first request. If the identity is not
    /// recorded, the next node finds the switch at its socket, and ends it.
    pub fn start_switch(&mut self, note: impl FnOnce(&SwitchRun)) -> Result<()> {
        self.end_unknown_switch();
        let listener = listen(&self.socket, SocketType::SEQPACKET)?;
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
            boot: boot().into(),
            options: self.options.clone(),
        };
        note(&run);
        let client = SwitchClient::connect(&self.socket, TIMEOUT)?;
        self.watch(pidfd.as_fd(), SWITCH)?;
        self.watch(client.calls(), CALLS)?;
        self.ports.clear();
        self.waiting.clear();
        self.flows.clear();
        self.entries.clear();
        self.switch = Some(SwitchProcess {
            client,
            pidfd,
            run,
            programs: None,
            passages: HashMap::new(),
        });
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
        self.waiting.clear();
        self.flows.clear();
        self.entries.clear();
        self.restarts += 1;
        Some(told_end(pid, status))
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

    /// Kills the switch, if it runs, so that another can replace it: held interfaces stay.
    pub fn end_switch(&mut self) {
        self.kill_switch();
        if let Some(switch) = self.switch.take() {
            await_end(&switch.pidfd);
            reap(&switch.pidfd);
        }
        self.ports.clear();
        self.waiting.clear();
        self.flows.clear();
        self.entries.clear();
    }

    /// Ends the switch, and with it all interfaces that the node does not hold; others stay as they
    /// are.
    pub fn stop_switch(&mut self) {
        self.held.clear();
        self.ports.clear();
        self.waiting.clear();
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

    /// The switch's identity, if there is one.
    pub fn switch_run(&self) -> Option<&SwitchRun> {
        self.switch.as_ref().map(|switch| &switch.run)
    }

    /// Number of switches that replaced an ended one.
    pub fn switch_restarts(&self) -> u64 {
        self.restarts
    }

    /// Ends an unrecorded switch at our socket: its node was killed before it recorded the switch.
    fn end_unknown_switch(&self) {
        if let Ok(client) = SwitchClient::connect(&self.socket, TIMEOUT) {
            let _ = client.stop();
        }
    }
}
