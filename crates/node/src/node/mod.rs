//! The node: what is wanted of this host, and what runs on it, brought together.
//!
//! Everything here happens at once, on one thread: an operation either is done and kept, or left
//! nothing. Waiting is the service's.

mod asking;
mod creation;
mod entries;
mod flows;
mod guests;
mod index;
mod links;
pub mod resource;
mod restart;
mod vnics;
mod wires;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use switch::process::Options;

use crate::error::{Error, Fault, Kind, Result, Subject};
use crate::host::{Attached, Event, Host, SwitchRun};
use crate::log;
use crate::model::{
    Class, EntryRecord, FlowRecord, Guest, GuestRecord, LaneStats, Leaving, LinkRecord, NodeStatus,
    Place, PortStats, Run, Scrape, VnicRecord,
};
use crate::places::Places;
use crate::store::{self, Store};
use index::Index;
use resource::Resource;
use restart::Restarts;

pub use asking::Asked;

/// One host.
pub struct Node {
    places: Places,
    store: Store,
    host: Host,
    index: Index,
    restarts: Restarts,
    /// How guests ended, by their numbers, as long as it cannot be kept.
    unkept: HashMap<u64, Run>,
    /// Requests to guests, and their answers as far as they came.
    asked: HashMap<Asked, Option<vmm::Answer>>,
    /// Wires that are being changed.
    changing: BTreeSet<String>,
    /// Calls of [`tick`](Node::tick) so far.
    ticks: u64,
    /// Whether everything was removed, so that the node is to end.
    over: bool,
}

/// How long a node waits for its folders: a child that a killed node had just forked may hold them.
pub(crate) const LOCK: Duration = Duration::from_secs(1);
/// Every how many ticks ports are looked at whose interface or namespace may be gone.
const LOOK_TICKS: u64 = 5;

impl Node {
    /// Opens the node's state, takes over what runs of it, and brings about what does not. This
    /// process has one thread. Without `options`, the switch runs as the last one did; one that runs
    /// otherwise is replaced.
    pub fn open(places: Places, options: Option<Options>) -> Result<Node> {
        if let Some(options) = &options {
            options.check().map_err(Error::invalid)?;
            creation::check_cpus(&options.cpus)?;
        }
        let store = Store::open(&places.state, LOCK)?;
        std::fs::create_dir_all(&places.run).map_err(|error| {
            Error::failed(format_args!(
                "{}: {error}: set WEIR_RUN to a folder that you may write",
                places.run.display()
            ))
        })?;
        let last = store.get::<SwitchRun>(SwitchRun::NAME)?;
        let options = options.or(last.map(|run| run.options));
        let host = Host::new(places.switch(), options.unwrap_or_default())?;
        let index = Index::load(&store)?;
        let mut node = Node {
            places,
            store,
            host,
            index,
            restarts: Restarts::default(),
            unkept: HashMap::new(),
            asked: HashMap::new(),
            changing: BTreeSet::new(),
            ticks: 0,
            over: false,
        };
        node.take_over()?;
        Ok(node)
    }

    fn take_over(&mut self) -> Result<()> {
        let switch = self.store.get::<SwitchRun>(SwitchRun::NAME)?;
        let adopted = match switch {
            Some(run) if self.host.adopt_switch(&run)? => {
                let stays = run.options == *self.host.options();
                if !stays {
                    self.host.end_switch();
                }
                stays
            }
            _ => false,
        };
        if !adopted {
            self.start_switch()?;
        }
        self.end_leaving()?;
        self.adopt_guests()?;
        self.detach_leftovers()?;
        if adopted {
            self.adopt_tables()?;
        }
        self.reconcile()
    }

    fn start_switch(&mut self) -> Result<()> {
        let mut kept = Ok(());
        let started = self.host.start_switch(|run| kept = self.store.put(run));
        self.tell_unkept(kept);
        started
    }

