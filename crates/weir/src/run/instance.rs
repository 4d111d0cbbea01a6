//! One guest with its switch, run by this process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use abi::control::State;
use abi::message::kind;
use abi::region::{Geometry, Interface, Region};
use click::text::{decode, encode};
use netkernel::protocol::Token;
use node::check::told;
use node::host::claim;
use node::model::Admission;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use switch::client::Guest as SwitchGuest;
use switch::counters::PortStats;
use switch::lane::LaneStats;
use switch::links::Gro;
use switch::memory::SharedRegion;
use switch::netlink::Netlink;
use switch::port::PortKind;
use switch::process::{Options, Switch};
use switch::properties::{PortProperties, Settle};
use switch::protocol::{GuestInterface, PortId};
use switch::settled::Programs;
use vmm::{
    Control, DataFile, Exit, Guest, GuestSpec, IMAGE, Shape, SocketFiles, Template, Wall, printable,
};

use super::links;
use super::plan::{InstanceError, Plan, START};
use crate::nouns::client;

/// How long a guest may take to end when it is asked to.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long the guest may take over a request: thousands of routes or rules take a second on a busy machine.
/// Clients wait a little longer.
const ANSWER: Duration = Duration::from_secs(4);
/// Longest line of a guest's that is printed as one, in bytes.
const LINE_MAX: usize = 8192;
/// The two ends of one link, as the switch numbers them.
struct Ports {
    interface: String,
    guest: PortId,
    host: PortId,
}

/// What [`Instance::wait`] saw. One of the caller's own descriptors may be ready besides.
#[derive(Debug)]
pub enum Event {
    /// The guest ended.
    GuestEnded(Exit),
    /// The switch ended.
    SwitchEnded,
    /// Nothing of these.
    Other,
}

/// A guest that runs. Dropping it ends the guest, its switch and its links.
pub struct Instance {
    guest: Guest,
    control: Control,
    doorbell: OwnedFd,
    switch: Switch,
    /// What passes settled flows on.
    settles: bool,
    /// Of interfaces that are attached.
    _gro: Vec<Gro>,
    _claims: Vec<OwnedFd>,
    ports: Vec<Ports>,
    boot: Duration,
    console: Vec<u8>,
    /// The guest's configuration.
    config: String,
}

