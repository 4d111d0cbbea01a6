//! The node's processes and interfaces on the host: the switch, its ports, interfaces, guests.
//!
//! Each part can be recreated after the end of a switch or a node. This module holds the observed
//! state; the store holds the desired state. It keeps one descriptor for each TAP device, and none
//! for a guest; a guest's memory files and doorbell are fetched from its process when a new switch
//! needs them.

mod applications;
mod cgroup;
mod console;
mod control_store;
mod copies;
mod copy;
mod departure;
mod doorbells;
mod ending;
mod ends;
mod entries;
mod flows;
mod guests;
mod interfaces;
mod launch;
mod members;
mod namespace;
pub mod network;
mod nsm_rings;
mod orphans;
mod process;
mod settling;
mod stacks;
mod switch;
mod usage;
mod waiting;
mod wakers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use ::switch::client::SwitchClient;
use ::switch::counters::PortStats;
use ::switch::lane::LaneStats;
use ::switch::lookup::Flow;
use ::switch::process::Options;
use ::switch::properties::{DomainProperties, PortProperties};
use ::switch::protocol::{PortId, PortKind};
use rustix::event::epoll;

use crate::error::{Error, Kind, Result, Subject};
use crate::paths::{SockPaths, StoreSockets};
use applications::Applications;
use control_store::StoreProcess;
use doorbells::Doorbells;
use ending::Ending;
use ends::Ends;
use guests::{PreForked, RunningGuest};
use interfaces::{Held, turn_off_gro};
use stacks::Stacks;
use switch::SwitchProcess;

use cgroup::Cgroups;
pub use cgroup::check_limits;
pub use console::{Line, Logs, Position, first_number};
pub use control_store::{PAUSES, StoreRun};
pub use copy::{CopiedPort, Copy, Stored};
pub use departure::{Departure, Found};
pub use guests::Reserved;
pub use interfaces::{Attached, claim};
pub use launch::{Launch, LaunchPort, Launched, Router};
pub use process::{boot, told_end};
pub use switch::SwitchRun;
pub use usage::{Usage, age};
use waiting::Waiting;
use wakers::Wakers;

/// What ended, or became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The switch's process.
    Switch,
    /// The control store's process.
    ControlStore,
    /// A message of the control store.
    ControlStoreTold,
    /// CoreEngine's process.
    CoreEngine,
    /// Processes of network stack modules.
    Nsms,
    /// Programs of applications that the node runs.
    Applications,
    /// Calls of the switch for guests that do not run.
    Calls,
    /// The process of the guest with this number.
    Guest(u64),
}

/// The switch's number in the set of watched descriptors.
const SWITCH: u64 = 0;
/// The number of guests' ends.
const GUESTS: u64 = 1;
/// The number of the control store in that set.
const CONTROL_STORE: u64 = 2;
/// The number of the control store's messages.
const CONTROL_STORE_TOLD: u64 = 3;
/// The number of the connection to the control store, when there is room in it.
const CONTROL_STORE_ROOM: u64 = 4;
/// The number of CoreEngine in that set.
const CORE_ENGINE: u64 = 5;
/// The number of network stack modules' ends.
const NSMS: u64 = 6;
/// The number of applications' ends.
const APPLICATIONS: u64 = 7;
/// The number of the switch's calls for guests.
const CALLS: u64 = 8;

/// A port of the switch.
#[derive(Clone, Copy, Debug)]
struct Port {
    id: PortId,
    kind: PortKind,
    /// Number of its domain.
    domain: u32,
}

/// What runs.
pub struct Host {
    /// The switch's socket.
    socket: PathBuf,
    options: Options,
    switch: Option<SwitchProcess>,
    store_sockets: StoreSockets,
    control_store: Option<StoreProcess>,
    sock_paths: SockPaths,
    stacks: Stacks,
    applications: Applications,
    /// Number of switches that replaced an ended one.
    restarts: u64,
    /// Ports by their names.
    ports: HashMap<String, Port>,
    /// Flows by their names, and the ports that they are on; those on a domain are on none.
    flows: HashMap<String, Option<String>>,
    /// Entries of flow tables that were made by command, by the ports that they lead to: domain and
    /// flow.
    entries: HashMap<String, BTreeSet<(u32, Flow)>>,
    /// TAP devices by their ports' names: the held descriptors keep them without a switch.
    held: HashMap<String, Held>,
    /// Links on whose interfaces GRO was turned on, until they are detached, and the interfaces'
    /// numbers.
    gro: HashMap<String, u32>,
    /// Links' interfaces, which no other node may attach as long as these are open; with the interfaces' numbers.
    claims: HashMap<String, (u32, OwnedFd)>,
    /// Resources that could not be brought to their desired state, each with the reason.
    faults: BTreeMap<Subject, String>,
    /// Changes to down or up that were not reported yet.
    noted: Vec<(Subject, Option<String>)>,
    guests: HashMap<u64, RunningGuest>,
    ending: Ending,
    ends: Ends,
    cgroups: Cgroups,
    doorbells: Doorbells,
    wakers: Wakers,
    waiting: Waiting,
    /// What guests printed, those included that ended.
    logs: Logs,
    template: &'static vmm::Template,
    /// A control region of no guest, for specifications of which only sizes matter.
    blank: vmm::Control,
    /// A process like the last guest's: the next one is often alike.
    pre_forked: Option<PreForked>,
    /// Readable when something ended.
    events: OwnedFd,
}