    /// Tells, once, that it cannot be kept what runs. It is tried again each second.
    fn tell_unkept(&mut self, kept: store::Result<()>) {
        let Err(error) = kept else { return };
        if self.host.fault(&Subject::State).is_none() {
            tracing::error!(
                "{error}: the switch and guests that are started now go on, but are not kept, and the next node starts them anew; to keep the switch is tried each second"
            );
        }
        self.host.note::<()>(Subject::State, Err(error.into()));
    }

    /// Keeps by what the switch is found again.
    fn keep_switch(&self) -> Result<()> {
        let run = self.host.switch_run();
        Ok(run.map_or(Ok(()), |run| self.store.put(run))?)
    }

    /// Detaches ports that nobody wants: of an operation that a node did not live to finish.
    fn detach_leftovers(&mut self) -> Result<()> {
        for name in self.host.port_names() {
            let wanted = match self.store.get::<VnicRecord>(&name)? {
                Some(vnic) => vnic.place() != Place::Guest || self.runs_with(&name)?,
                None => self.store.get::<LinkRecord>(&name)?.is_some() || self.is_patch(&name)?,
            };
            if !wanted {
                self.host.detach(&name);
            }
        }
        self.remove_leftover_flows()
    }

    fn remove_leftover_flows(&mut self) -> Result<()> {
        for name in self.host.flow_names() {
            if self.store.get::<FlowRecord>(&name)?.is_none() {
                self.host.remove_flow(&name);
            }
        }
        Ok(())
    }

    /// Whether a guest runs that has this VNIC.
    fn runs_with(&self, vnic: &str) -> Result<bool> {
        let guest = self.index.guest_of(vnic);
        let guest = guest
            .map(|name| self.store.get::<GuestRecord>(name))
            .transpose()?;
        Ok(guest
            .flatten()
            .is_some_and(|guest| self.host.runs(guest.id)))
    }

    /// Brings about what is wanted and is not there. What cannot be is noted with its reason and
    /// tried again later; the rest goes on.
    pub fn reconcile(&mut self) -> Result<()> {
        self.bring_namespaces()?;
        for link in self.store.all::<LinkRecord>()? {
            self.bring_link(&link);
        }
        self.bring_patches()?;
        for vnic in self.store.all::<VnicRecord>()? {
            self.bring_vnic(&vnic)?;
        }
        for guest in self.store.all::<GuestRecord>()? {
            self.bring_guest(&guest);
        }
        Ok(())
    }

    fn bring_link(&mut self, link: &LinkRecord) {
        let set = self.host.set_domain(link.domain, &link.properties);
        let attached = set.and_then(|()| self.host.attach_uplink(link));
        let kept = attached.and_then(|Attached { gro, index, .. }| {
            if (gro, index) == (link.gro, link.index) {
                return Ok(());
            }
            // An interface that is another than before, of the same name.
            Ok(self.store.put(&LinkRecord {
                gro,
                index,
                ..link.clone()
            })?)
        });
        self.host.note(Subject::Link(link.name.clone()), kept);
        self.bring_flows(&link.name);
    }

    fn bring_vnic(&mut self, vnic: &VnicRecord) -> Result<()> {
        if vnic.place() != Place::Guest
            && let Some(link) = self.store.get::<LinkRecord>(&vnic.link)?
        {
            if self.host.has_lost(vnic) {
                self.host.detach(&vnic.name);
            }
            let was_there = self.host.holds(&vnic.name);
            let mtu = vnics::mtu_max(vnic, &link);
            let mut attached = self.host.attach_vnic(vnic, link.domain, mtu);
            if let (Ok(()), false, Place::Namespace(namespace)) =
                (&attached, was_there, vnic.place())
            {
                attached = self.bring_routes(namespace);
            }
            self.host.note(Subject::Vnic(vnic.name.clone()), attached);
            self.bring_flows(&vnic.name);
        }
        Ok(())
    }

    fn bring_guest(&mut self, guest: &GuestRecord) {
        let brought = match self.keep_unkept(guest) {
            Err(error) => Err(error),
            Ok(true) => Ok(()),
            Ok(false) => match &guest.run {
                Run::Ended { .. } => return,
                // Be it that its start could not be kept.
                _ if self.host.runs(guest.id) => self.host.reattach_guest(guest.id),
                // It is started anew when its time comes.
                _ if self.restarts.is_waiting(guest.id) => return,
                Run::Wanted | Run::Started { .. } => self.start_again(guest),
            },
        };
        self.host.note(Subject::Guest(guest.name.clone()), brought);
        for port in &guest.ports {
            self.bring_flows(&port.vnic);
        }
    }

