//! Guests: one process each, which outlives the node's.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ::switch::client::Guest as SwitchGuest;
use ::switch::memory::SharedRegion;
use ::switch::properties::PortProperties;
use ::switch::protocol::PortKind;
use abi::control::State;
use abi::message::kind;
use abi::region::Region;
use rustix::event::{EventfdFlags, eventfd};
use vmm::{
    Answer, Control, DataFile, Exit, GuestSpec, Identity, Isolation, Orphan, Shape, printable,
};

use super::launch::{Launch, Launched, interface};
use super::{Host, Port};
use crate::error::{Error, Kind, Result};

/// Longest that a guest may take to end when it is asked to.
const ENDING: Duration = Duration::from_millis(200);
/// Longest line of a guest's that is told as one, in bytes.
const LINE_MAX: usize = 512;
/// Most lines of a guest's that are told.
const LINES_MAX: usize = 20;

/// The properties of a guest that a pre-forked process depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessKind {
    isolation: Isolation,
    cpus: usize,
    memory: u64,
    data: usize,
}

/// A pre-forked process for the next guest of its kind.
pub(super) struct PreForked {
    kind: ProcessKind,
    prepared: vmm::Prepared<'static>,
    doorbell: OwnedFd,
}

/// A guest that runs.
pub(super) struct RunningGuest {
    guest: vmm::Guest,
    control: Control,
    launch: Launch,
    /// When it was started; none if it was taken over.
    start: Option<Instant>,
    boot: Option<Duration>,
    console: Vec<u8>,
}

impl Host {
    /// Pre-forks a process for another guest like the last one, if there is none.
    pub fn pre_fork(&mut self) {
        let last = self.last_kind.filter(|_| self.pre_forked.is_none());
        if let Some(kind) = last {
            // Without one, the next guest takes a little longer.
            self.pre_forked = self.prepare(kind).ok();
        }
    }

    /// Whether [`pre_fork`](Self::pre_fork) has something to do.
    pub fn wants_pre_forked(&self) -> bool {
        self.last_kind.is_some() && self.pre_forked.is_none()
    }

