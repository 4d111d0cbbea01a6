//! Guests: one process each, which outlives the node's.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ::switch::client::Guest as SwitchGuest;
use ::switch::memory::SharedRegion;
use ::switch::properties::PortProperties;
use ::switch::protocol::PortKind;
use abi::control::State;
use abi::region::{Geometry, Region};
use rustix::process::Signal;
use vmm::{
    Answer, Control, DataFile, Exit, GuestSpec, Identity, Isolation, Orphan, Shape, SocketFiles,
    Watch,
};

use super::cgroup;
use super::console::{Console, Logs};
use super::doorbells::Doorbell;
use super::launch::{Launch, Launched, interface};
use super::wakers::Waker;
use super::{Host, Port};
use crate::control_store::message::Change;
use crate::error::{Error, InField, Result};
use crate::model::Limits;

/// How long the kernel may take to wake a process that goes on.
const AWAKES: Duration = Duration::from_millis(200);
/// Most lines of a guest's that are told with its end.
const LAST_LINES: usize = 20;

/// The properties of a guest that a pre-forked process depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessKind {
    isolation: Isolation,
    cpus: usize,
    memory: u64,
    data: usize,
    sockets: bool,
}

/// A pre-forked process for the next guest of its kind.
pub(super) struct PreForked {
    kind: ProcessKind,
    prepared: vmm::Prepared<'static>,
    doorbell: Doorbell,
    waker: Option<Waker>,
}

/// A guest with a process that waits for it.
pub struct Reserved {
    launch: Launch,
    forked: PreForked,
}

impl Reserved {
    /// The guest's identity, by which it is found again. Waits for its process.
    pub fn identity(&mut self) -> Result<Identity> {
        Ok(self.forked.prepared.identity()?)
    }
}

/// A guest that runs.
pub(super) struct RunningGuest {
    pub(super) guest: vmm::Guest,
    pub(super) control: Control,
    pub(super) launch: Launch,
    /// When it was started; none if it was taken over.
    start: Option<Instant>,
    boot: Option<Duration>,
    /// Whether it was told that it runs.
    told: bool,
    console: Console,
    pub(super) watch: Watch,
    /// Whether it let a request go without an answer.
    silent: bool,
    /// When it was last told to go on.
    resumed: Option<Instant>,
    /// Its cgroup, if it has limits.
    pub(super) cgroup: Option<PathBuf>,
}

impl Host {
    fn prepare(&mut self, kind: ProcessKind) -> Result<PreForked> {
        let wall = self.template.wall(kind.isolation)?;
        let doorbell = self.doorbells.next(wall, self.guests.len())?;
        let waker = self.wakers.next()?;
        let prepared = self.template.prepare(&Shape {
            isolation: kind.isolation,
            cpus: kind.cpus,
            memory: kind.memory,
            data: kind.data,
            sockets: kind.sockets,
            switch_doorbell: Some(doorbell.as_fd()),
            control_doorbell: waker.as_ref().map(AsFd::as_fd),
        })?;
        Ok(PreForked {
            kind,
            prepared,
            doorbell,
            waker,
        })
    }

    /// Why no guest can be a virtual machine, if that is so.
    pub fn lacks_kvm(&self) -> Option<String> {
        let wall = self.template.wall(Isolation::Vm);
        wall.err().map(|error| error.to_string())
    }

    /// Checks that a guest can be started, as far as possible without starting it.
    pub fn check(&self, launch: &Launch) -> Result<()> {
        let geometry = launch.geometry()?;
        for port in &launch.ports {
            interface(port)?;
        }
        let data = self.no_data(geometry);
        if !launch.limits.is_empty() {
            let field = match launch.limits.cpu_max {
                Some(_) => "cpu-max",
                None => "memory-max",
            };
            cgroup::check_limits(&launch.limits).in_field(field)?;
        }
        let spec = GuestSpec {
            sockets: self.no_sockets(launch),
            ..launch.spec(&self.blank, data, None)
        };
        Ok(self.template.check(&spec)?)
    }