    /// Looks after what is down, and after guests whose time to be started anew has come. Called
    /// about once a second, and when [`next_restart`](Self::next_restart) says.
    pub fn tick(&mut self) {
        self.ticks += 1;
        if self.host.has_silent_switch() {
            return self.give_switch_up();
        }
        if self.ticks.is_multiple_of(LOOK_TICKS) {
            self.drop_closed_ports();
            // A state that cannot be read now can be later.
            let _ = self.leave_lost_namespaces();
        }
        for subject in self.host.faulty() {
            // A state that cannot be read now can be later.
            let _ = self.heal(subject);
        }
    }

    /// Tries again to bring about what is down.
    fn heal(&mut self, subject: Subject) -> Result<()> {
        match &subject {
            Subject::Switch => {
                let started = self.need_switch();
                self.host.note(subject, started);
            }
            Subject::State => {
                let kept = self.keep_switch();
                self.host.note(subject, kept);
            }
            Subject::Flow(name) => {
                let brought = self.bring_flow(name);
                self.host.note(subject, brought);
            }
            Subject::Entries(port) => self.bring_entries(port),
            Subject::Guest(name) => {
                if let Some(guest) = self.store.get::<GuestRecord>(name)? {
                    self.bring_guest(&guest);
                }
            }
            Subject::Namespace(_) => self.bring_namespaces()?,
            Subject::Patch(_) => self.bring_patches()?,
            Subject::Link(name) => {
                if let Some(link) = self.store.get::<LinkRecord>(name)? {
                    self.bring_link(&link);
                }
            }
            Subject::Vnic(name) => {
                if let Some(vnic) = self.store.get::<VnicRecord>(name)? {
                    self.bring_vnic(&vnic)?;
                }
            }
        }
        Ok(())
    }

    /// Kills a switch that does not answer: its end is dealt with as any other.
    fn give_switch_up(&self) {
        tracing::error!("the switch does not answer: it is killed");
        self.host.kill_switch();
    }

    /// Lets go of ports whose interface is gone; they are attached anew when it is back. A guest's
    /// port that is closed stays so: it broke the rules.
    fn drop_closed_ports(&mut self) {
        if self.host.switch_pid().is_none() {
            return;
        }
        let Ok(closed) = self.host.closed_ports() else {
            return self.give_switch_up();
        };
        for name in closed {
            if self.index.guest_of(&name).is_none() {
                self.host.detach(&name);
                let gone = Err(Error::new(Kind::Unavailable, "its interface is gone"));
                self.host.note::<()>(self.subject_of_port(&name), gone);
            }
        }
    }

    /// Lets go of interfaces whose namespace is gone, so that it can end, and makes them anew if
    /// there is another of its name. While a wire changes, its namespaces come and go.
    fn leave_lost_namespaces(&mut self) -> Result<()> {
        if !self.changing.is_empty() {
            return Ok(());
        }
        let mut lost = Vec::new();
        for name in self.host.held() {
            let vnic = self.store.get::<VnicRecord>(name)?;
            lost.extend(vnic.filter(|vnic| self.host.has_lost(vnic)));
        }
        if !lost.is_empty() {
            self.bring_namespaces()?;
        }
        lost.iter().try_for_each(|vnic| self.bring_vnic(vnic))
    }