impl Host {
    /// Nothing yet. The switch's socket will be `socket`.
    pub fn new(
        socket: PathBuf,
        store_sockets: StoreSockets,
        sock_paths: SockPaths,
        options: Options,
    ) -> Result<Host> {
        let template = vmm::Template::with_zygote(vmm::IMAGE)?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC);
        let events =
            events.map_err(|e| Error::failed(format_args!("cannot wait for processes: {e}")))?;
        let ends = Ends::new()?;
        let host = Host {
            options,
            switch: None,
            store_sockets,
            control_store: None,
            sock_paths,
            stacks: Stacks::default(),
            applications: Applications::default(),
            restarts: 0,
            ports: HashMap::new(),
            flows: HashMap::new(),
            entries: HashMap::new(),
            held: HashMap::new(),
            gro: HashMap::new(),
            claims: HashMap::new(),
            faults: BTreeMap::new(),
            noted: Vec::new(),
            guests: HashMap::new(),
            ending: Ending::default(),
            ends,
            cgroups: Cgroups::new(&socket),
            socket,
            doorbells: Doorbells::default(),
            wakers: Wakers::default(),
            waiting: Waiting::default(),
            logs: Logs::default(),
            // One in a process, for its whole life: pre-forked processes refer to it.
            template: Box::leak(Box::new(template)),
            blank: vmm::Control::new()?,
            pre_forked: None,
            events,
        };
        host.watch(host.ends.as_fd(), GUESTS)?;
        Ok(host)
    }

    /// How the switch is to run.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Readable when something ended: see [`take_events`](Self::take_events).
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// What ended. The switch is told until it is dealt with.
    pub fn take_events(&mut self) -> Vec<Ready> {
        let mut found = Vec::with_capacity(8);
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // Should this fail, there is no news.
        let _ = epoll::wait(
            &self.events,
            rustix::buffer::spare_capacity(&mut found),
            Some(&now),
        );
        if found.iter().any(|it| it.data.u64() == CONTROL_STORE_ROOM) {
            self.tell_pending();
        }
        let mut ready: Vec<_> = found
            .iter()
            .filter_map(|event| match event.data.u64() {
                SWITCH => Some(Ready::Switch),
                CONTROL_STORE => Some(Ready::ControlStore),
                CONTROL_STORE_TOLD => Some(Ready::ControlStoreTold),
                CORE_ENGINE => Some(Ready::CoreEngine),
                NSMS => Some(Ready::Nsms),
                APPLICATIONS => Some(Ready::Applications),
                CALLS => Some(Ready::Calls),
                _ => None,
            })
            .collect();
        ready.extend(self.ended_guests().into_iter().map(Ready::Guest));
        ready
    }

    fn watch(&self, file: BorrowedFd<'_>, number: u64) -> Result<()> {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.events, file, data, epoll::EventFlags::IN)
            .map_err(|error| Error::failed(format_args!("cannot wait for a process: {error}")))
    }

    fn client(&self) -> Result<&SwitchClient> {
        let missing = || {
            let sentence = "the switch is not running: try again in a second";
            Error::new(Kind::Unavailable, sentence)
        };
        Ok(&self.switch.as_ref().ok_or_else(missing)?.client)
    }

    /// Why something that is wanted is not there.
    pub fn fault(&self, subject: &Subject) -> Option<&str> {
        self.faults.get(subject).map(String::as_str)
    }

    /// Resources that are not in their desired state.
    pub fn faulty(&self) -> Vec<Subject> {
        self.faults.keys().cloned().collect()
    }

    /// Forgets that something is wrong.
    pub fn clear_fault(&mut self, subject: &Subject) {
        self.faults.remove(subject);
    }

    /// Names of the ports that there are.
    pub fn port_names(&self) -> Vec<String> {
        self.ports.keys().cloned().collect()
    }

    /// Whether the guest with this number runs.
    pub fn runs(&self, id: u64) -> bool {
        self.guests.contains_key(&id)
    }

    /// Notes whether something that is wanted could be brought about.
    pub fn note<T>(&mut self, subject: Subject, outcome: Result<T>) {
        let (is, was) = match outcome {
            Ok(_) => (None, self.faults.remove(&subject)),
            Err(error) => {
                let reason = error.error;
                let was = self.faults.insert(subject.clone(), reason.clone());
                (Some(reason), was)
            }
        };
        if is.is_some() != was.is_some() {
            self.noted.push((subject, is));
        }
    }

    /// What went down, with its reason, or came up since the last call.
    pub fn take_noted(&mut self) -> Vec<(Subject, Option<String>)> {
        std::mem::take(&mut self.noted)
    }

    /// Whether there is a port of that name.
    pub fn has_port(&self, name: &str) -> bool {
        self.ports.contains_key(name)
    }

    /// A port's counters; all 0 if it is not attached.
    pub fn stats(&self, name: &str) -> PortStats {
        let port = self.ports.get(name).map(|port| port.id);
        match (port, self.client()) {
            (Some(port), Ok(client)) => {
                // Should the switch not answer, the counters are a little older.
                let _ = client.catch_up(port);
                client.stats(port)
            }
            _ => PortStats::default(),
        }
    }

    /// Whether a frontend is connected to a port.
    pub fn has_frontend(&self, name: &str) -> bool {
        let port = self.ports.get(name).map(|port| port.id);
        let client = self.client().ok();
        port.zip(client)
            .is_some_and(|(port, client)| client.stats(port).has_frontend())
    }

    /// A port's counters by lane; none if it is not attached.
    pub fn stats_by_lane(&self, name: &str) -> Result<Vec<PortStats>> {
        let client = self.client()?;
        let Some(port) = self.ports.get(name) else {
            return Ok(Vec::new());
        };
        client.catch_up(port.id)?;
        Ok(client.stats_by_lane(port.id))
    }

    /// Lanes of the switch.
    pub fn lane_count(&self) -> Result<usize> {
        Ok(self.client()?.lanes())
    }

    /// Gives a port other properties, if it is attached.
    pub fn set_properties(&self, name: &str, properties: &PortProperties) -> Result<()> {
        match self.ports.get(name) {
            Some(port) => Ok(self.client()?.set_properties(port.id, properties.clone())?),
            None => Ok(()),
        }
    }

    /// Gives a domain other properties.
    pub fn set_domain(&self, domain: u32, properties: &DomainProperties) -> Result<()> {
        Ok(self.client()?.set_domain(domain, properties.clone())?)
    }

    /// The addresses that a domain knows: address, VLAN, port's name, seconds since it was seen.
    pub fn table(&self, domain: u32) -> Result<Vec<crate::model::Address>> {
        let client = self.client()?;
        let names = self.names();
        let entries = client.table(domain)?;
        let address = |entry: ::switch::protocol::AddressEntry| crate::model::Address {
            mac: entry.mac,
            vlan: entry.vlan,
            port: names.get(&entry.port).copied().unwrap_or("").to_string(),
            age: entry.age,
        };
        Ok(entries.into_iter().map(address).collect())
    }

    /// Ports' names.
    fn names(&self) -> HashMap<PortId, &str> {
        let ports = self.ports.iter();
        ports.map(|(name, port)| (port.id, name.as_str())).collect()
    }

    /// Forgets the learned entries of a domain.
    pub fn flush(&self, domain: u32) -> Result<()> {
        Ok(self.client()?.flush(domain)?)
    }

    /// Detaches a port and releases its interface. A missing port counts as detached.
    pub fn detach(&mut self, name: &str) {
        self.held.remove(name);
        self.claims.remove(name);
        let named = [Subject::Link, Subject::Vnic, Subject::Patch];
        for subject in named {
            self.faults.remove(&subject(name.into()));
        }
        self.detach_port(name);
        self.put_back(name);
    }

    /// Restores an interface to its state before it was attached; its port stays.
    pub fn put_back(&mut self, name: &str) {
        if let Some(index) = self.gro.remove(name) {
            turn_off_gro(index);
        }
    }

    /// Detaches a port; a held interface stays.
    fn detach_port(&mut self, name: &str) {
        self.forget_flows(name);
        self.forget_entries(name);
        self.waiting.remove(name);
        if let Some(port) = self.ports.remove(name)
            && let Ok(client) = self.client()
        {
            let _ = client.detach(&[port.id]);
        }
    }

    /// The kind of the switch's port of that name, if there is one.
    pub fn port_kind(&self, name: &str) -> Option<PortKind> {
        self.ports.get(name).map(|port| port.kind)
    }

    /// The counters of the switch's lanes.
    pub fn lanes(&self) -> Result<Vec<LaneStats>> {
        Ok(self.client()?.lane_stats()?)
    }

    /// Ports whose interface is gone, or whose guest broke the ring's rules too often.
    pub fn closed_ports(&self) -> Result<Vec<String>> {
        Ok(self.client()?.closed_ports()?)
    }
}

/// Longest that the switch may take to answer. It answers in microseconds, but on a host with many times more work
/// than processors its control thread may wait for seconds, and a switch that is replaced for that loses its frames.
const TIMEOUT: Duration = Duration::from_secs(5);