impl Instance {
    /// Starts the switch, opens the links, and boots the guest. This process has one thread.
    pub fn start(plan: &Plan) -> Result<Instance, InstanceError> {
        let geometry = Geometry::new(plan.ring_slots, plan.links.len())?;
        let template = Template::new(IMAGE)?;
        let event = |what| {
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|error| InstanceError::System(what, error))
        };
        let switch_doorbell = event("make a doorbell for the switch")?;
        let doorbell = event("make a doorbell for the guest")?;
        // Pre-forked before the links are opened.
        let mut prepared = template.prepare(&Shape {
            isolation: plan.isolation,
            cpus: plan.cpus,
            memory: plan.memory,
            data: geometry.bytes(),
            sockets: plan.nsm.is_some(),
            switch_doorbell: Some(switch_doorbell.as_fd()),
            control_doorbell: Some(doorbell.as_fd()),
        })?;
        let switch = Switch::spawn_with(&Options {
            lanes: plan.lanes,
            cpus: Vec::new(),
        })?;
        let settles = plan.settle == Settle::On;
        let programs = settles.then(Programs::load).transpose()?;
        if let Some(programs) = &programs {
            switch.client().begin_settling(programs)?;
        }
        let mut hosts = Vec::new();
        let mut interfaces = Vec::new();
        let mut gro = Vec::new();
        let mut claims = Vec::new();
        for (domain, link) in (0..).zip(&plan.links) {
            if plan.links[..domain as usize]
                .iter()
                .any(|other| other.interface == link.interface)
            {
                return Err(InstanceError::TwoLinks(link.interface.clone()));
            }
            let attached = link.attached();
            claims.extend(attached.map(claim).transpose()?.flatten());
            let mut host = link.open(plan.lanes)?;
            gro.extend(host.take_gro());
            let mac = links::address(&plan.name, &link.interface);
            interfaces.extend(Interface::new(&link.interface, mac, host.mtu()));
            let properties = PortProperties {
                // One lane shares with no other.
                lanes: u16::try_from(plan.lanes).ok().filter(|&lanes| lanes > 1),
                ..PortProperties::default()
            };
            let (mtu, kind) = (host.mtu(), host.kind());
            let port = switch.client().attach_link(host, domain, properties)?;
            if let (Some(programs), PortKind::Packet, Some(name)) =
                (&programs, kind, link.host.interface())
            {
                let found = Netlink::new().and_then(|mut netlink| netlink.interface(name));
                let interface =
                    found.map_err(|error| InstanceError::Interface(name.into(), error))?;
                let passage = (interface.index, mtu);
                switch.client().add_passage(port, programs, passage)?;
            }
            hosts.push((mtu, port));
        }
        let (region, file) = SharedRegion::create(geometry, &interfaces)?;
        drop(region);
        let guests = switch.client().attach_guest(SwitchGuest {
            region: file.as_fd(),
            doorbell: switch_doorbell.as_fd(),
            shared: None,
            waits: None,
            slots: plan.ring_slots,
            interfaces: (0..)
                .zip(plan.links.iter().zip(&hosts))
                .map(|(domain, (link, (mtu, _)))| GuestInterface {
                    name: format!("{}.{}", plan.name, link.interface),
                    domain,
                    mtu: *mtu,
                    mac: None,
                    properties: PortProperties {
                        settle: plan.settle,
                        ..PortProperties::default()
                    },
                    replaces: None,
                    behind: None,
                })
                .collect(),
        })?;
        let ports = plan.links.iter().zip(guests).zip(hosts);
        let ports = ports.map(|((link, guest), (_, host))| Ports {
            interface: link.interface.clone(),
            guest,
            host,
        });
        let sockets = match &plan.nsm {
            None => None,
            Some(nsm) => Some(admit(&plan.name, nsm, prepared.identity()?.pid)?),
        };
        let control = Control::new()?;
        control.set_sleeps(true);
        let spec = GuestSpec {
            isolation: plan.isolation,
            memory: plan.memory,
            config: &plan.config,
            data: Some(DataFile {
                file: file.as_fd(),
                length: geometry.bytes(),
                wake_offset: Region::WAKE_OFFSET,
            }),
            sockets: sockets.as_ref().map(|it| SocketFiles {
                queues: it.queues.as_fd(),
                payload: it.payload.as_fd(),
                doorbell: it.doorbell.as_fd(),
                connection: it.connection.as_fd(),
            }),
            switch_doorbell: Some(switch_doorbell.as_fd()),
            control_doorbell: Some(doorbell.as_fd()),
            cpus: plan.cpus,
            pins: &plan.pins,
            ..GuestSpec::new(&plan.name, 1, &control)
        };
        let start = Instant::now();
        let guest = prepared.start(&spec)?;
        let mut instance = Instance {
            guest,
            control,
            doorbell,
            switch,
            settles,
            _gro: gro,
            _claims: claims,
            ports: ports.collect(),
            boot: Duration::ZERO,
            console: Vec::new(),
            config: decode(&plan.config).into_owned(),
        };
        instance.await_running(start)?;
        Ok(instance)
    }

    fn await_running(&mut self, start: Instant) -> Result<(), InstanceError> {
        while self.control.state() != Some(State::Running) {
            if let Some(exit) = self.guest.try_wait(&self.control)? {
                if matches!(exit, Exit::Halted) {
                    // It ran, and ended before the first look.
                    break;
                }
                let mut lines = Vec::new();
                self.read_rest(&mut lines)?;
                let console = lines.iter().map(|line| format!("\n  {line}")).collect();
                let how = told(&exit, &encode(&self.config));
                return Err(InstanceError::Ended { how, console });
            }
            let Some(left) = START.checked_sub(start.elapsed()) else {
                return Err(InstanceError::Silent);
            };
            let mut ready = [
                PollFd::new(&self.doorbell, PollFlags::IN),
                PollFd::from_borrowed_fd(self.guest.pidfd(), PollFlags::IN),
            ];
            wait(&mut ready, Some(left))?;
            self.silence();
        }
        self.boot = start.elapsed();
        Ok(())
    }

    /// Clears the doorbell's count, so that it can ring again.
    fn silence(&self) {
        let _ = rustix::io::read(&self.doorbell, &mut [0; 8]);
    }

    /// Time from the guest's start in a pre-forked process to its main loop.
    pub fn boot(&self) -> Duration {
        self.boot
    }

    /// Which wall the guest is behind.
    pub fn wall(&self) -> Wall {
        self.guest.wall()
    }

    /// The guest's process.
    pub fn pid(&self) -> u32 {
        self.guest.pid()
    }

    /// The switch's process.
    pub fn switch_pid(&self) -> u32 {
        self.switch.pid().as_raw_nonzero().get() as u32
    }

    /// Memory of the guest's own, in KiB: rings and buffers included, the image, which all guests
    /// share, not.
    pub fn memory_kib(&self) -> Option<u64> {
        own_memory(&Path::new("/proc").join(self.pid().to_string()))
    }

    /// Each interface with its counters at the switch: the guest's port, and the host link's.
    pub fn counters(&self) -> impl Iterator<Item = (&str, PortStats, PortStats)> {
        let client = self.switch.client();
        let stats = |ports: &Ports| (client.stats(ports.guest), client.stats(ports.host));
        self.ports.iter().map(move |ports| {
            let (guest, host) = stats(ports);
            (ports.interface.as_str(), guest, host)
        })
    }

    /// What each lane of the switch did; nothing, if it does not answer any more.
    pub fn lanes(&self) -> Vec<LaneStats> {
        self.switch.client().lane_stats().unwrap_or_default()
    }

    /// Asks the guest; its answer's contents.
    pub fn request(&mut self, kind: u32, contents: &str) -> Result<vmm::Answer, InstanceError> {
        let pidfd = self.guest.pidfd();
        let alive = || {
            let mut ended = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
            // Should it not be known, the time limit ends the wait.
            wait(&mut ended, Some(Duration::ZERO)).is_err() || ended[0].revents().is_empty()
        };
        let swaps = kind == abi::message::kind::WRITE;
        let config = contents.strip_prefix("hotconfig ").filter(|_| swaps);
        // Another configuration has the settings that the first one had.
        let config = config.map(|config| {
            let line = click::settings::line(self.config.as_bytes()).len();
            self.config[..line].to_string() + config
        });
        let contents = match &config {
            Some(config) => format!("hotconfig {config}"),
            None => contents.into(),
        };
        let answer = self
            .control
            .call_while(kind, encode(&contents), ANSWER, alive)?;
        if let Some(config) = config.filter(|_| answer.ok()) {
            self.config = config;
        }
        if swaps && self.settles {
            let ports = self.ports.iter().map(|ports| ports.guest);
            self.switch.client().take_back(ports.collect())?;
        }
        Ok(answer)
    }

    /// The configuration that the guest runs: the one it was booted with, or the last that took
    /// its place.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// Reads a handler, `element.handler` with arguments if it takes any.
    pub fn read(&mut self, handler: &str) -> Result<String, InstanceError> {
        let answer = self.request(kind::READ, handler)?;
        let text = decode(&answer.contents).into_owned();
        if answer.ok() {
            Ok(text)
        } else {
            Err(InstanceError::Refused(text))
        }
    }

    /// Writes a handler.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<(), InstanceError> {
        let answer = self.request(kind::WRITE, &format!("{handler} {value}"))?;
        match answer.ok() {
            true => Ok(()),
            false => Err(InstanceError::Refused(
                decode(&answer.contents).into_owned(),
            )),
        }
    }

    /// Waits for something to happen: to the guest, the switch, or the caller's own descriptors.
    /// Whole lines that the guest printed meanwhile are added to `printed`; while there are some,
    /// this does not wait.
    pub fn wait(
        &mut self,
        own: &[BorrowedFd<'_>],
        printed: &mut Vec<String>,
    ) -> Result<Event, InstanceError> {
        self.read_lines(printed)?;
        let mut ready = vec![
            PollFd::new(&self.doorbell, PollFlags::IN),
            PollFd::from_borrowed_fd(self.guest.pidfd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.switch.ended(), PollFlags::IN),
        ];
        ready.extend(
            own.iter()
                .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)),
        );
        wait(&mut ready, (!printed.is_empty()).then_some(Duration::ZERO))?;
        let switch_ended = ready[2].revents().contains(PollFlags::IN);
        self.silence();
        if let Some(exit) = self.guest.try_wait(&self.control)? {
            self.read_rest(printed)?;
            return Ok(Event::GuestEnded(exit));
        }
        Ok(match switch_ended {
            true => Event::SwitchEnded,
            false => Event::Other,
        })
    }

    /// Adds the whole lines that the guest printed since the last call. A line that goes on and on
    /// is cut at [`LINE_MAX`].
    fn read_lines(&mut self, lines: &mut Vec<String>) -> Result<(), InstanceError> {
        let old = self.console.len();
        self.control.read_console(&mut self.console)?;
        let newline = self.console[old..].iter().rposition(|byte| *byte == b'\n');
        let end = match newline {
            Some(at) => old + at + 1,
            None if self.console.len() > LINE_MAX => self.console.len(),
            None => return Ok(()),
        };
        let whole: Vec<u8> = self.console.drain(..end).collect();
        lines.extend(decode(&whole).lines().map(printable));
        Ok(())
    }

    /// Adds all that the guest printed, its last line included if that has no end.
    fn read_rest(&mut self, lines: &mut Vec<String>) -> Result<(), InstanceError> {
        self.read_lines(lines)?;
        if !self.console.is_empty() {
            let rest = std::mem::take(&mut self.console);
            lines.extend(decode(&rest).lines().map(printable));
        }
        Ok(())
    }

    /// Asks the guest to end, and kills it if it has not after a second. Its last output is added
    /// to `printed`.
    pub fn stop(&mut self, printed: &mut Vec<String>) -> Result<Exit, InstanceError> {
        let _ = self.control.request(kind::STOP, "");
        let mut exit = self.guest.wait(&self.control, Some(TIMEOUT))?;
        if exit.is_none() {
            self.guest.kill();
            exit = self.guest.wait(&self.control, Some(TIMEOUT))?;
        }
        self.read_rest(printed)?;
        Ok(exit.unwrap_or(Exit::Killed(9)))
    }

    /// Bytes that the guest could not print because its console was not read.
    pub fn console_lost(&self) -> u64 {
        self.control.console_lost()
    }
}