    /// Readable when a process ended.
    pub fn events(&self) -> std::os::fd::BorrowedFd<'_> {
        self.host.events()
    }

    /// Deals with processes that ended. Says whether there were any.
    pub fn take_events(&mut self) -> bool {
        let events = self.host.take_events();
        for event in &events {
            match event {
                Event::Switch => self.replace_switch(),
                Event::Guest(id) => self.guest_ended(*id),
            }
        }
        !events.is_empty()
    }

    /// Starts a switch in the place of one that ended, and attaches all to it that was attached.
    fn replace_switch(&mut self) {
        let Some(how) = self.host.switch_ended() else {
            return;
        };
        let started = self.start_switch();
        match (&started, self.host.switch_pid()) {
            (Ok(()), Some(pid)) => {
                let remedy = format_args!("process {pid} takes its place");
                log::ended(&"the switch", &how, remedy);
            }
            (Err(error), _) => {
                let remedy = format_args!("there is no other, which is tried each second: {error}");
                log::ended(&"the switch", &how, remedy);
            }
            (Ok(()), None) => {}
        }
        let replaced = started.and_then(|()| self.reconcile());
        self.host.note(Subject::Switch, replaced);
    }

    /// Starts a switch if there is none.
    fn need_switch(&mut self) -> Result<()> {
        match self.host.switch_pid() {
            Some(_) => Ok(()),
            None => self.start_switch().and_then(|()| self.reconcile()),
        }
    }

    /// When the next guest is to be started anew.
    pub fn next_restart(&self) -> Option<Instant> {
        self.restarts.next()
    }

    /// Whether there is something that can be done ahead.
    pub fn wants_idle(&self) -> bool {
        self.host.wants_pre_forked()
    }

    /// Does what can be done ahead, while nothing else is to do.
    pub fn idle(&mut self) {
        self.host.pre_fork();
    }

    /// What the node tells of itself.
    pub fn status(&self) -> Result<NodeStatus> {
        Ok(NodeStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            switch_pid: self.host.switch_pid(),
            switch_restarts: self.host.switch_restarts(),
            links: self.store.count::<LinkRecord>()?,
            vnics: self.store.count::<VnicRecord>()?,
            flows: self.store.count::<FlowRecord>()?,
            guests: self.store.count::<GuestRecord>()?,
        })
    }

    /// Counters of all interfaces of links, VNICs and ends of patches.
    pub fn all_stats(&self) -> Result<Vec<PortStats>> {
        let mut all = Vec::new();
        for link in self.store.all::<LinkRecord>()? {
            if link.class == Class::Nic {
                all.push(self.stats_of(&link.name, &link.name, true));
            }
        }
        for vnic in self.store.all::<VnicRecord>()? {
            all.push(self.stats_of(&vnic.name, &vnic.link, false));
        }
        for (end, link) in self.patch_ends()? {
            all.push(self.stats_of(&end, &link, false));
        }
        Ok(all)
    }

    /// Counters of a link's interface, a VNIC or an end of a patch. Nothing else is looked at.
    pub fn stats(&self, name: &str) -> Result<PortStats> {
        let (link, outside) = self.port(name)?;
        Ok(self.stats_of(name, &link, outside))
    }

    fn stats_of(&self, name: &str, link: &str, outside: bool) -> PortStats {
        PortStats::new(name, link, &self.host.stats(name), outside)
    }

    /// The link of a port, and whether the port is its interface.
    fn port(&self, name: &str) -> Result<(String, bool)> {
        if let Some(link) = self.store.get::<LinkRecord>(name)? {
            return match link.class {
                Class::Nic => Ok((link.name, true)),
                Class::Stub => Err(self.no_port(name)),
            };
        }
        if let Some(vnic) = self.store.get::<VnicRecord>(name)? {
            return Ok((vnic.spec.link, false));
        }
        match self.patch_end(name)? {
            Some(link) => Ok((link, false)),
            None => Err(self.no_port(name)),
        }
    }

    /// As what a port that is down is noted.
    fn subject_of_port(&self, name: &str) -> Subject {
        let is_vnic = matches!(self.store.get::<VnicRecord>(name), Ok(Some(_)));
        let is_link = || matches!(self.store.get::<LinkRecord>(name), Ok(Some(_)));
        let name = name.to_string();
        if is_vnic {
            Subject::Vnic(name)
        } else if is_link() {
            Subject::Link(name)
        } else {
            Subject::Patch(name)
        }
    }

    /// Counters of a link's interface or a VNIC, of each lane apart; none while it is down.
    pub fn stats_by_lane(&self, name: &str) -> Result<Vec<PortStats>> {
        let (link, outside) = self.port(name)?;
        let lanes = self.host.stats_by_lane(name)?;
        let stats = lanes.iter().zip(0..).map(|(stats, lane)| PortStats {
            lane: Some(lane),
            ..PortStats::new(name, &link, stats, outside)
        });
        Ok(stats.collect())
    }

    /// All counters.
    pub fn scrape(&mut self) -> Result<Scrape> {
        // Without a switch there are none of it.
        let lanes = self.lanes().unwrap_or_default();
        let ports = self.all_stats()?;
        let mut port_lanes = Vec::new();
        if lanes.len() > 1 {
            for port in &ports {
                port_lanes.extend(self.stats_by_lane(&port.name)?);
            }
        }
        let guest = |port: PortStats| {
            let guest = self.index.guest_of(&port.name).map(str::to_string);
            (port, guest)
        };
        Ok(Scrape {
            node: self.status()?,
            ports: ports.into_iter().map(guest).collect(),
            port_lanes,
            lanes,
            flows: self.flow_stats().unwrap_or_default(),
            guests: Guest::all(self)?,
        })
    }

    /// What the switch's lanes did so far.
    pub fn lanes(&self) -> Result<Vec<LaneStats>> {
        let lanes = self.host.lanes()?;
        Ok(lanes.into_iter().map(LaneStats::from).collect())
    }

    /// Why a port that is wanted is not there.
    fn fault(&self, subject: &Subject) -> Option<String> {
        let own = self.host.fault(subject).map(str::to_string);
        let no_switch = || {
            let why = self.host.fault(&Subject::Switch)?;
            let there = self.host.switch_pid().is_some();
            (!there).then(|| format!("there is no switch: {why}"))
        };
        own.or_else(no_switch)
    }

    fn no_port(&self, name: &str) -> Error {
        Fault::NoPort { name: name.into() }.into()
    }

    /// Whether everything was removed, so that the node is to end.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Removes everything: guests, VNICs, links, the switch, the state. The node ends then.
    pub fn purge(&mut self) -> Result<()> {
        let guests = self.store.all::<GuestRecord>()?;
        let vnics = self.store.all::<VnicRecord>()?;
        // With a full disk all ends as well: it is only that a node which is killed meanwhile has
        // another bring it back.
        let _ = self.forget_all(&guests, &vnics);
        vnics.iter().for_each(remove_socket);
        for guest in guests {
            self.host.end_guest(guest.id);
        }
        let namespaces = self.remove_namespaces();
        self.restarts = Restarts::default();
        self.unkept.clear();
        self.index = Index::default();
        self.host.stop_switch();
        self.over = true;
        // The file is not in use any more but by us; a new node makes a new one.
        let _ = std::fs::remove_file(Store::file(&self.places.state));
        namespaces
    }

    /// Has the state be that nothing is wanted.
    fn forget_all(&self, guests: &[GuestRecord], vnics: &[VnicRecord]) -> Result<()> {
        let change = self.store.change()?;
        for guest in guests {
            change.remove::<GuestRecord>(&guest.name)?;
            change.put(&Leaving::of(guest))?;
        }
        for flow in self.store.all::<FlowRecord>()? {
            change.remove::<FlowRecord>(&flow.name)?;
        }
        for vnic in vnics {
            change.remove::<VnicRecord>(&vnic.name)?;
        }
        for entry in self.store.all::<EntryRecord>()? {
            change.remove::<EntryRecord>(&entry.name)?;
        }
        for link in self.store.all::<LinkRecord>()? {
            change.remove::<LinkRecord>(&link.name)?;
        }
        change.remove::<SwitchRun>(SwitchRun::NAME)?;
        Ok(change.commit()?)
    }
}

/// Removes the socket of a VNIC that goes, if it has one.
fn remove_socket(vnic: &VnicRecord) {
    if let Place::VhostUser(path) = vnic.place() {
        let _ = std::fs::remove_file(path);
    }
}