    /// A data region of which only the length matters.
    fn no_data(&self, geometry: Geometry) -> DataFile<'_> {
        DataFile {
            file: self.blank.file(),
            length: geometry.bytes(),
            wake_offset: Region::WAKE_OFFSET,
        }
    }

    /// Sockets of which only matters whether there are some.
    fn no_sockets(&self, launch: &Launch) -> Option<SocketFiles<'_>> {
        let file = self.blank.file();
        launch.sockets.then_some(SocketFiles {
            queues: file,
            payload: file,
            doorbell: file,
            connection: file,
        })
    }

    /// Pre-forks a process for a guest. It waits for [`start`](Self::start), and ends if this is
    /// dropped.
    pub fn reserve(&mut self, launch: Launch) -> Result<Reserved> {
        let kind = ProcessKind {
            isolation: launch.isolation,
            cpus: launch.cpus,
            memory: launch.memory,
            data: launch.geometry()?.bytes(),
            sockets: launch.sockets,
        };
        let ready = self.pre_forked.take_if(|forked| forked.kind == kind);
        let forked = match ready {
            Some(forked) => forked,
            None => self.prepare(kind)?,
        };
        Ok(Reserved { launch, forked })
    }

    /// Starts a guest in its process. If the guest's identity is not `recorded`, the guest ends with this process,
    /// so that no guest runs unrecorded. `sockets` are its own, if it has some. If this fails, there is no guest.
    pub fn start(
        &mut self,
        reserved: Reserved,
        recorded: bool,
        sockets: Option<netkernel::guest::Guest>,
    ) -> Result<()> {
        let Reserved { launch, mut forked } = reserved;
        let geometry = launch.geometry()?;
        let interfaces = launch
            .ports
            .iter()
            .map(interface)
            .collect::<Result<Vec<_>>>()?;
        let ((region, file), control) = match &launch.copy {
            None => (
                SharedRegion::create(geometry, &interfaces)?,
                Control::new()?,
            ),
            Some(copy) => (copy.region(geometry, &interfaces)?, copy.control()?),
        };
        drop(region);
        self.make_way(&launch);
        let cgroup = match launch.limits.is_empty() {
            true => None,
            false => {
                let pid = forked.prepared.identity()?.pid;
                Some(self.cgroups.enter(launch.id, pid, &launch.limits)?)
            }
        };
        let attached = self.attach_guest(&launch, &file, &forked.doorbell);
        if attached.is_err() {
            self.leave_cgroup(cgroup);
            return attached;
        }
        let start = Instant::now();
        let data = DataFile {
            file: file.as_fd(),
            length: geometry.bytes(),
            wake_offset: Region::WAKE_OFFSET,
        };
        let owner = self.owner();
        let spec = GuestSpec {
            owner: &owner,
            end_with_parent: !recorded,
            control_doorbell: forked.waker.as_ref().map(AsFd::as_fd),
            sockets: sockets.as_ref().map(|it| SocketFiles {
                queues: it.queues.as_fd(),
                payload: it.payload.as_fd(),
                doorbell: it.doorbell.as_fd(),
                connection: it.connection.as_fd(),
            }),
            ..launch.spec(&control, data, Some(forked.doorbell.as_fd()))
        };
        // Before it runs, so that its end is told whenever it comes.
        let watched = self.ends.watch(launch.id, &control);
        let started = watched.and_then(|watch| {
            let started = forked.prepared.start(&spec);
            let guest = started.inspect_err(|_| self.ends.forget(watch))?;
            Ok((guest, watch))
        });
        let (guest, watch) = match started {
            Ok(started) => started,
            Err(error) => {
                self.detach_guests(&[&launch]);
                self.leave_cgroup(cgroup);
                return Err(error);
            }
        };
        self.keep(
            (guest, control, watch),
            launch,
            Some(start),
            (cgroup, forked.waker),
        );
        if self.pre_forked.is_none() {
            // The zygote forks the next one meanwhile. Without one, the next guest takes a little longer.
            self.pre_forked = self.prepare(forked.kind).ok();
        }
        Ok(())
    }

    fn keep(
        &mut self,
        (mut guest, mut control, watch): (vmm::Guest, Control, Watch),
        mut launch: Launch,
        start: Option<Instant>,
        (cgroup, waker): (Option<PathBuf>, Option<Waker>),
    ) {
        let file = control.take_file();
        guest.close_pidfd();
        // The store has it.
        launch.config = Vec::new();
        launch.copy = None;
        let running = RunningGuest {
            guest,
            console: Console::new(&control, &self.logs),
            control,
            watch,
            start,
            boot: None,
            // Of one that was taken over, an earlier node told.
            told: start.is_none(),
            silent: false,
            resumed: None,
            cgroup,
            launch,
        };
        let id = running.launch.id;
        self.guests.insert(id, running);
        self.introduce(id, waker.zip(file));
    }

    /// Takes over a guest that an earlier node started, if it still runs. Its ports are attached
    /// if they are not.
    pub fn adopt_guest(&mut self, launch: Launch, identity: Identity) -> Result<bool> {
        let Some(orphan) = Orphan::find(identity)? else {
            return Ok(false);
        };
        let data = self.no_data(launch.geometry()?);
        let spec = GuestSpec {
            sockets: self.no_sockets(&launch),
            ..launch.spec(&self.blank, data, None)
        };
        let (guest, control) = orphan.adopt(self.template, &spec)?;
        let id = launch.id;
        let watch = self.ends.watch(id, &control)?;
        self.ends.suspect(id);
        let cgroup = cgroup::of_guest(id, guest.pid());
        self.keep((guest, control, watch), launch, None, (cgroup, None));
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
        let doorbell = Doorbell::of_a_guest(running.guest.switch_doorbell()?);
        // All of them or none: rings are attached together.
        self.detach_guests(&[&launch]);
        self.attach_guest(&launch, &file, &doorbell)
    }

    fn attach_guest(&mut self, launch: &Launch, file: &OwnedFd, doorbell: &Doorbell) -> Result<()> {
        if launch.ports.is_empty() {
            return Ok(());
        }
        let mut interfaces = Vec::with_capacity(launch.ports.len());
        for port in &launch.ports {
            let replaces = self.waiting_port(&port.name);
            interfaces.push(self.interface_of(port, replaces)?);
        }
        let ports = self.client()?.attach_guest(SwitchGuest {
            region: file.as_fd(),
            doorbell: doorbell.as_fd(),
            shared: doorbell.shared,
            waits: None,
            slots: launch.ring_slots,
            interfaces,
        })?;
        for (port, id) in launch.ports.iter().zip(ports) {
            let (kind, domain) = (PortKind::Guest, port.domain);
            let attached = Port { id, kind, domain };
            self.ports.insert(port.name.clone(), attached);
            self.waiting.remove(&port.name);
        }
        Ok(())
    }

    pub(super) fn detach_guests(&mut self, launches: &[&Launch]) {
        let mut ports = Vec::new();
        for port in launches.iter().flat_map(|launch| &launch.ports) {
            self.forget_flows(&port.name);
            ports.extend(self.ports.remove(&port.name).map(|port| port.id));
        }
        if !ports.is_empty()
            && let Ok(client) = self.client()
        {
            let _ = client.detach(&ports);
        }
    }

    /// Changes the properties with which a guest's port will be reattached.
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
            age: running.start.map(|start| start.elapsed()),
            silent: running.silent,
        })
    }

    /// Which configurations of a guest have stopped while others go on, and which could not be started, as it says: a
    /// bit for each. None if it does not run.
    pub fn configurations(&self, id: u64) -> Option<(u64, u64)> {
        let running = self.guests.get(&id)?;
        Some(running.control.configurations())
    }

    /// Pauses or resumes all of a guest's processors. The kernel does it, so that no guest can
    /// prevent it; the guest's memory and rings keep their content.
    pub fn set_paused(&mut self, id: u64, paused: bool) -> Result<()> {
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        let running = self.running(id)?;
        running.guest.signal(signal)?;
        if paused {
            self.take_back(id);
        } else {
            // Requests that it did not answer while it was paused do not count.
            let running = self.running(id)?;
            running.silent = false;
            running.resumed = Some(Instant::now());
        }
        Ok(())
    }

    /// The time since when a guest could have answered a request of the time `asked`: the time
    /// before it was resumed does not count.
    pub fn awake_since(&self, id: u64, asked: Instant) -> Instant {
        let running = self.guests.get(&id);
        let resumed = running.and_then(|running| running.resumed);
        resumed.map_or(asked, |resumed| asked.max(resumed))
    }

    /// Whether a guest was told to go on just now: the kernel may not have woken all of its process.
    pub fn awakes(&self, id: u64) -> bool {
        let running = self.guests.get(&id);
        let resumed = running.and_then(|running| running.resumed);
        resumed.is_some_and(|resumed| resumed.elapsed() < AWAKES)
    }

    /// Limits a running guest's process.
    pub fn set_limits(&mut self, id: u64, limits: Limits) -> Result<()> {
        if !limits.is_empty() {
            cgroup::check_limits(&limits)?;
        }
        let Some(running) = self.guests.get_mut(&id) else {
            return Ok(());
        };
        match &running.cgroup {
            // It stays in the cgroup: to move it is dear.
            Some(folder) if limits.is_empty() => cgroup::set(folder, &limits)?,
            None if limits.is_empty() => {}
            _ => running.cgroup = Some(self.cgroups.enter(id, running.guest.pid(), &limits)?),
        }
        running.launch.limits = limits;
        Ok(())
    }

    /// Removes the cgroup of a guest that has ended, or did not start.
    pub(super) fn leave_cgroup(&mut self, cgroup: Option<PathBuf>) {
        if let Some(folder) = cgroup {
            self.cgroups.remove(folder);
        }
    }

    /// Removes the parent cgroup of guests after the last one.
    pub fn remove_cgroups(&mut self) {
        self.cgroups.remove_own();
    }

    /// Tries again to remove cgroups that were left of ended guests.
    pub fn clear_cgroups(&mut self) {
        self.cgroups.clear();
    }

    /// Kills a guest's process. Says whether it has one; its end is told as any.
    pub fn kill(&mut self, id: u64) -> bool {
        let running = self.guests.get(&id);
        running.is_some_and(|running| {
            running.guest.kill();
            true
        })
    }

    /// Notes that a guest let a request go without an answer.
    pub fn note_silence(&mut self, id: u64) {
        if let Some(running) = self.guests.get_mut(&id) {
            running.silent = true;
        }
    }

    /// Drops late answers of silent guests: such a guest answers again.
    pub fn hear_silent(&mut self) {
        for running in self.guests.values_mut().filter(|it| it.silent) {
            while let Ok(Some(_)) = running.control.poll() {
                running.silent = false;
            }
        }
    }

    /// Whether to report that a guest has come to run: once for each start.
    pub fn comes_to_run(&mut self, id: u64) -> bool {
        let running = self.guests.get_mut(&id);
        running.is_some_and(|running| !std::mem::replace(&mut running.told, true))
    }

    /// Whether a guest's process has not come to its main loop.
    pub fn is_booting(&self, id: u64) -> bool {
        let running = self.guests.get(&id);
        running.is_some_and(|running| running.control.state() != Some(State::Running))
    }

    /// A guest's exit, if it has ended; nothing of it is left then. If it did not come to run, its
    /// output comes with it.
    pub fn guest_ended(&mut self, id: u64) -> Option<(Exit, Vec<String>)> {
        let running = self.guests.get_mut(&id)?;
        let exit = match running.guest.try_wait(&running.control) {
            Ok(exit) => exit?,
            // Its process is gone, for an unknown reason.
            Err(_) => Exit::Killed(0),
        };
        running.take_console(&mut self.logs, true);
        let never_ran = running.start.is_some() && running.boot.is_none();
        let lines = if never_ran && !matches!(exit, Exit::Halted) {
            self.last_printed(id)
        } else {
            Vec::new()
        };
        let running = self.guests.remove(&id)?;
        self.ends.forget(running.watch);
        self.leave_cgroup(running.cgroup);
        self.detach_guests(&[&running.launch]);
        let domain = running.launch.domain_id;
        self.tell_store([Change::Release { domain }]);
        Some((exit, lines))
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
        let running = self.running(id)?;
        let answer = running.control.poll()?;
        running.silent &= answer.is_none();
        Ok(answer)
    }

    /// Moves guests' output to their logs: of all guests, or of the guests with these numbers.
    pub fn look_at_consoles(&mut self, of: Option<&[u64]>) {
        match of {
            None => {
                for running in self.guests.values_mut() {
                    running.take_console(&mut self.logs, false);
                }
            }
            Some(ids) => {
                for id in ids {
                    if let Some(running) = self.guests.get_mut(id) {
                        running.take_console(&mut self.logs, false);
                    }
                }
            }
        }
    }

    /// Guests' output that was taken from their rings.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The number that the first line of a guest's run has, or a later one; of its last run, if it
    /// does not run.
    pub fn first_line(&self, id: u64) -> u64 {
        let running = self.guests.get(&id);
        running.map_or_else(|| self.logs.last_run(id), |running| running.console.first)
    }

    /// The last lines that a guest printed in its run; in its last run, if it does not run.
    pub fn last_printed(&self, id: u64) -> Vec<String> {
        let first = self.first_line(id);
        let last = self.logs.lines(id).rev();
        let last = last
            .take_while(|line| line.number >= first)
            .take(LAST_LINES);
        let mut last: Vec<_> = last.map(|line| line.text.clone()).collect();
        last.reverse();
        last
    }

    /// Drops a guest's output.
    pub fn forget_log(&mut self, id: u64) {
        self.logs.forget(id);
    }

    /// Notes a guest's new name.
    pub fn rename_guest(&mut self, id: u64, name: &str) {
        if let Some(running) = self.guests.get_mut(&id) {
            running.launch.name = name.into();
            let (domain, name) = (running.launch.domain_id, name.into());
            self.tell_store([Change::Rename { domain, name }]);
        }
        self.logs.rename(id, name);
    }

    fn running(&mut self, id: u64) -> Result<&mut RunningGuest> {
        let missing = || Error::refused("the guest does not run");
        self.guests.get_mut(&id).ok_or_else(missing)
    }
}

impl RunningGuest {
    /// Moves its output to its log; at its end, also an unfinished line.
    pub(super) fn take_console(&mut self, logs: &mut Logs, end: bool) {
        let guest = (self.launch.id, self.launch.name.as_str());
        self.console.take(guest, &mut self.control, logs, end);
    }
}