/// Has the node take the guest, which is to run in this process, for an application of its name.
fn admit(name: &str, nsm: &str, pid: u32) -> Result<netkernel::guest::Guest, InstanceError> {
    let admitted = client().admit(&Admission {
        name: name.into(),
        nsm: nsm.into(),
        pid,
        ..Admission::default()
    })?;
    let (door, token) = admitted.sock.rsplit_once(':').unwrap_or_default();
    let token = Token::try_from(token.to_string()).map_err(io::Error::other);
    let joined = token.and_then(|token| netkernel::guest::Guest::join(Path::new(door), token));
    joined.map_err(InstanceError::Sockets)
}

fn wait(ready: &mut [PollFd<'_>], limit: Option<Duration>) -> Result<(), InstanceError> {
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    });
    match poll(ready, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(InstanceError::System("wait", error)),
    }
}

/// The memory of a guest's process alone, in KiB: its private memory, and its rings and buffers,
/// which it shares with the switch. The image's pages are every guest's.
fn own_memory(process: &Path) -> Option<u64> {
    let maps = std::fs::read_to_string(process.join("smaps")).ok()?;
    let (mut total, mut image, mut data) = (0, false, false);
    for line in maps.lines() {
        let (field, value) = line.split_once(char::is_whitespace)?;
        if !field.ends_with(':') {
            let readable_only = value.trim_start().starts_with("r-");
            image = line.contains("/memfd:weir-image") && readable_only;
            data = line.contains("/memfd:weir-data");
        }
        let counts = match data {
            true => field == "Rss:",
            false => field.starts_with("Private_") && !image,
        };
        if counts {
            total += value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
        }
    }
    Some(total)
}