    fn prepare(&self, kind: ProcessKind) -> Result<PreForked> {
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::failed(format_args!("cannot make a doorbell: {error}")))?;
        let prepared = self.template.prepare(&Shape {
            isolation: kind.isolation,
            cpus: kind.cpus,
            memory: kind.memory,
            data: kind.data,
            switch_doorbell: Some(doorbell.as_fd()),
            control_doorbell: None,
        })?;
        Ok(PreForked {
            kind,
            prepared,
            doorbell,
        })
    }

    /// Whether a guest could be started, as far as that can be told without starting it.
    pub fn check(&self, launch: &Launch) -> Result<()> {
        let geometry = launch.geometry()?;
        for port in &launch.ports {
            interface(port)?;
        }
        // Only how long things are matters.
        let control = Control::new()?;
        let data = DataFile {
            file: control.file(),
            length: geometry.bytes(),
            wake_offset: Region::WAKE_OFFSET,
        };
        Ok(self.template.check(&launch.spec(&control, data, None))?)
    }

    /// Starts a guest. `note` records its identity before the guest runs, and returns whether it is
    /// recorded: if not, the guest ends with this process, so that no guest runs unrecorded. If it
    /// fails, or a later step does, there is no guest.
    pub fn launch(
        &mut self,
        launch: Launch,
        note: impl FnOnce(Identity) -> Result<bool>,
    ) -> Result<()> {
        let geometry = launch.geometry()?;
        let kind = ProcessKind {
            isolation: launch.isolation,
            cpus: launch.cpus,
            memory: launch.memory,
            data: geometry.bytes(),
        };
        self.last_kind = Some(kind);
        let forked = match self.pre_forked.take_if(|forked| forked.kind == kind) {
            Some(forked) => forked,
            None => {
                self.pre_forked = None;
                self.prepare(kind)?
            }
        };
        let interfaces = launch
            .ports
            .iter()
            .map(interface)
            .collect::<Result<Vec<_>>>()?;
        let (region, file) = SharedRegion::create(geometry, &interfaces)?;
        drop(region);
        let control = Control::new()?;
        let is_kept = note(forked.prepared.identity()?)?;
        self.attach_guest(&launch, &file, &forked.doorbell)?;
        let start = Instant::now();
        let data = DataFile {
            file: file.as_fd(),
            length: geometry.bytes(),
            wake_offset: Region::WAKE_OFFSET,
        };
        let spec = GuestSpec {
            end_with_parent: !is_kept,
            ..launch.spec(&control, data, Some(&forked.doorbell))
        };
        let started = forked.prepared.start(&spec).map_err(Error::from);
        let watched = started.and_then(|guest| {
            self.watch(guest.pidfd(), launch.id)
                .inspect_err(|_| guest.kill())?;
            Ok(guest)
        });
        let guest = match watched {
            Ok(guest) => guest,
            Err(error) => {
                self.detach_guest(&launch);
                return Err(error);
            }
        };
        self.keep(guest, control, launch, Some(start));
        Ok(())
    }

    fn keep(
        &mut self,
        guest: vmm::Guest,
        mut control: Control,
        mut launch: Launch,
        start: Option<Instant>,
    ) {
        control.close_file();
        // The store has it.
        launch.config = Vec::new();
        let running = RunningGuest {
            guest,
            control,
            start,
            boot: None,
            console: Vec::new(),
            launch,
        };
        self.guests.insert(running.launch.id, running);
    }

    /// Takes over a guest that an earlier node started, if it still runs. Its ports are attached
    /// if they are not.
    pub fn adopt_guest(&mut self, launch: Launch, identity: Identity) -> Result<bool> {
        let Some(orphan) = Orphan::find(identity)? else {
            return Ok(false);
        };
        let geometry = launch.geometry()?;
        // Only how long things are matters.
        let control = Control::new()?;
        let data = DataFile {
            file: control.file(),
            length: geometry.bytes(),
            wake_offset: Region::WAKE_OFFSET,
        };
        let spec = launch.spec(&control, data, None);
        let (guest, control) = orphan.adopt(self.template, &spec)?;
        self.watch(guest.pidfd(), launch.id)?;
        let id = launch.id;
        self.keep(guest, control, launch, None);
        self.reattach_guest(id)?;
        Ok(true)
    }

    /// Attaches the ports of a guest that runs, if they are not: the switch goes on where the last
    /// one stood.
    pub fn reattach_guest(&mut self, id: u64) -> Result<()> {
        let Some(running) = self.guests.get(&id) else {
            return Ok(());
        };
        let launch = running.launch.clone();
        if launch.ports.iter().all(|port| self.has_port(&port.name)) {
            return Ok(());
        }
        let file = running.guest.data_file()?;
        let doorbell = running.guest.switch_doorbell()?;
        // All of them or none: rings are attached together.
        self.detach_guest(&launch);
        self.attach_guest(&launch, &file, &doorbell)
    }

    fn attach_guest(&mut self, launch: &Launch, file: &OwnedFd, doorbell: &OwnedFd) -> Result<()> {
        if launch.ports.is_empty() {
            return Ok(());
        }
        let ports = self.client()?.attach_guest(SwitchGuest {
            region: file.as_fd(),
            doorbell: doorbell.as_fd(),
            slots: launch.ring_slots,
            interfaces: launch.interfaces(),
        })?;
        for (port, id) in launch.ports.iter().zip(ports) {
            let (kind, domain) = (PortKind::Guest, port.domain);
            let attached = Port { id, kind, domain };
            self.ports.insert(port.name.clone(), attached);
        }
        Ok(())
    }

    fn detach_guest(&mut self, launch: &Launch) {
        let mut ports = Vec::new();
        for port in &launch.ports {
            self.forget_flows(&port.name);
            ports.extend(self.ports.remove(&port.name).map(|port| port.id));
        }
        if !ports.is_empty()
            && let Ok(client) = self.client()
        {
            let _ = client.detach(&ports);
        }
    }

    /// Changes what is kept of a guest's port for when it is reattached.
    pub fn keep_properties(&mut self, id: u64, name: &str, properties: &PortProperties) {
        let running = self.guests.get_mut(&id);
        let ports = running.into_iter().flat_map(|r| &mut r.launch.ports);
        for port in ports.filter(|port| port.name == name) {
            port.properties = properties.clone();
        }
    }

    /// How a guest fares, if it runs.
    pub fn launched(&mut self, id: u64) -> Option<Launched> {
        let running = self.guests.get_mut(&id)?;
        let runs = running.control.state() == Some(State::Running);
        if runs && running.boot.is_none() {
            running.boot = running.start.map(|start| start.elapsed());
        }
        Some(Launched {
            running: runs,
            pid: running.guest.pid(),
            wall: running.guest.wall(),
            boot: running.boot,
        })
    }

    /// What became of a guest, if it has ended; nothing of it is left then. With it comes what it
    /// printed, if it did not come to run.
    pub fn guest_ended(&mut self, id: u64) -> Option<(Exit, Vec<String>)> {
        let running = self.guests.get_mut(&id)?;
        let exit = match running.guest.try_wait(&running.control) {
            Ok(exit) => exit?,
            // Its process is gone, whatever became of it.
            Err(_) => Exit::Killed(0),
        };
        let never_ran = running.start.is_some() && running.boot.is_none();
        let lines = if never_ran && !matches!(exit, Exit::Halted) {
            running.last_lines()
        } else {
            Vec::new()
        };
        let launch = self.guests.remove(&id).map(|running| running.launch)?;
        self.detach_guest(&launch);
        Some((exit, lines))
    }

    /// Ends a guest, if it runs: asks it, and kills it if it has not ended after a moment.
    pub fn end_guest(&mut self, id: u64) {
        let Some(mut running) = self.guests.remove(&id) else {
            return;
        };
        let _ = running.control.request(kind::STOP, "");
        let ended = running.guest.wait(&running.control, Some(ENDING));
        if !matches!(ended, Ok(Some(_))) {
            running.guest.kill();
            let _ = running.guest.wait(&running.control, Some(super::TIMEOUT));
        }
        self.detach_guest(&running.launch);
    }

    /// Ends a guest that an earlier node started, if it still runs.
    pub fn end_left(&self, identity: Identity) -> Result<()> {
        if let Some(orphan) = Orphan::find(identity)? {
            orphan.kill();
        }
        Ok(())
    }

    /// Asks a guest that runs; the request's number.
    pub fn ask(&mut self, id: u64, kind: u32, contents: &str) -> Result<u32> {
        Ok(self.running(id)?.control.request(kind, contents)?)
    }

    /// Takes the next answer of a guest, if there is one.
    pub fn answer(&mut self, id: u64) -> Result<Option<Answer>> {
        Ok(self.running(id)?.control.poll()?)
    }

    /// What a guest printed since it was last asked.
    pub fn console(&mut self, id: u64) -> Result<Vec<String>> {
        Ok(self.running(id)?.last_lines())
    }

    fn running(&mut self, id: u64) -> Result<&mut RunningGuest> {
        let missing = || Error::new(Kind::Unavailable, "the guest does not run");
        self.guests.get_mut(&id).ok_or_else(missing)
    }
}

impl RunningGuest {
    /// The last lines that it printed, with control characters shown: it may be hostile.
    fn last_lines(&mut self) -> Vec<String> {
        self.console.clear();
        // A guest may have broken its console ring; what came before is good.
        let _ = self.control.read_console(&mut self.console);
        let text = String::from_utf8_lossy(&self.console);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(LINES_MAX);
        lines[last..]
            .iter()
            .map(|line| printable(line).chars().take(LINE_MAX).collect())
            .collect()
    }
}
